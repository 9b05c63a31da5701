//! The environment: what the program takes from outside, recorded and handed
//! back.
//!
//! Each system call of the program comes here, whichever instruction made it, and
//! goes one of four ways, as the closed table of `relive-calls` says.
//!
//! *Emulated*: the kernel is asked in the recording only. What it returned, and
//! the memory that it wrote, stand in the calling thread's stream between two
//! events; a replay takes them from there. The call itself is no event: whatever
//! it waited for, it waits for nothing in a replay, and its results do not depend
//! on what other threads do there. Data-driven values within an order-driven
//! replay are section 3.2 of Fagot & Chassin de Kergommeaux 1995.
//!
//! *Executed*: memory, threads, processes, signals are real in a replay, too.
//! Where the kernel chooses (an address, a process id), its choice is recorded and
//! imposed or translated. Calls that change the address space are events on one
//! clock, held across the call: an address may be free for one thread only
//! because another gave it back.
//!
//! *Refused*: an errno that makes programs fall back to other calls.
//!
//! *Unknown*: a request whose shape the table does not know ends the recording
//! with a message. Guessing what the kernel wrote would replay something else.

mod clock;
mod descriptors;
mod images;
mod itself;
mod memory;
mod output;
mod processes;
mod signals;
mod space;

pub use images::{Bare, on_bare_exec, records_attempts};
pub use itself::file_behind;

use crate::replay::calls as replayed;
use crate::report;
use crate::runtime::{self, Mode};
use crate::thread::{self, Thread};
use crate::{chunk, process, writer};
use core::sync::atomic::{AtomicBool, Ordering};
use relive_calls::{Effect, Output, Resolved, Unknown};
use relive_sys::dispatch::{self, SYS_USER_DISPATCH};
use relive_sys::signal::{Context, Info, is_own_code};
use relive_sys::syscall::number::{PRLIMIT64, SETRLIMIT};
use relive_sys::{maps, sites, start};
use relive_trace::control::flag;
use relive_trace::layout::stop;

const EINVAL: isize = 22;

static ON: AtomicBool = AtomicBool::new(false);

/// Whether this process's system calls come here.
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// The id of this process as the program knows it: the recorded one, where the environment is replayed.
pub fn own_id() -> u32 {
    if is_on() && runtime::process_mode() == Mode::Replay {
        runtime::plan().process(runtime::process()).pid
    } else {
        runtime::pid()
    }
}

/// From here on the calling process's system calls come here, if the session wants that.
///
/// # Safety
/// At start-up, in the first thread; `auxiliary` must be the process's auxiliary vector or null.
pub unsafe fn begin(auxiliary: *const [usize; 2]) {
    if runtime::process_mode() == Mode::Off || !runtime::has_flag(flag::ENVIRONMENT) {
        return;
    }
    if !dispatch::install(on_call) || !dispatch::arm() {
        return lack();
    }
    dispatch::after_clone(processes::created);
    ON.store(true, Ordering::Relaxed);
    output::start();
    // SAFETY: the caller's promise; the starter's handover, which nobody else uses any more.
    if let Some(handover) = unsafe { start::handover(auxiliary).map(|handover| &*handover) } {
        memory::start(handover);
        itself::start(handover);
    }
    // SAFETY: the caller's promise.
    unsafe { clock::start(auxiliary) };
    redirect_sites();
}

/// Turns the calls in the code mapped so far into jumps.
fn redirect_sites() {
    maps::each_code(|start, end| {
        if !is_own_code(start) {
            // SAFETY: code of a file; the process has one thread, and it is here.
            unsafe { sites::redirect(start, end, on_site) };
        }
    });
}

/// What the redirected calls come to.
unsafe extern "C" fn on_site(number: usize, arguments: *const [usize; 6]) -> isize {
    // SAFETY: the arguments of a call of the program's, which the routine laid there.
    unsafe {
        let arguments = *arguments;
        if let Some(result) = signals::carry_out_directly(number, &arguments) {
            return result;
        }
        if let Some(result) = processes::create_directly(number, &arguments) {
            return result;
        }
        call(number, arguments)
    }
}

