//! Words in memory at which a program's threads wait in the kernel.
//!
//! As long as only calls are ordered a replay waits there and wakes as often as it must, and
//! nothing is recorded. At the level of atomics it must not: of several threads that wait
//! another one may be woken than was, and the one whose turn it is sleeps on. There such a
//! call is an event of its word, before it if it wakes others and behind it if it has waited,
//! and what it returned comes from the recording. The turn implies that the wait is over.
//! A recording of another level counts its waits, so that its user hears of them before a
//! replay diverges.

use super::atomics;
use super::carried::Carries;
use super::taking_part;
use crate::runtime::{self, Mode};
use crate::thread;
use core::sync::atomic::Ordering;
use relive_sys::syscall::number::FUTEX;

const COMMANDS: usize = 0x7F;
const WAITS: [usize; 2] = [0, 9];
/// Of these the second may let threads wait elsewhere.
const WAKES: [usize; 4] = [1, 3, 4, 10];

/// Whether a call waits or wakes and does nothing else.
fn is_plain(arguments: &[usize; 6]) -> bool {
    let command = arguments[1] & COMMANDS;
    WAITS.contains(&command) || WAKES.contains(&command)
}

/// The program is about to make a call that hands this on.
pub(super) fn begins(carries: Carries, arguments: &[usize; 6], place: usize) {
    if carries != Carries::WORD || !is_plain(arguments) {
        return;
    }
    if !atomics::are_ordered() {
        if runtime::mode() == Mode::Record && WAITS.contains(&(arguments[1] & COMMANDS)) && taking_part().is_some() {
            runtime::session().unordered_waits.fetch_add(1, Ordering::Relaxed);
        }
        return;
    }
    if let Some(thread) = thread::current_if_known() {
        thread.within.word = Some(arguments[0]);
    }
    if WAKES.contains(&(arguments[1] & COMMANDS)) {
        atomics::word(arguments[0], place);
    }
}

/// Whether the call of the calling thread is such a one, and the program's own: what it returns is recorded.
pub(super) fn is_recorded(number: usize, arguments: &[usize; 6]) -> bool {
    // libc waits at words of its own on the way.
    number == FUTEX
        && is_plain(arguments)
        && thread::current_if_known().is_some_and(|thread| thread.within.word == Some(arguments[0]))
}

/// It has returned.
pub(super) fn ended(carries: Carries, place: usize) {
    if carries != Carries::WORD {
        return;
    }
    if let Some(word) = thread::current_if_known().and_then(|thread| thread.within.word.take()) {
        atomics::word(word, place);
    }
}
