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
use relive_trace::control::cause;

const STDERR: u32 = 2;

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
#[derive(Clone, Copy, Debug)]
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
    let d = runtime::divergence();
    if d.claimed.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
        d.cause.store(met.cause, Ordering::Relaxed);
        d.thread.store(met.thread, Ordering::Relaxed);
        d.did.store(met.did.map_or(0, |k| k as u32), Ordering::Relaxed);
        d.event.store(met.event, Ordering::Relaxed);
        d.expected.store(met.expected, Ordering::Relaxed);
        d.found.store(met.found, Ordering::Relaxed);
        d.place.store(met.place as u64, Ordering::Relaxed);
        d.object.store(met.object as u64, Ordering::Relaxed);
        d.claimed.store(2, Ordering::Release);
        runtime::ring();
    }
    hold()
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
