//! Backtraces that the program takes: our own frames are left out.
//!
//! A handler that strikes an operation finds below its frame those of ours that carry the operation out, and a replay has
//! others there than the recording: it waits, and asks nobody. A program that writes its backtrace when it fails would
//! write something else. So `backtrace` shows the program the frames that are its own and libc's. Who goes from frame
//! to frame by itself sees ours:
//!
//! ```text
//! handler ▸ [ours] ▸ libc's end of a handler ▸ [ours ▸ libc's raise ▸ ours] ▸ program
//! ```
//!
//! What is in brackets is left out: frames of ours anywhere, and behind the end of a handler whatever lies before the last
//! of ours, because the recording may have struck libc's function where the replay struck what stands in front of it.

use crate::module;
use crate::real::real;
use crate::signals;
use core::ffi::c_int;
use relive_rt::runtime::has_flag;
use relive_rt::{Mode, mode};
use relive_sys::signal::is_own_code;
use relive_sys::{aside, front, syscall};
use relive_trace::control::flag;

mod call {
    use super::{c_int, real};

    real! { backtrace = c"backtrace", fn(places: *mut usize, count: c_int) -> c_int; }
}

/// Whether the frames are left out; else only those of the front itself are.
fn leaves_out() -> bool {
    mode() != Mode::Off && (mode() != Mode::Replay || has_flag(flag::BACKTRACES))
}

fn is_libc(place: usize) -> bool {
    module::find(place).is_some_and(|found| found.file.starts_with(b"libc.so.") || found.file.starts_with(b"ld-linux"))
}

/// Runs of frames that are left out besides ours; more handlers than that hardly strike each other.
const RUNS: usize = 4;

/// Goes through the frames once, from the innermost on.
#[derive(Debug)]
struct Scan {
    /// The program's frame that asked; nothing before it counts.
    caller: usize,
    /// Frames so far, from that on.
    frames: u32,
    /// Frames with numbers from the first to below the second are left out.
    runs: [[u32; 2]; RUNS],
    /// How many of these are known.
    known: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The caller has not come yet.
    Before,
    /// The program's own.
    Program,
    /// The next frame is the end of a handler.
    AtEnd,
    /// Behind one, whose next frame has this number: ours and libc's so far.
    Behind(u32),
}

impl Scan {
    fn new(caller: usize) -> Self {
        Self { caller, frames: 0, runs: [[0; 2]; RUNS], known: 0, state: State::Before }
    }

    /// The next frame.
    fn see(&mut self, place: usize) {
        if self.state == State::Before {
            if place != self.caller {
                return;
            }
            self.state = State::Program;
        }
        let number = self.frames;
        self.frames += 1;
        let is_own = is_own_code(place);
        self.state = match self.state {
            State::AtEnd => State::Behind(number + 1),
            State::Behind(_) if signals::is_entry(place) => State::AtEnd,
            State::Behind(first) if is_own => {
                if let Some(run) = self.runs.get_mut(self.known) {
                    *run = [first, number + 1];
                }
                State::Behind(first)
            }
            State::Behind(_) if is_libc(place) => self.state,
            State::Before | State::Program | State::Behind(_) => {
                self.known += usize::from(self.runs.get(self.known).is_some_and(|run| run[1] != 0));
                if signals::is_entry(place) { State::AtEnd } else { State::Program }
            }
        };
    }

    fn leaves_out(&self, number: u32, place: usize) -> bool {
        is_own_code(place) || self.runs.iter().any(|&[first, end]| (first..end).contains(&number))
    }
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
    let start = places[..count].iter().position(|&place| place == caller).unwrap_or(0);
    let mut scan = Scan::new(places.get(start).copied().unwrap_or(0));
    for &place in &places[..count] {
        scan.see(place);
    }
    let leaves_out = leaves_out();
    let mut kept = 0;
    for (number, at) in (start..count).enumerate() {
        let place = places[at];
        if !leaves_out || !scan.leaves_out(u32::try_from(number).unwrap_or(u32::MAX), place) {
            places[kept] = place;
            kept += 1;
        }
    }
    kept
}
