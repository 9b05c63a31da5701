//! The pair of events around an operation on one stream.
//!
//! Apart from the operations because `flockfile` and kin are the same pair,
//! taken and ended by the program.

use super::real;
use crate::libc_state::taking_part;
use crate::real::Object;
use core::ffi::c_int;
use relive_order::Kind;
use relive_rt::object::{self, Cell};
use relive_rt::{Mode, mode, record, replay};
use relive_sys::front;
use relive_trace::record::Record;

/// `FILE *`.
pub(super) type File = Object;

/// `_IO_USER_LOCK`: the program asked stdio not to lock this stream.
const USER_LOCK: u32 = 0x8000;

/// `_flags`, the first member of a `FILE`.
pub(super) fn flags(stream: File) -> u32 {
    // SAFETY: a live stream. The bits asked for change only while nobody else uses it.
    unsafe { stream.cast::<u32>().read_volatile() }
}

/// Whether stdio itself locks this stream.
pub(super) fn is_ordered(stream: File) -> bool {
    flags(stream) & USER_LOCK == 0
}

fn cell(stream: File) -> &'static Cell {
    object::cell(stream as usize)
}

/// Locks a stream and takes the event.
#[inline]
pub(super) fn lock(stream: File, place: usize) {
    if mode() == Mode::Replay {
        replay::enter(Kind::StreamLock, place);
        // SAFETY: a live stream. Only an operation that libc does on its own, and that ends by itself, can hold it.
        unsafe { real::flockfile(stream) };
        replay::leave(Kind::StreamLock, &[cell(stream)], false);
    } else {
        // SAFETY: a live stream.
        unsafe { real::flockfile(stream) };
        record::shared(&cell(stream).clock, Kind::StreamLock);
    }
}

/// Whether the operation about to begin is a print added to a rebuilt program, to run without an event.
#[inline]
pub(super) fn is_added() -> bool {
    mode() == Mode::Replay && replay::is_added_operation()
}

/// Marks the lock just recorded as that of an operation.
#[inline]
pub(super) fn mark() {
    if mode() == Mode::Record {
        record::note_quietly(Record::Stream);
    }
}

/// Takes the event and unlocks a stream.
#[inline]
pub(super) fn unlock(stream: File, place: usize) {
    if mode() == Mode::Replay {
        replay::enter(Kind::StreamUnlock, place);
        // SAFETY: a live stream that the calling thread holds.
        unsafe { real::funlockfile(stream) };
        replay::leave(Kind::StreamUnlock, &[cell(stream)], false);
    } else {
        record::shared(&cell(stream).clock, Kind::StreamUnlock);
        // SAFETY: as above.
        unsafe { real::funlockfile(stream) };
    }
}

/// The event of an unlock that came with the end of the stream, whose memory may be another's by now.
pub(super) fn gone(stream: File, place: usize) {
    if mode() == Mode::Replay {
        replay::enter(Kind::StreamUnlock, place);
        replay::leave(Kind::StreamUnlock, &[cell(stream)], false);
    } else {
        record::shared(&cell(stream).clock, Kind::StreamUnlock);
    }
}

front!(
    /// `flockfile`
    flockfile, 1, flockfile_front
);
front!(
    /// `_IO_flockfile`
    _IO_flockfile, 1, flockfile_front
);

unsafe extern "C" fn flockfile_front(stream: File, place: usize) {
    if taking_part() == Mode::Off {
        // SAFETY: the program passed a stream.
        return unsafe { real::flockfile(stream) };
    }
    lock(stream, place);
}

front!(
    /// `funlockfile`
    funlockfile, 1, funlockfile_front
);
front!(
    /// `_IO_funlockfile`
    _IO_funlockfile, 1, funlockfile_front
);

unsafe extern "C" fn funlockfile_front(stream: File, place: usize) {
    if taking_part() == Mode::Off {
        // SAFETY: the program passed a stream that it holds.
        return unsafe { real::funlockfile(stream) };
    }
    unlock(stream, place);
}

front!(
    /// `ftrylockfile`
    ftrylockfile, 1, ftrylockfile_front
);
front!(
    /// `_IO_ftrylockfile`
    _IO_ftrylockfile, 1, ftrylockfile_front
);

unsafe extern "C" fn ftrylockfile_front(stream: File, place: usize) -> c_int {
    match taking_part() {
        // SAFETY: the program passed a stream.
        Mode::Off => unsafe { real::ftrylockfile(stream) },
        Mode::Record => {
            // SAFETY: as above.
            let result = unsafe { real::ftrylockfile(stream) };
            if result == 0 {
                record::shared(&cell(stream).clock, Kind::StreamLock);
            } else {
                record::failure(Kind::StreamLock, result);
            }
            result
        }
        Mode::Replay => {
            if let Some(result) = replay::failure(Kind::StreamLock) {
                return result;
            }
            lock(stream, place);
            0
        }
    }
}
