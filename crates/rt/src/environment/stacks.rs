//! Stacks of the program's threads.
//!
//! libc keeps the stacks of ended threads and gives them to new ones once the
//! kernel is done with them, which is a matter of luck; where a stack lies shows
//! in `pthread_t` and in the address of every local variable. So the stacks are
//! ours: which one a thread gets follows from the recorded order of creations,
//! joins and ends. Only then does the creator wait, if it must, until the former
//! owner is really gone.

use super::heap::{self, discard};
use crate::arena;
use crate::races;
use crate::runtime;
use crate::thread::{self, Thread};
use core::ptr::null_mut;
use core::sync::atomic::AtomicU32;
use relive_heap::Cache;
use relive_sys::syscall::number::MPROTECT;
use relive_sys::syscall::{self, syscall6};

/// Where they lie: their distance from the heap is no multiple of 64 GiB, nor is that from the program and its
/// libraries, because what is so far apart shares its place in the shadow of the race detector (`relive-accesses`).
const FIRST: usize = 0x4008_0000_0000;
const END: usize = 0x5000_0000_0000;
const PAGE: usize = 4096;
const PROT_NONE: usize = 0;
/// Bytes of unused stacks that keep their memory, as in glibc.
const WARM_BYTES: usize = 40 << 20;
/// Threads that ended unjoined and whose stacks wait; beyond, the first of them has surely gone.
const WAITING: usize = 16;
/// How long to wait, each time, for a thread that is at its very end.
const PAUSE_MS: u32 = 1;

/// A stack and the guard below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Lowest address of the guard.
    start: usize,
    guard: usize,
    /// Bytes above the guard.
    size: usize,
    /// The former thread's part of the heap, or null: it goes with the stack, because libc frees until the very end.
    heap: *mut Cache,
}

impl Stack {
    /// Lowest address that its thread uses.
    pub fn bottom(&self) -> usize {
        self.start + self.guard
    }

    /// Bytes below that nobody may touch.
    pub fn guard(&self) -> usize {
        self.guard
    }

    /// Bytes that its thread uses.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The part of the heap that goes with it.
    pub fn heap(&self) -> *mut Cache {
        self.heap
    }
}

/// How far a thread is from needing its stack no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unused {
    ended: bool,
    detached: bool,
}

/// A stack whose thread ended and is joined by nobody. Noted outside of it: the thread may still run at its upper end, and
/// the program may have taken away its lower end, as Java does.
#[derive(Clone, Copy, Debug)]
struct Left {
    stack: Stack,
    tid: u32,
    index: u32,
    /// Its handle, if libc still takes it for joinable.
    joinable: Option<usize>,
    next: *mut Left,
}

/// An unused stack, written at its upper end: there its memory was touched anyway.
struct Node {
    stack: Stack,
    next: *mut Node,
}

/// The stacks of all threads.
#[derive(Debug)]
pub(super) struct Stacks {
    next: usize,
    unused: *mut Node,
    warm: usize,
    /// The first and the last that was left, and how many there are.
    first: *mut Left,
    last: *mut Left,
    count: usize,
    /// Notes that can be used again.
    spare: *mut Left,
}

// SAFETY: the pointers lead to memory that only the user of this value uses.
unsafe impl Send for Stacks {}

impl Stacks {
    pub(super) const fn new() -> Self {
        let (first, last, spare) = (null_mut(), null_mut(), null_mut());
        Self { next: FIRST, unused: null_mut(), warm: 0, first, last, count: 0, spare }
    }

    fn take(&mut self, size: usize, guard: usize) -> Option<(Stack, Option<Left>)> {
        let mut link = &raw mut self.unused;
        // SAFETY: the list's own nodes.
        unsafe {
            while !(*link).is_null() {
                let node = *link;
                if (*node).stack.size == size && (*node).stack.guard == guard {
                    *link = (*node).next;
                    self.warm = self.warm.saturating_sub(size);
                    return Some(((*node).stack, None));
                }
                link = &raw mut (*node).next;
            }
        }
        if self.count > WAITING
            && let Some(left) = self.take_first(size, guard)
        {
            return Some((left.stack, Some(left)));
        }
        self.map(size, guard).map(|stack| (stack, None))
    }

    fn map(&mut self, size: usize, guard: usize) -> Option<Stack> {
        let stack = Stack { start: self.next, guard, size, heap: null_mut() };
        let total = size.checked_add(guard)?;
        if total > END - self.next || !heap::map(self.next, total) {
            return None;
        }
        self.next += total;
        // SAFETY: the lowest pages of what was just mapped.
        unsafe { syscall6(MPROTECT, stack.start, guard, PROT_NONE, 0, 0, 0) };
        Some(stack)
    }

    /// Keeps a stack that nobody runs on any more.
    fn put(&mut self, stack: Stack) {
        if self.warm + stack.size > WARM_BYTES {
            discard(stack.bottom(), stack.size);
        } else {
            self.warm += stack.size;
        }
        let node = (stack.bottom() + stack.size - size_of::<Node>()) as *mut Node;
        // SAFETY: the caller's promise: its memory is free.
        unsafe { node.write(Node { stack, next: self.unused }) };
        self.unused = node;
    }

