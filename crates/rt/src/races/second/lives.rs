//! Which instructions access a synchronisation variable while it is one.
//!
//! A variable is known by its address, and that outlives it: a block is given back and out
//! again, a function returns and another one has its part of the stack. What accesses the
//! address then has nothing to do with the variable; to order it in later recordings would
//! cost an event an access, for nothing. So accesses wait here until something shows that
//! the memory holds a variable now: an indivisible instruction has touched it, and more
//! than one thread has. If the memory is given back before, they are forgotten.
//!
//! Apart from the detector because that has to know a variable from its first access on,
//! and takes too much for one rather than too little: that adds order and hides races, but
//! makes none up.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Range;
use relive_race::pieces;

/// Watched memory.
#[derive(Debug, Default)]
pub(super) struct Lives {
    /// By lines: bytes of which each access counts, such as those that race.
    always: BTreeMap<u64, u64>,
    /// By lines: what bytes hold.
    lines: BTreeMap<u64, Vec<Life>>,
}

/// What some bytes of a line hold since their memory was given out.
#[derive(Debug)]
struct Life {
    bytes: u64,
    indivisible: bool,
    /// Who accessed it first.
    thread: u32,
    several: bool,
    /// Instructions that did, until it is known whether they count.
    waiting: BTreeSet<u64>,
}

/// An access of a thread.
#[derive(Clone, Debug)]
pub(super) struct Access {
    pub(super) thread: u32,
    pub(super) instruction: u64,
    pub(super) range: Range<u64>,
    pub(super) indivisible: bool,
}

impl Lives {
    /// Each access to these bytes of a line counts, also those that were.
    pub(super) fn count_always(&mut self, line: u64, bytes: u64, counts: &mut impl FnMut(u64)) {
        *self.always.entry(line).or_default() |= bytes;
        for life in self.lines.get_mut(&line).into_iter().flatten().filter(|life| life.bytes & bytes != 0) {
            core::mem::take(&mut life.waiting).into_iter().for_each(&mut *counts);
        }
    }

    /// An access, of whose bytes in each line `watched` tells the watched ones. `counts` is told the instructions
    /// of which it is known by now that they access a variable.
    pub(super) fn access(&mut self, access: &Access, watched: impl Fn(u64) -> u64, counts: &mut impl FnMut(u64)) {
        for (line, bytes) in pieces(access.range.clone()) {
            let bytes = bytes & watched(line);
            if self.always.get(&line).is_some_and(|always| always & bytes != 0) {
                counts(access.instruction);
            }
            if bytes != 0 {
                Life::access(self.lines.entry(line).or_default(), access, bytes, counts);
            }
        }
    }

    /// Memory was given out, or back: what it held is gone.
    pub(super) fn end(&mut self, range: &Range<u64>) {
        let (first, end) = (range.start / 64, range.end.div_ceil(64));
        if first >= end {
            return;
        }
        let mut empty = Vec::new();
        for (&line, lives) in self.lines.range_mut(first..end) {
            let start = range.start.max(line * 64);
            let part = start..range.end.min(line * 64 + 64);
            let gone = pieces(part).map(|(_, bytes)| bytes).fold(0, |all, bytes| all | bytes);
            lives.retain_mut(|life| {
                life.bytes &= !gone;
                life.bytes != 0
            });
            if lives.is_empty() {
                empty.push(line);
            }
        }
        for line in empty {
            self.lines.remove(&line);
        }
    }
}

impl Life {
    /// An access to `bytes` of a line with these lives: those that it overlaps with are one.
    fn access(lives: &mut Vec<Self>, access: &Access, bytes: u64, counts: &mut impl FnMut(u64)) {
        let &Access { thread, instruction, indivisible, .. } = access;
        let mut life = Self { bytes, indivisible, thread, several: false, waiting: [instruction].into() };
        for mut older in lives.extract_if(.., |older| older.bytes & bytes != 0) {
            life.bytes |= older.bytes;
            life.indivisible |= older.indivisible;
            life.several |= older.several || older.thread != thread;
            life.waiting.append(&mut older.waiting);
        }
        if life.indivisible && life.several {
            core::mem::take(&mut life.waiting).into_iter().for_each(counts);
        }
        lives.push(life);
    }
}

#[cfg(test)]
mod tests {
    use super::{Access, Lives};
    use alloc::vec::Vec;
    use core::ops::Range;

    /// Each access: the thread, the instruction, whether it is indivisible; or, with no thread, what ends.
    fn counted(lives: &mut Lives, steps: &[(Option<u32>, u64, bool, Range<u64>)]) -> Vec<u64> {
        let mut counted = Vec::new();
        for (thread, instruction, indivisible, range) in steps.iter().cloned() {
            match thread {
                Some(thread) => {
                    let access = Access { thread, instruction, range, indivisible };
                    lives.access(&access, |line| if line < 4 { u64::MAX } else { 0 }, &mut |which| counted.push(which));
                }
                None => lives.end(&range),
            }
        }
        counted
    }

    #[test]
    fn what_several_threads_touch_and_one_indivisibly_counts() {
        let mut lives = Lives::default();
        let steps = [(Some(0), 1, false, 64..72), (Some(1), 2, false, 64..72), (Some(0), 3, true, 68..72)];
        assert_eq!(counted(&mut lives, &steps), [1, 2, 3]);
        assert_eq!(counted(&mut lives, &[(Some(0), 4, false, 66..67)]), [4]);
        assert!(counted(&mut lives, &[(Some(0), 5, false, 72..80)]).is_empty(), "another variable of the line");
        assert!(counted(&mut lives, &[(Some(1), 6, true, 256..264)]).is_empty(), "nobody watches that");
    }

    #[test]
    fn what_one_thread_touches_does_not() {
        let steps = [(Some(3), 1, true, 0..8), (Some(3), 2, false, 0..8), (Some(4), 3, false, 8..16)];
        assert!(counted(&mut Lives::default(), &steps).is_empty());
    }

    #[test]
    fn a_variable_ends_with_its_memory() {
        let mut lives = Lives::default();
        let steps = [
            (Some(0), 1, false, 0..8),
            (Some(1), 2, false, 0..8),
            (None, 0, false, 0..64),
            (Some(0), 3, true, 0..8),
            (None, 0, false, 4..300),
            (Some(1), 4, false, 4..8),
        ];
        assert!(counted(&mut lives, &steps).is_empty(), "each life has one thread, or nothing indivisible");
        assert_eq!(counted(&mut lives, &[(Some(1), 5, false, 0..4)]), [3, 5], "these bytes were not given back");
        let steps = [(None, 0, false, 7..7), (None, 0, false, 0..64), (Some(1), 6, false, 0..4)];
        assert!(counted(&mut lives, &steps).is_empty());
    }

    #[test]
    fn what_races_counts_by_itself() {
        let mut lives = Lives::default();
        lives.count_always(1, 0xF0, &mut |_| unreachable!("nothing has accessed it"));
        assert_eq!(counted(&mut lives, &[(Some(0), 1, false, 64..68), (Some(0), 2, false, 66..69)]), [2]);
        let mut before = Vec::new();
        lives.count_always(1, 1, &mut |which| before.push(which));
        assert_eq!(before, [1, 2], "what was counted may be again");
    }
}
