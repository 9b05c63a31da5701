//! Which instructions were made into `ud2`, and what they were: known to whoever
//! handles the signal, the starter first and the runtime later.
//!
//! Apart from finding them because it is memory at a fixed address that outlives
//! the starter, read in signal handlers while other threads change it.

use super::searched::{Finding, Searched};
use super::{Outside, Tally, find};
use crate::frames::{File, Known};
use crate::processor::Leaf;
use crate::start::PLACES;
use crate::syscall::number::{MMAP, MPROTECT};
use crate::syscall::{self, syscall6};
use core::cell::{OnceCell, UnsafeCell};
use core::ops::Range;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// `ud2`.
pub(super) const TRAP: [u8; 2] = [0x0F, 0x0B];
const PAGE: usize = 4096;
pub(super) const READ_EXEC: usize = 5;
pub(super) const ALL: usize = 7;
/// More than all libraries of a large program have.
const PLACES_MAX: usize = 1 << 14;

/// Leaves of the processor's description, at most.
const LEAVES_MAX: usize = 256;
/// Bit of a place's address: what the instruction tells is not the program's business.
const QUIET: usize = 1 << 63;

/// Bytes that are kept of an instruction; longer ones have useless prefixes.
pub(super) const KEPT: usize = 8;

/// A place, and the eight bytes that stood there.
#[derive(Debug)]
#[repr(C)]
struct Place {
    address: AtomicUsize,
    bytes: AtomicU64,
}

/// All places of a process.
#[derive(Debug)]
#[repr(C)]
pub struct Places {
    /// No place is behind this one.
    used: AtomicU32,
    /// Places that were left alone because nothing is known of them.
    unsure: AtomicU32,
    unsure_of_time: AtomicU32,
    /// What the processor says of itself.
    leaf_count: AtomicU32,
    leaves: UnsafeCell<[Leaf; LEAVES_MAX]>,
    list: [Place; PLACES_MAX],
}

impl Places {
    /// The process's own, empty if they were not used yet. `None` if there is no memory for them.
    pub fn own() -> Option<&'static Self> {
        const READ_WRITE: usize = 3;
        /// `MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE`
        const FRESH: usize = 2 | 0x20 | 0x4000 | 0x10_0000;
        const EEXIST: isize = -17;
        // SAFETY: a new mapping where nothing lies, or none.
        let mapped = unsafe { syscall6(MMAP, PLACES, size_of::<Self>(), READ_WRITE, FRESH, usize::MAX, 0) };
        // SAFETY: memory of this size that is zero or was made here before, and stays; what is not atomic of it is written
        // by one thread before others look.
        (mapped == PLACES as isize || mapped == EEXIST).then(|| unsafe { &*(PLACES as *const Self) })
    }

    /// What stood at an address, and whether the program asked for it: libc looks at the time while it waits for a lock,
    /// as often as it waits.
    pub fn at(&self, address: usize) -> Option<(Outside, bool)> {
        let (place, kept) = self.used().iter().find_map(|place| {
            let kept = place.address.load(Ordering::Acquire);
            (kept & !QUIET == address).then_some((place, kept))
        })?;
        let found = Outside::at(&place.bytes.load(Ordering::Relaxed).to_le_bytes())?;
        Some((found, kept & QUIET == 0))
    }

    /// The places in a range that the program asked for.
    pub(super) fn wanted_in(&self, range: &Range<usize>) -> impl Iterator<Item = (usize, Outside)> {
        let places = self.used().iter().map(|place| (place.address.load(Ordering::Acquire), place));
        places.filter(|(address, _)| range.contains(address)).filter_map(|(address, place)| {
            Some((address, Outside::at(&place.bytes.load(Ordering::Relaxed).to_le_bytes())?))
        })
    }

    /// Whether there are some.
    pub fn has_wanted(&self, range: &Range<usize>) -> bool {
        self.wanted_in(range).next().is_some()
    }

    /// What the processor is to say of itself; empty until it was set.
    pub fn leaves(&self) -> &[Leaf] {
        let count = self.leaf_count.load(Ordering::Acquire) as usize;
        // SAFETY: written before the count was, and never again.
        unsafe { &(&*self.leaves.get())[..count.min(LEAVES_MAX)] }
    }

    /// Sets that, unless it was set before.
    ///
    /// # Safety
    /// Only while the process has one thread.
    pub unsafe fn set_leaves(&self, leaves: &[Leaf]) {
        let count = leaves.len().min(LEAVES_MAX);
        if self.leaf_count.load(Ordering::Acquire) == 0 {
            // SAFETY: the caller's promise: nobody looks meanwhile.
            unsafe { (&mut *self.leaves.get())[..count].copy_from_slice(&leaves[..count]) };
            self.leaf_count.store(count as u32, Ordering::Release);
        }
    }

    /// So many places that look like one stayed as they were.
    pub fn unsure(&self) -> u32 {
        self.unsure.load(Ordering::Relaxed)
    }

    /// So many of them might ask for the time.
    pub fn unsure_of_time(&self) -> u32 {
        self.unsure_of_time.load(Ordering::Relaxed)
    }

    fn used(&self) -> &[Place] {
        &self.list[..self.used.load(Ordering::Acquire) as usize]
    }

    /// Forgets the places in a range: other memory is there now.
    pub fn forget(&self, range: &Range<usize>) {
        for place in
            self.used().iter().filter(|place| range.contains(&(place.address.load(Ordering::Relaxed) & !QUIET)))
        {
            place.address.store(0, Ordering::Release);
        }
    }

    /// The memory of a range was moved.
    pub fn follow(&self, range: &Range<usize>, to: usize) {
        for place in self.used() {
            let kept = place.address.load(Ordering::Relaxed);
            if range.contains(&(kept & !QUIET)) {
                place.address.store(kept.wrapping_sub(range.start).wrapping_add(to), Ordering::Release);
            }
        }
    }

    /// Keeps a place. One at a time.
    fn keep(&self, address: usize, bytes: [u8; KEPT]) -> bool {
        let used = self.used().len();
        let free = self.used().iter().position(|place| place.address.load(Ordering::Relaxed) == 0).unwrap_or(used);
        let Some(place) = self.list.get(free) else { return false };
        place.bytes.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        place.address.store(address, Ordering::Release);
        self.used.fetch_max(free as u32 + 1, Ordering::AcqRel);
        true
    }
}

