//! The registry: one block a thread, found from the thread itself through the
//! TLS slot and from others by `pthread_t`.
//!
//! A block outlives its thread until it is joined, because the joiner needs the
//! final clock; blocks of detached threads are reclaimed once the kernel no
//! longer knows the thread. There is no hook for the true end of a thread: TSD
//! destructors run after the start routine and may still run events.

mod registry;

use crate::arena;
use crate::deferred::Deferred;
use crate::environment::carried::Hand;
use crate::environment::stacks::{Stack, Unused};
use crate::environment::{self, atomics::Within};
use crate::races::Knows;
use crate::replay::Replay;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use registry::{BUCKETS, REGISTRY, bucket};
use relive_order::kind::Family;
use relive_sys::{aside, syscall, tls};
use relive_trace::layout::{ChunkHeader, NONE, THREAD_FINISHED};

/// What a recording has to know of cancellation; other threads read and write it.
#[derive(Debug, Default)]
pub struct Cancellation {
    /// It allows it between any two instructions.
    pub asynchronous: AtomicBool,
    /// It was cancelled.
    pub sent: AtomicBool,
}

impl Cancellation {
    /// It was cancelled, and may have been between any two instructions.
    pub fn strikes_anywhere(&self) -> bool {
        self.sent.load(Ordering::SeqCst) && self.asynchronous.load(Ordering::SeqCst)
    }
}

/// What the runtime knows of one thread. Only the thread itself writes it, but for the registry's own fields.
#[derive(Debug)]
#[repr(C)]
pub struct Thread {
    /// Its live chunk, or null if it doesn't record.
    pub header: *mut ChunkHeader,
    /// Event number at which its last record stands.
    pub stored: u64,
    /// A clock it joined since its last event, or 0.
    pub joined: u64,
    /// How many events it had when it looked at the clock last, and how often it had done so since.
    pub looks: (u64, u32),
    /// Index in the recording.
    pub index: u32,
    /// Index of its parent, or [`NONE`].
    pub parent: u32,
    /// How-manieth child of its parent.
    pub child_number: u32,
    /// Children it has created.
    pub children: u32,
    /// Kernel id.
    pub tid: u32,
    /// Set while it is inside `fork`: the identity that the child will take. See `process`.
    pub forking: Option<crate::process::Heir>,
    /// No front of ours created it.
    pub unannounced: bool,
    /// The thread that it is creating, or null.
    pub newborn: *mut Thread,
    /// The thread that it is joining, or null; set while recording.
    pub joining: *mut Thread,
    /// A block prepared for a child whose creation failed; the next creation takes it.
    pub spare: *mut Thread,
    /// The start routine and its argument, until it runs.
    pub start: [usize; 2],
    /// The signal mask that it starts the program's routine with, if its creator held signals back.
    pub start_mask: Option<u64>,
    /// It called `pthread_exit`, or acts on a cancellation that was noted.
    pub ending: bool,
    /// Whether it may be cancelled between any two instructions, and whether somebody has cancelled it.
    pub cancellation: Cancellation,
    /// It returned from its start routine, or is about to.
    pub finished: bool,
    /// Nobody will join it.
    pub detached: bool,
    /// Calls of once routines since its last event.
    pub once_calls: u32,
    /// Events since its last tally by family; those on mutexes are not counted.
    pub tally: [u32; Family::ALL.len()],
    /// Since its last event: cancellation points entered, sleeps that a replay leaves out, and faults that the program
    /// handles.
    pub calls: u32,
    /// Event number to which `once_calls` and `calls` belong.
    pub counted_at: u64,
    /// `pthread_self()`, 0 until known.
    pub handle: usize,
    /// Signals that it was sent and has not yet handled.
    pub signals: Deferred,
    /// Its part of the heap, or null; see [`crate::environment::heap`].
    pub heap: *mut relive_heap::Cache,
    /// What it frees is put off; see [`crate::environment::heap::set_quiet`].
    pub heap_quiet: bool,
    /// The stack that we gave it; see [`crate::environment::stacks`].
    pub stack: Option<Stack>,
    /// The upper end of the stack aside that goes with this block, or 0; see [`relive_sys::aside`].
    pub aside: usize,
    /// Whether its stack may go to another thread: it has ended, and nobody will join it.
    pub stack_unused: Unused,
    /// A copy of the attributes that it is created with.
    pub attributes: [u64; 7],
    /// What belongs further to that copy: glibc keeps it in memory of its own.
    pub attributes_further: [u64; 19],
    /// In a replay: its kernel id in the recording, once the program has asked for it.
    pub recorded_tid: u32,
    /// It is inside an operation that the recording knows as a whole; see [`crate::environment::unseen`].
    pub unseen: bool,
    /// The alternate stack on which a handler runs; see [`crate::environment::alternate`].
    pub alternate: Option<[u64; 3]>,
    /// It is in a handler of libc's by which it follows another one; see [`crate::environment::identity`].
    pub follows: bool,
    /// It faults at `rdtsc`; see [`crate::environment::generated`].
    pub time_forbidden: bool,
    /// Which way what it hands on goes, in an event of that in a replay.
    pub hand: Option<Hand>,
    /// How many threads make a round of the barrier that it arrives at, in an event of that in a replay.
    pub parties: u32,
    /// The instruction, or call, that is ordered in which it is; see [`crate::environment::atomics`].
    pub(crate) within: Within,
    /// What it knows of others where races are looked for.
    pub(crate) knows: Knows,
    /// Where it stands in a replay.
    pub replay: Replay,
    next: *mut Thread,
}

