//! The first objects of a process, each with a record of its own.
//!
//! A record is found without a lock, because a key stays for good where it was once put,
//! and its lock stands in the line of the cache where a releaser leaves what it knows. So
//! a release costs one line that another thread had; and who knows of it beforehand can
//! fetch that.
//!
//! Apart from the shards, in which there is room for any number of objects.

use super::objects::Object;
use crate::clock::Clock;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use relive_sys::lock::Lock;

const NUMBER_BITS: u32 = 12;
/// How many there are.
const RECORDS: usize = 1 << NUMBER_BITS;
/// Keys are below.
const KEYS: u64 = 1 << (63 - NUMBER_BITS);
const INDEX_BITS: u32 = NUMBER_BITS + 2;
/// Places of the index that a key may have, from the first one on.
const PROBES: usize = 16;
/// A place that is free.
const FREE: u64 = 0;

#[derive(Debug)]
pub(super) struct Records {
    /// Key and number of a record, inverted.
    index: Box<[AtomicU64]>,
    all: Box<[Record]>,
    /// How many have keys.
    used: AtomicUsize,
}

/// On lines of its own, of which the first has what a release of a lock changes.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Record(Lock<Kept>);

/// What a record holds.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Kept {
    pub(super) object: Object,
    /// Whether its shard knows that there may be something here.
    pub(super) is_listed: bool,
}

const _: () = assert!(size_of::<Record>() == 128 && size_of::<Option<Clock>>() <= 56);

impl Records {
    pub(super) fn new() -> Self {
        Self {
            index: (0..1 << INDEX_BITS).map(|_| AtomicU64::new(FREE)).collect(),
            all: (0..RECORDS).map(|_| Record::default()).collect(),
            used: AtomicUsize::new(0),
        }
    }

    /// None has a key.
    pub(super) fn reset(&self) {
        self.index.iter().for_each(|place| place.store(FREE, Ordering::Relaxed));
        let used = self.used.swap(0, Ordering::Relaxed).min(RECORDS);
        self.all[..used].iter().for_each(|record| *record.0.lock() = Kept::default());
    }

    #[inline]
    fn places(&self, key: u64) -> impl Iterator<Item = &AtomicU64> {
        let first = (key >> 2).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - INDEX_BITS);
        (0..PROBES).map(move |probe| &self.index[(first as usize + probe) % (1 << INDEX_BITS)])
    }

    /// Where the record of an object is, if it has one.
    #[inline]
    pub(super) fn find(&self, key: u64) -> Option<&Record> {
        for place in self.places(key) {
            let word = place.load(Ordering::Acquire);
            if word == FREE {
                return None;
            }
            if !word >> NUMBER_BITS == key {
                return self.all.get(!word as usize % RECORDS);
            }
        }
        None
    }

    /// Gives an object a record that has none yet, if there is one left. Nobody does that for the same object meanwhile.
    pub(super) fn add(&self, key: u64) -> Option<&Record> {
        if key >= KEYS || self.used.load(Ordering::Relaxed) >= RECORDS {
            return None;
        }
        let number = self.used.fetch_add(1, Ordering::Relaxed);
        let record = self.all.get(number)?;
        let word = !(key << NUMBER_BITS | number as u64);
        let take = |place: &AtomicU64| place.compare_exchange(FREE, word, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        self.places(key).any(take).then_some(record)
    }

    /// Bytes of memory, the vectors outside included.
    pub(super) fn bytes(&self) -> usize {
        let used = self.used.load(Ordering::Relaxed).min(RECORDS);
        let vectors: usize = self.all[..used].iter().map(|record| record.0.lock().object.share_bytes()).sum();
        size_of_val(&*self.index) + size_of_val(&*self.all) + vectors
    }
}

impl Record {
    #[inline]
    pub(super) fn lock(&self) -> relive_sys::lock::Guard<'_, Kept> {
        self.0.lock()
    }
}