/// Makes the instructions in the code at `range`, which shows `file` from `offset` on, into traps. Returns how many
/// there are, and what was left alone.
///
/// # Safety
/// The range must be a private, executable mapping of the file that no thread runs at this moment; calls come one
/// after the other.
pub unsafe fn patch(places: &Places, range: &Range<usize>, file: &File, offset: usize, known: &Searched<'_>) -> Tally {
    let range = &file.shown_in(range, offset);
    let quiet = OnceCell::new();
    let mut keep = |at: usize, kept: [u8; KEPT]| {
        let quiet = *quiet.get_or_init(|| if is_libc(file.descriptor()) { QUIET } else { 0 });
        places.keep((range.start + at) | quiet, kept);
    };
    let tally = {
        // SAFETY: mapped code, the caller's promise; it is changed behind this block only.
        let code = unsafe { core::slice::from_raw_parts(range.start as *const u8, range.len()) };
        let key = file.part(range.len(), offset);
        let recalled = key.and_then(|key| super::searched::recall((known.recall)(key)?, code, &mut keep));
        recalled.unwrap_or_else(|| {
            let mut found = Finding::new();
            let tally = find(code, offset, &mut Known::of(file), |at, outside, bytes| {
                let mut kept = [0; KEPT];
                if let Some(room) = kept.get_mut(..outside.length) {
                    room.copy_from_slice(bytes);
                    keep(at - offset, kept);
                    found.add(at - offset, kept);
                }
            });
            if let (Some(key), Some(words)) = (key, found.words(&tally)) {
                (known.remember)(key, words);
            }
            tally
        })
    };
    places.unsure.fetch_add(tally.unsure, Ordering::Relaxed);
    places.unsure_of_time.fetch_add(tally.unsure_of_time, Ordering::Relaxed);
    // SAFETY: the caller's promise; the code is writable while it is changed.
    unsafe {
        if tally.found > 0 && protect(range, ALL) {
            for address in places.used().iter().map(|place| place.address.load(Ordering::Relaxed) & !QUIET) {
                if range.contains(&address) {
                    core::ptr::copy_nonoverlapping(TRAP.as_ptr(), address as *mut u8, TRAP.len());
                }
            }
            protect(range, READ_EXEC);
        }
    }
    tally
}

/// How the names of loaders begin.
const LOADERS: [&[u8]; 2] = [b"ld-linux-", b"ld-2."];

/// Whether a file is the C library, a part of it, or its loader.
pub fn is_libc(fd: u32) -> bool {
    const PATH_MAX: usize = 4096;
    const PARTS: [&[u8]; 3] = [b"libc.so.", b"libc-", b"libpthread"];
    let mut path = [0; PATH_MAX];
    syscall::path_of(fd, &mut path).is_some_and(|path| is_called(path, &PARTS) || is_loader(path))
}

/// Whether a path is that of the C library's loader.
pub fn is_loader(path: &[u8]) -> bool {
    is_called(path, &LOADERS)
}

fn is_called(path: &[u8], beginnings: &[&[u8]]) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next();
    name.is_some_and(|name| beginnings.iter().any(|known| name.starts_with(known)))
}

pub(super) unsafe fn protect(range: &Range<usize>, rights: usize) -> bool {
    let (start, end) = (range.start & !(PAGE - 1), range.end.next_multiple_of(PAGE));
    // SAFETY: the caller's promise.
    unsafe { syscall6(MPROTECT, start, end - start, rights, 0, 0, 0) == 0 }
}
