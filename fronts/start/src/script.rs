//! From the file that was named to the program that runs: a script's interpreter
//! runs, with the script as an argument, as the kernel has it.

use crate::arguments::Passed;
use crate::fail;
use crate::files;
use crate::kept;
use crate::leave::{self, PATH_MAX};
use crate::load::{self, Program};
use crate::scratch::Scratch;
use core::ffi::{CStr, c_char};
use relive_sys::elf::{HEAD_BYTES, script};
use relive_sys::start::Handover;
use relive_sys::syscall;

/// Interpreters that are scripts themselves.
const DEPTH: usize = 5;

/// Opens a file and reads its start.
pub(crate) fn open<'a>(path: &CStr, scratch: &mut Scratch, handover: &mut Handover) -> (u32, &'a [u8]) {
    let fd = files::open(path, handover);
    if fd < 0 {
        fail(path, "it can't be opened", fd);
    }
    // SAFETY: fresh memory of this size.
    let head = unsafe { core::slice::from_raw_parts_mut(scratch.take(HEAD_BYTES), HEAD_BYTES) };
    let mut got = 0;
    while got < head.len() {
        match syscall::read(fd as u32, &mut head[got..]) {
            more @ 1.. => got += more as usize,
            _ => break,
        }
    }
    (fd as u32, &head[..got])
}

/// Follows scripts, and maps the program at the end.
pub(crate) fn follow(passed: &mut Passed, scratch: &mut Scratch, handover: &mut Handover) -> Program {
    let mut file = passed.file;
    for depth in 0..=DEPTH {
        let (fd, head) = open(file, scratch, handover);
        let Some((interpreter, argument)) = script(head) else {
            let mut path = [0; PATH_MAX];
            leave::keep_file(files::known(file, fd, &mut path));
            let program = load::program(file, fd, head, scratch, handover);
            syscall::close(fd);
            return program;
        };
        kept::script(file, fd, head);
        syscall::close(fd);
        let interpreter = terminated(interpreter, scratch);
        // The name that the script was found by: ours, or the one in the script before.
        let name = if depth == 0 { passed.name } else { file };
        put_in_front(passed, [Some(interpreter), argument.map(|text| terminated(text, scratch)), Some(name)], scratch);
        file = interpreter;
    }
    fail(passed.file, "too many interpreters in a row", 0)
}

fn terminated(text: &[u8], scratch: &mut Scratch) -> &'static CStr {
    let copy = scratch.take(text.len() + 1);
    // SAFETY: room for the text, and a zero behind it.
    unsafe {
        core::ptr::copy_nonoverlapping(text.as_ptr(), copy, text.len());
        CStr::from_ptr(copy.cast())
    }
}

/// Puts words in the place of `argv[0]`.
fn put_in_front(passed: &mut Passed, words: [Option<&'static CStr>; 3], scratch: &mut Scratch) {
    let rest = passed.arguments.get(1..).unwrap_or(&[]);
    let room = words.len() + rest.len();
    // SAFETY: fresh memory of this size.
    let list = unsafe { core::slice::from_raw_parts_mut(scratch.take(room * 8).cast::<*const c_char>(), room) };
    let mut count = 0;
    for word in words.into_iter().flatten().map(CStr::as_ptr).chain(rest.iter().copied()) {
        list[count] = word;
        count += 1;
    }
    passed.arguments = &list[..count];
}
