//! What each tool finds and misses in programs whose races are known.
//!
//! Apart from the times because a fast tool that finds nothing is no tool.

use super::cases::{self, Case};
use super::tools::{Build, Peer, RACES};
use crate::bench::Place;
use crate::bench::alone::{self, Ended};
use crate::bench::report::{flat, without_folders};
use crate::run::Outcome;
use std::collections::BTreeSet;
use std::fmt::Write;
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

impl Verdict {
    fn failed(why: &str) -> Self {
        Self::Failed(without_folders(why))
    }
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
    fn count(&self, is: fn(&Verdict) -> bool) -> usize {
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
                Some(why) => vec![Verdict::failed(&why.to_string())],
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
        Err(why) => Verdict::failed(&why),
    }
}

fn relive(place: &Place, case: &Case, built: &Path) -> Result<Ended, String> {
    let mut record = place.relive(&["record", "-q", "--environment", "-o"]);
    record.arg(place.trace()).arg("--").arg(case.program(Build::Plain, built)).args(case.arguments.split(' '));
    let recorded = alone::run(&record, LIMIT)?;
    if recorded.status != Some(case.status) {
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
    } else if ended.status.is_some_and(|status| [0, RACES, case.status].contains(&status)) {
        Verdict::Quiet
    } else {
        Verdict::failed(&ended.in_short())
    }
}

/// Whether `text` has `FILE:LINE`, and not only the beginning of a longer number.
fn names(text: &str, line: &str) -> bool {
    text.match_indices(line).any(|(at, _)| !text[at + line.len()..].starts_with(|next: char| next.is_ascii_digit()))
}

/// The table.
pub(super) fn markdown(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return String::new();
    }
    let of = |races| {
        let names = findings.iter().filter(|f| f.tool.is_none() && f.races == races);
        names.count()
    };
    let mut text = format!(
        "\n## What each tool finds\n\n\
         Programs of `guests/races`: of each the first case with a race and the first without one in its table \
         `expected.toml`, but for those that can be argued about; {} with a race, {} without. The tests of relive run on \
         the same programs, so relive was made to pass them, the others were not. Runs of each: {}. A race is found \
         if a report names a line whose access races. The other tools run the program \
         itself and judge the order that happens then; relive replays a recording that it made before.\n\n\
         | tool | races found | missed | reported where there is none | failed |\n|---|---|---|---|---|\n",
        of(true),
        of(false),
        findings.iter().map(|f| f.runs.len()).max().unwrap_or_default(),
    );
    let tools = std::iter::once(None).chain(Peer::ALL.map(Some));
    for tool in tools.filter(|tool| findings.iter().any(|f| f.tool == *tool)) {
        let _ = writeln!(text, "{}", finding_row(findings, tool));
    }
    text + &failures(findings)
}

/// Why runs failed, each reason once.
fn failures(findings: &[Finding]) -> String {
    let mut reasons = BTreeSet::new();
    for finding in findings {
        for run in &finding.runs {
            if let Verdict::Failed(why) = run {
                reasons.insert(format!("- {}, {}: {}\n", tool_name(finding.tool), finding.case, flat(why)));
            }
        }
    }
    if reasons.is_empty() { String::new() } else { format!("\nFailed:\n\n{}", String::from_iter(reasons)) }
}

fn tool_name(tool: Tool) -> &'static str {
    tool.map_or("**relive**", Peer::name)
}

fn finding_row(findings: &[Finding], tool: Tool) -> String {
    let (racing, silent): (Vec<&Finding>, Vec<&Finding>) =
        findings.iter().filter(|f| f.tool == tool).partition(|f| f.races);
    let reported = |f: &Finding| f.count(|v| *v == Verdict::Reported);
    let failed = |f: &Finding| f.count(|v| matches!(v, Verdict::Failed(_)));
    let missed = |f: &Finding| f.runs.len() - reported(f) - failed(f);
    let found = racing.iter().filter(|f| reported(f) == f.runs.len()).count();
    let wrong = silent.iter().filter(|f| reported(f) > 0).count();
    let of_all: Vec<&Finding> = racing.iter().chain(&silent).copied().collect();
    format!(
        "| {} | {found} of {} | {} | {wrong} of {}{} | {} |",
        tool_name(tool),
        racing.len(),
        named(&racing, missed),
        silent.len(),
        Some(named(&silent, reported)).filter(|names| names != "–").map_or(String::new(), |names| format!(": {names}")),
        named(&of_all, failed),
    )
}

/// The cases of which some runs count, with how many if not all.
fn named(findings: &[&Finding], count: impl Fn(&Finding) -> usize) -> String {
    let name = |f: &&Finding| {
        let (some, all) = (count(f), f.runs.len());
        match some {
            0 => None,
            _ if some == all => Some(f.case.clone()),
            _ => Some(format!("{} ({some} of {all})", f.case)),
        }
    };
    let names: Vec<String> = findings.iter().filter_map(name).collect();
    if names.is_empty() { "–".to_owned() } else { names.join("; ") }
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
