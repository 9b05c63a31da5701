//! The files that a recording's images were started from, as a replay finds them:
//! copies in the trace where it holds some, else those of the machine.
//!
//! Apart from the replay because `pack` asks the same, and because what is wrong
//! here is said before anything starts: in the midst of a replay it would look like
//! a divergence.

use crate::pack;
use relive_trace::kept::{ENTRY_WORDS, hash, is_name, link, name};
use relive_trace::layout::NONE;
use relive_trace::opened::{self, OPENED, OpenedFile, SEEN};
use relive_trace::recording::Recording;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What the loader looks libraries up in: it changes with every library that is installed, and where it then leads to
/// others, they are not those of the list.
const LOADERS_OWN: [&str; 2] = ["/etc/ld.so.cache", "/etc/ld.so.preload"];

/// An entry of the list that the processes of a replay have.
pub(crate) type Entry = [u64; ENTRY_WORDS];

/// The copies that a trace holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept {
    names: BTreeSet<Vec<u8>>,
}

impl Kept {
    /// Those in `folder`.
    pub(crate) fn of(folder: &Path) -> Self {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name()).filter(|name| name.to_str().is_some_and(is_name));
        Self { names: names.map(|name| name.as_bytes().to_vec()).collect() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether there is one of the file that had this path, size, seconds and nanoseconds.
    pub(crate) fn has(&self, path: &Path, identity: [u64; 3]) -> bool {
        self.names.contains(&name(hash_of(path), identity)[..])
    }

    fn has_file(&self, file: &OpenedFile) -> bool {
        let [size, seconds, nanoseconds, ..] = file.identity;
        self.has(&file.path, [size, seconds, nanoseconds])
    }
}

fn hash_of(path: &Path) -> u64 {
    hash([path.as_os_str().as_bytes(), b""])
}

/// The path of a file of which the trace holds a copy, by the copy's name.
pub(crate) fn paths(folder: &Path, recording: &Recording) -> BTreeMap<Vec<u8>, PathBuf> {
    let kept = Kept::of(folder);
    if kept.is_empty() {
        return BTreeMap::new();
    }
    let started = Images::of(folder).files.into_values().flatten().map(|file| {
        let [size, seconds, nanoseconds, ..] = file.identity;
        (file.path, [size, seconds, nanoseconds])
    });
    // What can't be read of those that were mapped later leaves them without a name.
    let later = pack::named::libraries(folder, recording).unwrap_or_default();
    let known = started.chain(later).filter(|(path, identity)| kept.has(path, *identity));
    known.map(|(path, identity)| (name(hash_of(&path), identity).to_vec(), path)).collect()
}

/// What images of a recording were started from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Images {
    kept: Kept,
    /// By image. A list that can't be read, or not for one image, says nothing.
    files: BTreeMap<u32, Vec<OpenedFile>>,
}

/// A file that an image needs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    Missing(PathBuf),
    Changed(PathBuf),
}

impl Images {
    /// Those of the recording in `folder`.
    pub(crate) fn of(folder: &Path) -> Self {
        let list = fs::read(folder.join(OPENED.trim_start_matches('/'))).unwrap_or_default();
        let parsed = opened::by_image(&list).unwrap_or_default();
        let files = parsed.into_iter().filter_map(|(image, files)| Some((image, files?))).collect();
        Self { kept: Kept::of(folder), files }
    }

