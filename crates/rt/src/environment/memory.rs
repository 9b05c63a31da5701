//! Calls that change the address space: really made in a replay, at the recorded
//! addresses.
//!
//! Mapping, unmapping, moving and the break are events on one clock, and a lock is
//! held across each: the kernel may give one thread what another has just given
//! back. What a mapped file holds is input: it is kept in the recording, except
//! for programs and libraries, which stand there by name, size and time.

use super::alone;
use super::generated;
use super::instructions;
use super::ordered::Ordered;
use super::packed;
use super::segments;
use super::shared::{self, SHARED};
use super::space::Space;
use super::unknown;
use super::visible;
use crate::object::{self, Cell, Internal, internal};
use crate::races;
use crate::replay::calls::{self as replayed, Filler, Taken};
use crate::runtime::{self, Mode};
use crate::thread::Thread;
use crate::{record, replay, report, writer};
use relive_order::Kind;
use relive_sys::dispatch;
use relive_sys::lock::Guard;
use relive_sys::start::Handover;
use relive_sys::syscall::number::{
    BRK, MMAP, MPROTECT, MREMAP, MUNMAP, PKEY_MPROTECT, PROCESS_VM_READV, PROCESS_VM_WRITEV, SHMAT, SHMDT,
};
use relive_sys::syscall::{self, Stat, syscall6};
use relive_trace::control::flag;
use relive_trace::opened::NAMED;

const PAGE: usize = 4096;
const EFAULT: isize = -14;

const PROT_READ: usize = 1;
const PROT_WRITE: usize = 2;
const PROT_EXEC: usize = 4;
const MAP_SHARED: usize = 1;
const MAP_TYPE: usize = 15;
const MAP_PRIVATE: usize = 2;
const MAP_FIXED: usize = 0x10;
const MAP_ANONYMOUS: usize = 0x20;
const MAP_FIXED_NOREPLACE: usize = 0x10_0000;
const MREMAP_MAYMOVE: usize = 1;
const MREMAP_FIXED: usize = 2;

/// First byte of what is kept of a mapped file: its contents follow.
const CONTENTS: u8 = b'C';
/// So much of a file is not kept: a call's bytes are counted in 32 bits.
pub(super) const CONTENTS_MAX: usize = u32::MAX as usize - 1;
const PATH_MAX: usize = 4096;
/// What is kept of a mapped library: size, seconds and nanoseconds of its last change.
type Identity = [u64; 3];
const IDENTITY_BYTES: usize = size_of::<Identity>();

static SPACE: Ordered<Space> = Ordered::new(Internal::Memory, Space::new());

/// Addresses are ours to choose from here on.
pub(super) fn start(handover: &Handover) {
    SPACE.in_any_order().take_over(handover);
}

/// The address space, for who holds more besides.
pub(super) fn shared() -> &'static Ordered<Space> {
    &SPACE
}

/// The address space alone: who holds it sees to the event.
pub(super) fn space() -> Guard<'static, Space> {
    SPACE.in_any_order()
}

/// Frees the lock in a fork child.
///
/// # Safety
/// Only in a fork child while it has one thread.
pub(super) unsafe fn reset_after_fork() {
    // SAFETY: the caller's promise.
    unsafe { SPACE.reset_after_fork() };
}

/// Reads memory that may not be there.
pub(crate) fn read(address: usize, bytes: &mut [u8]) -> bool {
    copy(PROCESS_VM_READV, address, bytes.as_mut_ptr().addr(), bytes.len())
}

/// Writes memory that may not be there.
pub(super) fn write(address: usize, bytes: &[u8]) -> bool {
    copy(PROCESS_VM_WRITEV, address, bytes.as_ptr().addr(), bytes.len())
}

