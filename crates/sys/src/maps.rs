//! Which file a shared mapping belongs to, from `/proc/thread-self/maps`: a process whose first
//! thread has ended shows nothing in its own.
//!
//! Objects shared between processes have no common address; device, inode and
//! offset name them everywhere.

use crate::syscall;
use core::ops::Range;

/// The kernel knows no longer path.
const PATH_MAX: usize = 4096;

/// A hash of device, inode and file offset of the byte at `address`; `None` if no shared mapping has it.
pub fn identity(address: usize) -> Option<u64> {
    let fd = syscall::open(b"/proc/thread-self/maps\0", 0);
    if fd < 0 {
        return None;
    }
    let found = scan(fd as u32, address);
    syscall::close(fd as u32);
    found
}

/// Calls `visit` with the range of each mapping that has a name in brackets, and the name.
pub fn each_special(mut visit: impl FnMut(usize, usize, &[u8])) {
    each_mapping(|start, end, _, name| {
        if name.first() == Some(&b'[') {
            visit(start, end, name);
        }
    });
}

/// Calls `visit` with the range of each mapping that is not one of our own (`syscall::mmap`).
pub fn each(mut visit: impl FnMut(Range<usize>)) {
    let fd = syscall::open(b"/proc/thread-self/maps\0", 0);
    if fd < 0 {
        return;
    }
    each_line(fd as u32, |text| {
        let range = text.split(|&b| b == b' ').next()?;
        let mut range = range.split(|&b| b == b'-').map(hexadecimal);
        let (start, end) = (range.next()?? as usize, range.next()?? as usize);
        if !syscall::OURS.contains(&start) {
            visit(start..end);
        }
        None::<()>
    });
    syscall::close(fd as u32);
}

/// Calls `visit` with range, rights and name of each mapping, which may have none. `false` if they can't be known.
pub fn each_with_rights(mut visit: impl FnMut(Range<usize>, &[u8], &[u8])) -> bool {
    let fd = syscall::open(b"/proc/thread-self/maps\0", 0);
    if fd < 0 {
        return false;
    }
    let unknown = each_line(fd as u32, |text| {
        let mut fields = text.split(|&b| b == b' ').filter(|field| !field.is_empty());
        let mut range = fields.next()?.split(|&b| b == b'-').map(hexadecimal);
        let (start, end, rights) = (range.next()??, range.next()??, fields.next()?);
        let name = fields.nth(3).map_or(0, <[u8]>::len);
        let rest: usize = fields.map(|part| part.len() + 1).sum();
        visit(start as usize..end as usize, rights, &text[text.len() - name - rest..]);
        None::<()>
    });
    syscall::close(fd as u32);
    unknown.is_none()
}

/// Calls `visit` with range and offset of each mapping, none of our own, that is shared and may be written to.
pub fn each_shared(mut visit: impl FnMut(Range<usize>, u64)) {
    let fd = syscall::open(b"/proc/thread-self/maps\0", 0);
    if fd < 0 {
        return;
    }
    each_line(fd as u32, |text| {
        let mut fields = text.split(|&b| b == b' ').filter(|field| !field.is_empty());
        let mut range = fields.next()?.split(|&b| b == b'-').map(hexadecimal);
        let (start, end) = (range.next()?? as usize, range.next()?? as usize);
        let (rights, offset) = (fields.next()?, hexadecimal(fields.next()?)?);
        if matches!(*rights, [_, b'w', _, b's']) && !syscall::OURS.contains(&start) {
            visit(start..end, offset);
        }
        None::<()>
    });
    syscall::close(fd as u32);
}

/// Calls `visit` with range, offset and path of each mapping of a file's code; the path ends in zero. Returns whether
/// something is executable and writable.
pub fn each_file_of_code(mut visit: impl FnMut(Range<usize>, usize, &[u8])) -> bool {
    let fd = syscall::open(b"/proc/thread-self/maps\0", 0);
    if fd < 0 {
        return false;
    }
    let mut is_writable = false;
    each_line(fd as u32, |text| {
        let (range, rights, offset, name) = fields(text)?;
        let mut path = [0; PATH_MAX];
        is_writable |= rights.get(1..3) == Some(b"wx") && !syscall::OURS.contains(&range.start);
        if rights == b"r-xp" && name.first() == Some(&b'/') && name.len() < PATH_MAX {
            path[..name.len()].copy_from_slice(name);
            visit(range, offset, &path[..=name.len()]);
        }
        None::<()>
    });
    syscall::close(fd as u32);
    is_writable
}

