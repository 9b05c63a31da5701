//! What the first pass tells of synchronisation variables, and of memory that other processes see.
//!
//! Apart from the state because none of this moves a clock.

use super::State;
use crate::{environment, runtime};
use alloc::vec::Vec;
use core::ops::Range;
use relive_race::{Line, pieces};
use relive_trace::control::flag;
use relive_trace::races::word;

/// Bytes of a line.
const LINE: u64 = 64;

impl State {
    /// Threads wait at a range by the kernel.
    pub(in crate::races) fn waited(&self, me: u32, range: &Range<u64>) {
        let _within = self.passage.enter(me);
        self.gather(|found| self.variable(word::WAITED, range, found));
    }

    /// What the process reads and writes where others see it.
    pub(super) fn tell_seen(&self, lines: &[Line]) {
        /// Of so many lines at most: in what they share so much of, processes hardly wait for each other by looking at it.
        const LINES_MAX: usize = 1 << 14;
        if !environment::is_seen() || !runtime::has_flag(flag::ATOMICS) {
            return;
        }
        self.gather(|words| {
            let mut found = self.found.lock();
            for line in lines.iter().filter(|line| environment::is_seen_at((line.number * LINE) as usize)) {
                if found.seen.len() >= LINES_MAX && !found.seen.contains_key(&line.number) {
                    continue;
                }
                let known = found.seen.entry(line.number).or_default();
                let new = [line.read & !known[0], line.written & !known[1]];
                *known = [known[0] | line.read, known[1] | line.written];
                let words_of = [word::SEEN_READ, word::SEEN_WRITTEN].into_iter().zip(new);
                words.extend(
                    words_of.filter(|&(_, bytes)| bytes != 0).flat_map(|(how, bytes)| [how, line.number, bytes]),
                );
            }
        });
    }

    /// A locked instruction touched a range, or threads wait there: what the launcher is to be told of it, as `how` it is known.
    pub(super) fn variable(&self, how: u64, range: &Range<u64>, words: &mut Vec<u64>) {
        let mut found = self.found.lock();
        for (line, bytes) in pieces(range.clone()) {
            if found.variables.insert((how, line, bytes)) {
                words.extend([how, line, bytes]);
            }
        }
    }
}
