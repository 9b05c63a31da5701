//! Lines to stderr and divergences, from inside the recorded process.
//!
//! Apart because nothing here may allocate or touch stdio.

use crate::races;
use crate::replay;
use crate::runtime;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicU32, Ordering};
use relive_order::Kind;
use relive_sys::syscall;
use relive_trace::control::{Divergence, cause, claim};

const STDERR: u32 = 2;
/// A second, in the steps of [`pass`].
const WORDING_MAX: u32 = 50;

struct Line {
    bytes: [u8; 400],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let room = self.bytes.len() - 1 - self.len;
        let take = s.len().min(room);
        self.bytes[self.len..self.len + take].copy_from_slice(&s.as_bytes()[..take]);
        self.len += take;
        Ok(())
    }
}

/// Writes one line, `relive: …`, to the program's stderr.
pub fn line(text: fmt::Arguments<'_>) {
    let mut line = Line { bytes: [0; 400], len: 0 };
    // A line that doesn't fit is cut; `write_str` never fails.
    let _ = write!(line, "relive: {text}");
    line.bytes[line.len] = b'\n';
    syscall::write(STDERR, &line.bytes[..=line.len]);
}

/// A divergence that a thread met.
#[derive(Clone, Copy, Debug, Default)]
pub struct Met {
    /// One of [`cause`].
    pub cause: u32,
    /// Index of the thread.
    pub thread: u32,
    /// What the program did.
    pub did: Option<Kind>,
    /// The thread's event number.
    pub event: u64,
    /// What was recorded.
    pub expected: u64,
    /// What was met.
    pub found: u64,
    /// Return address into the program.
    pub place: usize,
    /// Address of the object, 0 if none.
    pub object: usize,
}

/// Reports a divergence to the launcher and holds this thread for good.
pub fn diverge(met: Met) -> ! {
    races::waits();
    replay::stands();
    if met.claim(&runtime::session().divergence) {
        runtime::ring();
    }
    hold()
}

/// Notes a divergence behind which the replay goes on. The first one waits until the launcher has put it into words, for
/// which the process must live; not for long, as the launcher may have other cares.
pub fn pass(met: Met) {
    let session = runtime::session();
    session.passed_count.fetch_add(1, Ordering::Relaxed);
    if !met.claim(&session.passed) {
        return;
    }
    for _ in 0..WORDING_MAX {
        syscall::futex_wait(&session.passed.claimed, claim::COMPLETE, Some(20));
        if session.passed.claimed.load(Ordering::Acquire) != claim::COMPLETE {
            return;
        }
        end_without_launcher();
    }
}

impl Met {
    /// Writes it where the launcher looks, unless an earlier one stands there.
    fn claim(&self, to: &Divergence) -> bool {
        if to.claimed.compare_exchange(claim::FREE, claim::BEGUN, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        to.cause.store(self.cause, Ordering::Relaxed);
        to.thread.store(self.thread, Ordering::Relaxed);
        to.did.store(self.did.map_or(0, |k| k as u32), Ordering::Relaxed);
        to.event.store(self.event, Ordering::Relaxed);
        to.expected.store(self.expected, Ordering::Relaxed);
        to.found.store(self.found, Ordering::Relaxed);
        to.place.store(self.place as u64, Ordering::Relaxed);
        to.object.store(self.object as u64, Ordering::Relaxed);
        to.claimed.store(claim::COMPLETE, Ordering::Release);
        true
    }
}

/// Holds the calling thread until the process ends.
pub fn hold() -> ! {
    static NEVER: AtomicU32 = AtomicU32::new(0);
    loop {
        syscall::futex_wait(&NEVER, 0, Some(1000));
        end_without_launcher();
    }
}

/// Holds a process that the recording does not have: its parent may wait for it. The launcher does not know it, and so
/// does not end it.
pub fn hold_unknown() -> ! {
    static NEVER: AtomicU32 = AtomicU32::new(0);
    loop {
        syscall::futex_wait(&NEVER, 0, Some(20));
        end_without_launcher();
    }
}

/// Ends a replay that is over, or whose launcher died: nobody else would, and what it waits for may never come.
pub fn end_without_launcher() {
    if runtime::is_over() || !syscall::process_exists(runtime::session().launcher) {
        syscall::exit_group(125);
    }
}

/// A divergence without an expected and a found value.
pub fn diverge_plain(cause: u32, thread: u32, did: Option<Kind>, event: u64, place: usize) -> ! {
    debug_assert!(cause != cause::NONE, "a divergence has a cause");
    diverge(Met { cause, thread, did, event, expected: 0, found: 0, place, object: 0 })
}
