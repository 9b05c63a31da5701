//! Descriptors of the trace's files that stay open, where the environment is
//! recorded: a program that gives up rights (a server that becomes another user,
//! or changes its root) could not open them again.
//!
//! Elsewhere files are opened for each use, because programs close descriptors
//! that they don't know; here their closing calls come to us, and pass ours by.

use crate::runtime::{self, Mode};
use core::sync::atomic::{AtomicI32, Ordering};
use relive_sys::syscall;
use relive_sys::syscall::number::{CLOSE, CLOSE_RANGE, DUP2, DUP3};
use relive_trace::control::flag;

/// Which file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// The data file.
    Data,
    /// The inputs file.
    Inputs,
}

const NONE: i32 = -1;
const EBADF: isize = -9;
/// Ours lie below this number, high enough to be out of a program's way; its table of descriptors grows up to there.
const TOP: u64 = 1024;
const ROOM: u64 = 32;

static HELD: [AtomicI32; 2] = [const { AtomicI32::new(NONE) }; 2];

/// Whether files of this process stay open.
pub fn applies() -> bool {
    runtime::process_mode() == Mode::Record && runtime::has_flag(flag::ENVIRONMENT)
}

/// The descriptor of a file that is held open.
pub fn get(file: Held) -> Option<u32> {
    u32::try_from(HELD[file as usize].load(Ordering::Acquire)).ok()
}

/// Holds a file open from here on. Returns its descriptor.
pub fn keep(file: Held, fd: u32) -> u32 {
    let top = syscall::descriptor_limit().min(TOP);
    let moved = syscall::duplicate_above(fd, top.saturating_sub(ROOM) as u32);
    let kept = match u32::try_from(moved) {
        Ok(moved) => {
            syscall::close(fd);
            moved
        }
        Err(_) => fd,
    };
    HELD[file as usize].store(kept as i32, Ordering::Release);
    kept
}

/// A new process has files of its own.
pub fn start_over() {
    for held in &HELD {
        if let Ok(fd) = u32::try_from(held.swap(NONE, Ordering::AcqRel)) {
            syscall::close(fd);
        }
    }
}

fn ours() -> [Option<usize>; 2] {
    let mut both = [get(Held::Data), get(Held::Inputs)].map(|fd| fd.map(|fd| fd as usize));
    both.sort_unstable();
    both
}

/// Whether a descriptor is one of ours.
#[inline]
pub fn is_held(descriptor: usize) -> bool {
    let descriptor = descriptor as i32;
    descriptor >= 0 && HELD.iter().any(|held| held.load(Ordering::Relaxed) == descriptor)
}

/// Whether a call may close descriptors.
pub const fn closes(number: usize) -> bool {
    matches!(number, CLOSE | CLOSE_RANGE | DUP2 | DUP3)
}

/// The result of a call that would close one of ours; `None` for any other.
///
/// # Safety
/// As for the call itself.
pub unsafe fn passed_by(
    number: usize,
    arguments: &[usize; 6],
    call: unsafe fn(usize, &[usize; 6]) -> isize,
) -> Option<isize> {
    let [first, second, flags, ..] = arguments.map(|argument| argument as u32 as usize);
    match number {
        CLOSE if ours().contains(&Some(first)) => Some(EBADF),
        DUP2 | DUP3 if ours().contains(&Some(second)) => Some(EBADF),
        CLOSE_RANGE if ours().into_iter().flatten().any(|fd| (first..=second).contains(&fd)) => {
            let (mut from, mut result) = (first, 0);
            for end in ours().into_iter().flatten().filter(|fd| (first..=second).contains(fd)).chain([second + 1]) {
                if from < end && result == 0 {
                    // SAFETY: the caller's promise: a part of the range.
                    result = unsafe { call(CLOSE_RANGE, &[from, end - 1, flags, 0, 0, 0]) };
                }
                from = end + 1;
            }
            Some(result)
        }
        _ => None,
    }
}
