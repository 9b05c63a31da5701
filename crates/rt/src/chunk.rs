//! Chunks of the data file: allocation, growth, and what happens when the
//! recording has to stop.
//!
//! The file is mapped shared, a span of 64 windows at a time, far beyond its
//! end; a page is touched only after the launcher has reserved its space, so a
//! full disk is an error code and never SIGBUS. Growing the file here instead
//! would end a program under `RLIMIT_FSIZE` with SIGXFSZ. No descriptor stays
//! open: programs close descriptors that they don't know.

use crate::handed;
use crate::held::{self, Held};
use crate::inputs;
use crate::limit;
use crate::path::Path;
use crate::report;
use crate::runtime::{self, Mode};
use core::sync::atomic::{AtomicU64, Ordering};
use relive_sys::lock::Lock;
use relive_sys::syscall;
use relive_trace::control::mode;
use relive_trace::handed::Wanted;
use relive_trace::layout::{
    CHUNK_MAGIC, ChunkHeader, FILE_HEADER_BYTES, FILE_MAGIC, FORMAT_VERSION, FileHeader, NONE, WINDOW_BYTES, end,
    latest_clock, stop,
};

const SPAN_WINDOWS: u64 = 64;
const SPAN_BYTES: u64 = SPAN_WINDOWS * WINDOW_BYTES;
const SPANS_MAX: usize = 1024;
/// Bytes of the file that are touched together where much is written.
const AHEAD: u64 = 128 << 10;

struct Windows {
    /// File offset of the next chunk.
    position: u64,
    /// Bytes of the file that may be touched.
    reserved: u64,
    /// Addresses of the spans mapped so far; spans are never unmapped.
    spans: [usize; SPANS_MAX],
    stopped: bool,
}

static WINDOWS: Lock<Windows> =
    Lock::new(Windows { position: FILE_HEADER_BYTES, reserved: 0, spans: [0; SPANS_MAX], stopped: false });

/// What a fresh chunk starts with.
pub type Seed = ChunkHeader;

/// Allocates a chunk of `seed.size` bytes with the rest of `seed` as its header.
/// `None` if recording had to stop; the reason has been reported.
pub fn allocate(seed: &Seed) -> Option<*mut ChunkHeader> {
    // A thread that has not come to the end of a recording that has enough goes on writing up to there.
    if !limit::may_grow(u64::from(seed.size)) && limit::is_past_the_end(seed.clock) {
        return None;
    }
    let mut w = WINDOWS.lock();
    // Without its first chunk a thread is not in the recording, so neither may be the event that created it.
    let kept = seed.clock - u64::from(seed.sequence == 0 && seed.clock > 0);
    if w.stopped {
        w.lower_cut(kept);
        return None;
    }
    let size = seed.size as u64;
    let room = WINDOW_BYTES - w.position % WINDOW_BYTES;
    let at = if room < size { w.position + room } else { w.position };
    if let Err(reason) = w.provide(at + size) {
        w.stop(reason, kept);
        return None;
    }
    w.touch_ahead(at, size);
    let header = w.address(at) as *mut ChunkHeader;
    // SAFETY: inside a mapped span and the reserved part of the file; no chunk stands there yet. The magic goes
    // last: a reader that finds it finds the rest.
    unsafe {
        header.write(ChunkHeader { magic: 0, ..*seed });
        core::sync::atomic::fence(Ordering::Release);
        (*header).magic = CHUNK_MAGIC;
    }
    if at.is_multiple_of(WINDOW_BYTES) {
        w.drop_filled(at / WINDOW_BYTES);
    }
    w.position = at + size;
    w.look_ahead();
    Some(header)
}

impl Windows {
    fn address(&self, offset: u64) -> usize {
        self.spans[(offset / SPAN_BYTES) as usize] + (offset % SPAN_BYTES) as usize
    }

    /// Makes the file's bytes below `end` touchable.
    fn provide(&mut self, end: u64) -> Result<(), u32> {
        if end > self.reserved {
            self.reserved = reserve(end.next_multiple_of(WINDOW_BYTES))?;
        }
        let span = ((end - 1) / SPAN_BYTES) as usize;
        if span >= SPANS_MAX {
            return Err(stop::NO_SPACE);
        }
        if self.spans[span] == 0 {
            self.spans[span] = map(span as u64 * SPAN_BYTES)?;
            if span == 0 {
                self.write_file_header();
            }
        }
        Ok(())
    }