    /// Whether the trace holds copies.
    pub(crate) fn has_kept(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Whether the first image was started from this file, and the trace holds it.
    pub(crate) fn first_has(&self, path: &Path) -> bool {
        let mut files = self.files.get(&0).into_iter().flatten();
        files.any(|file| file.path == path && file.identity != SEEN && self.kept.has_file(file))
    }

    /// The copies that each image is to have, and the folders that its loader found and that are gone.
    pub(crate) fn entries(&self, recording: &Recording) -> Vec<Entry> {
        let mut entries = Vec::new();
        for (&image, files) in &self.files {
            let first = recording.process(image).and_then(|process| recording.thread(process.main_thread));
            let Some(first) = first else { continue };
            let link = match first.parent {
                Some(parent) if parent != NONE => link(parent, first.child_number),
                _ => link(NONE, 0),
            };
            // An image has room for so many, and needs the copies more.
            let copies = files.iter().filter(|file| file.identity != SEEN && self.kept.has_file(file));
            let gone = files.iter().filter(|file| file.identity == SEEN && !file.path.exists());
            for file in copies.chain(gone) {
                let [size, seconds, nanoseconds, device, inode] = file.identity;
                entries.push([link, hash_of(&file.path), size, seconds, nanoseconds, device, inode]);
            }
        }
        entries
    }

    /// The first file of an image that `runs` which is neither in the trace nor on the machine as it was. Those `known`
    /// were looked at, and more closely, under whatever name.
    pub(crate) fn wrong(&self, runs: impl Fn(u32) -> bool, known: &BTreeSet<&Path>) -> Option<Wrong> {
        let known: BTreeSet<PathBuf> = known.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
        let is_known = |path: &Path| fs::canonicalize(path).is_ok_and(|real| known.contains(&real));
        let mut seen = BTreeMap::new();
        for (_, files) in self.files.iter().filter(|&(&image, _)| runs(image)) {
            for file in files {
                let path = file.path.as_path();
                let is_exempt = LOADERS_OWN.iter().any(|&name| path == Path::new(name));
                if file.identity == SEEN || is_exempt || self.kept.has_file(file) {
                    continue;
                }
                let found = *seen.entry(path).or_insert_with(|| identity(path));
                match found {
                    None => return Some(Wrong::Missing(path.to_owned())),
                    Some(found) if found != file.identity[..3] && !is_known(path) => {
                        return Some(Wrong::Changed(path.to_owned()));
                    }
                    Some(_) => {}
                }
            }
        }
        None
    }
}

fn identity(path: &Path) -> Option<[u64; 3]> {
    let metadata = fs::metadata(path).ok()?;
    Some([metadata.len(), metadata.mtime() as u64, metadata.mtime_nsec() as u64])
}

#[cfg(test)]
mod tests {
    use super::{Images, Wrong, hash_of, identity};
    use relive_trace::kept::name;
    use relive_trace::opened::OPENED;
    use std::collections::BTreeSet;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    #[test]
    fn a_file_is_wrong_unless_it_is_as_it_was_or_kept() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        fs::write(&program, "old").unwrap();
        let mut list = Vec::new();
        let entry: Vec<u64> = identity(&program).unwrap().into_iter().chain([1, 2]).collect();
        let mut bytes: Vec<u8> = entry.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend_from_slice(program.as_os_str().as_bytes());
        bytes.push(0);
        list.extend_from_slice(&3u32.to_le_bytes());
        list.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        list.extend_from_slice(&bytes);
        fs::write(folder.path().join(OPENED.trim_start_matches('/')), list).unwrap();
        let wrong = || Images::of(folder.path()).wrong(|image| image == 3, &BTreeSet::new());
        assert_eq!(wrong(), None);
        fs::write(&program, "changed").unwrap();
        assert_eq!(wrong(), Some(Wrong::Changed(program.clone())));
        let other_name = folder.path().join(".").join("program");
        let looked_at = BTreeSet::from([other_name.as_path()]);
        assert_eq!(Images::of(folder.path()).wrong(|_| true, &looked_at), None, "somebody has looked");
        fs::remove_file(&program).unwrap();
        assert_eq!(wrong(), Some(Wrong::Missing(program.clone())));
        let images = Images::of(folder.path());
        assert_eq!(images.wrong(|_| false, &BTreeSet::new()), None, "that image does not run");
        let kept = name(hash_of(&program), [entry[0], entry[1], entry[2]]);
        fs::write(folder.path().join(std::str::from_utf8(&kept).unwrap()), "old").unwrap();
        assert_eq!(wrong(), None);
        assert!(!Images::of(folder.path()).first_has(Path::new("/")));
    }
}
