//! Signal handlers: a trampoline of ours stands in the kernel's table, the
//! program's handler in ours.
//!
//! A fault, and a signal that a thread sends to itself by `raise`, strikes at the
//! same instruction in every run and goes straight on. A fault counts as a call. Every other one is put off
//! to the thread's next operation, see `relive_rt::deferred`, unless the thread is
//! blocked inside a front. In a replay such a signal is dropped: the handler runs
//! where the recording says.

mod creation;
mod install;
mod mask;
mod send;
mod shown;

use crate::cancel;
use crate::condition;
use crate::real;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
pub(crate) use creation::{hold_back, let_through, started};
use relive_rt::deferred::{self, Arrival};
use relive_rt::environment::{self, alternate};
use relive_rt::thread::{self, Thread};
use relive_rt::{Mode, mode, replay, runtime};
use relive_sys::dispatch::is_program_call;
use relive_sys::signal::{Context, Info, Interrupted, SI_TKILL, is_own_code};
use relive_sys::sites::is_piece;
use relive_sys::syscall::number::{FUTEX, RESTART_SYSCALL};
use relive_sys::trampoline::Frame;
use relive_sys::{aside, tls, trampoline};

/// One more than the largest signal number.
pub(crate) const SIGNALS: usize = 65;

const SA_RESTART: u32 = 0x1000_0000;
const SA_ONSTACK: u32 = 0x0800_0000;
const SA_RESETHAND: u32 = 0x8000_0000;

/// What the program wants for a signal that the kernel sends to us.
#[derive(Debug)]
pub(crate) struct Wanted {
    handler: AtomicUsize,
    flags: AtomicU32,
}

static WANTED: [Wanted; SIGNALS] =
    [const { Wanted { handler: AtomicUsize::new(0), flags: AtomicU32::new(0) } }; SIGNALS];

/// Whether a handler was ever installed.
static HANDLES: AtomicBool = AtomicBool::new(false);

/// Slots of [`Frame::scratch`] of a handler: the list of watched frames of what it interrupted; how it is with its own
/// list, which starts anew where it may run on another stack, and at first whether the thread was aside; and the
/// assembly's two, where the stack aside ended by then, and where the program's was left.
const FRAMES: usize = 0;
const APART: usize = 1;
const ASIDE: usize = 2;
const LEFT: usize = 3;
/// Bits of the second: another stack, perhaps; what it struck was an operation known as a whole; it is the first handler
/// that is on the alternate stack.
const ON_STACK: usize = 1;
const UNSEEN: usize = 2;
const FIRST_THERE: usize = 4;

trampoline!(signal on_signal, before_handler, after_handler);

/// Whether a return address is that of a handler: in the function to which the kernel hands signals.
pub(crate) fn is_entry(place: usize) -> bool {
    /// Of its code, where it calls the handler. It has some more.
    const BYTES: usize = 384;
    let start = on_signal as *const () as usize;
    (start..start + BYTES).contains(&place)
}

unsafe extern "C" fn before_handler(frame: *mut Frame) -> usize {
    // SAFETY: the trampoline's frame; the kernel passes the number, the information and the context.
    unsafe {
        let [number, info, context, ..] = (*frame).args;
        let was_aside = (*frame).scratch[APART] != 0;
        (*frame).scratch[FRAMES] = tls::get::<{ tls::FRAMES }>();
        let arrival = decide(number as u32, &mut *(info as *mut Info), &mut *(context as *mut Context));
        if arrival == Arrival::Leave {
            return 0;
        }
        let wanted = &WANTED[number];
        let flags = wanted.flags.load(Ordering::Relaxed);
        if let Some(thread) = thread::current_if_known() {
            thread.signals.restarts = flags & SA_RESTART != 0;
        }
        if flags & SA_RESETHAND != 0 {
            install::reset(number as i32);
        }
        (*frame).scratch[APART] = sees_again();
        if flags & SA_ONSTACK != 0 {
            let is_first = alternate::begins(&*(context as *const Context), frame.addr());
            (*frame).scratch[APART] |= ON_STACK | if is_first { FIRST_THERE } else { 0 };
            // Frames are told inner from outer by address, which means nothing across stacks.
            tls::set::<{ tls::FRAMES }>(0);
        }
        if was_aside {
            shown::show(frame, (*frame).scratch[LEFT]);
        }
        aside::deepen();
        (*frame).watch(nothing);
        wanted.handler.load(Ordering::Acquire)
    }
}

unsafe extern "C" fn nothing(_frame: *mut Frame) {}

/// What a handler does is the program's, also where it strikes what libc does for an operation that the recording knows as a
/// whole: a signal that a thread sends to itself. Leaving the handler by a jump leaves that, too.
fn sees_again() -> usize {
    let was_unseen = thread::current_if_known().is_some_and(|thread| core::mem::replace(&mut thread.unseen, false));
    if was_unseen { UNSEEN } else { 0 }
}

unsafe extern "C" fn after_handler(frame: *mut Frame) -> usize {
    // SAFETY: the trampoline's frame.
    unsafe {
        (*frame).unwatch();
        shown::shown(frame);
        tls::set::<{ tls::FRAMES }>((*frame).scratch[FRAMES]);
        if (*frame).scratch[APART] & FIRST_THERE != 0 {
            alternate::returns();
        }
        if (*frame).scratch[APART] & UNSEEN != 0
            && let Some(thread) = thread::current_if_known()
        {
            thread.unseen = true;
        }
    }
    0
}

