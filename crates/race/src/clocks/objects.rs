//! What was left at objects by those who released them.
//!
//! They are spread over shards by their keys, each with a lock: threads that use
//! different objects hardly ever meet.
//!
//! Apart from the threads because objects come and go with memory.

use crate::clock::{Clock, Floor};
use crate::epoch::Epoch;
use crate::mix::Table;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
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
    all: Table<Object>,
    near: Table<Vec<u64>>,
}

/// What one object holds.
#[derive(Debug, Default)]
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

impl Shard {
    #[inline]
    pub(super) fn get(&self, key: u64) -> Option<&Object> {
        self.all.get(&key)
    }

    fn forget(&mut self, number: u64, keys: &Range<u64>) {
        let Self { all, near } = self;
        if let Some(group) = near.get_mut(&number) {
            group.retain(|key| !keys.contains(key) || all.remove(key).is_none());
            if group.is_empty() {
                near.remove(&number);
            }
        }
    }
}

impl Objects {
    pub(super) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Aligned(Lock::new(Shard::default()))).collect();
        Self { shards, places: (0..PLACES / 64).map(|_| AtomicU64::new(0)).collect() }
    }

    /// There was no object.
    pub(super) fn reset(&self) {
        self.shards.iter().for_each(|shard| *shard.0.lock() = Shard::default());
        self.places.iter().for_each(|word| word.store(0, Relaxed));
    }

    /// The shard of a group of keys.
    #[inline]
    fn of_group(&self, number: u64) -> Guard<'_, Shard> {
        let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        self.shards[(mixed % SHARDS) as usize].0.lock()
    }

    /// The shard that an object belongs to.
    #[inline]
    pub(super) fn shard(&self, key: u64) -> Guard<'_, Shard> {
        self.of_group(key / NEAR)
    }

    /// An object of this shard.
    #[inline]
    pub(super) fn make<'s>(&self, shard: &'s mut Shard, key: u64) -> &'s mut Object {
        let Shard { all, near } = shard;
        all.entry(key).or_insert_with(|| {
            near.entry(key / NEAR).or_default().push(key);
            let (word, bit) = self.place(key / NEAR);
            word.fetch_or(bit, Relaxed);
            Object::default()
        })
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
        let groups = keys.start / NEAR..(keys.end - 1) / NEAR + 1;
        if groups.end - groups.start <= GROUPS_MAX {
            for number in groups {
                let (word, bit) = self.place(number);
                if word.load(Relaxed) & bit != 0 {
                    self.of_group(number).forget(number, keys);
                }
            }
            return;
        }
        for shard in &self.shards {
            let mut shard = shard.0.lock();
            let within: Vec<u64> = shard.near.keys().copied().filter(|number| groups.contains(number)).collect();
            for number in within {
                shard.forget(number, keys);
            }
        }
    }

    pub(super) fn sweep(&self, floor: &Floor) {
        let obsolete = |clock: &Option<Clock>| clock.as_ref().is_none_or(|clock| floor.covers(clock));
        for shard in &self.shards {
            let mut shard = shard.0.lock();
            let Shard { all, near } = &mut *shard;
            near.retain(|_, group| {
                group.retain(|key| {
                    let old = all.get(key).is_none_or(|object| obsolete(&object.exclusive) && obsolete(&object.shared));
                    if old {
                        all.remove(key);
                    }
                    !old
                });
                !group.is_empty()
            });
            all.shrink_to_fit();
            near.shrink_to_fit();
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.lock().bytes()).sum()
    }
}

impl Shard {
    fn bytes(&self) -> usize {
        let share = |clock: &Option<Clock>| clock.as_ref().map_or(0, Clock::share_bytes);
        let vectors: usize = self.all.values().map(|object| share(&object.exclusive) + share(&object.shared)).sum();
        let keys: usize = self.near.values().map(|group| group.capacity() * size_of::<u64>()).sum();
        self.all.allocation_size() + self.near.allocation_size() + vectors + keys
    }
}
