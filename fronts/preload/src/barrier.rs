//! Barriers: an arrival before waiting, a departure after.
//!
//! All arrivals of a round precede all its departures, because an arrival is
//! recorded before the thread waits; a departure precedes nothing
//! (`relive_rt::rounds`). In a replay the turn of the departure is the barrier; the
//! real one is not used, so it may be destroyed and its memory reused the moment the
//! program does so.

use crate::real::{self, Object};
use crate::sharing;
use core::ffi::c_int;
use relive_order::Kind;
use relive_rt::object::Cell;
use relive_rt::rounds::Arrival;
use relive_rt::{Mode, mode, record, replay, thread};
use relive_sys::front;

/// Offsets in glibc's `pthread_barrier_t`: how many threads make a round, and whether it is shared.
const COUNT: usize = 8;
const SHARED: usize = 12;

/// How many threads make a round of a barrier, whether other processes may use it, and its clock.
fn look(barrier: Object) -> (u32, bool, &'static Cell) {
    let word = |offset: usize| {
        // SAFETY: the program passed a barrier of 32 bytes, and arrives there.
        unsafe { barrier.cast::<u8>().add(offset).cast::<u32>().read_volatile() }
    };
    let shared = word(SHARED) != 0;
    (word(COUNT), shared, sharing::cell(barrier as usize, shared))
}

front!(
    /// `pthread_barrier_wait`
    pthread_barrier_wait, 1, wait
);

unsafe extern "C" fn wait(barrier: Object, place: usize) -> c_int {
    match mode() {
        // SAFETY: the program passed a barrier.
        Mode::Off => unsafe { real::barrier_wait(barrier) },
        Mode::Record => {
            let (parties, shared, cell) = look(barrier);
            let arrival = Arrival::record(barrier as usize, cell, parties, shared);
            // SAFETY: the program passed a barrier. It may be gone when this returns; the clock is ours.
            let result = unsafe { real::barrier_wait(barrier) };
            if result != 0 {
                record::result(result as i64);
            }
            arrival.record_departure();
            result
        }
        Mode::Replay => {
            let (parties, _, cell) = look(barrier);
            replay::enter(Kind::Arrive, place);
            thread::current().parties = parties;
            replay::leave(Kind::Arrive, &[cell], false);
            replay::enter(Kind::Depart, place);
            let result = replay::value().map_or(0, |v| v as c_int);
            replay::leave_untouched(Kind::Depart, cell);
            result
        }
    }
}