    /// A page that is touched by itself costs a fault: who writes much has them touched together.
    fn touch_ahead(&self, at: u64, size: u64) {
        let next = at.next_multiple_of(AHEAD);
        if next < at + size && next >= AHEAD && next + AHEAD <= self.reserved {
            // SAFETY: a part of a mapped span below the file's reserved end.
            unsafe { syscall::touch_pages(self.address(next), AHEAD as usize) };
        }
    }

    /// The pages of windows long filled are the file's and nobody's memory: the program must not grow with its trace.
    /// A thread that still writes in one, because it writes little, gets its page back at the next byte; so what was
    /// dropped before is dropped again, the present span's windows each time, earlier spans with each new one.
    fn drop_filled(&self, window: u64) {
        const BEHIND: u64 = 2;
        let Some(filled) = window.checked_sub(BEHIND) else { return };
        let last = filled / SPAN_WINDOWS;
        let first = if filled.is_multiple_of(SPAN_WINDOWS) { 0 } else { last };
        for span in first..=last {
            let windows = (filled - span * SPAN_WINDOWS).min(SPAN_WINDOWS);
            // SAFETY: a span that is mapped, of a file and shared, or its beginning.
            unsafe { syscall::drop_pages(self.spans[span as usize], (windows * WINDOW_BYTES) as usize) };
        }
    }

    /// Asks for the next window when this one is half full, so that nobody waits for it later.
    fn look_ahead(&self) {
        let slot = runtime::process_slot();
        let next = self.reserved + WINDOW_BYTES;
        if self.reserved - self.position < WINDOW_BYTES / 2 && slot.wanted.load(Ordering::Relaxed) < next {
            slot.wanted.store(next, Ordering::Release);
            runtime::ring();
        }
    }

    fn write_file_header(&self) {
        let header = FileHeader {
            magic: FILE_MAGIC,
            version: FORMAT_VERSION,
            process: runtime::process(),
            pid: runtime::pid(),
            main_thread: MAIN_THREAD.load(Ordering::Relaxed) as u32,
            end: end::LIVE,
            stop_reason: stop::NONE,
            exit_code: 0,
            exit_thread: NONE,
            stop_clock: 0,
        };
        // SAFETY: the first page of a mapped and reserved file.
        unsafe { (self.spans[0] as *mut FileHeader).write(header) };
    }

    fn file_header(&mut self) -> Option<&mut FileHeader> {
        // SAFETY: the first page of the mapped file, used under the lock only.
        (self.spans[0] != 0).then(|| unsafe { &mut *(self.spans[0] as *mut FileHeader) })
    }

    /// A further thread ran out of space at `clock`, which may be less than the first one's.
    fn lower_cut(&mut self, clock: u64) {
        if limit::has_enough() {
            runtime::session().cut.fetch_min(clock, Ordering::AcqRel);
        }
        if let Some(header) = self.file_header().filter(|h| h.end == end::STOPPED) {
            header.stop_clock = header.stop_clock.min(clock);
        }
    }

    fn stop(&mut self, reason: u32, clock: u64) {
        self.stopped = true;
        if let Some(header) = self.file_header().filter(|h| h.end != end::STOPPED) {
            header.end = end::STOPPED;
            header.stop_reason = reason;
            header.stop_clock = clock;
        }
        self.lower_cut(clock);
        if runtime::mode() == Mode::Replay {
            // Only what this replay learns is lost; the launcher sees the mark and does not keep it.
            return;
        }
        // The mode stays: threads go on taking timestamps, so that whatever depends on an event that is not
        // recorded lies behind the cut.
        let cause = match reason {
            stop::NO_SPACE => "no space left for the trace",
            stop::NO_LAUNCHER => "the recorder is gone",
            stop::CLOSED => "the recording was closed",
            _ => return,
        };
        let pid = runtime::pid();
        report::line(format_args!(
            "recording of process {pid} stopped: {cause}; the program goes on, the trace is valid up to here"
        ));
    }
}

static MAIN_THREAD: AtomicU64 = AtomicU64::new(0);

/// Starts a new data file for this process image, with the given first thread.
///
/// # Safety
/// At start-up, or in a fork child while it has one thread.
pub unsafe fn start_file(main_thread: u32) {
    // SAFETY: the caller's promise.
    unsafe { WINDOWS.reset_after_fork() };
    let mut w = WINDOWS.lock();
    MAIN_THREAD.store(main_thread as u64, Ordering::Relaxed);
    // What the parent mapped stays mapped in a child: 64 MiB of address space a span, no memory.
    w.spans = [0; SPANS_MAX];
    w.position = FILE_HEADER_BYTES;
    w.reserved = runtime::process_slot().reserved.load(Ordering::Acquire);
    w.stopped = false;
    held::start_over();
    inputs::start_file();
}

