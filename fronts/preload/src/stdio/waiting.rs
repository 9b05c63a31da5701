//! Whether an operation may have waited for another thread or process: it read
//! from or wrote to a pipe, a terminal or a socket, not just the stream's buffer.
//!
//! libc doesn't tell whether it made a system call. What it left in the buffer
//! does: see [`Before::differs`].

use super::stream::File;
use core::sync::atomic::{AtomicUsize, Ordering};
use relive_sys::syscall;

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
#[inline]
pub(super) fn can_wait(stream: File) -> bool {
    let known = kept(stream).load(Ordering::Relaxed);
    if known & !3 == stream as usize { known & CAN_WAIT != 0 } else { find_out(stream) }
}

#[cold]
fn find_out(stream: File) -> bool {
    const TYPE: u32 = 0o170_000;
    const DIRECTORY: u32 = 0o040_000;
    const BLOCKS: u32 = 0o060_000;
    const REGULAR: u32 = 0o100_000;
    // SAFETY: a live stream. One that a callback of the program feeds has a negative number.
    let fd = unsafe { stream.cast::<u8>().add(FILENO).cast::<i32>().read() };
    let kind = u32::try_from(fd).ok().and_then(syscall::file_mode);
    let can = kind.is_some_and(|mode| !matches!(mode & TYPE, DIRECTORY | BLOCKS | REGULAR));
    kept(stream).store(stream as usize | if can { CAN_WAIT } else { CAN_NOT }, Ordering::Relaxed);
    can
}

/// The stream's address or its file changed hands.
pub(super) fn forget(stream: File) {
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
