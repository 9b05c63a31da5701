//! Another program in the place of this one: through the starter, so that its
//! addresses are ours to choose, too.
//!
//! What the kernel would refuse must fail here: once the starter runs it is too
//! late. So a file is looked at first; what the starter can't start, or should
//! not (static or set-id programs), goes to the kernel as it is.
//!
//! A recording notes the file before each attempt, by its full path, because a
//! replay is in no folder of the program's, and behind it why it failed, if it did.

use super::{itself, memory};
use crate::replay::calls as replayed;
use crate::runtime::{self, Mode};
use crate::thread::Thread;
use crate::{process, writer};
use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use relive_sys::dispatch::program_call;
use relive_sys::elf::{Elf, HEAD_BYTES, script};
use relive_sys::syscall::number::{EXECVE, EXECVEAT, FACCESSAT, FCNTL, FGETXATTR};
use relive_sys::syscall::{self, syscall6};
use relive_trace::control::ENV_CONTROL;

const ENOENT: isize = -2;
const EPERM: isize = -1;
const EINVAL: isize = -22;
const ENOSYS: isize = -38;
const AT_FDCWD: u32 = -100i32 as u32;
const AT_EMPTY_PATH: usize = 0x1000;
const PATH_MAX: usize = 4096;
const PAGE: usize = 4096;
/// What the starter is told in front of the program's arguments.
const IN_FRONT: usize = 4;
/// Attempts at a time that need no memory of their own.
const DESKS: usize = 16;

/// Where an attempt is prepared: not on the stack, which may be a small one.
#[repr(C)]
struct Desk {
    path: [u8; PATH_MAX],
    name: [u8; PATH_MAX],
    file: [u8; PATH_MAX],
    next: [u8; PATH_MAX],
    head: [u8; HEAD_BYTES],
}

/// Memory for desks and argument lists, kept for the next attempt.
struct Kept {
    /// The process that uses it; 0 for none. A child that shares our memory never gives it back itself.
    owner: AtomicU32,
    address: AtomicUsize,
    bytes: AtomicUsize,
}

static KEPT: [Kept; DESKS] =
    [const { Kept { owner: AtomicU32::new(0), address: AtomicUsize::new(0), bytes: AtomicUsize::new(0) } }; DESKS];

