//! A bit for each byte of a part of a file.
//!
//! Apart because both what a file names and where a function's jumps lead are remembered so:
//! each is asked for a hundred thousand times in a compiler's library, and found out once.

use crate::syscall::{self, MAP_PRIVATE_ANONYMOUS};
use core::ops::Range;

/// Marks of a range of offsets. Their memory is kept for the next range.
#[derive(Debug)]
pub(crate) struct Marks {
    bits: usize,
    length: usize,
    range: Range<usize>,
}

impl Marks {
    pub(crate) const NONE: Self = Self { bits: 0, length: 0, range: 0..0 };

    /// Marks nothing any more, and may mark these offsets from now on. `None` if there is no memory for that.
    pub(crate) fn start(&mut self, range: Range<usize>) -> Option<()> {
        let length = range.len().div_ceil(8);
        if length > self.length {
            // Functions grow little by little: a mapping for each would take long.
            let wanted = length.next_power_of_two().max(1 << 12);
            let bits = usize::try_from(syscall::mmap(wanted, MAP_PRIVATE_ANONYMOUS, -1, 0)).ok()?;
            drop(core::mem::replace(self, Self { bits, length: wanted, range }));
            return Some(());
        }
        let used = self.range.len().div_ceil(8);
        self.bytes_mut()[..used].fill(0);
        self.range = range;
        Some(())
    }

    fn bytes(&self) -> &[u8] {
        match self.bits {
            0 => &[],
            // SAFETY: a mapping of this length of its own, zero at first, that lives as long as this.
            bits => unsafe { core::slice::from_raw_parts(bits as *const u8, self.length) },
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self.bits {
            0 => &mut [],
            // SAFETY: as above, and nobody else has it: this is borrowed mutably.
            bits => unsafe { core::slice::from_raw_parts_mut(bits as *mut u8, self.length) },
        }
    }

    /// Marks an offset, if it is one of the range.
    pub(crate) fn mark(&mut self, offset: usize) {
        if self.range.contains(&offset) {
            let at = offset - self.range.start;
            self.bytes_mut()[at / 8] |= 1 << (at % 8);
        }
    }

    /// Whether one of these offsets is marked.
    pub(crate) fn any(&self, offsets: Range<usize>) -> bool {
        let bytes = self.bytes();
        let from = offsets.start.max(self.range.start)..offsets.end.min(self.range.end);
        from.map(|offset| offset - self.range.start).any(|at| bytes[at / 8] >> (at % 8) & 1 != 0)
    }
}

impl Drop for Marks {
    fn drop(&mut self) {
        if self.bits != 0 {
            // SAFETY: its own mapping, which nobody can have borrowed any more.
            unsafe { syscall::munmap(self.bits, self.length) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Marks;

    #[test]
    fn marks_are_those_of_their_range_and_gone_with_it() {
        let mut marks = Marks::NONE;
        assert!(!marks.any(0..100));
        marks.mark(3);
        assert!(!marks.any(0..100), "there is no range yet");
        for (start, end) in [(1000, 1017), (7, 80_000), (500, 501)] {
            marks.start(start..end).unwrap();
            assert!(!marks.any(0..usize::MAX), "{start}");
            for at in [start - 1, start, end - 1, end] {
                marks.mark(at);
            }
            assert!(marks.any(start..start + 1) && marks.any(end - 1..end) && marks.any(0..end));
            assert!(!marks.any(0..start) && !marks.any(end..usize::MAX) && !marks.any(start + 1..end - 1));
        }
    }
}
