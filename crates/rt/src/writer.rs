//! Appends records to a thread's stream: its chunk of the data file.
//!
//! Apart from the gate because replay writes learnt order the same way.

use crate::record::attention;
use crate::thread::Thread;
use crate::{Mode, arena, chunk, inputs, limit, mode, runtime};
use core::ptr::null_mut;
use core::sync::atomic::Ordering;
use relive_order::Kind;
use relive_order::kind::Family;
use relive_sys::tls;
use relive_trace::layout::{CHUNK_HEADER_BYTES, CHUNK_SIZES, ChunkHeader, stop};

/// Any record with its bytes fits a thread's second chunk, and so each that follows.
const _: () = assert!(RECORD_BYTES_MAX as u32 + CALL_BYTES_MAX + CHUNK_HEADER_BYTES <= CHUNK_SIZES[1]);
use relive_trace::record::{CALL_BYTES_MAX, Place, RECORD_BYTES_MAX, Record, encode, encode_call};

/// Gives a thread its first chunk. `false` if recording had to stop.
pub fn open_stream(thread: &mut Thread, start_clock: u64) -> bool {
    let seed = ChunkHeader {
        magic: 0,
        size: CHUNK_SIZES[0],
        thread: thread.index,
        sequence: 0,
        used: 0,
        hash: 0,
        events: 0,
        clock: start_clock,
        run_kind: 0,
        flags: 0,
        run_result: 0,
        run_count: 0,
        parent: thread.parent,
        child_number: thread.child_number,
        start_clock,
    };
    thread.header = chunk::allocate(&seed).unwrap_or_else(|| scratch(&seed));
    !thread.header.is_null()
}

/// A chunk outside the trace, for a thread that can't record any more but still has to take timestamps: what others
/// record after it must lie behind the cut. Its magic is 0. Null if this is a replay, where only learnt order is lost.
fn scratch(seed: &ChunkHeader) -> *mut ChunkHeader {
    if mode() == Mode::Replay {
        return null_mut();
    }
    let Some(block) = arena::allocate(CHUNK_SIZES[0] as usize) else { return null_mut() };
    let header = block.cast::<ChunkHeader>();
    // SAFETY: a block of that size of our own, aligned to 64.
    unsafe { header.write(ChunkHeader { magic: 0, size: CHUNK_SIZES[0], used: 0, ..*seed }) };
    header
}

/// Appends `record` at the thread's present event number.
///
/// If recording has to stop, the thread's stream ends here, and it goes on in a scratch chunk.
pub fn append(thread: &mut Thread, record: Record) {
    append_with(thread, record, |_| {});
}

/// Memory that a system call filled: walks its pieces, each an address and a length, in the order of its outputs.
pub type Pieces<'a> = &'a dyn Fn(&mut dyn FnMut(usize, usize));

/// Appends a system call of the calling thread with the memory that it wrote.
///
/// # Safety
/// The pieces must be readable.
pub unsafe fn append_call(thread: &mut Thread, number: usize, result: isize, pieces: Pieces<'_>) {
    if has_ended(thread) {
        return;
    }
    if limit::has_enough() {
        return end_stream(thread, stop::LIMIT);
    }
    let mut total = 0u64;
    pieces(&mut |_, length| total += length as u64);
    let bytes = u32::try_from(total).expect("no call takes in four gigabytes, and no larger mapping is kept");
    let (number, result) = (number as u16, result as i64);
    if bytes <= CALL_BYTES_MAX {
        let place = Place::Stream;
        return append_with(thread, Record::Call { number, result, bytes, place }, |mut to| {
            let mut left = bytes as usize;
            pieces(&mut |address, length| {
                // A length may stand in memory that another thread of the program changes meanwhile.
                let length = length.min(left);
                // SAFETY: the caller's promise; `append_with` made room for so many bytes, and `left` of them are free.
                unsafe {
                    core::ptr::copy_nonoverlapping(address as *const u8, to, length);
                    to = to.add(length);
                }
                left -= length;
            });
        });
    }
    // SAFETY: the caller's promise.
    match unsafe { inputs::keep(total, pieces) } {
        Ok(offset) => append(thread, Record::Call { number, result, bytes, place: Place::Inputs(offset) }),
        Err(reason) => end_stream(thread, reason),
    }
}

/// [`append_call`] for a call that wrote one piece of memory, or none.
///
/// # Safety
/// The piece must be readable.
#[inline]
pub unsafe fn append_single(thread: &mut Thread, number: usize, result: isize, [address, length]: [usize; 2]) {
    let h = thread.header;
    // SAFETY: the thread's own live chunk, if it has one; nobody else writes it, and there is room for the longest record.
    unsafe {
        let plain = !h.is_null() && (*h).magic != 0 && (*h).run_count == 0 && length <= CALL_BYTES_MAX as usize;
        if !plain
            || (*h).used + (RECORD_BYTES_MAX + length) as u32 > (*h).size - CHUNK_HEADER_BYTES
            || limit::has_enough()
        {
            return append_call(thread, number, result, &|visit| {
                if length > 0 {
                    visit(address, length);
                }
            });
        }
        let payload = h.cast::<u8>().add((CHUNK_HEADER_BYTES + (*h).used) as usize);
        let steps = (*h).events - thread.stored;
        let into = &mut *payload.cast::<[u8; RECORD_BYTES_MAX]>();
        let encoded = encode_call(into, steps, number as u16, result as i64, length as u32);
        if length > 0 {
            core::ptr::copy_nonoverlapping(address as *const u8, payload.add(encoded), length);
        }
        thread.stored = (*h).events;
        (*h).used += (encoded + length) as u32;
    }
}

