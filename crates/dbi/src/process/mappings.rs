//! Calls by which a process that is translated as a whole changes its mappings.
//!
//! Apart from the other calls: these the translator makes itself, where they concern
//! code or what is shared, because what follows from them depends on their result. As
//! long as one is under way, code of its range counts as such that may change at any
//! time: another thread may run there.
//!
//! An `mprotect` of all from a page to beyond the last address changes nothing for the
//! kernel. Here it says that the page's code was changed by other means than memory's
//! (`/proc/self/mem`), which nothing else tells (`relive_sys::passage`).

use crate::area::Area;
use crate::engine::Engine;
use crate::host::Host;
use crate::layout::{Layout, Rights};
use crate::tool::Tool;
use core::ops::Range;
use relive_sys::maps;
use relive_sys::syscall::number::{FSTAT, MMAP, MPROTECT, MREMAP, SHMAT, SHMCTL};
use relive_sys::syscall::syscall6;

pub(super) const PKEY_MPROTECT: usize = 329;
const PERSONALITY: usize = 135;
/// A process where whatever can be read can be executed.
const READ_IMPLIES_EXEC: isize = 0x40_0000;
const PAGE: u64 = 4096;

const PROT_WRITE: u64 = 2;
const PROT_EXEC: u64 = 4;
const PROT_GROWSDOWN: u64 = 0x100_0000;
/// How far a stack may grow.
const STACK: u64 = 8 << 20;

const MAP_TYPE: u64 = 0xF;
const MAP_PRIVATE: u64 = 2;
const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;
const MREMAP_FIXED: u64 = 2;
const MREMAP_DONTUNMAP: u64 = 4;
const SHM_EXEC: u64 = 0o100_000;
const SHM_REMAP: u64 = 0o40_000;
const IPC_STAT: usize = 2;
/// Where the kernel says how large a segment is, in words, and how large that is at most.
const SEGMENT_BYTES: usize = 6;
const SEGMENT_WORDS: usize = 16;
/// Where `struct stat` has the number of names, in words, and its size.
const STAT_NAMES: usize = 2;
const STAT_WORDS: usize = 18;
const EINVAL: i64 = -22;

/// One call.
struct Call {
    number: usize,
    arguments: [u64; 6],
    /// What may be mapped otherwise behind it, but for memory that was free.
    changes: [Range<u64>; 2],
}

fn pages(start: u64, bytes: u64) -> Range<u64> {
    let end = start.saturating_add(bytes).checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
    start..end.max(start)
}

impl Call {
    fn of(number: usize, area: &Area) -> Self {
        let arguments = [0, 1, 2, 3, 4, 5].map(|index| area.argument(index));
        let [first, bytes, third, flags, fifth, _] = arguments;
        let given = pages(first, bytes);
        let changes = match number {
            // Refused by the kernel: whoever changed that page's code, in a way that is no call, says so.
            MPROTECT if first.checked_add(bytes).is_none_or(|end| end == 0) => [pages(first, PAGE), 0..0],
            MMAP if flags & MAP_FIXED == 0 => [0..0, 0..0],
            MPROTECT | PKEY_MPROTECT if third & PROT_GROWSDOWN != 0 => [first.saturating_sub(STACK)..given.end, 0..0],
            MREMAP if flags & MREMAP_FIXED != 0 => [given, pages(fifth, third)],
            SHMAT if third & SHM_REMAP != 0 => [pages(bytes, segment_bytes(first)), 0..0],
            SHMAT => [0..0, 0..0],
            _ => [given, 0..0],
        };
        Self { number, arguments, changes }
    }

    /// Whether memory is mapped that matters, wherever it will be.
    fn maps(&self) -> bool {
        let [_, _, rights, flags, ..] = self.arguments;
        match self.number {
            MMAP => rights & PROT_EXEC != 0 || flags & MAP_TYPE != MAP_PRIVATE,
            MPROTECT | PKEY_MPROTECT => rights & PROT_EXEC != 0,
            SHMAT => true,
            _ => false,
        }
    }

