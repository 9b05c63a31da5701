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

pub mod alone;
pub mod alternate;
pub(crate) mod atomics;
pub mod carried;
mod clock;
mod code;
mod copied;
mod descriptors;
mod emulated;
mod faults;
pub mod generated;
pub mod heap;
mod hidden;
pub mod identity;
mod images;
mod instructions;
mod itself;
mod lapses;
mod memory;
mod ordered;
mod output;
mod packed;
mod processes;
mod program;
mod segments;
mod shared;
mod signals;
mod simple;
mod space;
pub mod stacks;
mod stand;
mod system_v;
mod told;
mod unknown;
mod unseen;
mod visible;
mod words;
mod written;

pub use images::{Bare, Obstacle, library, on_bare_exec, records_attempts};
pub use itself::file_behind;
pub use ordered::{give_to, take_from};
pub use unseen::{child_made, in_turn_to_fork, unseen};

use crate::replay::calls as replayed;
use crate::report;
use crate::runtime::{self, Mode};
use crate::thread::{self, Thread};
use crate::{chunk, inputs, outside, process, replay, writer};
use core::sync::atomic::{AtomicBool, Ordering};
use relive_calls::{Effect, Resolved};
use relive_sys::dispatch::{self, SYS_USER_DISPATCH};
use relive_sys::frames::{File, Found, Known};
use relive_sys::signal::{Context, Info, is_own_code};
use relive_sys::sites::{Answer, Asked, caller};
use relive_sys::syscall::number::{CLONE, FORK, GETPID, PRLIMIT64, SETRLIMIT, VFORK};
use relive_sys::{aside, maps, passage, start, syscall};
use relive_trace::control::flag;
use relive_trace::layout::stop;

use emulated::emulate;
pub(crate) use memory::read as read_memory;
use program::Program;
pub use signals::{keep_signal, recall_signal, without_ours};
pub use stand::keep_stand;
pub use system_v::order_of_queues;

const EINVAL: isize = 22;

static ON: AtomicBool = AtomicBool::new(false);

/// Whether this process's system calls come here.
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// A stack aside for a new thread: its upper end, or 0 where our code stays on the program's stack.
pub(crate) fn stack_aside() -> usize {
    is_on().then(aside::allocate).flatten().unwrap_or(0)
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
    dispatch::after_clone(processes::created, processes::started);
    ON.store(true, Ordering::Relaxed);
    output::start();
    // SAFETY: the caller's promise; the starter's handover, which nobody else uses any more.
    let handover = unsafe { start::handover(auxiliary).map(|handover| &*handover) };
    if let Some(handover) = handover {
        memory::start(handover);
        itself::start(handover);
        packed::keep_opened(&handover.opened);
    }
    if let Some(thread) = thread::current_if_known() {
        thread.aside = stack_aside();
        // SAFETY: the stack goes with the thread's block.
        unsafe { aside::give(thread.aside) };
    }
    // SAFETY: the caller's promise.
    unsafe { clock::start(auxiliary) };
    redirect_sites();
    instructions::start(handover);
}

/// Turns the calls in the code mapped so far into jumps.
fn redirect_sites() {
    maps::each_file_of_code(|range, offset, path| {
        if !is_own_code(range.start) {
            carried::learn(&range, path);
            let fd = u32::try_from(syscall::open(path, syscall::O_RDONLY)).ok();
            let file = fd.map(File::open);
            let mut known = file.as_ref().map(Known::of);
            // A call with its comparison is one, wherever functions begin; jumps that lead between are phantoms mostly.
            let known = |asked, at: usize| match known.as_mut().filter(|_| asked == Asked::Jump) {
                Some(known) => known.with_opcode(offset + at).from(offset),
                None if asked == Asked::Call => Found::At(at),
                None => Found::Unsure,
            };
            // SAFETY: code of a file; the process has one thread, and it is here.
            unsafe { code::redirect(&range, fd, offset, known) };
            drop(file);
            if let Some(fd) = fd {
                syscall::close(fd);
            }
        }
    });
}

