//! libc's list of all streams, which `fflush(NULL)` goes through.
//!
//! libc adds a stream at the head when it is opened, so the list's order depends
//! on who opens first, and the stream is there before the call returns. A stream
//! that was opened is therefore moved to the head once more and marked, as an
//! event; one that is about to be closed loses mark and place as an event. What
//! goes through the list is an event at both ends and a pair for each marked
//! stream that can be written to; others are libc's own.
//!
//! Recording, the whole of it holds the list's own lock, as in libc. Replaying
//! nobody holds that lock across an event: libc takes it for streams of its own,
//! at moments of which nothing is known. The order alone keeps the list as it was.

use super::real;
use super::stream::{self, File};
use crate::libc_state::among_others;
use relive_order::Kind;
use relive_rt::object::{Internal, internal};
use relive_rt::{Mode, mode, record, replay};

const LINKED: u32 = 0x80;
const NO_WRITES: u32 = 0x8;
const LINE_BUFFERED: u32 = 0x200;

/// A bit of `_flags2` that glibc has no use for: the stream has had its event.
const MARK: u32 = 1 << 20;
/// Offset of `_flags2` in a `FILE`.
const FLAGS2: usize = 116;

/// `_flags2` of a live stream.
pub(super) fn flags2(stream: File) -> *mut u32 {
    stream.cast::<u8>().wrapping_add(FLAGS2).cast()
}

/// Marks a stream that nobody else uses at this moment, or takes the mark away.
unsafe fn mark(stream: File, is: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        let flags = flags2(stream);
        *flags = if is { *flags | MARK } else { *flags & !MARK };
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static START: unsafe extern "C" fn() = start;

/// The streams that are there from the start have had their event.
unsafe extern "C" fn start() {
    // SAFETY: there is one thread.
    unsafe {
        let mut stream = real::iterate();
        while !stream.is_null() {
            mark(stream, true);
            stream = real::iterate_next(stream);
        }
    }
}

/// Which streams are flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filter {
    /// Those that hold something to be written.
    Pending,
    /// Of those, the ones flushed at the end of each line.
    LineBuffered,
}

impl Filter {
    /// Whether `stream` is one of them. The calling thread holds it.
    pub(super) fn wants(self, stream: File) -> bool {
        let buffered_so = self == Filter::Pending || stream::flags(stream) & LINE_BUFFERED != 0;
        // SAFETY: a live stream.
        buffered_so && unsafe { real::pending(stream) } != 0
    }
}

/// One event on the list, with `effect` inside.
fn event(place: usize, effect: impl FnOnce()) {
    if mode() == Mode::Replay {
        replay::enter(Kind::LibcCall, place);
        effect();
        replay::leave(Kind::LibcCall, &[internal(Internal::Streams)], false);
    } else {
        record::shared(&internal(Internal::Streams).clock, Kind::LibcCall);
        effect();
    }
}

/// A stream was opened, perhaps: gives it its place in the list.
pub(crate) fn join(stream: File, place: usize) {
    if stream.is_null() || mode() == Mode::Off || stream::flags(stream) & LINKED == 0 {
        return;
    }
    // SAFETY: a live stream that only its maker knows; the list's lock is recursive and held for a moment.
    unsafe {
        if among_others() == Mode::Off {
            return mark(stream, true);
        }
        let recording = mode() == Mode::Record;
        if recording {
            real::list_lock();
        }
        event(place, || {
            real::unlink(stream);
            real::link(stream);
            mark(stream, true);
        });
        if recording {
            real::list_unlock();
        }
    }
}

/// A stream is about to be closed: starts its last pair of events and takes it out of the list.
pub(super) fn part(stream: File, place: usize) {
    // SAFETY: a live stream. The list's lock comes before a stream's own, as in libc.
    unsafe {
        let recording = mode() == Mode::Record;
        if recording {
            real::list_lock();
        }
        stream::lock(stream, place);
        if *flags2(stream) & MARK != 0 {
            event(place, || {
                mark(stream, false);
                real::unlink(stream);
            });
        }
        if recording {
            real::list_unlock();
        }
    }
}

/// libc's fork is about to take the list's lock, and keeps it while it has events of its own: whoever opens a stream
/// comes before those, and before the child, or behind. Whether there are others, and [`forked`] is to follow.
pub(crate) fn forking() -> bool {
    if among_others() == Mode::Off {
        return false;
    }
    enter(0);
    if mode() == Mode::Replay {
        // libc's own streams come and go at moments that nobody knows. None of them may have to wait for this fork while
        // the fork waits for its thread.
        replay::await_next();
    }
    true
}

/// It has given the lock back, or is in the child.
pub(crate) fn forked(is_child: bool) {
    if !is_child {
        leave(1, 0);
    } else if mode() == Mode::Record {
        // libc does so, too, unless it takes the parent for one that has a single thread.
        // SAFETY: there is one thread, and it holds the lock for `forking` if anybody does.
        unsafe { real::list_reset() };
    }
}

/// Starts going through the list. The result is for [`leave`].
pub(super) fn enter(place: usize) -> usize {
    if mode() == Mode::Replay {
        replay::enter(Kind::LibcEnter, place);
        replay::leave(Kind::LibcEnter, &[internal(Internal::Streams)], false);
        return 0;
    }
    // SAFETY: a recursive lock of libc, given back in `leave`.
    unsafe { real::list_lock() };
    record::shared(&internal(Internal::Streams).clock, Kind::LibcEnter);
    1
}

/// Ends what [`enter`] started.
pub(super) fn leave(entered: usize, place: usize) {
    if mode() == Mode::Replay {
        replay::enter(Kind::LibcLeave, place);
        replay::leave(Kind::LibcLeave, &[internal(Internal::Streams)], false);
        return;
    }
    record::shared(&internal(Internal::Streams).clock, Kind::LibcLeave);
    if entered != 0 {
        // SAFETY: taken in `enter`.
        unsafe { real::list_unlock() };
    }
}

/// The stream with this number among the marked ones that can be written to.
pub(super) fn written(number: usize) -> Option<File> {
    // SAFETY: the list is walked under its lock; its streams are live.
    unsafe {
        real::list_lock();
        let mut stream = real::iterate();
        let mut left = number;
        while !stream.is_null() {
            if stream::flags(stream) & NO_WRITES == 0 && *flags2(stream) & MARK != 0 {
                if left == 0 {
                    break;
                }
                left -= 1;
            }
            stream = real::iterate_next(stream);
        }
        real::list_unlock();
        (!stream.is_null()).then_some(stream)
    }
}

/// `fopencookie`: its callbacks are passed by value on the stack. It calls none of them.
///
/// # Safety
/// As for libc's.
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn fopencookie() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "push rdi",
        "push rsi",
        "call {find}",
        "pop rsi",
        "pop rdi",
        "push [rbp + 40]",
        "push [rbp + 32]",
        "push [rbp + 24]",
        "push [rbp + 16]",
        "call rax",
        "mov rdi, rax",
        "mov rsi, [rbp + 8]",
        "call {joined}",
        "leave",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        find = sym find_fopencookie,
        joined = sym joined,
    )
}

extern "C" fn find_fopencookie() -> usize {
    real::at::fopencookie.address()
}

extern "C" fn joined(stream: File, place: usize) -> File {
    join(stream, place);
    stream
}
