//! Where the frame of a function is, seen from its registers, at each of its instructions.
//!
//! Apart from leaving a frame, which takes values: here is only where the canonical frame
//! address lies (DWARF 5, section 6.4.1), for whoever reads code that does not run.

use super::tables::Tables;
use std::ops::Range;
use std::path::Path;

/// The frames of one file's functions.
pub(crate) struct Frames(Tables);

impl Frames {
    /// Those of the file at `path`; `None` if there is no such file.
    pub(crate) fn open(path: &Path) -> Option<Self> {
        Tables::open(path).map(Self)
    }

    /// For the pieces of code in `range`: the register from which the canonical frame address is counted, and how far above it lies.
    pub(crate) fn within(&self, range: &Range<u64>) -> Vec<(Range<u64>, u16, i64)> {
        let rows = self.0.rows_about(range.start);
        let clipped = rows
            .into_iter()
            .map(|(row, register, above)| (row.start.max(range.start)..row.end.min(range.end), register, above));
        clipped.filter(|(row, ..)| row.start < row.end).collect()
    }
}
