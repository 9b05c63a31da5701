//! Unpacks a packed trace into a folder of its own.
//!
//! Nothing in the file is believed: first it is compared with its head, then only
//! names that the packer gives are taken, as many bytes as the head says, and
//! links come last, so that no file is written through one. The folder gets its
//! name when all of it is there.

mod archive;

use crate::processes;
use relive_trace::derived::DERIVED;
use relive_trace::kept;
use relive_trace::manifest::MANIFEST;
use relive_trace::opened::OPENED;
use relive_trace::packed::{EXTENSION, HEAD_BYTES, Head, NoHead};
use relive_trace::reader::checksum;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The list of files that images were started from: by it a replay finds the copies that a trace holds.
pub(crate) const LIST: &str = OPENED.split_at(1).1;
/// Folders that are not whole yet begin with this, and go on with the process that makes them.
const UNFINISHED: &str = ".unpack.";

/// A packed trace whose length and checksum are right.
#[derive(Debug)]
pub struct PackedTrace {
    path: PathBuf,
    file: File,
    head: Head,
}

/// Why a packed trace can't be used.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The system refused.
    #[error("read {}: {cause}; check the file", path.display())]
    Read {
        /// The packed trace.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// Something else, or of another version.
    #[error("read {}: {cause}; name a file that `relive pack` made", path.display())]
    Head {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: NoHead,
    },
    /// The end is missing, or too much is there.
    #[error("read {}: it has {found} bytes instead of {expected}; copy it again", path.display())]
    Length {
        /// The packed trace.
        path: PathBuf,
        /// By its head.
        expected: u64,
        /// On disk.
        found: u64,
    },
    /// It was changed.
    #[error("read {}: its checksum differs from the one it was packed with; copy it again", path.display())]
    Damaged {
        /// The packed trace.
        path: PathBuf,
    },
    /// It was not made by `relive pack`, whatever its checksum says.
    #[error("unpack {}: {why}; pack the trace again", path.display())]
    Strange {
        /// The packed trace.
        path: PathBuf,
        /// What stands in it.
        why: String,
    },
    /// There is no room.
    #[error("unpack {}: it needs {needed} bytes in {}, where {free} are free; make room or set XDG_CACHE_HOME", path.display(), folder.display())]
    NoSpace {
        /// The packed trace.
        path: PathBuf,
        /// Where it was to go.
        folder: PathBuf,
        /// Bytes needed.
        needed: u64,
        /// Bytes there.
        free: u64,
    },
    /// The folder can't be written.
    #[error("unpack to {}: {cause}; name another folder", folder.display())]
    Write {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
}

/// Whether a file means to be a packed trace, be it damaged.
pub fn is_packed(path: &Path) -> bool {
    let mut start = [0; HEAD_BYTES];
    let named = path.extension().is_some_and(|extension| extension == EXTENSION);
    let Ok(mut file) = File::open(path) else { return false };
    path.is_file() && (named || (file.read_exact(&mut start).is_ok() && Head::is_meant(&start)))
}

impl PackedTrace {
    /// Opens a packed trace and compares it with its head.
    ///
    /// # Errors
    /// [`UnpackError`].
    pub fn open(path: &Path) -> Result<Self, UnpackError> {
        let read = |cause| UnpackError::Read { path: path.to_owned(), cause };
        let mut file = File::open(path).map_err(read)?;
        let found = file.metadata().map_err(read)?.len();
        let (mut start, mut bytes) = (Vec::new(), [0; HEAD_BYTES]);
        file.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut start).map_err(read)?;
        bytes[..start.len()].copy_from_slice(&start);
        let head = Head::parse(&bytes).map_err(|cause| UnpackError::Head { path: path.to_owned(), cause })?;
        let expected = head.packed.saturating_add(HEAD_BYTES as u64);
        if found != expected {
            return Err(UnpackError::Length { path: path.to_owned(), expected, found });
        }
        if checksum(&file).map_err(read)? != head.checksum {
            return Err(UnpackError::Damaged { path: path.to_owned() });
        }
        Ok(Self { path: path.to_owned(), file, head })
    }

    /// Unpacks it below `cache` unless that was done before. `progress` hears of bytes done, and of all.
    ///
    /// # Errors
    /// [`UnpackError`].
    pub fn unpack_once(&self, cache: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<PathBuf, UnpackError> {
        let name = format!("{:016x}-{:x}", self.head.checksum, self.head.packed);
        let folder = cache.join(name);
        if !folder.is_dir() {
            DirBuilder::new().recursive(true).mode(0o700).create(cache).map_err(|cause| write_error(cache, cause))?;
            processes::remove_left(cache, UNFINISHED);
            match self.unpack_to(&folder, progress) {
                // Another process was faster.
                Err(UnpackError::Write { .. }) if folder.is_dir() => {}
                done => done?,
            }
        }
        fs::canonicalize(&folder).map_err(|cause| write_error(&folder, cause))
    }

    /// Unpacks it into a folder that must not exist.
    ///
    /// # Errors
    /// [`UnpackError`].
    pub fn unpack_to(&self, folder: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<(), UnpackError> {
        let write = |cause| write_error(folder, cause);
        if fs::symlink_metadata(folder).is_ok() {
            return Err(write(io::ErrorKind::AlreadyExists.into()));
        }
        let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        self.check_space(parent)?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let fresh = parent.join(format!("{UNFINISHED}{}.{name}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&fresh).map_err(write)?;
        let done = self.fill(&fresh, progress).and_then(|()| fs::rename(&fresh, folder).map_err(write));
        if done.is_err() {
            let _ = fs::remove_dir_all(&fresh);
        }
        done
    }

    fn fill(&self, folder: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<(), UnpackError> {
        let read = |cause| UnpackError::Read { path: self.path.clone(), cause };
        let mut file = self.file.try_clone().map_err(read)?;
        file.seek(SeekFrom::Start(HEAD_BYTES as u64)).map_err(read)?;
        let decoder = zstd::Decoder::new(file).map_err(read)?;
        let all = self.head.unpacked;
        archive::unpack(decoder, all, folder, &mut |done| progress(done, all)).map_err(|failed| match failed {
            archive::Failed::Strange(why) => UnpackError::Strange { path: self.path.clone(), why },
            archive::Failed::Writing(cause) => write_error(folder, cause),
        })
    }

    fn check_space(&self, folder: &Path) -> Result<(), UnpackError> {
        let Ok(found) = rustix::fs::statvfs(folder) else { return Ok(()) };
        let (free, needed) = (found.f_bavail.saturating_mul(found.f_frsize), self.head.unpacked);
        if free >= needed {
            return Ok(());
        }
        Err(UnpackError::NoSpace { path: self.path.clone(), folder: folder.to_owned(), needed, free })
    }
}

fn write_error(folder: &Path, cause: io::Error) -> UnpackError {
    UnpackError::Write { folder: folder.to_owned(), cause }
}

/// Whether a file of a trace folder is part of the recording, or learnt from it: nothing else is packed or unpacked.
pub(crate) fn is_member(name: &str) -> bool {
    let numbered = |ending| {
        let digits = name.strip_prefix('p').and_then(|rest| rest.strip_suffix(ending)).unwrap_or("");
        digits.len() >= 5 && digits.len() <= 10 && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    name == MANIFEST
        || name == DERIVED
        || name == LIST
        || kept::is_name(name)
        || numbered(".trace")
        || numbered(".inputs")
}