/// Stops the recording of this process: `thread`'s clock is the last moment of the recording.
pub fn stop_recording(reason: u32, clock: u64) {
    let mut w = WINDOWS.lock();
    if w.stopped {
        w.lower_cut(clock);
    } else {
        w.stop(reason, clock);
    }
}

/// Ends the recording at `clock` although threads go on writing: all that is not later has its place in the trace.
/// `false` if it had ended before.
pub fn cut(reason: u32, clock: u64) -> bool {
    let mut w = WINDOWS.lock();
    if w.stopped {
        return false;
    }
    let Some(header) = w.file_header() else { return false };
    if header.end == end::STOPPED {
        header.stop_clock = header.stop_clock.min(clock);
        return false;
    }
    (header.end, header.stop_reason, header.stop_clock) = (end::STOPPED, reason, clock);
    true
}

/// Notes in the file how this process image ended.
pub fn note_end(how: u32, code: u32, thread: u32) {
    let mut w = WINDOWS.lock();
    if w.stopped {
        return;
    }
    if let Some(header) = w.file_header().filter(|h| h.end != end::STOPPED) {
        header.exit_code = code;
        header.exit_thread = thread;
        header.end = how;
    }
}

/// Asks the launcher to reserve `end` bytes of this process's file and waits for the answer.
fn reserve(end: u64) -> Result<u64, u32> {
    const PATIENCE_MS: u32 = 200;
    let control = runtime::session();
    let slot = runtime::process_slot();
    slot.wanted.fetch_max(end, Ordering::AcqRel);
    runtime::ring();
    loop {
        let reply = slot.reply.load(Ordering::Acquire);
        let reserved = slot.reserved.load(Ordering::Acquire);
        if reserved >= end {
            return Ok(reserved);
        }
        if slot.error.load(Ordering::Acquire) != 0 {
            return Err(stop::NO_SPACE);
        }
        match control.mode.load(Ordering::Acquire) {
            mode::CLOSED => return Err(stop::CLOSED),
            mode::ENOUGH => return Err(stop::LIMIT),
            _ => {}
        }
        let slept = syscall::futex_wait(&slot.reply, reply, Some(PATIENCE_MS));
        if slept == syscall::ETIMEDOUT && !syscall::process_exists(control.launcher) {
            return Err(stop::NO_LAUNCHER);
        }
    }
}

/// How far the process image `process` of this recording came, by its data file; 0 if there is none.
pub fn latest_clock_of(process: u32) -> u64 {
    let path = Path::data(process);
    let fd = handed::open(path.as_bytes(), syscall::O_RDONLY, Wanted::Data(process));
    if fd < 0 {
        return 0;
    }
    let clock = latest_clock(|at, head| syscall::read_at(fd as u32, head, at) == head.len() as isize);
    syscall::close(fd as u32);
    clock
}

/// Maps one span of this process's file.
fn map(offset: u64) -> Result<usize, u32> {
    let fd = match held::get(Held::Data) {
        Some(fd) => fd,
        None => open()?,
    };
    let address = syscall::mmap(SPAN_BYTES as usize, syscall::MAP_SHARED, fd as i32, offset);
    if held::applies() {
        if held::get(Held::Data).is_none() {
            held::keep(Held::Data, fd);
        }
    } else {
        syscall::close(fd);
    }
    let address = usize::try_from(address).map_err(|_| stop::NO_SPACE)?;
    if offset == 0 {
        // SAFETY: the beginning of the new mapping. Most processes use a few pages and end: to have the kernel read the
        // pages around each, which hold nothing, takes longer than all else in there.
        unsafe { syscall::read_singly(address, AHEAD as usize) };
    }
    Ok(address)
}

fn open() -> Result<u32, u32> {
    let (path, wanted) = (Path::data(runtime::process()), Wanted::Data(runtime::process()));
    let mut fd = handed::open(path.as_bytes(), syscall::O_RDWR, wanted);
    if fd < 0 {
        fd = handed::open(path.as_bytes(), syscall::O_RDWR | syscall::O_CREATE_NEW, wanted);
    }
    u32::try_from(fd).map_err(|_| stop::NO_SPACE)
}