/// A jump to a stack pointer of `target` leaves the watched frames below it, and the handler on a stack of its own that
/// it isn't in. A target below the present frame is on some other stack: a coroutine is switched, and nothing is left.
pub(crate) fn leave_frames(target: usize) {
    let mut top = tls::get::<{ tls::FRAMES }>() as *mut Frame;
    let mut here = core::ptr::from_ref(&top).addr();
    while !top.is_null() {
        // SAFETY: a watched frame of this thread, on one of its stacks.
        let frame = unsafe { &*top };
        let handler = frame.unwound.is_some_and(|f| core::ptr::fn_addr_eq(f, nothing as unsafe extern "C" fn(_)));
        if handler && frame.scratch[APART] & ON_STACK != 0 {
            let is_first = frame.scratch[APART] & FIRST_THERE != 0;
            if if is_first { alternate::is_there(target) } else { (here..=top.addr()).contains(&target) } {
                break;
            }
            if is_first {
                alternate::jumps();
            }
            (top, here) = (frame.scratch[FRAMES] as *mut Frame, 0);
            aside::left_handler(frame.scratch[ASIDE]);
        } else if here <= target && top.addr() < target {
            top = frame.previous();
            if handler {
                aside::left_handler(frame.scratch[ASIDE]);
            }
        } else {
            break;
        }
    }
    tls::set::<{ tls::FRAMES }>(top.addr());
}

unsafe fn decide(number: u32, info: &mut Info, context: &mut Context) -> Arrival {
    let Some(thread) = thread::current_if_known() else { return Arrival::Run };
    let mode = mode();
    if thread.signals.is_ours(number) {
        return Arrival::Run;
    }
    if is_fault(info) {
        if mode != Mode::Off {
            // Its handler may do the same each time: by the number, what strikes there is told apart.
            thread.count_call(false);
        }
        return Arrival::Run;
    }
    // A replay can't watch a piece of code that stands for a changed instruction: it is ours, too.
    let inside = (is_own_code(context.place()) && !is_program_call(context.place())) || is_piece(context.place());
    // SAFETY: the kernel's context. In our own code such registers are left from sending a signal again.
    let call = if inside { None } else { unsafe { context.system_call() } };
    if mode == Mode::Off || is_sent_here(info, thread, call) {
        return Arrival::Run;
    }
    if mode == Mode::Replay {
        // A timer of the program runs in a replay too.
        return if !inside && replay::is_due(info) { Arrival::Run } else { Arrival::Leave };
    }
    let now = call.is_some_and(|c| !c.finished && is_in_front(context.place(), c));
    // A replay can't watch a call that is about to come to us: it ends a handler, if it is no operation of its own. One that
    // we make may be waiting, for ever.
    let at_call = environment::is_on() && call.is_some_and(|c| !c.finished) && !is_program_call(context.place());
    deferred::arrived(thread, info, context, now, inside || at_call)
}

/// A fault of the instruction itself: the kernel's codes for these are positive.
fn is_fault(info: &Info) -> bool {
    const FAULTS: [i32; 6] = [4, 5, 7, 8, 11, 31];
    info.code > 0 && FAULTS.contains(&info.number)
}

/// Whether the thread has just sent this signal to itself (`tgkill`, by `raise`, `abort` or `pthread_kill`).
fn is_sent_here(info: &Info, thread: &Thread, call: Option<Interrupted>) -> bool {
    let us = [u64::from(runtime::pid()), u64::from(thread.tid), info.number as u64];
    // Of the call only the arguments are left; `pthread_sigqueue` has the same.
    info.code == SI_TKILL && call.is_some_and(|c| c.finished && c.result == 0 && c.arguments == us)
}

/// Whether a thread that is blocked in a system call is so on behalf of a front: in a call that watches its frame,
/// or in a futex of libc that the program didn't ask for by itself.
fn is_in_front(place: usize, call: Interrupted) -> bool {
    const LONGEST: usize = 64;
    const FUTEX_COMMANDS: u64 = 0x7F;
    const FUTEX_WAITS: [u64; 4] = [0, 6, 9, 13];
    const NUMBERS: [u64; 2] = [FUTEX as u64, RESTART_SYSCALL as u64];
    let top = tls::get::<{ tls::FRAMES }>() as *const Frame;
    // SAFETY: null or a watched frame of this thread, which is still on its stack.
    let unwound = if top.is_null() { None } else { unsafe { (*top).unwound } };
    let points = [cancel::unwound as *const (), condition::unwound as *const ()];
    if unwound.is_some_and(|f| points.contains(&(f as *const ()))) {
        return true;
    }
    // The end of a handler has no arguments: what stands in their registers may look like those of a futex.
    if call.number.is_some_and(|number| !NUMBERS.contains(&number)) {
        return false;
    }
    let by_hand = real::at::system_call.address();
    FUTEX_WAITS.contains(&(call.arguments[1] & FUTEX_COMMANDS)) && !(by_hand..by_hand + LONGEST).contains(&place)
}