/// What the redirected calls come to.
unsafe extern "C" fn on_site(number: usize, arguments: *const [usize; 6], back: *const usize) -> Answer {
    // SAFETY: forwarded; an answer is two words.
    unsafe { aside::run(on_site_aside, number, arguments.addr(), back.addr(), 0, 0) }
}

unsafe extern "C" fn on_site_aside(number: usize, arguments: usize, back: usize, _: usize, _: usize) -> Answer {
    // SAFETY: the frame of the routine, and the arguments of a call of the program's, which it laid there.
    let (given, place) = unsafe { (&*(arguments as *const [usize; 6]), caller(back as *const usize)) };
    // Nearly all calls are libc's, and most of these ask for nothing more.
    if carried::is_in_library(place) && simple::is_simple(number, given) {
        return Answer::make(simple::made);
    }
    // SAFETY: as above.
    let carry_out = || Some(unsafe { carry_out_at_site(number, given) });
    Answer::done(carried::by_instruction(number, given, || place, carry_out).unwrap_or_default())
}

/// # Safety
/// As for the call itself.
#[inline(never)]
unsafe fn carry_out_at_site(number: usize, arguments: &[usize; 6]) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        if simple::is_simple(number, arguments) {
            return simple::made(number, arguments, dispatch::program_call(number, arguments));
        }
        let arguments = *arguments;
        if let Some(result) = signals::carry_out_directly(number, &arguments) {
            return result;
        }
        if let Some(result) = fork(number, &arguments).or_else(|| processes::create_directly(number, &arguments)) {
            return result;
        }
        call(number, arguments)
    }
}

/// Makes a process for a program that does so past libc's `fork`, whose front would say so before and after.
///
/// # Safety
/// As for the call itself.
unsafe fn fork(number: usize, arguments: &[usize; 6]) -> Option<isize> {
    const CLONE_THREAD: usize = 0x1_0000;
    // One with a stack of its own goes on elsewhere.
    let forks =
        matches!(number, FORK | VFORK) || number == CLONE && arguments[0] & CLONE_THREAD == 0 && arguments[1] == 0;
    if !forks || process::fork_is_announced() {
        return None;
    }
    process::before_fork(0);
    // SAFETY: the caller's promise.
    let result = unsafe { processes::create_directly(number, arguments) };
    process::after_fork(result.map_or(0, |result| -result.min(0)) as i32, 0);
    result
}

/// Frees what a thread of the parent may have held.
///
/// # Safety
/// Only in a fork child while it has one thread.
pub unsafe fn reset_after_fork() {
    images::reset_after_fork();
    system_v::reset_after_fork();
    visible::reset_after_fork();
    // SAFETY: the caller's promise.
    unsafe {
        memory::reset_after_fork();
        inputs::reset_after_fork();
        heap::reset_after_fork();
        replay::strike::reset_after_fork();
        processes::reset_after_fork();
        atomics::reset_after_fork();
    }
}

/// Whether other processes see memory of this one.
pub(crate) fn is_seen() -> bool {
    shared::may_be_seen()
}

