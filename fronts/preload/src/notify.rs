//! Callbacks of timers and message queues where the environment is recorded.
//!
//! libc has a thread of its own that waits for the kernel and makes another for
//! each callback, under locks that nobody orders and on stacks that chance gives.
//! So the threads that wait are ours: they and those of the callbacks are made by
//! our own `pthread_create`, and what the kernel tells them is a recorded call like
//! any other. To the program a timer is then one that sends a signal to a thread,
//! of which libc needs to know nothing but the kernel's number.

use crate::callbacks::Event;
use crate::libc_state::{State, taking_part};
use crate::real::{self, Object, answer, real as declare};
use crate::threads;
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, Ordering};
use relive_rt::environment::{self, call};
use relive_rt::object::Internal;
use relive_rt::{Mode, mode, runtime};
use relive_sys::dispatch::SIGSYS;
use relive_sys::front;
use relive_sys::outside::SIGILL;
use relive_sys::syscall::number::{MQ_NOTIFY, RECVFROM, RT_SIGTIMEDWAIT, SOCKET, TIMER_CREATE};
use relive_sys::syscall::{self, futex_wait, futex_wake};

declare! {
    set_detached = c"pthread_attr_setdetachstate", fn(attributes: Object, state: c_int) -> c_int;
    set_mask = c"pthread_attr_setsigmask_np", fn(attributes: Object, mask: *const [u64; 16]) -> c_int;
    destroy = c"pthread_attr_destroy", fn(attributes: Object) -> c_int;
    delete_timer = c"timer_delete" @ c"GLIBC_2.34", fn(timer: usize) -> c_int;
}

/// The signal of libc's own timers, and the one by which it changes the identity of all threads.
const TIMER_SIGNAL: u32 = 32;
const IDENTITY_SIGNAL: u32 = 33;
const SIGEV_THREAD: c_int = 2;
const SIGEV_THREAD_ID: c_int = 4;
const EAGAIN: c_int = 11;
const EINTR: isize = -4;
const DETACHED: c_int = 1;
/// Words of a `pthread_attr_t`.
const WORDS: usize = 7;
/// Bytes by which a queue says who is meant; the last is ours to read only.
const COOKIE_BYTES: usize = 32;
const REQUESTS: usize = 1024;

/// What the program asked for.
#[derive(Clone, Copy, Debug)]
struct Request {
    function: usize,
    value: usize,
    attributes: [u64; WORDS],
    /// How often this place was used: what is told of a former use is not of this one.
    uses: u32,
    is_live: bool,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A timer with the kernel's number: it calls again and again.
    Timer(usize),
    /// A message queue: it calls once.
    Queue,
}

#[derive(Debug)]
struct Requests(UnsafeCell<[Request; REQUESTS]>);

// SAFETY: used under the lock of `NOTIFIERS` only, or by the only thread.
unsafe impl Sync for Requests {}

static ASKED: Requests = Requests(UnsafeCell::new(
    [const { Request { function: 0, value: 0, attributes: [0; WORDS], uses: 0, is_live: false, kind: Kind::Queue } };
        REQUESTS],
));
static NOTIFIERS: State = State::new(Internal::Notifiers);

/// A thread that waits for the kernel: of which process it is, and what the kernel needs to know.
#[derive(Debug)]
struct Waiter {
    process: AtomicU32,
    /// The thread's id, or the socket, plus one; 0 until it is known.
    known: AtomicU32,
}

static TIMERS: Waiter = Waiter { process: AtomicU32::new(0), known: AtomicU32::new(0) };
static QUEUES: Waiter = Waiter { process: AtomicU32::new(0), known: AtomicU32::new(0) };

/// Whether callbacks of the calling thread's requests are made here.
pub(crate) fn applies() -> bool {
    environment::is_on() && taking_part() != Mode::Off
}

/// The table, under its lock.
///
/// # Safety
/// The lock must be held, and nothing else of the table in use.
unsafe fn table() -> &'static mut [Request; REQUESTS] {
    // SAFETY: the caller's promise.
    unsafe { &mut *ASKED.0.get() }
}

