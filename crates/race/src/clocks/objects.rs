//! What was left at objects by those who released them.
//!
//! The first ones have records of their own (`records.rs`). The others are spread over
//! shards by their keys, each with a lock: threads that use different objects hardly ever
//! meet. All are listed there by groups, because memory is given back in ranges.
//!
//! Apart from the threads because objects come and go with memory.

use super::records::{Kept, Record, Records};
use crate::clock::{Clock, Floor};
use crate::epoch::Epoch;
use crate::mix::Table;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut, Range};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use relive_sys::lock::{Guard, Lock};

/// Keys that are near to each other are found together, because memory is given back in ranges.
const NEAR: u64 = 256;
const SHARDS: u64 = 64;
/// Bits that say where objects may be.
const PLACES: u64 = 1 << 16;
/// A range of more groups is looked for among the objects, and not the objects in it.
const GROUPS_MAX: u64 = 256;

/// All objects that were released.
#[derive(Debug)]
pub(super) struct Objects {
    /// The first ones.
    records: Records,
    shards: Box<[Aligned]>,
    /// Of groups whose numbers agree modulo [`PLACES`]: whether there was ever an object. Most memory that is given back
    /// never had any.
    places: Box<[AtomicU64]>,
}

/// On lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Aligned(Lock<Shard>);

/// Some of the objects.
#[derive(Debug, Default)]
pub(super) struct Shard {
    /// Those that have no record.
    all: Table<Object>,
    near: Table<Vec<u64>>,
}

/// What one object holds.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Object {
    /// What everybody learns who acquires it.
    pub(super) exclusive: Option<Clock>,
    /// What only those learn who acquire it exclusively: readers left it.
    pub(super) shared: Option<Clock>,
}

/// Adds what a releasing thread knows to what was left before.
pub(super) fn accumulate(left: &mut Option<Clock>, clock: &Clock) {
    match left {
        // The same thread has learnt nothing since.
        Some(before)
            if before.others.is_shared_with(&clock.others) && before.epoch.thread() == clock.epoch.thread() =>
        {
            before.epoch = clock.epoch;
        }
        Some(before) if !clock.covers(before) => *before = Clock::new(Epoch::NONE, clock.both(before)),
        _ => *left = Some(clock.clone()),
    }
}

/// An object, with its lock held.
pub(super) enum Held<'a> {
    InRecord(Guard<'a, Kept>),
    InShard(Guard<'a, Shard>, u64),
}

impl Deref for Held<'_> {
    type Target = Object;

    #[inline]
    fn deref(&self) -> &Object {
        match self {
            Held::InRecord(kept) => &kept.object,
            Held::InShard(shard, key) => &shard.all[key],
        }
    }
}

impl DerefMut for Held<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Object {
        match self {
            Held::InRecord(kept) => &mut kept.object,
            Held::InShard(shard, key) => shard.all.get_mut(key).expect("it is there while the shard is locked"),
        }
    }
}

impl Object {
    fn is_obsolete(&self, floor: &Floor) -> bool {
        [&self.exclusive, &self.shared].into_iter().flatten().all(|clock| floor.covers(clock))
    }

    /// Bytes of the vectors outside.
    pub(super) fn share_bytes(&self) -> usize {
        [&self.exclusive, &self.shared].into_iter().flatten().map(Clock::share_bytes).sum()
    }
}

impl Shard {
    /// Forgets those of a group that are `obsolete`.
    fn forget(&mut self, records: &Records, number: u64, obsolete: impl Fn(u64, &Object) -> bool) {
        let Self { all, near } = self;
        let Some(group) = near.get_mut(&number) else { return };
        group.retain(|&key| {
            if let Some(record) = records.find(key) {
                let mut kept = record.lock();
                let goes = obsolete(key, &kept.object);
                if goes {
                    *kept = Kept::default();
                }
                return !goes;
            }
            let goes = all.get(&key).is_none_or(|object| obsolete(key, object));
            if goes {
                all.remove(&key);
            }
            !goes
        });
        if group.is_empty() {
            near.remove(&number);
        }
    }
}

