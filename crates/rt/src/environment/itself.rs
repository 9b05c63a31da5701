//! `/proc/self/exe`: the kernel says the starter, the program expects itself.
//!
//! Only a recording has to do with it: a replay hands out what was recorded.

use super::{hidden, memory, own_id};
use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicPtr, Ordering};
use relive_sys::dispatch::program_call;
use relive_sys::start::Handover;
use relive_sys::syscall;
use relive_sys::syscall::number::{
    ACCESS, FACCESSAT, FACCESSAT2, NEWFSTATAT, OPEN, OPENAT, OPENAT2, READLINK, READLINKAT, STAT, STATX,
};

const EFAULT: isize = -14;
const AT_SYMLINK_NOFOLLOW: usize = 0x100;

/// What the starter left, for good; null if there was none.
static HANDOVER: AtomicPtr<Handover> = AtomicPtr::new(core::ptr::null_mut());

/// The program was started by the starter, which left this.
pub(super) fn start(handover: &'static Handover) {
    HANDOVER.store(core::ptr::from_ref(handover).cast_mut(), Ordering::Relaxed);
}

/// What the starter left.
pub(super) fn handover() -> Option<&'static Handover> {
    // SAFETY: stays for good, and nobody writes it any more.
    unsafe { HANDOVER.load(Ordering::Relaxed).as_ref() }
}

/// The file of the program that runs, if `path` is one of its names in `/proc`.
pub fn file_behind(path: &CStr) -> Option<&'static CStr> {
    let rest = path.to_bytes().strip_prefix(b"/proc/")?.strip_suffix(b"/exe")?;
    let own = rest == b"self" || rest == b"thread-self" || decimal(rest) == Some(own_id());
    // SAFETY: the starter's string.
    handover().filter(|_| own).map(|handover| unsafe { CStr::from_ptr(handover.file) })
}

fn decimal(text: &[u8]) -> Option<u32> {
    text.iter().try_fold(0u32, |value, &byte| value.checked_mul(10)?.checked_add((byte as char).to_digit(10)?))
}

/// `readlink` of the own file. Before the call: it would write more than there is to say.
///
/// A question of one byte comes first: where there is no link, as nearly everywhere that a compiler looks, it is the
/// answer; where there is one, the kernel has read its name.
///
/// # Safety
/// As for the call itself.
pub(super) unsafe fn read_link(number: usize, arguments: &[usize; 6]) -> Option<isize> {
    let index = link_argument(number)?;
    let [path, buffer, room] = [arguments[index], arguments[index + 1], arguments[index + 2]];
    if room as i32 <= 0 {
        return None;
    }
    let mut byte = 0u8;
    let mut asked = *arguments;
    (asked[index + 1], asked[index + 2]) = (core::ptr::from_mut(&mut byte).addr(), 1);
    // SAFETY: the caller's promise; the byte is ours.
    let found = unsafe { program_call(number, &asked) };
    if found <= 0 {
        return Some(found);
    }
    // SAFETY: the kernel has just read it.
    let file = file_behind(unsafe { CStr::from_ptr(path as *const c_char) })?.to_bytes();
    let shown = &file[..file.len().min(room)];
    if shown.is_empty() {
        return None;
    }
    Some(if memory::write(buffer, shown) { shown.len() as isize } else { EFAULT })
}

/// The argument that names the link that a call reads.
pub(super) const fn link_argument(number: usize) -> Option<usize> {
    match number {
        READLINK => Some(0),
        READLINKAT => Some(1),
        _ => None,
    }
}

/// Whether a call may name a file by a name in `/proc`.
pub(super) const fn names_file(number: usize) -> bool {
    matches!(number, OPEN | STAT | ACCESS | OPENAT | NEWFSTATAT | FACCESSAT | STATX | OPENAT2 | FACCESSAT2)
}

/// The argument that names a file whose link is followed.
fn path_argument(number: usize, arguments: &[usize; 6]) -> Option<usize> {
    match number {
        OPEN | STAT | ACCESS => Some(0),
        NEWFSTATAT if arguments[3] & AT_SYMLINK_NOFOLLOW != 0 => None,
        STATX if arguments[2] & AT_SYMLINK_NOFOLLOW != 0 => None,
        OPENAT | NEWFSTATAT | FACCESSAT | STATX | OPENAT2 | FACCESSAT2 => Some(1),
        _ => None,
    }
}

/// After a call of the program's that returned `result`: the same about the program, if it was about the starter.
///
/// # Safety
/// As for the call itself, which has just been made.
#[inline]
pub(super) unsafe fn answer(number: usize, arguments: &[usize; 6], result: isize) -> isize {
    if matches!(number, OPEN | OPENAT | OPENAT2) && result >= 0 {
        hidden::opened(result as usize);
    }
    let Some(index) = path_argument(number, arguments).filter(|_| result != EFAULT) else { return result };
    // SAFETY: the kernel has just read it.
    if !unsafe { is_in_proc(arguments[index] as *const u8) } {
        return result;
    }
    // SAFETY: the caller's promise.
    unsafe { answer_by_name(number, arguments, result, index) }
}

/// Whether a name begins as those in `/proc` do.
///
/// # Safety
/// `path` must be a string of C's, or null: there are calls that take no name.
#[inline]
unsafe fn is_in_proc(path: *const u8) -> bool {
    // SAFETY: the caller's promise; no byte is looked at behind one that is not there.
    !path.is_null() && b"/proc/".iter().enumerate().all(|(at, &byte)| unsafe { *path.add(at) } == byte)
}

/// [`answer`] for a call whose argument `index` is a name in `/proc`.
///
/// # Safety
/// As for [`answer`].
#[inline(never)]
unsafe fn answer_by_name(number: usize, arguments: &[usize; 6], result: isize, index: usize) -> isize {
    // SAFETY: the kernel has just read it.
    let path = unsafe { CStr::from_ptr(arguments[index] as *const c_char) };
    let Some(file) = file_behind(path) else { return result };
    if matches!(number, OPEN | OPENAT | OPENAT2) && result >= 0 {
        syscall::close(result as u32);
    }
    let mut given = *arguments;
    given[index] = file.as_ptr().addr();
    // SAFETY: the caller's promise.
    unsafe { program_call(number, &given) }
}

#[cfg(test)]
mod tests {
    use super::{decimal, file_behind};

    #[test]
    fn only_the_own_names_are_meant() {
        assert!(file_behind(c"/proc/self/exe").is_none(), "without the starter there is nothing to hide");
        assert_eq!([decimal(b"12"), decimal(b"1x"), decimal(b"99999999999")], [Some(12), None, None]);
    }
}