fn copy(number: usize, remote: usize, local: usize, length: usize) -> bool {
    let (ours, theirs) = ([local, length], [remote, length]);
    let (ours, theirs) = (ours.as_ptr().addr(), theirs.as_ptr().addr());
    // SAFETY: the kernel checks the program's side; ours is as long as stated.
    let copied = unsafe { syscall6(number, syscall::gettid() as usize, ours, 1, theirs, 1, 0) };
    if copied == EFAULT || copied >= 0 {
        return copied == length as isize;
    }
    // A filter forbids the call. The address is the program's own argument: as good as in its own call.
    let (from, to) = if number == PROCESS_VM_READV { (remote, local) } else { (local, remote) };
    // SAFETY: as good as the program's own use of its argument.
    unsafe { core::ptr::copy(from as *const u8, to as *mut u8, length) };
    true
}

/// Carries out a call of the program's.
///
/// # Safety
/// As for the call itself.
pub(super) unsafe fn carry_out(thread: &mut Thread, number: usize, arguments: &[usize; 6]) -> isize {
    shared::note(number, arguments);
    if matches!(number, SHMAT | SHMDT) {
        // SAFETY: the caller's promise.
        return unsafe { segments::carry_out(thread, number, arguments) };
    }
    if !matches!(number, MMAP | MUNMAP | BRK | MREMAP) {
        // No address is chosen. What is a mapping of a file in the recording, with the file's own rights, is none in a
        // replay: so the answer is the recorded one.
        // SAFETY: the caller's promise; no pieces.
        unsafe {
            let mut result = dispatch::program_call(number, arguments);
            if runtime::mode() == Mode::Replay {
                result = replayed::take(number).result;
            } else {
                writer::append_call(thread, number, result, &|_| {});
            }
            if matches!(number, MPROTECT | PKEY_MPROTECT) && result == 0 {
                generated::appears(&(arguments[0]..arguments[0].saturating_add(arguments[1])), arguments[2]);
            }
            return result;
        }
    }
    match runtime::mode() {
        // SAFETY: the caller's promise.
        Mode::Replay => unsafe { replay(number, arguments) },
        // SAFETY: the caller's promise.
        _ => unsafe { record(thread, number, arguments) },
    }
}

/// A mapping that the recording does not know: among our own, so that it is in nobody's way.
///
/// # Safety
/// As for the call itself.
pub(super) unsafe fn map_apart(arguments: &[usize; 6]) -> isize {
    let [address, length, protection, flags, fd, offset] = *arguments;
    if flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) != 0 || flags & MAP_ANONYMOUS == 0 {
        // SAFETY: the caller's promise.
        return unsafe { syscall6(MMAP, address, length, protection, flags, fd, offset) };
    }
    let mapped = syscall::mmap(length, flags as u32, -1, 0);
    if mapped > 0 {
        // SAFETY: the mapping that was just made.
        unsafe { syscall6(MPROTECT, mapped as usize, length, protection, 0, 0, 0) };
    }
    mapped
}

unsafe fn record(thread: &mut Thread, number: usize, arguments: &[usize; 6]) -> isize {
    let mut space = SPACE.in_any_order();
    // SAFETY: the caller's promise.
    unsafe {
        let result = match number {
            MMAP => space.map(arguments),
            MUNMAP => space.unmap(arguments),
            MREMAP => space.remap(arguments),
            _ => space.set_break(arguments),
        };
        let mut file = None;
        if number == MMAP && result > 0 && arguments[3] & MAP_ANONYMOUS == 0 {
            file = record_file(thread, arguments, result);
            mapped_code(arguments, result, arguments[4] as u32);
        } else {
            writer::append_call(thread, number, result, &|_| {});
            replaced(number, arguments, result);
            mapped_empty(number, arguments, result);
        }
        // libc gives back the stack of a thread within the call that joins it: after all that the thread did.
        if !thread.joining.is_null() {
            thread.join_clock((*thread.joining).clock_base());
        }
        record::shared_quietly(&internal(Internal::Memory).clock, Kind::LibcCall);
        if let Some(file) = file {
            record::shared_quietly(&file.clock, Kind::LibcCall);
            // In a replay the lock on the address space is held until then.
            record::raise(&internal(Internal::Memory).clock);
        }
        result
    }
}

