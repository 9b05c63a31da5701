//! The real functions that stream operations are made of, other than the one
//! each stands in front of.

use super::stream::File;
use crate::real::real;
use core::ffi::{c_char, c_int};

real! {
    flockfile = c"flockfile", fn(stream: File);
    funlockfile = c"funlockfile", fn(stream: File);
    ftrylockfile = c"ftrylockfile", fn(stream: File) -> c_int;
    fflush = c"fflush", fn(stream: File) -> c_int;
    fflush_unlocked = c"fflush_unlocked", fn(stream: File) -> c_int;
    pending = c"__fpending", fn(stream: File) -> usize;
    list_lock = c"_IO_list_lock", fn();
    list_unlock = c"_IO_list_unlock", fn();
    list_reset = c"_IO_list_resetlock", fn();
    iterate = c"_IO_iter_begin", fn() -> File;
    iterate_next = c"_IO_iter_next", fn(stream: File) -> File;
    link = c"_IO_link_in", fn(stream: File);
    unlink = c"_IO_un_link", fn(stream: File);
    fopencookie = c"fopencookie", fn();
    fputs = c"fputs", fn(text: *const c_char, stream: File) -> c_int;
    fwide = c"fwide", fn(stream: File, mode: c_int) -> c_int;
    strerror_r = c"strerror_r", fn(number: c_int, room: *mut c_char, size: usize) -> *const c_char;
    vsnprintf = c"vsnprintf", fn(out: *mut c_char, size: usize, format: *const c_char, list: usize) -> c_int;
}
