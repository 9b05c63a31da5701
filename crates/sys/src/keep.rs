//! Copies files into a folder.
//!
//! Apart from the calls themselves because a copy must be there as a whole or not
//! at all, whoever makes the same one at the same time and whenever somebody is
//! killed.

use crate::syscall::number::{IOCTL, OPENAT, RENAMEAT, SENDFILE, UNLINKAT};
use crate::syscall::{self, syscall6};
use core::ffi::CStr;

/// What a copy is to hold.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// So many bytes of an open file, from its beginning: all of them.
    Whole(u32, u64),
    /// These.
    Bytes(&'a [u8]),
}

/// Makes the file `name` in `folder` unless it is there. Whether it is there now.
pub fn keep(folder: &CStr, name: &[u8], content: Content<'_>) -> bool {
    const O_DIRECTORY: u32 = 0o200_000;
    let opened = syscall::open(folder.to_bytes_with_nul(), syscall::O_RDONLY | O_DIRECTORY);
    let Ok(folder) = u32::try_from(opened) else { return false };
    let done = fill(folder, name, content);
    syscall::close(folder);
    done.is_some()
}

fn fill(folder: u32, name: &[u8], content: Content<'_>) -> Option<()> {
    const NAME_MAX: usize = 128;
    let mut whole = [0u8; NAME_MAX];
    whole.get_mut(..name.len())?.copy_from_slice(name);
    if let Ok(there) = u32::try_from(open(folder, &whole, syscall::O_RDONLY)) {
        syscall::close(there);
        return Some(());
    }
    let bytes = match content {
        Content::Whole(_, bytes) => bytes,
        Content::Bytes(bytes) => bytes.len() as u64,
    };
    // Writing beyond the program's limit on file size would send it SIGXFSZ.
    if bytes > syscall::file_limit()[0] {
        return None;
    }
    let mut fresh = whole;
    let mut at = name.len();
    let mut id = syscall::gettid();
    *fresh.get_mut(at)? = b'.';
    while id > 0 {
        at += 1;
        *fresh.get_mut(at).filter(|_| at + 1 < NAME_MAX)? = b'0' + (id % 10) as u8;
        id /= 10;
    }
    let to = u32::try_from(open(folder, &fresh, syscall::O_WRITE_NEW)).ok()?;
    syscall::set_owners_mode(to);
    let copied = match content {
        Content::Whole(from, bytes) => copy(from, to, bytes),
        Content::Bytes(bytes) => syscall::write(to, bytes) == bytes.len() as isize,
    };
    syscall::close(to);
    let (fresh, whole) = (fresh.as_ptr().addr(), whole.as_ptr().addr());
    // SAFETY: two names ended by zero.
    unsafe {
        let named = copied && syscall6(RENAMEAT, folder as usize, fresh, folder as usize, whole, 0, 0) == 0;
        if !named {
            syscall6(UNLINKAT, folder as usize, fresh, 0, 0, 0, 0);
        }
        named.then_some(())
    }
}

fn open(folder: u32, name: &[u8], flags: u32) -> isize {
    const O_CLOEXEC: u32 = 0o2_000_000;
    // SAFETY: a name ended by zero: its buffer is longer than any.
    unsafe { syscall6(OPENAT, folder as usize, name.as_ptr().addr(), (flags | O_CLOEXEC) as usize, 0o600, 0, 0) }
}

/// Shares the file's blocks where the file system can, else copies them within the kernel.
fn copy(from: u32, to: u32, bytes: u64) -> bool {
    const FICLONE: usize = 0x4004_9409;
    // SAFETY: no pointers.
    if unsafe { syscall6(IOCTL, to as usize, FICLONE, from as usize, 0, 0, 0) } == 0 {
        return true;
    }
    let mut offset = 0u64;
    while offset < bytes {
        let left = (bytes - offset) as usize;
        // SAFETY: the offset is a local word, which the call moves on; the descriptor's own stays.
        if unsafe { syscall6(SENDFILE, to as usize, from as usize, (&raw mut offset).addr(), left, 0, 0) } <= 0 {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::{Content, keep};
    use std::ffi::CString;
    use std::fs::{self, File};
    use std::os::fd::AsRawFd;

    #[test]
    fn a_copy_is_whole_or_not_there_and_stays_as_it_is() {
        let folder = std::env::temp_dir().join(format!("relive-keep-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let place = CString::new(folder.to_str().unwrap()).unwrap();
        fs::write(folder.join("source"), "some bytes").unwrap();
        let source = File::open(folder.join("source")).unwrap();
        let whole = |bytes| Content::Whole(source.as_raw_fd() as u32, bytes);
        assert!(keep(&place, b"copy", whole(10)) && keep(&place, b"line", Content::Bytes(b"#!/bin/sh")));
        assert!(!keep(&place, b"short", whole(11)), "the file has not so many");
        assert!(keep(&place, b"copy", Content::Bytes(b"others")), "it is there");
        assert_eq!(fs::read(folder.join("copy")).unwrap(), b"some bytes");
        assert_eq!(fs::read(folder.join("line")).unwrap(), b"#!/bin/sh");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 3, "nothing else is left");
        fs::remove_dir_all(&folder).unwrap();
        assert!(!keep(&place, b"copy", whole(10)));
    }
}
