//! `popen` and `pclose`: libc's own starts its shell where we can't hand it an
//! environment, so these do what POSIX asks for with `posix_spawn`.
//!
//! Apart from `system` because of the list of open streams: a new child closes
//! the streams of earlier calls.

use super::call;
use crate::real::{Object, errno, set_errno};
use core::ffi::{CStr, c_char, c_int};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering};
use relive_rt::environment::unseen;
use relive_rt::outside;
use relive_sys::front;
use relive_sys::lock::Lock;

const EINVAL: c_int = 22;
const EMFILE: c_int = 24;
const EINTR: c_int = 4;
const O_CLOEXEC: c_int = 0o2_000_000;
const F_SETFD: c_int = 2;
const OPEN_MAX: usize = 1024;

/// A stream and the process at its other end; 0 where free.
#[derive(Clone, Copy)]
struct Open {
    stream: usize,
    pid: c_int,
}

static STREAMS: Lock<[Open; OPEN_MAX]> = Lock::new([Open { stream: 0, pid: 0 }; OPEN_MAX]);

/// How many are in use.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// What closes this stream instead of `fclose`, which waits for the process, too, as libc's does; 0 if it is not one of these.
pub(crate) fn closes(stream: Object) -> usize {
    let is_here = || STREAMS.lock().iter().any(|open| open.stream == stream as usize);
    if COUNT.load(Ordering::Relaxed) != 0 && is_here() { pclose as *const () as usize } else { 0 }
}

/// `posix_spawn_file_actions_t` by size.
#[repr(C, align(8))]
struct Actions([u64; 10]);

front!(
    /// `popen`
    popen, 2, popen_front
);
front!(
    /// `_IO_popen`
    _IO_popen, 2, popen_front
);

fn fail(error: c_int) -> Object {
    set_errno(error);
    null_mut()
}

unsafe extern "C" fn popen_front(command: *const c_char, how: *const c_char, place: usize) -> Object {
    // SAFETY: the program passed two strings.
    let how_bytes = unsafe { CStr::from_ptr(how) }.to_bytes();
    let (reads, stays) = (how_bytes.contains(&b'r'), how_bytes.contains(&b'e'));
    if reads == how_bytes.contains(&b'w') {
        return fail(EINVAL);
    }
    let mut ends = [0; 2];
    // SAFETY: room for both ends.
    if unsafe { call::pipe2(ends.as_mut_ptr(), O_CLOEXEC) } != 0 {
        return null_mut();
    }
    let (ours, theirs) = if reads { (ends[0], ends[1]) } else { (ends[1], ends[0]) };
    let mode = if reads { c"r" } else { c"w" };
    // SAFETY: descriptors of our own.
    unsafe {
        let stream = call::fdopen(ours, mode.as_ptr());
        if stream.is_null() {
            let error = errno();
            call::close(ours);
            call::close(theirs);
            return fail(error);
        }
        // POSIX: what comes through a pipe to a shell are bytes.
        call::fwide(stream, -1);
        let started = start(command, theirs, c_int::from(reads), place);
        call::close(theirs);
        if let Err(error) = started.and_then(|pid| keep(stream, pid)) {
            call::fclose(stream);
            return fail(error);
        }
        if !stays {
            call::fcntl(ours, F_SETFD, 0);
        }
        stream
    }
}

/// Starts the shell with `end` as its descriptor number `to`.
unsafe fn start(command: *const c_char, end: c_int, to: c_int, place: usize) -> Result<c_int, c_int> {
    let mut actions = Actions([0; 10]);
    let actions = core::ptr::from_mut(&mut actions).cast();
    let arguments = [c"sh".as_ptr(), c"-c".as_ptr(), c"--".as_ptr(), command, core::ptr::null()];
    let mut pid = 0;
    // SAFETY: a buffer of glibc's size; descriptors of our own; the program's command.
    unsafe {
        call::actions_init(actions);
        if end == to {
            // A dup2 onto itself clears close-on-exec.
            call::fcntl(end, F_SETFD, 0);
        }
        // How many streams of others are open is a matter of luck.
        unseen(|| {
            for open in STREAMS.lock().iter().filter(|open| open.stream != 0) {
                let fd = call::fileno(open.stream as Object);
                if fd != to {
                    call::actions_close(actions, fd);
                }
            }
            call::actions_dup2(actions, end, to);
        });
        let shell = c"/bin/sh".as_ptr();
        let environment = super::own_environment();
        let to_do = [actions, null_mut()];
        let error = super::spawn(&raw mut pid, shell, to_do, arguments.as_ptr(), environment, super::How::Path, place);
        call::actions_destroy(actions);
        if error == 0 { Ok(pid) } else { Err(error) }
    }
}

fn keep(stream: Object, pid: c_int) -> Result<(), c_int> {
    let mut streams = STREAMS.lock();
    let free = streams.iter_mut().find(|open| open.stream == 0).ok_or(EMFILE)?;
    *free = Open { stream: stream as usize, pid };
    COUNT.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

front!(
    /// `pclose`
    pclose, 1, pclose_front
);

unsafe extern "C" fn pclose_front(stream: Object, _place: usize) -> c_int {
    let mut streams = STREAMS.lock();
    let Some(open) = streams.iter_mut().find(|open| open.stream == stream as usize) else {
        drop(streams);
        // SAFETY: not a stream of ours: libc says what is wrong with it.
        return unsafe { call::pclose(stream) };
    };
    let pid = open.pid;
    *open = Open { stream: 0, pid: 0 };
    COUNT.fetch_sub(1, Ordering::Relaxed);
    drop(streams);
    let mut status = 0;
    outside::may_wake();
    // SAFETY: the program's stream, closed once; a place for the status.
    unsafe {
        call::fclose(stream);
        while call::waitpid(pid, &raw mut status, 0) < 0 {
            if errno() != EINTR {
                return -1;
            }
        }
    }
    outside::may_have_reaped();
    status
}
