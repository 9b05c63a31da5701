//! What a replay shows: writes to the recorded standard output and error.
//!
//! Nothing else that a replayed program writes goes anywhere.

mod given;
mod opened;
mod order;
mod writing;

pub(super) use given::{check, compare};
pub(super) use opened::opened;
pub(super) use writing::begin;

use super::{alone, descriptors};
use crate::replay::calls as replayed;
use crate::runtime::{self, Mode};
use crate::thread::Thread;
use crate::{record, replay};
use core::sync::atomic::{AtomicU32, Ordering};
use relive_sys::syscall::number::{
    COPY_FILE_RANGE, PWRITE64, PWRITEV, PWRITEV2, SENDFILE, SENDMSG, SENDTO, SPLICE, WRITE, WRITEV,
};
use relive_sys::{signal, syscall};
use relive_trace::control::flag;

/// Descriptors that an image may start with, the standard ones and those that a shell has duplicated: as many as have
/// room in the value that a recording keeps.
const INHERITED: usize = size_of::<i64>();

/// Finds out, or is told by the recording, which of the first descriptors are the session's: in a pipeline the first
/// program's output is not.
pub(super) fn start() {
    match runtime::mode() {
        Mode::Record => {
            let shown = (0..INHERITED).fold(0, |bits, fd| bits | i64::from(session_output(fd as u32)) << (8 * fd));
            record::value(shown);
            begin_with(shown);
        }
        Mode::Replay => begin_with(replay::value().unwrap_or(0)),
        Mode::Off => {}
    }
}

fn begin_with(shown: i64) {
    (0..INHERITED).for_each(|fd| descriptors::set(fd, (shown >> (8 * fd)) as u8 & 3));
}

/// Whether a call would move data to the session's output past the program's memory, where a recording could not see
/// it. Programs fall back to reading and writing.
pub(super) fn moves_unseen(number: usize, arguments: &[usize; 6]) -> bool {
    destination(number).is_some_and(|index| descriptors::shown_by(arguments[index]).is_some())
}

/// The argument that says where a call moves what no buffer of the program's ever holds.
pub(super) const fn destination(number: usize) -> Option<usize> {
    match number {
        SENDFILE => Some(0),
        SPLICE | COPY_FILE_RANGE => Some(2),
        _ => None,
    }
}

/// Which of the launcher's outputs a descriptor is: 1, 2, or 0 for none.
fn session_output(fd: u32) -> u8 {
    let Some(file) = syscall::file_identity(fd) else { return 0 };
    let outputs = &runtime::session().outputs;
    let is = |number: u8| outputs[usize::from(number) - 1].each_ref().map(|word| word.load(Ordering::Relaxed)) == file;
    // Both may be the same terminal.
    let candidates = if fd == 2 { [2, 1] } else { [1, 2] };
    candidates.into_iter().find(|&number| is(number)).unwrap_or(0)
}

/// Whether a call gives away what it finds in the program's memory, and may do so to the session's output.
pub(super) const fn writes(number: usize) -> bool {
    matches!(number, WRITE | WRITEV | SENDTO | SENDMSG) || writes_at_a_place(number)
}

/// Likewise, where in the file the call says.
const fn writes_at_a_place(number: usize) -> bool {
    matches!(number, PWRITE64 | PWRITEV | PWRITEV2)
}

/// Whether a call writes to the session's output.
#[inline(always)]
pub(super) fn is_shown(number: usize, arguments: &[usize; 6]) -> bool {
    writes(number) && descriptors::shown_by(arguments[0]).is_some()
}

/// After a call of the program that succeeded or failed as recorded: which descriptors are the session's output from here on.
///
/// # Safety
/// What the arguments of a call that succeeded name must be as it was.
pub(super) unsafe fn follow(number: usize, arguments: &[usize; 6], result: isize) {
    descriptors::follow(number, arguments, result);
    // SAFETY: the caller's promise.
    unsafe { opened(number, arguments, result) };
}

/// After a call of a recording, which is in the thread's stream.
#[inline(always)]
pub(super) fn wrote(thread: &mut Thread, number: usize, arguments: &[usize; 6], result: isize) {
    if result > 0 && is_shown(number, arguments) {
        order::wrote(thread);
    }
}

