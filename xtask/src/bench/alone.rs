//! One run of a program in a measuring process of its own: also its peak memory.
//!
//! Apart from `measure.rs` because the kernel keeps one peak for all children that a
//! process ever had: whoever asks for that of one run must have had no other child.
//! So this program starts itself again, and that process runs the program.

use super::measure;
use nix::sys::resource::{UsageWho, getrusage};
use serde::{Deserialize, Serialize};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The argument of `cargo xtask bench` that makes it such a process; seconds and a command line follow.
pub(super) const ARGUMENT: &str = "--alone";

/// How a run went.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Ended {
    /// Its exit status, 128+S for signal S; `None` if it was killed for its time.
    pub(super) status: Option<i32>,
    /// Seconds from start to end.
    pub(super) wall: f64,
    /// Seconds of user and system time, of its children, too.
    pub(super) cpu: f64,
    /// Peak resident memory of its largest process, in bytes.
    pub(super) peak_bytes: u64,
    /// What it printed.
    pub(super) stdout: String,
    /// What it complained about.
    pub(super) stderr: String,
}

impl Ended {
    /// Everything that it said.
    pub(super) fn text(&self) -> String {
        format!("{}\n{}", self.stdout, self.stderr)
    }

    /// Its status and its last words, in one line.
    pub(super) fn in_short(&self) -> String {
        let status = self.status.map_or_else(|| "no end in time".to_owned(), |status| format!("status {status}"));
        let said = self.stderr.lines().chain(self.stdout.lines()).rfind(|line| !line.trim().is_empty());
        format!("{status}: {}", said.unwrap_or("(no message)").trim())
    }
}

/// Runs `command` to its end, or for `limit` if that is less.
pub(super) fn run(command: &Command, limit: Duration) -> Result<Ended, String> {
    let line = crate::run::line_of(command);
    let failed = |what: String| format!("`{line}`: {what}");
    let ourselves = std::env::current_exe().map_err(|e| failed(e.to_string()))?;
    let mut measuring = Command::new(ourselves);
    measuring.args(["bench", ARGUMENT, &limit.as_secs().to_string()]).arg(command.get_program());
    measuring.args(command.get_args()).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => measuring.env(name, value),
            None => measuring.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        measuring.current_dir(folder);
    }
    let output = measuring.output().map_err(|e| failed(e.to_string()))?;
    serde_json::from_slice(&output.stdout)
        .map_err(|_| failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// The measuring process: `arguments` are seconds and a command line. Prints an [`Ended`].
pub(super) fn measure(arguments: &[String]) -> Result<(), String> {
    let [seconds, program, arguments @ ..] = arguments else { return Err("no command to run".to_owned()) };
    let limit = Duration::from_secs(seconds.parse().map_err(|_| format!("`{seconds}` are no seconds"))?);
    let (output, sample) =
        measure::run_for(Command::new(program).args(arguments), limit).map_err(|e| format!("{program}: {e}"))?;
    let killed = sample.wall >= limit.as_secs_f64();
    let status = output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap_or(0));
    let peak = getrusage(UsageWho::RUSAGE_CHILDREN).map_or(0, |usage| usage.max_rss().unsigned_abs() << 10);
    let ended = Ended {
        status: (!killed).then_some(status),
        wall: sample.wall,
        cpu: sample.cpu,
        peak_bytes: peak,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    };
    println!("{}", serde_json::to_string(&ended).map_err(|e| e.to_string())?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Ended, measure};

    #[test]
    fn a_command_is_needed_and_a_time() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert!(measure(&words("5")).is_err());
        assert!(measure(&words("soon true")).is_err());
        assert!(measure(&words("5 /nothing/there")).is_err());
    }

    #[test]
    fn the_last_words_are_told() {
        let ended = Ended {
            status: Some(3),
            wall: 0.0,
            cpu: 0.0,
            peak_bytes: 0,
            stdout: "out\n".to_owned(),
            stderr: "first\nlast\n\n".to_owned(),
        };
        assert_eq!(ended.in_short(), "status 3: out");
        assert_eq!(Ended { stdout: String::new(), ..ended.clone() }.in_short(), "status 3: last");
        assert_eq!(Ended { status: None, ..ended }.in_short(), "no end in time: out");
    }
}
