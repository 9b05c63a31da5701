//! Lists of entries, for lines that remember more than one segment.
//!
//! A list lies in one piece in a chunk of 4, 8, 16, … entries; chunks of a size are
//! cut from slabs and handed out again when they are free. Apart from the pages so
//! that a line with one segment, the common case, pays nothing for it.

use super::entry::Entry;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Classes of which a slab holds several chunks: powers of two, so that a place is found by shifts.
const SHARED_CLASSES: usize = 8;
/// Entries of the smallest chunk.
const SMALLEST: usize = 4;

/// All lists.
#[derive(Debug, Default)]
pub(super) struct Spill {
    classes: Vec<Class>,
}

/// The chunks of one size.
#[derive(Debug, Default)]
struct Class {
    slabs: Vec<Box<[Entry]>>,
    free: Vec<u32>,
    used: u32,
}

/// Where a list is: its class in the upper half, the number of the chunk in the lower one.
fn split(place: u64) -> (usize, usize) {
    ((place >> 32) as usize, place as u32 as usize)
}

fn capacity(class: usize) -> usize {
    SMALLEST << class
}

/// How many chunks a slab has, as a power of two.
fn slab_shift(class: usize) -> usize {
    SHARED_CLASSES.saturating_sub(class)
}

impl Spill {
    /// Makes a list of two entries.
    pub(super) fn pair(&mut self, first: Entry, second: Entry) -> Entry {
        let place = self.take(0);
        self.chunk(place)[..2].copy_from_slice(&[first, second]);
        Entry::spilled(place, 2)
    }

    /// The entries of a list.
    pub(super) fn list(&mut self, slot: &Entry) -> &mut [Entry] {
        let (place, length) = slot.list();
        &mut self.chunk(place)[..length]
    }

    /// Moves a list that fills its chunk to a larger one and adds an entry; what to put into the slot.
    pub(super) fn grow(&mut self, place: u64, more: Entry) -> Entry {
        let class = split(place).0;
        let larger = self.take(class + 1);
        for index in 0..capacity(class) {
            let entry = self.chunk(place)[index];
            self.chunk(larger)[index] = entry;
        }
        self.chunk(larger)[capacity(class)] = more;
        self.give_back(place);
        Entry::spilled(larger, capacity(class) + 1)
    }

    /// Keeps those entries of a list for which `keep`, which may change them, says so; what to put into the slot.
    pub(super) fn retain(&mut self, slot: &Entry, mut keep: impl FnMut(&mut Entry) -> bool) -> Entry {
        let list = self.list(slot);
        let mut kept = 0;
        for index in 0..list.len() {
            let mut entry = list[index];
            if keep(&mut entry) {
                list[kept] = entry;
                kept += 1;
            }
        }
        let first = list[0];
        if kept > 1 {
            return Entry::spilled(slot.list().0, kept);
        }
        self.give_back(slot.list().0);
        if kept == 1 { first } else { Entry::EMPTY }
    }

    /// Gives a list back.
    pub(super) fn give_back(&mut self, place: u64) {
        let (class, chunk) = split(place);
        let class = &mut self.classes[class];
        class.free.push(chunk as u32);
        // One slab is kept: a single line may get and lose its list again and again.
        if class.free.len() == class.used as usize && class.slabs.len() > 1 {
            *class = Class::default();
        }
    }

    /// Gives the memory of chunks back of which none is in use.
    pub(super) fn trim(&mut self) {
        for class in self.classes.iter_mut().filter(|class| class.free.len() == class.used as usize) {
            *class = Class::default();
        }
    }

    /// Bytes in use.
    pub(super) fn bytes(&self) -> usize {
        let of = |class: &Class| {
            class.slabs.iter().map(|slab| size_of_val(&**slab)).sum::<usize>() + class.free.capacity() * 4
        };
        self.classes.iter().map(of).sum()
    }

    fn take(&mut self, class: usize) -> u64 {
        while self.classes.len() <= class {
            self.classes.push(Class::default());
        }
        let chunks = &mut self.classes[class];
        let chunk = chunks.free.pop().unwrap_or_else(|| {
            let chunk = chunks.used;
            if chunk as usize & ((1 << slab_shift(class)) - 1) == 0 {
                chunks.slabs.push(vec![Entry::EMPTY; capacity(class) << slab_shift(class)].into_boxed_slice());
            }
            chunks.used += 1;
            chunk
        });
        (class as u64) << 32 | u64::from(chunk)
    }

    /// All of a chunk, beyond the length of its list as well.
    #[inline]
    pub(super) fn chunk(&mut self, place: u64) -> &mut [Entry] {
        let (class, chunk) = split(place);
        let shift = slab_shift(class);
        let slab = &mut self.classes[class].slabs[chunk >> shift];
        &mut slab[(chunk & ((1 << shift) - 1)) * capacity(class)..][..capacity(class)]
    }
}
