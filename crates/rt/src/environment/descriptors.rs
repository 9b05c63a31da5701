//! Which descriptors of a program stand for the session's standard output and
//! error. In a replay no descriptor of it is real.
//!
//! Apart from what is written to them because duplicating and closing say it.

use crate::runtime;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use relive_sys::syscall;
use relive_sys::syscall::number::{
    CLOSE, CLOSE_RANGE, DUP, DUP2, DUP3, FCNTL, PIDFD_OPEN, PSELECT6, SELECT, SIGNALFD, SIGNALFD4,
};

/// Descriptors above these are not followed: a program that writes to its output by such a one shows nothing.
const FOLLOWED: usize = 4096;

/// For each descriptor 0, or the descriptor of the launcher (1 or 2) that shows what is written to it.
static SHOWN: [AtomicU8; FOLLOWED] = [const { AtomicU8::new(0) }; FOLLOWED];

/// Bits of libc's set of descriptors.
const SET_OF_LIBC: i32 = 1024;

const F_DUPFD: usize = 0;
const F_DUPFD_CLOEXEC: usize = 1030;
const CLOSE_RANGE_CLOEXEC: usize = 4;

/// Whether a signalfd or a pidfd was ever made, in a replay.
static SIGNALS: AtomicBool = AtomicBool::new(false);

/// Whether signals, or the ends that they bring, may come by descriptors of this process, as far as a replay has come.
pub(super) fn are_told_signals() -> bool {
    SIGNALS.load(Ordering::Relaxed)
}

/// The launcher's descriptor that shows what is written to `descriptor`, if any.
pub(super) fn shown_by(descriptor: usize) -> Option<u32> {
    match SHOWN.get(descriptor as u32 as usize)?.load(Ordering::Relaxed) {
        0 => None,
        shown => Some(u32::from(shown)),
    }
}

/// Says what shows writes to `descriptor`; 0 for nothing.
pub(super) fn set(descriptor: usize, shown: u8) {
    if let Some(entry) = SHOWN.get(descriptor as u32 as usize) {
        entry.store(shown, Ordering::Relaxed);
    }
}

fn duplicate(from: usize, to: usize) {
    set(to, shown_by(from).unwrap_or(0) as u8);
}

/// Whether the kernel looks at a part of the sets only: `select` for more descriptors than a set of libc's has, as
/// programs ask that pass the limit on descriptors.
pub(super) fn depends_on_table(number: usize, arguments: &[usize; 6]) -> bool {
    takes_sets(number) && arguments[0] as i32 > SET_OF_LIBC
}

/// Whether a call takes sets of descriptors.
pub(super) const fn takes_sets(number: usize) -> bool {
    matches!(number, SELECT | PSELECT6)
}

/// Descriptors for which the kernel has room in this process: more are in no set. The most there can be if it does not
/// say.
#[inline(never)] // Its buffer would weigh on the stack of every call.
pub(super) fn table_size() -> usize {
    let mut text = [0; 1024];
    let fd = syscall::open(b"/proc/self/status\0", syscall::O_RDONLY);
    if fd < 0 {
        return usize::MAX;
    }
    let length = usize::try_from(syscall::read(fd as u32, &mut text)).unwrap_or(0);
    syscall::close(fd as u32);
    stated_size(&text[..length]).unwrap_or(usize::MAX)
}

fn stated_size(status: &[u8]) -> Option<usize> {
    let line = status.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(b"FDSize:"))?;
    core::str::from_utf8(line).ok()?.trim().parse().ok()
}

/// After a call of the program that succeeded or failed as recorded.
pub(super) fn follow(number: usize, arguments: &[usize; 6], result: isize) {
    let [first, second, third, ..] = *arguments;
    let shows = |descriptor| shown_by(descriptor).is_some();
    if matches!(number, SIGNALFD | SIGNALFD4 | PIDFD_OPEN) {
        SIGNALS.store(true, Ordering::Relaxed);
    }
    let concerns = match number {
        CLOSE => shows(first),
        FCNTL if !matches!(second, F_DUPFD | F_DUPFD_CLOEXEC) => false,
        DUP | DUP2 | DUP3 | FCNTL => result >= 0 && (shows(first) || shows(result as usize)),
        CLOSE_RANGE => true,
        _ => false,
    };
    // A child that still shares our memory has descriptors of its own.
    if result < 0 || !concerns || syscall::getpid() != runtime::pid() {
        return;
    }
    match (number, second) {
        (CLOSE, _) => set(first, 0),
        (DUP | DUP2 | DUP3, _) | (FCNTL, F_DUPFD | F_DUPFD_CLOEXEC) => duplicate(first, result as usize),
        (CLOSE_RANGE, _) if third & CLOSE_RANGE_CLOEXEC == 0 => {
            for descriptor in (first as u32 as usize..FOLLOWED).take_while(|&d| d <= second as u32 as usize) {
                set(descriptor, 0);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::{CLOSE, CLOSE_RANGE, DUP2, F_DUPFD, FCNTL, SELECT, depends_on_table, follow, set, shown_by};
    use super::{stated_size, table_size};

    #[test]
    fn sets_larger_than_libcs_go_by_the_kernels_table() {
        assert!(depends_on_table(SELECT, &[1025, 0, 0, 0, 0, 0]));
        assert!(!depends_on_table(SELECT, &[1024, 0, 0, 0, 0, 0]));
        // The kernel takes a number of 32 bits, and fails with a negative one.
        assert!(!depends_on_table(SELECT, &[0xffff_ffff, 0, 0, 0, 0, 0]));
        assert_eq!(stated_size(b"Name:\tx\nFDSize:\t256\nGroups:\t0 \n"), Some(256));
        assert_eq!(stated_size(b"Name:\tx\n"), None);
        assert!((64..1 << 20).contains(&table_size()));
    }

    #[test]
    fn duplicates_show_what_their_original_shows_until_they_are_closed() {
        // Without a session the process has no id yet; a test is no child of anybody.
        crate::runtime::remember_pid();
        set(1, 1);
        set(2, 2);
        follow(DUP2, &[1, 7, 0, 0, 0, 0], 7);
        follow(FCNTL, &[2, F_DUPFD, 10, 0, 0, 0], 11);
        follow(DUP2, &[5, 1, 0, 0, 0, 0], 1);
        assert_eq!([1, 2, 7, 11].map(shown_by), [None, Some(2), Some(1), Some(2)]);
        follow(CLOSE, &[7, 0, 0, 0, 0, 0], -9);
        assert_eq!(shown_by(7), Some(1));
        follow(CLOSE, &[7, 0, 0, 0, 0, 0], 0);
        follow(CLOSE_RANGE, &[3, u32::MAX as usize, 0, 0, 0, 0], 0);
        assert_eq!([7, 11, 2].map(shown_by), [None, None, Some(2)]);
    }
}
