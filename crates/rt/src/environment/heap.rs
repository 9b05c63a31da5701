//! The program's heap, see `relive-heap`: what its threads share is used in the
//! recorded order.
//!
//! libc's own heap gives out memory in the order in which threads find its locks
//! free, which no recording holds. So `malloc` and kin are ours where the
//! environment is recorded.

use super::memory;
use super::ordered::{self, Ordered};
use super::stacks::Stacks;
use crate::arena;
use crate::object::Internal;
use crate::races;
use crate::runtime;
use crate::thread;
use relive_heap::{Block, Central, Ground, Misuse, RANGE, Shared};
use relive_sys::lock::Lock;
use relive_sys::syscall::number::{MADVISE, MMAP, MREMAP};
use relive_sys::syscall::syscall6;
use relive_sys::tls;
use relive_trace::control::flag;

const READ_WRITE: usize = 3;
/// `MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE`
const FRESH: usize = 2 | 0x20 | 0x4000 | 0x10_0000;
const MADV_DONTNEED: usize = 4;
const MADV_NOHUGEPAGE: usize = 15;
/// `MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP`
const MOVE: usize = 1 | 2 | 4;

/// What all threads share.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) central: Central,
    pub(super) stacks: Stacks,
}

static WHOLE: Ordered<Whole> =
    Ordered::new(Internal::Heap, Whole { central: Central::new(RANGE.start..APART_START), stacks: Stacks::new() });

/// What libc takes inside an operation that the recording knows as a whole: how much that is may depend on what other
/// threads do, so it comes from elsewhere, in any order.
static APART: Lock<Central> = Lock::new(Central::new(APART_START..RANGE.end));
/// As far from the rest as the stacks are, modulo 64 GiB.
const APART_START: usize = RANGE.end - (1 << 40) + (28 << 30);

/// Where the race detector tells addresses apart by their lower 36 bits, clear of programs that are not
/// position-independent, and of whatever asks for addresses of 32 bits.
const HIGH_START: usize = RANGE.start + (2 << 30);

fn start() -> usize {
    if runtime::has_flag(flag::LOW_HEAP) { RANGE.start } else { HIGH_START }
}

fn is_apart(pointer: *const u8) -> bool {
    pointer.addr() >= APART_START
}

/// Memory from the kernel, as if the program had asked for it.
struct System;

/// Maps fresh memory at `address` in the program's name: an event, with its result in the recording.
pub(super) fn map(address: usize, bytes: usize) -> bool {
    // SAFETY: at a free address, or not at all.
    unsafe { super::call(MMAP, [address, bytes, READ_WRITE, FRESH, usize::MAX, 0]) == address as isize }
}

pub(super) fn advise(address: usize, bytes: usize, advice: usize) -> bool {
    // SAFETY: ranges that their user gave up, or advice that does not change what memory holds.
    unsafe { syscall6(MADVISE, address, bytes, advice, 0, 0, 0) == 0 }
}

/// Makes a range read as zero.
pub(super) fn discard(address: usize, bytes: usize) {
    if !advise(address, bytes, MADV_DONTNEED) {
        // Locked in memory, for one.
        // SAFETY: a mapped range that nobody uses.
        unsafe { core::ptr::write_bytes(address as *mut u8, 0, bytes) };
    }
}

impl Ground for System {
    fn map(&mut self, address: usize, bytes: usize) -> bool {
        if address >= APART_START {
            // SAFETY: at a free address, or not at all.
            return unsafe { syscall6(MMAP, address, bytes, READ_WRITE, FRESH, usize::MAX, 0) == address as isize };
        }
        let mapped = map(address, bytes);
        if mapped && address == start() {
            // A small program would take up two megabytes for each of the first places it touches.
            advise(address, bytes, MADV_NOHUGEPAGE);
        }
        mapped
    }

    fn discard(&mut self, address: usize, bytes: usize) {
        discard(address, bytes);
    }

    fn relocate(&mut self, from: usize, to: usize, bytes: usize) {
        // SAFETY: ranges of two blocks in use; only pages move.
        let moved = unsafe { syscall6(MREMAP, from, bytes, bytes, MOVE, to, 0) };
        if moved != to as isize {
            // SAFETY: as above.
            unsafe { core::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes) };
            discard(from, bytes);
        }
    }
}

/// Uses the shared part, in order.
pub(super) fn with<R>(operation: impl FnOnce(&mut Whole) -> R) -> R {
    WHOLE.with(|whole| {
        whole.central.begin_at(start());
        operation(whole)
    })
}

/// Keeps others out of the shared part and of the address space, from a place in the recorded order on: a fork child must
/// find them whole, and as that order says.
pub(super) fn hold_with_memory() -> impl Sized {
    (ordered::hold_both(&WHOLE, memory::shared()), APART.lock())
}

/// Frees the lock in a fork child.
///
/// # Safety
/// Only in a fork child while it has one thread.
pub(super) unsafe fn reset_after_fork() {
    // SAFETY: the caller's promise.
    unsafe {
        WHOLE.reset_after_fork();
        APART.reset_after_fork();
    }
    WHOLE.in_any_order().stacks.forget_left();
}

struct AnyWay;

impl Shared for AnyWay {
    fn with<R>(&mut self, operation: impl FnOnce(&mut Central, &mut dyn Ground) -> R) -> R {
        operation(&mut APART.lock(), &mut System)
    }
}

struct Way;

impl Shared for Way {
    fn with<R>(&mut self, operation: impl FnOnce(&mut Central, &mut dyn Ground) -> R) -> R {
        with(|whole| operation(&mut whole.central, &mut System))
    }
}

