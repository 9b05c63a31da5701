//! When each segment could have been freed: behind the last one that is unordered with
//! it, which only the whole execution tells.
//!
//! What a thread knows of another never shrinks. So of the segments of one thread those
//! that do not know a given segment are the first ones, and the last of them is found
//! by bisection.
//!
//! Apart from the on-line variant because it keeps the clock of each segment to the end.

use super::Figures;
use crate::clock::Clock;
use alloc::vec;
use alloc::vec::Vec;

/// All segments, in the order in which they ended.
#[derive(Debug, Default)]
pub(super) struct Past {
    segments: Vec<(Clock, u64)>,
    /// Those of each thread, by their places in that order.
    threads: Vec<Vec<usize>>,
}

impl Past {
    pub(super) fn add(&mut self, clock: &Clock, bytes: u64) {
        let thread = clock.epoch().thread() as usize;
        if self.threads.len() <= thread {
            self.threads.resize_with(thread + 1, Vec::new);
        }
        self.threads[thread].push(self.segments.len());
        self.segments.push((clock.clone(), bytes));
    }

    /// The later segments that are unordered with the one at `place`: how many, and the last one's place.
    fn partners(&self, place: usize) -> (u64, usize) {
        let epoch = self.segments[place].0.epoch();
        let (mut count, mut last) = (0, place);
        for (thread, own) in self.threads.iter().enumerate() {
            if thread as u32 == epoch.thread() {
                continue;
            }
            let later = &own[own.partition_point(|&other| other <= place)..];
            let unordered = later.partition_point(|&other| !self.segments[other].0.knows(epoch));
            count += unordered as u64;
            last = last.max(later[..unordered].last().copied().unwrap_or(place));
        }
        (count, last)
    }

    pub(super) fn figures(&self) -> Figures {
        let mut figures = Figures { created: self.segments.len() as u64, ..Figures::default() };
        // What goes behind each segment: how many, with how many bytes.
        let mut going = vec![(0, 0); self.segments.len()];
        let (mut stored, mut bytes) = (0, 0);
        for (place, (_, own_bytes)) in self.segments.iter().enumerate() {
            let (count, last) = self.partners(place);
            figures.compared += count;
            going[last].0 += 1;
            going[last].1 += own_bytes;
            (stored, bytes) = (stored + 1, bytes + own_bytes);
            figures.stored_max = figures.stored_max.max(stored);
            figures.bytes_max = figures.bytes_max.max(bytes);
            (stored, bytes) = (stored - going[place].0, bytes - going[place].1);
        }
        figures
    }
}
