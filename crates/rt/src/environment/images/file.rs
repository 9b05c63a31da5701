//! The file that is to be executed: where it is, and whether the starter can run
//! it.
//!
//! Whoever reads this file has the kernel's rules for `execve` beside it.

use super::desk::{Desk, PATH_MAX, read_text, text};
use crate::environment::itself;
use crate::path::join;
use crate::runtime::{self, Mode};
use relive_sys::elf::{Elf, is_go, script};
use relive_sys::syscall::number::{EXECVE, EXECVEAT, FACCESSAT, FCNTL, FGETXATTR};
use relive_sys::syscall::{self, syscall6};

const EPERM: isize = -1;
const EINVAL: isize = -22;
const ENOSYS: isize = -38;
const AT_FDCWD: u32 = -100i32 as u32;
const AT_EMPTY_PATH: usize = 0x1000;

/// Finds what the starter is to be told: `None` where the kernel should see the call as it is.
pub(super) fn find(number: usize, arguments: &[usize; 6], desk: &mut Desk) -> Option<()> {
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
    if runtime::mode() == Mode::Replay {
        // The recording says which file it was; this machine may not have it.
        return Some(());
    }
    if let Some(file) = itself::file_behind(text(&desk.path)) {
        join(&mut desk.path, [file.to_bytes()])?;
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
    let mut capabilities = [0u8; 64];
    let (attribute, value) = (c"security.capability".as_ptr().addr(), capabilities.as_mut_ptr().addr());
    // SAFETY: a string, and as many writable bytes as stated.
    let has_capabilities = unsafe { syscall6(FGETXATTR, fd as usize, attribute, value, capabilities.len(), 0, 0) } > 0;
    if syscall::file_size(fd).is_none() || syscall::file_stat(fd).is_none_or(|s| s.changes_user()) || has_capabilities {
        return Next::No;
    }
    let got = syscall::read_at(fd, &mut desk.head, 0);
    let head = &desk.head[..usize::try_from(got).unwrap_or(0)];
    if let Some((interpreter, _)) = script(head) {
        return if join(&mut desk.next, [interpreter]).is_some() { Next::Interpreter } else { Next::No };
    }
    let read = |into: &mut [u8], at| usize::try_from(syscall::read_at(fd, into, at as u64)).unwrap_or(0);
    desk.is_go = usize::from(is_go(head, read));
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

fn decimal(mut value: u32) -> [u8; 12] {
    let mut digits = [0; 12];
    let count = value.checked_ilog10().unwrap_or(0) as usize + 1;
    for digit in digits[..count].iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::{decimal, may_execute, text};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn descriptors_are_written_in_digits() {
        assert_eq!(
            [0, 7, 70, u32::MAX].map(|value| text(&decimal(value)).to_owned()),
            [c"0", c"7", c"70", c"4294967295"].map(ToOwned::to_owned)
        );
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
