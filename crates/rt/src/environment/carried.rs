//! What threads hand to each other by pipes, sockets, eventfds and other descriptors, by files, their names
//! and locks, and by signals that no handler takes.
//!
//! With its environment recorded, a replay asks the kernel for none of it: what a
//! thread reads comes from the trace, and nothing holds it back until another has
//! written it. What that one stored before it wrote must be there all the same. So a
//! call that may let another thread go on is an event before it begins, and one that
//! may have been let go is an event once it has returned: all of one object, because
//! which descriptors are ends of the same thing, and which name which file, only the
//! kernel knows. Signals have an object of their own. To the race detector an event
//! goes one way only.
//!
//! Only calls that the program makes by itself count, at the border of libc, or with an
//! instruction of its own: within an event of ours libc makes calls as well. A thread
//! that was always alone has nobody to hand anything to, unless its process shares memory.

use super::{descriptors, ordered, shared, words};
use crate::object::{Cell, Internal, in_session, internal};
use crate::runtime::{self, Mode};
use crate::{outside, races, thread};
use core::ops::Range;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use relive_order::Kind;

/// The object's key in the session: above what the hash of a mapping's file gives.
const DESCRIPTORS: u64 = 0x4445_5343_0000_0000;
/// Likewise, of signals that come from another process.
const SIGNALS: u64 = 0x5349_474E_0000_0000;

/// What is handed on, which says by which object the events are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Nothing: no event.
    Nothing,
    /// What descriptors, files and their names hold.
    Files,
    /// A signal.
    Signals,
    /// The end of a process, which may come of either.
    Ends,
    /// A word that threads wait at: no event, because a replay waits there itself, but at the level of atomics
    /// (`words.rs`).
    Word,
}

/// What a call hands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carries {
    /// It may let another thread go on: something comes, or ends.
    gives: What,
    /// It may have waited for another thread, or see what that did.
    takes: What,
    /// If it returns so much at least.
    from: i8,
}

impl Carries {
    /// Nothing.
    pub const NOTHING: Self = Self { gives: What::Nothing, takes: What::Nothing, from: 0 };
    /// It may let another thread go on.
    pub const GIVES: Self = Self { gives: What::Files, ..Self::NOTHING };
    /// It may have waited for another thread, if it did not fail.
    pub const TAKES: Self = Self { takes: What::Files, ..Self::NOTHING };
    /// Both.
    pub const EXCHANGES: Self = Self { gives: What::Files, ..Self::TAKES };
    /// Likewise [`Carries::TAKES`], if it returns that something is ready.
    pub const AWAITS: Self = Self { from: 1, ..Self::TAKES };
    /// It sees what another thread did, also where it fails.
    pub const LOOKS: Self = Self { from: i8::MIN, ..Self::TAKES };
    /// Likewise, and lets others see what it does.
    pub const CHANGES_AND_LOOKS: Self = Self { gives: What::Files, ..Self::LOOKS };
    /// It sends a signal.
    pub const SENDS: Self = Self { gives: What::Signals, ..Self::NOTHING };
    /// It takes a signal, or sees that one is there.
    pub const RECEIVES: Self = Self { takes: What::Signals, ..Self::NOTHING };
    /// It takes the end of a child.
    pub const REAPS: Self = Self { takes: What::Ends, ..Self::NOTHING };
    /// Threads wait at a word, and are let go on.
    pub(super) const WORD: Self = Self { gives: What::Word, takes: What::Word, from: i8::MIN };

    /// What the system call of this number hands on.
    #[inline]
    pub fn of(number: usize, arguments: &[usize; 6]) -> Self {
        match KINDS.get(number) {
            Some(Nature::Always(carries)) => *carries,
            Some(Nature::Opens(flags)) => Self::of_opening(arguments[usize::from(*flags)]),
            Some(Nature::Controls) if locks_file(arguments[1]) => Self::EXCHANGES,
            Some(Nature::Asks) if arguments[1] as u32 == FIONREAD => Self::TAKES,
            None | Some(Nature::Controls | Nature::Asks) => Self::NOTHING,
        }
    }

