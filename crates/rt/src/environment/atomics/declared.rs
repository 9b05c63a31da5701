//! Which accesses in a file of code are atomic, as the launcher finds in its debug
//! information: asked when a recorded process maps the file.
//!
//! Apart from what is done with them because here two processes meet, as where a replay asks about
//! stand points (`replay/strike/asking.rs`): one slot of the control memory, taken, filled, answered
//! and freed.

use crate::runtime::{self, Mode};
use core::sync::atomic::{AtomicU32, Ordering};
use relive_sys::syscall;
use relive_trace::control::mode;
use relive_trace::declared::state;

/// Calls `visit` with the offset of each in the file of this key, which is open as `descriptor`. In a replay the recording
/// has them.
pub(super) fn each(key: u64, descriptor: u32, mut visit: impl FnMut(u64)) {
    let declared = &runtime::session().declared;
    if runtime::mode() != Mode::Record || declared.each(key, &mut visit) || !declared.has_room() || !is_heard() {
        return;
    }
    let state = &declared.state;
    let take = || state.compare_exchange(state::FREE, state::TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    if comes(state, take) {
        declared.pid.store(runtime::pid(), Ordering::Release);
        // Another one may have asked meanwhile.
        if !declared.each(key, |_| {}) {
            declared.descriptor.store(descriptor, Ordering::Relaxed);
            state.store(state::ASKED, Ordering::Release);
            runtime::ring();
            // Without an answer they are not ordered, as those of a file without debug information.
            comes(state, || state.load(Ordering::Acquire) == state::ANSWERED);
        }
        declared.pid.store(0, Ordering::Relaxed);
        state.store(state::FREE, Ordering::Release);
        syscall::futex_wake(state, i32::MAX as u32);
    }
    declared.each(key, visit);
}

/// Whether the launcher answers: it lives, and records.
fn is_heard() -> bool {
    let session = runtime::session();
    session.mode.load(Ordering::Acquire) == mode::RECORD && syscall::process_exists(session.launcher)
}

/// Whether `has_come` is so, once the state changes; a program with much debug information takes seconds.
fn comes(state: &AtomicU32, has_come: impl Fn() -> bool) -> bool {
    const ROUNDS: u32 = 600;
    const ROUND_MS: u32 = 100;
    for _ in 0..ROUNDS {
        let now = state.load(Ordering::Acquire);
        if has_come() {
            return true;
        }
        let slept = syscall::futex_wait(state, now, Some(ROUND_MS));
        if slept == syscall::ETIMEDOUT && !is_heard() {
            return false;
        }
    }
    false
}