/// Whether what the thread does is kept.
pub fn is_recorded(thread: &Thread) -> bool {
    !has_ended(thread)
}

/// Whether nothing of the thread is recorded any more.
fn has_ended(thread: &Thread) -> bool {
    // SAFETY: the thread's own live chunk, if it has one.
    thread.header.is_null() || unsafe { (*thread.header).magic == 0 }
}

/// The thread's stream ends here, because a call can't be kept: what it calls later would be taken for that call.
///
/// At a limit the recording does not: what the thread does next lies behind its end.
#[cold]
fn end_stream(thread: &mut Thread, reason: u32) {
    let cut = if reason == stop::LIMIT { runtime::session().cut.load(Ordering::Acquire) } else { thread.clock() };
    chunk::stop_recording(reason, cut);
    go_on_unrecorded(thread);
    if reason == stop::LIMIT {
        thread.join_clock(cut);
    }
}

/// What the thread does from here on is not in the trace.
pub fn go_on_unrecorded(thread: &mut Thread) {
    if has_ended(thread) {
        return;
    }
    // SAFETY: the thread's own live chunk: its stream has not ended yet.
    let last = unsafe { *thread.header };
    let was_recording = tls::get::<{ tls::HEADER }>() != 0;
    thread.header = scratch(&last);
    if was_recording {
        tls::set::<{ tls::HEADER }>(thread.header as usize);
    }
}

/// `fill` puts the bytes behind a call's record there.
fn append_with(thread: &mut Thread, record: Record, fill: impl FnOnce(*mut u8)) {
    close_run_before(thread, record);
    let behind = match record {
        Record::Call { bytes, place: Place::Stream, .. } => bytes,
        _ => 0,
    };
    if thread.header.is_null() || !make_room(thread, RECORD_BYTES_MAX as u32 + behind) {
        return;
    }
    // SAFETY: the thread's own live chunk; nobody else writes it, and there is room for the longest record.
    unsafe {
        let h = thread.header;
        let encoded = encode((*h).events - thread.stored, record);
        let bytes = encoded.as_bytes();
        let payload = h.cast::<u8>().add((CHUNK_HEADER_BYTES + (*h).used) as usize);
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), payload, bytes.len());
        fill(payload.add(bytes.len()));
        (*h).used += bytes.len() as u32 + behind;
        thread.stored = (*h).events + u64::from(matches!(record, Record::Pair { .. }));
    }
}

/// A call comes after the failures that are still counted.
fn close_run_before(thread: &mut Thread, record: Record) {
    if matches!(record, Record::Call { .. }) {
        close_run(thread);
    }
}

fn make_room(thread: &mut Thread, bytes: u32) -> bool {
    // SAFETY: the thread's own live chunk.
    let h = unsafe { &*thread.header };
    if h.used + bytes <= h.size - CHUNK_HEADER_BYTES {
        return true;
    }
    let full = *h;
    if full.magic == 0 {
        // SAFETY: the thread's own scratch chunk, which nobody reads.
        unsafe { (*thread.header).used = 0 };
        return bytes <= full.size - CHUNK_HEADER_BYTES;
    }
    let sequence = full.sequence + 1;
    let size = CHUNK_SIZES[(sequence as usize).min(CHUNK_SIZES.len() - 1)];
    let seed = ChunkHeader { magic: 0, size, sequence, used: 0, ..full };
    let was_recording = tls::get::<{ tls::HEADER }>() != 0;
    thread.header = chunk::allocate(&seed).unwrap_or_else(|| scratch(&seed));
    if was_recording {
        tls::set::<{ tls::HEADER }>(thread.header as usize);
    }
    !thread.header.is_null()
}

/// Stores how many events were on objects of which family, for `stats`. Mutexes are the rest.
pub fn append_tally(thread: &mut Thread) {
    for family in Family::ALL {
        let count = core::mem::take(&mut thread.tally[family as usize]);
        if count > 0 && family != Family::Mutex {
            close_run(thread);
            append(thread, Record::Tally { family, count });
        }
    }
}

/// Counts one failed attempt: runs of the same failure are stored as one number.
pub fn failure(thread: &mut Thread, kind: Kind, result: i32) {
    // SAFETY: the thread's own live chunk, checked for null first.
    unsafe {
        let h = thread.header;
        if h.is_null() {
            return;
        }
        let same = (*h).run_count != 0 && (*h).run_kind == kind as u8 && (*h).run_result == result as i16;
        if same && (*h).run_count < u32::MAX {
            (*h).run_count += 1;
            return;
        }
    }
    close_run(thread);
    // SAFETY: as above; `close_run` may have moved the thread to another chunk or none.
    unsafe {
        let h = thread.header;
        if !h.is_null() {
            (*h).run_kind = kind as u8;
            (*h).run_result = result as i16;
            (*h).run_count = 1;
            attention::raise(attention::RUN);
        }
    }
}

/// Moves an open run of failures from the header into the stream.
pub fn close_run(thread: &mut Thread) {
    // SAFETY: the thread's own live chunk, checked for null first.
    unsafe {
        let h = thread.header;
        if h.is_null() || (*h).run_count == 0 {
            return;
        }
        let kind = Kind::from_code((*h).run_kind).expect("a run has a kind");
        let (result, count) = ((*h).run_result, (*h).run_count);
        // The record goes in before the count goes out: a kill in between leaves both, and a reader that finds a
        // run equal to the last record of the same event number drops it.
        append(thread, Record::Run { kind, result, count });
        if !thread.header.is_null() {
            (*thread.header).run_count = 0;
        }
        if thread.header != h {
            (*h).run_count = 0;
        }
    }
    attention::clear(attention::RUN);
}
