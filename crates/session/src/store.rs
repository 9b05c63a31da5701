//! Where traces live: the trace folder, its `PROGRAM-N` entries and the `latest` link.
//!
//! Apart because every command names traces in the same way. What is in a trace
//! is not looked at here; listing and removing are in `store/entries.rs`.

mod entries;

pub use entries::Entry;

use std::env;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

/// The link to the trace made last.
const LATEST: &str = "latest";

/// The folder that holds the traces of a user.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
}

/// Why a trace folder can't be made or found.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No place for traces is known.
    #[error("find the trace folder: none of RELIVE_TRACE_DIR, XDG_DATA_HOME and HOME is set; set RELIVE_TRACE_DIR")]
    NoRoot,
    /// A folder can't be made.
    #[error("create trace folder {}: {cause}; name another one with -o", path.display())]
    Create {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// There is no trace of this name.
    #[error("open trace {}: no such trace; `relive ls` lists them", path.display())]
    Missing {
        /// What was asked for.
        path: PathBuf,
    },
    /// There is no trace at all.
    #[error("open the latest trace: there is none in {}; make one with `relive record`", root.display())]
    Empty {
        /// The trace folder.
        root: PathBuf,
    },
    /// Something else stands there.
    #[error("open trace {}: {why}; name the folder that `relive record` made", path.display())]
    NotATrace {
        /// What was asked for.
        path: PathBuf,
        /// What it is instead.
        why: &'static str,
    },
    /// The trace folder can't be read.
    #[error("list {}: {cause}; check RELIVE_TRACE_DIR", root.display())]
    List {
        /// The trace folder.
        root: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// A trace can't be removed.
    #[error("remove trace {}: {cause}; remove the folder by hand", path.display())]
    Remove {
        /// The trace.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
}

impl Store {
    /// `$RELIVE_TRACE_DIR`, else the user's data folder.
    ///
    /// # Errors
    /// [`StoreError::NoRoot`] if the environment names none.
    pub fn from_environment() -> Result<Self, StoreError> {
        let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let absolute = |name| set(name).filter(|path| path.is_absolute());
        set("RELIVE_TRACE_DIR")
            .or_else(|| absolute("XDG_DATA_HOME").map(|data| data.join("relive")))
            .or_else(|| absolute("HOME").map(|home| home.join(".local/share/relive")))
            .map(|root| Self { root })
            .ok_or(StoreError::NoRoot)
    }

    /// A store at `root`.
    pub fn at(root: PathBuf) -> Self {
        Self { root }
    }

    /// Makes the next `PROGRAM-N` and points `latest` at it.
    ///
    /// # Errors
    /// [`StoreError::Create`] if the file system refuses.
    pub fn create(&self, program: &OsStr) -> Result<PathBuf, StoreError> {
        let fail = |path: &Path, cause| StoreError::Create { path: path.to_owned(), cause };
        DirBuilder::new().recursive(true).mode(0o700).create(&self.root).map_err(|cause| fail(&self.root, cause))?;
        let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned();
        let mut number = self.last_number(&name) + 1;
        loop {
            let entry = format!("{name}-{number}");
            let path = self.root.join(&entry);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    // Whatever the mask took away.
                    fs::set_permissions(&path, Permissions::from_mode(0o700)).map_err(|cause| fail(&path, cause))?;
                    self.point_latest(&entry);
                    return Ok(path);
                }
                Err(cause) if cause.kind() == ErrorKind::AlreadyExists => number += 1,
                Err(cause) => return Err(fail(&path, cause)),
            }
        }
    }

    /// The folder that holds the traces.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The trace that `named` means: a folder, else an entry of the store, else the latest.
    ///
    /// # Errors
    /// [`StoreError::Missing`], [`StoreError::Empty`] or [`StoreError::NotATrace`] if that is none.
    pub fn resolve(&self, named: Option<&Path>) -> Result<PathBuf, StoreError> {
        let Some(named) = named.filter(|named| *named != Path::new(LATEST)) else {
            let latest = fs::canonicalize(self.root.join(LATEST));
            return check(latest.map_err(|_| StoreError::Empty { root: self.root.clone() })?);
        };
        // An entry's name is one plain component: `..` or an empty name must not reach the trace folder itself.
        let is_name = matches!(named.components().collect::<Vec<_>>()[..], [Component::Normal(_)]);
        let entry = is_name.then(|| self.root.join(named));
        let found = [Some(named.to_owned()), entry].into_iter().flatten().find_map(|path| fs::canonicalize(path).ok());
        check(found.ok_or_else(|| StoreError::Missing { path: named.to_owned() })?)
    }

    fn last_number(&self, name: &str) -> u64 {
        let Ok(entries) = fs::read_dir(&self.root) else { return 0 };
        entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.strip_prefix(name)?.strip_prefix('-')?.parse().ok())
            .max()
            .unwrap_or(0)
    }

    /// The link is a convenience: a file system without links doesn't fail the recording.
    fn point_latest(&self, entry: &str) {
        let fresh = self.root.join(format!(".latest.{}", std::process::id()));
        if symlink(entry, &fresh).is_ok() && fs::rename(&fresh, self.root.join(LATEST)).is_err() {
            let _ = fs::remove_file(&fresh);
        }
    }
}

/// The first data file: a recording makes it before the program starts.
const FIRST_FILE: &str = "p00000.trace";

fn check(path: PathBuf) -> Result<PathBuf, StoreError> {
    let why = match fs::metadata(&path) {
        Ok(metadata) if !metadata.is_dir() => "a file, not a folder",
        Ok(_) if !path.join(FIRST_FILE).is_file() => "a folder without p00000.trace",
        Ok(_) => return Ok(path),
        Err(_) => return Err(StoreError::Missing { path }),
    };
    Err(StoreError::NotATrace { path, why })
}
