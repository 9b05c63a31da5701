//! Another program in the place of this one: through the starter, so that its
//! addresses are ours to choose, too.
//!
//! What the kernel would refuse must fail here: once the starter runs it is too
//! late. So a file is looked at first; what the starter can't start, or should
//! not (static or set-id programs), goes to the kernel as it is.
//!
//! A recording notes the file before each attempt, by its full path, because a
//! replay is in no folder of the program's, and behind it why it failed, if it did.

mod desk;
mod file;
mod reach;
mod stripped;

use super::{generated, itself, memory};
use crate::replay::calls as replayed;
use crate::runtime::{self, Mode};
use crate::thread::Thread;
use crate::{process, report, writer};
use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, Ordering};
use desk::{Desk, IN_FRONT, PATH_MAX, each_pointer, text};
pub(super) use desk::{release, reset_after_fork};
use reach::Starter;
pub use reach::{Obstacle, library};
use relive_sys::dispatch::program_call;
use relive_sys::syscall::number::{EXECVE, PRLIMIT64};
use relive_sys::syscall::{self, syscall6};
use relive_trace::control::ENV_CONTROL;

/// What a recording has for the limit of the stack of an image that it had to do without: none is so small.
const WITHOUT_SESSION: usize = 1;

const EPERM: isize = -1;
const ENOENT: isize = -2;
const ENOMEM: isize = -12;
const EACCES: isize = -13;

/// Whether attempts to start another program are recorded here, failures too.
pub fn records_attempts() -> bool {
    super::is_on() && itself::handover().is_some()
}

/// What gives a program that is started by the bare call the session's environment.
pub type Bare = unsafe extern "C" fn(number: usize, arguments: *const [usize; 6]) -> isize;

static BARE: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Sets what is called where a program is started without libc. It comes back with the session's environment.
pub fn on_bare_exec(function: Bare) {
    BARE.store(function as *mut (), Ordering::Relaxed);
}

/// `execve` and `execveat`.
///
/// # Safety
/// As for the call itself.
pub(super) unsafe fn carry_out(thread: &mut Thread, number: usize, arguments: &[usize; 6]) -> isize {
    generated::leave_image();
    // SAFETY: the caller's promise.
    let result = unsafe { start(thread, number, arguments) };
    generated::stay_in_image();
    result
}

unsafe fn start(thread: &mut Thread, number: usize, arguments: &[usize; 6]) -> isize {
    // SAFETY: the caller's promise, in each branch.
    unsafe {
        let environment = arguments[if number == EXECVE { 2 } else { 3 }];
        let bare = BARE.load(Ordering::Relaxed);
        if itself::handover().is_none() {
            return program_call(number, arguments);
        }
        if !bare.is_null() && syscall::getpid() == runtime::pid() && has_control(environment) == Some(false) {
            return core::mem::transmute::<*mut (), Bare>(bare)(number, arguments);
        }
        let list = arguments[if number == EXECVE { 1 } else { 2 }];
        let count = each_pointer(list, |_, _| true);
        let Some((desk, words)) = desk::borrow(count.unwrap_or(0)) else { return ENOMEM };
        if count.is_none() || file::find(number, arguments, desk).is_none() {
            desk.file[0] = 0;
        }
        let result = match runtime::mode() {
            Mode::Replay => replay(thread, number, arguments, desk, words),
            _ => record(thread, number, arguments, desk, words),
        };
        release(syscall::getpid());
        result
    }
}

unsafe fn record(
    thread: &mut Thread,
    number: usize,
    arguments: &[usize; 6],
    desk: &mut Desk,
    words: &mut [usize],
) -> isize {
    // SAFETY: the caller's promise, and a local array.
    unsafe {
        let mut stack = stack_limit().min(isize::MAX as usize);
        let mut starter = None;
        if let Some(handover) = itself::handover().filter(|_| desk.file[0] != 0) {
            let found =
                if desk.is_go != 0 { Err(Obstacle::Go) } else { reach::starter(CStr::from_ptr(handover.starter)) };
            match found {
                Ok(reached) => starter = Some(reached),
                Err(why) => {
                    let (id, name) = (syscall::getpid(), text(&desk.name).to_str().unwrap_or("(name is not UTF-8)"));
                    report::line(format_args!("process {id}: {name} is not recorded: {why}"));
                    desk.file[0] = 0;
                    stack = WITHOUT_SESSION;
                }
            }
        }
        let file = text(&desk.file);
        let (address, length) = (file.as_ptr().addr(), file.count_bytes());
        writer::append_call(thread, EXECVE, stack as isize, &|visit| visit(address, length));
        let result = attempt(number, arguments, (desk, words), starter, stack);
        writer::append_call(thread, EXECVE, result, &|_| {});
        result
    }
}

