//! Where an attempt to start another image is prepared, and what it copies there
//! from the program's memory.
//!
//! Apart because this memory may be used in a child that shares the parent's and
//! never comes back.

use crate::environment::memory;
use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use relive_sys::elf::HEAD_BYTES;
use relive_sys::syscall;

pub(super) const PATH_MAX: usize = 4096;
const PAGE: usize = 4096;
/// What the starter is told in front of the program's arguments.
pub(super) const IN_FRONT: usize = 4;
/// Digits of random bytes and of a number.
const OPTIONS: usize = 64;
/// Attempts at a time whose memory is used again.
const DESKS: usize = 16;

/// Where an attempt is prepared: not on the stack, which may be a small one.
#[repr(C)]
pub(super) struct Desk {
    /// The starter's options.
    pub(super) options: [u8; OPTIONS],
    /// The path that was given, from the folder that was given.
    pub(super) path: [u8; PATH_MAX],
    /// The name that the program will be run by.
    pub(super) name: [u8; PATH_MAX],
    /// The file by its full path; empty if it is not for the starter.
    pub(super) file: [u8; PATH_MAX],
    /// The file that is looked at: the first one, or an interpreter.
    pub(super) next: [u8; PATH_MAX],
    /// The start of that file.
    pub(super) head: [u8; HEAD_BYTES],
    /// Not 0 if a Go compiler made it.
    pub(super) is_go: usize,
}

impl Desk {
    /// Lays the starter's options ready.
    pub(super) fn tell(&mut self, random: &CStr, stack: usize) {
        let (random, mut at, mut left) = (random.to_bytes(), OPTIONS - 1, stack);
        let mut digits = [0; OPTIONS];
        while left > 0 || at == OPTIONS - 1 {
            at -= 1;
            digits[at] = b'0' + (left % 10) as u8;
            left /= 10;
        }
        let number = &digits[at..];
        self.options[..random.len()].copy_from_slice(random);
        self.options[random.len()..][..number.len()].copy_from_slice(number);
    }
}

/// Memory for desks and argument lists, kept for the next attempt.
struct Kept {
    /// The process that uses it; 0 for none. A child that shares our memory never gives it back itself.
    owner: AtomicU32,
    address: AtomicUsize,
    bytes: AtomicUsize,
}

static KEPT: [Kept; DESKS] =
    [const { Kept { owner: AtomicU32::new(0), address: AtomicUsize::new(0), bytes: AtomicUsize::new(0) } }; DESKS];

/// Gives back what a process used that has another image now, or has ended.
pub(in crate::environment) fn release(process: u32) {
    for kept in &KEPT {
        let _ = kept.owner.compare_exchange(process, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// In a fork child nobody else uses anything.
pub(in crate::environment) fn reset_after_fork() {
    for kept in &KEPT {
        kept.owner.store(0, Ordering::Relaxed);
    }
}

/// A desk and room for a list of `count` arguments with what stands in front of them, the calling process's until
/// [`release`].
pub(super) fn borrow(count: usize) -> Option<(&'static mut Desk, &'static mut [usize])> {
    let words = count + IN_FRONT + 2;
    let address = memory_of((size_of::<Desk>() + words * size_of::<usize>()).next_multiple_of(PAGE))?;
    // SAFETY: memory of this size that nobody else uses; bytes and words are valid whatever they hold.
    unsafe {
        let list = (address + size_of::<Desk>()) as *mut usize;
        Some((&mut *(address as *mut Desk), core::slice::from_raw_parts_mut(list, words)))
    }
}

fn memory_of(bytes: usize) -> Option<usize> {
    let process = syscall::getpid();
    let free = |kept: &&Kept| kept.owner.compare_exchange(0, process, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    let map = || usize::try_from(syscall::mmap(bytes, syscall::MAP_PRIVATE_ANONYMOUS, -1, 0)).ok();
    let Some(kept) = KEPT.iter().find(free) else { return map() };
    let (old, had) = (kept.address.load(Ordering::Relaxed), kept.bytes.load(Ordering::Relaxed));
    if had >= bytes {
        return Some(old);
    }
    let new = map()?;
    kept.address.store(new, Ordering::Relaxed);
    kept.bytes.store(bytes, Ordering::Relaxed);
    if had > 0 {
        // SAFETY: this entry's own, and nobody else uses the entry.
        unsafe { syscall::munmap(old, had) };
    }
    Some(new)
}

/// The string that a buffer begins with.
pub(super) fn text(bytes: &[u8]) -> &CStr {
    CStr::from_bytes_until_nul(bytes).unwrap_or(c"")
}

/// Copies a string of the program's; `None` if it is not there, or too long for a path.
pub(super) fn read_text(address: usize, into: &mut [u8; PATH_MAX]) -> Option<()> {
    let mut got = 0;
    while got < into.len() {
        let here = address.checked_add(got)?;
        let length = (PAGE - here % PAGE).min(into.len() - got);
        if !memory::read(here, &mut into[got..got + length]) {
            return None;
        }
        if into[got..got + length].contains(&0) {
            return Some(());
        }
        got += length;
    }
    None
}

/// Visits the pointers of a list that ends with null, as long as `visit` wants more. Their number; `None` if the list is
/// not readable.
pub(super) fn each_pointer(list: usize, mut visit: impl FnMut(usize, usize) -> bool) -> Option<usize> {
    const AT_ONCE: usize = 64;
    let mut words = [0u8; AT_ONCE * size_of::<usize>()];
    let mut count = 0;
    if list == 0 {
        return Some(0);
    }
    loop {
        let here = list.checked_add(count * size_of::<usize>())?;
        // A page at most: the list may end right before one that is not there.
        let left = (PAGE - here % PAGE).max(size_of::<usize>()) / size_of::<usize>();
        let part = &mut words[..left.min(AT_ONCE) * size_of::<usize>()];
        if !memory::read(here, part) {
            return None;
        }
        for word in part.chunks_exact(size_of::<usize>()) {
            let word = word.try_into().map_or(0, usize::from_le_bytes);
            if word == 0 || !visit(count, word) {
                return Some(count);
            }
            count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PATH_MAX, each_pointer, read_text, text};

    #[test]
    fn lists_and_strings_are_copied_as_far_as_they_are_there() {
        crate::runtime::remember_pid();
        let words: Vec<usize> = (1..=200).chain([0]).collect();
        let mut seen = Vec::new();
        assert_eq!(
            each_pointer(words.as_ptr().addr(), |_, word| {
                seen.push(word);
                true
            }),
            Some(200)
        );
        assert_eq!(seen, words[..200]);
        assert_eq!(each_pointer(0, |_, _| true), Some(0));
        assert_eq!(each_pointer(8, |_, _| true), None);
        let mut into = [0; PATH_MAX];
        assert!(read_text(c"/a/b".as_ptr().addr(), &mut into).is_some() && text(&into) == c"/a/b");
        assert!(read_text(8, &mut into).is_none());
    }
}
