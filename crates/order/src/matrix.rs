//! Matrix clocks: what each thread knows of each, and so what nobody needs any more.
//!
//! A segment of thread `i` at time `c` is obsolete when every thread that still
//! runs knows thread `i` up to `c`: nothing that is yet to come can be unordered
//! with it. A matrix clock, kept by messages alone, tells that late. De Bosschere
//! & Ronsse 1997 (*Clock snooping*) look at the present vector clocks of all
//! threads instead, because in shared memory they can; `RecPlay` 2003 frees its
//! segments by that.
//!
//! Apart from the detector because it needs no more than numbers in a slice.

use crate::vector;

/// What each of some threads knows of each.
///
/// The cells are the caller's, so that this works without an allocator.
#[derive(Clone, Debug)]
pub struct Matrix<S> {
    threads: usize,
    cells: S,
}

impl<S: AsRef<[u64]> + AsMut<[u64]>> Matrix<S> {
    /// A matrix in which nobody knows anything. `None` unless there are `threads * threads` cells.
    pub fn new(threads: usize, mut cells: S) -> Option<Self> {
        let count = threads.checked_mul(threads)?;
        if cells.as_ref().len() != count {
            return None;
        }
        cells.as_mut().fill(0);
        Some(Self { threads, cells })
    }

    /// How many threads it has room for.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Takes over what a smaller matrix says: growth.
    pub fn take_over<T: AsRef<[u64]> + AsMut<[u64]>>(&mut self, smaller: &Matrix<T>) {
        for thread in 0..smaller.threads.min(self.threads) {
            self.snoop(thread, smaller.row(thread));
        }
    }

    /// What a thread knows, as far as it was looked at.
    ///
    /// # Panics
    /// If the matrix has no such thread.
    pub fn row(&self, thread: usize) -> &[u64] {
        &self.cells.as_ref()[thread * self.threads..][..self.threads]
    }

    /// Looks at the present vector clock of a thread.
    ///
    /// # Panics
    /// If the matrix has no such thread.
    pub fn snoop(&mut self, thread: usize, clock: &[u64]) {
        let width = self.threads;
        vector::raise(&mut self.cells.as_mut()[thread * width..][..width], clock);
    }

    /// A thread will not run any more: it holds nothing back.
    ///
    /// # Panics
    /// If the matrix has no such thread.
    pub fn end(&mut self, thread: usize) {
        let width = self.threads;
        self.cells.as_mut()[thread * width..][..width].fill(u64::MAX);
    }

    /// Up to which time all of `running` know a thread; everything, if none of them runs.
    ///
    /// # Panics
    /// If the matrix has no such thread.
    pub fn known_to_all(&self, thread: usize, running: impl IntoIterator<Item = usize>) -> u64 {
        assert!(thread < self.threads, "a matrix of {} threads was asked for thread {thread}", self.threads);
        running.into_iter().map(|other| self.row(other)[thread]).min().unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::Matrix;
    use std::vec;

    #[test]
    fn cells_must_fit() {
        assert!(Matrix::new(2, vec![0; 3]).is_none());
        assert!(Matrix::new(usize::MAX, vec![0; 3]).is_none());
        assert_eq!(Matrix::new(2, vec![7; 4]).unwrap().row(1), [0, 0]);
    }

    #[test]
    fn the_slowest_thread_decides() {
        let mut matrix = Matrix::new(3, [0; 9]).unwrap();
        matrix.snoop(0, &[9, 4, 0]);
        matrix.snoop(1, &[5, 8, 2]);
        matrix.snoop(2, &[3]);
        assert_eq!(matrix.known_to_all(0, 0..3), 3);
        assert_eq!(matrix.known_to_all(1, 0..3), 0);
        assert_eq!(matrix.known_to_all(1, 0..2), 4);
        matrix.end(2);
        assert_eq!(matrix.known_to_all(0, 0..3), 5);
        assert_eq!(matrix.known_to_all(2, 0..3), 0);
        assert_eq!(matrix.known_to_all(2, []), u64::MAX);
    }

    #[test]
    fn an_older_look_takes_nothing_back() {
        let mut matrix = Matrix::new(2, [0; 4]).unwrap();
        matrix.snoop(0, &[5, 5]);
        matrix.snoop(0, &[6, 1]);
        assert_eq!(matrix.row(0), [6, 5]);
    }

    #[test]
    fn growth_keeps_what_was_known() {
        let mut small = Matrix::new(2, vec![0; 4]).unwrap();
        small.snoop(0, &[5, 1]);
        small.snoop(1, &[2, 3]);
        let mut large = Matrix::new(3, vec![0; 9]).unwrap();
        large.take_over(&small);
        assert_eq!((large.row(0), large.row(1), large.row(2)), (&[5, 1, 0][..], &[2, 3, 0][..], &[0, 0, 0][..]));
    }
}
