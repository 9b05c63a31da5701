//! State inside libc that all threads share behind an inner lock: random numbers,
//! handlers at fork, keys, the environment, names of semaphores.
//!
//! The calls neither block nor run the program's code, so each is one event with
//! the real call inside. libc's own lock can't be held around event and call; one
//! of ours is, while recording.

use crate::real::{Object, real as declare};
use core::ffi::{c_char, c_int, c_long, c_uint};
use core::sync::atomic::{AtomicU32, Ordering};
use relive_order::Kind;
use relive_rt::object::{Internal, internal};
use relive_rt::{Mode, mode, process, record, replay, runtime, thread};
use relive_sys::front;
use relive_sys::syscall::{futex_wait, futex_wake};

/// What the calling thread is doing: [`Mode::Off`] also for a thread that the runtime has not met, as at start-up.
#[inline]
pub(crate) fn taking_part() -> Mode {
    match mode() {
        Mode::Off => Mode::Off,
        mode => match thread::current_if_known() {
            None => Mode::Off,
            Some(thread) => {
                if thread.forking.is_some() {
                    process::settle_fork(thread);
                }
                mode
            }
        },
    }
}

/// As [`taking_part`], but [`Mode::Off`] as long as no other thread has ever been in the process: then there is
/// nothing to order. A replay finds the same, because the thread's own past decides it.
#[inline]
pub(crate) fn among_others() -> Mode {
    let mode = taking_part();
    let alone = || thread::current_if_known().is_some_and(|t| t.was_always_alone());
    if mode == Mode::Off || alone() { Mode::Off } else { mode }
}

/// A lock that a fork child does not inherit: it knows the process of its holder.
#[derive(Debug)]
pub(crate) struct OwnLock(AtomicU32);

const WAITED_FOR: u32 = 1;

impl OwnLock {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    pub(crate) fn acquire(&self) {
        let held = runtime::pid() << 1;
        let mut wanted = held;
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            if seen & !WAITED_FOR != held {
                match self.0.compare_exchange_weak(seen, wanted, Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => return,
                    Err(now) => seen = now,
                }
                continue;
            }
            wanted = held | WAITED_FOR;
            if seen == wanted || self.0.compare_exchange(seen, wanted, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                futex_wait(&self.0, wanted, None);
            }
            seen = self.0.load(Ordering::Relaxed);
        }
    }

    pub(crate) fn release(&self) {
        if self.0.swap(0, Ordering::Release) & WAITED_FOR != 0 {
            futex_wake(&self.0, 1);
        }
    }
}

/// One of libc's inner states.
#[derive(Debug)]
pub(crate) struct State {
    lock: OwnLock,
    object: Internal,
}

impl State {
    pub(crate) const fn new(object: Internal) -> Self {
        Self { lock: OwnLock::new(), object }
    }

    /// One event, then `effect`, with a lock of ours around both. The effect may take events of its own (it maps memory):
    /// whoever comes next comes after those, too, or a replay could wait in a circle.
    pub(crate) fn call<R>(&self, place: usize, effect: impl FnOnce() -> R) -> R {
        match among_others() {
            Mode::Off => effect(),
            Mode::Record => {
                self.lock.acquire();
                record::shared(&internal(self.object).clock, Kind::LibcCall);
                let result = effect();
                record::raise(&internal(self.object).clock);
                self.lock.release();
                result
            }
            Mode::Replay => {
                replay::enter(Kind::LibcCall, place);
                self.lock.acquire();
                replay::leave(Kind::LibcCall, &[internal(self.object)], false);
                let result = effect();
                self.lock.release();
                result
            }
        }
    }
}

static RANDOM: State = State::new(Internal::Random);
static DRAND48: State = State::new(Internal::Drand48);
static AT_FORK: State = State::new(Internal::Processes);
static KEYS: State = State::new(Internal::Keys);
static ENVIRONMENT: State = State::new(Internal::Environment);
static NAMES: State = State::new(Internal::Names);

