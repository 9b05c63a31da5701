//! Random executions of a few threads that obey the rules of their primitives.

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::vec::Vec;

/// What happened, in the order of the execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) thread: u32,
    pub(super) what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    Create(u32),
    End,
    Join(u32),
    Lock(u64),
    Unlock(u64),
    ReadLock(u64),
    ReadUnlock(u64),
    WriteLock(u64),
    WriteUnlock(u64),
    Post(u64),
    Wait(u64),
    /// At a barrier, in a round.
    Arrive(u64, usize),
    Depart(u64, usize),
    Store(u64),
    Load(u64),
    Swap(u64),
    Read(Range<u64>),
    Write(Range<u64>),
    Free(Range<u64>),
    Fresh(Range<u64>),
    Sweep,
}

/// One step of a script: which thread does what to what, as far as it can.
pub(super) type Step = (u8, u8, u8, u8);

pub(super) const THREADS: u32 = 5;
pub(super) const PARTIES: u32 = 2;
/// Addresses touched lie below.
pub(super) const BYTES: u64 = 160;

/// Scripts of up to `steps` steps.
pub(super) fn scripts(steps: usize) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(any::<Step>(), 1..steps)
}

/// What a script comes to.
pub(super) fn execute(script: &[Step], frees: bool) -> Vec<Event> {
    let mut world = World { frees, ..World::default() };
    world.running.insert(0);
    for &(thread, action, object, size) in script {
        world.step(thread, action, u64::from(object), u64::from(size));
    }
    world.events
}

#[derive(Default)]
struct World {
    frees: bool,
    events: Vec<Event>,
    running: BTreeSet<u32>,
    created: u32,
    ended: BTreeSet<u32>,
    mutexes: BTreeMap<u64, u32>,
    readers: BTreeMap<u64, BTreeSet<u32>>,
    writers: BTreeMap<u64, u32>,
    semaphores: BTreeMap<u64, u64>,
    /// Arrivals at each barrier by now.
    arrivals: BTreeMap<u64, usize>,
    /// Threads inside a barrier: which, and in which round.
    inside: BTreeMap<u32, (u64, usize)>,
}

impl World {
    fn push(&mut self, thread: u32, what: What) {
        self.events.push(Event { thread, what });
    }

    fn step(&mut self, thread: u8, action: u8, object: u64, size: u64) {
        let index = usize::from(thread) % self.running.len().max(1);
        let Some(&thread) = self.running.iter().nth(index) else { return };
        if let Some(&(barrier, round)) = self.inside.get(&thread) {
            if self.arrivals[&barrier] >= (round + 1) * PARTIES as usize {
                self.inside.remove(&thread);
                self.push(thread, What::Depart(barrier, round));
            }
            return;
        }
        let at = object % BYTES;
        let range = at..(at + 1 + size % 12).min(BYTES);
        let block = at / 16 * 16..at / 16 * 16 + 16;
        match action % 32 {
            0..9 => self.push(thread, What::Read(range)),
            9..17 => self.push(thread, What::Write(range)),
            17 if self.frees => self.push(thread, What::Free(block)),
            18 if self.frees => self.push(thread, What::Fresh(block)),
            17 | 18 | 31 => self.push(thread, What::Sweep),
            19..21 => self.create(thread),
            21 => self.end(thread),
            22 => self.join(thread),
            23..25 => self.mutex(thread, object % 2),
            25..27 => self.rwlock(thread, 10 + object % 2, size),
            27 => self.semaphore(thread, 20 + object % 2, size),
            28 | 29 => self.arrive(thread, 30),
            _ => {
                let key = 40 + object % 2;
                self.push(thread, [What::Store(key), What::Load(key), What::Swap(key)][size as usize % 3].clone());
            }
        }
    }

    fn create(&mut self, thread: u32) {
        if self.created + 1 < THREADS {
            self.created += 1;
            self.running.insert(self.created);
            self.push(thread, What::Create(self.created));
        }
    }

    fn end(&mut self, thread: u32) {
        let holds = self.mutexes.values().chain(self.writers.values()).any(|&owner| owner == thread)
            || self.readers.values().any(|readers| readers.contains(&thread));
        if thread != 0 && !holds {
            self.running.remove(&thread);
            self.ended.insert(thread);
            self.push(thread, What::End);
        }
    }

    fn join(&mut self, thread: u32) {
        if let Some(other) = self.ended.pop_first() {
            self.push(thread, What::Join(other));
        }
    }

    fn mutex(&mut self, thread: u32, key: u64) {
        match self.mutexes.get(&key) {
            None => {
                self.mutexes.insert(key, thread);
                self.push(thread, What::Lock(key));
            }
            Some(&owner) if owner == thread => {
                self.mutexes.remove(&key);
                self.push(thread, What::Unlock(key));
            }
            Some(_) => {}
        }
    }

    fn rwlock(&mut self, thread: u32, key: u64, size: u64) {
        let readers = self.readers.entry(key).or_default();
        if readers.remove(&thread) {
            self.push(thread, What::ReadUnlock(key));
        } else if self.writers.get(&key) == Some(&thread) {
            self.writers.remove(&key);
            self.push(thread, What::WriteUnlock(key));
        } else if !self.writers.contains_key(&key) && size % 3 < 2 {
            readers.insert(thread);
            self.push(thread, What::ReadLock(key));
        } else if !self.writers.contains_key(&key) && readers.is_empty() {
            self.writers.insert(key, thread);
            self.push(thread, What::WriteLock(key));
        }
    }

    fn semaphore(&mut self, thread: u32, key: u64, size: u64) {
        let value = self.semaphores.entry(key).or_default();
        if size.is_multiple_of(2) {
            *value += 1;
            self.push(thread, What::Post(key));
        } else if *value > 0 {
            *value -= 1;
            self.push(thread, What::Wait(key));
        }
    }

    fn arrive(&mut self, thread: u32, key: u64) {
        let arrivals = self.arrivals.entry(key).or_default();
        let round = *arrivals / PARTIES as usize;
        *arrivals += 1;
        self.inside.insert(thread, (key, round));
        self.push(thread, What::Arrive(key, round));
    }
}