/// After a call that wrote `result` bytes in the recording.
///
/// # Safety
/// The program's buffers must be readable.
pub(super) unsafe fn show(number: usize, arguments: &[usize; 6], result: isize) {
    let [descriptor, _, count, ..] = *arguments;
    if result <= 0 || !writes(number) {
        return;
    }
    if matches!(number, WRITE | PWRITE64 | SENDTO) && count < result as usize {
        // It has less to say than it had: what stands behind its words in memory must not be shown as its own.
        replayed::diverge(number);
    }
    let turn = descriptors::shown_by(descriptor).is_some().then(order::enter);
    let Some(shown) = alone::shown_by(descriptor, descriptors::shown_by(descriptor)) else { return };
    // SAFETY: the caller's promise.
    unsafe {
        each_piece(number, arguments, result, &mut |address, length| {
            write_all(shown, news(shown, core::slice::from_raw_parts(address as *const u8, length)));
        });
    }
    if let Some(number) = turn {
        order::leave(number);
    }
}

/// What of `bytes` no earlier attempt of this replay has shown: each one shows the same up to where it diverged.
fn news(shown: u32, bytes: &[u8]) -> &[u8] {
    let (session, output) = (runtime::session(), shown as usize - 1);
    let before = session.output_bytes_before[output].load(Ordering::Relaxed);
    let begin = session.output_bytes[output].fetch_add(bytes.len() as u64, Ordering::Relaxed);
    let known = before.saturating_sub(begin).min(bytes.len() as u64);
    &bytes[known as usize..]
}

/// Calls `visit` with address and length of each piece of memory that a call gave away, which moved `result` bytes.
///
/// # Safety
/// The program's buffers must be readable.
pub(super) unsafe fn each_piece(
    number: usize,
    arguments: &[usize; 6],
    result: isize,
    visit: &mut dyn FnMut(usize, usize),
) {
    let [_, buffer, count, ..] = *arguments;
    let given = usize::try_from(result).unwrap_or(0);
    // SAFETY: the caller's promise, in each branch.
    unsafe {
        match number {
            WRITE | PWRITE64 | SENDTO => visit(buffer, given.min(count)),
            WRITEV | PWRITEV | PWRITEV2 => each_entry(buffer as *const Entry, count, given, visit),
            SENDMSG => {
                // `struct msghdr`: a name and its length stand before the pieces.
                let [_, _, entries, count] = (buffer as *const [usize; 4]).read_unaligned();
                each_entry(entries as *const Entry, count, given, visit);
            }
            _ => {}
        }
    }
}

/// An address and a length.
type Entry = [usize; 2];

/// The pieces of an array of `count` entries, up to `left` bytes in all.
///
/// # Safety
/// Entries of so many bytes must be readable.
unsafe fn each_entry(entries: *const Entry, count: usize, mut left: usize, visit: &mut dyn FnMut(usize, usize)) {
    for index in 0..count {
        // SAFETY: the caller's promise.
        let [address, length] = unsafe { entries.add(index).read_unaligned() };
        let length = length.min(left);
        visit(address, length);
        left -= length;
        if left == 0 {
            return;
        }
    }
}

/// Where nothing more can be shown, because nobody reads or the disk is full, the launcher hears of it, and ends the replay.
fn write_all(fd: u32, mut bytes: &[u8]) {
    const PAUSE_MS: u32 = 1;
    const STANDARD_ERROR: u32 = 2;
    // Who looks for races has seen what the program prints when it was recorded.
    let hidden = if fd == STANDARD_ERROR { flag::SILENT } else { 0 };
    if runtime::has_flag(hidden | flag::RACES | flag::RACES_WATCHED) {
        return;
    }
    let unread = &runtime::session().unread;
    while !bytes.is_empty() && unread.load(Ordering::Relaxed) == 0 {
        match signal::write_unsignalled(fd, bytes) {
            syscall::EINTR => {}
            syscall::EAGAIN => {
                syscall::futex_wait(&AtomicU32::new(0), 0, Some(PAUSE_MS));
            }
            written if written > 0 => bytes = &bytes[written as usize..],
            // Whoever has closed it wants to see nothing.
            0 | syscall::EBADF => return,
            error => {
                unread.store(error.unsigned_abs() as u32, Ordering::Relaxed);
                runtime::ring();
            }
        }
    }
}