impl Objects {
    pub(super) fn new() -> Self {
        Self {
            records: Records::new(),
            shards: (0..SHARDS).map(|_| Aligned(Lock::new(Shard::default()))).collect(),
            places: (0..PLACES / 64).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// There was no object.
    pub(super) fn reset(&self) {
        self.records.reset();
        self.shards.iter().for_each(|shard| *shard.0.lock() = Shard::default());
        self.places.iter().for_each(|word| word.store(0, Relaxed));
    }

    /// The shard of a group of keys.
    fn of_group(&self, number: u64) -> Guard<'_, Shard> {
        let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        self.shards[(mixed % SHARDS) as usize].0.lock()
    }

    /// Where an object's record begins, if it has one.
    #[inline]
    pub(super) fn place_of(&self, key: u64) -> Option<*const u8> {
        self.records.find(key).map(|record| core::ptr::from_ref(record).cast())
    }

    /// An object, if it was ever released.
    #[inline]
    pub(super) fn get(&self, key: u64) -> Option<Held<'_>> {
        if let Some(record) = self.records.find(key) {
            return Some(Held::InRecord(record.lock()));
        }
        let shard = self.of_group(key / NEAR);
        shard.all.contains_key(&key).then_some(Held::InShard(shard, key))
    }

    /// An object that is about to be released.
    #[inline]
    pub(super) fn make(&self, key: u64) -> Held<'_> {
        if let Some(record) = self.records.find(key) {
            let kept = record.lock();
            if kept.is_listed {
                return Held::InRecord(kept);
            }
        }
        self.list(key)
    }

    #[inline(never)]
    fn list(&self, key: u64) -> Held<'_> {
        let mut shard = self.of_group(key / NEAR);
        if shard.all.contains_key(&key) {
            return Held::InShard(shard, key);
        }
        // Nobody else looks for a record for it meanwhile: that is done with its shard locked.
        let record = self.records.find(key).or_else(|| self.records.add(key)).map(Record::lock);
        if record.as_ref().is_none_or(|kept| !kept.is_listed) {
            shard.near.entry(key / NEAR).or_default().push(key);
            let (word, bit) = self.place(key / NEAR);
            word.fetch_or(bit, Relaxed);
        }
        if let Some(mut kept) = record {
            kept.is_listed = true;
            return Held::InRecord(kept);
        }
        shard.all.insert(key, Object::default());
        Held::InShard(shard, key)
    }

    fn place(&self, number: u64) -> (&AtomicU64, u64) {
        let place = number % PLACES;
        (&self.places[(place / 64) as usize], 1 << (place % 64))
    }

    /// Whoever makes an object in the range meanwhile uses memory that is not his.
    pub(super) fn forget_range(&self, keys: &Range<u64>) {
        if keys.is_empty() {
            return;
        }
        let within = |key: u64, _: &Object| keys.contains(&key);
        let groups = keys.start / NEAR..(keys.end - 1) / NEAR + 1;
        if groups.end - groups.start <= GROUPS_MAX {
            for number in groups {
                let (word, bit) = self.place(number);
                if word.load(Relaxed) & bit != 0 {
                    self.of_group(number).forget(&self.records, number, within);
                }
            }
            return;
        }
        for shard in &self.shards {
            let mut shard = shard.0.lock();
            let found: Vec<u64> = shard.near.keys().copied().filter(|number| groups.contains(number)).collect();
            for number in found {
                shard.forget(&self.records, number, within);
            }
        }
    }

    pub(super) fn sweep(&self, floor: &Floor) {
        for shard in &self.shards {
            let mut shard = shard.0.lock();
            for number in shard.near.keys().copied().collect::<Vec<_>>() {
                shard.forget(&self.records, number, |_, object| object.is_obsolete(floor));
            }
            shard.all.shrink_to_fit();
            shard.near.shrink_to_fit();
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.records.bytes() + self.shards.iter().map(|shard| shard.0.lock().bytes()).sum::<usize>()
    }
}

impl Shard {
    fn bytes(&self) -> usize {
        let vectors: usize = self.all.values().map(Object::share_bytes).sum();
        let keys: usize = self.near.values().map(|group| group.capacity() * size_of::<u64>()).sum();
        self.all.allocation_size() + self.near.allocation_size() + vectors + keys
    }
}