/// `timer_create` with `SIGEV_THREAD`: the result, with `errno` set.
///
/// # Safety
/// As for the function itself.
pub(crate) unsafe fn timer_create(clock: usize, event: *const Event, timer: *mut usize, place: usize) -> c_int {
    let error = NOTIFIERS.call(place, || {
        let Some(waiter) = TIMERS.start(wait_for_timers) else { return EAGAIN };
        // SAFETY: the program's event, and arrays of ours; the lock is held.
        unsafe {
            ask(&*event, |cookie, kind| {
                let mut id: c_int = 0;
                let how = TIMER_SIGNAL as u64 | (SIGEV_THREAD_ID as u64) << 32;
                let given = [cookie, how, u64::from(waiter), 0, 0, 0, 0, 0];
                let words = [clock, given.as_ptr().addr(), (&raw mut id).addr(), 0, 0, 0];
                let result = call(TIMER_CREATE, words);
                if result == 0 {
                    *kind = Kind::Timer(id as usize);
                    *timer = id as usize;
                }
                result
            })
        }
    });
    answer(error)
}

/// `mq_notify` with `SIGEV_THREAD`: the result, with `errno` set.
///
/// # Safety
/// As for the function itself.
pub(crate) unsafe fn mq_notify(queue: usize, event: *const Event, place: usize) -> c_int {
    let error = NOTIFIERS.call(place, || {
        let Some(socket) = QUEUES.start(wait_for_queues) else { return EAGAIN };
        // SAFETY: as above.
        unsafe {
            ask(&*event, |cookie, _| {
                let told = [cookie, 0, 0, 0];
                let how = u64::from(socket) | (SIGEV_THREAD as u64) << 32;
                let given = [told.as_ptr().addr() as u64, how, 0, 0, 0, 0, 0, 0];
                call(MQ_NOTIFY, [queue, given.as_ptr().addr(), 0, 0, 0, 0])
            })
        }
    });
    answer(error)
}

/// Keeps a request and tells the kernel of it by `tell`, which gets what names the request; the error, or 0.
///
/// # Safety
/// The lock must be held; the event as the program's functions demand it.
unsafe fn ask(event: &Event, tell: impl FnOnce(u64, &mut Kind) -> isize) -> c_int {
    // SAFETY: the caller's promise.
    let table = unsafe { table() };
    let Some(index) = table.iter().position(|request| !request.is_live) else { return EAGAIN };
    let uses = table[index].uses.wrapping_add(1);
    let cookie = u64::from(uses) << 32 | (index as u64 + 1);
    let mut kind = Kind::Queue;
    let result = tell(cookie, &mut kind);
    if result < 0 {
        return -result as c_int;
    }
    // SAFETY: null or the program's attributes.
    let attributes = unsafe { attributes(event.attributes as *const [u64; WORDS]) };
    table[index] = Request { function: event.function, value: event.value, attributes, uses, is_live: true, kind };
    0
}

/// Those that the callback's thread is made with: detached, and no signal is blocked in it.
pub(crate) unsafe fn attributes(given: *const [u64; WORDS]) -> [u64; WORDS] {
    /// The word that leads to what copies would share.
    const FURTHER: usize = 5;
    let mut own = [0; WORDS];
    let at: Object = own.as_mut_ptr().cast();
    // SAFETY: the program's attributes, and room for a copy.
    unsafe {
        if given.is_null() {
            real::attributes_default(at);
        } else {
            own = *given;
        }
        own[FURTHER] = 0;
        set_detached(at, DETACHED);
        set_mask(at, &[0; 16]);
    }
    own
}

/// # Safety
/// The lock must be held.
unsafe fn end(request: &mut Request) {
    request.is_live = false;
    // SAFETY: attributes of ours, which nobody uses any more.
    unsafe { destroy(request.attributes.as_mut_ptr().cast()) };
}

/// Makes the callback that the kernel's cookie names, if it is still wanted; `is_last` says that it was told once and
/// for all.
fn notify(cookie: u64, calls: bool, is_last: bool) {
    NOTIFIERS.call(0, || {
        let Some(index) = (cookie as u32 as usize).checked_sub(1).filter(|&index| index < REQUESTS) else { return };
        // SAFETY: the lock is held.
        unsafe {
            let request = &mut table()[index];
            if !request.is_live || u64::from(request.uses) != cookie >> 32 {
                return;
            }
            if calls {
                // Whoever can't have a thread is not called, as by libc.
                create(request.attributes.as_ptr().cast(), request.function, request.value);
            }
            if is_last {
                end(request);
            }
        }
    });
}

/// Makes a thread by our own front.
pub(crate) unsafe fn create(attributes: *const c_void, start: usize, argument: usize) -> c_int {
    type Create = unsafe extern "C" fn(*mut usize, *const c_void, usize, usize) -> c_int;
    let mut handle = 0;
    // SAFETY: the front has the signature of the function that it stands in front of.
    unsafe {
        let front: Create = core::mem::transmute(threads::pthread_create as *const ());
        front(&raw mut handle, attributes, start, argument)
    }
}