    /// What opening a file with these flags does. One that is only looked at may be a pipe with a name, which waits.
    pub const fn of_opening(flags: usize) -> Self {
        const O_ACCMODE: usize = 0o3;
        const O_CREAT: usize = 0o100;
        const O_TRUNC: usize = 0o1000;
        if flags & (O_ACCMODE | O_CREAT | O_TRUNC) == 0 { Self::LOOKS } else { Self::CHANGES_AND_LOOKS }
    }

    /// Whether there is anything to be done.
    pub fn is_anything(self) -> bool {
        self != Self::NOTHING
    }

    /// Whether nobody can be let go on by it.
    pub fn only_looks(self) -> bool {
        self == Self::LOOKS
    }

    /// As [`Carries::from_word`] takes it.
    pub const fn as_word(self) -> usize {
        self.gives as usize | (self.takes as usize) << 8 | (self.from as u8 as usize) << 16
    }

    /// Of [`Carries::as_word`].
    pub const fn from_word(word: usize) -> Self {
        const KNOWN: [What; 5] = [What::Nothing, What::Files, What::Signals, What::Ends, What::Word];
        Self { gives: KNOWN[word & 7], takes: KNOWN[word >> 8 & 7], from: (word >> 16) as i8 }
    }

    /// What opening a stream by a name in this mode does.
    ///
    /// # Safety
    /// `mode` must be a string of C's.
    pub unsafe fn of_stream(mode: *const u8) -> Self {
        // SAFETY: the caller's promise; its end is looked at before what follows.
        let (first, second) = unsafe { (*mode, if *mode == 0 { 0 } else { *mode.add(1) }) };
        if first == b'r' && second != b'+' { Self::LOOKS } else { Self::CHANGES_AND_LOOKS }
    }

    /// Before a call with these arguments, which the code at `place` makes.
    #[inline]
    pub fn begins(self, arguments: &[usize; 6], place: usize) {
        self.before(place);
        words::begins(self, arguments, place);
        // Whoever is let go on comes after the event, too. Who reads may make room for who writes.
        if !self.only_looks() {
            outside::may_wake();
        }
        if self.gives == What::Word {
            races::waits_at(arguments[0]);
        }
    }

    /// Behind it. It returned this.
    #[inline]
    pub fn ended(self, result: isize, place: usize) {
        if self.takes != What::Nothing {
            outside::may_have_waited();
            self.behind(result, place);
        }
        words::ended(self, place);
    }

    /// The event before a call.
    #[inline]
    pub fn before(self, place: usize) {
        in_order(self.gives, Hand::Gives, place);
    }

    /// The event behind a call that returned this.
    #[inline]
    pub fn behind(self, result: isize, place: usize) {
        if self.takes != What::Nothing && result >= isize::from(self.from) {
            in_order(self.takes, Hand::Takes, place);
        }
    }
}

/// The request for how much could be read.
pub const FIONREAD: u32 = 0x541B;

/// Commands of `fcntl` for locks.
pub const fn locks_file(command: usize) -> bool {
    const F_SETLK: usize = 6;
    const F_SETLKW: usize = 7;
    const F_OFD_SETLK: usize = 37;
    const F_OFD_SETLKW: usize = 38;
    matches!(command as u32 as usize, F_SETLK | F_SETLKW | F_OFD_SETLK | F_OFD_SETLKW)
}

/// What a call hands on, as far as its number tells.
#[derive(Clone, Copy, Debug)]
enum Nature {
    Always(Carries),
    /// By the flags in this argument.
    Opens(u8),
    /// By the command of `fcntl`.
    Controls,
    /// By the request of `ioctl`.
    Asks,
}

