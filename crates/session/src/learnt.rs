//! Accesses of a program and its libraries that were learnt to race: a recording at the
//! level of atomics orders them, and holds which they were.
//!
//! They are kept by the file of code that they stand in (`lists.rs`), for all programs that
//! load it, and found again in a later build of it (`builds.rs`). What debug information tells need
//! not be learnt, and is not kept (`declared.rs`). What one recording ordered stands in its manifest.

use relive_trace::control::ACCESSES_MAX;
use relive_trace::manifest::Accesses;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

mod builds;
mod declared;
mod lists;

pub use declared::Declared;
pub(crate) use declared::count as declared;
pub use lists::{Known, ListError, Lists};

/// Instructions, each by its file's [`key`](relive_trace::accesses::key) and its offset there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learnt {
    accesses: BTreeSet<[u64; 2]>,
    /// Those that debug information tells.
    declared: BTreeSet<[u64; 2]>,
    /// The files of which it was read.
    read: BTreeSet<u64>,
    /// Where those files are, as far as that is known.
    files: BTreeMap<u64, PathBuf>,
}

impl Learnt {
    /// Adds some; how many of them are new. Of more than a recording can order none is taken.
    pub fn add(&mut self, found: impl IntoIterator<Item = [u64; 2]>) -> usize {
        let before = self.accesses.len();
        for access in found {
            if self.accesses.len() < ACCESSES_MAX && !self.declared.contains(&access) {
                self.accesses.insert(access);
            }
        }
        self.accesses.len() - before
    }

    /// Orders some of these files besides that were not learnt, and are not kept. Those that were learnt take precedence where
    /// there is no room for all.
    pub(crate) fn declare(&mut self, files: impl IntoIterator<Item = (u64, Vec<u64>)>) {
        for (file, places) in files {
            self.read.insert(file);
            self.declared.extend(places.into_iter().map(|place| [file, place]));
        }
    }

    /// The files whose declared ones are among these.
    pub(crate) fn read(&self) -> impl Iterator<Item = u64> {
        self.read.iter().copied()
    }

    /// Leaves those out that others have.
    #[must_use]
    pub fn without(mut self, others: &Self) -> Self {
        self.accesses.retain(|access| !others.accesses.contains(access));
        self
    }

    /// Adds what others have, and where their files are.
    pub fn take_in(&mut self, other: &Self) -> usize {
        self.files.extend(other.files.iter().map(|(file, path)| (*file, path.clone())));
        self.add(other.accesses.iter().copied())
    }

    /// Those in files in which others have some, too, and of which they know where they are.
    #[must_use]
    pub fn in_files_of(&self, other: &Self) -> Self {
        let accesses = self.accesses.iter().filter(|[file, _]| other.files.contains_key(file)).copied().collect();
        Self { accesses, files: other.files.clone(), ..Self::default() }
    }

    /// The file of this key is there.
    pub(crate) fn stands_at(&mut self, file: u64, path: &Path) {
        self.files.insert(file, path.to_owned());
    }

    /// Where files are in which some were learnt.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.values().map(PathBuf::as_path)
    }

    /// How many were learnt.
    pub fn count(&self) -> usize {
        self.accesses.len()
    }

    /// All that a recording is to order, in ascending order.
    pub(crate) fn words(&self) -> impl ExactSizeIterator<Item = [u64; 2]> {
        let room = ACCESSES_MAX - self.accesses.len();
        let declared = self.declared.difference(&self.accesses).take(room);
        let all: BTreeSet<[u64; 2]> = self.accesses.iter().chain(declared).copied().collect();
        all.into_iter()
    }

    /// What was learnt by the file, where it is and offsets there.
    fn by_file(&self) -> BTreeMap<u64, (Option<&Path>, Vec<u64>)> {
        let mut files: BTreeMap<u64, (Option<&Path>, Vec<u64>)> = BTreeMap::new();
        for &[file, place] in &self.accesses {
            let path = || self.files.get(&file).map(PathBuf::as_path);
            files.entry(file).or_insert_with(|| (path(), Vec::new())).1.push(place);
        }
        files
    }

    pub(crate) fn to_manifest(&self) -> Vec<Accesses> {
        let mut files: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        self.words().for_each(|[file, place]| files.entry(file).or_default().push(place));
        files.into_iter().map(|(file, places)| Accesses { file: format!("{file:016x}"), places }).collect()
    }

    /// What a recording orders, as its manifest says.
    pub fn from_manifest(files: &[Accesses]) -> Self {
        let mut learnt = Self::default();
        for Accesses { file, places } in files {
            if let Ok(file) = u64::from_str_radix(file, 16) {
                learnt.add(places.iter().map(|&place| [file, place]));
            }
        }
        learnt
    }
}

impl FromIterator<[u64; 2]> for Learnt {
    fn from_iter<I: IntoIterator<Item = [u64; 2]>>(found: I) -> Self {
        let mut learnt = Self::default();
        learnt.add(found);
        learnt
    }
}

#[cfg(test)]
mod tests {
    use super::Learnt;
    use relive_trace::control::ACCESSES_MAX;

    #[test]
    fn a_manifest_holds_them_by_files() {
        let mut learnt = Learnt::default();
        assert_eq!(learnt.add([[7, 30], [7, 20], [5, 10], [7, 20]]), 3);
        assert_eq!(Learnt::from_manifest(&learnt.to_manifest()), learnt);
        assert_eq!(learnt.words().collect::<Vec<_>>(), [[5, 10], [7, 20], [7, 30]]);
        assert_eq!(learnt.add([[7, 30]]), 0);
        assert_eq!(learnt.take_in(&Learnt::from_iter([[7, 30], [7, 31]])), 1);
    }

    #[test]
    fn what_is_declared_is_ordered_and_never_new() {
        let mut learnt = Learnt::from_iter([[7, 30]]);
        learnt.declare([(7, vec![20, 30]), (8, Vec::new())]);
        assert_eq!(learnt.read().collect::<Vec<_>>(), [7, 8]);
        assert_eq!((learnt.add([[7, 20]]), learnt.add([[7, 10]])), (0, 1));
        assert_eq!(learnt.words().collect::<Vec<_>>(), [[7, 10], [7, 20], [7, 30]]);
        assert_eq!((learnt.count(), learnt.to_manifest()[0].places.len()), (2, 3));
        learnt.declare([(1, (0..=ACCESSES_MAX as u64).collect())]);
        let words: Vec<_> = learnt.words().collect();
        assert_eq!((words.len(), words.contains(&[7, 10])), (ACCESSES_MAX, true), "what was learnt comes first");
    }

    #[test]
    fn no_more_are_taken_than_there_is_room_for() {
        let mut learnt = Learnt::default();
        assert_eq!(learnt.add((0..=ACCESSES_MAX as u64).map(|place| [1, place])), ACCESSES_MAX);
    }
}