/// The calling thread is none of the program's: no signal of the program is for it. libc lets its own through to every
/// new thread.
pub(crate) fn block_signals() {
    let kept = [SIGSYS, SIGILL, IDENTITY_SIGNAL].iter().fold(0u64, |mask, signal| mask | 1 << (signal - 1));
    syscall::set_signal_mask(!kept);
}

impl Waiter {
    /// What the kernel needs to know of the thread, which is made if the process has none.
    fn start(&self, routine: extern "C" fn(usize) -> usize) -> Option<u32> {
        if self.process.load(Ordering::Relaxed) != runtime::pid() {
            self.known.store(0, Ordering::Relaxed);
            let own = syscall::block_signals();
            // SAFETY: default attributes, and a routine that never unwinds.
            let error = unsafe { create(core::ptr::null(), routine as *const () as usize, 0) };
            syscall::set_signal_mask(own);
            if error != 0 {
                return None;
            }
            self.process.store(runtime::pid(), Ordering::Relaxed);
        }
        // It comes to say so without waiting for anybody.
        while self.known.load(Ordering::Acquire) == 0 {
            futex_wait(&self.known, 0, None);
        }
        Some(self.known.load(Ordering::Acquire) - 1)
    }

    fn say(&self, known: u32) {
        block_signals();
        self.known.store(known + 1, Ordering::Release);
        futex_wake(&self.known, u32::MAX);
    }
}

extern "C" fn wait_for_timers(_: usize) -> usize {
    const SI_TIMER: u32 = -2i32 as u32;
    /// `si_code` and `si_value`, in words of 64 bits.
    const CODE: usize = 1;
    const VALUE: usize = 3;
    let wanted = 1u64 << (TIMER_SIGNAL - 1);
    TIMERS.say(syscall::gettid());
    loop {
        let mut told = [0u64; 16];
        let words = [(&raw const wanted).addr(), told.as_mut_ptr().addr(), 0, 8, 0, 0];
        // SAFETY: a set and room for the information.
        let result = unsafe { call(RT_SIGTIMEDWAIT, words) };
        if result > 0 && told[CODE] as u32 == SI_TIMER {
            notify(told[VALUE], true, false);
        } else if result < 0 && result != EINTR {
            return 0;
        }
    }
}

extern "C" fn wait_for_queues(_: usize) -> usize {
    const AF_NETLINK: usize = 16;
    const SOCK_RAW_CLOEXEC: usize = 3 | 0o200_0000;
    /// The last byte: a message came. Otherwise somebody ended the request.
    const CAME: u64 = 1;
    // SAFETY: no pointers.
    let socket = unsafe { call(SOCKET, [AF_NETLINK, SOCK_RAW_CLOEXEC, 0, 0, 0, 0]) };
    QUEUES.say(socket.max(0) as u32);
    loop {
        let mut told = [0u64; COOKIE_BYTES / 8];
        // SAFETY: room for so many bytes.
        let result = unsafe { call(RECVFROM, [socket as usize, told.as_mut_ptr().addr(), COOKIE_BYTES, 0, 0, 0]) };
        if result == COOKIE_BYTES as isize {
            environment::order_of_queues();
            notify(told[0], told[COOKIE_BYTES / 8 - 1] >> 56 == CAME, true);
        } else if result < 0 && result != EINTR {
            return 0;
        }
    }
}

/// A timer is about to be set: what the callback natively waits for.
pub(crate) fn sets_timer(place: usize) {
    if applies() {
        NOTIFIERS.call(place, || ());
    }
}

front!(
    /// `timer_delete`
    timer_delete, 1, timer_delete_front
);

unsafe extern "C" fn timer_delete_front(timer: usize, place: usize) -> c_int {
    // SAFETY: forwarded.
    let delete = || unsafe { delete_timer(timer) };
    if mode() == Mode::Off || !applies() {
        return delete();
    }
    NOTIFIERS.call(place, || {
        let result = delete();
        if result == 0 {
            // SAFETY: the lock is held.
            let table = unsafe { table() };
            for request in table.iter_mut().filter(|r| r.is_live && r.kind == Kind::Timer(timer)) {
                // SAFETY: as above.
                unsafe { end(request) };
            }
        }
        result
    })
}
