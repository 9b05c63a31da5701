//! Where and when: what stands above the figures, so that they mean something later.

use crate::run;
use std::fs;
use std::process::Command;

/// The machine and the moment.
#[derive(Debug, serde::Serialize)]
pub(super) struct Machine {
    /// Day, UTC.
    pub(super) date: String,
    /// The host's name.
    pub(super) host: String,
    /// Processor model.
    pub(super) processor: String,
    /// Processors this process may use.
    pub(super) processors: usize,
    /// Kernel release.
    pub(super) kernel: String,
    /// C library and compiler.
    pub(super) tools: String,
    /// Revision of the project, `+` if files differ from it.
    pub(super) revision: String,
    /// Load average before the first measurement: it should be near nothing.
    pub(super) load: String,
}

impl Machine {
    /// Looks around. What can't be found is called unknown; figures don't fail for that.
    pub(super) fn describe() -> Self {
        let file = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        let unknown = || "unknown".to_owned();
        let processor = file("/proc/cpuinfo").and_then(|text| {
            let line = text.lines().find(|l| l.starts_with("model name"))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        });
        let first_line = |text: String| text.lines().next().unwrap_or_default().to_owned();
        let tools = [("ldd", "--version"), ("cc", "--version"), ("rustc", "--version")]
            .map(|(program, argument)| first_line(printed(program, &[argument]).unwrap_or_else(unknown)));
        Self {
            date: printed("date", &["-u", "+%F"]).unwrap_or_else(unknown),
            host: file("/proc/sys/kernel/hostname").unwrap_or_else(unknown),
            processor: processor.unwrap_or_else(unknown),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: file("/proc/sys/kernel/osrelease").unwrap_or_else(unknown),
            tools: tools.join("; "),
            revision: revision().unwrap_or_else(unknown),
            load: file("/proc/loadavg")
                .map_or_else(unknown, |text| text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")),
        }
    }
}

fn revision() -> Option<String> {
    let revision = printed("git", &["rev-parse", "--short=12", "HEAD"])?;
    let changed = printed("git", &["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changed.is_empty() { revision } else { format!("{revision}+") })
}

fn printed(program: &str, args: &[&str]) -> Option<String> {
    let output = run::capture(Command::new(program).args(args).current_dir(run::root())).ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
