//! The recording machine's files in the folder of a packed trace.
//!
//! Apart from packing and unpacking because each replay needs it: whatever it
//! opens by name it opens there, after it was compared with the index.

use relive_trace::manifest::Text;
use relive_trace::opened::ROOT;
use relive_trace::packed::{Index, PackedFile};
use relive_trace::reader::checksum;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files that stand for the machine's.
#[derive(Clone, Debug)]
pub struct Packed {
    root: PathBuf,
    /// Device and inode of each, and those that it had in the recording.
    identities: Vec<[u64; 4]>,
}

/// Why a packed trace's files can't be used.
#[derive(Debug, thiserror::Error)]
pub enum PackedError {
    /// The index can't be read or trusted.
    #[error("read the files packed in {}: {cause}; remove the folder and unpack it again", folder.display())]
    Index {
        /// The trace.
        folder: PathBuf,
        /// What is wrong.
        cause: io::Error,
    },
    /// A file is not the packed one.
    #[error("read {} packed in {}: it was changed or removed; remove the folder and unpack it again", path, folder.display())]
    Changed {
        /// The trace.
        folder: PathBuf,
        /// The file by its recorded name.
        path: Text,
    },
}

impl Packed {
    /// The files in the trace in `folder`, verified; `None` if the trace is not a packed one.
    ///
    /// # Errors
    /// [`PackedError`].
    pub fn open(folder: &Path) -> Result<Option<Self>, PackedError> {
        let found = Index::read(folder).map_err(|cause| PackedError::Index { folder: folder.to_owned(), cause })?;
        let Some(index) = found else { return Ok(None) };
        let mut packed = Self { root: root(folder), identities: Vec::new() };
        for file in &index.files {
            for path in &file.paths {
                let found = packed.unchanged(file, path).ok().flatten();
                let changed = || PackedError::Changed { folder: folder.to_owned(), path: path.clone() };
                let (device, inode) = found.ok_or_else(changed)?;
                packed.identities.push([device, inode, file.identity.0, file.identity.1]);
            }
        }
        Ok(Some(packed))
    }

    /// Where the file is that had this name.
    pub fn find(&self, path: &Path) -> PathBuf {
        below(&self.root, path)
    }

    /// The folder that stands for the root of the recording machine.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Device and inode of each, and those that it had in the recording: the loader tells libraries apart by them, and is
    /// told the recorded ones later on.
    pub fn identities(&self) -> &[[u64; 4]] {
        &self.identities
    }

    /// Device and inode of a file that is the packed one.
    fn unchanged(&self, file: &PackedFile, path: &Text) -> io::Result<Option<(u64, u64)>> {
        let found = File::open(self.find(path.as_path()))?;
        let metadata = found.metadata()?;
        let changed = (metadata.mtime() as u64, metadata.mtime_nsec() as u32);
        let same = metadata.len() == file.bytes && changed == file.changed;
        let same = same && format!("{:016x}", checksum(found)?) == file.checksum;
        Ok(same.then(|| (metadata.dev(), metadata.ino())))
    }
}

/// The folder of a trace that holds them.
pub(crate) fn root(folder: &Path) -> PathBuf {
    below(folder, Path::new(ROOT))
}

/// A full path as one below `root`.
pub(crate) fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}
