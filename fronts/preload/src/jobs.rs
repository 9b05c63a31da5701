//! Work that libc does in threads of its own making, where the environment is
//! recorded: asynchronous input and output, look-ups.
//!
//! Which thread of libc's takes a request, and on which stack, chance decides.
//! Here each has a thread made by our own front, and all that the threads share is
//! behind a mutex and a condition that go through our own fronts, as those of a
//! program do: so the recording has their order, and a replay waits where it
//! waited.

use crate::callbacks::Event;
use crate::notify::{attributes, block_signals, create, destroy};
use crate::real::real as declare;
use crate::{condition, mutex};
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, Ordering};
use relive_rt::environment::call;
use relive_rt::runtime;
use relive_sys::syscall;
use relive_sys::syscall::number::{CLOCK_GETTIME, GETPID, RT_SIGQUEUEINFO};

declare! {
    set_cancellation = c"pthread_setcancelstate", fn(state: c_int, old: *mut c_int) -> c_int;
}

pub(crate) const EAGAIN: c_int = 11;
const CLOCK_MONOTONIC: usize = 1;
const JOBS: usize = 1024;
const LISTS: usize = 128;

/// One request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    /// The program's block.
    pub(crate) block: usize,
    /// What to do, without the lock.
    pub(crate) perform: unsafe fn(block: usize, how: c_int) -> isize,
    pub(crate) how: c_int,
    /// Puts the result there, with the lock held.
    pub(crate) publish: unsafe fn(block: usize, result: isize),
    /// Requests with the same number come one after the other, those without in any order.
    pub(crate) line: Option<c_int>,
    /// Which list it belongs to.
    pub(crate) list: Option<usize>,
    /// What to do when it is done.
    pub(crate) event: Option<Event>,
}

/// Requests that were made together, and what to do when all are done.
#[derive(Clone, Copy, Debug)]
struct List {
    left: usize,
    event: Option<Event>,
}

#[derive(Debug)]
struct Table {
    /// Each with its place in time.
    jobs: [Option<(u64, Job)>; JOBS],
    lists: [Option<List>; LISTS],
    made: u64,
}

#[derive(Debug)]
struct Whole {
    process: AtomicU32,
    /// All zero, a mutex and a condition as they begin.
    mutex: UnsafeCell<[u64; 5]>,
    condition: UnsafeCell<[u64; 6]>,
    table: UnsafeCell<Table>,
}

// SAFETY: the table is used with the mutex held, the others as the functions that take them demand.
unsafe impl Sync for Whole {}

static WHOLE: Whole = Whole {
    process: AtomicU32::new(0),
    mutex: UnsafeCell::new([0; 5]),
    condition: UnsafeCell::new([0; 6]),
    table: UnsafeCell::new(Table { jobs: [None; JOBS], lists: [None; LISTS], made: 0 }),
};

type OnMutex = unsafe extern "C" fn(*mut [u64; 5]) -> c_int;
type OnCondition = unsafe extern "C" fn(*mut [u64; 6]) -> c_int;
type Wait = unsafe extern "C" fn(*mut [u64; 6], *mut [u64; 5], c_int, *const [i64; 2]) -> c_int;
type WaitForever = unsafe extern "C" fn(*mut [u64; 6], *mut [u64; 5]) -> c_int;

/// A fork child begins anew, whatever its parent's threads were at. All that come here first wait for the one that
/// does it.
fn settle() {
    const BUSY: u32 = 1 << 31;
    let own = runtime::pid();
    loop {
        let now = WHOLE.process.load(Ordering::Acquire);
        if now == own {
            return;
        }
        let mine = own | BUSY;
        let relaxed = Ordering::Relaxed;
        if now == mine || WHOLE.process.compare_exchange(now, mine, Ordering::Acquire, relaxed).is_err() {
            syscall::sched_yield();
            continue;
        }
        if now != 0 {
            // SAFETY: a process that has not come here before; of its parent's threads none is in it, and none of its own
            // before the store.
            unsafe {
                (*WHOLE.mutex.get(), *WHOLE.condition.get()) = ([0; 5], [0; 6]);
                (*WHOLE.table.get()).jobs.fill(None);
                (*WHOLE.table.get()).lists.fill(None);
            }
        }
        return WHOLE.process.store(own, Ordering::Release);
    }
}

/// Runs `use_it` with the lock held.
pub(crate) fn with<R>(use_it: impl FnOnce(&Locked) -> R) -> R {
    settle();
    // SAFETY: our fronts have the signatures of the functions that they stand in front of.
    unsafe {
        let lock: OnMutex = core::mem::transmute(mutex::pthread_mutex_lock as *const ());
        let unlock: OnMutex = core::mem::transmute(mutex::pthread_mutex_unlock as *const ());
        lock(WHOLE.mutex.get());
        let result = use_it(&Locked(&WHOLE));
        unlock(WHOLE.mutex.get());
        result
    }
}

