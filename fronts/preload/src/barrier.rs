//! Barriers: an arrival before waiting, a departure after.
//!
//! All arrivals of a round precede all its departures, because an arrival is
//! recorded before the thread waits. In a replay the turn of the departure is
//! the barrier; the real one is not used, so it may be destroyed and its memory
//! reused the moment the program does so.

use crate::real::{self, Object};
use crate::sharing;
use core::ffi::c_int;
use relive_order::Kind;
use relive_rt::object::Cell;
use relive_rt::{Mode, mode, record, replay};
use relive_sys::front;

/// Offset of the `shared` word in glibc's `pthread_barrier_t`.
const SHARED: usize = 12;

fn cell(barrier: Object) -> &'static Cell {
    // SAFETY: the program passed a barrier of 32 bytes.
    let shared = unsafe { barrier.cast::<u8>().add(SHARED).cast::<u32>().read_volatile() } != 0;
    sharing::cell(barrier as usize, shared)
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
            let cell = cell(barrier);
            record::shared(&cell.clock, Kind::Arrive);
            // SAFETY: the program passed a barrier. It may be gone when this returns; the clock is ours.
            let result = unsafe { real::barrier_wait(barrier) };
            if result != 0 {
                record::result(result as i64);
            }
            record::shared(&cell.clock, Kind::Depart);
            result
        }
        Mode::Replay => {
            let cell = cell(barrier);
            replay::enter(Kind::Arrive, place);
            replay::leave(Kind::Arrive, &[cell], false);
            replay::enter(Kind::Depart, place);
            let result = replay::value().map_or(0, |v| v as c_int);
            replay::leave(Kind::Depart, &[cell], false);
            result
        }
    }
}
