//! Waits for a started program while signals, alarms and the clock come in.

use crate::signals::Held;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, waitpid};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::time::Duration;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It exited with this code.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
}

impl Outcome {
    /// The exit status that stands for it.
    pub fn exit_status(self) -> u8 {
        match self {
            Outcome::Exited(code) => code as u8,
            Outcome::Killed(signal) => (128 + signal) as u8,
        }
    }
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The process ended.
    Ended(Outcome),
    /// The alarm is readable.
    Alarm,
    /// The time is over.
    Tick,
}

/// A child that is waited for.
#[derive(Debug)]
pub struct Watched {
    child: Child,
    pid: Pid,
    descriptor: OwnedFd,
}

impl Watched {
    /// Watches a child that nobody waited for yet.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(child: Child) -> io::Result<Self> {
        let pid = Pid::from_child(&child);
        Ok(Self { child, pid, descriptor: pidfd_open(pid, PidfdFlags::empty())? })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until the process ends, the alarm rings or the time is over; forwards signals meanwhile.
    ///
    /// # Errors
    /// What the system says.
    pub fn wait(&self, held: &Held, alarm: Option<BorrowedFd<'_>>, timeout: Option<Duration>) -> io::Result<Woken> {
        let timeout =
            timeout.map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() });
        loop {
            let mut sources = vec![
                PollFd::from_borrowed_fd(self.descriptor.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(held.descriptor(), PollFlags::IN),
            ];
            sources.extend(alarm.map(|alarm| PollFd::from_borrowed_fd(alarm, PollFlags::IN)));
            match poll(&mut sources, timeout.as_ref()) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other?,
            };
            let ready: Vec<bool> = sources.iter().map(|source| !source.revents().is_empty()).collect();
            if ready[0] {
                return self.reap().map(Woken::Ended);
            }
            if ready[1] {
                held.to_forward().into_iter().for_each(|number| self.send(number));
                continue;
            }
            return Ok(if ready.get(2) == Some(&true) { Woken::Alarm } else { Woken::Tick });
        }
    }

    /// Kills it and waits for its end.
    pub fn kill(&self) {
        let _ = rustix::process::kill_process(self.pid, Signal::KILL);
        let _ = self.reap();
    }

    fn send(&self, number: i32) {
        if let Some(signal) = Signal::from_named_raw(number) {
            let _ = rustix::process::kill_process(self.pid, signal);
        }
    }

    fn reap(&self) -> io::Result<Outcome> {
        loop {
            match waitpid(Some(self.pid), WaitOptions::empty()) {
                Err(rustix::io::Errno::INTR) | Ok(None) => {}
                Err(error) => return Err(error.into()),
                Ok(Some((_, status))) => {
                    let killed = status.terminating_signal().map(Outcome::Killed);
                    return Ok(killed.unwrap_or_else(|| Outcome::Exited(status.exit_status().unwrap_or(0))));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Outcome, Watched, Woken};
    use crate::signals::Held;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    fn start(held: &Held, script: &str) -> Watched {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).stdin(Stdio::null());
        Watched::new(held.released(|| command.spawn()).unwrap()).unwrap()
    }

    #[test]
    fn exit_codes_and_signals_are_told_apart() {
        let held = Held::new().unwrap();
        assert_eq!(start(&held, "exit 7").wait(&held, None, None).unwrap(), Woken::Ended(Outcome::Exited(7)));
        assert_eq!(start(&held, "kill -9 $$").wait(&held, None, None).unwrap(), Woken::Ended(Outcome::Killed(9)));
        assert_eq!((Outcome::Exited(7).exit_status(), Outcome::Killed(9).exit_status()), (7, 137));
    }

    #[test]
    fn a_signal_reaches_the_program_and_the_time_can_run_out() {
        let held = Held::new().unwrap();
        let child = start(&held, "exec sleep 1000");
        assert_eq!(child.wait(&held, None, Some(Duration::from_millis(1))).unwrap(), Woken::Tick);
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGTERM).unwrap();
        assert_eq!(child.wait(&held, None, None).unwrap(), Woken::Ended(Outcome::Killed(15)));
    }
}
