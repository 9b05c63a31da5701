//! An epoch: one segment of one thread, in one word.
//!
//! `FastTrack` (Flanagan & Freund 2009): of an access it is enough to remember its
//! thread and that thread's own time, because a vector clock that knows the time
//! knows all that the thread knew by then.
//!
//! Apart because clocks and histories pack it in the same way: 18 bits of thread,
//! one that the history uses for frees, 45 of time.

use core::fmt;

const TIME_BITS: u32 = 45;
pub(crate) const FREE: u64 = 1 << TIME_BITS;
const THREAD_SHIFT: u32 = TIME_BITS + 1;

/// Threads are numbered below this.
pub const THREADS_MAX: u32 = (1 << (64 - THREAD_SHIFT)) - 1;

/// One segment: a thread and how many segments it has begun by then, from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u64);

impl Epoch {
    /// Of no thread: a clock that several threads left behind.
    pub(crate) const NONE: Self = Self(!(FREE | (FREE - 1)));

    /// A segment by its thread, below [`THREADS_MAX`], and its number, from 1 and below 2^45.
    ///
    /// # Panics
    /// If one of them is out of range.
    pub const fn new(thread: u32, time: u64) -> Self {
        assert!(thread < THREADS_MAX && time > 0 && time < FREE, "an epoch out of range");
        Self((thread as u64) << THREAD_SHIFT | time)
    }

    /// The thread.
    #[inline]
    pub const fn thread(self) -> u32 {
        (self.0 >> THREAD_SHIFT) as u32
    }

    /// The number of the segment among those of its thread, from 1.
    #[inline]
    pub const fn time(self) -> u64 {
        self.0 & (FREE - 1)
    }

    /// The segment that follows in the same thread.
    pub(crate) const fn next(self) -> Self {
        Self::new(self.thread(), self.time() + 1)
    }

    /// As a word, which is not 0.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// What [`Epoch::bits`] gave, with or without the bit of a free.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits & !FREE)
    }
}

impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.thread(), self.time())
    }
}

#[cfg(test)]
mod tests {
    use super::{Epoch, FREE, THREADS_MAX};

    #[test]
    fn thread_and_time_come_back() {
        for (thread, time) in [(0, 1), (THREADS_MAX - 1, FREE - 1), (5, 77)] {
            let epoch = Epoch::new(thread, time);
            assert_eq!((epoch.thread(), epoch.time()), (thread, time));
            assert_eq!(Epoch::from_bits(epoch.bits() | FREE), epoch);
            assert!(epoch.bits() != 0 && epoch.thread() != Epoch::NONE.thread());
        }
    }
}
