//! `relive ls`: the traces of the trace folder.

use crate::output::{self, Align};
use anyhow::Result;
use clap::Args;
use relive_session::signals;
use relive_session::store::{Entry, Store};
use relive_trace::manifest::{Manifest, Outcome, State, Text};
use serde::Serialize;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `relive ls`
#[derive(Debug, Args)]
#[command(after_help = "Traces are in $RELIVE_TRACE_DIR, else in relive in the user's data folder. The oldest comes \
first; a star marks the one that other commands take if none is named.")]
pub(crate) struct LsArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Listing {
    folder: String,
    traces: Vec<Trace>,
}

#[derive(Serialize)]
struct Trace {
    name: String,
    path: String,
    latest: bool,
    bytes: u64,
    started_ms: Option<u64>,
    ended_ms: Option<u64>,
    /// `exited N`, `killed N`, `unfinished` or `unreadable`.
    status: String,
    command: Option<String>,
    problem: Option<String>,
    #[serde(skip)]
    changed: SystemTime,
}

/// Lists.
pub(crate) fn run(options: &LsArgs) -> Result<u8> {
    let store = Store::from_environment()?;
    let traces: Vec<_> = store.list()?.into_iter().map(describe).collect();
    if options.json {
        let folder = store.root().to_string_lossy().into_owned();
        output::json(&Listing { folder, traces })?;
        return Ok(0);
    }
    let rows: Vec<_> = traces.iter().map(row).collect();
    let head = [
        ("", Align::Left),
        ("NAME", Align::Left),
        ("STARTED (UTC)", Align::Left),
        ("STATUS", Align::Left),
        ("SIZE", Align::Right),
        ("COMMAND", Align::Left),
    ];
    if rows.is_empty() {
        crate::message::say(format_args!("no traces in {}; `relive record` makes one", store.root().display()));
        return Ok(0);
    }
    output::print(|out| output::columns(out, head, &rows))?;
    Ok(0)
}

fn describe(entry: Entry) -> Trace {
    let mut trace = Trace {
        name: entry.name,
        path: entry.path.to_string_lossy().into_owned(),
        latest: entry.is_latest,
        bytes: entry.bytes,
        started_ms: None,
        ended_ms: None,
        status: "unreadable".to_owned(),
        command: None,
        problem: None,
        changed: entry.changed,
    };
    match Manifest::read(&entry.path) {
        Ok(manifest) => {
            trace.started_ms = Some(manifest.started_ms);
            trace.ended_ms = manifest.ended_ms;
            trace.status = status(&manifest);
            trace.command = Some(output::command(manifest.command.iter().map(Text::as_os_str)));
        }
        Err(error) => trace.problem = Some(error.to_string()),
    }
    trace
}

/// How the recording ended, in a few words.
pub(crate) fn status(manifest: &Manifest) -> String {
    ended(manifest.state, manifest.outcome)
}

fn ended(state: State, outcome: Option<Outcome>) -> String {
    match (state, outcome) {
        (State::Unfinished, _) => "unfinished".to_owned(),
        (State::Complete, Some(Outcome::Exited(code))) => format!("exited {code}"),
        (State::Complete, Some(Outcome::Killed(signal))) => format!("killed by {}", signals::name(signal.into())),
        (State::Complete, None) => "ended".to_owned(),
    }
}

fn row(trace: &Trace) -> [String; 6] {
    let started = trace.started_ms.map_or(trace.changed, |ms| UNIX_EPOCH + Duration::from_millis(ms));
    let started = humantime::format_rfc3339_seconds(started).to_string().replace('T', " ").replace('Z', "");
    [
        if trace.latest { "*" } else { "" }.to_owned(),
        trace.name.clone(),
        started,
        trace.status.clone(),
        output::bytes(trace.bytes),
        trace.command.clone().or_else(|| trace.problem.clone()).unwrap_or_default(),
    ]
}

#[cfg(test)]
mod tests {
    use super::ended;
    use relive_trace::manifest::{Outcome, State};

    #[test]
    fn an_end_is_told_by_the_names_that_users_know() {
        let cases = [
            ((State::Complete, Some(Outcome::Exited(7))), "exited 7"),
            ((State::Complete, Some(Outcome::Killed(6))), "killed by SIGABRT"),
            ((State::Complete, None), "ended"),
            ((State::Unfinished, None), "unfinished"),
        ];
        for ((state, outcome), text) in cases {
            assert_eq!(ended(state, outcome), text);
        }
    }
}
