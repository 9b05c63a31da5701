//! Whether an operation may have waited for another thread or process: it read
//! from or wrote to a pipe, a terminal or a socket, not just the stream's buffer.
//!
//! libc doesn't tell whether it made a system call. What it left in the buffer
//! does: see [`Before::differs`].

use super::list;
use super::stream::{self, File};
use core::sync::atomic::{AtomicUsize, Ordering};
use relive_rt::Mode;
use relive_rt::environment::{self, carried};
use relive_sys::syscall;
use relive_sys::syscall::number::FSTAT;

/// Offset of `_fileno` in a `FILE`.
const FILENO: usize = 112;
const CURRENTLY_PUTTING: u32 = 0x800;
const KEPT: usize = 256;
/// Bits below a stream's address, which is a multiple of 8.
const CAN_WAIT: usize = 1;
const CAN_NOT: usize = 2;

/// What was last found out about streams, by their address.
static KINDS: [AtomicUsize; KEPT] = [const { AtomicUsize::new(0) }; KEPT];

fn kept(stream: File) -> &'static AtomicUsize {
    &KINDS[(stream as usize >> 4).wrapping_mul(0x9E37_79B9) >> 8 & (KEPT - 1)]
}

/// Whether operations on this stream can wait in the kernel. The calling thread holds it.
///
/// A replay's streams need not be what the recording's were: its output may go to a file where that went to a pipe. That
/// an operation may have waited only lets clocks jump in a replay, so there each may have.
#[inline]
pub(super) fn can_wait(stream: File) -> bool {
    if carried::is_ordered() {
        return carries(stream);
    }
    if relive_rt::mode() == Mode::Replay {
        return true;
    }
    let known = kept(stream).load(Ordering::Relaxed);
    if known & !3 == stream as usize { known & CAN_WAIT != 0 } else { find_out(stream) }
}

/// The stream's descriptor. One that a callback of the program feeds has none.
fn descriptor(stream: File) -> Option<u32> {
    // SAFETY: a live stream.
    u32::try_from(unsafe { stream.cast::<u8>().add(FILENO).cast::<i32>().read() }).ok()
}

/// Whether one can wait for a file with these type bits.
fn waits(mode: u32) -> bool {
    const TYPE: u32 = 0o170_000;
    const DIRECTORY: u32 = 0o040_000;
    const BLOCKS: u32 = 0o060_000;
    const REGULAR: u32 = 0o100_000;
    !matches!(mode & TYPE, DIRECTORY | BLOCKS | REGULAR)
}

#[cold]
fn find_out(stream: File) -> bool {
    let can = descriptor(stream).and_then(syscall::file_mode).is_some_and(waits);
    kept(stream).store(stream as usize | if can { CAN_WAIT } else { CAN_NOT }, Ordering::Relaxed);
    can
}

/// Bits of `_flags2` that glibc has no use for: whether the stream can wait, and that this is known.
const KNOWN: u32 = 1 << 21;
const WAITS: u32 = 1 << 22;

/// [`can_wait`] where the answer decides about events: a replay must come to the same, and has no such file. So the
/// question is one of the program's calls, and the answer is kept where only the stream's holder finds it.
fn carries(stream: File) -> bool {
    let flags = list::flags2(stream);
    // SAFETY: a live stream that the calling thread holds.
    unsafe {
        if *flags & KNOWN == 0 {
            *flags |= KNOWN | if recorded_mode(stream).is_some_and(waits) { WAITS } else { 0 };
        }
        *flags & WAITS != 0
    }
}

#[cold]
fn recorded_mode(stream: File) -> Option<u32> {
    /// Words of the kernel's `struct stat`, and which holds the type in its lower half.
    const WORDS: usize = 18;
    const MODE: usize = 3;
    let fd = descriptor(stream)?;
    let mut stat = [0usize; WORDS];
    // SAFETY: room for the kernel's answer.
    let result = unsafe { environment::call(FSTAT, [fd as usize, stat.as_mut_ptr().addr(), 0, 0, 0, 0]) };
    (result == 0).then_some(stat[MODE] as u32)
}

/// Whether something may be written to the stream, or read from it.
pub(super) fn may_write(stream: File) -> bool {
    const NO_WRITES: u32 = 8;
    stream::flags(stream) & NO_WRITES == 0
}

/// See [`may_write`].
pub(super) fn may_read(stream: File) -> bool {
    const NO_READS: u32 = 4;
    stream::flags(stream) & NO_READS == 0
}

/// The stream's address or its file changed hands.
pub(super) fn forget(stream: File) {
    // SAFETY: a live stream that is about to end.
    unsafe { *list::flags2(stream) &= !KNOWN };
    let _ = kept(stream).compare_exchange(stream as usize | CAN_WAIT, 0, Ordering::Relaxed, Ordering::Relaxed);
    let _ = kept(stream).compare_exchange(stream as usize | CAN_NOT, 0, Ordering::Relaxed, Ordering::Relaxed);
}

/// The part of glibc's `FILE` that its buffer is described by.
#[repr(C)]
struct Buffer {
    flags: u32,
    read_ptr: usize,
    read_end: usize,
    read_base: usize,
    write_base: usize,
    write_ptr: usize,
}

/// Whether the next operation on a stream, null for one that is about to be opened, allocates its buffer.
pub(super) fn has_no_buffer(stream: File) -> bool {
    // SAFETY: null, or a live stream that the calling thread holds; its layout is part of glibc's ABI.
    unsafe { stream.cast::<Buffer>().as_ref() }.is_none_or(|buffer| buffer.read_base == 0 && buffer.write_base == 0)
}

/// The state of a stream's buffer before an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    /// How far reading or writing had come.
    at: usize,
    /// Everything else, mixed.
    rest: usize,
}

impl Before {
    pub(super) fn words(self) -> [usize; 2] {
        [self.at, self.rest]
    }

    pub(super) fn from_words([at, rest]: [usize; 2]) -> Self {
        Self { at, rest }
    }

    /// Looks at a stream that the calling thread holds.
    pub(super) fn see(stream: File) -> Self {
        Self::look(stream).0
    }

    /// The state, and whether all that was read into the buffer has been taken out.
    fn look(stream: File) -> (Self, bool) {
        // SAFETY: a live stream that the calling thread holds; these members are part of glibc's ABI, because
        // programs have them compiled in. Eight bytes at the end of what was read, or at the start of what is
        // to be written, are inside the buffer if there is so much.
        unsafe {
            let b = &*stream.cast::<Buffer>();
            let writing = b.flags & CURRENTLY_PUTTING != 0;
            let sample = match writing {
                true if b.write_ptr.wrapping_sub(b.write_base) >= 8 => (b.write_base as *const usize).read_unaligned(),
                false if b.read_end.wrapping_sub(b.read_base) >= 8 => {
                    ((b.read_end - 8) as *const usize).read_unaligned()
                }
                _ => 0,
            };
            let bounds = if writing { b.write_base ^ 1 } else { b.read_base ^ b.read_end.rotate_left(32) };
            let at = if writing { b.write_ptr } else { b.read_ptr };
            (Self { at, rest: sample ^ bounds }, !writing && b.read_ptr == b.read_end)
        }
    }

    /// Whether the buffer was filled or emptied since: its bounds or its content changed, or reading or writing
    /// has not moved on, or everything that was read has been used. May be wrong in saying yes.
    pub(super) fn differs(self, stream: File) -> bool {
        let (now, used_up) = Self::look(stream);
        used_up || now.rest != self.rest || now.at <= self.at
    }
}
