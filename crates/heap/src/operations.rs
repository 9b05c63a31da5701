//! What a program asks of a heap: allocate, free, change the size, tell the size.

use crate::cache::Cache;
use crate::class::{self, SMALL_MAX};
use crate::large::{Found, find};
use crate::segment::PAGE;
use crate::{Block, Misuse, Shared};

/// The alignment of every block.
pub const ALIGN: usize = 16;
/// No object is larger.
const SIZE_MAX: usize = isize::MAX as usize;

/// A block of `size` bytes. A thread without a cache passes `None`.
#[inline]
pub fn allocate(cache: Option<&mut Cache>, shared: &mut impl Shared, size: usize) -> Option<Block> {
    match cache {
        Some(cache) if size <= SMALL_MAX => cache.take(class::of(size), shared),
        _ => allocate_slowly(shared, size),
    }
}

/// [`allocate`] of what the cache has at hand, or null: makes no call, and uses nothing that is shared.
#[inline]
pub fn allocate_at_hand(cache: &mut Cache, size: usize) -> *mut u8 {
    if size <= SMALL_MAX { cache.take_at_hand(class::of(size)) } else { core::ptr::null_mut() }
}

#[cold]
#[inline(never)]
fn allocate_slowly(shared: &mut impl Shared, size: usize) -> Option<Block> {
    if size > SIZE_MAX {
        return None;
    }
    shared.with(|central, ground| {
        if size > SMALL_MAX {
            return central.take_large(size, ALIGN, ground);
        }
        central.with_own(ground, |cache, inside| cache.take(class::of(size), inside))
    })
}

/// The same at a multiple of `align`, a power of two.
pub fn allocate_aligned(
    cache: Option<&mut Cache>,
    shared: &mut impl Shared,
    size: usize,
    align: usize,
) -> Option<Block> {
    if align <= ALIGN {
        return allocate(cache, shared, size);
    }
    if size > SIZE_MAX || align > SIZE_MAX {
        return None;
    }
    let small = if size <= SMALL_MAX && align <= PAGE { class::aligned(size, align) } else { None };
    match (small, cache) {
        (Some(class), Some(cache)) => cache.take(class, shared),
        (Some(class), None) => {
            shared.with(|central, ground| central.with_own(ground, |cache, inside| cache.take(class, inside)))
        }
        (None, _) => shared.with(|central, ground| central.take_large(size, align, ground)),
    }
}

/// Frees a block.
///
/// # Errors
/// [`Misuse`] if it is none.
///
/// # Safety
/// The pointer must be the heap's, see [`crate::owns`], and nobody may use the block afterwards.
#[inline]
pub unsafe fn free(cache: Option<&mut Cache>, shared: &mut impl Shared, pointer: *mut u8) -> Result<(), Misuse> {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(cache) = cache else {
            return shared
                .with(|central, ground| central.with_own(ground, |cache, inside| free_one(cache, inside, pointer)));
        };
        while let Some(late) = cache.late() {
            free_one(cache, shared, late)?;
        }
        free_one(cache, shared, pointer)
    }
}

/// [`free`] into what the cache has at hand, in the same way. `false` if nothing was done.
///
/// # Safety
/// As for that.
#[inline]
pub unsafe fn free_at_hand(cache: &mut Cache, pointer: *mut u8) -> bool {
    // SAFETY: the caller's promise.
    unsafe { matches!(find(pointer), Ok(Found::Small(class)) if cache.put_at_hand(class, pointer)) }
}

#[inline]
unsafe fn free_one(cache: &mut Cache, shared: &mut impl Shared, pointer: *mut u8) -> Result<(), Misuse> {
    // SAFETY: the caller's promise.
    unsafe {
        match find(pointer)? {
            Found::Small(class) => cache.put(class, pointer, shared),
            found => {
                shared.with(|central, ground| central.put_large(pointer, found, ground));
                Ok(())
            }
        }
    }
}

/// How many bytes the block holds.
///
/// # Errors
/// [`Misuse`] if it is none.
///
/// # Safety
/// The pointer must be the heap's, see [`crate::owns`].
pub unsafe fn usable(pointer: *const u8) -> Result<usize, Misuse> {
    // SAFETY: the caller's promise.
    Ok(match unsafe { find(pointer) }? {
        Found::Small(class) => class::size(class),
        Found::Pages(count) => count * PAGE,
        // SAFETY: the table of a block in use.
        Found::Whole(segment) => unsafe { (*segment).bytes },
    })
}

/// Changes the size of a block; it may move. `Ok(None)` if there is no memory: the block stays.
///
/// # Errors
/// [`Misuse`] if it is none.
///
/// # Safety
/// The pointer must be the heap's, see [`crate::owns`]; the old pointer is free if another is returned.
pub unsafe fn reallocate(
    mut cache: Option<&mut Cache>,
    shared: &mut impl Shared,
    pointer: *mut u8,
    size: usize,
) -> Result<Option<*mut u8>, Misuse> {
    // SAFETY: the caller's promise.
    unsafe {
        let (found, held) = (find(pointer)?, usable(pointer)?);
        // Half empty is not worth a move.
        if size <= held && (size >= held / 2 || size + 64 >= held) {
            return Ok(Some(pointer));
        }
        if size > SIZE_MAX {
            return Ok(None);
        }
        let small = matches!(found, Found::Small(_));
        if !small && size > held && shared.with(|central, _| central.extend(pointer, found, size)) {
            return Ok(Some(pointer));
        }
        // Blocks that grow step by step are moved each time half as much again is needed.
        let wanted = if !small && size > held { size.max(held + held / 4) } else { size };
        let new = allocate(cache.as_deref_mut(), shared, wanted);
        let Some(new) = new.or_else(|| allocate(cache.as_deref_mut(), shared, size)) else { return Ok(None) };
        let kept = held.min(size);
        if matches!((found, find(new.address)), (Found::Whole(_), Ok(Found::Whole(_)))) {
            let pages = kept.next_multiple_of(PAGE).min(held);
            shared.with(|_, ground| ground.relocate(pointer.addr(), new.address.addr(), pages));
        } else {
            core::ptr::copy_nonoverlapping(pointer, new.address, kept);
        }
        free(cache, shared, pointer)?;
        Ok(Some(new.address))
    }
}
