//! What /proc tells of other processes and their threads.

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;

/// The state of a thread, as the kernel's letter, and the CPU time it used, in clock ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadState {
    /// `R`, `S`, `D`, `T`, `Z` or `X`.
    pub letter: char,
    /// User and system time in clock ticks.
    pub ticks: u64,
}

/// The process runs or sleeps; a zombie is not alive.
pub fn alive(pid: u32) -> bool {
    parse_stat(&format!("/proc/{pid}/stat")).is_some_and(|state| !matches!(state.letter, 'Z' | 'X'))
}

/// Removes from `folder` the folders that processes made that are gone: their names are `prefix`, the process id, and
/// perhaps a dot and more.
pub fn remove_left(folder: &Path, prefix: &str) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let maker = name.to_str().and_then(|name| name.strip_prefix(prefix)?.split('.').next()?.parse().ok());
        if maker.is_some_and(|pid| !alive(pid)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Sends a process a signal.
pub fn signal(pid: u32, number: Signal) {
    if let Some(pid) = Pid::from_raw(pid as i32) {
        let _ = kill_process(pid, number);
    }
}

/// The state of a thread; `None` if it is gone.
pub fn thread_state(pid: u32, tid: u32) -> Option<ThreadState> {
    parse_stat(&format!("/proc/{pid}/task/{tid}/stat")).filter(|state| !matches!(state.letter, 'Z' | 'X'))
}

/// The process that started this one, or the one that takes care of it since; `None` above the first.
pub fn parent(pid: u32) -> Option<u32> {
    let parent = fields(&format!("/proc/{pid}/stat"))?.get(1)?.parse().ok()?;
    (parent > 0).then_some(parent)
}

/// The fields after the command name, which may hold anything, blanks and brackets included.
fn fields(path: &str) -> Option<Vec<String>> {
    let text = fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&text);
    let (_, rest) = text.rsplit_once(')')?;
    Some(rest.split_ascii_whitespace().map(str::to_owned).collect())
}

fn parse_stat(path: &str) -> Option<ThreadState> {
    let fields = fields(path)?;
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(ThreadState { letter: fields.first()?.chars().next()?, ticks: number(11)? + number(12)? })
}

/// How many bytes a process has written, to whatever it was; 0 if that is not told.
pub fn bytes_written(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse().ok()).unwrap_or(0)
}

/// The signals that this process ignores, from its start on: a bit for each, 1 for the first. None where that is not told.
pub fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Whether a debugger has the process.
pub fn is_traced(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| tracer.trim() != "0")
}

/// The system call a sleeping thread is in; `None` while it runs.
pub fn system_call(pid: u32, tid: u32) -> Option<SystemCall> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")).ok()?;
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    let hex = |index: usize| u64::from_str_radix(fields.get(index)?.strip_prefix("0x")?, 16).ok();
    Some(SystemCall { number: fields.first()?.parse().ok()?, first: hex(1)?, stack: hex(7)?, place: hex(8)? })
}

/// Where a thread sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemCall {
    /// The call; -1 if it sleeps outside any.
    pub number: i64,
    /// Its first argument.
    pub first: u64,
    /// Stack pointer.
    pub stack: u64,
    /// Program counter.
    pub place: u64,
}

#[cfg(test)]
mod tests {
    use super::{alive, is_traced, system_call, thread_state};
    use std::process::{Command, Stdio};

    #[test]
    fn a_sleeping_child_is_alive_in_its_call_and_a_zombie_is_not() {
        let mut child = Command::new("/bin/cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        assert!(alive(pid) && !is_traced(pid));
        while thread_state(pid, pid).unwrap().letter != 'S' || system_call(pid, pid).is_none_or(|call| call.number != 0)
        {
            std::thread::yield_now();
        }
        assert_eq!(system_call(pid, pid).unwrap().first, 0);
        child.kill().unwrap();
        while alive(pid) {
            std::thread::yield_now();
        }
        assert_eq!(thread_state(pid, pid), None);
        child.wait().unwrap();
        assert!(!alive(pid));
    }
}
