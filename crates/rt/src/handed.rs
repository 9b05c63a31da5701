//! Files of the session that this process may not open by name, because it has
//! become another user: the launcher hands them over.
//!
//! Apart from [`crate::held`] because a new image holds nothing yet.

use crate::runtime;
use relive_sys::handed::ask;
use relive_sys::syscall;
use relive_trace::handed::{Wanted, launcher_of, name};

const EACCES: isize = -13;

/// Opens a file of the session, by its path or else as the launcher hands it over. As [`syscall::open`].
pub fn open(path: &[u8], flags: u32, wanted: Wanted) -> isize {
    or_handed(syscall::open(path, flags), || get(wanted))
}

/// The same for the session's memory, to a process that knows no more of the session than its path.
pub fn open_control(path: &[u8]) -> isize {
    let handed = || launcher_of(path).and_then(|launcher| from(launcher, Wanted::Control));
    or_handed(syscall::open(path, syscall::O_RDWR), handed)
}

/// A file as the launcher hands it over.
pub fn get(wanted: Wanted) -> Option<u32> {
    from(runtime::session().launcher, wanted)
}

fn from(launcher: u32, wanted: Wanted) -> Option<u32> {
    ask(&name(launcher), launcher, &wanted.to_bytes())
}

fn or_handed(opened: isize, handed: impl FnOnce() -> Option<u32>) -> isize {
    if opened == EACCES { handed().map_or(EACCES, |fd| fd as isize) } else { opened }
}