/// Declares fronts: the symbol, how many arguments it has, its state and its C signature.
macro_rules! calls {
    ($($name:ident, $arity:tt, $state:ident, $symbol:literal $(@ $version:literal)?,
       $front:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)?;)*) => {
        mod real {
            use super::*;
            declare! { $($name = $symbol $(@ $version)?, fn($($arg: $ty),*) $(-> $ret)?;)* }
        }
        $(
            front!(#[doc = concat!("`", stringify!($name), "`")] $name, $arity, $front);

            unsafe extern "C" fn $front($($arg: $ty,)* place: usize) $(-> $ret)? {
                // SAFETY: forwarded; the program keeps the function's contract.
                $state.call(place, || unsafe { real::$name($($arg),*) })
            }
        )*
    };
}

/// Apart, because its result is in another register.
mod drand48 {
    use super::{DRAND48, declare, front};

    declare! { real = c"drand48", fn() -> f64; }
    front!(/** `drand48` */ number drand48, 0, drawn);

    unsafe extern "C" fn drawn(place: usize) -> f64 {
        // SAFETY: forwarded; it takes nothing.
        DRAND48.call(place, || unsafe { real() })
    }
}

type Text = *const c_char;

calls! {
    rand, 0, RANDOM, c"rand", rand_front() -> c_int;
    srand, 1, RANDOM, c"srand", srand_front(seed: c_uint);
    random, 0, RANDOM, c"random", random_front() -> c_long;
    srandom, 1, RANDOM, c"srandom", srandom_front(seed: c_uint);
    initstate, 3, RANDOM, c"initstate", initstate_front(seed: c_uint, state: Object, size: usize) -> Object;
    setstate, 1, RANDOM, c"setstate", setstate_front(state: Object) -> Object;

    lrand48, 0, DRAND48, c"lrand48", lrand48_front() -> c_long;
    mrand48, 0, DRAND48, c"mrand48", mrand48_front() -> c_long;
    srand48, 1, DRAND48, c"srand48", srand48_front(seed: c_long);
    seed48, 1, DRAND48, c"seed48", seed48_front(seed: Object) -> Object;
    lcong48, 1, DRAND48, c"lcong48", lcong48_front(parameters: Object);

    __register_atfork, 4, AT_FORK, c"__register_atfork",
        atfork_front(prepare: usize, parent: usize, child: usize, module: usize) -> c_int;
    pthread_atfork, 3, AT_FORK, c"pthread_atfork" @ c"GLIBC_2.2.5",
        old_atfork_front(prepare: usize, parent: usize, child: usize) -> c_int;

    pthread_key_create, 2, KEYS, c"pthread_key_create", key_create_front(key: Object, end: usize) -> c_int;
    __pthread_key_create, 2, KEYS, c"__pthread_key_create", old_key_create_front(key: Object, end: usize) -> c_int;
    pthread_key_delete, 1, KEYS, c"pthread_key_delete", key_delete_front(key: c_uint) -> c_int;
    tss_create, 2, KEYS, c"tss_create", tss_create_front(key: Object, end: usize) -> c_int;
    tss_delete, 1, KEYS, c"tss_delete", tss_delete_front(key: c_uint);

    setenv, 3, ENVIRONMENT, c"setenv", setenv_front(name: Text, value: Text, overwrite: c_int) -> c_int;
    unsetenv, 1, ENVIRONMENT, c"unsetenv", unsetenv_front(name: Text) -> c_int;
    putenv, 1, ENVIRONMENT, c"putenv", putenv_front(assignment: Text) -> c_int;
    clearenv, 0, ENVIRONMENT, c"clearenv", clearenv_front() -> c_int;

    sem_open, 4, NAMES, c"sem_open",
        sem_open_front(name: Text, flags: c_int, permissions: c_uint, value: c_uint) -> Object;
    sem_close, 1, NAMES, c"sem_close", sem_close_front(semaphore: Object) -> c_int;
    sem_unlink, 1, NAMES, c"sem_unlink", sem_unlink_front(name: Text) -> c_int;
}
