//! `/proc/*/environ` where values of variables are kept out of the trace: whoever
//! opens it gets a copy with letters in their place, the same that a replay has.
//!
//! Only a recording has to do with it, and only one that hides something.

use crate::runtime;
use relive_sys::syscall::number::{DUP3, FCNTL, LSEEK, MEMFD_CREATE};
use relive_sys::syscall::{self, syscall6};
use relive_trace::pattern::{self, PLACEHOLDER};

/// Names of variables longer than this are looked at up to here.
const NAME_MAX: usize = 256;
const PATH_MAX: usize = 4096;

/// The program has opened a file by this descriptor of its own.
pub(super) fn opened(descriptor: usize) {
    if runtime::session().redacted_len > 0 {
        cover(descriptor as u32);
    }
}

#[inline(never)] // Its buffers would weigh on the stack of every call.
fn cover(descriptor: u32) {
    let mut path = [0; PATH_MAX];
    if !syscall::path_of(descriptor, &mut path).is_some_and(is_environment) {
        return;
    }
    // SAFETY: a literal with its zero.
    let copy = unsafe { syscall6(MEMFD_CREATE, c"environ".as_ptr().addr(), 0, 0, 0, 0, 0) };
    let Ok(copy) = u32::try_from(copy) else { return };
    let (mut chunk, mut variable) = ([0; PATH_MAX], Variable::new());
    while let Ok(length @ 1..) = usize::try_from(syscall::read(descriptor, &mut chunk)) {
        chunk[..length].iter_mut().for_each(|byte| variable.pass(byte, is_hidden));
        syscall::write(copy, &chunk[..length]);
    }
    replace(descriptor, copy);
    syscall::close(copy);
}

/// `/proc/N/environ`, `/proc/N/task/N/environ`.
fn is_environment(path: &[u8]) -> bool {
    path.starts_with(b"/proc/") && path.ends_with(b"/environ")
}

fn is_hidden(name: &[u8]) -> bool {
    let control = runtime::session();
    let patterns = &control.redacted[..control.redacted_len as usize];
    patterns.split(|&byte| byte == 0).any(|pattern| !pattern.is_empty() && pattern::matches(pattern, name))
}

/// Makes the program's descriptor one of the copy, from its beginning.
fn replace(descriptor: u32, copy: u32) {
    const F_GETFD: usize = 1;
    const O_CLOEXEC: usize = 0x8_0000;
    // SAFETY: no pointers; a descriptor that the program has just got and one of ours.
    unsafe {
        syscall6(LSEEK, copy as usize, 0, 0, 0, 0, 0);
        let closes = syscall6(FCNTL, descriptor as usize, F_GETFD, 0, 0, 0, 0) & 1 != 0;
        let flags = if closes { O_CLOEXEC } else { 0 };
        syscall6(DUP3, copy as usize, descriptor as usize, flags, 0, 0, 0);
    }
}

/// Where in a variable the next byte stands.
struct Variable {
    name: [u8; NAME_MAX],
    length: usize,
    /// Behind the name, whether the value is hidden.
    hidden: Option<bool>,
}

impl Variable {
    const fn new() -> Self {
        Self { name: [0; NAME_MAX], length: 0, hidden: None }
    }

    fn pass(&mut self, byte: &mut u8, is_hidden: impl Fn(&[u8]) -> bool) {
        match (*byte, self.hidden) {
            (0, _) => (self.length, self.hidden) = (0, None),
            (b'=', None) => self.hidden = Some(is_hidden(&self.name[..self.length])),
            (_, Some(true)) => *byte = PLACEHOLDER,
            (_, None) if self.length < NAME_MAX => {
                self.name[self.length] = *byte;
                self.length += 1;
            }
            (_, Some(false) | None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Variable, is_environment};

    #[test]
    fn values_are_covered_and_names_are_not() {
        let mut text = *b"A=1=2\0PIN=8844\0PIN\0PINS=7\0PIN=a=b";
        let mut variable = Variable::new();
        for byte in &mut text {
            variable.pass(byte, |name| name == b"PIN");
        }
        assert_eq!(&text, b"A=1=2\0PIN=xxxx\0PIN\0PINS=7\0PIN=xxx");
    }

    #[test]
    fn environments_of_processes_and_threads_are_meant() {
        assert!(is_environment(b"/proc/12/environ") && is_environment(b"/proc/12/task/13/environ"));
        assert!(!is_environment(b"/home/proc/environ") && !is_environment(b"/proc/12/environment"));
    }
}
