//! Programs run to an end within a time limit, with what they printed.
//!
//! Apart from the tests because none of them may hang, whatever is broken:
//! a command that outlives its limit is killed with its whole group, and named.
#![allow(dead_code, reason = "each test binary uses the part it needs")]

use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The binary under test.
pub(crate) const RELIVE: &str = env!("CARGO_BIN_EXE_relive");
/// The exit status for a divergence or a failure of the tool itself.
pub(crate) const TOOL_FAILED: i32 = 125;
/// How often a waiting test looks.
const POLL: Duration = Duration::from_millis(2);

/// A command that runs, its output going to files.
pub(crate) struct Running {
    child: Child,
    line: String,
    folder: tempfile::TempDir,
}

/// A command that ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The command line, for messages.
    pub(crate) line: String,
    /// Exit code, or 128+S for signal S.
    pub(crate) code: i32,
    /// What it wrote to standard output.
    pub(crate) stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub(crate) stderr: String,
}

/// Starts `command` in a process group of its own, without input.
pub(crate) fn start(command: &mut Command) -> Running {
    let folder = tempfile::tempdir().expect("a folder for output");
    let file = |name: &str| File::create(folder.path().join(name)).expect("a file for output");
    command.stdin(Stdio::null()).stdout(file("stdout")).stderr(file("stderr")).process_group(0);
    let line = format!("{command:?}");
    let child = command.spawn().unwrap_or_else(|e| panic!("start {line}: {e}"));
    Running { child, line, folder }
}

/// Runs `command` to its end.
pub(crate) fn run(command: &mut Command, limit: Duration) -> Ended {
    start(command).wait(limit)
}

impl Running {
    /// Process id of the command.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has written to standard output so far.
    pub(crate) fn stdout_so_far(&self) -> Vec<u8> {
        std::fs::read(self.folder.path().join("stdout")).expect("its output")
    }

    /// Waits for `ready` to hold, at most `limit`; whether it came to hold.
    pub(crate) fn wait_until(&mut self, limit: Duration, mut ready: impl FnMut(&Self) -> bool) -> bool {
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            if ready(self) {
                return true;
            }
            std::thread::sleep(POLL);
        }
        false
    }

    /// Sends SIGKILL to the command's whole group.
    pub(crate) fn kill_group(&self) {
        kill(&format!("-{}", self.pid()));
    }

    /// Waits for the end; a command that outlives `limit` is a failed test.
    pub(crate) fn wait(mut self, limit: Duration) -> Ended {
        let deadline = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("our own child") {
                break status;
            }
            if Instant::now() > deadline {
                self.kill_group();
                let _ = self.child.wait();
                let (out, err) = self.written();
                let tail = String::from_utf8_lossy(&out[out.len().saturating_sub(2000)..]).into_owned();
                panic!("{} did not end within {limit:?}\nstdout ends: {tail}\nstderr: {err}", self.line);
            }
            std::thread::sleep(POLL);
        };
        let (stdout, stderr) = self.written();
        Ended { line: self.line, code: code(status), stdout, stderr }
    }

    fn written(&self) -> (Vec<u8>, String) {
        let read = |name: &str| std::fs::read(self.folder.path().join(name)).expect("its output");
        (read("stdout"), String::from_utf8_lossy(&read("stderr")).into_owned())
    }
}

impl Ended {
    /// Fails the test unless the exit code is `code`.
    pub(crate) fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}\nstderr: {}", self.line, self.stderr);
        self
    }

    /// Standard output as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Fails the test if the tool panicked, crashed, or failed without a line that says why.
    pub(crate) fn expect_clean_report(&self) {
        assert!(!self.stderr.contains("panicked"), "{}\nstderr: {}", self.line, self.stderr);
        let died = [128 + 6, 128 + 7, 128 + 11];
        assert!(!died.contains(&self.code), "{} died: {}\nstderr: {}", self.line, self.code, self.stderr);
        if self.code == TOOL_FAILED {
            let said = self.stderr.lines().any(|l| l.starts_with("relive: "));
            assert!(said, "{} failed without a word\nstderr: {}", self.line, self.stderr);
        }
    }
}

/// Sends SIGKILL to `target`, a process id, or a group with a minus sign.
pub(crate) fn kill(target: &str) {
    // A target that ended by itself meanwhile is fine.
    let _ = Command::new("sh").args(["-c", &format!("kill -s KILL -- {target}")]).stderr(Stdio::null()).status();
}

/// The children of process `pid`, whichever of its threads started them.
pub(crate) fn children(pid: u32) -> Vec<u32> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let list = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
    tasks.flatten().map(list).flat_map(|l| l.split(' ').filter_map(|p| p.parse().ok()).collect::<Vec<_>>()).collect()
}

/// `relive record -o TRACE -- PROGRAM …`, arguments still to be added.
pub(crate) fn record(trace: &Path, program: &Path) -> Command {
    let mut command = Command::new(RELIVE);
    command.arg("record").arg("-o").arg(trace).arg("--").arg(program);
    command
}

/// `relive replay TRACE`.
pub(crate) fn replay(trace: &Path) -> Command {
    let mut command = Command::new(RELIVE);
    command.arg("replay").arg(trace);
    command
}

/// The program built from `guests/faults/NAME.c`, in `folder`.
pub(crate) fn guest(folder: &Path, name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../guests/faults/{name}.c"));
    let program = folder.join(name);
    let mut compiler = Command::new("cc");
    compiler.args(["-g", "-O1", "-Wall", "-Werror", "-pthread", "-o"]).arg(&program).arg(source);
    run(&mut compiler, Duration::from_secs(120)).expect_code(0);
    program
}

/// Whether the long variants are wanted.
pub(crate) fn long() -> bool {
    std::env::var_os("RELIVE_LONG").is_some_and(|v| v != "0")
}

/// Exit code as a shell sees it.
fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}
