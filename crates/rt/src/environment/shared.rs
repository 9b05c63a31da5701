//! Files that are mapped to be written and shared: memory that the processes of
//! a recording have in common.
//!
//! A replay has one file without a name for all of them, which the launcher made:
//! each file of the recording has a place in it, found by its identity. What
//! the file held stands in the recording with each mapping; a replay lays only
//! that there which no mapping has laid before, because the rest may have been
//! written to since, and was again.
//!
//! What processes outside of the recording write there can't be seen; that is said
//! once for each file.

pub(super) mod changed;

use super::memory::{map_at, placed};
use super::written::data_end;
use crate::object::{self, Cell, in_session};
use crate::races;
use crate::replay::calls::{self as replayed, Filler};
use crate::report;
use crate::runtime;
use crate::thread::Thread;
use crate::writer;
use core::sync::atomic::{AtomicBool, Ordering};
use relive_sys::syscall::number::{FCNTL, MMAP, MPROTECT, SHMAT};
use relive_sys::syscall::{self, syscall6};
use relive_trace::control::{SharedFile, flag};

/// First byte of what is kept of such a file: its identity and the end of what is mapped of it follow, and its contents
/// up to the last that was written.
pub(super) const SHARED: u8 = b'S';
/// Bytes of the place that a file has, at most.
pub(super) const PLACE_BYTES: u64 = 1 << 32;
const MAP_SHARED: usize = 1;
const MAP_FIXED: usize = 0x10;
const PATH_MAX: usize = 4096;
const PROT_READ_WRITE: usize = 3;

/// Whether others may write to a shared mapping of this file, by a mapping of their own.
pub(super) fn is_writable(fd: u32) -> bool {
    const F_GETFL: usize = 3;
    const O_ACCMODE: isize = 3;
    const O_RDWR: isize = 2;
    // SAFETY: no pointers.
    let flags = unsafe { syscall6(FCNTL, fd as usize, F_GETFL, 0, 0, 0, 0) };
    let known = || identity(fd).is_some_and(|identity| find(identity).is_some());
    flags >= 0 && flags & O_ACCMODE == O_RDWR || known()
}

/// What a file is known by: device, inode, and when it was made, because a new file often has the inode of one that was
/// removed. The second word is the inode.
fn identity(fd: u32) -> Option<[u64; 2]> {
    let [device, inode] = syscall::file_identity(fd)?;
    let made = syscall::file_birth(fd).map_or(0, |[seconds, nanoseconds]| seconds << 30 | nanoseconds);
    Some([device ^ made.rotate_left(20), inode])
}

/// The clock that all processes have for such a file: who maps it later finds what others did to it until then.
fn clock(identity: [u64; 2]) -> &'static Cell {
    // As those of System V's objects.
    const FILES: u64 = 0x4653_0000_0000_0000;
    let hash = (identity[0] ^ identity[1].rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    in_session(FILES | hash >> 17)
}

/// What a place is known by: both words in one, because a place must be taken at once. Whoever is killed meanwhile leaves
/// nothing half done, and nobody takes another place for the same file.
fn key(identity: [u64; 2]) -> u64 {
    identity.into_iter().fold(0, syscall::name_with)
}

/// The place of a file, if it has one.
fn find(identity: [u64; 2]) -> Option<(usize, &'static SharedFile)> {
    let key = key(identity);
    runtime::session().files.iter().enumerate().find(|(_, file)| file.key.load(Ordering::Acquire) == key)
}

/// The place of a file, a new one if it had none; `true` if it is new. `None` if there are too many.
pub(super) fn place(identity: [u64; 2]) -> Option<(usize, &'static SharedFile, bool)> {
    let key = key(identity);
    for (index, file) in runtime::session().files.iter().enumerate() {
        let taken = file.key.compare_exchange(0, key, Ordering::AcqRel, Ordering::Acquire);
        if taken.is_ok() {
            file.inode.store(identity[1], Ordering::Release);
        }
        if taken.is_ok() || taken == Err(key) {
            return Some((index, file, taken.is_ok()));
        }
    }
    None
}

/// Whether the process, or one that it comes from in this image, has asked for memory that it may write to and others see.
static ASKED: AtomicBool = AtomicBool::new(false);

