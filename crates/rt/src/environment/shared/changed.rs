//! Calls that change what is in a file which some process of the recording has mapped
//! to be shared: writes, and what cuts a file off or makes a hole in it.
//!
//! Databases read by a mapping and write by calls. A replay makes no call for a file,
//! but what it changed must be seen through the mapping. So the recording says with
//! such a call which file it was and where, and a replay does the same to that file's
//! place in its memory. The bytes are the program's: they need not be kept.
//!
//! Not seen is what the kernel moves between files by itself (`sendfile`,
//! `copy_file_range`, `splice`), and what moves the rest of a file to another place. Where
//! a write began that says no place itself is asked once it has ended: threads that write by
//! one position at the same time may be told in each other's places.
//!
//! Apart from the mappings because nearly every call of a program asks whether it is such a one.

use super::{PLACE_BYTES, find, identity, place};
use crate::environment::output;
use crate::path::Path;
use crate::replay::calls::{self as replayed, Filler};
use crate::runtime;
use core::ops::Range;
use core::sync::atomic::Ordering;
use relive_sys::syscall::number::{
    CREAT, FALLOCATE, FCNTL, FTRUNCATE, LSEEK, OPEN, OPENAT, PWRITE64, PWRITEV, PWRITEV2, TRUNCATE, WRITE, WRITEV,
};
use relive_sys::syscall::{self, syscall6};

const O_TRUNC: usize = 0o1000;
const PUNCH_HOLE: usize = 2;
const KEEP_SIZE: usize = 1;
const ZERO_RANGE: usize = 0x10;

/// Where a call changed such a file: its identity, and an offset.
#[derive(Clone, Copy, Debug)]
pub(in crate::environment) struct Change([u64; 3]);

/// Whether a call may change a file that is mapped to be shared: one is, and the call is of that kind.
#[inline]
pub(in crate::environment) fn is_possible(number: usize, arguments: &[usize; 6]) -> bool {
    runtime::session().files[0].key.load(Ordering::Relaxed) != 0 && is_change(number, arguments)
}

fn is_change(number: usize, arguments: &[usize; 6]) -> bool {
    match number {
        _ if writes(number) => true,
        FTRUNCATE | TRUNCATE | CREAT => true,
        OPEN => arguments[1] & O_TRUNC != 0,
        OPENAT => arguments[2] & O_TRUNC != 0,
        FALLOCATE => arguments[1] & (PUNCH_HOLE | ZERO_RANGE) != 0,
        _ => false,
    }
}

const fn writes(number: usize) -> bool {
    matches!(number, WRITE | WRITEV | PWRITE64 | PWRITEV | PWRITEV2)
}

impl Change {
    /// That of a call which has just returned this, if it changed such a file.
    ///
    /// # Safety
    /// What the arguments name must be as it was.
    #[inline]
    pub(in crate::environment) unsafe fn of(number: usize, arguments: &[usize; 6], result: isize) -> Option<Self> {
        if result < isize::from(writes(number)) || !is_possible(number, arguments) {
            return None;
        }
        // SAFETY: the caller's promise.
        unsafe { Self::found(number, arguments, result) }
    }

    #[inline(never)]
    unsafe fn found(number: usize, arguments: &[usize; 6], result: isize) -> Option<Self> {
        let target = match number {
            // SAFETY: the caller's promise: the kernel has read the name.
            TRUNCATE => unsafe { opened(arguments[0])? },
            OPEN | OPENAT | CREAT => result as u32,
            _ => arguments[0] as u32,
        };
        let identity = mapped(target);
        if number == TRUNCATE {
            syscall::close(target);
        }
        let [device, inode] = identity?;
        let written = if writes(number) { result as u64 } else { 0 };
        let offset = offset(number, arguments, written)?;
        (offset + written <= PLACE_BYTES).then_some(Self([device, inode, offset]))
    }

    /// Address and length of what stands with the call.
    pub(in crate::environment) fn piece(&self) -> [usize; 2] {
        [self.0.as_ptr().addr(), size_of_val(&self.0)]
    }

    /// What stands with a call that may have one; what a write gave away has its check value behind that.
    pub(in crate::environment) fn told(filler: &mut Filler, number: usize, arguments: &[usize; 6]) -> Option<Self> {
        let mut change = Self([0; 3]);
        if !is_change(number, arguments) || filler.left() < size_of_val(&change.0) {
            return None;
        }
        // SAFETY: a local array.
        unsafe { filler.fill(change.0.as_mut_ptr().addr(), size_of_val(&change.0)) };
        Some(change)
    }

    /// Does the same to the file's place.
    ///
    /// # Safety
    /// The program's buffers must be readable.
    pub(in crate::environment) unsafe fn make_again(self, number: usize, arguments: &[usize; 6], result: isize) {
        let [device, inode, offset] = self.0;
        let pool = syscall::open(Path::pool().as_bytes(), syscall::O_RDWR);
        let Some((index, ..)) = place([device, inode]).filter(|_| pool >= 0) else { replayed::diverge(number) };
        let begin = index as u64 * PLACE_BYTES;
        let (mut at, end) = (begin + offset.min(PLACE_BYTES), begin + PLACE_BYTES);
        if writes(number) {
            // SAFETY: the caller's promise.
            unsafe {
                output::each_piece(number, arguments, result, &mut |address, length| {
                    let written = syscall6(PWRITE64, pool as usize, address, length, at as usize, 0, 0);
                    if written != length as isize {
                        replayed::misplaced(address, written);
                    }
                    at += length as u64;
                });
            }
        } else {
            let length = if number == FALLOCATE { arguments[3] as u64 } else { PLACE_BYTES };
            clear(pool as u32, at..at.saturating_add(length).min(end));
        }
        syscall::close(pool as u32);
    }
}