/// Changes code that was just mapped from a file.
///
/// # Safety
/// The call must have had this result, and nobody may know of it yet.
unsafe fn mapped_code(arguments: &[usize; 6], result: isize, fd: u32) {
    let [_, length, protection, flags, _, offset] = *arguments;
    let range = result as usize..result as usize + length;
    if protection & (PROT_EXEC | PROT_WRITE) == PROT_EXEC && flags & MAP_TYPE == MAP_PRIVATE {
        // SAFETY: the caller's promise; the lock on the address space is held, or it is this thread's turn.
        unsafe { instructions::mapped(&range, fd, offset) };
    } else {
        instructions::unmapped(&range);
        // Whoever maps the file elsewhere may write there.
        generated::may_change(protection);
    }
}

/// Memory that a program fills itself.
fn mapped_empty(number: usize, arguments: &[usize; 6], result: isize) {
    if number == MMAP && result > 0 && arguments[3] & MAP_ANONYMOUS != 0 {
        let shared = arguments[3] & MAP_TYPE == MAP_SHARED;
        if shared {
            object::mapped_shared();
        }
        if shared || arguments[2] & PROT_WRITE != 0 {
            generated::may_change(arguments[2]);
        }
    }
}

/// Follows what was changed in memory that is not there any more, or elsewhere. Not what anonymous memory replaces:
/// programs copy their code into larger pages that way.
fn replaced(number: usize, arguments: &[usize; 6], result: isize) {
    let range = arguments[0]..arguments[0].saturating_add(arguments[1]);
    if visible::is_any_in(&range) {
        object::mapped_shared();
    }
    match number {
        MUNMAP if result == 0 => instructions::unmapped(&range),
        MREMAP if result > 0 && result as usize != range.start => instructions::moved(&range, result as usize),
        _ => {}
    }
}

unsafe fn syscall6_of(number: usize, arguments: &[usize; 6]) -> isize {
    let a = arguments;
    // SAFETY: the caller's promise.
    unsafe { syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]) }
}

/// Keeps what a file shows in the memory just mapped. Returns its clock if it is shared.
#[inline(never)] // Its buffers would weigh on the stack of every call.
unsafe fn record_file(thread: &mut Thread, arguments: &[usize; 6], result: isize) -> Option<&'static Cell> {
    let [_, length, protection, flags, fd, offset] = *arguments;
    let fd = fd as u32;
    let Some(size) = syscall::file_size(fd) else {
        refuse(thread, "a mapped device, which others may change");
        return None;
    };
    let held = (size.saturating_sub(offset as u64)).min(length as u64) as usize;
    let is_shared = flags & MAP_TYPE == MAP_SHARED && (protection & PROT_WRITE != 0 || shared::is_writable(fd));
    let mut head = [0u8; 4];
    // Whoever edits a program by its mapping must not edit the machine's in a replay.
    let is_code = !is_shared && syscall::read_at(fd, &mut head, 0) == 4 && head == *b"\x7FELF";
    let mut path = [0u8; PATH_MAX];
    if is_code
        && let Some(name) = syscall::path_of(fd, &mut path)
        && let Some(stat) = syscall::file_stat(fd)
    {
        packed::keep(name, fd, &stat);
        let (tag, identity) = ([NAMED], identity_of(&stat));
        // SAFETY: local arrays.
        unsafe {
            writer::append_call(thread, MMAP, result, &|visit| {
                visit(tag.as_ptr().addr(), 1);
                visit(identity.as_ptr().addr(), IDENTITY_BYTES);
                visit(name.as_ptr().addr(), name.len());
            });
        }
        return None;
    }
    if held >= CONTENTS_MAX {
        refuse(thread, "a mapping of more of a file than is kept");
        return None;
    }
    let mut file = None;
    // SAFETY: a mapping of our own, or the one just made.
    unsafe {
        let own = protection & PROT_READ == 0 && held > 0;
        let at = if own { syscall6(MMAP, 0, held, PROT_READ, MAP_PRIVATE, fd as usize, offset) } else { result };
        let (tag, held_at) = ([CONTENTS], at.max(0) as usize);
        if is_shared {
            file = shared::record(thread, fd, offset as u64, held, result, held_at);
            if file.is_none() {
                refuse(thread, "more shared memory than a replay has room for");
            }
        } else {
            writer::append_call(thread, MMAP, result, &|visit| {
                visit(tag.as_ptr().addr(), 1);
                if held_at > 0 && held > 0 {
                    visit(held_at, held);
                }
            });
        }
        if own && at > 0 {
            syscall::munmap(at as usize, held);
        }
    }
    file
}

