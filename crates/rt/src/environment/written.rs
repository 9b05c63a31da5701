//! How much of a shared file has been written.
//!
//! Apart from the mappings because the file must not be opened for it: to close any
//! descriptor of a file gives up all locks (`fcntl`) that the process has on it. Nor may
//! the program's descriptor be moved, or holes be read through the mapping: that would
//! fill them.

use relive_sys::syscall::number::{IOCTL, PREAD64};
use relive_sys::syscall::syscall6;

/// `FS_IOC_FIEMAP`
const EXTENTS: usize = 0xC020_660B;
const COUNT: usize = 16;
/// `FIEMAP_EXTENT_LAST`
const LAST: u32 = 1;

/// `struct fiemap` with room for some extents.
#[repr(C)]
struct Map {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [Extent; COUNT],
}

/// `struct fiemap_extent`
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    more: [u32; 3],
}

/// How many of `held` bytes from `offset` on have been written, rather more than fewer: what lies behind is zero.
pub(super) fn data_end(fd: u32, offset: u64, held: usize) -> usize {
    by_extents(fd, offset, held).unwrap_or_else(|| by_reading(fd, offset, held))
}

/// `None` if the file system does not tell, as that in memory.
fn by_extents(fd: u32, offset: u64, held: usize) -> Option<usize> {
    let (mut at, end, mut last) = (offset, offset + held as u64, offset);
    while at < end {
        let mut map = Map {
            start: at,
            length: end - at,
            flags: 0,
            mapped: 0,
            count: COUNT as u32,
            reserved: 0,
            extents: [Extent::default(); COUNT],
        };
        // SAFETY: a structure with as many extents as it says.
        let result = unsafe { syscall6(IOCTL, fd as usize, EXTENTS, core::ptr::from_mut(&mut map).addr(), 0, 0, 0) };
        if result < 0 {
            return None;
        }
        let Some(extent) = map.extents[..(map.mapped as usize).min(COUNT)].last() else { break };
        at = extent.logical + extent.length;
        last = last.max(at.min(end));
        if extent.flags & LAST != 0 {
            break;
        }
    }
    Some((last - offset) as usize)
}

/// All of it, if the descriptor is not for reading.
fn by_reading(fd: u32, offset: u64, held: usize) -> usize {
    let mut bytes = [0u8; 8192];
    let (mut at, mut last) = (0, 0);
    while at < held {
        let wanted = bytes.len().min(held - at);
        let place = (offset + at as u64) as usize;
        // SAFETY: as many writable bytes as stated.
        let count = unsafe { syscall6(PREAD64, fd as usize, bytes.as_mut_ptr().addr(), wanted, place, 0, 0) };
        let Ok(count) = usize::try_from(count) else { return held };
        if count == 0 {
            break;
        }
        if let Some(found) = bytes[..count].iter().rposition(|&byte| byte != 0) {
            last = at + found + 1;
        }
        at += count;
    }
    last
}

#[cfg(test)]
mod tests {
    use super::{by_extents, by_reading, data_end};
    use std::format;
    use std::fs::File;
    use std::io::{Seek, SeekFrom, Write};
    use std::os::fd::AsRawFd;

    #[test]
    fn the_end_of_what_was_written_is_found_and_nothing_moves() {
        for folder in [std::env::temp_dir(), "/dev/shm".into()] {
            let path = folder.join(format!("relive-written-{}", std::process::id()));
            let mut file = File::options().create_new(true).read(true).write(true).open(&path).unwrap();
            std::fs::remove_file(path).unwrap();
            file.set_len(1 << 20).unwrap();
            let fd = file.as_raw_fd() as u32;
            assert_eq!((data_end(fd, 0, 1 << 20), by_reading(fd, 0, 1 << 20)), (0, 0));
            file.seek(SeekFrom::Start(70_000)).unwrap();
            file.write_all(b"there").unwrap();
            assert_eq!((by_reading(fd, 0, 1 << 20), by_reading(fd, 65_536, 8192)), (70_005, 4469));
            assert_eq!(by_reading(fd, 131_072, 4096), 0);
            if let Some(end) = by_extents(fd, 0, 1 << 20) {
                assert!((70_005..=70_005 + 65_536).contains(&end), "{end}");
            }
            assert_eq!(file.stream_position().unwrap(), 70_005);
        }
    }
}