/// Whether they see what lies there.
pub(crate) fn is_seen_at(address: usize) -> bool {
    visible::place(address).is_some()
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

/// The handler of `SIGSYS`.
unsafe extern "C" fn on_call(_signal: i32, info: *mut Info, context: *mut Context) {
    // SAFETY: forwarded.
    unsafe { aside::run(on_call_aside, info.addr(), context.addr(), 0, 0, 0) }
}

unsafe extern "C" fn on_call_aside(info: usize, context: usize, _: usize, _: usize, _: usize) {
    // SAFETY: the kernel's information and context.
    let (info, context) = unsafe { (&*(info as *const Info), &mut *(context as *mut Context)) };
    if alone::is_over() {
        alone::rest();
    }
    if info.code != SYS_USER_DISPATCH {
        return signals::foreign();
    }
    if info.is_of_gate() {
        // SAFETY: the context of such a call.
        return unsafe { unknown::refuse_gate(context) };
    }
    if passage::is_stub(context.place()) {
        // SAFETY: the context of a stub's call.
        return unsafe { replay::strike::on_stub(context) };
    }
    let (number, arguments, place) = (context.number(), context.arguments(), context.place());
    // SAFETY: the context of a trapped call.
    if let Some(result) = carried::by_instruction(number, &arguments, || place, || unsafe { carry_out(context) }) {
        context.set_result(result);
    }
    // One that is ours since this call.
    context.mask &= !signals::ours();
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
        if let Some(result) = fork(context.number(), &context.arguments()) {
            return Some(result);
        }
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
        let Some(thread) = taking_part() else { return unseen::carry_out(number, &arguments) };
        if identity::follows(number, thread) {
            return dispatch::program_call(number, &arguments);
        }
        // Also of libc's handler for cancellation, which runs when it runs. Once nothing is recorded any more, a process
        // that shares this one's memory may ask, too.
        if number == GETPID && (runtime::mode() == Mode::Replay || writer::is_recorded(thread)) {
            return own_id() as isize;
        }
        if output::moves_unseen(number, &arguments) {
            return -EINVAL;
        }
        let result = match relive_calls::resolve(number, &arguments, &Program) {
            Ok(Resolved::Emulate(outputs)) => {
                system_v::in_order(number, &arguments, || emulate(thread, number, &arguments, outputs))
            }
            // Behind the end of the recording nothing is in the way of the program.
            Ok(Resolved::Refuse(_)) if runtime::mode() == Mode::Record && !writer::is_recorded(thread) => {
                dispatch::program_call(number, &arguments)
            }
            Ok(Resolved::Refuse(errno)) => -(errno as isize),
            Ok(Resolved::Execute(effect)) => execute(thread, number, &arguments, effect),
            Err(named) => unknown::refuse(thread, number, &arguments, &named),
        };
        if runtime::mode() == Mode::Replay {
            replayed::say_if_done();
        } else if generated::is_owed(thread) {
            generated::pay(thread);
        }
        result
    }
}

/// The calling thread, if it records or replays.
fn taking_part() -> Option<&'static mut Thread> {
    let thread = thread::current_if_known()?;
    process::settle_fork(thread);
    (runtime::mode() != Mode::Off && !thread.unseen).then_some(thread)
}

/// # Safety
/// As for the call itself.
#[inline(never)]
unsafe fn execute(thread: &mut Thread, number: usize, arguments: &[usize; 6], effect: Effect) -> isize {
    if runtime::mode() == Mode::Replay {
        replay::lapse::let_go();
    }
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
                if result >= 0 {
                    outside::may_have_reaped();
                }
                result
            }
            Effect::Signals if processes::sends_signal(number) => processes::signal(thread, number, arguments),
            // What else has to do with signals happens in a replay where the recording says.
            Effect::Signals => emulate(thread, number, arguments, relive_calls::execute_outputs(number)),
            Effect::Exit => processes::exit(number, arguments),
            Effect::ThreadState => {
                if runtime::mode() == Mode::Replay {
                    let result = dispatch::program_call(number, arguments);
                    generated::hide(number, arguments, result);
                }
                // The answer may name the thread.
                emulate(thread, number, arguments, relive_calls::execute_outputs(number))
            }
            Effect::Futex if words::is_recorded(number, arguments) => emulate(thread, number, arguments, &[]),
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
        inputs::forget_file_limit();
        if runtime::mode() == Mode::Replay {
            // Its own id is another one now.
            let first = if number == PRLIMIT64 { 0 } else { first };
            dispatch::program_call(number, &[first, second, third, 0, 0, 0]);
        }
        result
    }
}
