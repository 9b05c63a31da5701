//! One run of a program: its output, wall time and processor time.
//!
//! Apart because everything that is measured must be measured in the same way.

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Longer means that it hangs: the longest first replay takes a minute.
const LIMIT: Duration = Duration::from_secs(600);

/// The times of one run, in seconds.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(super) struct Sample {
    /// From start to end.
    pub(super) wall: f64,
    /// User and system time of the process and of all that it waited for.
    pub(super) cpu: f64,
}

/// Runs `command` to its end; what it printed, and its times. A bad exit is an error.
///
/// Not for use from two threads: the processor time is that of all children together.
pub(super) fn run(command: &mut Command) -> Result<(String, Sample), String> {
    let line = crate::run::line_of(command);
    let failed = |what: String| format!("`{line}`: {what}");
    let (output, sample) = run_for(command, LIMIT).map_err(|e| failed(e.to_string()))?;
    if output.status.signal() == Some(Signal::SIGKILL as i32) && sample.wall >= LIMIT.as_secs_f64() {
        return Err(failed(format!("did not end within {} s", LIMIT.as_secs())));
    }
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(format!("{}: {}", output.status, said.lines().last().unwrap_or("(no message)"))));
    }
    Ok((String::from_utf8_lossy(&output.stdout).into_owned(), sample))
}

/// Runs `command` to its end, or kills it and its group after `limit`.
pub(super) fn run_for(command: &mut Command, limit: Duration) -> std::io::Result<(Output, Sample)> {
    let before = children_seconds();
    let started = Instant::now();
    // A group of its own, so that a hanging replay can be ended with all its processes.
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let child = command.spawn()?;
    let group = Pid::from_raw(child.id().cast_signed());
    let (ended, wait) = mpsc::channel::<()>();
    let guard = thread::spawn(move || {
        if wait.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
            let _ = killpg(group, Signal::SIGKILL);
        }
    });
    let output = child.wait_with_output();
    let wall = started.elapsed().as_secs_f64();
    drop(ended);
    let _ = guard.join();
    Ok((output?, Sample { wall, cpu: children_seconds() - before }))
}

fn children_seconds() -> f64 {
    let seconds = |usage: Usage| {
        let (user, system) = (usage.user_time(), usage.system_time());
        (user.tv_sec() + system.tv_sec()) as f64 + 1e-6 * (user.tv_usec() + system.tv_usec()) as f64
    };
    // It fails for a wrong first argument only.
    getrusage(UsageWho::RUSAGE_CHILDREN).map(seconds).unwrap_or_default()
}

/// The number after `name=` in the line that a workload printed.
pub(super) fn field(line: &str, name: &str) -> Result<f64, String> {
    let value = line.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    value.and_then(|v| v.parse().ok()).ok_or_else(|| format!("no {name} in `{}`", line.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::{field, run};
    use std::process::Command;

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        assert_eq!(field("idle threads=5 vm=12.5\n", "vm"), Ok(12.5));
        assert!(field("idle threads=5", "read").is_err());
        assert!(field("idle threads=x", "threads").is_err());
    }

    #[test]
    fn the_message_of_a_failing_program_is_kept() {
        let error = run(Command::new("sh").args(["-c", "echo first >&2; echo last >&2; exit 3"])).unwrap_err();
        assert!(error.contains("last") && error.contains('3'), "{error}");
    }

    #[test]
    fn output_and_times_are_taken() {
        let (printed, sample) = run(Command::new("sh").args(["-c", "echo out"])).expect("runs");
        assert_eq!(printed, "out\n");
        assert!(sample.wall > 0.0 && sample.cpu >= 0.0);
    }
}
