//! Signals: when their handlers run.
//!
//! A handler changes what the program sees between two of its operations, so a
//! replay must run it between the same two. A signal that arrives while its thread
//! computes is therefore put off to the thread's next operation; there the
//! recording says so, by [`Record::Signal`] and an event that orders the handler
//! behind the sender, and the signal is sent again, to this thread, with the same
//! information. The kernel then builds the frame, switches stacks and masks
//! signals as the program asked for.
//!
//! A thread that is blocked inside one of our fronts gets the signal at once: the
//! front is the next operation already. One that computes without end gets it
//! after [`PATIENCE_MS`]. With a recorded environment a replay finds that place
//! again (`replay::strike`); without, it runs that handler as soon as the thread is
//! past its last operation.
//!
//! A thread that has left its start routine may come to no operation any more. It
//! gets the signal at once, and a replay runs the handler behind its last operation.
//! One that finds it in our own code is left to other threads, if it was sent to the
//! process; should the thread come to an operation after all, and nobody have taken
//! it, it is handled there.
//!
//! In a replay no signal is sent: handlers run where the recording says.

use crate::environment::{self, carried};
use crate::object::{Internal, internal};
use crate::outside;
use crate::record::{self, attention};
use crate::replay;
use crate::report;
use crate::runtime;
use crate::thread::Thread;
use core::sync::atomic::{Ordering, compiler_fence};
use relive_order::Kind;
use relive_sys::signal::{
    Context, Info, SI_QUEUE, SI_TIMER, Timer, block, handler_is_own, is_blocked, queue, queue_to_process, take_pending,
    unblock,
};
use relive_sys::tls;
use relive_trace::control::cause;
use relive_trace::record::{COMPUTING, Record};

/// How long a signal is put off at most.
pub const PATIENCE_MS: u32 = 10;
const PENDING: usize = 16;

/// Signals that a thread was sent and has not yet handled. Handlers of ours and the thread itself use it, never at
/// the same moment: what a handler interrupts sees its changes as a whole, because it only appends.
#[derive(Debug)]
pub struct Deferred {
    pending: [Option<Info>; PENDING],
    /// Those that it left to other threads, and blocks until its next operation; as bits of a mask.
    left: u64,
    /// The signal that the thread sends to itself now.
    sending: Option<u32>,
    timer: Option<Timer>,
    /// The number of the event, from 1, before which none is delivered; 0 for none.
    held_at: u64,
    /// Handlers run so far.
    pub delivered: u32,
    /// Whether calls that the last one interrupted are made again (`SA_RESTART`).
    pub restarts: bool,
    /// The watch on the place where the next one strikes, in a replay.
    pub strike: Option<usize>,
    /// Where the last one struck while the thread computed, and the stack pointer there: it goes back to it.
    pub struck: [usize; 2],
    /// The thread makes a process, with a lock held that its handler might want to take: none runs meanwhile.
    pub makes_process: bool,
}

impl Deferred {
    /// No signals.
    pub const NONE: Self = Self {
        pending: [None; PENDING],
        left: 0,
        sending: None,
        timer: None,
        held_at: 0,
        delivered: 0,
        restarts: false,
        strike: None,
        struck: [0; 2],
        makes_process: false,
    };

    /// Whether this is the signal that [`deliver_pending`] or [`replay`] has just sent.
    pub fn is_ours(&mut self, number: u32) -> bool {
        let ours = self.sending == Some(number);
        if ours {
            self.sending = None;
        }
        ours
    }
}

/// What a handler has to do with a signal that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Run the program's handler.
    Run,
    /// Return.
    Leave,
}

/// Real-time signals are queued, others are not.
const FIRST_QUEUED: i32 = 32;

