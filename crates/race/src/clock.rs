//! The vector clock of one segment.
//!
//! A thread's own time changes with each segment, what it knows of others only when
//! an acquire brings something new. So the two are apart: segments of a thread, and
//! the objects that it released, share one vector, if it is not a short one.
//!
//! Apart from the threads and objects that have clocks because histories need these
//! alone, without the lock around the others.

use crate::epoch::Epoch;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Deref;
use relive_order::vector;

/// Vectors of so many components are copied: cheaper than the count of a shared one, whose line would wander between the
/// threads' caches with each lock that they hand on. With one more an object would take another line of it.
const FEW: usize = 5;

/// What is known of other threads, by their numbers.
#[derive(Clone, Debug)]
pub(crate) enum Known {
    /// The first so many components count.
    Few(u32, [u64; FEW]),
    Many(Arc<[u64]>),
}

impl Known {
    /// Nobody.
    pub(crate) const NOTHING: Self = Known::Few(0, [0; FEW]);

    fn new(width: usize, of: impl Fn(usize) -> u64) -> Self {
        if width > FEW {
            return Known::Many((0..width).map(of).collect());
        }
        Known::Few(width as u32, core::array::from_fn(|index| if index < width { of(index) } else { 0 }))
    }

    /// Whether both are one shared vector.
    pub(crate) fn is_shared_with(&self, other: &Self) -> bool {
        matches!((self, other), (Known::Many(one), Known::Many(two)) if Arc::ptr_eq(one, two))
    }

    /// Bytes outside, this holder's share of them.
    fn share_bytes(&self) -> usize {
        match self {
            Known::Few(..) => 0,
            Known::Many(vector) => (size_of_val(&**vector) + 16) / Arc::strong_count(vector).max(1),
        }
    }
}

impl Deref for Known {
    type Target = [u64];

    #[inline]
    fn deref(&self) -> &[u64] {
        match self {
            Known::Few(width, components) => &components[..*width as usize],
            Known::Many(vector) => vector,
        }
    }
}

/// What a segment knows: which segments happened before it.
#[derive(Clone, Debug)]
pub struct Clock {
    /// The segment; [`Epoch::NONE`] for what several threads left behind at an object.
    pub(crate) epoch: Epoch,
    /// What is known of other threads. The own component means nothing.
    pub(crate) others: Known,
}

impl Clock {
    pub(crate) fn new(epoch: Epoch, others: Known) -> Self {
        Self { epoch, others }
    }

    /// The segment whose clock this is.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// How much is known of a thread: its segments up to this number happened before, or are, this one.
    #[inline]
    pub fn time_of(&self, thread: u32) -> u64 {
        if thread == self.epoch.thread() { self.epoch.time() } else { vector::component(&self.others, thread as usize) }
    }

    /// Whether a segment happened before this one, or is this one.
    #[inline]
    pub fn knows(&self, epoch: Epoch) -> bool {
        epoch.time() <= self.time_of(epoch.thread())
    }

    /// Whether all that `other` knows is known here.
    pub(crate) fn covers(&self, other: &Clock) -> bool {
        if other.epoch != Epoch::NONE {
            // Who knows a time of a thread learnt it from something that held all that the thread knew.
            return self.knows(other.epoch);
        }
        (0..).zip(&*other.others).all(|(thread, &time)| time <= self.time_of(thread))
    }

    /// Nothing is known of threads from this number on.
    pub(crate) fn width(&self) -> u32 {
        let own = if self.epoch == Epoch::NONE { 0 } else { self.epoch.thread() + 1 };
        own.max(self.others.len() as u32)
    }

    /// What both know, without a segment of its own.
    pub(crate) fn both(&self, other: &Clock) -> Known {
        Known::new(self.width().max(other.width()) as usize, |thread| {
            self.time_of(thread as u32).max(other.time_of(thread as u32))
        })
    }

    /// Bytes of the vector, this holder's share of them.
    pub(crate) fn share_bytes(&self) -> usize {
        self.others.share_bytes()
    }
}

/// What every thread that still runs knows: segments up to here cannot race any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Floor(pub(crate) Vec<u64>);

impl Floor {
    /// Whether all running threads know a segment.
    #[inline]
    pub fn knows(&self, epoch: Epoch) -> bool {
        epoch.time() <= vector::component(&self.0, epoch.thread() as usize)
    }

    pub(crate) fn covers(&self, clock: &Clock) -> bool {
        if clock.epoch == Epoch::NONE { vector::covers(&self.0, &clock.others) } else { self.knows(clock.epoch) }
    }
}
