//! Whether the starter can be had by the process that is to become another image, and
//! whether the loader will take our library: a process may have become another user.
//!
//! Apart from the file that is started because here it is about ours.

use crate::handed;
use core::ffi::CStr;
use relive_sys::dispatch::program_call;
use relive_sys::syscall::number::{ACCESS, EXECVE, EXECVEAT, GETRESGID, GETRESUID};
use relive_sys::syscall::{self, syscall6};
use relive_trace::handed::Wanted;

const EACCES: isize = -13;
const X_OK: usize = 1;
const R_OK: usize = 4;
/// What the kernel calls a file that was executed by its descriptor, which is closed by now.
const BY_DESCRIPTOR: &[u8] = b"/dev/fd/";

/// The starter, as this process can execute it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Starter<'a> {
    Named(&'a CStr),
    /// Handed over by the launcher.
    Handed(u32),
}

/// Why an image that this process starts can't be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The kernel tells the loader to trust nobody.
    Secure,
    /// This user has no way to our files.
    OutOfReach(u32),
    /// It makes calls on stacks of two kilobytes, of which it keeps eight hundred bytes free: neither we nor the kernel's
    /// frame of a signal have room there.
    Go,
}

impl core::fmt::Display for Obstacle {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Secure => f.write_str("real and effective user or group differ, so preloading is switched off"),
            Self::Go => f.write_str("it is a Go program, whose stacks have no room for what records its calls"),
            Self::OutOfReach(user) => write!(f, "user {user} can't open the recorder's files"),
        }
    }
}

/// Looks for the starter before it is needed: what can't be recorded must not be begun as if it were.
pub(super) fn starter(named: &CStr) -> Result<Starter<'_>, Obstacle> {
    let user = one_user()?;
    // In another root folder it has no such name, but names lead to other files there, and a replay has the machine's.
    match usual(named).filter(|_| may(X_OK, named) != EACCES) {
        Some(starter) => Ok(starter),
        None => handed::get(Wanted::Starter).map(Starter::Handed).ok_or(Obstacle::OutOfReach(user)),
    }
}

/// Whether the kernel's loader could open the library of this name, where there is no starter.
///
/// # Errors
/// Why not.
pub fn library(named: &CStr) -> Result<(), Obstacle> {
    let user = one_user()?;
    if may(R_OK, named) == 0 { Ok(()) } else { Err(Obstacle::OutOfReach(user)) }
}

/// The user, if the kernel will trust who starts the image.
fn one_user() -> Result<u32, Obstacle> {
    let (user, group) = (identity(GETRESUID), identity(GETRESGID));
    if user[0] == user[1] && group[0] == group[1] { Ok(user[0]) } else { Err(Obstacle::Secure) }
}

/// By its name, if it has one here.
pub(super) fn usual(named: &CStr) -> Option<Starter<'_>> {
    (!named.to_bytes().starts_with(BY_DESCRIPTOR)).then_some(Starter::Named(named))
}

impl Starter<'_> {
    /// Makes the call. Returns only on failure.
    ///
    /// # Safety
    /// As for `execve` with these lists.
    pub(super) unsafe fn execute(self, list: usize, environment: usize) -> isize {
        const AT_EMPTY_PATH: usize = 0x1000;
        // SAFETY: the caller's promise; strings ended by zero.
        unsafe {
            match self {
                Self::Named(path) => program_call(EXECVE, &[path.as_ptr().addr(), list, environment, 0, 0, 0]),
                Self::Handed(fd) => {
                    let given = [fd as usize, c"".as_ptr().addr(), list, environment, AT_EMPTY_PATH, 0];
                    let result = program_call(EXECVEAT, &given);
                    syscall::close(fd);
                    result
                }
            }
        }
    }
}

/// Real, effective and saved id.
fn identity(number: usize) -> [u32; 3] {
    let mut ids = [0u32; 3];
    let [real, effective, saved] = &mut ids;
    let [real, effective, saved] = [real, effective, saved].map(|id| core::ptr::from_mut(id).addr());
    // SAFETY: three words to be written.
    unsafe { syscall6(number, real, effective, saved, 0, 0, 0) };
    ids
}

/// Asks for the real user, who is the effective one here.
fn may(what: usize, path: &CStr) -> isize {
    // SAFETY: a string.
    unsafe { syscall6(ACCESS, path.as_ptr().addr(), what, 0, 0, 0, 0) }
}

#[cfg(test)]
mod tests {
    use super::{BY_DESCRIPTOR, EACCES, Starter, X_OK, library, may, usual};

    #[test]
    fn a_starter_that_was_handed_over_has_no_name() {
        assert!(matches!(usual(c"/a/start"), Some(Starter::Named(path)) if path == c"/a/start"));
        assert!(usual(c"/dev/fd/7").is_none() && BY_DESCRIPTOR.len() == 8);
        assert_eq!([c"/bin/true", c"/etc/passwd", c"/nowhere"].map(|path| may(X_OK, path)), [0, EACCES, -2]);
        assert!(library(c"/bin/true").is_ok() && library(c"/nowhere").is_err());
    }
}