/// The lock is held.
#[derive(Debug)]
pub(crate) struct Locked(&'static Whole);

/// When a wait ends, on the clock that goes on.
pub(crate) type Deadline = Option<[i64; 2]>;

/// The time after so much, or never.
///
/// # Safety
/// Null or a `struct timespec`.
pub(crate) unsafe fn deadline(after: *const [i64; 2]) -> Deadline {
    const SECOND: i64 = 1_000_000_000;
    let mut now = [0i64; 2];
    // SAFETY: the caller's promise, and room for a time.
    unsafe {
        let after = after.as_ref()?;
        call(CLOCK_GETTIME, [CLOCK_MONOTONIC, now.as_mut_ptr().addr(), 0, 0, 0, 0]);
        let [seconds, rest] = [now[0].saturating_add(after[0]), now[1] + after[1]];
        Some([seconds.saturating_add(rest / SECOND), rest % SECOND])
    }
}

impl Locked {
    #[expect(clippy::mut_from_ref, reason = "the lock is held, and no two uses of the table overlap")]
    fn table(&self) -> &mut Table {
        // SAFETY: the lock is held; each use ends before the next begins.
        unsafe { &mut *self.0.table.get() }
    }

    /// Waits until something was done. `false` if the time is over.
    pub(crate) fn wait(&self, until: Deadline) -> bool {
        const DISABLED: c_int = 1;
        let mut before = 0;
        // SAFETY: as for the lock. Nothing may unwind through here.
        unsafe {
            set_cancellation(DISABLED, &raw mut before);
            let error = match until {
                None => {
                    let wait: WaitForever = core::mem::transmute(condition::pthread_cond_wait as *const ());
                    wait(self.0.condition.get(), self.0.mutex.get())
                }
                Some(time) => {
                    let wait: Wait = core::mem::transmute(condition::pthread_cond_clockwait as *const ());
                    wait(self.0.condition.get(), self.0.mutex.get(), CLOCK_MONOTONIC as c_int, &raw const time)
                }
            };
            set_cancellation(before, core::ptr::null_mut());
            error == 0
        }
    }

    /// Lets all who wait look again.
    fn wake(&self) {
        // SAFETY: as for the lock.
        unsafe {
            let wake: OnCondition = core::mem::transmute(condition::pthread_cond_broadcast as *const ());
            wake(self.0.condition.get());
        }
    }

    /// A list for requests that follow. `None` if there are too many.
    pub(crate) fn list(&self, event: Option<Event>) -> Option<usize> {
        let lists = &mut self.table().lists;
        let index = lists.iter().position(Option::is_none)?;
        // Not done before the last request is made.
        lists[index] = Some(List { left: 1, event });
        Some(index)
    }

    /// One of a list is done. What to do then, if it was the last.
    pub(crate) fn one_less(&self, list: usize) -> Option<Event> {
        let place = &mut self.table().lists[list];
        let list = place.as_mut()?;
        list.left -= 1;
        if list.left > 0 {
            return None;
        }
        place.take()?.event
    }

    /// Begins a request. `false` if there are too many, or no thread can be had.
    pub(crate) fn begin(&self, job: Job) -> bool {
        let table = self.table();
        let Some(index) = table.jobs.iter().position(Option::is_none) else { return false };
        table.made += 1;
        table.jobs[index] = Some((table.made, job));
        // SAFETY: default attributes, which are ours; a routine that never unwinds.
        let error = unsafe {
            let mut detached = attributes(core::ptr::null());
            let at = detached.as_mut_ptr().cast();
            let error = create(at, carry_out_request as *const () as usize, index);
            destroy(at.cast());
            error
        };
        if error != 0 {
            self.table().jobs[index] = None;
        } else if let Some(list) = job.list.and_then(|list| self.table().lists[list].as_mut()) {
            list.left += 1;
        }
        error == 0
    }

    /// Whether there is a request that `wanted` says of.
    pub(crate) fn any(&self, wanted: impl Fn(&Job) -> bool) -> bool {
        self.table().jobs.iter().flatten().any(|(_, job)| wanted(job))
    }

    fn turn(&self, index: usize) -> Option<Job> {
        let jobs = &self.table().jobs;
        let (made, job) = jobs[index]?;
        let is_ahead = |&(other, before): &(u64, Job)| other < made && before.line == job.line;
        let waits = job.line.is_some() && jobs.iter().flatten().any(is_ahead);
        (!waits).then_some(job)
    }
}

/// What the thread of a request does.
extern "C" fn carry_out_request(index: usize) -> usize {
    block_signals();
    let job = with(|locked| {
        loop {
            if let Some(job) = locked.turn(index) {
                return job;
            }
            locked.wait(None);
        }
    });
    // SAFETY: the program's block stays until it knows that the request is done.
    let result = unsafe { (job.perform)(job.block, job.how) };
    let of_all = with(|locked| {
        // SAFETY: as above.
        unsafe { (job.publish)(job.block, result) };
        locked.table().jobs[index] = None;
        let of_all = job.list.and_then(|list| locked.one_less(list));
        locked.wake();
        of_all
    });
    for event in [job.event, of_all].iter().flatten() {
        tell(event);
    }
    0
}

/// Does what the program wants when a request is done.
pub(crate) fn tell(event: &Event) {
    const SIGEV_SIGNAL: c_int = 0;
    const SIGEV_THREAD: c_int = 2;
    const SI_ASYNCIO: u64 = -4i32 as u32 as u64;
    match event.notify {
        // SAFETY: the program's attributes and function.
        SIGEV_THREAD => unsafe {
            let mut own = attributes(event.attributes as *const _);
            let at: *mut c_void = own.as_mut_ptr().cast();
            create(at, event.function, event.value);
            destroy(at.cast());
        },
        SIGEV_SIGNAL if event.number > 0 => {
            // SAFETY: the information of a signal, of 128 bytes.
            unsafe {
                let own = call(GETPID, [0; 6]) as usize;
                let mut told = [0u64; 16];
                (told[0], told[1]) = (event.number as u64, SI_ASYNCIO);
                (told[2], told[3]) = (own as u64, event.value as u64);
                call(RT_SIGQUEUEINFO, [own, event.number as usize, told.as_ptr().addr(), 0, 0, 0]);
            }
        }
        _ => {}
    }
}
