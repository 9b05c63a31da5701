//! Which loaded file an address lies in.

use crate::real;
use core::ffi::{CStr, c_char, c_void};

/// A loaded program or library.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Module {
    /// File name without folders; empty for the program.
    pub(crate) file: &'static [u8],
    /// What is added to the addresses in the file.
    pub(crate) bias: usize,
    /// First address.
    pub(crate) start: usize,
    /// First address behind it.
    pub(crate) end: usize,
}

/// The result of `_dl_find_object` (glibc 2.35), 96 bytes.
#[repr(C)]
struct Found {
    flags: u64,
    start: usize,
    end: usize,
    map: *const LinkMap,
    eh_frame: usize,
    reserved: [u64; 7],
}

/// The public head of the dynamic linker's `struct link_map`.
#[repr(C)]
struct LinkMap {
    bias: usize,
    path: *const c_char,
}

/// The module that holds `address`, which must be in use and so stay loaded.
pub(crate) fn find(address: usize) -> Option<Module> {
    let mut found = Found { flags: 0, start: 0, end: 0, map: core::ptr::null(), eh_frame: 0, reserved: [0; 7] };
    // SAFETY: the structure has the size that glibc writes; the caller's promise keeps the map.
    unsafe {
        if real::find_object(address, (&raw mut found).cast::<c_void>()) != 0 || found.map.is_null() {
            return None;
        }
        let path = CStr::from_ptr((*found.map).path).to_bytes();
        let file = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
        Some(Module { file, bias: (*found.map).bias, start: found.start, end: found.end })
    }
}