/// Gives back what a process used that has another image now, or has ended.
pub(super) fn release(process: u32) {
    for kept in &KEPT {
        let _ = kept.owner.compare_exchange(process, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// In a fork child nobody else uses anything.
pub(super) fn reset_after_fork() {
    KEPT.iter().for_each(|kept| kept.owner.store(0, Ordering::Relaxed));
}

/// Memory of this size, all the calling process's until [`release`].
fn borrow(bytes: usize) -> Option<usize> {
    let process = syscall::getpid();
    let free = |kept: &&Kept| kept.owner.compare_exchange(0, process, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    let kept = KEPT.iter().find(free)?;
    if kept.bytes.load(Ordering::Relaxed) < bytes {
        let (old, had) = (kept.address.load(Ordering::Relaxed), kept.bytes.load(Ordering::Relaxed));
        let new = syscall::mmap(bytes, syscall::MAP_PRIVATE_ANONYMOUS, -1, 0);
        if new < 0 {
            return None;
        }
        kept.address.store(new as usize, Ordering::Relaxed);
        kept.bytes.store(bytes, Ordering::Relaxed);
        if had > 0 {
            // SAFETY: this entry's own, and nobody else uses the entry.
            unsafe { syscall::munmap(old, had) };
        }
    }
    Some(kept.address.load(Ordering::Relaxed))
}

/// Whether attempts to start another program are recorded here, failures too.
pub fn records_attempts() -> bool {
    super::is_on() && itself::handover().is_some()
}

/// What gives a program that is started by the bare call the session's environment.
pub type Bare = unsafe extern "C" fn(number: usize, arguments: *const [usize; 6]) -> isize;

static BARE: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Sets what is called where a program is started without libc. It comes back with the session's environment.
pub fn on_bare_exec(function: Bare) {
    BARE.store(function as *mut (), Ordering::Relaxed);
}

/// `execve` and `execveat`.
///
/// # Safety
/// As for the call itself.
pub(super) unsafe fn carry_out(thread: &mut Thread, number: usize, arguments: &[usize; 6]) -> isize {
    // SAFETY: the caller's promise, in each branch.
    unsafe {
        let environment = arguments[if number == EXECVE { 2 } else { 3 }];
        let bare = BARE.load(Ordering::Relaxed);
        if itself::handover().is_none() {
            return program_call(number, arguments);
        }
        if !bare.is_null() && syscall::getpid() == runtime::pid() && has_control(environment) == Some(false) {
            return core::mem::transmute::<*mut (), Bare>(bare)(number, arguments);
        }
        let list = arguments[if number == EXECVE { 1 } else { 2 }];
        let count = each_pointer(list, |_, _| true);
        let bytes = size_of::<Desk>() + (count.unwrap_or(0) + IN_FRONT + 2) * size_of::<usize>();
        let Some(memory) = borrow(bytes.next_multiple_of(PAGE)) else { return program_call(number, arguments) };
        let desk = &mut *(memory as *mut Desk);
        let words = core::slice::from_raw_parts_mut(
            (memory + size_of::<Desk>()) as *mut usize,
            count.unwrap_or(0) + IN_FRONT + 2,
        );
        desk.file[0] = 0;
        if count.is_some() && find(number, arguments, desk).is_none() {
            desk.file[0] = 0;
        }
        let result = match runtime::mode() {
            Mode::Replay => replay(number, arguments, desk, words),
            _ => record(thread, number, arguments, desk, words),
        };
        release(syscall::getpid());
        result
    }
}

unsafe fn record(
    thread: &mut Thread,
    number: usize,
    arguments: &[usize; 6],
    desk: &mut Desk,
    words: &mut [usize],
) -> isize {
    // SAFETY: the caller's promise, and a local array.
    unsafe {
        let file = text(&desk.file);
        let (address, length) = (file.as_ptr().addr(), file.count_bytes());
        writer::append_call(thread, EXECVE, 0, &|visit| visit(address, length));
        let result = attempt(number, arguments, desk, words);
        writer::append_call(thread, EXECVE, result, &|_| {});
        result
    }
}

unsafe fn replay(number: usize, arguments: &[usize; 6], desk: &mut Desk, words: &mut [usize]) -> isize {
    let taken = replayed::take(EXECVE);
    let mut filler = taken.filler();
    let length = filler.left().min(PATH_MAX - 1);
    desk.file[length] = 0;
    // SAFETY: room of this size.
    unsafe { filler.fill(desk.file.as_mut_ptr().addr(), length) };
    filler.finish(EXECVE);
    if let Some(error) = replayed::failure_of_exec() {
        return error;
    }
    if syscall::getpid() == runtime::pid() {
        process::wait_for_all();
    }
    // SAFETY: the caller's promise.
    unsafe { attempt(number, arguments, desk, words) }
}

/// Makes the call, through the starter if a file for it was found.
unsafe fn attempt(number: usize, arguments: &[usize; 6], desk: &mut Desk, words: &mut [usize]) -> isize {
    // SAFETY: the caller's promise; the list was readable, and the words have room for it.
    unsafe {
        let Some(handover) = itself::handover().filter(|_| desk.file[0] != 0) else {
            return program_call(number, arguments);
        };
        let (list, environment) = if number == EXECVE { (1, 2) } else { (2, 3) };
        let front = [handover.starter.addr(), handover.options.addr(), desk.file.as_ptr().addr(), name(desk)];
        words[..IN_FRONT].copy_from_slice(&front);
        let mut count = 0;
        each_pointer(arguments[list], |index, pointer| {
            let fits = index + IN_FRONT + 1 < words.len();
            if fits {
                words[index + IN_FRONT] = pointer;
                count = index + 1;
            }
            fits
        });
        if count == 0 {
            // As newer kernels do.
            words[IN_FRONT] = c"".as_ptr().addr();
            count = 1;
        }
        words[IN_FRONT + count] = 0;
        let given = [handover.starter.addr(), words.as_ptr().addr(), arguments[environment], 0, 0, 0];
        let result = program_call(EXECVE, &given);
        // The starter itself is not there any more, or may not run.
        if matches!(result, ENOENT | EPERM | -13) { program_call(number, arguments) } else { result }
    }
}

fn name(desk: &Desk) -> usize {
    desk.name.as_ptr().addr()
}

/// Finds what the starter is to be told: `None` where the kernel should see the call as it is.
#[inline(never)]
unsafe fn find(number: usize, arguments: &[usize; 6], desk: &mut Desk) -> Option<()> {
    let (folder, path, flags) =
        if number == EXECVE { (AT_FDCWD, arguments[0], 0) } else { (arguments[0] as u32, arguments[1], arguments[4]) };
    read_text(path, &mut desk.path)?;
    let given = text(&desk.path).to_bytes();
    if flags & !AT_EMPTY_PATH != 0 || (given.is_empty() && flags == 0) {
        return None;
    }
    if folder == AT_FDCWD || given.starts_with(b"/") {
        desk.name = desk.path;
    } else {
        let number = decimal(folder);
        let digits = text(&number).to_bytes();
        let slash: &[u8] = if given.is_empty() { b"" } else { b"/" };
        join(&mut desk.name, [b"/dev/fd/", digits, slash, given])?;
        let head = desk.path;
        join(&mut desk.path, [b"/proc/self/fd/", digits, slash, text(&head).to_bytes()])?;
    }
    if let Some(file) = itself::file_behind(text(&desk.path)) {
        join(&mut desk.path, [file.to_bytes(), b"", b"", b""])?;
    }
    // The full path must lead to the same file: one without a name leads nowhere.
    let fd = open(&desk.path)?;
    let identity = syscall::file_identity(fd);
    let length = syscall::path_of(fd, &mut desk.file).map(<[u8]>::len);
    syscall::close(fd);
    desk.file[length?] = 0;
    let again = open(&desk.file)?;
    let same = syscall::file_identity(again) == identity;
    syscall::close(again);
    (same && can_start(desk)).then_some(())
}

/// Whether the kernel would execute the file, as a dynamically linked program or a script for one.
fn can_start(desk: &mut Desk) -> bool {
    const INTERPRETERS: usize = 5;
    desk.next = desk.path;
    for _ in 0..=INTERPRETERS {
        if !may_execute(&desk.next) {
            return false;
        }
        let Some(fd) = open(&desk.next) else { return false };
        let next = look(fd, desk);
        syscall::close(fd);
        match next {
            Next::Runs => return true,
            Next::Interpreter => {}
            Next::No => return false,
        }
    }
    false
}

/// What a file leads to.
enum Next {
    Runs,
    /// To another one, whose path is the next now.
    Interpreter,
    No,
}

fn look(fd: u32, desk: &mut Desk) -> Next {
    const SET_ID: u32 = 0o6000;
    let mut capabilities = [0u8; 64];
    let (attribute, value) = (c"security.capability".as_ptr().addr(), capabilities.as_mut_ptr().addr());
    // SAFETY: a string, and as many writable bytes as stated.
    let has_capabilities = unsafe { syscall6(FGETXATTR, fd as usize, attribute, value, capabilities.len(), 0, 0) } > 0;
    if syscall::file_size(fd).is_none() || syscall::file_mode(fd).is_none_or(|m| m & SET_ID != 0) || has_capabilities {
        return Next::No;
    }
    let got = syscall::read_at(fd, &mut desk.head, 0);
    let head = &desk.head[..usize::try_from(got).unwrap_or(0)];
    if let Some((interpreter, _)) = script(head) {
        return if join(&mut desk.next, [interpreter, b"", b"", b""]).is_some() { Next::Interpreter } else { Next::No };
    }
    let loader = Elf::read(head).and_then(|elf| elf.interpreter(head)).filter(|&(_, length)| length < PATH_MAX);
    let Some((offset, length)) = loader else { return Next::No };
    desk.next[length] = 0;
    if syscall::read_at(fd, &mut desk.next[..length], offset as u64) != length as isize || !may_execute(&desk.next) {
        return Next::No;
    }
    let Some(loader) = open(&desk.next) else { return Next::No };
    let got = syscall::read_at(loader, &mut desk.head, 0);
    syscall::close(loader);
    if Elf::read(&desk.head[..usize::try_from(got).unwrap_or(0)]).is_some() { Next::Runs } else { Next::No }
}

/// Asks the kernel; one that doesn't know the question is asked for the permission, and for writers of the file.
fn may_execute(path: &[u8]) -> bool {
    const AT_EXECVE_CHECK: usize = 0x1_0000;
    const X_OK: usize = 1;
    const F_SETLEASE: usize = 1024;
    const F_RDLCK: usize = 0;
    const F_UNLCK: usize = 2;
    const EAGAIN: isize = -11;
    let (folder, path_address) = (AT_FDCWD as i32 as isize as usize, path.as_ptr().addr());
    let none = [0usize];
    // SAFETY: a string; with this flag nothing is executed, and kernels without it refuse.
    let verdict = unsafe {
        syscall6(EXECVEAT, folder, path_address, none.as_ptr().addr(), none.as_ptr().addr(), AT_EXECVE_CHECK, 0)
    };
    if !matches!(verdict, EINVAL | ENOSYS | EPERM) {
        return verdict == 0;
    }
    // SAFETY: a string.
    if unsafe { syscall6(FACCESSAT, folder, path_address, X_OK, 0, 0, 0) } != 0 {
        return false;
    }
    let Some(fd) = open(path) else { return false };
    // SAFETY: no pointers. The lease ends with the descriptor.
    let lease = unsafe { syscall6(FCNTL, fd as usize, F_SETLEASE, F_RDLCK, 0, 0, 0) };
    if lease == 0 {
        // SAFETY: as above.
        unsafe { syscall6(FCNTL, fd as usize, F_SETLEASE, F_UNLCK, 0, 0, 0) };
    }
    syscall::close(fd);
    lease != EAGAIN
}

fn open(path: &[u8]) -> Option<u32> {
    let path = text(path).to_bytes_with_nul();
    u32::try_from(syscall::open(path, syscall::O_RDONLY)).ok()
}

fn text(bytes: &[u8]) -> &CStr {
    CStr::from_bytes_until_nul(bytes).unwrap_or(c"")
}

fn join(into: &mut [u8; PATH_MAX], parts: [&[u8]; 4]) -> Option<()> {
    let mut at = 0;
    for part in parts {
        into.get_mut(at..at + part.len() + 1)?[..part.len()].copy_from_slice(part);
        at += part.len();
    }
    into[at] = 0;
    Some(())
}

fn decimal(mut value: u32) -> [u8; 12] {
    let mut digits = [0; 12];
    let count = value.checked_ilog10().unwrap_or(0) as usize + 1;
    for digit in digits[..count].iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
    digits
}

/// Copies a string of the program's; `None` if it is not there, or too long for a path.
fn read_text(address: usize, into: &mut [u8; PATH_MAX]) -> Option<()> {
    let mut got = 0;
    while got < into.len() {
        let here = address.checked_add(got)?;
        let length = (PAGE - here % PAGE).min(into.len() - got);
        if !memory::read(here, &mut into[got..got + length]) {
            return None;
        }
        if into[got..got + length].contains(&0) {
            return Some(());
        }
        got += length;
    }
    None
}

/// Visits the pointers of a list that ends with null, as long as `visit` wants more. Their number; `None` if the list is
/// not readable.
fn each_pointer(list: usize, mut visit: impl FnMut(usize, usize) -> bool) -> Option<usize> {
    const AT_ONCE: usize = 64;
    let mut words = [0u8; AT_ONCE * size_of::<usize>()];
    let mut count = 0;
    while list != 0 {
        let here = list.checked_add(count * size_of::<usize>())?;
        // A page at most: the list may end right before one that is not there.
        let left = (PAGE - here % PAGE).max(size_of::<usize>()) / size_of::<usize>();
        let part = &mut words[..left.min(AT_ONCE) * size_of::<usize>()];
        if !memory::read(here, part) {
            return None;
        }
        for word in part.chunks_exact(size_of::<usize>()) {
            let word = word.try_into().map_or(0, usize::from_le_bytes);
            if word == 0 || !visit(count, word) {
                return Some(count);
            }
            count += 1;
        }
    }
    Some(count)
}

/// Whether an environment names the session; `None` if it is not readable.
fn has_control(environment: usize) -> Option<bool> {
    const BYTES: usize = ENV_CONTROL.len() + 1;
    let mut found = false;
    each_pointer(environment, |_, entry| {
        let mut start = [0u8; BYTES];
        found = memory::read(entry, &mut start) && start.strip_suffix(b"=") == Some(ENV_CONTROL.as_bytes());
        !found
    })?;
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::{PATH_MAX, decimal, each_pointer, join, may_execute, read_text, text};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn lists_and_strings_are_copied_as_far_as_they_are_there() {
        crate::runtime::remember_pid();
        let words: Vec<usize> = (1..=200).chain([0]).collect();
        let mut seen = Vec::new();
        assert_eq!(
            each_pointer(words.as_ptr().addr(), |_, word| {
                seen.push(word);
                true
            }),
            Some(200)
        );
        assert_eq!(seen, words[..200]);
        assert_eq!(each_pointer(0, |_, _| true), Some(0));
        assert_eq!(each_pointer(8, |_, _| true), None);
        let mut into = [0; PATH_MAX];
        assert!(read_text(c"/a/b".as_ptr().addr(), &mut into).is_some() && text(&into) == c"/a/b");
        assert!(read_text(8, &mut into).is_none());
        assert!(join(&mut into, [b"/dev/fd/", text(&decimal(70)).to_bytes(), b"/", b"x"]).is_some());
        assert_eq!(text(&into), c"/dev/fd/70/x");
        assert_eq!(text(&decimal(0)), c"0");
    }

    #[test]
    fn what_the_kernel_would_refuse_is_refused() {
        let folder = std::env::temp_dir().join(format!("relive-images-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("program");
        std::fs::copy("/bin/true", &path).unwrap();
        let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
        assert!(may_execute(name.as_bytes_with_nul()));
        let writer = std::fs::File::options().append(true).open(&path).unwrap();
        assert!(!may_execute(name.as_bytes_with_nul()), "somebody writes it");
        drop(writer);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(!may_execute(name.as_bytes_with_nul()));
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(!may_execute(name.as_bytes_with_nul()));
    }
}