impl Thread {
    /// The clock that its next event starts from.
    pub fn clock_base(&self) -> u64 {
        self.clock().max(self.joined)
    }

    /// Timestamp of its last event, in a recording.
    pub fn clock(&self) -> u64 {
        if self.header.is_null() {
            return 0;
        }
        // SAFETY: a live chunk of a thread of this process; another thread may read a value that is one event old.
        unsafe { (&raw const (*self.header).clock).read_volatile() }
    }

    /// `LC(t) = max(LC(t), clock)` without an event; the jump shows in the next pair.
    pub fn join_clock(&mut self, clock: u64) {
        if clock > self.clock_base() {
            self.joined = clock;
            crate::record::attention::raise(crate::record::attention::JOINED);
        }
    }

    /// Whether no other thread has ever been in the process, as far as the thread's own past tells: a replay finds the
    /// same.
    pub fn was_always_alone(&self) -> bool {
        self.children == 0 && self.start == [0; 2]
    }

    /// Number of events so far, in a recording or a replay.
    pub fn events(&self) -> u64 {
        if crate::mode() == crate::Mode::Replay {
            return self.replay.events();
        }
        if self.header.is_null() {
            return 0;
        }
        // SAFETY: as for the clock.
        unsafe { (&raw const (*self.header).events).read_volatile() }
    }

    /// Counts a call within the present event number; `once` says which counter.
    pub fn count_call(&mut self, once: bool) -> u32 {
        let now = self.events();
        if self.counted_at != now {
            (self.once_calls, self.calls, self.counted_at) = (0, 0, now);
        }
        let counter = if once { &mut self.once_calls } else { &mut self.calls };
        *counter += 1;
        *counter - 1
    }

    /// So many calls, counted before the last event, come behind it.
    pub fn count_calls(&mut self, calls: u32) {
        (0..calls).for_each(|_| _ = self.count_call(false));
    }

    /// Calls counted since the last event.
    pub fn calls_so_far(&self) -> u32 {
        if self.counted_at == self.events() { self.calls } else { 0 }
    }

    /// Notes that the thread is about to end.
    pub fn finish(&mut self) {
        self.finished = true;
        crate::writer::append_tally(self);
        crate::record::attention::raise(crate::record::attention::FINISHED);
        if !self.header.is_null() {
            // SAFETY: the thread's own live chunk.
            unsafe { (*self.header).flags |= THREAD_FINISHED };
        }
    }
}

