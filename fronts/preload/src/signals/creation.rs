//! No signal strikes a thread before it is known to us: what its handler did could
//! not be recorded.
//!
//! So a thread begins with all of them blocked, as its creator has them meanwhile.
//! Attributes may name another mask: such a thread is created with a copy of them
//! that names none. Once it is known it takes the mask that the program wants.

use super::HANDLES;
use crate::real::{self, Object, real as declare};
use core::ffi::c_int;
use core::sync::atomic::Ordering;
use relive_rt::{environment, process};
use relive_sys::syscall;
use relive_sys::trampoline::Frame;

declare! {
    set_mask = c"pthread_attr_setsigmask_np", fn(attributes: Object, mask: Object) -> c_int;
}

/// Slots of [`Frame::scratch`] in a creation: whether signals are held back, and the mask to go back to.
const HELD: usize = 2;
const MASK: usize = 3;

/// The word of a `pthread_attr_t` that leads to what copies would share: processors, mask, and whether there is one.
const FURTHER: usize = 5;

/// Holds signals back while `child` is created with `attributes`; the attributes to create it with.
///
/// # Safety
/// `child` must be a block that nobody else knows yet; `attributes` null or the program's.
pub(crate) unsafe fn hold_back(frame: &mut Frame, child: process::Child, attributes: Object) -> Object {
    let held = HANDLES.load(Ordering::Relaxed);
    // SAFETY: the caller's promise.
    let child = unsafe { &mut *child };
    frame.scratch[HELD] = usize::from(held);
    child.start_mask = None;
    if !held {
        return attributes;
    }
    let before = syscall::block_signals();
    frame.scratch[MASK] = before as usize;
    child.start_mask = Some(before);
    let mut own = [0u64; 16];
    // SAFETY: the caller's promise; room for a mask.
    if attributes.is_null() || unsafe { real::attributes_mask(attributes, (&raw mut own).cast()) } != 0 {
        return attributes;
    }
    child.start_mask = Some(environment::without_ours(own[0]));
    let copy: Object = child.attributes.as_mut_ptr().cast();
    // SAFETY: the caller's promise. Attributes that name a mask have all that belongs further to them, in one piece
    // as long as ours; the copy gets its own, so that the program's keep their mask. The set of processors behind it
    // stays the program's, which the creation only reads.
    unsafe {
        child.attributes = *attributes.cast();
        child.attributes_further = *(child.attributes[FURTHER] as *const _);
        child.attributes[FURTHER] = child.attributes_further.as_ptr().addr() as u64;
        set_mask(copy, core::ptr::null_mut());
    }
    copy
}

/// Ends [`hold_back`] in the creator.
pub(crate) fn let_through(frame: &Frame) {
    if frame.scratch[HELD] != 0 {
        syscall::set_signal_mask(frame.scratch[MASK] as u64);
    }
}

/// Ends [`hold_back`] in the new thread.
pub(crate) fn started(mask: Option<u64>) {
    if let Some(mask) = mask {
        syscall::set_signal_mask(mask);
    }
}
