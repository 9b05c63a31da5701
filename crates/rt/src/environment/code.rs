//! Which system calls stand in the code of a file: what one process of a session
//! has found, the others take from it.
//!
//! A C library has two megabytes of code; looking for its calls, and for jumps that
//! lead between them, takes longer than many a program runs.

use crate::runtime;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::Ordering;
use relive_sys::frames::Found;
use relive_sys::sites::{self, Asked, Site, Sites};
use relive_sys::syscall;

/// Makes the calls in the code at `range`, which shows the file `fd` from `offset` on, into jumps. `known` says
/// what is known of an offset of the code.
///
/// # Safety
/// As for [`sites::redirect`].
pub(super) unsafe fn redirect(
    range: &Range<usize>,
    fd: Option<u32>,
    offset: usize,
    known: impl FnMut(Asked, usize) -> Found,
) {
    let key = fd.and_then(syscall::file_stat).map(|stat| stat.part(range.len(), offset));
    // SAFETY: the caller's promise.
    unsafe {
        sites::redirect(range.start, range.end, super::on_site, |code| {
            key.and_then(|key| recall(key, code)).unwrap_or_else(|| {
                let found = Sites::find(code, known);
                if let Some(key) = key {
                    remember(key, &found);
                }
                found
            })
        });
    }
}

fn recall(key: u64, code: &[u8]) -> Option<Sites> {
    let words = runtime::session().code.recall(key)?;
    Sites::known(code, words.iter().map(|word| word.load(Ordering::Relaxed)))
}

fn remember(key: u64, found: &Sites) {
    let packed: Option<Vec<u32>> = found.as_slice().iter().map(Site::packed).collect();
    if let Some(packed) = packed {
        runtime::session().code.remember(key, packed.into_iter());
    }
}
