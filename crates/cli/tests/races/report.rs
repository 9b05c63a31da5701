//! What `relive races --format json` prints, as far as it is promised.
//!
//! Apart because it holds the shape against the promise, whatever the program: what is
//! absent or of another kind is an error with its place in the text.
#![allow(dead_code, reason = "each test binary uses the part it needs")]

use serde::Deserialize;
use serde_json::Value;

/// The object that is printed.
#[derive(Debug, Deserialize)]
pub(crate) struct Report {
    pub(crate) races: Vec<Race>,
    /// What could not be observed. Present even where nothing is missing.
    pub(crate) unobserved: Vec<Unobserved>,
    /// Where the replay left the recording.
    #[serde(default)]
    diverged: Value,
    /// Whether the whole recording was searched.
    #[serde(default = "yes")]
    pub(crate) complete: bool,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Unobserved {
    pub(crate) what: String,
    pub(crate) count: u64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Race {
    #[serde(rename = "id")]
    _id: Value,
    pub(crate) certainty: Certainty,
    pub(crate) kind: RaceKind,
    #[serde(rename = "address")]
    _address: Value,
    pub(crate) size: u64,
    #[serde(rename = "object")]
    _object: Value,
    pub(crate) count: u64,
    pub(crate) accesses: [Access; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Certainty {
    Certain,
    /// After the first race.
    AfterFirst,
    PossibleAtomic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RaceKind {
    DataRace,
    RaceWithFree,
    UseAfterFree,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Access {
    pub(crate) thread: String,
    pub(crate) kind: AccessKind,
    pub(crate) size: u64,
    #[serde(rename = "value")]
    _value: Value,
    #[serde(rename = "event")]
    _event: u64,
    pub(crate) stack: Vec<Frame>,
    #[serde(rename = "locks")]
    _locks: Vec<Value>,
    #[serde(rename = "created_at")]
    _created_at: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AccessKind {
    Read,
    Write,
    AtomicRead,
    AtomicWrite,
    Free,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Frame {
    pub(crate) function: Option<String>,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
    #[serde(rename = "module")]
    _module: Option<String>,
    #[serde(rename = "offset")]
    _offset: Value,
}

const fn yes() -> bool {
    true
}

/// What it says of bytes that only the first replay finds.
const REFUTED: &str = "nobody raced in the second";

impl Report {
    /// Both replays judge by the same order, where no atomics are in the way: else the report says nothing of this.
    pub(crate) fn agrees_with_itself(&self) -> Result<(), String> {
        let refuted = self.unobserved.iter().find(|one| one.what.contains(REFUTED));
        refuted.map_or(Ok(()), |one| Err(format!("the second replay refutes the first one's {} bytes", one.count)))
    }

    /// Reads it; one that is not about the whole recording is an error, unless it `may_be_partial`.
    pub(crate) fn parse(text: &[u8], may_be_partial: bool) -> Result<Report, String> {
        let report: Report = serde_json::from_slice(text).map_err(|error| format!("the report: {error}"))?;
        let diverged = !report.diverged.is_null();
        if diverged && report.complete {
            return Err("it diverged, and calls itself complete".to_owned());
        }
        if diverged && !may_be_partial {
            return Err(format!("the replay diverged: {}", report.diverged));
        }
        if !report.complete && !may_be_partial {
            return Err("it is not complete".to_owned());
        }
        for (index, race) in report.races.iter().enumerate() {
            let fault = if race.count == 0 {
                "it was met no time"
            } else if race.size == 0 || race.accesses.iter().any(|access| access.size == 0) {
                "it has no bytes"
            } else if race.accesses[0].thread == race.accesses[1].thread {
                "both sides are the same thread"
            } else if race.accesses.iter().any(|access| access.stack.is_empty()) {
                "a side has no stack"
            } else {
                continue;
            };
            return Err(format!("race {index} of the report: {fault}"));
        }
        Ok(report)
    }
}
