//! What debug information tells of the code that recorded processes map: which of its
//! accesses are atomic. A process asks for each file that nobody has asked for, and the launcher
//! answers, because it alone reads debug information.
//!
//! Apart from the accesses that were learnt because those are known before a recording, and a
//! program that another one starts is not.

use crate::control::ACCESSES_MAX;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};

/// No more files are told of.
pub const FILES: usize = 2048;

/// Values of [`DeclaredAccesses::state`].
pub mod state {
    /// Nobody asks.
    pub const FREE: u32 = 0;
    /// Somebody is about to.
    pub const TAKEN: u32 = 1;
    /// The question is complete.
    pub const ASKED: u32 = 2;
    /// The launcher looks.
    pub const LOOKING: u32 = 3;
    /// It has answered.
    pub const ANSWERED: u32 = 4;
}

/// The question, and all answers.
#[derive(Debug)]
#[repr(C)]
pub struct DeclaredAccesses {
    /// One of [`state`]; a futex.
    pub state: AtomicU32,
    /// Who asks, by the kernel's number; 0 while nobody does.
    pub pid: AtomicU32,
    /// Its descriptor of the file.
    pub descriptor: AtomicU32,
    /// So many files are answered.
    count: AtomicU32,
    /// So many of the places are used.
    used: AtomicU32,
    /// Of each file its key (see [`crate::accesses::key`]), which place is its first, and how many there are.
    files: [[AtomicU64; 3]; FILES],
    /// Offsets in their files, in ascending order of each.
    places: [AtomicU64; ACCESSES_MAX],
}

impl DeclaredAccesses {
    /// Calls `visit` with each place that was told of a file; `false` if nothing was, not even that there are none.
    pub fn each(&self, key: u64, visit: impl FnMut(u64)) -> bool {
        let found = self.answers().find(|answer| answer[0] == key);
        found.map(|answer| self.places(answer).for_each(visit)).is_some()
    }

    /// Calls `visit` with each file and place.
    pub fn all(&self, mut visit: impl FnMut(u64, u64)) {
        self.answers().for_each(|answer| self.places(answer).for_each(|place| visit(answer[0], place)));
    }

    fn answers(&self) -> impl Iterator<Item = [u64; 3]> {
        let count = (self.count.load(Acquire) as usize).min(FILES);
        self.files[..count].iter().map(|words| [0, 1, 2].map(|index| words[index].load(Relaxed)))
    }

    fn places(&self, [_, first, count]: [u64; 3]) -> impl Iterator<Item = u64> {
        let first = (first as usize).min(ACCESSES_MAX);
        self.places[first..].iter().take(count as usize).map(|place| place.load(Relaxed))
    }

    /// Whether one more file can be told of.
    pub fn has_room(&self) -> bool {
        (self.count.load(Relaxed) as usize) < FILES
    }

    /// Tells of a file, for one thread at a time: as many of its places as there is room for, which is how many it returns.
    pub fn add(&self, key: u64, places: impl Iterator<Item = u64>) -> usize {
        let (count, first) = (self.count.load(Relaxed) as usize, self.used.load(Relaxed) as usize);
        let Some(file) = self.files.get(count) else { return 0 };
        let taken =
            self.places[first.min(ACCESSES_MAX)..].iter().zip(places).map(|(to, place)| to.store(place, Relaxed));
        let taken = taken.count();
        file.iter().zip([key, first as u64, taken as u64]).for_each(|(to, word)| to.store(word, Relaxed));
        self.used.store((first + taken) as u32, Relaxed);
        self.count.store(count as u32 + 1, Release);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::{DeclaredAccesses, FILES};
    use crate::control::ACCESSES_MAX;
    use core::sync::atomic::{AtomicU32, AtomicU64};

    /// Too large for a stack.
    macro_rules! declared {
        () => {{
            static NOTHING: DeclaredAccesses = DeclaredAccesses {
                state: AtomicU32::new(0),
                pid: AtomicU32::new(0),
                descriptor: AtomicU32::new(0),
                count: AtomicU32::new(0),
                used: AtomicU32::new(0),
                files: [const { [const { AtomicU64::new(0) }; 3] }; FILES],
                places: [const { AtomicU64::new(0) }; ACCESSES_MAX],
            };
            &NOTHING
        }};
    }

    /// What is told of a file.
    fn check(declared: &DeclaredAccesses, key: u64, expected: Option<&[u64]>) {
        let mut places = Vec::new();
        let answered = declared.each(key, |place| places.push(place));
        assert_eq!(answered.then_some(&places[..]), expected, "{key}");
    }

    #[test]
    fn each_file_has_its_places_or_none() {
        let declared = declared!();
        check(declared, 7, None);
        assert_eq!(
            (declared.add(7, [3, 5].into_iter()), declared.add(8, [].into_iter()), declared.add(9, [1].into_iter())),
            (2, 0, 1)
        );
        check(declared, 7, Some(&[3, 5]));
        check(declared, 8, Some(&[]));
        check(declared, 9, Some(&[1]));
        check(declared, 10, None);
        let mut all = Vec::new();
        declared.all(|key, place| all.push((key, place)));
        assert_eq!(all, [(7, 3), (7, 5), (9, 1)]);
    }

    #[test]
    fn there_is_room_for_so_much_and_no_more() {
        let declared = declared!();
        let many = ACCESSES_MAX as u64;
        assert_eq!(
            (declared.add(1, 0..many - 1), declared.add(2, 0..5), declared.add(3, 0..5)),
            (ACCESSES_MAX - 1, 1, 0)
        );
        check(declared, 2, Some(&[0]));
        (3..FILES as u64).for_each(|key| _ = declared.add(key, [].into_iter()));
        assert!(!declared.has_room());
        assert_eq!(declared.add(4711, [1].into_iter()), 0);
        check(declared, 4711, None);
    }
}
