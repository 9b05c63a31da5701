//! Which accesses in a file of code are atomic, as the launcher finds in its debug
//! information: asked when a recorded process maps the file.
//!
//! Apart from what is done with them because here two processes meet, as where a replay asks about
//! stand points (`replay/strike/asking.rs`): one slot of the control memory, taken, filled, answered
//! and freed.

use crate::runtime::{self, Mode};
use core::sync::atomic::{AtomicU32, Ordering};
use relive_sys::syscall;
use relive_trace::declared::{DeclaredAccesses, state};

/// Calls `visit` with the offset of each in the file of this key, which is open as `descriptor`. In a replay the recording
/// has them.
pub(super) fn each(key: u64, descriptor: u32, mut visit: impl FnMut(u64)) {
    let declared = &runtime::session().declared;
    if runtime::mode() != Mode::Record || declared.each(key, &mut visit) || !declared.has_room() {
        return;
    }
    if take(declared) {
        // Another one may have asked meanwhile.
        if !declared.each(key, |_| {}) {
            declared.descriptor.store(descriptor, Ordering::Relaxed);
            wait(declared);
        }
        declared.pid.store(0, Ordering::Relaxed);
        declared.state.store(state::FREE, Ordering::Release);
        syscall::futex_wake(&declared.state, i32::MAX as u32);
    }
    declared.each(key, visit);
}

/// Waits for another one's answer: a program with much debug information takes seconds. Whether it is this one's turn.
fn take(declared: &DeclaredAccesses) -> bool {
    const ROUNDS: u32 = 600;
    const ROUND_MS: u32 = 100;
    for _ in 0..ROUNDS {
        match declared.state.compare_exchange(state::FREE, state::TAKEN, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                declared.pid.store(runtime::pid(), Ordering::Release);
                return true;
            }
            Err(now) => _ = syscall::futex_wait(&declared.state, now, Some(ROUND_MS)),
        }
    }
    false
}

/// Asks, and waits for the answer. Without one its accesses are not ordered, as those of a file without debug information.
fn wait(declared: &DeclaredAccesses) {
    const ROUNDS: u32 = 600;
    const ROUND_MS: u32 = 100;
    declared.state.store(state::ASKED, Ordering::Release);
    runtime::ring();
    let is_answered = |word: &AtomicU32| word.load(Ordering::Acquire) == state::ANSWERED;
    for _ in 0..ROUNDS {
        let now = declared.state.load(Ordering::Acquire);
        if is_answered(&declared.state) {
            return;
        }
        syscall::futex_wait(&declared.state, now, Some(ROUND_MS));
    }
}