const COUNT: usize = 472;
static KINDS: [Nature; COUNT] = {
    let mut kinds = [Nature::Always(Carries::NOTHING); COUNT];
    let mut number = 0;
    while number < COUNT {
        if let Some(call) = relive_calls::find(number) {
            kinds[number] = named(call.name);
        }
        number += 1;
    }
    kinds
};

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
    "listen",
    "bind",
    "dup2",
    "dup3",
    "epoll_ctl",
    "timerfd_settime",
    "truncate",
    "ftruncate",
    "fallocate",
];
const TAKE: &[&str] = &[
    "read",
    "readv",
    "pread64",
    "preadv",
    "preadv2",
    "recvfrom",
    "recvmsg",
    "recvmmsg",
    "accept",
    "accept4",
    "getdents",
    "getdents64",
];
const BOTH: &[&str] = &["splice", "tee", "vmsplice", "copy_file_range", "sendfile", "connect", "flock"];
const READY: &[&str] = &["poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2"];
const LOOK: &[&str] =
    &["stat", "lstat", "fstat", "newfstatat", "statx", "access", "faccessat", "faccessat2", "readlink", "readlinkat"];
const CHANGE_AND_LOOK: &[&str] = &[
    "creat",
    "openat2",
    "unlink",
    "unlinkat",
    "rename",
    "renameat",
    "renameat2",
    "mkdir",
    "mkdirat",
    "rmdir",
    "link",
    "linkat",
    "symlink",
    "symlinkat",
    "mknod",
    "mknodat",
];
const SEND: &[&str] = &["kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal"];
const RECEIVE: &[&str] = &["rt_sigtimedwait", "rt_sigpending"];
const REAP: &[&str] = &["wait4", "waitid"];
const WORDS: &[&str] = &["futex", "futex_waitv", "futex_wake", "futex_wait", "futex_requeue"];

const fn named(name: &str) -> Nature {
    const BY_KIND: &[(&[&str], Carries)] = &[
        (GIVE, Carries::GIVES),
        (TAKE, Carries::TAKES),
        (BOTH, Carries::EXCHANGES),
        (READY, Carries::AWAITS),
        (LOOK, Carries::LOOKS),
        (CHANGE_AND_LOOK, Carries::CHANGES_AND_LOOKS),
        (SEND, Carries::SENDS),
        (RECEIVE, Carries::RECEIVES),
        (REAP, Carries::REAPS),
        (WORDS, Carries::WORD),
    ];
    if is_same(name.as_bytes(), b"open") {
        return Nature::Opens(1);
    }
    if is_same(name.as_bytes(), b"openat") {
        return Nature::Opens(2);
    }
    if is_same(name.as_bytes(), b"fcntl") {
        return Nature::Controls;
    }
    if is_same(name.as_bytes(), b"ioctl") {
        return Nature::Asks;
    }
    let mut index = 0;
    while index < BY_KIND.len() {
        if is_among(name, BY_KIND[index].0) {
            return Nature::Always(BY_KIND[index].1);
        }
        index += 1;
    }
    Nature::Always(Carries::NOTHING)
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

/// Which way something goes at an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hand {
    /// To whoever takes it.
    Gives,
    /// From whoever gave it.
    Takes,
}

/// The calling thread is about to make a call that may let another one go on by a descriptor.
///
/// `place` is the return address into the program.
#[inline]
pub fn give(place: usize) {
    in_order(What::Files, Hand::Gives, place);
}

/// The calling thread has made a call that may have waited for another one's.
#[inline]
pub fn take(place: usize) {
    in_order(What::Files, Hand::Takes, place);
}

#[inline]
fn in_order(what: What, hand: Hand, place: usize) {
    let is_seen = || thread::current_if_known().is_some_and(|thread| !thread.unseen);
    if !matches!(what, What::Nothing | What::Word) && is_ordered() && is_seen() {
        in_order_of(what, hand, place);
    }
}

#[inline(never)]
fn in_order_of(what: What, hand: Hand, place: usize) {
    match (what, hand) {
        (What::Signals, Hand::Gives) => ordered::event_of(Kind::Kill, &clocks_of_signals(), None, place),
        (What::Signals, Hand::Takes) => ordered::event_of(Kind::Deliver, &clocks_of_signals(), None, place),
        // A signal may come by a descriptor, and so may the end of a process.
        (_, Hand::Takes) if what == What::Ends || descriptors::are_told_signals() => {
            let [own, others] = clocks_of_signals();
            ordered::event_of(Kind::LibcCall, &[clock_of_files(), own, others], Some(hand), place);
        }
        _ => ordered::event(clock_of_files(), hand, place),
    }
}

