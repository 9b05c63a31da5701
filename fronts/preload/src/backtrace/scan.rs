//! Which frames of a stack are left out.
//!
//! Apart from those who ask for frames because it knows nothing of where they come from.

use crate::{module, signals};
use relive_sys::signal::is_own_code;

fn is_libc(place: usize) -> bool {
    module::find(place).is_some_and(|found| found.file.starts_with(b"libc.so.") || found.file.starts_with(b"ld-linux"))
}

/// Runs of frames that are left out besides ours; more handlers than that hardly strike each other.
const RUNS: usize = 4;

/// Goes through the frames once, from the innermost on, and perhaps once more.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Scan {
    /// Frames so far, from the caller's on: the program's frame that asked. Nothing before it counts.
    frames: u32,
    /// Frames with numbers from the first to below the second are left out.
    runs: [[u32; 2]; RUNS],
    state: State,
    /// How many of the runs are known.
    known: u8,
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
    pub(super) fn new() -> Self {
        Self { frames: 0, runs: [[0; 2]; RUNS], known: 0, state: State::Before }
    }

    /// The number of the next frame, if it counts.
    fn count(&mut self, place: usize, caller: usize) -> Option<u32> {
        if self.state == State::Before {
            if place != caller {
                return None;
            }
            self.state = State::Program;
        }
        self.frames += 1;
        Some(self.frames - 1)
    }

    /// The next frame, of those up to `caller`'s and its callers.
    pub(super) fn see(&mut self, place: usize, caller: usize) {
        let Some(number) = self.count(place, caller) else { return };
        let is_own = is_own_code(place);
        self.state = match self.state {
            State::AtEnd => State::Behind(number + 1),
            State::Behind(_) if signals::is_entry(place) => State::AtEnd,
            State::Behind(first) if is_own => {
                if let Some(run) = self.runs.get_mut(usize::from(self.known)) {
                    *run = [first, number + 1];
                }
                State::Behind(first)
            }
            State::Behind(_) if is_libc(place) => self.state,
            State::Before | State::Program | State::Behind(_) => {
                let is_run = self.runs.get(usize::from(self.known)).is_some_and(|run| run[1] != 0);
                self.known += u8::from(is_run);
                if signals::is_entry(place) { State::AtEnd } else { State::Program }
            }
        };
    }

    /// All frames were seen, and come once more. Where the caller's was none of them, whatever comes counts.
    pub(super) fn again(&mut self) {
        self.state = if self.state == State::Before { State::Program } else { State::Before };
        self.frames = 0;
    }

    /// The next frame once more: whether it is there for the program. It is from the caller's on, unless it `leaves_out` others.
    pub(super) fn shows(&mut self, place: usize, caller: usize, leaves_out: bool) -> bool {
        let Some(number) = self.count(place, caller) else { return false };
        let is_left = is_own_code(place) || self.runs.iter().any(|&[first, end]| (first..end).contains(&number));
        !leaves_out || !is_left
    }
}