    /// The stack that was left first, if it has these sizes.
    fn take_first(&mut self, size: usize, guard: usize) -> Option<Left> {
        let node = self.first;
        // SAFETY: the list's own nodes.
        let left = unsafe { *node };
        if left.stack.size != size || left.stack.guard != guard {
            return None;
        }
        self.first = left.next;
        self.count -= 1;
        // SAFETY: as above; nobody else has this one any more.
        unsafe { (*node).next = self.spare };
        self.spare = node;
        Some(left)
    }

    /// In a fork child: the threads that were about to be gone are not there.
    pub(super) fn forget_left(&mut self) {
        if self.count > 0 {
            // SAFETY: the list's own nodes.
            unsafe { (*self.last).next = self.spare };
            self.spare = self.first;
        }
        (self.first, self.last, self.count) = (null_mut(), null_mut(), 0);
    }

    /// Keeps the stack of a thread that is about to be gone. Without memory for the note nobody gets it again.
    fn leave(&mut self, left: Left) {
        let node = match self.spare {
            spare if spare.is_null() => {
                let Some(fresh) = arena::allocate(size_of::<Left>()) else { return };
                fresh.cast::<Left>()
            }
            spare => {
                // SAFETY: a note that nobody uses, and none but the user of this value knows.
                self.spare = unsafe { (*spare).next };
                spare
            }
        };
        // SAFETY: the memory of one note, aligned by the arena; the list's own nodes.
        unsafe {
            node.write(left);
            if self.count == 0 {
                self.first = node;
            } else {
                (*self.last).next = node;
            }
        }
        self.last = node;
        self.count += 1;
    }
}

/// A stack of at least these sizes for a thread that the calling one creates, and the handle of its former thread if that
/// must be joined first. `None` if there is no memory.
pub fn take(size: usize, guard: usize) -> Option<(Stack, Option<usize>)> {
    let (size, guard) = (size.checked_next_multiple_of(PAGE)?, guard.checked_next_multiple_of(PAGE)?);
    let (stack, former) = heap::with(|whole| {
        let (mut stack, former) = whole.stacks.take(size, guard)?;
        if stack.heap.is_null() {
            stack.heap = heap::fresh_cache(whole);
        }
        Some((stack, former))
    })?;
    if let Some(former) = former {
        let never = AtomicU32::new(0);
        while syscall::thread_exists(runtime::pid(), former.tid) {
            syscall::futex_wait(&never, 0, Some(PAUSE_MS));
        }
        // What it did at its very end came before what follows here.
        if let Some(thread) = thread::current_if_known() {
            thread.join_clock(thread::clock_of(former.index));
        }
    }
    races::fresh(stack.bottom(), stack.size);
    Some((stack, former.and_then(|former| former.joinable)))
}

/// Takes back the stack of a thread that never started.
pub fn give_back(stack: Stack) {
    heap::with(|whole| whole.stacks.put(stack));
}

/// Takes back what the thread with this block had, which was joined.
pub(crate) fn joined(thread: &mut Thread) {
    let heap = core::mem::replace(&mut thread.heap, null_mut());
    match thread.stack.take() {
        Some(stack) => give_back(Stack { heap, ..stack }),
        None => heap::leave(heap),
    }
}

/// The calling thread has left its start routine: its stack goes to others if it will not be joined.
pub(crate) fn thread_ends(thread: &mut Thread) {
    heap::set_quiet(true);
    if thread.stack.is_some() {
        heap::with(|whole| {
            thread.stack_unused.ended = true;
            leave_if_unused(thread, None, &mut whole.stacks);
        });
    }
}

fn leave_if_unused(thread: &mut Thread, joinable: Option<usize>, stacks: &mut Stacks) {
    if thread.stack_unused == (Unused { ended: true, detached: true })
        && let Some(stack) = thread.stack.take()
    {
        let stack = Stack { heap: thread.heap, ..stack };
        stacks.leave(Left { stack, tid: thread.tid, index: thread.index, joinable, next: null_mut() });
    }
}

/// `pthread_detach` of the thread with this block and handle: its result, or `None` if the stack is not ours.
///
/// Which of the two frees what libc keeps of a thread that ends while it is being detached is a matter of luck. So one
/// that has not come to its end in the recorded order is detached with its end held back; one that has is joined by
/// whoever takes its stack.
///
/// # Safety
/// It must be a live block.
pub unsafe fn detach(block: *mut Thread, handle: usize, real: impl FnOnce() -> i32) -> Option<i32> {
    const EINVAL: i32 = 22;
    // SAFETY: the caller's promise; the fields are used inside only.
    unsafe {
        if (*block).stack_unused.detached {
            return Some(EINVAL);
        }
        (*block).stack?;
        Some(heap::with(|whole| {
            (*block).stack_unused.detached = true;
            if !(*block).stack_unused.ended {
                return real();
            }
            leave_if_unused(&mut *block, Some(handle), &mut whole.stacks);
            0
        }))
    }
}

/// The thread to be created with this block starts detached.
pub fn starts_detached(thread: &mut Thread) {
    thread.stack_unused.detached = true;
}