/// Looked up once: to find it is to write to memory that all processes have in common.
fn clock_of_files() -> &'static Cell {
    static FOUND: AtomicPtr<Cell> = AtomicPtr::new(null_mut());
    // SAFETY: null, or what was found before; a fork child has the session's memory at the same place.
    unsafe { FOUND.load(Ordering::Relaxed).as_ref() }.unwrap_or_else(|| {
        let found = in_session(DESCRIPTORS);
        FOUND.store(core::ptr::from_ref(found).cast_mut(), Ordering::Relaxed);
        found
    })
}

/// The clocks that a signal is ordered by, that of the process and that of all.
pub fn clocks_of_signals() -> [&'static Cell; 2] {
    [internal(Internal::Signals), in_session(SIGNALS)]
}

/// Whether such calls of the calling thread are events.
pub fn is_ordered() -> bool {
    super::is_on() && (ordered::among_others() != Mode::Off || shared::may_be_seen() && runtime::mode() != Mode::Off)
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

/// Whether the code there is the C library's or the loader's.
#[inline]
pub(super) fn is_in_library(place: usize) -> bool {
    LIBRARIES
        .iter()
        .any(|[start, length]| place.wrapping_sub(start.load(Ordering::Relaxed)) < length.load(Ordering::Relaxed))
}

/// Carries out the call that the code at `place` makes by an instruction. `None` of the call: it said elsewhere how it ended.
#[inline]
pub(super) fn by_instruction(
    number: usize,
    arguments: &[usize; 6],
    place: impl FnOnce() -> usize,
    call: impl FnOnce() -> Option<isize>,
) -> Option<isize> {
    let carries = Carries::of(number, arguments);
    if !carries.is_anything() {
        return call();
    }
    let place = place();
    if is_in_library(place) {
        return call();
    }
    carries.begins(arguments, place);
    let result = call();
    if let Some(result) = result {
        carries.ended(result, place);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::{BOTH, CHANGE_AND_LOOK, GIVE, LOOK, READY, REAP, RECEIVE, SEND, TAKE, WORDS};
    use super::{Carries, KINDS, is_among};
    use relive_sys::syscall::number::{CLOSE, EPOLL_PWAIT, FCNTL, GETPID, OPENAT, READ, SENDFILE, TGKILL, WRITE};

    #[test]
    fn calls_are_found_by_their_names() {
        let expected = [
            (READ, Carries::TAKES),
            (WRITE, Carries::GIVES),
            (CLOSE, Carries::GIVES),
            (SENDFILE, Carries::EXCHANGES),
            (EPOLL_PWAIT, Carries::AWAITS),
            (TGKILL, Carries::SENDS),
            (GETPID, Carries::NOTHING),
            (usize::MAX, Carries::NOTHING),
        ];
        for (number, carries) in expected {
            assert_eq!(Carries::of(number, &[0; 6]), carries, "{number}");
        }
    }

    #[test]
    fn arguments_tell_locks_and_files_that_are_made() {
        let of = |number, argument: [usize; 3]| Carries::of(number, &[argument[0], argument[1], argument[2], 0, 0, 0]);
        assert_eq!(
            [1, 6, 7, 37, 38].map(|command| of(FCNTL, [3, command, 0]).is_anything()),
            [false, true, true, true, true]
        );
        assert_eq!(of(OPENAT, [0, 0, 0o2_000_000]), Carries::LOOKS);
        assert_eq!(of(OPENAT, [0, 0, 0o301]), Carries::CHANGES_AND_LOOKS);
    }

    #[test]
    fn each_name_is_that_of_one_call_and_stands_in_one_list() {
        let lists = [GIVE, TAKE, BOTH, READY, LOOK, CHANGE_AND_LOOK, SEND, RECEIVE, REAP, WORDS];
        for name in lists.concat() {
            assert!(
                (0..KINDS.len()).any(|number| relive_calls::find(number).is_some_and(|call| call.name == name)),
                "{name}"
            );
            assert_eq!(lists.iter().filter(|list| is_among(name, list)).count(), 1, "{name}");
        }
    }
}
