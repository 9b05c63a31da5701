//! The inputs file of a process: what its system calls took in, where that is
//! more than a few hundred bytes.
//!
//! Apart from the chunks because a page of a mapped file costs ten times as much
//! when it is first touched as the same bytes written by a call.

use crate::handed;
use crate::held::{self, Held};
use crate::limit;
use crate::path::Path;
use crate::runtime;
use core::sync::atomic::{AtomicU64, Ordering};
use relive_sys::lock::{Guard, Lock};
use relive_sys::syscall;
use relive_trace::handed::Wanted;
use relive_trace::layout::stop;

/// Where the next bytes go.
static END: AtomicU64 = AtomicU64::new(0);

/// No file has room for nothing.
const UNKNOWN: u64 = 0;
static FILE_LIMIT: AtomicU64 = AtomicU64::new(UNKNOWN);

/// Starts over: a new process image writes a file of its own.
pub fn start_file() {
    END.store(0, Ordering::Relaxed);
    if held::applies()
        && let Some(fd) = open()
    {
        held::keep(Held::Inputs, fd);
    }
}

fn open() -> Option<u32> {
    let (path, wanted) = (Path::inputs(), Wanted::Inputs(runtime::process()));
    let mut fd = handed::open(path.as_bytes(), syscall::O_WRONLY, wanted);
    if fd < 0 {
        fd = handed::open(path.as_bytes(), syscall::O_WRITE_NEW, wanted);
        // Whatever the program's mask took away: it is opened again and again.
        syscall::set_owners_mode(fd as u32);
    }
    u32::try_from(fd).ok()
}

/// Appends `pieces`, `total` bytes in all. Returns where they stand.
///
/// # Errors
/// Why the recording has to stop, as in [`stop`].
///
/// # Safety
/// The pieces must be readable.
#[inline(never)] // Its buffers would weigh on the stack of every call.
pub unsafe fn keep(total: u64, pieces: crate::writer::Pieces<'_>) -> Result<u64, u32> {
    if !limit::may_grow(total) {
        return Err(stop::LIMIT);
    }
    let offset = END.fetch_add(total, Ordering::Relaxed);
    // Writing beyond the program's limit on file size would send it SIGXFSZ.
    let raised = if offset + total > file_limit() { Some(Raised::enter(offset + total)?) } else { None };
    let held = held::get(Held::Inputs);
    let Some(fd) = held.or_else(open) else { return Err(stop::NO_SPACE) };
    let (mut at, mut complete) = (offset, true);
    pieces(&mut |address, length| {
        // What lies behind belongs to another call, even if a length has changed meanwhile.
        let length = length.min((offset + total - at) as usize);
        // SAFETY: the caller's promise.
        complete = complete && unsafe { write_all(fd, address, length, at) };
        at += length as u64;
    });
    drop(raised);
    if held.is_none() {
        syscall::close(fd);
    }
    if complete { Ok(offset) } else { Err(stop::NO_SPACE) }
}

/// The most bytes that a file of this process may have, asked for once: a program changes it by calls that come to us.
fn file_limit() -> u64 {
    match FILE_LIMIT.load(Ordering::Relaxed) {
        UNKNOWN => {
            let [limit, _] = syscall::file_limit();
            FILE_LIMIT.store(limit, Ordering::Relaxed);
            limit
        }
        limit => limit,
    }
}

static RAISING: Lock<()> = Lock::new(());

/// The program's limit on file size, raised while one of our writes goes beyond it. A write of the program's own that
/// goes beyond it in the same moment, in another thread, gets through.
struct Raised {
    before: [u64; 2],
    _alone: Guard<'static, ()>,
}

impl Raised {
    fn enter(end: u64) -> Result<Self, u32> {
        let alone = RAISING.lock();
        let before = syscall::file_limit();
        if end > before[1] {
            return Err(stop::NO_SPACE);
        }
        syscall::set_file_limit([before[1]; 2]);
        Ok(Self { before, _alone: alone })
    }
}

impl Drop for Raised {
    fn drop(&mut self) {
        syscall::set_file_limit(self.before);
    }
}

/// Frees the lock in a fork child.
///
/// # Safety
/// Only in a fork child while it has one thread.
pub unsafe fn reset_after_fork() {
    // SAFETY: the caller's promise.
    unsafe { RAISING.reset_after_fork() };
}

/// The program may have changed the limit.
pub fn forget_file_limit() {
    FILE_LIMIT.store(UNKNOWN, Ordering::Relaxed);
}

/// # Safety
/// The bytes must be readable.
unsafe fn write_all(fd: u32, address: usize, length: usize, offset: u64) -> bool {
    let mut done = 0;
    while done < length {
        // SAFETY: the caller's promise.
        match unsafe { syscall::write_at(fd, address + done, length - done, offset + done as u64) } {
            syscall::EINTR => {}
            written if written > 0 => done += written as usize,
            _ => return false,
        }
    }
    true
}

/// The inputs file of this process's recording, open in a replay.
#[derive(Debug)]
pub struct Recorded(u32);

impl Recorded {
    /// Opens it; `None` if it is gone.
    #[inline(never)] // Its buffers would weigh on the stack of every call.
    pub fn open() -> Option<Self> {
        let path = Path::inputs();
        let fd = syscall::open(path.as_bytes(), syscall::O_RDONLY);
        (fd >= 0).then_some(Self(fd as u32))
    }

    /// Fills memory of the program from `offset`. Whether all of it was there.
    ///
    /// # Safety
    /// The memory must be the program's to be overwritten.
    pub unsafe fn fill(&self, address: usize, length: usize, offset: u64) -> bool {
        let mut done = 0;
        while done < length {
            // SAFETY: the caller's promise.
            let rest = unsafe { core::slice::from_raw_parts_mut((address + done) as *mut u8, length - done) };
            match syscall::read_at(self.0, rest, offset + done as u64) {
                syscall::EINTR => {}
                read if read > 0 => done += read as usize,
                _ => return false,
            }
        }
        true
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        syscall::close(self.0);
    }
}
