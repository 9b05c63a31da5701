//! Which instructions access watched bytes: a recording at the level of atomics may order
//! them, see `environment/atomics.rs`.
//!
//! Apart because races are about two accesses, and this about each by itself, whether it
//! races or is what orders others.

use crate::races::ledger::Ledger;
use crate::{runtime, translation};
use alloc::collections::BTreeSet;
use relive_sys::atomics::Access;
use relive_sys::frames::File;
use relive_sys::{maps, syscall};
use relive_trace::accesses::key;
use relive_trace::control::flag;
use relive_trace::races::{LEARNT, word};

/// Those of a process.
pub(super) struct Learnt {
    known: BTreeSet<u64>,
    ledger: Ledger,
}

impl Learnt {
    pub(super) fn new() -> Self {
        Self { known: BTreeSet::new(), ledger: Ledger::new(LEARNT) }
    }

    /// The instruction at `ip` does.
    pub(super) fn note(&mut self, ip: u64) {
        if !runtime::has_flag(flag::ATOMICS) || !self.known.insert(ip) || translation::is_of_runtime(ip) {
            return;
        }
        maps::each_file_of_code(|range, offset, path| {
            if !range.contains(&(ip as usize)) {
                return;
            }
            let Ok(fd) = u32::try_from(syscall::open(path, syscall::O_RDONLY)) else { return };
            let file = File::open(fd);
            let at = ip as usize - range.start + offset;
            let bytes = file.bytes();
            // Ordered as it is.
            if bytes.get(at..).and_then(Access::indivisible_at).is_none() {
                self.ledger.append(&[word::LEARNT, key(bytes.len() as u64, bytes), at as u64]);
            }
            drop(file);
            syscall::close(fd);
        });
    }
}
