//! Coming to an event: the wait for its turn.
//!
//! By timestamps a thread waits until all others are behind its event. Of an event on
//! one object alone, which shares its clock with no other one, less would do:
//!
//! - if the thread holds the object, and nobody else may touch it before, all that the
//!   event follows is the thread's own;
//! - if the object's clock is one less than the event's timestamp, the event is the
//!   object's next one ([`turn::Follows`]), wherever others are.
//!
//! Lamport clocks of threads that have little to do with each other drift apart, and by
//! the first rule alone the one that is ahead waits for the other as if they had: two
//! threads that take tasks from a queue ran by turns.
//!
//! But what nobody orders, as accesses that race, or what a forked child finds locked, is
//! nearest to the recording if all wait for all. So only those replays go ahead so that
//! are tried again by the first rule alone if they diverge (`flag::AHEAD`).
//!
//! Apart from completing it, which others wait for.

use super::end::past_the_end;
use super::turn::Follows;
use super::{Rule, acting, deliver_before_event, turn};
use crate::object::Cell;
use crate::runtime;
use relive_order::Kind;
use relive_trace::control::flag;
use relive_trace::record::Record;

/// What makes it a thread's turn by timestamps, other than that all others are behind its event.
#[derive(Clone, Copy, Debug)]
enum Else<'a> {
    Nothing,
    /// The event is the next one of its one object.
    Next(&'a Cell),
    /// It has the object.
    Held,
}

/// Waits until it is the calling thread's turn to run its next event, which must be of `kind`.
///
/// Never returns if the recording ends before this event, or if the replay has diverged.
#[inline]
pub fn enter(kind: Kind, place: usize) {
    enter_on(kind, place, Else::Nothing);
}

/// The same for an event on an object that shares its clock with no other one, and on no other object.
#[inline]
pub fn enter_at(kind: Kind, place: usize, cell: &Cell) {
    enter_on(kind, place, Else::Next(cell));
}

/// The same for an event on nothing but what the thread holds and nobody else may touch before.
#[inline]
pub fn enter_holding(kind: Kind, place: usize) {
    enter_on(kind, place, Else::Held);
}

#[inline(always)]
fn enter_on(kind: Kind, place: usize, or: Else<'_>) {
    let r = &acting().replay;
    if r.is_quiet() {
        r.stand_at(kind, place);
    } else {
        enter_recorded(kind, place, or);
    }
}

#[inline(never)]
fn enter_recorded(kind: Kind, place: usize, or: Else<'_>) {
    deliver_before_event();
    let thread = acting();
    thread.settle(kind, place);
    let r = &mut thread.replay;
    if r.events == r.total {
        past_the_end(thread, kind, place);
    }
    r.stand_at(kind, place);
    let slot = r.slot();
    if r.rule == Rule::Derived {
        while let Some(Record::Wait { thread: other, events }) = r.derived.at(r.events) {
            r.derived.advance();
            turn::wait_for_events(slot, other, events);
        }
        return;
    }
    let or = if runtime::has_flag(flag::AHEAD) { or } else { Else::Nothing };
    let follows = match or {
        Else::Held => return,
        Else::Next(cell) => Some(Follows { clock: &cell.clock, time: r.next_time }),
        Else::Nothing => None,
    };
    if r.next_time > r.safe && !r.goes_before_its_turn(kind, thread.index) {
        r.safe = turn::wait_for_time(slot, thread.index, r.next_time, follows).unwrap_or(r.safe);
    }
}