fn identity_of(stat: &Stat) -> Identity {
    [stat.size, stat.changed[0], stat.changed[1]]
}

/// What no replay could have again ends the recording.
#[inline(never)] // Its buffers would weigh on the stack of every call.
pub(super) fn refuse(thread: &mut Thread, what: &str) {
    report::line(format_args!("recording stopped: the program uses {what}; it goes on, the trace is valid up to here"));
    unknown::end_here(thread);
}

unsafe fn replay(number: usize, arguments: &[usize; 6]) -> isize {
    let taken = replayed::take(number);
    replay::enter(Kind::LibcCall, 0);
    let mut space = SPACE.in_any_order();
    if number == MMAP && runtime::has_flag(flag::FILES) && is_shared_file(arguments, &taken) {
        replay::leave(Kind::LibcCall, &[internal(Internal::Memory)], false);
        replay::enter(Kind::LibcCall, 0);
        // SAFETY: the caller's promise; the recording had the memory at the same address.
        let file = unsafe { replay_shared(arguments, taken.result as usize, taken.filler().as_new()) };
        races::fresh(taken.result as usize, arguments[1]);
        replay::leave(Kind::LibcCall, &[file], false);
        return taken.result;
    }
    // SAFETY: the caller's promise; the recording had the memory at the same addresses.
    unsafe {
        match (number, taken.result) {
            (_, error) if error < 0 => {}
            (MMAP, _) => {
                replay_mmap(arguments, &taken);
                races::fresh(taken.result as usize, arguments[1]);
            }
            (MREMAP, _) => replay_mremap(arguments, taken.result as usize),
            (BRK, end) => {
                // Not what the program asked for: a limit that forbade it may allow it now.
                let found = space.set_break(&[end as usize, 0, 0, 0, 0, 0]);
                if found != end {
                    replayed::misplaced(end as usize, found);
                }
            }
            _ => {
                let found = syscall6_of(number, arguments);
                if found != taken.result {
                    replayed::misplaced(taken.result as usize, found);
                }
                replaced(number, arguments, found);
            }
        }
    }
    replay::leave(Kind::LibcCall, &[internal(Internal::Memory)], false);
    drop(space);
    taken.result
}

unsafe fn replay_mremap(arguments: &[usize; 6], recorded: usize) {
    let [old, old_length, new_length, flags, ..] = *arguments;
    let flags = if recorded == old { flags & !MREMAP_MAYMOVE } else { flags | MREMAP_MAYMOVE | MREMAP_FIXED };
    // SAFETY: the caller's promise.
    let found = unsafe { syscall6(MREMAP, old, old_length, new_length, flags, recorded, 0) };
    if found != recorded as isize {
        replayed::misplaced(recorded, found);
    }
    let stays = if recorded == old { old_length.next_multiple_of(PAGE).min(new_length) } else { 0 };
    if new_length > stays {
        races::fresh(recorded + stays, new_length - stays);
    }
    replaced(MREMAP, arguments, found);
}

/// The program's own choice of an address may replace what is there, the kernel's never does.
pub(super) fn placed(flags: usize) -> usize {
    if flags & MAP_FIXED != 0 { flags } else { flags | MAP_FIXED_NOREPLACE }
}