/// The calling thread's block.
///
/// # Panics
/// If the runtime has not met the thread.
pub fn current() -> &'static mut Thread {
    current_if_known().expect("the runtime knows the calling thread")
}

/// The calling thread's block, or `None` for a thread that nobody announced.
#[inline]
pub fn current_if_known() -> Option<&'static mut Thread> {
    // SAFETY: the word is null or this thread's block, which only this thread changes.
    unsafe { (tls::get::<{ tls::THREAD }>() as *mut Thread).as_mut() }
}

/// A fresh block. `None` if memory is exhausted.
pub fn allocate(index: u32, parent: u32, child_number: u32) -> Option<*mut Thread> {
    let reused = {
        let mut r = REGISTRY.lock();
        if r.unclaimed > 256 {
            r.sweep();
        }
        let block = r.free;
        if !block.is_null() {
            // SAFETY: a block on the free list belongs to the registry.
            r.free = unsafe { (*block).next };
        }
        block
    };
    let (block, aside) = if reused.is_null() {
        (arena::allocate(size_of::<Thread>())?.cast::<Thread>(), environment::stack_aside())
    } else {
        // SAFETY: a block that was in use, and that nobody else knows any more.
        (reused, unsafe { (*reused).aside })
    };
    let fresh = Thread {
        header: null_mut(),
        stored: 0,
        joined: 0,
        looks: (0, 0),
        index,
        parent,
        child_number,
        children: 0,
        tid: 0,
        forking: None,
        unannounced: false,
        newborn: null_mut(),
        joining: null_mut(),
        spare: null_mut(),
        start: [0; 2],
        start_mask: None,
        ending: false,
        cancellation: Cancellation::default(),
        finished: false,
        detached: false,
        once_calls: 0,
        tally: [0; Family::ALL.len()],
        calls: 0,
        counted_at: 0,
        handle: 0,
        signals: Deferred::NONE,
        heap: null_mut(),
        heap_quiet: false,
        knows: Knows::NOTHING,
        stack: None,
        aside,
        stack_unused: Unused::default(),
        attributes: [0; 7],
        attributes_further: [0; 19],
        time_forbidden: false,
        hand: None,
        parties: 0,
        within: Within::NOTHING,
        recorded_tid: 0,
        unseen: false,
        alternate: None,
        follows: false,
        replay: Replay::idle(),
        next: null_mut(),
    };
    // SAFETY: a block of the right size that nobody else knows.
    unsafe { block.write(fresh) };
    Some(block)
}

/// Gives back a block that was never announced, or whose thread was joined.
///
/// # Safety
/// Nobody may use the block afterwards.
pub unsafe fn release(block: *mut Thread) {
    let mut r = REGISTRY.lock();
    // SAFETY: the caller's promise.
    unsafe { r.put_free(block) };
}

/// Makes a thread findable by its `pthread_t`. Called by parent and child, whoever comes first.
///
/// # Safety
/// `block` must be a live block.
pub unsafe fn announce(block: *mut Thread, handle: usize) {
    let mut r = REGISTRY.lock();
    // SAFETY: the caller's promise; the list is the registry's.
    unsafe {
        if (*block).handle != 0 {
            return;
        }
        (*block).handle = handle;
        let slot = &mut r.buckets[bucket(handle)];
        (*block).next = *slot;
        *slot = block;
    }
}

/// The most recent thread with this handle that was not claimed by a joiner. Where nothing is recorded or replayed there is none, nor
/// does anybody see to it that a child forked meanwhile gets the lock back.
pub fn find(handle: usize) -> Option<*mut Thread> {
    if crate::mode() == crate::Mode::Off {
        return None;
    }
    let r = REGISTRY.lock();
    let mut at = r.buckets[bucket(handle)];
    while !at.is_null() {
        // SAFETY: blocks in the registry are live.
        unsafe {
            if (*at).handle == handle {
                return Some(at);
            }
            at = (*at).next;
        }
    }
    None
}

