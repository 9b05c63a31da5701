//! Runs one command in a process group of its own, under a time limit.
//!
//! Apart because it is the only place that starts and kills processes: a hang
//! becomes a failed test here, and never a hang of the tests.

use super::registry::Stop;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// How often a running command is looked at.
const LOOK: Duration = Duration::from_millis(2);
/// What a command gets, once it printed the text, to come to rest before the signal.
const REST: Duration = Duration::from_millis(300);
/// How long output may be held open by processes that outlive the command.
const DRAIN: Duration = Duration::from_secs(10);

/// What bounds a command.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// The time after which its process group is killed.
    pub(crate) timeout: Duration,
    /// A signal to send once a text was printed.
    pub(crate) stop: Option<Stop>,
}

/// How a command ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    /// Exit status as a shell gives it: 128+S for signal S. `None` when it was killed for its time.
    pub(crate) status: Option<i32>,
    /// Everything it printed.
    pub(crate) stdout: Vec<u8>,
    /// Everything it complained about.
    pub(crate) stderr: String,
}

impl Ended {
    /// The status in words.
    pub(crate) fn status_text(&self) -> String {
        self.status.map_or_else(|| "no end in time".to_owned(), |status| format!("status {status}"))
    }

    /// The end of what it complained about: a guest may write much there itself.
    pub(crate) fn complaints(&self) -> String {
        let lines: Vec<&str> = self.stderr.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Standard output as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// A stream that a thread of its own collects.
struct Collected {
    bytes: Arc<Mutex<Vec<u8>>>,
    end: mpsc::Receiver<()>,
}

impl Collected {
    fn start(mut stream: impl Read + Send + 'static) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let (done, end) = mpsc::channel();
        let shared = Arc::clone(&bytes);
        thread::spawn(move || {
            let mut block = [0; 8192];
            while let Ok(count @ 1..) = stream.read(&mut block) {
                shared.lock().expect("no reader panics").extend_from_slice(&block[..count]);
            }
            let _ = done.send(());
        });
        Collected { bytes, end }
    }

    fn contains(&self, text: &str) -> bool {
        let bytes = self.bytes.lock().expect("no reader panics");
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    }

    fn finish(self) -> Vec<u8> {
        let _ = self.end.recv_timeout(DRAIN);
        std::mem::take(&mut *self.bytes.lock().expect("no reader panics"))
    }
}

/// Runs it to its end, its time limit or its signal.
pub(crate) fn run(mut command: Command, limits: &Limits) -> Ended {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    let group = Pid::from_child(&child);
    let stdout = Collected::start(child.stdout.take().expect("piped"));
    let stderr = Collected::start(child.stderr.take().expect("piped"));
    let status = wait(&mut child, group, limits, &stdout);
    // Whatever the command left running in its group goes too.
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
    Ended {
        status: status.map(|status| status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))),
        stdout: stdout.finish(),
        stderr: String::from_utf8_lossy(&stderr.finish()).into_owned(),
    }
}

fn wait(child: &mut Child, group: Pid, limits: &Limits, stdout: &Collected) -> Option<ExitStatus> {
    let started = Instant::now();
    let mut stop = limits.stop.as_ref();
    while started.elapsed() < limits.timeout {
        if let Some(status) = child.try_wait().expect("our own child") {
            return Some(status);
        }
        if let Some(Stop { signal, .. }) = stop.filter(|stop| stdout.contains(&stop.after)) {
            thread::sleep(REST);
            let _ = kill_process_group(group, (*signal).into());
            stop = None;
        }
        thread::sleep(LOOK);
    }
    None
}
