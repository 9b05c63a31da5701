//! The limit on the size of files (`ulimit -f`): it is meant for programs.
//!
//! Control memory, plan and trace are files of ours, which grow on their behalf. So
//! we go by the highest limit that we may have, and programs start with theirs.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::sync::OnceLock;

/// What programs start with, if that is another one than ours.
static GIVEN: OnceLock<Rlimit> = OnceLock::new();

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

/// While it lives, a program that is started has the limit that we were started with.
#[derive(Debug)]
pub(crate) struct OfPrograms(Option<Rlimit>);

impl OfPrograms {
    pub(crate) fn enter() -> Self {
        let Some(given) = GIVEN.get() else { return Self(None) };
        let ours = getrlimit(Resource::Fsize);
        // The higher one is another only if we may raise it again.
        Self(setrlimit(Resource::Fsize, *given).is_ok().then_some(ours))
    }
}

impl Drop for OfPrograms {
    fn drop(&mut self) {
        if let Some(ours) = self.0 {
            let _ = setrlimit(Resource::Fsize, ours);
        }
    }
}