/// A signal arrived while recording. `now` says that the thread is blocked inside a front, `inside` that it is in
/// our own code, where nothing may be recorded.
pub fn arrived(thread: &mut Thread, info: &mut Info, context: &mut Context, now: bool, inside: bool) -> Arrival {
    if info.code == SI_TIMER && info.value == cookie(thread) {
        return patience_ended(thread, info, context, inside);
    }
    if now && !thread.signals.makes_process {
        note(thread, info);
        return Arrival::Run;
    }
    if thread.finished {
        // Behind its start routine there may be no next operation.
        if !inside {
            note_at(thread, info, COMPUTING);
            return Arrival::Run;
        }
        if info.is_of_process(runtime::pid()) && leave_to_others(thread, info, context) {
            return Arrival::Leave;
        }
    }
    let same = |p: &Option<Info>| p.is_some_and(|p| p.number == info.number);
    if info.number >= FIRST_QUEUED || !thread.signals.pending.iter().any(same) {
        // A standard signal that is pending already is not queued, here as in the kernel.
        let Some(free) = thread.signals.pending.iter().position(Option::is_none) else {
            note(thread, info);
            return Arrival::Run;
        };
        thread.signals.pending[free] = Some(*info);
    }
    compiler_fence(Ordering::SeqCst);
    attention::raise(attention::SIGNAL);
    if thread.signals.timer.is_none() {
        be_patient(thread, info.number);
    }
    Arrival::Leave
}

/// Has the kernel keep a signal that the thread blocks: for any other, too, if this one may end without asking again.
fn give_back(thread: &Thread, info: &Info) {
    let for_all = thread.finished && info.is_of_process(runtime::pid());
    if !for_all || queue_to_process(thread.tid, info) != 0 {
        queue(runtime::pid(), thread.tid, info);
    }
}

/// Gives a signal back to the process. The thread itself gets it no more: neither in this handler, which need not block
/// it by itself, nor behind.
fn leave_to_others(thread: &mut Thread, info: &Info, context: &mut Context) -> bool {
    block(info.number as u32);
    if queue_to_process(thread.tid, info) != 0 {
        return false;
    }
    let bit = 1 << (info.number - 1);
    context.mask |= bit;
    thread.signals.left |= bit;
    attention::raise(attention::SIGNAL);
    true
}

/// The thread has come to an operation: what it left to others, and nobody took, it may well handle by itself.
fn take_back(thread: &mut Thread) {
    let left = core::mem::replace(&mut thread.signals.left, 0);
    for number in (1..=64).filter(|number| left >> (number - 1) & 1 != 0) {
        let Some(free) = thread.signals.pending.iter().position(Option::is_none) else { break };
        // Our own timer may have struck meanwhile.
        let of_program = |info: &Info| info.code != SI_TIMER || info.value != cookie(thread);
        let taken = take_pending(number).filter(of_program).or_else(|| take_pending(number));
        thread.signals.pending[free] = taken;
    }
    if left != 0 {
        unblock(left);
    }
}

fn be_patient(thread: &mut Thread, number: i32) {
    thread.signals.timer = Timer::new(thread.tid, number as u32, cookie(thread));
    if let Some(timer) = thread.signals.timer {
        timer.set(PATIENCE_MS);
    }
}

fn cookie(thread: &Thread) -> u64 {
    core::ptr::from_ref(thread).addr() as u64 ^ 0x5EED_0FF5_16A1_0000
}

/// The thread has not come to an operation of its own: the timer's signal becomes the one that was put off.
fn patience_ended(thread: &mut Thread, info: &mut Info, context: &Context, inside: bool) -> Arrival {
    let number = info.number;
    let Some(waiting) = thread.signals.pending.iter_mut().find(|p| p.is_some_and(|p| p.number == number)) else {
        return Arrival::Leave;
    };
    if inside || thread.signals.makes_process {
        attention::raise(attention::SIGNAL);
        if let Some(timer) = thread.signals.timer {
            timer.set(PATIENCE_MS);
        }
        return Arrival::Leave;
    }
    *info = waiting.take().expect("the signal that was found is pending");
    attention::clear(attention::SIGNAL);
    if let Some(timer) = thread.signals.timer.take() {
        timer.delete();
    }
    if environment::is_on() {
        environment::keep_stand(thread, context);
    }
    note_at(thread, info, COMPUTING);
    if let Some(other) = thread.signals.pending.iter().find_map(|p| *p) {
        attention::raise(attention::SIGNAL);
        be_patient(thread, other.number);
    }
    Arrival::Run
}

