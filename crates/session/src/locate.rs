//! Where a thread that is not at a recorded operation is right now.
//!
//! Apart because it stops the thread for a moment (ptrace). That is allowed in a
//! replay that has failed already, and nowhere else.

use crate::place::Places;
use crate::processes::{system_call, thread_state};
use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

/// The source line of a thread, if it can be known.
pub(crate) fn thread(places: &mut Places, pid: u32, tid: u32) -> Option<String> {
    let (counter, stack) = if thread_state(pid, tid)?.letter == 'R' {
        registers(tid)?
    } else {
        let call = system_call(pid, tid)?;
        (call.place, call.stack)
    };
    places.of_thread(counter, stack)
}

/// Program counter and stack pointer of a running thread.
fn registers(tid: u32) -> Option<(u64, u64)> {
    let thread = Pid::from_raw(tid as i32);
    ptrace::seize(thread, Options::empty()).ok()?;
    let stopped = ptrace::interrupt(thread).and_then(|()| waitpid(thread, Some(WaitPidFlag::__WALL)));
    let registers = stopped.and_then(|_| ptrace::getregs(thread));
    let _ = ptrace::detach(thread, None);
    registers.ok().map(|registers| (registers.rip, registers.rsp))
}

#[cfg(test)]
mod tests {
    use super::thread;
    use crate::place::Places;
    use std::process::{Command, Stdio};

    #[test]
    fn a_computing_and_a_sleeping_process_are_found() {
        let busy = Command::new("/bin/sh").args(["-c", "while :; do :; done"]).spawn();
        let idle = Command::new("/bin/cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        for child in [busy, idle] {
            let mut child = child.unwrap();
            let mut found = None;
            while found.is_none() {
                found = thread(&mut Places::of(child.id()), child.id(), child.id());
            }
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
