//! Where everything of a program lies that was started with an address space of
//! our choice, and what its starter tells the runtime.
//!
//! Here because both sides need the same rule: the starter lays the program out
//! and chooses addresses until the preloaded library takes over.

use crate::outside::Places;
use core::ffi::c_char;
use core::ops::Range;

/// The starter itself; its linker is told so.
pub const STARTER: usize = 0x1FFF_0000_0000;
/// Which instructions were changed; see `outside::Places`.
pub const PLACES: usize = 0x1FFD_8000_0000;
/// Where the starter sees the session's control memory, until the runtime does.
pub const CONTROL: usize = 0x1FFD_C000_0000;
/// What the starter leaves for the runtime: a [`Handover`] and its strings.
pub const HANDOVER: usize = 0x1FFE_0000_0000;
/// The list of files that the starter leaves, see [`Opened`], and the bytes that it may have.
pub const OPENED: usize = 0x1FFE_8000_0000;
/// See [`OPENED`].
pub const OPENED_BYTES: usize = 256 << 10;
/// Where the starter keeps things for a moment.
pub const SCRATCH: usize = 0x1FFC_0000_0000;
/// A program that does not say where it wants to be.
pub const PROGRAM: usize = 0x5555_5555_4000;
/// The memory that the break of most programs moves in, see [`Break::behind`].
pub const BREAK: Range<usize> = 0x5600_0000_0000..0x5680_0000_0000;
/// The program's mappings, from the top down. Programs built with the thread sanitizer may have theirs here, too.
pub const AREA: Range<usize> = 0x7E90_0000_0000..0x7FDF_FF00_0000;
/// Our own library: whatever its size, the program's lie behind it.
pub const OWN: Range<usize> = AREA.end..0x7FE0_0000_0000;
/// Where they go that are too large for that.
pub const WIDE: Range<usize> = 0x6000_0000_0000..0x7800_0000_0000;
/// Mappings that have to lie in the lowest two gigabytes.
pub const LOW: Range<usize> = 0x4000_0000..0x8000_0000;
/// Pieces of code of ours that jumps from the program's mappings reach.
pub const PIECES: Range<usize> = 0x7FE0_0000_0000..0x7FE0_4000_0000;
/// The kernel's image of functions. Its data lie before it.
pub const IMAGE: usize = 0x7FE1_0000_0000;
/// The end of the first thread's stack.
pub const STACK_END: usize = 0x7FFF_FFFF_E000;
/// So long a stack can be.
pub const STACK_MAX: usize = STACK_END - IMAGE - (1 << 32);

const _: () = assert!(
    SCRATCH < PLACES && PLACES < CONTROL && CONTROL < HANDOVER && HANDOVER < STARTER && STARTER < 0x2000_0000_0000
);
const _: () = assert!(BREAK.end < WIDE.start && WIDE.end < AREA.start);
const _: () = assert!(OWN.end < IMAGE && IMAGE < STACK_END - STACK_MAX);

/// Types of the auxiliary entries that depend on processor, kernel and user, and are no addresses: `AT_FLAGS`, user and
/// group ids, `AT_HWCAP`, `AT_CLKTCK`, `AT_HWCAP2`, two of rseq, `AT_HWCAP3`, `AT_HWCAP4`, `AT_MINSIGSTKSZ`.
pub const TOLD: [u64; 13] = [8, 11, 12, 13, 14, 16, 17, 26, 27, 28, 29, 30, 51];

/// Type of the auxiliary entry that names the [`Handover`].
pub const AT_HANDOVER: usize = 0x5245_4C56;

