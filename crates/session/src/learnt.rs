//! Accesses of a program and its libraries that were learnt to race: a recording at the
//! level of atomics orders them, and holds which they were.
//!
//! They are kept in a file beside the runtime, one a program. Without it they are learnt
//! again; what one recording ordered stands in its manifest.

use crate::launch::Runtime;
use relive_trace::accesses::{HEAD_BYTES, key};
use relive_trace::control::ACCESSES_MAX;
use relive_trace::manifest::Accesses;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Instructions, each by its file's [`key`] and its offset there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Learnt(BTreeSet<[u64; 2]>);

impl Learnt {
    /// What earlier recordings of a program have learnt.
    pub fn load(runtime: &Runtime, program: &Path) -> Self {
        let bytes = path(runtime, program).and_then(|path| fs::read(path).ok()).unwrap_or_default();
        Self::from_manifest(&serde_json::from_slice::<Vec<Accesses>>(&bytes).unwrap_or_default())
    }

    /// Keeps them for later recordings of the program.
    ///
    /// # Errors
    /// What the system says.
    pub fn save(&self, runtime: &Runtime, program: &Path) -> io::Result<()> {
        let Some(path) = path(runtime, program) else { return Ok(()) };
        // Whoever reads it meanwhile finds it whole.
        let part = path.with_extension(format!("part{}", std::process::id()));
        fs::write(&part, serde_json::to_vec(&self.to_manifest())?)?;
        fs::rename(&part, &path)
    }

    /// Adds some; how many of them are new. Of more than a recording can order none is taken.
    pub fn add(&mut self, found: impl IntoIterator<Item = [u64; 2]>) -> usize {
        let before = self.0.len();
        for access in found {
            if self.0.len() < ACCESSES_MAX {
                self.0.insert(access);
            }
        }
        self.0.len() - before
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// In ascending order.
    pub(crate) fn words(&self) -> impl ExactSizeIterator<Item = [u64; 2]> {
        self.0.iter().copied()
    }

    pub(crate) fn to_manifest(&self) -> Vec<Accesses> {
        let mut files: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for &[file, place] in &self.0 {
            files.entry(file).or_default().push(place);
        }
        files.into_iter().map(|(file, places)| Accesses { file: format!("{file:016x}"), places }).collect()
    }

    pub(crate) fn from_manifest(files: &[Accesses]) -> Self {
        let mut learnt = Self::default();
        for Accesses { file, places } in files {
            if let Ok(file) = u64::from_str_radix(file, 16) {
                learnt.add(places.iter().map(|&place| [file, place]));
            }
        }
        learnt
    }
}

fn path(runtime: &Runtime, program: &Path) -> Option<PathBuf> {
    let file = File::open(program).ok()?;
    let size = file.metadata().ok()?.len();
    let mut head = Vec::new();
    file.take(HEAD_BYTES as u64).read_to_end(&mut head).ok()?;
    Some(runtime.library.parent()?.join(format!("learnt-{:016x}.json", key(size, &head))))
}

#[cfg(test)]
mod tests {
    use super::Learnt;
    use crate::launch::Runtime;
    use relive_trace::control::ACCESSES_MAX;
    use std::fs;

    #[test]
    fn what_was_learnt_is_known_to_later_recordings_of_the_same_build() {
        let folder = tempfile::tempdir().unwrap();
        let runtime = Runtime { library: folder.path().join("library"), starter: folder.path().join("starter") };
        let program = folder.path().join("program");
        fs::write(&program, [1, 2, 3]).unwrap();
        let mut learnt = Learnt::default();
        assert_eq!(learnt.add([[7, 30], [7, 20], [5, 10], [7, 20]]), 3);
        learnt.save(&runtime, &program).unwrap();
        assert_eq!(Learnt::load(&runtime, &program), learnt);
        assert_eq!(Learnt::from_manifest(&learnt.to_manifest()), learnt);
        assert_eq!(learnt.words().collect::<Vec<_>>(), [[5, 10], [7, 20], [7, 30]]);
        assert_eq!(learnt.add([[7, 30]]), 0);
        fs::write(&program, [1, 2, 4]).unwrap();
        assert_eq!(Learnt::load(&runtime, &program), Learnt::default(), "another build");
    }

    #[test]
    fn no_more_are_taken_than_there_is_room_for() {
        let mut learnt = Learnt::default();
        assert_eq!(learnt.add((0..=ACCESSES_MAX as u64).map(|place| [1, place])), ACCESSES_MAX);
    }
}
