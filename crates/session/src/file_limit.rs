//! The limit on the size of files (`ulimit -f`): it is meant for programs.
//!
//! Control memory, plan and trace are files of ours, which grow on their behalf. So
//! we go by the highest limit that we may have, and programs start with theirs.
//!
//! A limit is a process's and not a thread's. While one thread starts a program, another must
//! not grow a file: the program may be running already, and ask for it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// What programs start with, if that is another one than ours.
static GIVEN: OnceLock<Rlimit> = OnceLock::new();
/// Held for writing while the limit is that of programs, for reading while a file of ours grows.
static LIMIT: RwLock<()> = RwLock::new(());

/// Raises our own limit.
pub fn raise() {
    let given = getrlimit(Resource::Fsize);
    if given.current.is_none() {
        return;
    }
    let none = Rlimit { current: None, maximum: None };
    let highest = Rlimit { current: given.maximum, ..given };
    let _ = setrlimit(Resource::Fsize, none).or_else(|_| setrlimit(Resource::Fsize, highest));
    let _ = GIVEN.set(given);
}

/// What to do where the limit is too low for our own files, and may not be raised.
pub(crate) fn remedy(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::FileTooLarge => ", for which the limit on file size (ulimit -f) must be raised",
        _ => "",
    }
}

/// While it lives, the limit is ours. Nobody who holds it may start a program.
pub(crate) fn ours() -> RwLockReadGuard<'static, ()> {
    LIMIT.read().unwrap_or_else(PoisonError::into_inner)
}

/// While it lives, a program that is started has the limit that we were started with.
#[derive(Debug)]
pub(crate) struct OfPrograms {
    ours: Option<Rlimit>,
    _alone: RwLockWriteGuard<'static, ()>,
}

impl OfPrograms {
    pub(crate) fn enter() -> Self {
        let alone = LIMIT.write().unwrap_or_else(PoisonError::into_inner);
        let highest = getrlimit(Resource::Fsize);
        // The higher one is another only if we may raise it again.
        let ours = GIVEN.get().filter(|&&given| setrlimit(Resource::Fsize, given).is_ok()).map(|_| highest);
        Self { ours, _alone: alone }
    }
}

impl Drop for OfPrograms {
    fn drop(&mut self) {
        if let Some(ours) = self.ours {
            let _ = setrlimit(Resource::Fsize, ours);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{OfPrograms, raise};
    use crate::data_file::grow;
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use std::fs::File;
    use std::thread;
    use std::time::Duration;

    /// High enough for whatever else this process tests meanwhile.
    const LIMIT: u64 = 1 << 30;

    #[test]
    fn a_file_that_is_to_grow_while_a_program_starts_grows_behind_that() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p00000.trace");
        File::create(&path).unwrap();
        setrlimit(Resource::Fsize, Rlimit { current: Some(LIMIT), ..getrlimit(Resource::Fsize) }).unwrap();
        raise();
        let starts = OfPrograms::enter();
        assert_eq!(getrlimit(Resource::Fsize).current, Some(LIMIT));
        let grows = thread::spawn(move || grow(&path, LIMIT, LIMIT + 4096));
        thread::sleep(Duration::from_millis(50));
        drop(starts);
        grows.join().unwrap().unwrap();
    }
}
