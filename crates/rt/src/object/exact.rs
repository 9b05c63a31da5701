//! A clock for each object, by its address: where races are looked for.
//!
//! In the table that a recording uses, objects may share a clock. For an order of
//! replay that costs nothing but time; for happened-before it would be an edge that
//! the program does not have, and hide a race. So a process in which races are looked
//! for has another table: open addressing, entries that are claimed once and stay.
//! Objects that are near to each other have entries near to each other, because most
//! programs have few, and each page counts.
//!
//! Where all places that an object may take are taken, it goes to the other table.

use super::Cell;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use relive_sys::syscall;

/// Bytes of memory, as a power of two, whose objects stand together.
const NEAR_BITS: u32 = 10;
/// Bytes that an object has at least.
const OBJECT_BITS: u32 = 2;
const IN_GROUP: usize = 1 << (NEAR_BITS - OBJECT_BITS);
const ENTRIES: usize = 1 << 20;
const PROBES: usize = 2 * IN_GROUP;

#[derive(Debug)]
struct Entry {
    /// In words of the least size; 0 if the place is free.
    object: AtomicUsize,
    cell: Cell,
}

/// Null where no races are looked for.
static TABLE: AtomicPtr<[Entry; ENTRIES]> = AtomicPtr::new(core::ptr::null_mut());

/// From now on every object has its own. `false` if there is no memory for them.
pub(crate) fn begin() -> bool {
    let at = syscall::mmap(size_of::<[Entry; ENTRIES]>(), syscall::MAP_PRIVATE_ANONYMOUS, -1, 0);
    if at > 0 {
        TABLE.store(at as *mut _, Ordering::Release);
    }
    at > 0
}

/// The clock of the object at `address`, if objects have their own.
#[inline]
pub(super) fn of(address: usize) -> Option<&'static Cell> {
    let table = TABLE.load(Ordering::Acquire);
    // SAFETY: a mapping of this size that stays; all zero is a table of free places.
    if table.is_null() { None } else { find(unsafe { &*table }, address) }
}

/// Which object has this clock, if it is one of these.
pub(super) fn address(cell: &Cell) -> Option<usize> {
    let table = TABLE.load(Ordering::Acquire);
    let index = core::ptr::from_ref(cell).addr().checked_sub(table.addr()).filter(|_| !table.is_null())?;
    // SAFETY: as above.
    let entry = unsafe { (&*table).get(index / size_of::<Entry>()) }?;
    Some(entry.object.load(Ordering::Relaxed) << OBJECT_BITS)
}

/// `table` has a power of two of entries.
#[inline]
fn find(table: &[Entry], address: usize) -> Option<&Cell> {
    // Nothing that a program orders by lies at the very beginning of memory.
    let object = address >> OBJECT_BITS;
    let group = ((object / IN_GROUP) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    let start = group as usize * IN_GROUP + object % IN_GROUP;
    let place = |step| table.get((start + step) & (table.len() - 1));
    (0..PROBES.min(table.len())).filter_map(place).find_map(|entry| {
        let found = match entry.object.load(Ordering::Acquire) {
            0 => entry.object.compare_exchange(0, object, Ordering::AcqRel, Ordering::Acquire).err().unwrap_or(object),
            found => found,
        };
        (found == object).then_some(&entry.cell)
    })
}

#[cfg(test)]
mod tests {
    use super::{Cell, ENTRIES, Entry, find};
    use core::sync::atomic::AtomicUsize;
    use std::collections::BTreeSet;

    fn table(entries: usize) -> Vec<Entry> {
        (0..entries).map(|_| Entry { object: AtomicUsize::new(0), cell: Cell::default() }).collect()
    }

    fn place(table: &[Entry], address: usize) -> Option<usize> {
        find(table, address).map(|cell| core::ptr::from_ref(cell).addr())
    }

    #[test]
    fn every_object_has_its_own_whoever_asks_first() {
        let table = table(ENTRIES);
        // As many as make collisions certain in a table of sixteen bits.
        let objects: Vec<usize> = (0..40_000).map(|i| 0x7fff_0000_1000 + i * 56).collect();
        let all = || objects.iter().map(|&object| place(&table, object).expect("there is room")).collect::<Vec<_>>();
        let [first, second] = std::thread::scope(|scope| {
            let both = [scope.spawn(all), scope.spawn(all)];
            both.map(|thread| thread.join().expect("it does not panic"))
        });
        assert_eq!(first, second);
        assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), objects.len());
    }

    #[test]
    fn a_full_table_has_room_for_those_that_it_knows() {
        let table = table(256);
        let known: Vec<usize> = (1..=256).map(|i| i * 4).collect();
        let places: Vec<_> = known.iter().map(|&object| place(&table, object)).collect();
        assert!(places.iter().all(Option::is_some));
        assert_eq!(place(&table, 0x10_0000), None);
        assert_eq!(known.iter().map(|&object| place(&table, object)).collect::<Vec<_>>(), places);
    }
}
