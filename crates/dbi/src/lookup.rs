//! The table in which indirect branches find where their target was translated.
//!
//! All threads share it, and emitted code reads it without a lock. A slot belongs to
//! one address of the program from when it is first used until the whole cache is
//! emptied; only where it leads changes, by one store. So a reader that found the
//! address can take the second word whatever others do meanwhile.
//!
//! The address's lowest 16 bits choose the slot, because an instruction without
//! influence on the flags (`movzx`) extracts them. Addresses that meet there go to
//! the next free one of eight; emitted code compares the first in line and the
//! others in a shared routine.
//!
//! A compiler has more places to return to than that, and whoever comes first has a slot
//! for good. So what finds none has one in a further part of the table, which only large
//! programs touch: there each 256 bytes of the program have sixteen slots, chosen by bits 8
//! to 23, again without a flag, and the routine looks through them. What finds no slot there
//! either is looked up by the dispatcher each time: slow, and right.
//!
//! Keys are kept inverted: `lea r, [address + key + 1]` is zero exactly if they are
//! equal, and sets no flags either.

use crate::arena::{Arena, Array};

/// Slots that lowest 16 bits can choose.
const CHOSEN: usize = 1 << 16;
/// Slots that an address may be in, from the chosen one on.
pub(crate) const PROBES: usize = 8;
/// Bytes of a slot: the key, then where it leads.
pub(crate) const SLOT_BYTES: usize = 16;
/// Slots of the further part that bits 8 to 23 choose.
pub(crate) const FURTHER_PROBES: usize = 16;
const FURTHER: usize = FURTHER_PROBES << 16;
/// Memory of the table.
pub(crate) const TABLE_BYTES: usize = (CHOSEN + PROBES + FURTHER) * SLOT_BYTES;
/// The inverted key of a slot that was never used. It is that of address 2^64 - 1, where no code is: such a slot leads
/// to the routine that asks the dispatcher.
const FREE: u64 = 0;

#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
struct Slot {
    inverted: u64,
    leads_to: u64,
}

#[derive(Debug)]
pub(crate) struct Table {
    slots: Array<Slot>,
    /// The further part. Its slots are zero until they are used: nobody may look for address 2^64 - 1 there.
    further: Array<Slot>,
    has_further: bool,
    /// The routine that asks the dispatcher about the slot's key.
    stale: u64,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(arena: &mut Arena) -> Option<Self> {
        let (slots, mut further) = (arena.array(CHOSEN + PROBES)?, arena.array(FURTHER)?);
        further.adopt_zeroed(Slot { inverted: FREE, leads_to: 0 });
        Some(Self { slots, further, has_further: false, stale: 0 })
    }

    /// Addresses of its two parts.
    pub(crate) fn addresses(&self) -> [u64; 2] {
        [&self.slots, &self.further].map(|part| part.as_ptr().addr() as u64)
    }

    /// The slots that an address may have.
    fn chosen(&mut self, address: u64) -> [&mut [Slot]; 2] {
        let first = address as usize % CHOSEN;
        let further = (address >> 8) as usize % (FURTHER / FURTHER_PROBES) * FURTHER_PROBES;
        [&mut self.slots[first..][..PROBES], &mut self.further[further..][..FURTHER_PROBES]]
    }

    /// Empties it. `stale` is the routine to which free slots lead.
    ///
    /// No thread may be in the cache.
    pub(crate) fn clear(&mut self, stale: u64) {
        self.stale = stale;
        self.slots.fill_up(Slot { inverted: FREE, leads_to: stale });
        if core::mem::take(&mut self.has_further) {
            self.further.fill(Slot { inverted: FREE, leads_to: 0 });
        }
    }

    /// Lets `address` lead to `entry`. `false` if its slots belong to others.
    pub(crate) fn insert(&mut self, address: u64, entry: u64) -> bool {
        let inverted = !address;
        let mine = |s: &&mut Slot| s.inverted == inverted || s.inverted == FREE;
        let [near, far] = self.chosen(address);
        let near = near.iter_mut().find(mine);
        let is_far = near.is_none();
        let Some(slot) = near.or_else(|| far.iter_mut().find(mine)) else { return false };
        // SAFETY: the slot is this table's; emitted code reads both words at any time, each as a whole. Where it leads
        // must be there before the key is.
        unsafe {
            (&raw mut slot.leads_to).write_volatile(entry);
            core::sync::atomic::fence(core::sync::atomic::Ordering::Release);
            (&raw mut slot.inverted).write_volatile(inverted);
        }
        self.has_further |= is_far;
        true
    }

    /// Lets `address` lead to the dispatcher again, if it is in the table.
    pub(crate) fn remove(&mut self, address: u64) {
        let (inverted, stale) = (!address, self.stale);
        if let Some(slot) = self.chosen(address).into_iter().flatten().find(|s| s.inverted == inverted) {
            // SAFETY: as in `insert`.
            unsafe { (&raw mut slot.leads_to).write_volatile(stale) };
        }
    }

    #[cfg(test)]
    fn find(&mut self, address: u64) -> Option<u64> {
        self.chosen(address).into_iter().flatten().find(|s| s.inverted == !address).map(|s| s.leads_to)
    }
}

#[cfg(test)]
mod tests {
    use super::{Arena, FURTHER_PROBES, PROBES, TABLE_BYTES, Table};
    use std::ptr::NonNull;

    #[test]
    fn addresses_that_meet_find_a_slot_each_until_there_is_none() {
        let mut memory = vec![0u64; TABLE_BYTES / 8];
        // SAFETY: the memory outlives the table.
        let mut arena = unsafe { Arena::new(NonNull::new(memory.as_mut_ptr().cast()).unwrap(), TABLE_BYTES) };
        let mut table = Table::new(&mut arena).unwrap();
        table.clear(99);
        let meeting = |n: usize| 0xFFFF + ((n as u64) << 16);
        // Sixteen megabytes apart, so that they meet in the further part, too.
        let meeting = |n: usize| meeting(n << 8);
        let all = PROBES + FURTHER_PROBES;
        for n in 0..all {
            assert!(table.insert(meeting(n), n as u64));
        }
        assert!(!table.insert(meeting(all), 8));
        assert!((0..all).all(|n| table.find(meeting(n)) == Some(n as u64)));
        for n in [3, all - 1] {
            table.remove(meeting(n));
            assert_eq!(table.find(meeting(n)), Some(99));
            assert!(table.insert(meeting(n), 33), "its own slot is its own");
            assert_eq!(table.find(meeting(n)), Some(33));
        }
        table.clear(98);
        assert!((0..all).all(|n| table.find(meeting(n)).is_none()));
    }
}