/// Makes a part of the memory of all files zero.
fn clear(pool: u32, range: Range<u64>) {
    let (at, length) = (range.start as usize, range.end.saturating_sub(range.start) as usize);
    if length > 0 {
        // SAFETY: no pointers.
        unsafe { syscall6(FALLOCATE, pool as usize, PUNCH_HOLE | KEEP_SIZE, at, length, 0, 0) };
    }
}

/// The identity of an open file that some process has mapped to be shared.
fn mapped(fd: u32) -> Option<[u64; 2]> {
    let [_, inode] = syscall::file_identity(fd)?;
    let files = &runtime::session().files;
    let mut used = files.iter().take_while(|file| file.key.load(Ordering::Relaxed) != 0);
    // Nearly all are of other files, and need no second look.
    used.any(|file| file.inode.load(Ordering::Relaxed) == inode)
        .then(|| identity(fd))
        .flatten()
        .filter(|&identity| find(identity).is_some())
}

/// The file of this name, to be asked about only.
///
/// # Safety
/// The name must be a string of C's.
unsafe fn opened(name: usize) -> Option<u32> {
    const O_PATH: usize = 0o10_000_000;
    const O_CLOEXEC: usize = 0o2_000_000;
    // SAFETY: the caller's promise.
    u32::try_from(unsafe { syscall6(OPEN, name, O_PATH | O_CLOEXEC, 0, 0, 0, 0) }).ok()
}

/// Where the call, which wrote so many bytes, began, or behind which offset nothing is left.
fn offset(number: usize, arguments: &[usize; 6], written: u64) -> Option<u64> {
    const RWF_APPEND: usize = 0x10;
    let [fd, second, third, fourth, _, sixth] = *arguments;
    let at_end = |appends: bool| if appends { syscall::file_size(fd as u32) } else { Some(fourth as u64 + written) };
    let end = match number {
        WRITE | WRITEV => position(fd),
        PWRITEV2 if fourth == usize::MAX => position(fd),
        PWRITE64 | PWRITEV => at_end(appends(fd)),
        PWRITEV2 => at_end(sixth & RWF_APPEND != 0 || appends(fd)),
        FTRUNCATE | TRUNCATE => Some(second as u64),
        FALLOCATE => Some(third as u64),
        _ => Some(0),
    };
    end?.checked_sub(written)
}

/// Where the next read or write of a descriptor begins.
fn position(fd: usize) -> Option<u64> {
    const SEEK_CUR: usize = 1;
    // SAFETY: no pointers.
    u64::try_from(unsafe { syscall6(LSEEK, fd, 0, SEEK_CUR, 0, 0, 0) }).ok()
}

/// Whether each write goes to the file's end.
fn appends(fd: usize) -> bool {
    const F_GETFL: usize = 3;
    const O_APPEND: isize = 0o2000;
    // SAFETY: no pointers.
    let flags = unsafe { syscall6(FCNTL, fd, F_GETFL, 0, 0, 0, 0) };
    flags >= 0 && flags & O_APPEND != 0
}

#[cfg(test)]
mod tests {
    use super::{KEEP_SIZE, O_TRUNC, PUNCH_HOLE, is_change, offset};
    use relive_sys::syscall::number::{FALLOCATE, FTRUNCATE, OPENAT, PWRITE64, READ, WRITE};
    use std::fs::{File, OpenOptions};
    use std::io::Write;
    use std::os::fd::AsRawFd;

    fn file(name: &str, append: bool) -> File {
        let path = std::env::temp_dir().join(std::format!("relive-changed-{name}-{}", std::process::id()));
        let file = OpenOptions::new().create_new(true).append(append).write(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file
    }

    #[test]
    fn a_write_began_where_its_bytes_do() {
        let mut plain = file("plain", false);
        plain.write_all(b"twelve bytes").unwrap();
        let fd = plain.as_raw_fd() as usize;
        assert_eq!(offset(WRITE, &[fd, 0, 5, 0, 0, 0], 5), Some(7));
        assert_eq!(offset(PWRITE64, &[fd, 0, 5, 100, 0, 0], 5), Some(100));
        assert_eq!(offset(FTRUNCATE, &[fd, 3, 0, 0, 0, 0], 0), Some(3));
        let mut appended = file("appended", true);
        appended.write_all(b"twelve bytes").unwrap();
        let fd = appended.as_raw_fd() as usize;
        assert_eq!(offset(PWRITE64, &[fd, 0, 5, 0, 0, 0], 5), Some(7), "wherever it was to go");
    }

    #[test]
    fn only_what_changes_contents_is_a_change() {
        let changes = |number, second, third| is_change(number, &[0, second, third, 0, 0, 0]);
        assert!(changes(WRITE, 0, 0) && changes(OPENAT, 0, O_TRUNC) && changes(FALLOCATE, PUNCH_HOLE | KEEP_SIZE, 0));
        assert!(!changes(READ, 0, 0) && !changes(OPENAT, O_TRUNC, 0) && !changes(FALLOCATE, KEEP_SIZE, 0));
    }
}