/// The largest final clock of the threads whose blocks are gone.
static FORGOTTEN: AtomicU64 = AtomicU64::new(0);

/// What `tell` says of the thread with this index, if it is known.
fn of_index<R>(index: u32, tell: impl Fn(&Thread) -> R) -> Option<R> {
    let mut found = None;
    each(|t| {
        if t.index == index {
            found = Some(tell(t));
        }
        t.index != index
    });
    found
}

/// The clock of a thread of this process that may have ended; never less than its final one.
pub fn clock_of(index: u32) -> u64 {
    of_index(index, Thread::clock_base).unwrap_or_else(|| FORGOTTEN.load(Ordering::Acquire))
}

/// `pthread_self()` of a thread that lives; 0 if it is not known.
pub fn handle_of(index: u32) -> usize {
    of_index(index, |thread| thread.handle).unwrap_or(0)
}

/// The living thread in whose thread-local storage an address may lie: libc lays that right below what `pthread_self()`
/// points to.
pub fn whose_storage(address: usize) -> Option<u32> {
    /// Room for the variables of all libraries that are there from the start.
    const BELOW: usize = 1 << 16;
    let mut found = None;
    each(|t| {
        if (t.handle.saturating_sub(BELOW)..t.handle).contains(&address) {
            found = Some(t.index);
        }
        found.is_none()
    });
    found
}

/// How far any thread of this process has come, ended ones included.
pub fn clock_of_all() -> u64 {
    let mut clock = FORGOTTEN.load(Ordering::Acquire);
    each(|t| {
        clock = clock.max(t.clock_base());
        true
    });
    clock
}

/// Takes a joined thread out of the registry and frees its block.
///
/// # Safety
/// The thread must have ended, and nobody may use the block afterwards.
pub unsafe fn forget(block: *mut Thread) {
    let mut r = REGISTRY.lock();
    // SAFETY: the caller's promise.
    unsafe {
        FORGOTTEN.fetch_max((*block).clock_base(), Ordering::AcqRel);
        r.unlink(block);
        r.put_free(block);
    }
}

/// Notes that nobody will join a thread.
///
/// # Safety
/// `block` must be a live block.
pub unsafe fn detach(block: *mut Thread) {
    let mut r = REGISTRY.lock();
    // SAFETY: the caller's promise.
    unsafe { (*block).detached = true };
    r.unclaimed += 1;
}

/// Calls `visit` for each known thread of this process until it returns `false`.
pub fn each(mut visit: impl FnMut(&Thread) -> bool) {
    let r = REGISTRY.lock();
    for &first in &r.buckets {
        let mut at = first;
        while !at.is_null() {
            // SAFETY: blocks in the registry are live.
            unsafe {
                if !visit(&*at) {
                    return;
                }
                at = (*at).next;
            }
        }
    }
}

/// Starts over in a fork child: only the calling thread exists.
///
/// # Safety
/// Only in a fork child while it has one thread.
pub unsafe fn reset_after_fork() {
    // SAFETY: the caller's promise.
    unsafe { REGISTRY.reset_after_fork() };
    let mut r = REGISTRY.lock();
    // Blocks of threads that exist only in the parent are not reused: their stacks may still name them.
    (r.buckets, r.free, r.unclaimed) = ([null_mut(); BUCKETS], null_mut(), 0);
}

/// Makes `block` the calling thread's.
///
/// # Safety
/// `block` must be live and belong to no other thread.
pub unsafe fn adopt(block: *mut Thread) {
    tls::set::<{ tls::THREAD }>(block as usize);
    // SAFETY: the caller's promise; the stack goes with the block.
    unsafe {
        (*block).tid = syscall::gettid();
        aside::give((*block).aside);
    }
}

/// No parent.
pub const NO_PARENT: u32 = NONE;
