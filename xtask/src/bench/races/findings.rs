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
    let cases = cases::chosen()?;
    let mut findings = Vec::new();
    for case in &cases {
        eprintln!("{}", case.name());
        case.build(Build::Plain, built)?;
        for tool in std::iter::once(None).chain(peers.iter().copied().map(Some)) {
            let run = |_| outcome(place, case, tool, built);
            let ready = tool.map_or(Ok(()), |peer| prepare(case, peer, built));
            let runs = match ready {
                Ok(()) => (0..runs.min(RUNS_MAX)).map(run).collect(),
                Err(why) => vec![Verdict::Failed(why)],
            };
            findings.push(Finding { tool, case: case.name(), races: case.races(), runs });
        }
    }
    Ok(findings)
}

/// Builds the program for this tool.
fn prepare(case: &Case, peer: Peer, built: &Path) -> Result<(), String> {
    if peer.build() == Build::Plain { Ok(()) } else { case.build(peer.build(), built).map_err(|e| e.to_string()) }
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
