//! Listing and removing the traces of the store.
//!
//! Apart from making and finding them: only `ls` and `rm` come here.

use super::{FIRST_FILE, LATEST, Store, StoreError, check};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// One trace of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name, `PROGRAM-N`.
    pub name: String,
    /// Its folder.
    pub path: PathBuf,
    /// Bytes of all its files.
    pub bytes: u64,
    /// When a file of it was last changed.
    pub changed: SystemTime,
    /// The `latest` link points at it.
    pub is_latest: bool,
}

impl Store {
    /// Every trace of the store, oldest first; other files and folders are passed over.
    ///
    /// # Errors
    /// [`StoreError::List`] if the folder can't be read. A folder that isn't there yet has no traces.
    pub fn list(&self) -> Result<Vec<Entry>, StoreError> {
        let fail = |cause| StoreError::List { root: self.root.clone(), cause };
        let folders = match fs::read_dir(&self.root) {
            Ok(folders) => folders,
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(cause) => return Err(fail(cause)),
        };
        let latest = fs::canonicalize(self.root.join(LATEST)).ok();
        let mut entries = Vec::new();
        for folder in folders {
            let folder = folder.map_err(fail)?;
            // A trace may be removed while the list is made: what is gone is not in it.
            if folder.file_type().is_ok_and(|kind| kind.is_dir()) {
                entries.extend(describe(&folder.path(), latest.as_deref()));
            }
        }
        entries.sort_by(|a, b| (a.changed, &a.name).cmp(&(b.changed, &b.name)));
        Ok(entries)
    }

    /// Removes the trace at `path`, as [`Store::resolve`] gave it; `latest` then means the newest that is left.
    ///
    /// # Errors
    /// [`StoreError::NotATrace`] if it is none, [`StoreError::Remove`] if the file system refuses.
    pub fn remove(&self, path: &Path) -> Result<(), StoreError> {
        let path = check(path.to_owned())?;
        let was_latest = fs::canonicalize(self.root.join(LATEST)).is_ok_and(|latest| latest == path);
        fs::remove_dir_all(&path).map_err(|cause| StoreError::Remove { path: path.clone(), cause })?;
        if was_latest {
            match self.list()?.last() {
                Some(newest) => self.point_latest(&newest.name),
                None => drop(fs::remove_file(self.root.join(LATEST))),
            }
        }
        Ok(())
    }
}

fn describe(path: &Path, latest: Option<&Path>) -> Option<Entry> {
    let mut changed = fs::metadata(path.join(FIRST_FILE)).ok()?.modified().ok()?;
    let mut bytes = 0;
    for file in fs::read_dir(path).ok()?.flatten() {
        let Ok(metadata) = file.metadata() else { continue };
        bytes += metadata.len();
        changed = metadata.modified().map_or(changed, |modified| changed.max(modified));
    }
    let name = path.file_name()?.to_string_lossy().into_owned();
    let is_latest = latest.is_some_and(|latest| fs::canonicalize(path).is_ok_and(|path| path == latest));
    Some(Entry { name, path: path.to_owned(), bytes, changed, is_latest })
}

#[cfg(test)]
mod tests {
    use super::super::{FIRST_FILE, Store, StoreError};
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};
    use std::time::{Duration, SystemTime};

    /// A trace whose only file has `bytes` bytes and is `age` seconds younger than the epoch's first day.
    fn trace(store: &Store, program: &str, bytes: usize, age: u64) -> PathBuf {
        let path = store.create(OsStr::new(program)).unwrap();
        let file = path.join(FIRST_FILE);
        fs::write(&file, vec![0; bytes]).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(86_400 + age);
        fs::File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
        path
    }

    #[test]
    fn traces_are_numbered_listed_by_age_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("data/traces");
        let store = Store::at(root.clone());
        assert!(store.list().unwrap().is_empty());
        let first = trace(&store, "/usr/bin/prog", 10, 2);
        let second = trace(&store, "prog", 20, 1);
        fs::create_dir(root.join("not-a-trace")).unwrap();
        let names = || store.list().unwrap().into_iter().map(|e| (e.name, e.bytes, e.is_latest)).collect::<Vec<_>>();
        assert_eq!(names(), [("prog-2".into(), 20, true), ("prog-1".into(), 10, false)]);
        assert_eq!(fs::metadata(&first).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::metadata(&root).unwrap().permissions().mode() & 0o777, 0o700);
        store.remove(&second).unwrap();
        assert_eq!(names(), [("prog-1".into(), 10, true)]);
        assert_eq!(store.resolve(None).unwrap(), fs::canonicalize(&first).unwrap());
        store.remove(&store.resolve(None).unwrap()).unwrap();
        assert!(matches!(store.resolve(None), Err(StoreError::Empty { .. })));
    }

    #[test]
    fn a_number_is_not_given_again_while_a_later_one_lives() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().to_owned());
        let first = trace(&store, "prog", 1, 0);
        trace(&store, "prog", 1, 1);
        store.remove(&first).unwrap();
        assert!(trace(&store, "prog", 1, 2).ends_with("prog-3"));
        assert!(trace(&store, "prog-3", 1, 3).ends_with("prog-3-1"));
    }

    #[test]
    fn what_is_not_a_trace_is_neither_opened_nor_removed() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().join("traces"));
        trace(&store, "prog", 1, 0);
        let file = folder.path().join("file");
        fs::write(&file, "x").unwrap();
        for other in [file.as_path(), folder.path(), store.root()] {
            assert!(matches!(store.resolve(Some(other)), Err(StoreError::NotATrace { .. })), "{}", other.display());
            assert!(matches!(store.remove(other), Err(StoreError::NotATrace { .. })), "{}", other.display());
        }
        for name in ["", "prog-2", "prog-1/../prog-7"] {
            assert!(matches!(store.resolve(Some(Path::new(name))), Err(StoreError::Missing { .. })), "{name:?}");
        }
        let by_name = store.resolve(Some(Path::new("prog-1"))).unwrap();
        assert_eq!(by_name, store.resolve(Some(&store.root().join("prog-1"))).unwrap());
        assert!(file.exists());
    }
}
