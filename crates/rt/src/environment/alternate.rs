//! The alternate stack for handlers, while one runs there.
//!
//! Whether a thread is on that stack the kernel tells by its stack pointer: a handler that strikes a handler goes on below
//! it, and the stack can't be changed. But a thread in an operation has its stack pointer aside. The kernel would take the
//! stack to be free, and lay the next handler's frame over the one that runs there. So it has no alternate stack
//! while a handler runs on it; which one it was the thread's block says, as do the kernel's frames of that handler, by
//! which it comes back with the handler's return. One that strikes meanwhile stays where it is, or goes to the program's stack, which
//! is that one ([`relive_sys::trampoline!`] with `signal`).
//!
//! Apart from the other calls on signals because these act on what the thread knows of itself.

use super::memory;
use crate::thread;
use relive_sys::signal::Context;
use relive_sys::syscall::number::SIGALTSTACK;
use relive_sys::{aside, dispatch, syscall};

const EPERM: isize = -1;
const EFAULT: isize = -14;
/// Of an alternate stack's flags, that the thread is there.
const ON_STACK: u64 = 1;
const DISABLED: u64 = 2;

/// Where an alternate stack begins, its flags and its length.
type Stack = [u64; 3];

/// A handler with its frame at this place is about to run, struck in that context. Whether it runs on the alternate stack, and is
/// the first to do so: then [`returns`] or [`jumps`] is to follow.
pub fn begins(context: &Context, frame: usize) -> bool {
    let stack = context.alternate_stack();
    let Some(thread) = thread::current_if_known().filter(|_| aside::has_one()) else { return false };
    if thread.alternate.is_some() || !holds(stack, frame as u64) || !set([0, DISABLED, 0]) {
        return false;
    }
    thread.alternate = Some(stack);
    true
}

/// That handler returns: the kernel gives the stack back.
pub fn returns() {
    if let Some(thread) = thread::current_if_known() {
        thread.alternate = None;
    }
}

/// That handler is left by a jump.
pub fn jumps() {
    if let Some(stack) = thread::current_if_known().and_then(|thread| thread.alternate.take()) {
        set(stack);
    }
}

/// Whether this is a place on the stack on which a handler runs.
pub fn is_there(pointer: usize) -> bool {
    let used = thread::current_if_known().and_then(|thread| thread.alternate);
    used.is_some_and(|stack| holds(stack, pointer as u64))
}

/// The call of the program's, whose stack pointer is `pointer` where that is known. `longjmp` of fortified programs asks
/// whether the thread is there.
///
/// # Safety
/// As for the call itself.
pub(super) unsafe fn ask(pointer: Option<usize>, arguments: &[usize; 6]) -> isize {
    let [new, old, ..] = *arguments;
    let used = thread::current_if_known().and_then(|thread| thread.alternate);
    let stack = used.unwrap_or_else(now);
    let is_on = pointer.is_some_and(|pointer| holds(stack, pointer as u64));
    if !is_on {
        // Whoever has left it by another way than those that are seen may change it.
        jumps();
        // SAFETY: the caller's promise.
        return unsafe { dispatch::program_call(SIGALTSTACK, arguments) };
    }
    if new != 0 {
        return EPERM;
    }
    let [begin, flags, bytes] = stack;
    let mut told = [0; size_of::<Stack>()];
    for (to, word) in told.chunks_exact_mut(size_of::<u64>()).zip([begin, flags | ON_STACK, bytes]) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    if old == 0 || memory::write(old, &told) { 0 } else { EFAULT }
}

/// What the kernel has for the thread.
pub(super) fn now() -> Stack {
    let mut now = [0; 3];
    // SAFETY: the kernel writes the three words of a stack.
    unsafe { syscall::syscall6(SIGALTSTACK, 0, now.as_mut_ptr().addr(), 0, 0, 0, 0) };
    now
}

fn set(stack: Stack) -> bool {
    // SAFETY: a stack that the program gave, or none.
    unsafe { syscall::syscall6(SIGALTSTACK, stack.as_ptr().addr(), 0, 0, 0, 0, 0) == 0 }
}

/// As the kernel has it: a stack pointer at the very end is on it, too.
const fn holds([begin, flags, bytes]: Stack, pointer: u64) -> bool {
    flags & DISABLED == 0 && pointer > begin && pointer - begin <= bytes
}
