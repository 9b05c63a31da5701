//! What the detector writes for the launcher: small files that grow at their ends.
//!
//! Apart because a replayed process may be killed between any two instructions, has no
//! descriptors of its own to spare, and runs in a session whose folder the launcher
//! made: each record is one write, which is whole or not there.

use crate::runtime;
use alloc::vec::Vec;
use relive_sys::syscall;

const APPEND: u32 = 0o2000;

/// A file of the session's folder for races, one a process image.
#[derive(Debug)]
pub(super) struct Ledger {
    /// Its path, with a final zero.
    path: Vec<u8>,
}

impl Ledger {
    /// The file of this process image; it is made with the first record.
    pub(super) fn new(name: &str) -> Self {
        let mut path = runtime::races_folder().to_vec();
        path.push(b'/');
        path.extend_from_slice(name.as_bytes());
        path.extend_from_slice(alloc::format!("-{}\0", runtime::process()).as_bytes());
        Self { path }
    }

    /// Appends a record. What the disk has no room for is lost, and said so by the launcher: the file has no end then.
    pub(super) fn append(&self, words: &[u64]) {
        let fd = syscall::open(&self.path, syscall::O_WRITE_NEW | APPEND);
        let Ok(fd) = u32::try_from(fd) else { return };
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        syscall::write(fd, &bytes);
        syscall::close(fd);
    }
}

/// The words of the file that the launcher laid there for this pass.
pub(super) fn given(name: &str) -> Vec<u64> {
    let mut path = runtime::races_folder().to_vec();
    path.push(b'/');
    path.extend_from_slice(name.as_bytes());
    path.push(0);
    let mut words = Vec::new();
    let Ok(fd) = u32::try_from(syscall::open(&path, syscall::O_RDONLY)) else { return words };
    let mut bytes = [0u8; 4096];
    loop {
        let count = syscall::read_at(fd, &mut bytes, words.len() as u64 * 8);
        let Some(read) = usize::try_from(count).ok().filter(|&count| count >= 8) else { break };
        words.extend(bytes[..read].as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)));
    }
    syscall::close(fd);
    words
}
