//! System V shared memory: attached and detached in a replay as well, at the
//! recorded addresses, but what is attached there is a place in the launcher's
//! memory for shared files.
//!
//! Attaching is an event of the segment, too, which all processes share. So it is
//! known who attached it first, and only that attachment has to keep what the
//! segment held: nobody of the recording can have written to it before.

use super::alone;
use super::memory;
use super::shared::{self, PLACE_BYTES};
use super::space::Space;
use super::system_v::{self, Kept};
use crate::object::{self, Internal, internal};
use crate::replay::calls::{self as replayed, Filler};
use crate::runtime::{self, Mode};
use crate::thread::Thread;
use crate::{races, record, replay, report, writer};
use core::sync::atomic::Ordering;
use relive_order::Kind;
use relive_sys::dispatch;
use relive_sys::syscall::number::{MPROTECT, SHMAT, SHMCTL, SHMDT};
use relive_sys::syscall::{self, syscall6};

/// In the place of a device: segments are in no file system that a program sees.
const DEVICE: u64 = u64::from_le_bytes(*b"segment\0");
const PAGE: usize = 4096;
const PROT_READ: usize = 1;
const PROT_WRITE: usize = 2;
const PROT_EXEC: usize = 4;
const MAP_SHARED: usize = 1;
const MAP_FIXED: usize = 0x10;
const SHM_RDONLY: usize = 0o10000;
const SHM_REMAP: usize = 0o40000;
const SHM_EXEC: usize = 0o100_000;
/// Attachments of a process at the same time, at most.
const ATTACHED: usize = 1024;

/// Where a process has attached segments, and how many bytes of them: a detachment names the beginning only.
#[derive(Debug)]
pub(super) struct Attached {
    places: [(usize, usize); ATTACHED],
    count: usize,
}

impl Attached {
    pub(super) const fn new() -> Self {
        Self { places: [(0, 0); ATTACHED], count: 0 }
    }

    /// `false` if there is no room.
    fn add(&mut self, address: usize, bytes: usize) -> bool {
        // What was attached there before was replaced.
        self.take(address);
        if self.count == ATTACHED {
            return false;
        }
        self.places[self.count] = (address, bytes);
        self.count += 1;
        true
    }

    fn take(&mut self, address: usize) -> Option<usize> {
        let index = self.places[..self.count].iter().position(|&(start, _)| start == address)?;
        self.count -= 1;
        self.places.swap(index, self.count);
        Some(self.places[self.count].1)
    }
}

/// What the kernel says of a segment.
#[derive(Clone, Copy, Debug)]
struct Segment {
    bytes: usize,
    /// Whether it was attached before: if not, it holds zeros.
    was_attached: bool,
}

impl Segment {
    fn of(id: usize) -> Option<Self> {
        const IPC_STAT: usize = 2;
        /// `shm_segsz` and, behind `shm_cpid`, `shm_lpid` in the kernel's `struct shmid64_ds`, in bytes.
        const BYTES: usize = 48;
        const LAST: usize = 84;
        let mut told = [0u64; 14];
        // SAFETY: the kernel writes the 112 bytes of the description.
        let result = unsafe { syscall6(SHMCTL, id, IPC_STAT, told.as_mut_ptr().addr(), 0, 0, 0) };
        let last = (told[LAST / 8] >> (LAST % 8 * 8)) as u32;
        (result >= 0).then_some(Self { bytes: told[BYTES / 8] as usize, was_attached: last != 0 })
    }
}

/// Carries out `shmat` or `shmdt`.
///
/// # Safety
/// As for the call itself.
pub(super) unsafe fn carry_out(thread: &mut Thread, number: usize, arguments: &[usize; 6]) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        match (runtime::mode(), number) {
            (Mode::Replay, SHMAT) => replay_attach(arguments),
            (Mode::Replay, _) => replay_detach(arguments),
            (_, SHMAT) => attach(thread, arguments),
            _ => detach(thread, arguments),
        }
    }
}

unsafe fn attach(thread: &mut Thread, arguments: &[usize; 6]) -> isize {
    let id = arguments[0];
    let mut space = memory::space();
    // Who comes first takes its place before others of this recording can find it attached.
    let is_first = Segment::of(id).and_then(|_| shared::place(identity(id))).is_some_and(|(_, _, is_new)| is_new);
    let segment = Segment::of(id);
    // SAFETY: the caller's promise.
    unsafe {
        let result = space.attach(arguments, segment.map_or(0, |segment| segment.bytes));
        let attached = segment.filter(|_| result > 0);
        let Some(segment) = attached else {
            writer::append_call(thread, SHMAT, result, &|_| {});
            record::shared_quietly(&internal(Internal::Memory).clock, Kind::LibcCall);
            return result;
        };
        if is_first && segment.was_attached {
            report::line(format_args!(
                "System V segment {} was there before: a replay has what it held, and what the processes of this recording \
                 write there",
                id as u32
            ));
        }
        keep(thread, &mut space, id, &segment, result);
        record::shared_quietly(&internal(Internal::Memory).clock, Kind::LibcCall);
        record::shared_quietly(&system_v::cell(Kept::Segment, id).clock, Kind::LibcCall);
        if let Some((_, place, _)) = shared::place(identity(id)) {
            place.laid.fetch_max(1, Ordering::AcqRel);
        }
        object::mapped_shared();
        // In a replay the lock on the address space is held until then.
        record::raise(&internal(Internal::Memory).clock);
        result
    }
}

