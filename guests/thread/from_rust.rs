//! Another language that reaches pthread through the dynamic linker: threads of
//! Rust's standard library, which are pthread's, around a pthread mutex and condition.
//! Rust's own locks are futexes of their own and take no part.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::thread;

unsafe extern "C" {
    fn pthread_mutex_lock(mutex: *mut c_void) -> c_int;
    fn pthread_mutex_unlock(mutex: *mut c_void) -> c_int;
    fn pthread_cond_wait(condition: *mut c_void, mutex: *mut c_void) -> c_int;
    fn pthread_cond_broadcast(condition: *mut c_void) -> c_int;
}

/// All bytes zero is the static initialiser of both on Linux.
#[repr(C, align(16))]
struct Shared {
    mutex: UnsafeCell<[u8; 64]>,
    condition: UnsafeCell<[u8; 64]>,
    state: UnsafeCell<State>,
}

struct State {
    hash: u64,
    effects: usize,
    first: Vec<u8>,
}

// SAFETY: `state` is only reached by `Shared::locked`, which holds `mutex`.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared {
    mutex: UnsafeCell::new([0; 64]),
    condition: UnsafeCell::new([0; 64]),
    state: UnsafeCell::new(State { hash: 0, effects: 0, first: Vec::new() }),
};

impl Shared {
    fn locked(&self, then: impl FnOnce(&Self, &mut State)) {
        // SAFETY: a zeroed mutex is initialised and large enough; this thread does
        // not hold it, as `then` never calls `locked`.
        unsafe {
            assert_eq!(pthread_mutex_lock(self.mutex.get().cast()), 0);
            then(self, &mut *self.state.get());
            assert_eq!(pthread_mutex_unlock(self.mutex.get().cast()), 0);
        }
    }
}

impl State {
    fn note(&mut self, who: usize) {
        self.hash = (self.hash ^ who as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        self.effects += 1;
        if self.first.len() < 64 {
            self.first.push(b'0' + who as u8);
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>().expect("a number"));
    let threads = arguments.next().unwrap_or(4);
    let rounds = arguments.next().unwrap_or(200);
    // What the standard library makes when the first thread ends, by whichever comes first, is made here.
    thread::spawn(|| ()).join().expect("a thread that does nothing");
    let crew: Vec<_> = (0..threads)
        .map(|who| {
            thread::spawn(move || {
                for round in 0..rounds {
                    SHARED.locked(|_, state| state.note(who));
                    if round % 16 == 0 {
                        thread::yield_now();
                    }
                }
                SHARED.locked(|shared, state| {
                    state.note(who);
                    // SAFETY: called with the mutex held, on zeroed and so initialised
                    // objects; nobody else touches `state` before the wait returns with
                    // the mutex held again.
                    unsafe {
                        while (*shared.state.get()).effects < threads * (rounds + 1) {
                            assert_eq!(pthread_cond_wait(shared.condition.get().cast(), shared.mutex.get().cast()), 0);
                        }
                        assert_eq!(pthread_cond_broadcast(shared.condition.get().cast()), 0);
                    }
                });
            })
        })
        .collect();
    for thread in crew {
        thread.join().expect("a thread that did not panic");
    }
    SHARED.locked(|_, state| {
        println!("order {:016x} {} {}", state.hash, state.effects, String::from_utf8_lossy(&state.first));
    });
}
