//! What threads tell each other through the kernel: pipes, sockets, the end of a
//! process. No event orders it, and a replay does it again for real.
//!
//! Replay is free of deadlock only if everything that a thread can wait for has a
//! smaller timestamp than the thread's next event. So while recording, who may
//! wake others says how far it has come, and who may have been woken goes on from
//! there. One word for the whole session: more order than needed, and cheap beside
//! a system call.

use crate::runtime::{self, Mode};
use crate::{chunk, replay, thread};
use core::sync::atomic::{AtomicU64, Ordering};
use relive_sys::syscall;
use relive_trace::control::{IN_USE, PROCESS_SLOTS};

/// The process is about to end, which its parent may wait for: so far have all its threads come.
pub fn ending() {
    let mut clock = 0;
    thread::each(|thread| {
        clock = clock.max(thread.clock());
        true
    });
    runtime::session().latest.fetch_max(clock, Ordering::AcqRel);
}

/// How far everything has come that ended a process or may have woken somebody.
pub fn latest() -> u64 {
    runtime::control().map_or(0, |session| session.latest.load(Ordering::Acquire))
}

/// The calling thread is about to do something that may wake a thread that waits in the kernel.
#[inline]
pub fn may_wake() {
    if runtime::mode() == Mode::Record
        && let Some(thread) = thread::current_if_known()
    {
        let (latest, clock) = (&runtime::session().latest, thread.clock_base());
        if latest.load(Ordering::Relaxed) < clock {
            latest.fetch_max(clock, Ordering::AcqRel);
        }
    }
}

/// The calling thread may have waited in the kernel for what another thread did.
#[inline]
pub fn may_have_waited() {
    let Some(thread) = thread::current_if_known() else { return };
    match runtime::mode() {
        Mode::Off => {}
        Mode::Record => thread.join_clock(runtime::session().latest.load(Ordering::Acquire)),
        Mode::Replay => replay::joined(),
    }
}

/// What the data file of an image that a signal ended said, by the image's slot: its number plus one, and its clock. A shell
/// that has started two hundred programs would read their files again at each child's end.
static ENDED: [[AtomicU64; 2]; PROCESS_SLOTS] = [const { [const { AtomicU64::new(0) }; 2] }; PROCESS_SLOTS];

/// How far an image came that is no more.
fn clock_of_ended(process: u32, [image, clock]: &[AtomicU64; 2]) -> u64 {
    let this = u64::from(process) + 1;
    if image.load(Ordering::Acquire) == this {
        let known = clock.load(Ordering::Acquire);
        // Unless another image's is being kept there, whose thread saw the slot in use again.
        if image.load(Ordering::Acquire) == this {
            return known;
        }
    }
    let found = chunk::latest_clock_of(process);
    image.store(0, Ordering::Release);
    clock.store(found, Ordering::Release);
    image.store(this, Ordering::Release);
    found
}

/// [`may_have_waited`], where that was for a child's end. A child that a signal ended said nothing of how far it had
/// come, and left its slot as it was; its data file knows.
pub fn may_have_reaped() {
    may_have_waited();
    let Some(thread) = thread::current_if_known() else { return };
    if runtime::mode() != Mode::Record {
        return;
    }
    for (number, slot) in runtime::session().processes.iter().enumerate() {
        let pid = slot.pid.load(Ordering::Acquire);
        let in_use = pid != 0 && slot.state.load(Ordering::Acquire) == IN_USE;
        if !in_use || pid == runtime::pid() || syscall::process_exists(pid) {
            continue;
        }
        thread.join_clock(clock_of_ended(slot.process.load(Ordering::Acquire), &ENDED[number]));
    }
}