#[inline]
fn cache() -> Option<&'static mut Cache> {
    let thread = thread::current_if_known()?;
    if thread.heap.is_null() {
        thread.heap = first_cache();
    }
    if tls::get::<{ tls::AT_HAND }>() == 0 && !races::is_on() && !thread.heap_quiet && !thread.unseen {
        tls::set::<{ tls::AT_HAND }>(thread.heap.addr());
    }
    // SAFETY: null or the thread's own.
    unsafe { thread.heap.as_mut() }
}

/// From here on the calling thread asks at each use of the heap what it is to do.
pub(super) fn ask() {
    tls::set::<{ tls::AT_HAND }>(0);
}

#[cold]
#[inline(never)]
fn first_cache() -> *mut Cache {
    with(fresh_cache)
}

/// A cache that is nobody's, or null if there is no memory.
pub(super) fn fresh_cache(whole: &mut Whole) -> *mut Cache {
    if let Some(left) = whole.central.take_cache() {
        return left;
    }
    let Some(block) = arena::allocate(size_of::<Cache>()) else { return core::ptr::null_mut() };
    let fresh = block.cast::<Cache>();
    // SAFETY: a block of the right size that nobody else knows.
    unsafe { fresh.write(Cache::new()) };
    fresh
}

/// The cache of a thread that has ended goes to the next that starts.
pub(crate) fn leave(cache: *mut Cache) {
    // SAFETY: null, or that of a thread that is not there any more.
    if let Some(cache) = unsafe { cache.as_mut() } {
        with(|whole| whole.central.leave_cache(cache));
    }
}

/// Whether the calling thread is inside a call of libc's that frees under a lock of libc's, which nobody orders; or at
/// its end, where libc does the same. It must not wait for its turn then.
pub fn set_quiet(quiet: bool) {
    if super::is_on()
        && let Some(thread) = thread::current_if_known()
    {
        thread.heap_quiet = quiet;
        ask();
    }
}

#[inline]
fn is_unseen() -> bool {
    thread::current_if_known().is_some_and(|thread| thread.unseen)
}

/// A block of `size` bytes, or `None` if there is no memory.
#[inline]
pub fn allocate(size: usize) -> Option<Block> {
    if is_unseen() {
        return relive_heap::allocate(None, &mut AnyWay, size);
    }
    told(relive_heap::allocate(cache(), &mut Way, size), size)
}

/// Tells the race detector of a block that was given out.
#[inline]
fn told(block: Option<Block>, size: usize) -> Option<Block> {
    if let Some(block) = block.as_ref().filter(|_| races::is_on()) {
        races::allocated(block.address.addr(), room(block.address), size);
    }
    block
}

/// The bytes of a block, for the race detector.
fn room(block: *mut u8) -> usize {
    // SAFETY: `usable` looks at what the heap knows of the block.
    unsafe { usable(block) }.unwrap_or(0)
}

/// Tells it of one that is about to be given back.
#[inline]
fn freed(block: *mut u8) {
    if races::is_on() {
        races::freed(block.addr(), room(block));
    }
}

/// The same at a multiple of `align`, a power of two.
pub fn allocate_aligned(size: usize, align: usize) -> Option<Block> {
    if is_unseen() {
        return relive_heap::allocate_aligned(None, &mut AnyWay, size, align);
    }
    told(relive_heap::allocate_aligned(cache(), &mut Way, size, align), size)
}

/// Frees a block.
///
/// # Errors
/// [`Misuse`] if it is none.
///
/// # Safety
/// As for [`relive_heap::free`].
#[inline]
pub unsafe fn free(pointer: *mut u8) -> Result<(), Misuse> {
    // SAFETY: the caller's promise.
    unsafe {
        if is_apart(pointer) {
            return relive_heap::free(None, &mut AnyWay, pointer);
        }
        if let Some(thread) = thread::current_if_known().filter(|thread| thread.heap_quiet || thread.unseen) {
            // A thread on a stack of the program's that never used the heap loses what libc frees for it at its end.
            if let Some(cache) = thread.heap.as_mut() {
                cache.free_later(pointer);
            }
            return Ok(());
        }
        freed(pointer);
        relive_heap::free(cache(), &mut Way, pointer)
    }
}

/// [`free`] into what a thread has at hand. `false` if nothing was done.
///
/// # Safety
/// As for that, by the thread whose cache it is.
#[inline]
pub unsafe fn free_at_hand(cache: &mut Cache, pointer: *mut u8) -> bool {
    // SAFETY: the caller's promise.
    unsafe { owns(pointer) && !is_apart(pointer) && relive_heap::free_at_hand(cache, pointer) }
}

/// Changes the size of a block. `Ok(None)` if there is no memory.
///
/// # Errors
/// [`Misuse`] if it is none.
///
/// # Safety
/// As for [`relive_heap::reallocate`].
pub unsafe fn reallocate(pointer: *mut u8, size: usize) -> Result<Option<*mut u8>, Misuse> {
    // SAFETY: the caller's promise.
    unsafe {
        if is_apart(pointer) {
            return relive_heap::reallocate(None, &mut AnyWay, pointer, size);
        }
        let before = if races::is_on() { room(pointer) } else { 0 };
        let moved = relive_heap::reallocate(cache(), &mut Way, pointer, size);
        if let (Ok(Some(now)), true) = (moved.as_ref(), races::is_on()) {
            if *now != pointer {
                races::freed(pointer.addr(), before);
                races::allocated(now.addr(), room(*now), size);
            } else if room(*now) > before {
                races::fresh(now.addr() + before, room(*now) - before);
            }
        }
        moved
    }
}

pub use relive_heap::{ALIGN, Cache, allocate_at_hand, owns, usable};
