//! What a replay by timestamps sees of objects: whether that is as recorded, and whom
//! each event followed, which later replays wait for.
//!
//! Apart from the gate because by the learnt order none of it is done.

use super::{KNOWN, Rule};
use crate::object::{Cell, unpack};
use crate::report::{self, Met};
use crate::thread::Thread;
use crate::writer;
use core::sync::atomic::Ordering;
use relive_order::Kind;
use relive_trace::control::cause;
use relive_trace::record::{LAPSES, Record};

impl Thread {
    /// What costs nothing and catches a wrong object: its clock must explain the recorded jump, and be as far behind as the
    /// recording says of a lock.
    pub(super) fn check_clock(&self, kind: Kind, cell: &Cell, time: u64) {
        let object = cell.clock.load(Ordering::Acquire);
        let jumped = time > self.replay.clock + 1;
        let slept = self.replay.order.passed_over_at(self.replay.events) > 0;
        let may_have_joined = self.replay.joined || self.finished || slept;
        // Only a replay that learns knows whom an event follows.
        let last = unpack(cell.last.load(Ordering::Acquire)).filter(|_| self.replay.rule == Rule::Learning);
        let follows_other = last.is_some_and(|(thread, _)| thread != self.index);
        let gap = if follows_other { self.replay.gap(kind) } else { 0 };
        let wrong = object.saturating_add(gap) >= time || (jumped && !may_have_joined && object + 1 != time);
        if wrong {
            report::diverge(Met {
                cause: cause::CLOCK,
                thread: self.index,
                did: Some(kind),
                event: self.replay.events,
                expected: time,
                found: object,
                place: self.replay.slot().place.load(Ordering::Relaxed) as usize,
                object: core::ptr::from_ref(cell).addr(),
            });
        }
    }

    /// Writes down that this event waits until so many calls in which time passed have ended in another thread.
    pub(super) fn learn_lapses(&mut self, other: u32, left: u64) {
        let known = &mut self.replay.known_lapses[other as usize % KNOWN];
        if *known != (other, left) {
            *known = (other, left);
            writer::append(self, Record::Wait { thread: other, events: LAPSES | left });
        }
    }

    /// Writes down that this event follows the object's last one, unless that is known already.
    pub(super) fn learn(&mut self, before: u64) {
        let Some((other, events)) = unpack(before) else { return };
        if other == self.index {
            return;
        }
        let known = &mut self.replay.known[other as usize % KNOWN];
        if known.0 == other && known.1 >= events {
            return;
        }
        *known = (other, events);
        writer::append(self, Record::Wait { thread: other, events });
    }
}
