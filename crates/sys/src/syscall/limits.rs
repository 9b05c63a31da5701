//! What the kernel lets this process have.
//!
//! Apart because it is asked for in words and not by number.

use super::{number, syscall6};

const RLIMIT_FSIZE: usize = 1;

/// The most bytes that a file of this process may have, and how far it may raise that.
pub fn file_limit() -> [u64; 2] {
    limit(RLIMIT_FSIZE)
}

fn limit(of: usize) -> [u64; 2] {
    let mut limit = [u64::MAX; 2];
    // SAFETY: without a new limit only the old one, two words, is written.
    unsafe { syscall6(number::PRLIMIT64, 0, of, 0, limit.as_mut_ptr().addr(), 0, 0) };
    limit
}

/// Changes it.
pub fn set_file_limit(limit: [u64; 2]) {
    // SAFETY: the kernel reads two words.
    unsafe { syscall6(number::PRLIMIT64, 0, RLIMIT_FSIZE, limit.as_ptr().addr(), 0, 0, 0) };
}

/// How many descriptors the process may have open.
pub fn descriptor_limit() -> u64 {
    const RLIMIT_NOFILE: usize = 7;
    limit(RLIMIT_NOFILE)[0]
}
