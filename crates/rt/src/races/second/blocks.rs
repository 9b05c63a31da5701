//! Blocks of the heap with watched bytes, and who gave them out and took them back.

use super::Origin;
use alloc::collections::BTreeMap;
use core::ops::Range;

/// By their addresses.
#[derive(Default)]
pub(super) struct Blocks(BTreeMap<u64, Block>);

pub(super) struct Block {
    pub(super) size: u64,
    pub(super) allocated: Origin,
    pub(super) freed: Option<Origin>,
}

impl Blocks {
    /// What lies in this range is gone.
    pub(super) fn forget(&mut self, range: &Range<u64>) {
        while let Some((&start, old)) = self.0.range(..range.end).next_back()
            && start + old.size.max(1) > range.start
        {
            self.0.remove(&start);
        }
    }

    pub(super) fn insert(&mut self, start: u64, size: u64, allocated: Origin) {
        self.0.insert(start, Block { size, allocated, freed: None });
    }

    /// The block that begins there.
    pub(super) fn at(&mut self, start: u64) -> Option<&mut Block> {
        self.0.get_mut(&start)
    }

    /// The block in which an address lies, in use or given back.
    pub(super) fn of(&self, address: u64) -> Option<(u64, &Block)> {
        let (&start, block) = self.0.range(..=address).next_back()?;
        (address < start + block.size).then_some((start, block))
    }
}
