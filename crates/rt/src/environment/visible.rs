//! Memory of the process that other processes see, too: what is mapped to be shared and written.
//!
//! An object there is one for all of them, whatever its address is to each: what it is known by is its place in
//! what is mapped, which a replay has again. Other memory that is mapped at the same place of something else
//! counts as the same, which only adds order.
//!
//! Apart from `shared.rs`, which makes such mappings: this is asked at each ordered instruction, so
//! the kernel's list of them is read only once one was made or taken away.

use crate::object;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use relive_sys::{maps, syscall};

/// Bytes of the place that a file has in a replay: so much of an offset counts.
const OFFSETS: u64 = super::shared::PLACE_BYTES - 1;
/// If a process has more, what lies in the rest is ordered by each process for itself.
const RANGES_MAX: usize = 256;

/// Start, end, and what is to be added to an address for its place.
static RANGES: [[AtomicU64; 3]; RANGES_MAX] = [const { [const { AtomicU64::new(0) }; 3] }; RANGES_MAX];
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// How often there had been such mappings when they were looked for.
static KNOWN: AtomicU64 = AtomicU64::new(0);
/// Odd while somebody looks.
static VERSION: AtomicU64 = AtomicU64::new(0);

/// The place of what is at `address`; `None` if no other process sees it.
#[inline]
pub(super) fn place(address: usize) -> Option<u64> {
    while object::shared_mappings() != KNOWN.load(Ordering::Acquire) {
        look();
    }
    if COUNT.load(Ordering::Relaxed) == 0 { None } else { find(address as u64) }
}

fn find(address: u64) -> Option<u64> {
    loop {
        let version = VERSION.load(Ordering::Acquire);
        let count = COUNT.load(Ordering::Relaxed).min(RANGES_MAX);
        let found = RANGES[..count].iter().find_map(|range| {
            let [start, end, shift] = range.each_ref().map(|word| word.load(Ordering::Relaxed));
            (start..end).contains(&address).then(|| address.wrapping_add(shift) & OFFSETS)
        });
        fence(Ordering::Acquire);
        if version.is_multiple_of(2) && VERSION.load(Ordering::Relaxed) == version {
            return found;
        }
        core::hint::spin_loop();
    }
}

/// Whether there is any in this range.
pub(super) fn is_any_in(range: &Range<usize>) -> bool {
    RANGES[..COUNT.load(Ordering::Relaxed).min(RANGES_MAX)].iter().any(|known| {
        let [start, end] = [0, 1].map(|word| known[word].load(Ordering::Relaxed) as usize);
        start < range.end && range.start < end
    })
}

/// Reads the kernel's list, unless somebody else is about to.
#[cold]
fn look() {
    let version = VERSION.load(Ordering::Relaxed);
    if !version.is_multiple_of(2)
        || VERSION.compare_exchange(version, version + 1, Ordering::AcqRel, Ordering::Relaxed).is_err()
    {
        return syscall::sched_yield();
    }
    let mappings = object::shared_mappings();
    let mut count = 0;
    maps::each_shared(|range, offset| {
        if count < RANGES_MAX {
            let [start, end] = [range.start, range.end].map(|address| address as u64);
            let words = [start, end, offset.wrapping_sub(start)];
            RANGES[count].iter().zip(words).for_each(|(place, word)| place.store(word, Ordering::Relaxed));
            count += 1;
        }
    });
    COUNT.store(count, Ordering::Relaxed);
    KNOWN.store(mappings, Ordering::Release);
    VERSION.store(version + 2, Ordering::Release);
}

/// In a fork child: whoever looked in its parent is not there.
pub(super) fn reset_after_fork() {
    if !VERSION.load(Ordering::Relaxed).is_multiple_of(2) {
        VERSION.fetch_add(1, Ordering::Relaxed);
        object::mapped_shared();
    }
}
