//! The list of segments that may still race with one to come.
//!
//! By thread, oldest first: what is unordered with a new segment is the end of each
//! thread's list, what everybody knows is its beginning.
//!
//! Apart from what is stored of a segment, so that it can be counted without.

use super::Figures;
use crate::clock::Clock;
use crate::clocks::Clocks;
use crate::epoch::Epoch;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use relive_order::Matrix;

#[derive(Debug)]
pub(super) struct Segments<S> {
    threads: Vec<VecDeque<(Epoch, S)>>,
    matrix: Option<Matrix<Vec<u64>>>,
    stored: u64,
    stored_bytes: u64,
    figures: Figures,
}

impl<S> Default for Segments<S> {
    fn default() -> Self {
        Self { threads: Vec::new(), matrix: None, stored: 0, stored_bytes: 0, figures: Figures::default() }
    }
}

/// What is kept of a segment.
pub(super) trait Kept {
    /// Bytes of the sets of its locations.
    fn bytes(&self) -> u64;
}

impl<S: Kept> Segments<S> {
    /// Adds a segment after `compare` was called with each that is unordered with it: that one's epoch and set, and the
    /// new one's set.
    pub(super) fn add(&mut self, clock: &Clock, set: S, mut compare: impl FnMut(Epoch, &S, &S)) {
        let epoch = clock.epoch();
        for (thread, list) in self.threads.iter().enumerate() {
            let known = clock.time_of(thread as u32);
            let first = list.partition_point(|(older, _)| older.time() <= known);
            self.figures.compared += (list.len() - first) as u64;
            list.range(first..).for_each(|(older, other)| compare(*older, other, &set));
        }
        let index = epoch.thread() as usize;
        if self.threads.len() <= index {
            self.threads.resize_with(index + 1, VecDeque::new);
        }
        self.stored += 1;
        self.stored_bytes += set.bytes();
        self.threads[index].push_back((epoch, set));
        self.figures.created += 1;
        self.figures.stored_max = self.figures.stored_max.max(self.stored);
        self.figures.bytes_max = self.figures.bytes_max.max(self.stored_bytes);
    }

    /// Looks at the clocks of the threads that run, and drops what all of them know.
    pub(super) fn snoop(&mut self, clocks: &Clocks) {
        let clocks = clocks.running();
        let running: Vec<usize> = clocks.iter().map(|clock| clock.epoch().thread() as usize).collect();
        let width = self.threads.len().max(running.iter().max().map_or(0, |last| last + 1));
        let matrix = match self.matrix.take() {
            Some(matrix) if matrix.threads() >= width => Some(matrix),
            former => grown(former, width),
        };
        let Some(mut matrix) = matrix else { return };
        for clock in &clocks {
            let row: Vec<u64> = (0..width as u32).map(|thread| clock.time_of(thread)).collect();
            matrix.snoop(clock.epoch().thread() as usize, &row);
        }
        for (thread, list) in self.threads.iter_mut().enumerate() {
            let known = matrix.known_to_all(thread, running.iter().copied());
            let gone = list.partition_point(|(epoch, _)| epoch.time() <= known);
            self.stored -= gone as u64;
            self.stored_bytes -= list.drain(..gone).map(|(_, set)| set.bytes()).sum::<u64>();
        }
        self.matrix = Some(matrix);
    }

    pub(super) fn figures(&self) -> Figures {
        self.figures
    }

    pub(super) fn bytes(&self) -> usize {
        let matrix = self.matrix.as_ref().map_or(0, |matrix| matrix.threads() * matrix.threads() * 8);
        let lists = self.threads.iter().map(|list| list.capacity() * size_of::<(Epoch, S)>()).sum::<usize>();
        matrix + lists + self.stored_bytes as usize
    }
}

/// A larger matrix that says what a smaller one said.
fn grown(former: Option<Matrix<Vec<u64>>>, width: usize) -> Option<Matrix<Vec<u64>>> {
    let width = width.next_power_of_two();
    let mut matrix = Matrix::new(width, vec![0; width * width])?;
    if let Some(former) = former {
        matrix.take_over(&former);
    }
    Some(matrix)
}
