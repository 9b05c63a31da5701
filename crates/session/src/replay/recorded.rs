//! Paths as they were in the recording, of files that a replay has elsewhere: copies in
//! the trace of what was young, and files of a packed trace.
//!
//! Apart from the search for races because a divergence names places, too.

use super::Replayer;
use crate::kept;
use crate::packed::Packed;
use relive_trace::recording::Recording;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// From paths of now to those of the recording.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorded {
    kept: BTreeMap<Vec<u8>, PathBuf>,
    /// The folder that stands for the recording machine's root.
    root: Option<PathBuf>,
}

impl Recorded {
    /// Of the trace in `folder`, whose packed files are below `root`.
    pub(crate) fn of(folder: &Path, recording: &Recording, root: Option<&Path>) -> Self {
        let root = root.map(|root| fs::canonicalize(root).unwrap_or_else(|_| root.to_owned()));
        Self { kept: kept::paths(folder, recording), root }
    }

    /// The path in the recording, if that was another.
    pub(crate) fn path(&self, now: &Path) -> Option<PathBuf> {
        let below = |root: &PathBuf| Some(Path::new("/").join(now.strip_prefix(root).ok()?));
        let copied = || self.kept.get(now.file_name()?.as_bytes()).cloned();
        self.root.as_ref().and_then(below).or_else(copied)
    }
}

impl Replayer {
    pub(super) fn recorded(&self) -> Recorded {
        Recorded::of(&self.folder, &self.recording, self.packed.as_ref().map(Packed::root))
    }
}

#[cfg(test)]
mod tests {
    use super::Recorded;
    use std::path::{Path, PathBuf};

    #[test]
    fn copies_and_packed_files_have_the_names_of_their_originals() {
        let kept = [(b"kept-1".to_vec(), PathBuf::from("/bin/own"))].into();
        let recorded = Recorded { kept, root: Some("/cache/files".into()) };
        let path = |now: &str| recorded.path(Path::new(now));
        assert_eq!(path("/cache/kept-1"), Some("/bin/own".into()));
        assert_eq!(path("/cache/files/lib/libc.so.6"), Some("/lib/libc.so.6".into()));
        assert_eq!((path("/lib/libc.so.6"), path("[vdso]"), path("/")), (None, None, None));
    }
}