/// [`deliver_pending`], if any was put off.
pub fn deliver_put_off(thread: &mut Thread) {
    if tls::get::<{ tls::ATTENTION }>() & attention::SIGNAL != 0 {
        deliver_pending(thread);
    }
}

/// No handler runs before the thread's next event.
pub fn hold(thread: &mut Thread) {
    thread.signals.held_at = thread.events() + 1;
}

/// Lets the handlers of all signals that were put off run.
#[cold]
#[inline(never)]
pub fn deliver_pending(thread: &mut Thread) {
    let signals = &thread.signals;
    if signals.sending.is_some() || signals.makes_process || signals.held_at == thread.events() + 1 {
        return;
    }
    attention::clear(attention::SIGNAL);
    if let Some(timer) = thread.signals.timer.take() {
        timer.delete();
    }
    take_back(thread);
    for i in 0..PENDING {
        let Some(info) = thread.signals.pending[i].take() else { continue };
        if is_blocked(info.number as u32) {
            // The program blocked it meanwhile: pending in the kernel, it comes again once it is not.
            give_back(thread, &info);
            continue;
        }
        note(thread, &info);
        send(thread, &info);
    }
}

/// Records that a handler is about to run.
fn note(thread: &mut Thread, info: &Info) {
    note_at(thread, info, 0);
}

fn note_at(thread: &mut Thread, info: &Info, how: u32) {
    thread.signals.delivered = thread.signals.delivered.wrapping_add(1);
    record::note_of_event(Record::Signal { number: info.number as u8, calls: thread.calls_so_far() | how });
    if environment::is_on() {
        environment::keep_signal(thread, info);
    } else if info.code == SI_QUEUE {
        record::result(info.value as i64);
    }
    // The sender may be another process, or the signal tell of its end.
    outside::may_have_waited();
    record::shared(&internal(Internal::Signals).clock, Kind::Deliver);
}

/// Sends a signal to the calling thread, whose handler runs before this returns.
fn send(thread: &mut Thread, info: &Info) {
    thread.signals.sending = Some(info.number as u32);
    compiler_fence(Ordering::SeqCst);
    queue(runtime::pid(), thread.tid, info);
    compiler_fence(Ordering::SeqCst);
    thread.signals.sending = None;
}

/// Runs the handler of a signal in a replay, where the recording ran it.
pub fn replay(thread: &mut Thread, number: u32) {
    if !handler_is_own(number) {
        // The kernel would act on it instead.
        report::diverge_plain(cause::VALUE, thread.index, Some(Kind::Deliver), thread.replay.events(), 0);
    }
    let mut info = Info::from_us(number as i32, runtime::pid());
    replay_event(thread, &mut info);
    send(thread, &info);
}

/// Lets the handler of a signal run, in a replay, where our own handler returns to.
pub fn replay_here(thread: &mut Thread, number: u32) {
    let mut info = Info::from_us(number as i32, runtime::pid());
    replay_event(thread, &mut info);
    block(number);
    thread.signals.sending = Some(number);
    compiler_fence(Ordering::SeqCst);
    queue(runtime::pid(), thread.tid, &info);
}

/// The event of a handler that is about to run with `info`, in a replay.
pub fn replay_event(thread: &mut Thread, info: &mut Info) {
    thread.signals.delivered = thread.signals.delivered.wrapping_add(1);
    replay::enter(Kind::Deliver, 0);
    if environment::is_on() {
        environment::recall_signal(info);
    } else if let Some(value) = replay::value() {
        (info.code, info.value) = (SI_QUEUE, value as u64);
    }
    replay::leave(Kind::Deliver, &carried::clocks_of_signals(), false);
}
