//! Barriers: an arrival before waiting, a departure after.
//!
//! All arrivals of a round precede all its departures, because an arrival is
//! recorded before the thread waits; a departure precedes nothing
//! (`relive_rt::rounds`). In a replay the turn of the departure is
//! the barrier; the real one is not used, so it may be destroyed and its memory
//! reused the moment the program does so.

use crate::real::{self, Object};
use crate::sharing;
use core::ffi::c_int;
use relive_order::Kind;
use relive_rt::rounds::Barrier;
use relive_rt::{Mode, mode, record, replay};
use relive_sys::front;

/// Offsets in glibc's `pthread_barrier_t`: how many threads make a round, and whether it is shared.
const COUNT: usize = 8;
const SHARED: usize = 12;

fn barrier(object: Object) -> Barrier<'static> {
    let word = |offset: usize| {
        // SAFETY: the program passed a barrier of 32 bytes, and arrives there.
        unsafe { object.cast::<u8>().add(offset).cast::<u32>().read_volatile() }
    };
    let shared = word(SHARED) != 0;
    Barrier::new(object as usize, sharing::cell(object as usize, shared), word(COUNT), shared)
}

front!(
    /// `pthread_barrier_wait`
    pthread_barrier_wait, 1, wait
);

unsafe extern "C" fn wait(object: Object, place: usize) -> c_int {
    match mode() {
        // SAFETY: the program passed a barrier.
        Mode::Off => unsafe { real::barrier_wait(object) },
        Mode::Record => {
            let barrier = barrier(object);
            let arrived = barrier.record_arrival();
            // SAFETY: the program passed a barrier. It may be gone when this returns; what we need of it is ours.
            let result = unsafe { real::barrier_wait(object) };
            if result != 0 {
                record::result(result as i64);
            }
            barrier.record_departure(arrived);
            result
        }
        Mode::Replay => {
            let barrier = barrier(object);
            replay::enter(Kind::Arrive, place);
            barrier.comes();
            replay::leave(Kind::Arrive, &[barrier.cell], false);
            replay::enter(Kind::Depart, place);
            let result = replay::value().map_or(0, |v| v as c_int);
            replay::leave_barrier(&barrier);
            result
        }
    }
}
