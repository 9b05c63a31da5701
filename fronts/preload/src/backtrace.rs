//! Backtraces that the program takes: our own frames are left out.
//!
//! A handler that strikes an operation finds below its frame those of ours that carry the operation out, and a replay has
//! others there than the recording: it waits, and asks nobody. A program that writes its backtrace when it fails would
//! write something else. So `backtrace`, and `_Unwind_Backtrace` by which C++ and Rust look at the stack, show the program
//! the frames that are its own and libc's. Who goes from frame to frame by itself (libunwind) sees ours:
//!
//! ```text
//! handler ▸ [ours] ▸ libc's end of a handler ▸ [ours ▸ libc's raise ▸ ours] ▸ program
//! ```
//!
//! What is in brackets is left out: frames of ours anywhere, and behind the end of a handler whatever lies before the last
//! of ours, because the recording may have struck libc's function where the replay struck what stands in front of it.

mod scan;
mod unwind;

use crate::real::real;
use core::ffi::c_int;
use relive_rt::runtime::has_flag;
use relive_rt::{Mode, mode};
use relive_sys::{aside, front, syscall};
use relive_trace::control::flag;
use scan::Scan;

mod call {
    use super::{c_int, real};

    real! { backtrace = c"backtrace", fn(places: *mut usize, count: c_int) -> c_int; }
}

/// Whether our frames are left out, which replays know by this flag; else only those of the front itself are.
fn leaves_out(known_by: u32) -> bool {
    mode() != Mode::Off && (mode() != Mode::Replay || has_flag(known_by))
}

front!(
    /// `backtrace`
    backtrace, 2, backtrace_front
);

unsafe extern "C" fn backtrace_front(places: *mut usize, count: c_int, place: usize) -> c_int {
    /// Frames of ours, at most as many as a few handlers that struck operations leave.
    const OURS: usize = 256;
    const AT_HAND: usize = 512;
    let wanted = usize::try_from(count).unwrap_or(0);
    if wanted == 0 {
        return 0;
    }
    // SAFETY: the caller's promise.
    let places = unsafe { core::slice::from_raw_parts_mut(places, wanted) };
    let room = wanted.saturating_add(OURS);
    // On the program's stack, which may be a small one, there is no room for more: few of ours are on it.
    if !aside::has_one() {
        return c_int::try_from(take(places, place)).unwrap_or(0);
    }
    if room <= AT_HAND {
        return copied(&mut [0; AT_HAND], places, place);
    }
    let bytes = room.saturating_mul(size_of::<usize>());
    let memory = syscall::mmap(bytes, syscall::MAP_PRIVATE_ANONYMOUS, -1, 0);
    if memory < 0 {
        return 0;
    }
    // SAFETY: a mapping of that size, of nobody else, which is not used behind the copy.
    unsafe {
        let filled = copied(core::slice::from_raw_parts_mut(memory as *mut usize, room), places, place);
        syscall::munmap(memory as usize, bytes);
        filled
    }
}

fn copied(room: &mut [usize], places: &mut [usize], caller: usize) -> c_int {
    let count = take(room, caller).min(places.len());
    places[..count].copy_from_slice(&room[..count]);
    c_int::try_from(count).unwrap_or(0)
}

/// Takes a backtrace, and leaves of it what is to be seen. How much that is.
fn take(places: &mut [usize], caller: usize) -> usize {
    // SAFETY: room for as many.
    let count = unsafe { call::backtrace(places.as_mut_ptr(), c_int::try_from(places.len()).unwrap_or(c_int::MAX)) };
    let count = usize::try_from(count).unwrap_or(0);
    let mut scan = Scan::new();
    for &place in &places[..count] {
        scan.see(place, caller);
    }
    scan.again();
    let (mut kept, leaves_out) = (0, leaves_out(flag::BACKTRACES));
    for at in 0..count {
        let place = places[at];
        if scan.shows(place, caller, leaves_out) {
            places[kept] = place;
            kept += 1;
        }
    }
    kept
}
