//! Where the clocks of objects live.
//!
//! A plain `pthread_mutex_t` has sixteen bytes that glibc never touches; the
//! clock stands there, on the cache line that the lock operation owns anyway,
//! protected by the mutex itself. Every other object has its clock in a table
//! hashed by address and updated by compare-and-swap: a collision only adds
//! order, which is why there are none where races are looked for. Objects shared between processes have theirs in the control memory.

pub(crate) mod exact;

use core::sync::atomic::{AtomicU64, Ordering};
use relive_sys::syscall::OURS;

/// The clock of an object, and in a replay its last event.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Cell {
    /// Lamport clock.
    pub clock: AtomicU64,
    /// In a replay that learns: thread and number of the last event, see [`pack`]. In another one that looks for races: the
    /// segment that released it last (`races/hints.rs`). In a recording: thread of the last event of a mutex that keeps
    /// the cell in itself, or of what an instruction changes, or the last locker of a robust one.
    pub last: AtomicU64,
}

impl Cell {
    /// Of an object without events.
    pub const fn new() -> Self {
        Self { clock: AtomicU64::new(0), last: AtomicU64::new(0) }
    }
}

const TABLE_BITS: u32 = 16;

static TABLE: [Cell; 1 << TABLE_BITS] = [const { Cell::new() }; 1 << TABLE_BITS];

/// Where the clock stands in a `pthread_mutex_t`.
pub const IN_MUTEX: usize = 24;

/// The clock of the object at `address` in the table. Objects may share one, unless races are looked for.
#[inline]
pub fn cell(address: usize) -> &'static Cell {
    exactly(address).unwrap_or_else(|| hashed(address))
}

/// Likewise where it is nobody else's: while races are looked for.
#[inline]
pub fn exactly(address: usize) -> Option<&'static Cell> {
    exact::of(address)
}

/// Which object has this clock; where several share it, or several processes, a number that is nobody else's.
pub fn address(found: &Cell) -> u64 {
    let own = core::ptr::from_ref(found).addr();
    let is_shared = OURS.contains(&own) || TABLE.as_ptr_range().contains(&core::ptr::from_ref(found));
    exact::address(found).unwrap_or(if is_shared { own } else { own - IN_MUTEX }) as u64
}

#[inline]
fn hashed(address: usize) -> &'static Cell {
    let hash = (address as u64 >> 2).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    &TABLE[(hash >> (64 - TABLE_BITS)) as usize]
}

/// An object that is not in the program's memory: libc's inner state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Internal {
    /// `rand`, `random`, `srand` and kin.
    Random = 1,
    /// `drand48` and kin.
    Drand48,
    /// `atexit`, `on_exit`, `__cxa_atexit`.
    AtExit,
    /// `pthread_key_create`, `pthread_key_delete`.
    Keys,
    /// The environment.
    Environment,
    /// The locale and the time zone.
    Locale,
    /// The dynamic linker's load lock.
    Loader,
    /// The list of all streams.
    Streams,
    /// Process creation.
    Processes,
    /// Cancellation and signals between threads.
    Signals,
    /// The dynamic linker's list of loaded images, as callbacks of `dl_iterate_phdr` hold it.
    Images,
    /// The list of named semaphores.
    Names,
    /// The address space.
    Memory,
    /// What the heap and the stacks of all threads share.
    Heap,
    /// Callbacks that were asked for.
    Notifiers,
}

/// Whether a clock is that of one of libc's inner states, or of an object that shares it.
pub fn is_internal(found: &Cell) -> bool {
    (1..=Internal::Notifiers as usize).any(|object| core::ptr::eq(found, cell(object * 64)))
}

/// The clock of one of libc's inner states.
pub fn internal(object: Internal) -> &'static Cell {
    cell(object as usize * 64)
}

/// What a recording keeps in [`Cell::last`] for a thread, beside a clock that is not 0.
#[inline(always)]
pub const fn mark(thread: u32) -> u64 {
    thread as u64
}

const EVENT_BITS: u32 = 40;

/// Thread and number of completed events in one word; never 0.
pub const fn pack(thread: u32, events: u64) -> u64 {
    ((thread as u64 + 1) << EVENT_BITS) | (events & ((1 << EVENT_BITS) - 1))
}

/// Undoes [`pack`]; `None` for 0, an object without events.
pub const fn unpack(word: u64) -> Option<(u32, u64)> {
    match (word >> EVENT_BITS) as u32 {
        0 => None,
        thread => Some((thread - 1, word & ((1 << EVENT_BITS) - 1))),
    }
}

static SHARED_MAPPINGS: AtomicU64 = AtomicU64::new(0);

/// Memory that processes share was mapped: what lay there before may have been private.
pub fn mapped_shared() {
    SHARED_MAPPINGS.fetch_add(1, Ordering::Release);
}

/// How often that happened, as far as it is seen.
pub fn shared_mappings() -> u64 {
    SHARED_MAPPINGS.load(Ordering::Acquire)
}

/// How many places of the session's table an object may take.
const PROBES: usize = 16;

/// The session-wide clock of an object shared between processes, by what identifies its memory. Where all its places
/// are taken it shares the first one's.
pub fn shared(key: u64) -> &'static relive_trace::control::SharedObject {
    let table = &crate::runtime::session().shared;
    let key = key | 1;
    let start = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize;
    let place = |i: usize| &table[(start + i) % table.len()];
    let own =
        (0..PROBES).map(place).find(|o| match o.key.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(found) => found == key,
        });
    own.unwrap_or_else(|| place(0))
}

/// The clock behind [`shared`].
pub fn in_session(key: u64) -> &'static Cell {
    let object = shared(key);
    // SAFETY: a Cell is the two words `clock` and `last`, which stand so in a shared object (checked below).
    unsafe { &*(&raw const object.clock).cast::<Cell>() }
}

const _: () = {
    use relive_trace::control::SharedObject;
    assert!(core::mem::offset_of!(SharedObject, last) == core::mem::offset_of!(SharedObject, clock) + 8);
    assert!(core::mem::offset_of!(Cell, clock) == 0 && core::mem::offset_of!(Cell, last) == 8);
};

#[cfg(test)]
mod tests {
    use super::{pack, unpack};

    #[test]
    fn pack_round_trips() {
        assert_eq!(unpack(0), None);
        for (t, e) in [(0, 0), (0, 1), (7, 1 << 39), ((1 << 24) - 2, 12345)] {
            assert_eq!(unpack(pack(t, e)), Some((t, e)));
        }
    }
}