unsafe fn replay(
    thread: &Thread,
    number: usize,
    arguments: &[usize; 6],
    desk: &mut Desk,
    words: &mut [usize],
) -> isize {
    let taken = replayed::take(EXECVE);
    let mut filler = taken.filler();
    let length = filler.left().min(PATH_MAX - 1);
    desk.file[length] = 0;
    // SAFETY: room of this size.
    unsafe { filler.fill(desk.file.as_mut_ptr().addr(), length) };
    filler.finish(EXECVE);
    if let Some(error) = replayed::failure_of_exec() {
        return error;
    }
    replayed::say_if_done();
    let is_own = syscall::getpid() == runtime::pid();
    if desk.file[0] == 0 && !process::has_recorded_image(thread) {
        leave_out(text(&desk.name), is_own);
    }
    if is_own {
        process::leaves_image();
    }
    // SAFETY: the caller's promise.
    let result = unsafe {
        let handover = itself::handover().filter(|_| desk.file[0] != 0);
        let starter = handover.and_then(|handover| reach::usual(CStr::from_ptr(handover.starter)));
        attempt(number, arguments, (desk, words), starter, taken.result as usize)
    };
    if is_own {
        process::stays_in_image();
    }
    result
}

/// A program that could not be recorded is not started again: what it did outside happened once, and a replay has the
/// rights of its own user. Whoever waits for the process is told what was recorded. A static program is started
/// nevertheless if what it started in turn was recorded, which nobody else would start.
fn leave_out(name: &CStr, is_own: bool) -> ! {
    const SIGKILL: u32 = 9;
    if is_own {
        process::wait_for_all();
    }
    let (id, name) = (syscall::getpid(), name.to_str().unwrap_or("(name is not UTF-8)"));
    report::line(format_args!("process {id}: {name} was not recorded and is not started"));
    runtime::session().left_out.store(id, Ordering::Release);
    if !is_own {
        // It shares the memory of a process that goes on: nothing of that may take the end for its own.
        syscall::tgkill(id, id, SIGKILL);
    }
    syscall::exit_group(0)
}

/// The soft limit that the new image's stack comes from.
fn stack_limit() -> usize {
    const RLIMIT_STACK: usize = 3;
    let mut limits = [0usize; 2];
    // SAFETY: without a new limit only the old one, two words, is written.
    unsafe { syscall6(PRLIMIT64, 0, RLIMIT_STACK, 0, limits.as_mut_ptr().addr(), 0, 0) };
    limits[0]
}

/// Makes the call, through the starter if there is a file for it.
unsafe fn attempt(
    number: usize,
    arguments: &[usize; 6],
    (desk, words): (&mut Desk, &mut [usize]),
    starter: Option<Starter<'_>>,
    stack: usize,
) -> isize {
    let (list, environment) = if number == EXECVE { (1, 2) } else { (2, 3) };
    // SAFETY: the caller's promise; the list was readable, and the words have room for it.
    unsafe {
        let Some((handover, starter)) = itself::handover().zip(starter) else {
            let mut given = *arguments;
            if stack == WITHOUT_SESSION && desk.file[0] == 0 {
                let Some(own) = stripped::without_session(arguments[environment]) else { return ENOMEM };
                given[environment] = own;
            }
            return program_call(number, &given);
        };
        desk.tell(CStr::from_ptr(handover.options), stack);
        let told = [desk.options.as_ptr(), desk.file.as_ptr(), desk.name.as_ptr()].map(<*const u8>::addr);
        let front = [handover.starter.addr(), told[0], told[1], told[2]];
        words[..IN_FRONT].copy_from_slice(&front);
        let mut count = 0;
        each_pointer(arguments[list], |index, pointer| {
            let fits = index + IN_FRONT + 1 < words.len();
            if fits {
                words[index + IN_FRONT] = pointer;
                count = index + 1;
            }
            fits
        });
        if count == 0 {
            // As newer kernels do.
            words[IN_FRONT] = c"".as_ptr().addr();
            count = 1;
        }
        words[IN_FRONT + count] = 0;
        let result = starter.execute(words.as_ptr().addr(), arguments[environment]);
        // The starter itself is not there any more, or may not run.
        if matches!(result, ENOENT | EPERM | EACCES) { program_call(number, arguments) } else { result }
    }
}

/// Whether an environment names the session; `None` if it is not readable.
fn has_control(environment: usize) -> Option<bool> {
    const BYTES: usize = ENV_CONTROL.len() + 1;
    let mut found = false;
    each_pointer(environment, |_, entry| {
        let mut start = [0u8; BYTES];
        found = memory::read(entry, &mut start) && start.strip_suffix(b"=") == Some(ENV_CONTROL.as_bytes());
        !found
    })?;
    Some(found)
}