/// Calls `visit` with range, rights and name of each mapping that has a name.
fn each_mapping(mut visit: impl FnMut(usize, usize, &[u8], &[u8])) {
    let fd = syscall::open(b"/proc/thread-self/maps\0", 0);
    if fd < 0 {
        return;
    }
    each_line(fd as u32, |text| {
        let (range, rights, _, name) = fields(text)?;
        visit(range.start, range.end, rights, name);
        None::<()>
    });
    syscall::close(fd as u32);
}

/// Range, rights, offset and name.
type Fields<'a> = (Range<usize>, &'a [u8], usize, &'a [u8]);

/// Those of a mapping that has a name.
fn fields(text: &[u8]) -> Option<Fields<'_>> {
    let mut fields = text.split(|&b| b == b' ').filter(|field| !field.is_empty());
    let mut range = fields.next()?.split(|&b| b == b'-').map(hexadecimal);
    let (start, end) = (range.next()??, range.next()??);
    let (rights, offset, name) = (fields.next()?, hexadecimal(fields.next()?)?, fields.nth(2)?);
    Some((start as usize..end as usize, rights, offset as usize, name))
}

fn scan(fd: u32, address: usize) -> Option<u64> {
    each_line(fd, |text| line(text, address))
}

/// The first answer that `look` gives for a line of the file.
fn each_line<T>(fd: u32, mut look: impl FnMut(&[u8]) -> Option<T>) -> Option<T> {
    let mut buffer = [0u8; 2048];
    let mut filled = 0;
    loop {
        let got = syscall::read(fd, &mut buffer[filled..]);
        if got <= 0 {
            return None;
        }
        filled += got as usize;
        let mut start = 0;
        while let Some(end) = buffer[start..filled].iter().position(|&b| b == b'\n') {
            if let Some(found) = look(&buffer[start..start + end]) {
                return Some(found);
            }
            start += end + 1;
        }
        // A line that fills the buffer has a very long path; its fields are at the front, so it may be dropped.
        if start == 0 && filled == buffer.len() {
            start = filled;
        }
        buffer.copy_within(start..filled, 0);
        filled -= start;
    }
}

/// `start-end perms offset major:minor inode path`
fn line(text: &[u8], address: usize) -> Option<u64> {
    let mut fields = text.split(|&b| b == b' ').filter(|f| !f.is_empty());
    let mut range = fields.next()?.split(|&b| b == b'-').map(hexadecimal);
    let (start, end) = (range.next()??, range.next()??);
    if !(start..end).contains(&(address as u64)) {
        return None;
    }
    if fields.next()?.last() != Some(&b's') {
        return None;
    }
    let offset = hexadecimal(fields.next()?)?;
    let device = fields.next()?;
    let inode = fields.next()?;
    let mut hash = 0xCBF2_9CE4_8422_2325u64;
    for &b in device.iter().chain(b" ").chain(inode) {
        hash = (hash ^ b as u64).wrapping_mul(0x0100_0000_01B3);
    }
    let position = address as u64 - start + offset;
    Some((hash ^ position).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29) ^ position)
}

fn hexadecimal(text: &[u8]) -> Option<u64> {
    text.iter().try_fold(0u64, |v, &b| Some(v << 4 | (b as char).to_digit(16)? as u64))
}

#[cfg(test)]
mod tests {
    use super::{identity, line};

    #[test]
    fn the_same_byte_of_a_file_has_one_identity_wherever_it_is_mapped() {
        let a = line(b"7f00-9000 rw-s 00001000 08:01 1234 /dev/shm/x", 0x8000);
        let b = line(b"1000-9000 rw-s 00001000 08:01 1234 /dev/shm/x", 0x1100);
        assert_eq!(a, b);
        assert!(a.is_some());
        assert_ne!(a, line(b"1000-9000 rw-s 00001000 08:01 1234 /dev/shm/x", 0x1108));
        assert_ne!(a, line(b"1000-9000 rw-s 00001000 08:01 1235 /dev/shm/x", 0x1100));
        assert_eq!(line(b"1000-9000 rw-s 00001000 08:01 1234", 0x9000), None);
    }

    #[test]
    fn private_memory_has_none() {
        let here = 0u8;
        assert_eq!(identity((&raw const here).addr()), None);
        assert_eq!(line(b"1000-9000 rw-p 00001000 08:01 1234 /dev/shm/x", 0x1100), None);
    }

    #[test]
    fn finds_a_shared_mapping_of_its_own() {
        let mapped = crate::syscall::mmap(4096, crate::syscall::MAP_SHARED | 0x20, -1, 0);
        assert!(mapped > 0);
        let first = identity(mapped as usize);
        assert!(first.is_some());
        assert_ne!(first, identity(mapped as usize + 8));
    }
}
