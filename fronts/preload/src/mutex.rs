//! Mutexes of every type.
//!
//! The lock event comes after the lock was acquired, the unlock event before it
//! is released, so the mutex itself makes the clock exclusive. glibc leaves
//! `__list` alone in every mutex but robust ones; there the clock stands in the
//! mutex. Before the unlock of a mutex that knows its owner we look whether the
//! caller is it: a thread whose unlock fails must not touch the clock.

use crate::real::{self, Deadline};
use crate::sharing;
use core::ffi::c_int;
use relive_order::Kind;
use relive_rt::object::{self, Cell};
use relive_rt::{Mode, mode, outside, races, record, replay, thread};
use relive_sys::front;

/// The parts of glibc's `pthread_mutex_t` that we read; 40 bytes.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Mutex {
    lock: c_int,
    count: u32,
    owner: c_int,
    users: u32,
    kind: c_int,
    spins: i16,
    elision: i16,
    /// `__list`, free in all but robust mutexes.
    clock: u64,
    last: u64,
}

const _: () = assert!(size_of::<Mutex>() == 40 && core::mem::offset_of!(Mutex, clock) == object::IN_MUTEX);

const TYPE_BITS: c_int = 3;
const ROBUST: c_int = 16;
const SHARED: c_int = 128;
const PRIORITY_INHERIT: c_int = 32;
/// Type, process-shared, and the two bits in which glibc keeps what it knows of lock elision.
const INLINE_BITS: c_int = TYPE_BITS | SHARED | 256 | 512;

/// Looks at a held mutex before its sleep: one to four microseconds.
const BRIEFLY: u32 = 100;

const EBUSY: c_int = 16;
pub(crate) const EOWNERDEAD: c_int = 130;

impl Mutex {
    #[inline(always)]
    fn has_inline_clock(m: *mut Mutex) -> bool {
        // SAFETY: the program passed a mutex; its kind does not change while it is in use but for the elision bits.
        unsafe { (*m).kind & !INLINE_BITS == 0 }
    }

    /// Where a mutex that keeps its cell in itself does so.
    #[inline(always)]
    fn inline_cell(m: *mut Mutex) -> *mut Cell {
        // SAFETY: the program passed a mutex; nothing is read.
        unsafe { (&raw mut (*m).clock).cast::<Cell>() }
    }

    /// The clock of a mutex.
    pub(crate) fn cell<'a>(m: *mut Mutex) -> &'a Cell {
        if Self::has_inline_clock(m) {
            // SAFETY: sixteen free bytes of the mutex, aligned to eight.
            unsafe { &*Self::inline_cell(m) }
        } else {
            sharing::cell(m as usize, Self::kind_bits(m) & SHARED != 0)
        }
    }

    fn kind_bits(m: *mut Mutex) -> c_int {
        // SAFETY: as above.
        unsafe { (*m).kind }
    }

    /// Whether a replay can hold the clock against the recording: not if another session may have left one in
    /// shared memory, not if other objects share it.
    fn exact(m: *mut Mutex) -> bool {
        Self::has_inline_clock(m) && Self::kind_bits(m) & SHARED == 0
    }

    /// Whether the unlock of this mutex by the calling thread will succeed.
    pub(crate) fn may_unlock(m: *mut Mutex) -> bool {
        let bits = Self::kind_bits(m);
        bits & (TYPE_BITS | ROBUST | PRIORITY_INHERIT) == 0 || bits & TYPE_BITS == 3 || Self::is_own(m)
    }

    /// Whether the calling thread holds the mutex, for all that glibc noted: of a normal one whose lock was elided it
    /// notes nothing.
    fn is_own(m: *mut Mutex) -> bool {
        // SAFETY: as above; a stale owner is not the calling thread.
        let owner = unsafe { (&raw const (*m).owner).read_volatile() };
        thread::current_if_known().is_some_and(|t| owner as u32 == t.tid)
    }

    fn is_robust(m: *mut Mutex) -> bool {
        Self::kind_bits(m) & ROBUST != 0
    }
}

/// Records that the calling thread now holds `m`.
unsafe fn record_held(m: *mut Mutex, kind: Kind) {
    if Mutex::has_inline_clock(m) {
        // SAFETY: the calling thread holds the mutex, and with it the cell.
        unsafe { record::locked(Mutex::inline_cell(m), kind) };
    } else {
        record::shared(&Mutex::cell(m).clock, kind);
    }
    if Mutex::is_robust(m) {
        note_owner(m);
    }
}

/// The result of an attempt to acquire, recorded.
#[inline(never)]
unsafe fn record_acquired(m: *mut Mutex, result: c_int) -> c_int {
    match result {
        0 => {
            // SAFETY: the attempt succeeded.
            unsafe { record_held(m, Kind::Lock) };
        }
        EOWNERDEAD => {
            join_dead_owner(m);
            record::result(EOWNERDEAD as i64);
            // SAFETY: the attempt succeeded, with the dead owner's state.
            unsafe { record_held(m, Kind::Lock) };
        }
        error => record::failure(Kind::Lock, error),
    }
    result
}