    /// Notes what the call did.
    fn note(&self, layout: &mut Layout, result: i64, before: (Rights, bool)) {
        let [_, bytes, third, flags, file, _] = self.arguments;
        let (given, [changed, _]) = (pages(self.arguments[0], bytes), &self.changes);
        let (execute, write) = (third & PROT_EXEC != 0, third & PROT_WRITE != 0);
        let failed = (-4095..0).contains(&result);
        match self.number {
            MPROTECT | PKEY_MPROTECT if !failed => layout.protect(changed, Rights::new(execute, write, false)),
            // Part of it may have been done.
            MPROTECT | PKEY_MPROTECT if result != EINVAL => layout.protect(changed, Rights::UNKNOWN),
            _ if failed => {}
            MMAP => {
                let anonymous = flags & MAP_ANONYMOUS != 0;
                let shared = flags & MAP_TYPE != MAP_PRIVATE || execute && !anonymous && has_no_name(file);
                layout.map(&pages(result as u64, bytes), Rights::new(execute, write, !anonymous), shared);
            }
            MREMAP => {
                if flags & MREMAP_DONTUNMAP == 0 && bytes != 0 {
                    layout.map(&given, Rights::NONE, false);
                }
                let rights = if before.0 == Rights::NONE { Rights::NONE } else { Rights::UNKNOWN };
                layout.map(&pages(result as u64, third), rights, before.1);
            }
            SHMAT => {
                let rights = Rights::new(third & SHM_EXEC != 0, true, false);
                layout.map(&pages(result as u64, segment_bytes(self.arguments[0])), rights, true);
            }
            _ => layout.map(&given, Rights::NONE, false),
        }
    }
}

/// Whether nobody can open the file by a name, as it is with memory files: it is there to be mapped more than once.
fn has_no_name(file: u64) -> bool {
    let mut words = [0u64; STAT_WORDS];
    // SAFETY: the kernel writes a `struct stat`.
    let known = unsafe { syscall6(FSTAT, file as usize, words.as_mut_ptr().addr(), 0, 0, 0, 0) == 0 };
    known && words[STAT_NAMES] == 0
}

fn segment_bytes(number: u64) -> u64 {
    let mut words = [0u64; SEGMENT_WORDS];
    // SAFETY: the kernel writes a `struct shmid64_ds`, which is smaller.
    let known = unsafe { syscall6(SHMCTL, number as usize, IPC_STAT, words.as_mut_ptr().addr(), 0, 0, 0) >= 0 };
    if known { words[SEGMENT_BYTES] } else { 0 }
}

impl<H: Host, T: Tool> Engine<H, T> {
    /// Looks at what is mapped already. Where that can't be known, code changes by calls only.
    pub(super) fn take_mappings_over(&self) {
        let mut cache = self.cache.lock();
        let layout = &mut cache.layout;
        // SAFETY: asks only.
        let personality = unsafe { syscall6(PERSONALITY, 0xFFFF_FFFF, 0, 0, 0, 0, 0) };
        let known = maps::each_with_rights(|range, rights, name| {
            let (mut range, mut right) = (range.start as u64..range.end as u64, rights.iter());
            let [write, execute, shared] = [1, 0, 0].map(|skip| right.nth(skip).copied());
            let (write, execute) = (write == Some(b'w'), execute == Some(b'x'));
            if name == b"[stack]" {
                range.start = range.start.saturating_sub(STACK);
            }
            let deleted = execute && name.ends_with(b" (deleted)");
            layout.map(&range, Rights::new(execute, write, !name.is_empty()), deleted || shared == Some(b's'));
        });
        layout.known = known && personality & READ_IMPLIES_EXEC == 0;
    }

    /// Whether code at `address` may run at all.
    pub(super) fn may_run(&self, address: u64) -> bool {
        self.cache.lock().layout.nature(address).is_some()
    }

    /// Makes the call, if it concerns code or what is shared; its result.
    pub(super) fn change_mapping(&self, number: usize, area: &Area) -> Option<i64> {
        let call = Call::of(number, area);
        let (places, before) = {
            let mut cache = self.cache.lock();
            for range in &call.changes {
                cache.flush(range);
            }
            if !call.maps() && !call.changes.iter().any(|range| cache.layout.concerns(range)) {
                return None;
            }
            let before = cache.layout.mapped(call.arguments[0]);
            (call.changes.each_ref().map(|range| cache.layout.change(range)), before)
        };
        let [first, second, third, fourth, fifth, sixth] = call.arguments.map(|argument| argument as usize);
        // SAFETY: the program's own call.
        let result = unsafe { syscall6(number, first, second, third, fourth, fifth, sixth) } as i64;
        let mut cache = self.cache.lock();
        call.note(&mut cache.layout, result, before);
        for place in places {
            cache.layout.changed(place);
        }
        Some(result)
    }
}
