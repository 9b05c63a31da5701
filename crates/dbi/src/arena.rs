//! The translator's own memory: arrays of fixed capacity, cut once from a range that
//! the caller gives.
//!
//! The program's heap is off limits, because the translator may run at any call of
//! the program, its allocator included. Capacities follow from the size of the code
//! cache: what is full first ends the translation with a typed error, and memory
//! that is reserved without being committed costs nothing until it is used.

use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

/// A range of memory that is handed out from its beginning on, never taken back.
#[derive(Debug)]
pub(crate) struct Arena {
    next: NonNull<u8>,
    left: usize,
}

impl Arena {
    /// # Safety
    /// `bytes` bytes from `start` on are mapped, writable, read as zero and are nobody else's for as long as anything
    /// cut from the arena is used.
    pub(crate) const unsafe fn new(start: NonNull<u8>, bytes: usize) -> Self {
        Self { next: start, left: bytes }
    }

    /// An empty array for `capacity` elements. `None` if the arena has no more room.
    pub(crate) fn array<T: Copy>(&mut self, capacity: usize) -> Option<Array<T>> {
        let gap = self.next.as_ptr().align_offset(align_of::<T>());
        let bytes = capacity.checked_mul(size_of::<T>())?;
        if gap.checked_add(bytes)? > self.left {
            return None;
        }
        // SAFETY: gap + bytes lie within what is left of the range.
        let (start, next) = unsafe { (self.next.add(gap), self.next.add(gap + bytes)) };
        self.next = next;
        self.left -= gap + bytes;
        Some(Array { start: start.cast(), length: 0, capacity, elements: PhantomData })
    }
}

/// An array in an [`Arena`].
#[derive(Debug)]
pub(crate) struct Array<T> {
    start: NonNull<T>,
    length: usize,
    capacity: usize,
    elements: PhantomData<T>,
}

// SAFETY: the array owns its part of the arena, as `Box<[T]>` would.
unsafe impl<T: Send> Send for Array<T> {}

/// An array has no room for another element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl<T: Copy> Array<T> {
    /// Puts an element at the end; its index.
    pub(crate) fn push(&mut self, element: T) -> Result<u32, Full> {
        if self.length == self.capacity {
            return Err(Full);
        }
        // SAFETY: length < capacity, and the arena's cut is aligned and large enough for all of capacity.
        unsafe { self.start.add(self.length).write(element) };
        self.length += 1;
        Ok((self.length - 1) as u32)
    }

    /// Forgets the elements from `length` on.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Takes the capacity's memory as it is. `zero` is what memory of zeroes means, which it is by the arena's contract.
    pub(crate) fn adopt_zeroed(&mut self, zero: T)
    where
        T: PartialEq + core::fmt::Debug,
    {
        self.length = self.capacity;
        assert!(self.first().is_none_or(|first| *first == zero), "the arena's memory reads as zero");
    }

    /// Fills the array to its capacity with `element`.
    pub(crate) fn fill_up(&mut self, element: T) {
        self.length = self.capacity;
        self.fill(element);
    }
}

impl<T> Deref for Array<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: the first `length` elements were written, and only this array reaches them.
        unsafe { NonNull::slice_from_raw_parts(self.start, self.length).as_ref() }
    }
}

impl<T> DerefMut for Array<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `self` is borrowed mutably.
        unsafe { NonNull::slice_from_raw_parts(self.start, self.length).as_mut() }
    }
}

#[cfg(test)]
mod tests {
    use super::{Arena, Full};
    use std::ptr::NonNull;

    #[test]
    fn arrays_are_aligned_apart_and_bounded() {
        let mut memory = [0u64; 16];
        let start = NonNull::new(memory.as_mut_ptr().cast::<u8>()).unwrap();
        // SAFETY: the memory outlives the arrays of this test.
        let mut arena = unsafe { Arena::new(start, 128) };
        let mut bytes = arena.array::<u8>(3).unwrap();
        let mut words = arena.array::<u64>(2).unwrap();
        assert_eq!((bytes.push(1), bytes.push(2), bytes.push(3), bytes.push(4)), (Ok(0), Ok(1), Ok(2), Err(Full)));
        words.fill_up(7);
        assert_eq!((&*bytes, &*words), (&[1, 2, 3][..], &[7, 7][..]));
        assert_eq!(words.as_ptr().align_offset(8), 0);
        words.truncate(1);
        assert_eq!((words.push(9), words[1]), (Ok(1), 9));
        assert!(arena.array::<u64>(14).is_none());
        assert!(arena.array::<u64>(usize::MAX).is_none());
    }
}
