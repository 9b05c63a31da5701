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
//! others in a shared routine. What finds no slot is looked up by the dispatcher each
//! time: slow, and right.
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
/// Memory of the table.
pub(crate) const TABLE_BYTES: usize = (CHOSEN + PROBES) * SLOT_BYTES;
/// The inverted key of a slot that was never used. It is that of address 2^64 - 1, where no code is: such a slot leads
/// to the routine that asks the dispatcher.
const FREE: u64 = 0;

#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Slot {
    inverted: u64,
    leads_to: u64,
}

#[derive(Debug)]
pub(crate) struct Table {
    slots: Array<Slot>,
    /// The routine that asks the dispatcher about the slot's key.
    stale: u64,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(arena: &mut Arena) -> Option<Self> {
        Some(Self { slots: arena.array(CHOSEN + PROBES)?, stale: 0 })
    }

    pub(crate) fn address(&self) -> u64 {
        self.slots.as_ptr().addr() as u64
    }

    /// Empties it. `stale` is the routine to which free slots lead.
    ///
    /// No thread may be in the cache.
    pub(crate) fn clear(&mut self, stale: u64) {
        self.stale = stale;
        self.slots.fill_up(Slot { inverted: FREE, leads_to: stale });
    }

    /// Lets `address` lead to `entry`. `false` if its slots belong to others.
    pub(crate) fn insert(&mut self, address: u64, entry: u64) -> bool {
        let first = address as usize % CHOSEN;
        let inverted = !address;
        let slots = &mut self.slots[first..first + PROBES];
        let Some(slot) = slots.iter_mut().find(|s| s.inverted == inverted || s.inverted == FREE) else {
            return false;
        };
        // SAFETY: the slot is this table's; emitted code reads both words at any time, each as a whole. Where it leads
        // must be there before the key is.
        unsafe {
            (&raw mut slot.leads_to).write_volatile(entry);
            core::sync::atomic::fence(core::sync::atomic::Ordering::Release);
            (&raw mut slot.inverted).write_volatile(inverted);
        }
        true
    }

    /// Lets `address` lead to the dispatcher again, if it is in the table.
    pub(crate) fn remove(&mut self, address: u64) {
        let first = address as usize % CHOSEN;
        let (inverted, stale) = (!address, self.stale);
        if let Some(slot) = self.slots[first..first + PROBES].iter_mut().find(|s| s.inverted == inverted) {
            // SAFETY: as in `insert`.
            unsafe { (&raw mut slot.leads_to).write_volatile(stale) };
        }
    }

    #[cfg(test)]
    fn find(&self, address: u64) -> Option<u64> {
        let first = address as usize % CHOSEN;
        self.slots[first..first + PROBES].iter().find(|s| s.inverted == !address).map(|s| s.leads_to)
    }
}

#[cfg(test)]
mod tests {
    use super::{Arena, PROBES, TABLE_BYTES, Table};
    use std::ptr::NonNull;

    #[test]
    fn addresses_that_meet_find_a_slot_each_until_there_is_none() {
        let mut memory = vec![0u64; TABLE_BYTES / 8];
        // SAFETY: the memory outlives the table.
        let mut arena = unsafe { Arena::new(NonNull::new(memory.as_mut_ptr().cast()).unwrap(), TABLE_BYTES) };
        let mut table = Table::new(&mut arena).unwrap();
        table.clear(99);
        let meeting = |n: usize| 0xFFFF + ((n as u64) << 16);
        for n in 0..PROBES {
            assert!(table.insert(meeting(n), n as u64));
        }
        assert!(!table.insert(meeting(PROBES), 8));
        assert!((0..PROBES).all(|n| table.find(meeting(n)) == Some(n as u64)));
        table.remove(meeting(3));
        assert_eq!(table.find(meeting(3)), Some(99));
        assert!(table.insert(meeting(3), 33), "its own slot is its own");
        assert_eq!(table.find(meeting(3)), Some(33));
        table.clear(98);
        assert_eq!(table.find(meeting(3)), None);
    }
}
