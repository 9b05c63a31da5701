//! Lamport clocks: the one rule that recording and replay share.
//!
//! Apart from the gate that applies it so that a test can hold it against a
//! straightforward oracle.

/// The timestamp an event takes and how far its thread's clock jumped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The event's Lamport timestamp: the new clock of the thread and the object.
    pub time: u64,
    /// How much more than one the thread's clock grew; 0 is the deterministic
    /// increment that a trace does not store.
    pub extra: u64,
}

/// `max(thread, object) + 1` (ROLT 1994, section 3).
///
/// `thread` is the timestamp of the thread's last event, `object` the clock of
/// the object that the event touches.
#[inline(always)]
pub const fn stamp(thread: u64, object: u64) -> Stamp {
    if object > thread {
        Stamp { time: object + 1, extra: object - thread }
    } else {
        Stamp { time: thread + 1, extra: 0 }
    }
}

/// An event on two objects at once takes one timestamp for both: a thread that
/// wakes from a condition variable touches the mutex and the condition.
#[inline(always)]
pub const fn stamp_two(thread: u64, first: u64, second: u64) -> Stamp {
    stamp(thread, if first > second { first } else { second })
}

#[cfg(test)]
mod tests {
    use super::{Stamp, stamp, stamp_two};
    use proptest::prelude::*;

    #[test]
    fn a_thread_ahead_of_the_object_steps_by_one() {
        assert_eq!(stamp(7, 3), Stamp { time: 8, extra: 0 });
        assert_eq!(stamp(7, 7), Stamp { time: 8, extra: 0 });
    }

    #[test]
    fn a_thread_behind_the_object_jumps_past_it() {
        assert_eq!(stamp(3, 7), Stamp { time: 8, extra: 4 });
    }

    proptest! {
        #[test]
        fn timestamps_exceed_both_clocks_and_extra_explains_the_jump(t in 0..1u64 << 40, a in 0..1u64 << 40, b in 0..1u64 << 40) {
            let s = stamp_two(t, a, b);
            prop_assert_eq!(s.time, t.max(a).max(b) + 1);
            prop_assert_eq!(s.time, t + 1 + s.extra);
        }
    }
}
