//! One write to the session's output at a time, in a recording.
//!
//! Which of two writes that several processes make at once came first shows in the output alone: they may return, and be numbered
//! (`order.rs`), the other way round. So each is made and numbered before the next one begins.
//!
//! Nobody waits long for that: whoever writes may have to wait itself, for a reader that is slow or will never read. Those behind it
//! go on then, and it is when the calls return that counts.

use crate::environment::descriptors;
use crate::runtime;
use crate::thread::Thread;
use crate::writer;
use core::sync::atomic::{AtomicU32, Ordering};
use relive_sys::syscall::{blocks, is_writable};
use relive_sys::{proc, syscall};

const NOBODY: u32 = 0;

/// From before a write until it is numbered.
#[derive(Debug)]
pub(in crate::environment) struct Writing(Option<(&'static AtomicU32, u32)>);

impl Drop for Writing {
    fn drop(&mut self) {
        if let Some((word, tid)) = self.0 {
            // Others may have taken it for that of a thread that ended, where numbers of threads have several meanings.
            let _ = word.compare_exchange(tid, NOBODY, Ordering::Release, Ordering::Relaxed);
        }
    }
}

/// The calling thread is about to make a call; waits for another one's write, if this is one.
#[inline]
pub(in crate::environment) fn begin(thread: &Thread, number: usize, arguments: &[usize; 6]) -> Writing {
    if !super::writes(number) {
        return Writing(None);
    }
    match descriptors::shown_by(arguments[0]) {
        Some(shown) if writer::is_recorded(thread) => take(arguments[0] as u32, shown, thread.tid),
        _ => Writing(None),
    }
}

fn take(fd: u32, shown: u32, tid: u32) -> Writing {
    const YIELDS: u32 = 100;
    let control = runtime::session();
    let outputs = &control.outputs;
    let is_one =
        (0..2).all(|word| outputs[0][word].load(Ordering::Relaxed) == outputs[1][word].load(Ordering::Relaxed));
    let word = &control.writing[if is_one { 0 } else { shown as usize - 1 }];
    let (mut expected, mut looks, mut patience) = (NOBODY, 0, Patience::default());
    while let Err(holder) = word.compare_exchange(expected, tid, Ordering::Acquire, Ordering::Relaxed) {
        if holder == tid {
            // It was cancelled in a write, or this is a handler's.
            return Writing(None);
        }
        looks += 1;
        if looks <= YIELDS || holder == NOBODY {
            expected = NOBODY;
            syscall::sched_yield();
            continue;
        }
        expected = if proc::has_ended(holder) { holder } else { NOBODY };
        if expected == NOBODY && patience.ends(holder, fd) {
            return Writing(None);
        }
    }
    Writing(Some((word, tid)))
}

/// How often one thread was seen to write while there was room for what others write.
#[derive(Debug, Default)]
struct Patience {
    holder: u32,
    looks: u32,
    rests: u32,
}

impl Patience {
    /// Whether it is not worth the while to wait for `holder` any longer, who has its write to `fd` under way. Waits a bit if it is.
    fn ends(&mut self, holder: u32, fd: u32) -> bool {
        const LOOK_MS: u32 = 1;
        const READER_MS: u32 = 20;
        /// Looks at one that waits itself, for something else than room.
        const RESTS: u32 = 20;
        /// Looks at one that only needs a processor.
        const LOOKS: u32 = 2000;
        match is_writable(fd, READER_MS) {
            Ok(true) => {}
            // Whoever waits for a reader keeps up nobody who would not.
            Ok(false) => return !blocks(fd),
            // A signal, which may end this write, too.
            Err(_) => return true,
        }
        if self.holder != holder {
            *self = Self { holder, ..Self::default() };
        }
        self.looks += 1;
        self.rests += u32::from(proc::waits(holder));
        syscall::futex_wait(&AtomicU32::new(0), 0, Some(LOOK_MS));
        self.rests > RESTS || self.looks > LOOKS
    }
}