/// What the starter leaves for the runtime.
#[derive(Debug)]
#[repr(C)]
pub struct Handover {
    /// Entries of the environment that are no business of the program's, `NAME=value`, ended by null.
    pub session: [*const c_char; 4],
    /// The starter's own path.
    pub starter: *const c_char,
    /// The program's random bytes in hexadecimal, as the starter was told.
    pub options: *const c_char,
    /// The file that runs, by its full path.
    pub file: *const c_char,
    /// The limit of its stack that the starter was told.
    pub stack: usize,
    /// Below this address, down to the start of [`AREA`], nothing was mapped yet.
    pub lowest: usize,
    /// The break.
    pub end_of_data: Break,
    /// Files that were opened so far, in a recording.
    pub opened: Opened,
    /// Which instructions were changed, if any were to be.
    pub places: Option<&'static Places>,
}

/// A list of files that the starter opened, and the loader after it: entries one behind the other, as
/// [`Opened::note`] lays them.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Opened {
    /// Where the list begins; null where nothing is noted.
    pub list: *mut u8,
    /// Bytes of it, and of what stands in front of the first entry.
    pub bytes: usize,
    /// Bytes that it may have. Zero once an entry found no room: then the list is not complete.
    pub room: usize,
}

impl Opened {
    /// Nothing is noted.
    pub const NONE: Self = Self { list: core::ptr::null_mut(), bytes: 0, room: 0 };

    /// Adds a file: its size, seconds and nanoseconds of its last change, its device and inode, and its name in two
    /// parts, ended by zero.
    ///
    /// # Safety
    /// The list must have the room that it says.
    pub unsafe fn note(&mut self, identity: [u64; 5], name: [&[u8]; 2]) {
        let identity = identity.map(u64::to_le_bytes);
        let parts = [identity.as_flattened(), name[0], name[1], &[0]];
        if self.bytes + parts.iter().map(|part| part.len()).sum::<usize>() > self.room {
            self.room = 0;
            return;
        }
        for part in parts {
            // SAFETY: there is room for all parts, as just counted.
            unsafe { core::ptr::copy_nonoverlapping(part.as_ptr(), self.list.add(self.bytes), part.len()) };
            self.bytes += part.len();
        }
    }
}

/// The handover that an auxiliary vector names.
///
/// # Safety
/// `auxiliary` must be the process's auxiliary vector or null.
pub unsafe fn handover(auxiliary: *const [usize; 2]) -> Option<*mut Handover> {
    // SAFETY: the caller's promise; an entry of our type was made by the starter.
    unsafe { find(auxiliary, AT_HANDOVER).map(|address| address as *mut Handover) }
}

/// The value of an entry of an auxiliary vector.
///
/// # Safety
/// As for [`handover`].
pub unsafe fn find(auxiliary: *const [usize; 2], kind: usize) -> Option<usize> {
    let mut at = auxiliary;
    // SAFETY: the caller's promise: it ends with an entry of type 0.
    unsafe {
        while !at.is_null() && (*at)[0] != 0 {
            if (*at)[0] == kind {
                return Some((*at)[1]);
            }
            at = at.add(1);
        }
    }
    None
}

/// The break: the kernel's own lies where the starter was put, or anywhere.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Break {
    start: usize,
    end: usize,
    now: usize,
}

/// What a change of the break asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing to map or unmap.
    None,
    /// Memory from here to there.
    Map(usize, usize),
    /// No memory from here to there.
    Unmap(usize, usize),
}

impl Break {
    /// Far from everything.
    pub const FAR: Self = Self::within(BREAK.start, BREAK.end);

    const fn within(start: usize, end: usize) -> Self {
        Self { start, end, now: start }
    }

    /// That of a program that is linked to a fixed address, and ends at `end`, which is a page's: right there, as the kernel
    /// has it where nothing is left to chance. Some Lisps have one table for their pages from the first of the program to the
    /// last below the break. `None` where there is little room.
    pub fn behind(end: usize) -> Option<Self> {
        const ROOM: usize = 256 << 20;
        (end <= LOW.start - ROOM).then_some(Self::within(end, LOW.start))
    }

    /// Where it starts.
    pub fn start(self) -> usize {
        self.start
    }

    /// Where it is.
    pub fn now(self) -> usize {
        self.now
    }

