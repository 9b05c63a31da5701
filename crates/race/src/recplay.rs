//! Races found as `RecPlay` finds them (Ronsse, Christiaens & De Bosschere 2003,
//! section 4): a list of segments, each with its vector clock and the sets of
//! locations that it read and wrote.
//!
//! A segment that ends is compared with those of the list that are unordered with
//! it, by multilevel bitmaps (`bitmap.rs`). It stays in the list until every thread
//! knows of it, which snooped matrix clocks tell (`segments.rs`). What that cost is
//! the paper's table 2: [`Figures`].
//!
//! This is the on-line variant, which needs no trace of what is to come; how long
//! segments would have to stay if that were known is counted besides (`exact.rs`). Apart from
//! the history, which replaces it, as the second implementation that tests hold the
//! first one against, and to count.

mod bitmap;
mod exact;
mod segments;

use crate::clock::Clock;
use crate::clocks::Clocks;
use crate::finding::{Kind, Race};
use crate::lines::Line;
use bitmap::Bitmap;
use exact::Past;
use segments::{Kept, Segments};

/// The columns of the paper's table 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Segments that ended.
    pub created: u64,
    /// Segments that were stored at a time, at most.
    pub stored_max: u64,
    /// Bytes of their sets of locations, at most.
    pub bytes_max: u64,
    /// Pairs of segments that were unordered, and so compared.
    pub compared: u64,
}

/// Counts what `RecPlay` would do, and keeps no locations: how many bytes they would take is enough.
#[derive(Debug, Default)]
pub struct Recorder {
    segments: Segments<Weight>,
    past: Past,
}

/// Bytes of the sets of a segment.
#[derive(Debug)]
struct Weight(u64);

impl Kept for Weight {
    fn bytes(&self) -> u64 {
        self.0
    }
}

impl Recorder {
    /// Nothing has happened yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A segment ended. As for [`Recplay::end`].
    pub fn end(&mut self, clock: &Clock, lines: &[Line]) {
        let bytes = Sets::of(lines).bytes();
        self.segments.add(clock, Weight(bytes), |_, _, _| {});
        self.past.add(clock, bytes);
    }

    /// Looks at the clocks of all threads, and forgets the segments that everybody knows. Segments that have ended must
    /// have been told of.
    pub fn snoop(&mut self, clocks: &Clocks) {
        self.segments.snoop(clocks);
    }

    /// What was counted by now, each segment freed when the clocks of all threads know it.
    pub fn figures(&self) -> Figures {
        self.segments.figures()
    }

    /// The same, had each segment been freed behind the last one that is unordered with it.
    pub fn exact(&self) -> Figures {
        self.past.figures()
    }
}

/// The detector.
#[derive(Debug, Default)]
pub struct Recplay {
    segments: Segments<Sets>,
}

/// The locations of one segment.
#[derive(Debug, Default)]
struct Sets {
    read: Bitmap,
    written: Bitmap,
}

impl Sets {
    fn of(lines: &[Line]) -> Self {
        let mut sets = Self::default();
        for line in lines {
            sets.read.insert(line.number, line.read & !line.written);
            sets.written.insert(line.number, line.written);
        }
        sets
    }
}

impl Kept for Sets {
    fn bytes(&self) -> u64 {
        (self.read.bytes() + self.written.bytes()) as u64
    }
}

impl Recplay {
    /// Nothing has happened yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A segment ended. Its lines may come in any order; it is compared with all that are unordered with it.
    ///
    /// Segments must come in an order that agrees with happened-before, each of them once.
    pub fn end(&mut self, clock: &Clock, lines: &[Line], report: &mut impl FnMut(Race)) {
        let sets = Sets::of(lines);
        let newer = clock.epoch();
        let empty =
            Race { line: 0, kind: Kind::Accesses, older: newer, newer, write_write: 0, read_write: 0, write_read: 0 };
        self.segments.add(clock, sets, |older, before, now| {
            let race = Race { older, ..empty };
            before.written.common(&now.written, |line, bytes| report(Race { line, write_write: bytes, ..race }));
            before.read.common(&now.written, |line, bytes| report(Race { line, read_write: bytes, ..race }));
            before.written.common(&now.read, |line, bytes| report(Race { line, write_read: bytes, ..race }));
        });
    }

    /// Looks at the clocks of all threads, and frees the segments that everybody knows. Segments that have ended must
    /// have been handed over.
    pub fn snoop(&mut self, clocks: &Clocks) {
        self.segments.snoop(clocks);
    }

    /// What was counted by now.
    pub fn figures(&self) -> Figures {
        self.segments.figures()
    }

    /// Bytes of memory in use, without those of the vectors that clocks share.
    pub fn bytes(&self) -> usize {
        self.segments.bytes()
    }
}
