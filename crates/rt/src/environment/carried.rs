//! What threads hand to each other by pipes, sockets, eventfds and other descriptors.
//!
//! With its environment recorded, a replay asks the kernel for none of it: what a
//! thread reads comes from the trace, and nothing holds it back until another has
//! written it. What that one stored before it wrote must be there all the same. So a
//! call that may let another thread go on is an event before it begins, and one that
//! may have been let go is an event once it has returned: all of one object, because
//! which descriptors are ends of the same thing only the kernel knows.
//!
//! Only calls that the program makes by itself count, at the border of libc, or with an
//! instruction of its own: within an event of ours libc makes calls as well. A thread
//! that was always alone has nobody to hand anything to.

use super::ordered;
use crate::runtime::Mode;
use crate::{object, outside, thread};
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};

/// The object's key in the session: above what the hash of a mapping's file gives.
const DESCRIPTORS: u64 = 0x4445_5343_0000_0000;

/// What a call hands on by a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// Nothing.
    Nothing,
    /// It may let another thread go on: something comes, or ends.
    Gives,
    /// It may have waited for another thread, if it did not fail.
    Takes,
    /// Both.
    Exchanges,
    /// Likewise [`Carries::Takes`], if it returns that something is ready.
    Awaits,
}

impl Carries {
    /// Whether there is an event before the call.
    pub const fn gives(self) -> bool {
        matches!(self, Carries::Gives | Carries::Exchanges)
    }

    /// From which result on there is an event behind the call.
    pub const fn takes_from(self) -> Option<isize> {
        match self {
            Carries::Nothing | Carries::Gives => None,
            Carries::Takes | Carries::Exchanges => Some(0),
            Carries::Awaits => Some(1),
        }
    }

    /// What the system call of this number hands on.
    pub fn of(number: usize) -> Self {
        KINDS.get(number).copied().unwrap_or(Carries::Nothing)
    }
}

const COUNT: usize = 472;
static KINDS: [Carries; COUNT] = {
    let mut kinds = [Carries::Nothing; COUNT];
    let mut number = 0;
    while number < COUNT {
        if let Some(call) = relive_calls::find(number) {
            kinds[number] = named(call.name);
        }
        number += 1;
    }
    kinds
};

const fn named(name: &str) -> Carries {
    const GIVE: &[&str] = &[
        "write",
        "writev",
        "pwrite64",
        "pwritev",
        "pwritev2",
        "sendto",
        "sendmsg",
        "sendmmsg",
        "close",
        "close_range",
        "shutdown",
        "dup2",
        "dup3",
        "epoll_ctl",
        "timerfd_settime",
    ];
    const TAKE: &[&str] =
        &["read", "readv", "pread64", "preadv", "preadv2", "recvfrom", "recvmsg", "recvmmsg", "accept", "accept4"];
    const BOTH: &[&str] = &["splice", "tee", "vmsplice", "copy_file_range", "sendfile", "connect"];
    const READY: &[&str] = &["poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2"];
    if is_among(name, GIVE) {
        Carries::Gives
    } else if is_among(name, TAKE) {
        Carries::Takes
    } else if is_among(name, BOTH) {
        Carries::Exchanges
    } else if is_among(name, READY) {
        Carries::Awaits
    } else {
        Carries::Nothing
    }
}

const fn is_among(name: &str, list: &[&str]) -> bool {
    let mut index = 0;
    while index < list.len() {
        if is_same(name.as_bytes(), list[index].as_bytes()) {
            return true;
        }
        index += 1;
    }
    false
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

/// The calling thread is about to make a call that may let another one go on, or has made one that may have waited for
/// another.
///
/// `place` is the return address into the program.
#[inline]
pub fn in_order(place: usize) {
    let is_seen = || thread::current_if_known().is_some_and(|thread| !thread.unseen);
    if is_ordered() && is_seen() {
        ordered::event(object::in_session(DESCRIPTORS), place);
    }
}

/// Whether such calls of the calling thread are events.
pub fn is_ordered() -> bool {
    super::is_on() && ordered::among_others() != Mode::Off
}

/// Where the C library and the loader have their code. Nobody else calls within an event of ours.
static LIBRARIES: [[AtomicUsize; 2]; 4] = [const { [const { AtomicUsize::new(0) }; 2] }; 4];

/// A file of code was mapped before the program ran: calls within it are libc's, if it is that.
pub(super) fn learn(range: &Range<usize>, path: &[u8]) {
    const OURS: [&[u8]; 5] = [b"libc.so.", b"libc-2.", b"ld-linux", b"ld-2.", b"libpthread"];
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    if !OURS.iter().any(|start| name.starts_with(start)) {
        return;
    }
    if let Some(free) = LIBRARIES.iter().find(|[_, length]| length.load(Ordering::Relaxed) == 0) {
        free[0].store(range.start, Ordering::Relaxed);
        free[1].store(range.len(), Ordering::Relaxed);
    }
}

fn is_in_library(place: usize) -> bool {
    LIBRARIES
        .iter()
        .any(|[start, length]| place.wrapping_sub(start.load(Ordering::Relaxed)) < length.load(Ordering::Relaxed))
}

/// Carries out the call that the code at `place` makes by an instruction. `None` of the call: it said elsewhere how it ended.
#[inline]
pub(super) fn by_instruction(
    number: usize,
    place: impl FnOnce() -> usize,
    call: impl FnOnce() -> Option<isize>,
) -> Option<isize> {
    let carries = Carries::of(number);
    if carries == Carries::Nothing {
        return call();
    }
    let place = place();
    if is_in_library(place) {
        return call();
    }
    outside::may_wake();
    if carries.gives() {
        in_order(place);
    }
    let result = call();
    if let (Some(result), Some(least)) = (result, carries.takes_from())
        && result >= least
    {
        outside::may_have_waited();
        in_order(place);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::Carries;
    use relive_sys::syscall::number::{CLOSE, EPOLL_PWAIT, GETPID, READ, SENDFILE, WRITE};

    #[test]
    fn calls_are_found_by_their_names() {
        let expected = [
            (READ, Carries::Takes),
            (WRITE, Carries::Gives),
            (CLOSE, Carries::Gives),
            (SENDFILE, Carries::Exchanges),
            (EPOLL_PWAIT, Carries::Awaits),
            (GETPID, Carries::Nothing),
            (usize::MAX, Carries::Nothing),
        ];
        for (number, carries) in expected {
            assert_eq!(Carries::of(number), carries, "{number}");
        }
    }
}