/// Frees what a thread of the parent may have held.
///
/// # Safety
/// Only in a fork child while it has one thread.
pub unsafe fn reset_after_fork() {
    images::reset_after_fork();
    // SAFETY: the caller's promise.
    unsafe { memory::reset_after_fork() };
}

fn lack() {
    let pid = runtime::pid();
    report::line(format_args!(
        "the environment of process {pid} is not recorded: this kernel has no Syscall User Dispatch (Linux 5.11)"
    ));
    if runtime::mode() == Mode::Record {
        chunk::stop_recording(stop::REFUSED, 0);
    }
}

/// Memory of the program, as a call's arguments name it.
struct Program;

impl relive_calls::Memory for Program {
    fn u32(&self, address: usize) -> u32 {
        // SAFETY: the table asks for what the kernel has just read or written.
        unsafe { (address as *const u32).read_unaligned() }
    }

    fn u64(&self, address: usize) -> u64 {
        // SAFETY: as above.
        unsafe { (address as *const u64).read_unaligned() }
    }

    fn try_u32(&self, address: usize) -> Option<u32> {
        let mut bytes = [0; 4];
        memory::read(address, &mut bytes).then(|| u32::from_le_bytes(bytes))
    }

    fn try_u64(&self, address: usize) -> Option<u64> {
        let mut bytes = [0; 8];
        memory::read(address, &mut bytes).then(|| u64::from_le_bytes(bytes))
    }
}

/// The handler of `SIGSYS`.
unsafe extern "C" fn on_call(_signal: i32, info: *mut Info, context: *mut Context) {
    // SAFETY: the kernel's information and context.
    let (info, context) = unsafe { (&*info, &mut *context) };
    if info.code != SYS_USER_DISPATCH {
        return signals::foreign();
    }
    // SAFETY: the context of a trapped call.
    if let Some(result) = unsafe { carry_out(context) } {
        context.set_result(result);
    }
}

/// What became of a call that was trapped.
#[derive(Clone, Copy, Debug)]
enum Trapped {
    /// Nothing: it is for somebody else.
    Other,
    /// It returned this.
    Result(isize),
    /// The context says how the thread goes on.
    GoesOn,
}

/// Carries out the call at which `context` stands. `None` if the context says how the thread goes on.
unsafe fn carry_out(context: &mut Context) -> Option<isize> {
    // SAFETY: the caller's promise, and what the program asks for is its own doing.
    unsafe {
        for trapped in [signals::carry_out, processes::create] {
            match trapped(context) {
                Trapped::Result(result) => return Some(result),
                Trapped::GoesOn => return None,
                Trapped::Other => {}
            }
        }
        Some(call(context.number(), context.arguments()))
    }
}

/// Carries out a call that needs nothing of the registers but its arguments.
///
/// # Safety
/// As for the call itself.
pub unsafe fn call(number: usize, arguments: [usize; 6]) -> isize {
    // SAFETY: the caller's promise, in each branch.
    unsafe {
        let Some(thread) = taking_part() else { return dispatch::program_call(number, &arguments) };
        if output::moves_unseen(number, &arguments) {
            return -EINVAL;
        }
        match relive_calls::resolve(number, &arguments, &Program) {
            Ok(Resolved::Emulate(outputs)) => emulate(thread, number, &arguments, outputs),
            Ok(Resolved::Refuse(errno)) => -(errno as isize),
            Ok(Resolved::Execute(effect)) => execute(thread, number, &arguments, effect),
            Err(unknown) => refuse(thread, number, &arguments, &unknown),
        }
    }
}

/// The calling thread, if it records or replays.
fn taking_part() -> Option<&'static mut Thread> {
    let thread = thread::current_if_known()?;
    process::settle_fork(thread);
    (runtime::mode() != Mode::Off).then_some(thread)
}

