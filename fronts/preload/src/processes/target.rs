//! What an image about to be started is: one that the runtime will be in, or not.

use super::environment::{Strings, find};
use core::ffi::{CStr, c_char};
use relive_rt::link::value_of;
use relive_rt::path::join;
use relive_rt::{Mode, environment, report, runtime};
use relive_sys::syscall;

/// Says by name if the program at `path` will run unrecorded: static, or set-uid.
///
/// # Safety
/// `path` must be a string.
pub(crate) unsafe fn check(path: *const c_char) {
    // A replay does without it, and says that where it does.
    let is_left_out = environment::is_on() && runtime::process_mode() == Mode::Replay;
    if path.is_null() || is_left_out {
        return;
    }
    // SAFETY: the caller's promise.
    let path = unsafe { CStr::from_ptr(path) };
    if let Some(why) = unrecordable(path) {
        let name = path.to_str().unwrap_or("(name is not UTF-8)");
        report::line(format_args!("{name} is not recorded: {why}"));
    }
}

/// The same for a name that is looked for in `PATH`, unless it has a slash.
///
/// # Safety
/// `name` must be a string or null, `environment` an environment or null.
#[inline(never)] // Its buffer would weigh on the stack of whoever starts a program.
pub(crate) unsafe fn check_searched(name: *const c_char, environment: Strings) {
    if name.is_null() {
        return;
    }
    // SAFETY: the caller's promise.
    let (file, path) = unsafe { (CStr::from_ptr(name), find(environment, PATH)) };
    let path = path.and_then(|entry| value_of(entry, PATH)).map_or(&b"/bin:/usr/bin"[..], CStr::to_bytes);
    let bytes = file.to_bytes();
    if bytes.contains(&b'/') {
        // SAFETY: the caller's promise.
        return unsafe { check(name) };
    }
    let mut buffer = [0u8; 4096];
    for folder in path.split(|&byte| byte == b':') {
        // No name stands for the present one.
        let folder = if folder.is_empty() { b"." } else { folder };
        let candidate = join(&mut buffer, [folder, b"/", bytes]);
        if let Some(candidate) = candidate.filter(|candidate| is_executable(candidate)) {
            // SAFETY: a string of our own.
            return unsafe { check(candidate.as_ptr()) };
        }
    }
}

fn is_executable(path: &CStr) -> bool {
    const X_OK: usize = 1;
    // SAFETY: a string.
    unsafe { syscall::syscall6(syscall::number::ACCESS, path.as_ptr().addr(), X_OK, 0, 0, 0, 0) == 0 }
}

const PATH: &str = "PATH";

fn unrecordable(path: &CStr) -> Option<&'static str> {
    let mut head = [0u8; 2048];
    let file = environment::file_behind(path).unwrap_or(path);
    let fd = syscall::open(file.to_bytes_with_nul(), 0);
    if fd < 0 {
        return None;
    }
    let got = syscall::read(fd as u32, &mut head);
    let stat = syscall::file_stat(fd as u32);
    syscall::close(fd as u32);
    if stat.is_some_and(|stat| stat.changes_user()) {
        return Some("it is set-uid or set-gid, where preloading is switched off");
    }
    let head = &head[..usize::try_from(got).unwrap_or(0)];
    match interpreter(head) {
        Some(false) => Some("it is statically linked; the order of its threads can't be interposed"),
        _ => None,
    }
}

/// Whether an ELF file asks for a dynamic linker; `None` for anything that is not a 64-bit ELF file.
fn interpreter(head: &[u8]) -> Option<bool> {
    const PT_INTERP: u32 = 3;
    let field = |at: usize, bytes: usize| head.get(at..at + bytes);
    if field(0, 5)? != b"\x7fELF\x02" {
        return None;
    }
    let offset = u64::from_le_bytes(field(32, 8)?.try_into().ok()?) as usize;
    let size = u16::from_le_bytes(field(54, 2)?.try_into().ok()?) as usize;
    let count = u16::from_le_bytes(field(56, 2)?.try_into().ok()?) as usize;
    for i in 0..count {
        let kind = u32::from_le_bytes(field(offset + i * size, 4)?.try_into().ok()?);
        if kind == PT_INTERP {
            return Some(true);
        }
    }
    Some(false)
}