fn note_owner(m: *mut Mutex) {
    if let Some(t) = thread::current_if_known() {
        Mutex::cell(m).last.store(object::pack(t.index, 0), core::sync::atomic::Ordering::Relaxed);
    }
}

/// Everything that the dead owner did comes before its lock is taken over.
pub(crate) fn join_dead_owner(m: *mut Mutex) {
    let last = Mutex::cell(m).last.load(core::sync::atomic::Ordering::Relaxed);
    let Some((owner, _)) = object::unpack(last) else { return };
    // An owner in another process is not in the registry; how far that process came is the session's to know.
    let clock = thread::clock_of(owner).max(outside::latest());
    if let Some(t) = thread::current_if_known() {
        t.join_clock(clock);
    }
}

/// Acquires in a replay: the turn implies that the mutex is free.
unsafe fn replay_acquire(m: *mut Mutex, place: usize) -> c_int {
    if let Some(error) = replay::failure(Kind::Lock) {
        return error;
    }
    if Mutex::exact(m) {
        replay::enter_at(Kind::Lock, place, Mutex::cell(m));
    } else {
        replay::enter(Kind::Lock, place);
    }
    let result = replay::value().map_or(0, |v| v as c_int);
    // SAFETY: the program passed a mutex.
    let met = unsafe { take_free(m, Kind::Lock, result, place) };
    if met != result {
        replay::failed(Kind::Lock, place, result as i64, met as i64);
    }
    replay::leave(Kind::Lock, &[Mutex::cell(m)], Mutex::exact(m));
    if Mutex::is_robust(m) {
        races::robust(Mutex::cell(m), true);
    }
    result
}

/// Takes a mutex that the turn implies to be free, or left by an owner that died, as `result` says.
unsafe fn take_free(m: *mut Mutex, kind: Kind, result: c_int, place: usize) -> c_int {
    // SAFETY: the program passed a mutex.
    let met = unsafe {
        if result == EOWNERDEAD {
            // The dead owner's kernel thread may not be gone yet.
            real::mutex_lock(m.cast())
        } else {
            real::mutex_trylock(m.cast())
        }
    };
    if met == EBUSY {
        replay::busy(kind, place, m as usize);
    }
    met
}

/// Takes `m` again after a condition wait that returned `result`, in a replay, without completing the event.
pub(crate) unsafe fn replay_retake(m: *mut Mutex, kind: Kind, result: c_int, place: usize) -> c_int {
    // SAFETY: the program passed a mutex.
    let met = unsafe { take_free(m, kind, result, place) };
    if Mutex::is_robust(m) {
        races::robust(Mutex::cell(m), true);
    }
    met
}

front!(
    /// `pthread_mutex_lock`
    pthread_mutex_lock, 1, lock
);
front!(
    /// `__pthread_mutex_lock`
    __pthread_mutex_lock, 1, lock
);

pub(crate) unsafe extern "C" fn lock(m: *mut Mutex, place: usize) -> c_int {
    // SAFETY: the program passed a mutex; a thread with a header runs after our constructor.
    unsafe {
        if record::header().is_null() || !Mutex::has_inline_clock(m) {
            return lock_slow(m, place);
        }
        if (&raw const (*m).lock).read_volatile() != 0 {
            wait_briefly(m);
        }
        let result = real::known::mutex_lock(m.cast());
        if result == 0 && record::try_locked(Mutex::inline_cell(m), Kind::Lock) {
            return 0;
        }
        lock_done(m, result)
    }
}

/// [`record_acquired`], kept opaque: a caller that knew it to return its argument would spill registers for it.
#[inline(never)]
unsafe extern "C" fn lock_done(m: *mut Mutex, result: c_int) -> c_int {
    // SAFETY: forwarded; after a success the caller holds the mutex, and with it the clock, which stands inside: `lock`
    // comes here for no other kind.
    let result = unsafe {
        let taken = result == 0 && record::try_jump(Mutex::inline_cell(m), Kind::Lock);
        if taken { 0 } else { record_acquired(m, result) }
    };
    core::hint::black_box(result)
}

/// Gives the holder of a normal mutex time to release it before the caller goes to sleep for it. The events make
/// critical sections a few nanoseconds longer; without this, short ones would meet, and put threads to sleep, twice
/// as often as in a run that is not recorded.
#[cold]
#[inline(never)]
unsafe fn wait_briefly(m: *mut Mutex) {
    // SAFETY: the program passed a mutex.
    unsafe {
        if (*m).kind & TYPE_BITS != 0 {
            return;
        }
        for _ in 0..BRIEFLY {
            core::hint::spin_loop();
            if (&raw const (*m).lock).read_volatile() == 0 {
                return;
            }
        }
    }
}

#[inline(never)]
unsafe fn lock_slow(m: *mut Mutex, place: usize) -> c_int {
    // SAFETY: the program passed a mutex.
    unsafe {
        match mode() {
            Mode::Off => real::mutex_lock(m.cast()),
            Mode::Record => record_acquired(m, real::mutex_lock(m.cast())),
            Mode::Replay => replay_acquire(m, place),
        }
    }
}

