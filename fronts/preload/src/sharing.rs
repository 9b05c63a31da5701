//! The clock of an object that may be shared between processes.
//!
//! Private objects have theirs in the process's table, by address. Shared ones
//! have it in the session's memory, by device, inode and offset; looking that up
//! takes a read of `/proc/self/maps`, so the last answers are kept by page.

use core::sync::atomic::{AtomicU64, Ordering};
use relive_rt::object::{self, Cell};
use relive_rt::runtime;
use relive_sys::maps;

const PAGE: usize = 4096;
const KEPT: usize = 256;

/// Page address with how many shared mappings there had been, and the identity of its first byte or [`PRIVATE`]. Two threads may store at once: the page goes last.
static PAGES: [(AtomicU64, AtomicU64); KEPT] = [const { (AtomicU64::new(0), AtomicU64::new(0)) }; KEPT];

/// A page that is not in shared memory.
const PRIVATE: u64 = 1;

/// The clock of the object at `address`, which says itself whether it is shared.
pub(crate) fn cell(address: usize, shared: bool) -> &'static Cell {
    if shared { cell_by_mapping(address) } else { object::cell(address) }
}

/// The clock of an object that doesn't say whether it is shared: its memory does.
pub(crate) fn cell_by_mapping(address: usize) -> &'static Cell {
    if runtime::control().is_none() {
        return object::cell(address);
    }
    let Some(key) = identity(address) else { return object::cell(address) };
    object::in_session(key)
}

/// Names the byte at `address` in every process that maps it; `None` if its memory is private.
fn identity(address: usize) -> Option<u64> {
    const ADDRESS_BITS: u32 = 47;
    let page = address & !(PAGE - 1);
    let name = page as u64 | object::shared_mappings() << ADDRESS_BITS;
    let (kept_page, kept) = &PAGES[(page / PAGE) % KEPT];
    let mut found = kept.load(Ordering::Acquire);
    if kept_page.load(Ordering::Acquire) != name || kept.load(Ordering::Acquire) != found {
        found = maps::identity(page).map_or(PRIVATE, |key| key | 2);
        kept_page.store(0, Ordering::Release);
        kept.store(found, Ordering::Release);
        kept_page.store(name, Ordering::Release);
    }
    (found != PRIVATE).then(|| found.wrapping_add((address - page) as u64 * 4))
}