/// Whether other processes may see what this one writes: what they do is ordered then, too, if each has one thread.
pub(super) fn may_be_seen() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// The program is about to ask for memory: only its arguments count, which a replay has, too.
pub(super) fn note(number: usize, arguments: &[usize; 6]) {
    const PROT_WRITE: usize = 2;
    const MAP_TYPE: usize = 15;
    const MAP_SHARED_VALIDATE: usize = 3;
    let [_, _, protection, flags, ..] = *arguments;
    let is_shared = matches!(flags & MAP_TYPE, MAP_SHARED | MAP_SHARED_VALIDATE) && protection & PROT_WRITE != 0;
    if (number == SHMAT || number == MMAP && is_shared) && !ASKED.swap(true, Ordering::Relaxed) {
        races::is_seen();
    }
}

/// Keeps a mapping of the file `fd` of which `held` bytes are mapped at `result`, and readable at `readable`. Returns the file's
/// clock; `None` if it can't be kept.
///
/// # Safety
/// The memory must be there.
#[inline(never)] // Its buffers would weigh on the stack of every call.
pub(super) unsafe fn record(
    thread: &mut Thread,
    fd: u32,
    offset: u64,
    held: usize,
    result: isize,
    readable: usize,
) -> Option<&'static Cell> {
    let identity = identity(fd)?;
    let (index, _, is_new) = place(identity).filter(|_| offset + held as u64 <= PLACE_BYTES)?;
    // Once is enough: a pool of processes maps one for each of its locks.
    if is_new && index == 0 && !runtime::has_flag(flag::QUIET) {
        let mut path = [0u8; PATH_MAX];
        let name = syscall::path_of(fd, &mut path).and_then(|name| core::str::from_utf8(name).ok());
        report::line(format_args!(
            "{} is shared memory: a replay has what the processes of this recording write there and to other such files, and \
             nothing else",
            name.unwrap_or("a file")
        ));
    }
    let (tag, about) = ([SHARED], [identity[0], identity[1], offset + held as u64]);
    let held = data_end(fd, offset, held);
    // SAFETY: local arrays, and the caller's promise.
    unsafe {
        writer::append_call(thread, MMAP, result, &|visit| {
            visit(tag.as_ptr().addr(), 1);
            visit(about.as_ptr().addr(), size_of_val(&about));
            if held > 0 {
                visit(readable, held);
            }
        });
    }
    object::mapped_shared();
    Some(clock(identity))
}

/// Maps the place of a recorded file, and lays there what it held and nobody has laid there yet. Returns its clock.
///
/// # Safety
/// The recording had the mapping at this place.
pub(super) unsafe fn replay(arguments: &[usize; 6], address: usize, mut filler: Filler) -> &'static Cell {
    let [_, length, protection, flags, _, offset] = *arguments;
    let mut about = [0u64; 3];
    // SAFETY: a local array; the mapping is made here, as long as it was in the recording.
    unsafe {
        filler.fill(about.as_mut_ptr().addr(), size_of_val(&about));
        let pool = syscall::open(crate::path::Path::pool().as_bytes(), syscall::O_RDWR);
        let Some((index, file, _)) = place([about[0], about[1]]).filter(|_| pool >= 0) else { replayed::diverge(MMAP) };
        let within = index * PLACE_BYTES as usize + offset;
        map_at(address, length, PROT_READ_WRITE, placed(flags & MAP_FIXED) | MAP_SHARED, pool as usize, within);
        syscall::close(pool as u32);
        lay(address, offset as u64, about[2], file, &mut filler);
        filler.finish(MMAP);
        syscall6(MPROTECT, address, length, protection, 0, 0, 0);
        object::mapped_shared();
    }
    clock([about[0], about[1]])
}

/// # Safety
/// The mapping must be there, and writable.
pub(super) unsafe fn lay(address: usize, offset: u64, end: u64, file: &SharedFile, filler: &mut Filler) {
    let held = filler.left();
    while file.busy.swap(1, Ordering::Acquire) != 0 {
        syscall::sched_yield();
    }
    let laid = file.laid.load(Ordering::Acquire);
    let known = (laid.saturating_sub(offset) as usize).min(held);
    filler.skip(known);
    // SAFETY: the caller's promise.
    unsafe { filler.fill(address + known, held - known) };
    file.laid.fetch_max(end, Ordering::AcqRel);
    file.busy.store(0, Ordering::Release);
}