    /// The break at `wanted`, and what has to be done for it; `None` if it can't be there.
    pub fn change(self, wanted: usize) -> Option<(Self, Change)> {
        const PAGE: usize = 4096;
        if !(self.start..=self.end).contains(&wanted) {
            return None;
        }
        let (old, new) = (self.now.next_multiple_of(PAGE), wanted.next_multiple_of(PAGE));
        let change = match new.cmp(&old) {
            core::cmp::Ordering::Equal => Change::None,
            core::cmp::Ordering::Greater => Change::Map(old, new),
            core::cmp::Ordering::Less => Change::Unmap(new, old),
        };
        Some((Self { now: wanted, ..self }, change))
    }

    /// Carries out `brk(wanted)`; what the call returns.
    ///
    /// # Safety
    /// As for the call itself.
    pub unsafe fn set(&mut self, wanted: usize) -> usize {
        use crate::syscall::number::{MMAP, MUNMAP};
        use crate::syscall::syscall6;
        const READ_WRITE: usize = 3;
        const PRIVATE_ANONYMOUS_AT: usize = 2 | 0x20 | 0x10_0000;
        let Some((new, change)) = self.change(wanted) else { return self.now };
        // SAFETY: the caller's promise: what is below the old break and above the new one is given back.
        let done = unsafe {
            match change {
                Change::None => true,
                Change::Map(start, end) => {
                    let length = end - start;
                    syscall6(MMAP, start, length, READ_WRITE, PRIVATE_ANONYMOUS_AT, usize::MAX, 0) == start as isize
                }
                Change::Unmap(start, end) => syscall6(MUNMAP, start, end - start, 0, 0, 0, 0) == 0,
            }
        };
        if done {
            *self = new;
        }
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::{BREAK, Break, Change, LOW, Opened};

    #[test]
    fn what_finds_no_room_makes_the_list_incomplete() {
        let mut memory = [1u8; 64];
        let mut opened = Opened { list: memory.as_mut_ptr(), bytes: 0, room: 64 };
        // SAFETY: the array has this room.
        unsafe {
            opened.note([1, 2, 3, 4, 5], [b"/a", b"/b"]);
            assert_eq!((opened.bytes, opened.room), (45, 64));
            opened.note([1, 2, 3, 4, 5], [b"/a/name", b"/that/is/longer"]);
            assert_eq!((opened.bytes, opened.room), (45, 0));
        }
        assert_eq!(&memory[..8], &[1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&memory[40..46], b"/a/b\0\x01");
    }

    #[test]
    fn the_break_moves_by_pages_within_its_bounds() {
        let start = Break::FAR;
        assert_eq!(start.change(0).map(|_| ()), None);
        let (grown, change) = start.change(BREAK.start + 1).unwrap();
        assert_eq!(change, Change::Map(BREAK.start, BREAK.start + 4096));
        assert_eq!(grown.change(BREAK.start + 4096).unwrap().1, Change::None);
        let (back, change) = grown.change(BREAK.start).unwrap();
        assert_eq!((back.now(), change), (BREAK.start, Change::Unmap(BREAK.start, BREAK.start + 4096)));
        assert!(grown.change(BREAK.end + 1).is_none());
        let behind = Break::behind(0x60_3000).unwrap();
        assert!(
            behind.now() == 0x60_3000 && behind.change(0x60_2fff).is_none() && behind.change(BREAK.start).is_none()
        );
        assert_eq!(behind.change(0x60_3001).unwrap().1, Change::Map(0x60_3000, 0x60_4000));
        assert!(Break::behind(LOW.start - 4096).is_none(), "there is no room");
    }

    #[test]
    fn a_break_that_was_moved_can_be_written_below() {
        let mut own = Break::FAR;
        // SAFETY: nothing else of this process lies there.
        unsafe {
            assert_eq!(own.set(0), BREAK.start);
            assert_eq!(own.set(BREAK.start + 10_000), BREAK.start + 10_000);
            ((BREAK.start + 9_999) as *mut u8).write(1);
            assert_eq!(own.set(BREAK.start), BREAK.start);
        }
    }
}