front!(
    /// `pthread_mutex_trylock`
    pthread_mutex_trylock, 1, trylock
);
front!(
    /// `__pthread_mutex_trylock`
    __pthread_mutex_trylock, 1, trylock
);

pub(crate) unsafe extern "C" fn trylock(m: *mut Mutex, place: usize) -> c_int {
    // SAFETY: the program passed a mutex.
    unsafe {
        match mode() {
            Mode::Off => real::mutex_trylock(m.cast()),
            Mode::Record => record_acquired(m, real::mutex_trylock(m.cast())),
            Mode::Replay => replay_acquire(m, place),
        }
    }
}

front!(
    /// `pthread_mutex_timedlock`
    pthread_mutex_timedlock, 2, timedlock
);

pub(crate) unsafe extern "C" fn timedlock(m: *mut Mutex, deadline: Deadline, place: usize) -> c_int {
    // SAFETY: the program passed a mutex and a time.
    unsafe {
        match mode() {
            Mode::Off => real::mutex_timedlock(m.cast(), deadline),
            Mode::Record => record_acquired(m, real::mutex_timedlock(m.cast(), deadline)),
            Mode::Replay => replay_acquire(m, place),
        }
    }
}

front!(
    /// `pthread_mutex_clocklock`
    pthread_mutex_clocklock, 3, clocklock
);

unsafe extern "C" fn clocklock(m: *mut Mutex, clock: c_int, deadline: Deadline, place: usize) -> c_int {
    // SAFETY: the program passed a mutex and a time.
    unsafe {
        match mode() {
            Mode::Off => real::mutex_clocklock(m.cast(), clock, deadline),
            Mode::Record => record_acquired(m, real::mutex_clocklock(m.cast(), clock, deadline)),
            Mode::Replay => replay_acquire(m, place),
        }
    }
}

front!(
    /// `pthread_mutex_unlock`
    pthread_mutex_unlock, 1, unlock
);
front!(
    /// `__pthread_mutex_unlock`
    __pthread_mutex_unlock, 1, unlock
);

pub(crate) unsafe extern "C" fn unlock(m: *mut Mutex, place: usize) -> c_int {
    // SAFETY: the program passed a mutex; a thread with a header runs after our constructor.
    unsafe {
        if (*m).kind & !(SHARED | 256 | 512) == 0 && record::try_own(Mutex::inline_cell(m), Kind::Unlock) {
            return real::known::mutex_unlock(m.cast());
        }
        unlock_slow(m, place)
    }
}

#[inline(never)]
unsafe fn unlock_slow(m: *mut Mutex, place: usize) -> c_int {
    // SAFETY: the program passed a mutex.
    unsafe {
        if mode() == Mode::Off || !Mutex::may_unlock(m) {
            // An unlock that fails is the program's own doing and fails alike in a replay.
            return real::mutex_unlock(m.cast());
        }
        release(m, Kind::Unlock, place, || real::mutex_unlock(m.cast()))
    }
}

/// The event before `m` is released, and the release.
pub(crate) unsafe fn release(m: *mut Mutex, kind: Kind, place: usize, effect: impl FnOnce() -> c_int) -> c_int {
    match mode() {
        Mode::Off => effect(),
        Mode::Record => {
            // SAFETY: the calling thread holds the mutex.
            unsafe { record_release(m, kind) };
            effect()
        }
        Mode::Replay => {
            // A normal mutex may be unlocked by whoever has not locked it.
            if kind == Kind::Unlock && Mutex::exact(m) && Mutex::is_own(m) {
                replay::enter_holding(kind, place);
            } else {
                replay::enter(kind, place);
            }
            let robust = Mutex::is_robust(m).then(|| Mutex::cell(m));
            // The clock may not be touched once the mutex is free: its memory may be reused at once. In a replay
            // nobody can take the mutex before this event is complete, so the order of the two is free.
            let (cell, exact) = (Mutex::cell(m), Mutex::exact(m));
            let result = effect();
            replay::leave(kind, &[cell], exact);
            if let Some(cell) = robust {
                races::robust(cell, false);
            }
            result
        }
    }
}

/// Records that the calling thread is about to release `m`.
pub(crate) unsafe fn record_release(m: *mut Mutex, kind: Kind) {
    if Mutex::has_inline_clock(m) {
        record::have(Mutex::cell(m));
        // SAFETY: the calling thread holds the mutex, and with it the clock.
        unsafe { record::exclusive(&raw mut (*m).clock, kind) };
    } else {
        record::shared(&Mutex::cell(m).clock, kind);
    }
}

/// Records that the calling thread woke from a wait on `condition` and holds `m` again.
pub(crate) unsafe fn record_wake(m: *mut Mutex, condition: &Cell) {
    if Mutex::has_inline_clock(m) {
        // SAFETY: the calling thread holds the mutex, and with it the clock.
        unsafe { record::exclusive_and_shared(&raw mut (*m).clock, condition, Kind::Wake) };
        record::have(Mutex::cell(m));
    } else {
        let clock = condition.clock.load(core::sync::atomic::Ordering::Acquire);
        record::shared_joining(&Mutex::cell(m).clock, clock, Kind::Wake);
    }
}