/// # Safety
/// As for the call itself.
#[inline(never)]
unsafe fn execute(thread: &mut Thread, number: usize, arguments: &[usize; 6], effect: Effect) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        match effect {
            Effect::Memory if matches!(number, PRLIMIT64 | SETRLIMIT) => limit(thread, number, arguments),
            Effect::Memory => memory::carry_out(thread, number, arguments),
            Effect::Wait => {
                let result = emulate(thread, number, arguments, relive_calls::execute_outputs(number));
                if runtime::mode() == Mode::Replay {
                    processes::waited(number, arguments, result);
                }
                result
            }
            Effect::Signals if processes::sends_signal(number) => processes::signal(thread, number, arguments),
            // What else has to do with signals happens in a replay where the recording says.
            Effect::Signals => emulate(thread, number, arguments, relive_calls::execute_outputs(number)),
            Effect::Exit => processes::exit(number, arguments),
            Effect::Exec => images::carry_out(thread, number, arguments),
            _ => dispatch::program_call(number, arguments),
        }
    }
}

/// Limits hold in a replay as far as it may have them; the program is told what it was told.
///
/// # Safety
/// As for the call itself.
unsafe fn limit(thread: &mut Thread, number: usize, arguments: &[usize; 6]) -> isize {
    let [first, second, third, ..] = *arguments;
    // SAFETY: the caller's promise; the second time nothing is written.
    unsafe {
        let result = emulate(thread, number, arguments, relive_calls::execute_outputs(number));
        if runtime::mode() == Mode::Replay {
            // Its own id is another one now.
            let first = if number == PRLIMIT64 { 0 } else { first };
            dispatch::program_call(number, &[first, second, third, 0, 0, 0]);
        }
        result
    }
}

/// # Safety
/// As for the call itself.
#[inline(never)]
unsafe fn emulate(thread: &mut Thread, number: usize, arguments: &[usize; 6], outputs: &[Output]) -> isize {
    let before = relive_calls::before(outputs, arguments, &Program);
    if runtime::mode() == Mode::Record {
        // SAFETY: the caller's promise; after the call the kernel has written the pieces.
        unsafe {
            let mut mask = signals::Mask::default();
            let result = itself::read_link(number, arguments).unwrap_or_else(|| {
                let result = dispatch::program_call(number, &mask.without_ours(number, arguments));
                itself::answer(number, arguments, result)
            });
            writer::append_call(thread, number, result, &|visit| {
                relive_calls::written(outputs, arguments, &before, result, &Program, visit);
            });
            descriptors::follow(number, arguments, result);
            return result;
        }
    }
    let taken = replayed::take(number);
    let result = taken.result;
    let mut filler = taken.filler();
    relive_calls::written(outputs, arguments, &before, result, &Program, &mut |address, length| {
        // SAFETY: memory that the kernel wrote in the recording, by the same arguments.
        unsafe { filler.fill(address, length) };
    });
    filler.finish(number);
    descriptors::follow(number, arguments, result);
    // SAFETY: what the program wrote is readable: the kernel read it in the recording.
    unsafe { output::show(number, arguments, result) };
    result
}

/// # Safety
/// As for the call itself.
#[inline(never)] // Its buffers would weigh on the stack of every call.
unsafe fn refuse(thread: &mut Thread, number: usize, arguments: &[usize; 6], unknown: &Unknown) -> isize {
    if runtime::mode() == Mode::Replay {
        replayed::diverge(number);
    }
    let Unknown { call, request } = unknown;
    report::line(format_args!(
        "recording stopped: system call {number} ({call}, request {request:#x}) is not known; the program goes on, the \
         trace is valid up to here"
    ));
    chunk::stop_recording(stop::REFUSED, thread.clock_base());
    // SAFETY: the caller's promise.
    unsafe { dispatch::program_call(number, arguments) }
}