fn identity(id: usize) -> [u64; 2] {
    [DEVICE, id as u32 as u64 + 1]
}

/// Keeps an attachment, and what the segment held unless an earlier one did.
///
/// # Safety
/// The memory must be there.
#[inline(never)]
unsafe fn keep(thread: &mut Thread, space: &mut Space, id: usize, segment: &Segment, result: isize) {
    let (address, bytes) = (result as usize, segment.bytes.next_multiple_of(PAGE));
    let place = shared::place(identity(id)).filter(|_| bytes as u64 <= PLACE_BYTES);
    let has_room = space.attached.add(address, bytes);
    let Some((_, place, _)) = place.filter(|_| has_room) else {
        // SAFETY: no pieces.
        unsafe { writer::append_call(thread, SHMAT, result, &|_| {}) };
        return memory::refuse(thread, "more shared memory than a replay has room for");
    };
    let held = if segment.was_attached && place.laid.load(Ordering::Acquire) == 0 {
        // SAFETY: the caller's promise.
        unsafe { end_of_data(address, bytes) }
    } else {
        0
    };
    let about = [bytes];
    // SAFETY: a local array, and the caller's promise.
    unsafe {
        writer::append_call(thread, SHMAT, result, &|visit| {
            visit(about.as_ptr().addr(), size_of_val(&about));
            if held > 0 {
                visit(address, held);
            }
        });
    }
}

/// How many bytes there are up to the last that is not zero.
unsafe fn end_of_data(address: usize, bytes: usize) -> usize {
    // SAFETY: the caller's promise. Other processes may write there: any value will do.
    let is_data = |&at: &usize| unsafe { ((address + at) as *const u64).read_volatile() } != 0;
    (0..bytes).step_by(8).rev().find(is_data).map_or(0, |at| at + 8)
}

unsafe fn detach(thread: &mut Thread, arguments: &[usize; 6]) -> isize {
    let mut space = memory::space();
    // SAFETY: the caller's promise; no pieces.
    unsafe {
        let result = dispatch::program_call(SHMDT, arguments);
        if result == 0
            && let Some(bytes) = space.attached.take(arguments[0])
        {
            space.give(arguments[0], bytes);
        }
        writer::append_call(thread, SHMDT, result, &|_| {});
        record::shared_quietly(&internal(Internal::Memory).clock, Kind::LibcCall);
        result
    }
}

unsafe fn replay_attach(arguments: &[usize; 6]) -> isize {
    let taken = replayed::take(SHMAT);
    replay::enter(Kind::LibcCall, 0);
    let mut space = memory::space();
    replay::leave(Kind::LibcCall, &[internal(Internal::Memory)], false);
    if taken.result > 0 {
        alone::attaches();
        replay::enter(Kind::LibcCall, 0);
        // SAFETY: the caller's promise; the recording had the memory at the same address.
        unsafe { map(&mut space, arguments, taken.result as usize, taken.filler().as_new()) };
        replay::leave(Kind::LibcCall, &[system_v::cell(Kept::Segment, arguments[0])], false);
    }
    taken.result
}

/// Maps the place of a segment, and lays there what it held if this is the first attachment.
///
/// # Safety
/// As for the call itself.
unsafe fn map(space: &mut Space, arguments: &[usize; 6], address: usize, mut filler: Filler) {
    let [id, _, flags, ..] = *arguments;
    let mut about = [0usize];
    // SAFETY: a local array; the mapping is made here, as long as it was in the recording.
    unsafe {
        filler.fill(about.as_mut_ptr().addr(), size_of_val(&about));
        let [bytes] = about;
        let Some((index, place, _)) = shared::place(identity(id)) else { replayed::diverge(SHMAT) };
        let within = index * PLACE_BYTES as usize;
        let map = |protection, how, access| {
            let pool = syscall::open(crate::path::Path::pool().as_bytes(), access);
            if pool < 0 {
                replayed::diverge(SHMAT);
            }
            memory::map_at(address, bytes, protection, how | MAP_SHARED, pool as usize, within);
            syscall::close(pool as u32);
        };
        let replaces = if flags & SHM_REMAP != 0 { MAP_FIXED } else { 0 };
        map(PROT_READ | PROT_WRITE, memory::placed(replaces), syscall::O_RDWR);
        shared::lay(address, 0, bytes as u64, place, &mut filler);
        filler.finish(SHMAT);
        if flags & SHM_RDONLY != 0 {
            // No protection that the program asks for later makes it writable.
            map(PROT_READ, MAP_FIXED, syscall::O_RDONLY);
        }
        if flags & SHM_EXEC != 0 {
            let writable = if flags & SHM_RDONLY == 0 { PROT_WRITE } else { 0 };
            syscall6(MPROTECT, address, bytes, PROT_READ | PROT_EXEC | writable, 0, 0, 0);
        }
        space.attached.add(address, bytes);
        object::mapped_shared();
        races::fresh(address, bytes);
    }
}

unsafe fn replay_detach(arguments: &[usize; 6]) -> isize {
    let taken = replayed::take(SHMDT);
    replay::enter(Kind::LibcCall, 0);
    let mut space = memory::space();
    if taken.result == 0
        && let Some(bytes) = space.attached.take(arguments[0])
    {
        // SAFETY: what was attached there, as the recording has it.
        unsafe { syscall::munmap(arguments[0], bytes) };
    }
    replay::leave(Kind::LibcCall, &[internal(Internal::Memory)], false);
    taken.result
}