/// Maps memory where the recording had it.
///
/// # Safety
/// As for the call itself.
pub(super) unsafe fn map_at(address: usize, length: usize, protection: usize, flags: usize, fd: usize, offset: usize) {
    // SAFETY: the caller's promise.
    let found = unsafe { syscall6(MMAP, address, length, protection, flags, fd, offset) };
    if found != address as isize {
        replayed::misplaced(address, found);
    }
}

/// Whether this is a mapping of a file that is written and shared.
fn is_shared_file(arguments: &[usize; 6], taken: &Taken) -> bool {
    let mut tag = [0u8];
    if taken.result > 0 && arguments[3] & MAP_ANONYMOUS == 0 {
        // SAFETY: a local array.
        unsafe { taken.filler().fill(tag.as_mut_ptr().addr(), 1) };
    }
    tag[0] == SHARED
}

/// Such a mapping; returns the file's clock.
///
/// # Safety
/// The recording had it at this address.
unsafe fn replay_shared(arguments: &[usize; 6], address: usize, mut filler: Filler) -> &'static Cell {
    let mut tag = [0u8];
    alone::has_shared_memory();
    // SAFETY: the caller's promise, and a local array.
    let file = unsafe {
        filler.fill(tag.as_mut_ptr().addr(), 1);
        shared::replay(arguments, address, filler)
    };
    generated::may_change(arguments[2]);
    file
}

unsafe fn replay_mmap(arguments: &[usize; 6], taken: &Taken) {
    let (address, mut filler) = (taken.result as usize, taken.filler().as_new());
    let [_, length, protection, flags, fd, offset] = *arguments;
    let none = usize::MAX;
    let mut tag = [0u8];
    // SAFETY: the caller's promise, and local arrays.
    unsafe {
        if flags & MAP_ANONYMOUS != 0 {
            if flags & MAP_TYPE == MAP_SHARED {
                alone::has_shared_memory();
            }
            map_at(address, length, protection, placed(flags), fd, offset);
            mapped_empty(MMAP, arguments, address as isize);
            return filler.finish(MMAP);
        }
        if is_shared_file(arguments, taken) {
            replay_shared(arguments, address, filler);
            return;
        }
        filler.fill(tag.as_mut_ptr().addr(), 1);
        if tag[0] == NAMED {
            return replay_named(arguments, address, filler);
        }
        let anonymous = placed(flags & MAP_FIXED) | MAP_PRIVATE | MAP_ANONYMOUS;
        map_at(address, length, PROT_READ | PROT_WRITE, anonymous, none, 0);
        filler.fill(address, filler.left());
        filler.finish(MMAP);
        syscall6(MPROTECT, address, length, protection, 0, 0, 0);
        generated::may_change(protection);
    }
}

/// A program or library must be the one that was mapped in the recording.
#[inline(never)] // Its buffers would weigh on the stack of every call.
unsafe fn replay_named(arguments: &[usize; 6], address: usize, mut filler: Filler) {
    let [_, length, protection, flags, _, offset] = *arguments;
    let mut recorded: Identity = [0; 3];
    let mut path = [0u8; PATH_MAX + 1];
    // SAFETY: local arrays; the caller's promise.
    unsafe {
        filler.fill(recorded.as_mut_ptr().addr(), IDENTITY_BYTES);
        let length_of_path = filler.left().min(PATH_MAX);
        filler.fill(path.as_mut_ptr().addr(), length_of_path);
        filler.finish(MMAP);
        let found = packed::open_kept(&path[..length_of_path], recorded).or_else(|| {
            let fd = u32::try_from(packed::open(&path[..=length_of_path])).ok()?;
            (syscall::file_stat(fd).map(|stat| identity_of(&stat)) == Some(recorded)).then_some(fd)
        });
        let Some(fd) = found else {
            let name = core::str::from_utf8(&path[..length_of_path]).unwrap_or("a library");
            report::line(format_args!("{name} is not the file that was mapped in the recording; restore it"));
            replayed::diverge(MMAP);
        };
        map_at(address, length, protection, placed(flags), fd as usize, offset);
        mapped_code(arguments, address as isize, fd);
        syscall::close(fd);
    }
}
