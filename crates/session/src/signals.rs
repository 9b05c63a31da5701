//! What happens to signals while a program runs: the launcher outlives them so
//! that the trace is finished, and the program gets each exactly once.
//!
//! The signals are blocked and read from a file descriptor. No handler is
//! installed, so a disposition that the program is to inherit (`nohup`) stays.

use crate::file_limit::OfPrograms;
use crate::processes;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use relive_sys::caught::Caught;
use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Those that end a program and that a user sends to end it.
const HELD: [Signal; 6] =
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2];
/// Those of them that mean nothing else.
const ENDS: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];
/// `si_code` of a signal that the terminal sent: the whole foreground group got it, the program too.
const FROM_KERNEL: i32 = 0x80;

/// While it lives, the held signals of this thread and those it starts come here.
#[derive(Debug)]
pub struct Held {
    source: SignalFd,
    before: SigSet,
    last: Cell<Option<i32>>,
    end: Cell<Option<i32>>,
    /// A bit for each signal that whoever started us wants ignored: 1 for the first.
    ignored: u64,
}

impl Held {
    /// Holds them back. To be called before the process starts other threads.
    ///
    /// # Errors
    /// What the system says.
    pub fn new() -> io::Result<Self> {
        let mut mask: SigSet = HELD.into_iter().collect();
        // Blocked, a file that grows past the limit is an error to us and not our end. It is taken like the others, or it
        // would strike in the end.
        mask.add(Signal::SIGXFSZ);
        let source = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let before = SigSet::thread_get_mask()?;
        mask.thread_block()?;
        Ok(Self { source, before, last: Cell::new(None), end: Cell::new(None), ignored: processes::ignored_signals() })
    }

    /// Runs `start` with the signal mask and the limit on files as they were before: a program started there inherits
    /// them.
    /// A signal that comes meanwhile comes again when it is held: the program may run before `start` returns.
    pub fn released<T>(&self, start: impl FnOnce() -> T) -> T {
        let held = SigSet::thread_get_mask();
        let numbers = HELD.map(|signal| signal as i32);
        let caught = Caught::begin(&numbers);
        let _ = self.before.thread_set_mask();
        let limit = OfPrograms::enter();
        let result = start();
        drop(limit);
        if let Ok(held) = held {
            let _ = held.thread_set_mask();
        }
        drop(caught);
        result
    }

    /// Readable when a signal came.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.source.as_fd()
    }

    /// The signals that came and that the program didn't get by itself.
    pub fn to_forward(&self) -> Vec<i32> {
        let mut numbers = Vec::new();
        while let Ok(Some(signal)) = self.source.read_signal() {
            if signal.ssi_signo == Signal::SIGXFSZ as u32 {
                continue;
            }
            self.last.set(Some(signal.ssi_signo as i32));
            if ENDS.iter().any(|&ends| ends as u32 == signal.ssi_signo)
                && self.ignored >> (signal.ssi_signo - 1) & 1 == 0
            {
                self.end.set(Some(signal.ssi_signo as i32));
            }
            if signal.ssi_code != FROM_KERNEL {
                numbers.push(signal.ssi_signo as i32);
            }
        }
        numbers
    }

    /// The signal by which a user wants an end, if one was read: of no use to a replayed program, which may well have a
    /// handler for it.
    pub fn end(&self) -> Option<i32> {
        self.end.get()
    }

    /// The last signal that came, from whomever.
    pub fn last(&self) -> Option<i32> {
        let forwarded = self.to_forward();
        debug_assert!(forwarded.len() <= HELD.len(), "a signal that is pending is pending once");
        self.last.get()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // What came and was not read must not end us now.
        let _ = self.to_forward();
        let _ = self.before.thread_set_mask();
    }
}

/// The name of a signal, e.g. `SIGSEGV`.
pub fn name(number: i32) -> String {
    Signal::try_from(number).map_or_else(|_| format!("signal {number}"), |signal| signal.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Held, name};
    use nix::sys::signal::{Signal, raise};
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    #[test]
    fn a_signal_that_a_process_sent_is_forwarded_and_does_not_end_us() {
        let held = Held::new().unwrap();
        assert!(held.to_forward().is_empty());
        raise(Signal::SIGUSR1).unwrap();
        assert_eq!((held.to_forward(), held.end()), (vec![10], None));
        raise(Signal::SIGTERM).unwrap();
        assert_eq!((held.to_forward(), held.end()), (vec![15], Some(15)));
        raise(Signal::SIGHUP).unwrap();
        drop(held);
    }

    #[test]
    fn a_signal_that_comes_while_a_program_is_started_is_held() {
        let held = Held::new().unwrap();
        let twice = held.released(|| {
            raise(Signal::SIGTERM).unwrap();
            raise(Signal::SIGUSR1).unwrap();
            Command::new("sh").args(["-c", "kill -TERM $$"]).status().unwrap().signal()
        });
        assert_eq!((twice, held.to_forward()), (Some(15), vec![10, 15]));
    }

    #[test]
    fn a_file_that_may_not_grow_is_no_end_of_ours() {
        let held = Held::new().unwrap();
        raise(Signal::SIGXFSZ).unwrap();
        assert!(held.to_forward().is_empty() && held.last().is_none());
        raise(Signal::SIGXFSZ).unwrap();
        drop(held);
    }

    #[test]
    fn signals_have_names() {
        assert_eq!((name(11).as_str(), name(34).as_str()), ("SIGSEGV", "signal 34"));
    }
}
