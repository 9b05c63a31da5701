//! What was left at objects by those who released them.
//!
//! Apart from the threads because objects come and go with memory.

use crate::clock::{Clock, Floor};
use crate::epoch::Epoch;
use crate::mix::Table;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

/// Keys that are near to each other are found together, because memory is given back in ranges.
const NEAR: u64 = 4096;

/// All objects that were released.
#[derive(Debug, Default)]
pub(super) struct Objects {
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
        Some(before) if Arc::ptr_eq(&before.others, &clock.others) && before.epoch.thread() == clock.epoch.thread() => {
            before.epoch = clock.epoch;
        }
        Some(before) if !clock.covers(before) => *before = Clock::new(Epoch::NONE, clock.both(before)),
        _ => *left = Some(clock.clone()),
    }
}

impl Objects {
    #[inline]
    pub(super) fn get(&self, key: u64) -> Option<&Object> {
        self.all.get(&key)
    }

    #[inline]
    pub(super) fn make(&mut self, key: u64) -> &mut Object {
        self.all.entry(key).or_insert_with(|| {
            self.near.entry(key / NEAR).or_default().push(key);
            Object::default()
        })
    }

    pub(super) fn forget_range(&mut self, keys: &Range<u64>) {
        if keys.is_empty() {
            return;
        }
        let groups = keys.start / NEAR..(keys.end - 1) / NEAR + 1;
        let Self { all, near } = self;
        let mut keep = |group: &mut Vec<u64>| {
            group.retain(|key| !keys.contains(key) || all.remove(key).is_none());
            !group.is_empty()
        };
        if groups.end - groups.start > near.len() as u64 {
            near.retain(|number, group| !groups.contains(number) || keep(group));
            return;
        }
        for number in groups {
            if near.get_mut(&number).is_some_and(|group| !keep(group)) {
                near.remove(&number);
            }
        }
    }

    pub(super) fn sweep(&mut self, floor: &Floor) {
        let Self { all, near } = self;
        let obsolete = |clock: &Option<Clock>| clock.as_ref().is_none_or(|clock| floor.covers(clock));
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

    pub(super) fn bytes(&self) -> usize {
        let share = |clock: &Option<Clock>| clock.as_ref().map_or(0, Clock::share_bytes);
        let vectors: usize = self.all.values().map(|object| share(&object.exclusive) + share(&object.shared)).sum();
        let keys: usize = self.near.values().map(|group| group.capacity() * size_of::<u64>()).sum();
        self.all.allocation_size() + self.near.allocation_size() + vectors + keys
    }
}
