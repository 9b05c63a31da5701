//! The stack that a new thread gets where the environment is recorded, see
//! `relive_rt::environment::stacks`: libc is told to use it by the attributes.
//!
//! Apart because it knows how attributes are laid out: as many words as they have,
//! whose copy shares what libc keeps behind them.

use crate::real::{self, Object};
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering};
use relive_rt::environment::stacks::{self, Stack};
use relive_rt::environment::{self, heap};
use relive_rt::thread::{self, Thread};
use relive_rt::{Mode, mode};
use relive_sys::front;

/// Whose stack a new thread runs on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Choice {
    /// libc's, or one that the program brings.
    Theirs,
    /// One of ours.
    Ours(Stack),
    /// There is no memory for one.
    None,
}

/// Words of a `pthread_attr_t`.
const WORDS: usize = 7;

/// Chooses a stack for a thread that is created with these attributes, or the default ones.
pub(super) fn choose(attributes: Object) -> Choice {
    if !environment::is_on() || mode() == Mode::Off || thread::current_if_known().is_none() {
        return Choice::Theirs;
    }
    load_unwinder();
    let mut given = [0u64; WORDS];
    let (mut size, mut guard, mut address) = (0usize, 0usize, core::ptr::null_mut());
    // SAFETY: the program's attributes, or the default ones, which are written to a place large enough.
    unsafe {
        let mut from = attributes;
        if from.is_null() {
            from = given.as_mut_ptr().cast();
            real::attributes_default(from);
        }
        let known = real::attributes_size(from, &raw mut size) == 0
            && real::attributes_guard(from, &raw mut guard) == 0
            && real::attributes_address(from, &raw mut address) == 0;
        if !known || !address.is_null() {
            return Choice::Theirs;
        }
    }
    let Some((stack, former)) = stacks::take(size, guard) else { return Choice::None };
    if let Some(former) = former {
        heap::set_quiet(true);
        // SAFETY: a thread that ended, and that the program gave up.
        unsafe { real::join(former, core::ptr::null_mut()) };
        heap::set_quiet(false);
    }
    Choice::Ours(stack)
}

/// libc loads the library that unwinds when a thread first needs it, under a lock that nobody orders: so the first
/// creation has it loaded, or the first cancellation, which is nothing but that in a process with one thread. In a replay
/// no cancellation could load it: it goes by no recorded calls.
pub(crate) fn load_unwinder() {
    static LOADED: AtomicBool = AtomicBool::new(false);
    if environment::is_on() && !LOADED.swap(true, Ordering::Relaxed) {
        let mut place = 0;
        // SAFETY: room for one address.
        unsafe { real::backtrace(&raw mut place, 1) };
    }
}

/// A copy of the attributes that names the stack, kept in the block of the thread to be created.
///
/// # Safety
/// `attributes` must be null or attributes.
pub(super) unsafe fn give(child: &mut Thread, stack: Stack, attributes: Object) -> usize {
    let copy: Object = child.attributes.as_mut_ptr().cast();
    // SAFETY: the caller's promise; what the copy shares stays as long as the creation lasts.
    unsafe {
        if attributes.is_null() {
            real::attributes_default(copy);
        } else if attributes != copy {
            core::ptr::copy_nonoverlapping(attributes.cast(), child.attributes.as_mut_ptr(), WORDS);
        }
        real::attributes_set_stack(copy, stack.bottom(), stack.size());
    }
    child.heap = stack.heap();
    child.stack = Some(stack);
    copy.addr()
}

front!(
    /// `pthread_getattr_np`
    pthread_getattr_np, 2, attributes_of
);

unsafe extern "C" fn attributes_of(handle: usize, attributes: Object, _place: usize) -> c_int {
    // SAFETY: forwarded; a thread that the program names lives, and so does its block.
    unsafe {
        let result = real::attributes_of(handle, attributes);
        let guard = thread::find(handle).and_then(|block| (*block).stack).map(|stack| stack.guard());
        if let (0, Some(guard)) = (result, guard) {
            real::attributes_set_guard(attributes, guard);
        }
        result
    }
}
