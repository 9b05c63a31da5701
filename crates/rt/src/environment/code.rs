//! Which system calls stand in the code of a file: what one process of a session
//! has found, the others take from it.
//!
//! A C library has two megabytes of code; looking for its calls, and for jumps that
//! lead between them, takes longer than many a program runs.

use crate::runtime;
use core::ops::Range;
use core::sync::atomic::Ordering;
use relive_sys::frames::Found;
use relive_sys::sites::{self, Asked, Sites};
use relive_sys::syscall;
use relive_trace::control::KnownCode;

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
    let key = fd.and_then(|fd| key(fd, range.len(), offset));
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

/// Names a part of a file as it is now; never 0.
fn key(fd: u32, length: usize, offset: usize) -> Option<u64> {
    const PRIME: u64 = 0x9E37_79B9_7F4A_7C15;
    let stat = syscall::file_stat(fd)?;
    let parts =
        [stat.identity[0], stat.identity[1], stat.size, stat.changed[0], stat.changed[1], length as u64, offset as u64];
    let mixed = parts.iter().fold(PRIME, |hash, part| (hash ^ part).wrapping_mul(PRIME).rotate_left(29));
    Some(mixed | 1)
}

fn recall(key: u64, code: &[u8]) -> Option<Sites> {
    let known = runtime::session().code.iter().find(|known| known.key.load(Ordering::Relaxed) == key)?;
    if known.is_ready.load(Ordering::Acquire) == 0 {
        return None;
    }
    let sites = known.sites.get(..known.count.load(Ordering::Relaxed) as usize)?;
    Sites::known(code, sites.iter().map(|site| site.load(Ordering::Relaxed)))
}

fn remember(key: u64, found: &Sites) {
    let free = |known: &&KnownCode| match known.key.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => true,
        Err(other) => other == key,
    };
    let Some(entry) = runtime::session().code.iter().find(free) else { return };
    let sites = found.as_slice();
    if sites.len() > entry.sites.len() || entry.is_ready.load(Ordering::Acquire) != 0 {
        return;
    }
    // Two that found the same write the same.
    for (place, site) in entry.sites.iter().zip(sites) {
        let Some(packed) = site.packed() else { return };
        place.store(packed, Ordering::Relaxed);
    }
    entry.count.store(sites.len() as u32, Ordering::Relaxed);
    entry.is_ready.store(1, Ordering::Release);
}
