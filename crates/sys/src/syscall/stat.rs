//! What the kernel says of an open file.
//!
//! Apart from the calls because here is what a file is known by.

use super::{number, syscall3, syscall6};

/// What the kernel says of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Device and inode.
    pub identity: [u64; 2],
    /// Type and permission bits.
    pub mode: u32,
    /// User and group.
    pub owner: [u32; 2],
    /// Bytes.
    pub size: u64,
    /// Last change of its contents: seconds and nanoseconds.
    pub changed: [u64; 2],
    /// Last change of anything about it, names and permissions included: seconds and nanoseconds.
    pub status_changed: [u64; 2],
}

/// What the kernel says of an open file; `None` if the descriptor is not open.
pub fn file_stat(fd: u32) -> Option<Stat> {
    let mut stat = [0u64; 18];
    // SAFETY: the kernel fills at most a struct stat, which has this size on x86-64.
    let result = unsafe { syscall3(number::FSTAT, fd as usize, stat.as_mut_ptr() as usize, 0) };
    let found = Stat {
        identity: [stat[0], stat[1]],
        mode: stat[3] as u32,
        owner: [(stat[3] >> 32) as u32, stat[4] as u32],
        size: stat[6],
        changed: [stat[11], stat[12]],
        status_changed: [stat[13], stat[14]],
    };
    (result == 0).then_some(found)
}

/// When an open file was made: seconds and nanoseconds. `None` if its file system does not tell.
pub fn file_birth(fd: u32) -> Option<[u64; 2]> {
    const AT_EMPTY_PATH: usize = 0x1000;
    const BIRTH: u32 = 0x800;
    /// Offsets in `struct statx`, in words: what is told, and when the file was made.
    const TOLD: usize = 0;
    const MADE: usize = 10;
    let mut stat = [0u64; 32];
    let (name, into) = (c"".as_ptr().addr(), stat.as_mut_ptr().addr());
    // SAFETY: an empty name, and room for a struct statx, which has this size.
    let result = unsafe { syscall6(number::STATX, fd as usize, name, AT_EMPTY_PATH, BIRTH as usize, into, 0) };
    let told = result == 0 && stat[TOLD] as u32 & BIRTH != 0;
    told.then(|| [stat[MADE], u64::from(stat[MADE + 1] as u32)])
}

/// Type and permission bits of an open file.
pub fn file_mode(fd: u32) -> Option<u32> {
    file_stat(fd).map(|stat| stat.mode)
}

/// Whether reading from an open file waits until there is something.
pub fn blocks(fd: u32) -> bool {
    const F_GETFL: usize = 3;
    const O_NONBLOCK: isize = 0o4000;
    // SAFETY: no pointers.
    let flags = unsafe { syscall3(number::FCNTL, fd as usize, F_GETFL, 0) };
    flags >= 0 && flags & O_NONBLOCK == 0
}

/// Whether something could be read from an open file, or its end or an error be seen, without a wait.
pub fn is_readable(fd: u32) -> bool {
    const POLLIN: u16 = 1;
    poll(fd, POLLIN, 0) != 0
}

/// Waits so many milliseconds for room for something that is written to an open file. Whether there is some, or an error; or the
/// kernel's number for why nothing is known of that: a signal came.
///
/// # Errors
/// That number, which is negative.
pub fn is_writable(fd: u32, milliseconds: u32) -> Result<bool, isize> {
    const POLLOUT: u16 = 4;
    match poll(fd, POLLOUT, milliseconds) {
        error if error < 0 => Err(error),
        count => Ok(count > 0),
    }
}

fn poll(fd: u32, events: u16, milliseconds: u32) -> isize {
    /// `struct pollfd`
    #[repr(C)]
    struct Asked {
        fd: u32,
        events: u16,
        found: u16,
    }
    const NANOSECONDS: usize = 1_000_000;
    let mut asked = Asked { fd, events, found: 0 };
    let mut time = [milliseconds as usize / 1000, milliseconds as usize % 1000 * NANOSECONDS];
    // SAFETY: one entry, which the kernel fills, and a time that it reads and may change.
    unsafe { syscall6(number::PPOLL, core::ptr::from_mut(&mut asked).addr(), 1, time.as_mut_ptr().addr(), 0, 0, 0) }
}

impl Stat {
    /// Whether who executes the file becomes another user or group by its set-id bits.
    pub fn changes_user(&self) -> bool {
        const SET_USER: u32 = 0o4000;
        // Without the group's right to execute it stands for mandatory locks.
        const SET_GROUP: u32 = 0o2010;
        // SAFETY: no arguments.
        let own = [number::GETEUID, number::GETEGID].map(|id| unsafe { syscall3(id, 0, 0, 0) } as u32);
        let [user, group] = [0, 1].map(|id| self.owner[id] != own[id]);
        self.mode & SET_USER != 0 && user || self.mode & SET_GROUP == SET_GROUP && group
    }

    /// Names so many bytes of the file from an offset on, as they are now; never 0.
    pub fn part(&self, length: usize, offset: usize) -> u64 {
        let times = [self.changed, self.status_changed];
        let parts = [self.identity, times[0], times[1], [self.size, length as u64], [offset as u64, 0]];
        parts.as_flattened().iter().fold(PRIME, |name, &part| mixed(name, part)) | 1
    }

    /// Whether it is a regular file.
    pub fn is_regular(&self) -> bool {
        const TYPE: u32 = 0o170_000;
        const REGULAR: u32 = 0o100_000;
        self.mode & TYPE == REGULAR
    }
}

const PRIME: u64 = 0x9E37_79B9_7F4A_7C15;

fn mixed(name: u64, part: u64) -> u64 {
    (name ^ part).wrapping_mul(PRIME).rotate_left(29)
}

/// A name like that of [`Stat::part`] for it and something else together.
pub fn name_with(name: u64, part: u64) -> u64 {
    mixed(name, part) | 1
}

/// Bytes of an open regular file.
pub fn file_size(fd: u32) -> Option<u64> {
    file_stat(fd).filter(Stat::is_regular).map(|stat| stat.size)
}

/// Device and inode of an open file.
pub fn file_identity(fd: u32) -> Option<[u64; 2]> {
    file_stat(fd).map(|stat| stat.identity)
}
