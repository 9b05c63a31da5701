//! What threads share behind a lock of ours and use in the recorded order; and
//! events of what they share elsewhere.
//!
//! Each use of the former is an event, taken before its effect with the lock held, because the
//! effect may have events of its own: it maps memory. No handler of the program
//! runs meanwhile: it could come here, too.

use super::carried::Hand;
use crate::object::{Cell, Internal, internal};
use crate::runtime::{self, Mode};
use crate::{process, record, replay, thread};
use core::sync::atomic::Ordering;
use relive_order::Kind;
use relive_sys::lock::{Guard, Lock};
use relive_trace::control::flag;

/// A value that threads use in the recorded order.
#[derive(Debug)]
pub(super) struct Ordered<T> {
    lock: Lock<T>,
    object: Internal,
}

impl<T> Ordered<T> {
    pub(super) const fn new(object: Internal, value: T) -> Self {
        Self { lock: Lock::new(value), object }
    }

    /// Takes the event and the lock.
    pub(super) fn enter(&self) -> Guard<'_, T> {
        let cell = internal(self.object);
        match among_others() {
            Mode::Off => self.lock.lock(),
            Mode::Record => {
                let guard = self.lock.lock();
                record::shared_quietly(&cell.clock, Kind::LibcCall);
                guard
            }
            Mode::Replay => {
                replay::enter_apart(Kind::LibcCall, 0);
                let guard = self.lock.lock();
                replay::leave(Kind::LibcCall, &[cell], false);
                guard
            }
        }
    }

    /// Runs `operation` as the effect of an event.
    pub(super) fn with<R>(&self, operation: impl FnOnce(&mut T) -> R) -> R {
        let mut guard = self.enter();
        let result = operation(&mut guard);
        self.raise();
        result
    }

    /// Whoever comes next comes after what the effect recorded, too, or a replay could wait in a circle.
    pub(super) fn raise(&self) {
        if runtime::mode() == Mode::Record {
            record::raise(&internal(self.object).clock);
        }
    }

    /// For one who is alone.
    pub(super) fn in_any_order(&self) -> Guard<'_, T> {
        self.lock.lock()
    }

    /// Frees the lock in a fork child.
    ///
    /// # Safety
    /// Only in a fork child while it has one thread.
    pub(super) unsafe fn reset_after_fork(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.lock.reset_after_fork() };
    }
}

/// Takes two locks with one event on both: between two events some other thread's may stand.
pub(super) fn hold_both<A, B>(
    first: &'static Ordered<A>,
    second: &'static Ordered<B>,
) -> (Guard<'static, A>, Guard<'static, B>) {
    let cells = [internal(first.object), internal(second.object)];
    match among_others() {
        Mode::Off => (first.lock.lock(), second.lock.lock()),
        Mode::Record => {
            let held = (first.lock.lock(), second.lock.lock());
            record::shared_quietly_joining(&cells[0].clock, cells[1].clock.load(Ordering::Acquire), Kind::LibcCall);
            record::raise(&cells[1].clock);
            held
        }
        Mode::Replay if !runtime::has_flag(flag::FORKS) => (first.enter(), second.enter()),
        Mode::Replay => {
            replay::enter_apart(Kind::LibcCall, 0);
            let held = (first.lock.lock(), second.lock.lock());
            replay::leave(Kind::LibcCall, &cells, false);
            held
        }
    }
}

/// An event of what is ordered by it alone: nothing of ours happens then.
pub(super) fn event(cell: &Cell, hand: Hand, place: usize) {
    event_of(Kind::LibcCall, &[cell], Some(hand), place);
}

/// What the calling thread has done is there for who takes from `cell` later. With or without the environment.
pub fn give_to(cell: &Cell) {
    event(cell, Hand::Gives, 0);
}

/// The other end of [`give_to`].
pub fn take_from(cell: &Cell) {
    event(cell, Hand::Takes, 0);
}

/// Such an event of several objects, the first of which has its clock in a recording: the others are handed on with clocks
/// that threads join. `hand` says which way it goes.
#[inline(never)]
pub(super) fn event_of(kind: Kind, cells: &[&Cell], hand: Option<Hand>, place: usize) {
    match runtime::mode() {
        Mode::Off => {}
        Mode::Record => record::shared(&cells[0].clock, kind),
        Mode::Replay => {
            if matches!(hand, Some(Hand::Gives)) {
                replay::enter_apart(kind, place);
            } else {
                replay::enter(kind, place);
            }
            // Handlers may have had events of their own up to here.
            thread::current().hand = hand;
            replay::leave(kind, cells, false);
            thread::current().hand = None;
        }
    }
}

/// What the calling thread is doing: [`Mode::Off`] also if it was always alone, as there is no order then.
pub(super) fn among_others() -> Mode {
    let Some(thread) = thread::current_if_known() else { return Mode::Off };
    process::settle_fork(thread);
    if thread.was_always_alone() { Mode::Off } else { runtime::mode() }
}
