//! What each tool finds and misses in programs whose races are known.
//!
//! Apart from the times because a fast tool that finds nothing is no tool.

use super::cases::{self, Case};
use super::tools::{Build, Peer, RACES};
use crate::bench::Place;
use crate::bench::alone::{self, Ended};
use crate::run::Outcome;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A program that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);
/// Runs of each case, at most: most come out the same each time.
const RUNS_MAX: usize = 3;

/// Who looks: `None` is relive.
pub(super) type Tool = Option<Peer>;

/// How one run of a case came out.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) enum Verdict {
    /// Nothing was reported.
    Quiet,
    /// A report names a line whose access races, or there is no race to name.
    Reported,
    /// Reports, but none of them names such a line.
    Elsewhere,
    /// The tool or the program under it failed.
    Failed(String),
}

/// One case under one tool.
#[derive(Debug, serde::Serialize)]
pub(super) struct Finding {
    /// Whose.
    pub(super) tool: Tool,
    /// The case.
    pub(super) case: String,
    /// Whether it has a race.
    pub(super) races: bool,
    /// Each run.
    pub(super) runs: Vec<Verdict>,
}

impl Finding {
    /// How many runs came out so.
    pub(super) fn count(&self, is: fn(&Verdict) -> bool) -> usize {
        self.runs.iter().filter(|run| is(run)).count()
    }
}

/// Runs every chosen case under every tool.
pub(super) fn look(place: &Place, runs: usize, peers: &[Peer], built: &Path) -> Outcome<Vec<Finding>> {
    let tools: Vec<Tool> = std::iter::once(None).chain(peers.iter().copied().map(Some)).collect();
    let mut findings = Vec::new();
    for case in &cases::chosen()? {
        eprintln!("{}", case.name());
        let used = Build::ALL.into_iter().filter(|build| tools.iter().any(|tool| build_of(*tool) == *build));
        let ready: Vec<(Build, Outcome)> = used.map(|build| (build, case.build(build, built))).collect();
        for &tool in &tools {
            let failed = ready.iter().find(|(build, _)| *build == build_of(tool)).and_then(|r| r.1.as_ref().err());
            let runs = match failed {
                None => (0..runs.min(RUNS_MAX)).map(|_| outcome(place, case, tool, built)).collect(),
                Some(why) => vec![Verdict::Failed(why.to_string())],
            };
            findings.push(Finding { tool, case: case.name(), races: case.races(), runs });
        }
    }
    Ok(findings)
}

fn build_of(tool: Tool) -> Build {
    tool.map_or(Build::Plain, Peer::build)
}

fn outcome(place: &Place, case: &Case, tool: Tool, built: &Path) -> Verdict {
    let ended = match tool {
        None => relive(place, case, built),
        Some(peer) => {
            let mut command = peer.command(&case.program(peer.build(), built));
            alone::run(command.args(case.arguments.split(' ')), LIMIT)
        }
    };
    place.forget_trace();
    match ended {
        Ok(ended) => judge(case, tool, &ended),
        Err(why) => Verdict::Failed(why),
    }
}

fn relive(place: &Place, case: &Case, built: &Path) -> Result<Ended, String> {
    let mut record = place.relive(&["record", "-q", "--environment", "-o"]);
    record.arg(place.trace()).arg("--").arg(case.program(Build::Plain, built)).args(case.arguments.split(' '));
    let recorded = alone::run(&record, LIMIT)?;
    if recorded.status != Some(0) {
        return Err(format!("record: {}", recorded.in_short()));
    }
    let mut races: Command = place.relive(&["races", "-q"]);
    alone::run(races.arg(place.trace()), LIMIT)
}

fn judge(case: &Case, tool: Tool, ended: &Ended) -> Verdict {
    let reported = tool.map_or(ended.status == Some(RACES), |peer| peer.reported(ended));
    let text = ended.text();
    if reported && (!case.races() || case.lines.iter().any(|line| names(&text, line))) {
        Verdict::Reported
    } else if reported {
        Verdict::Elsewhere
    } else if matches!(ended.status, Some(0 | RACES)) {
        Verdict::Quiet
    } else {
        Verdict::Failed(ended.in_short())
    }
}

/// Whether `text` has `FILE:LINE`, and not only the beginning of a longer number.
fn names(text: &str, line: &str) -> bool {
    text.match_indices(line).any(|(at, _)| !text[at + line.len()..].starts_with(|next: char| next.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn a_line_is_not_one_of_ten_times_the_number() {
        assert!(names("one() mutex.c:38 writes", "mutex.c:38"));
        assert!(names("mutex.c:380 then (mutex.c:38)", "mutex.c:38"));
        assert!(!names("mutex.c:380", "mutex.c:38"));
    }
}
