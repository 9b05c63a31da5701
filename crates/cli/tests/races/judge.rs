//! One program recorded and searched for races, and what was found held against the
//! table.
//!
//! Apart because this is the judgement, free of how the table is written.

use crate::report::{Access, AccessKind, Certainty, Frame, Race, RaceKind, Report};
use crate::stage::{Recording, Stage, relive, run};
use crate::table::{self, Case, Class, Kind, Pair, Place};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Exit statuses of `relive races`.
const CLEAN: i32 = 0;
const RACES: i32 = 66;

/// Records the program with these arguments and looks for races.
pub(crate) fn check(case: &Case, arguments: &str) -> Result<(), String> {
    let program = case.program()?;
    let stage = Stage { environment: true, ..Stage::default() };
    let words: Vec<&str> = arguments.split(' ').collect();
    let recording = program.record(&words, &stage);
    if recording.ended.status != Some(case.status) {
        return Err(format!("the recorded run: {}\n{}", recording.ended.status_text(), recording.ended.complaints()));
    }
    judge(case, &recording, &stage).map_err(|cause| {
        let kept = std::env::var_os("RELIVE_TEST_KEEP").map(|_| recording.keep());
        let kept = kept.map_or(String::new(), |trace| format!("\ntrace kept in {}", trace.display()));
        format!("{cause}{kept}")
    })
}

fn judge(case: &Case, recording: &Recording, stage: &Stage) -> Result<(), String> {
    let mut command = relive();
    command.args(["races", "--format", "json"]).arg(recording.trace());
    let ended = run::run(command, &run::Limits { timeout: stage.timeout, stop: None });
    if ended.status != Some(CLEAN) && ended.status != Some(RACES) {
        return Err(format!("relive races: {}\n{}", ended.status_text(), ended.complaints()));
    }
    let may_be_partial = case.may_diverge || case.partial;
    let report = Report::parse(&ended.stdout, may_be_partial).map_err(|cause| format!("{cause}\n{}", ended.text()))?;
    compare(case, &report)?;
    if case.partial && report.complete {
        return Err("the report calls itself complete".to_owned());
    }
    if let Some(words) = &case.unobserved
        && !report.unobserved.iter().any(|one| one.count > 0 && one.what.contains(words))
    {
        return Err(format!("not told as unobserved: {words}; what is: {:?}", report.unobserved));
    }
    report.agrees_with_itself()?;
    let sure = report.races.iter().any(|race| race.certainty != Certainty::PossibleAtomic);
    match ended.status {
        Some(CLEAN) if sure => Err("races were found, and the exit status says that none were".to_owned()),
        Some(RACES) if report.races.is_empty() => Err("none was found, and the exit status says otherwise".to_owned()),
        _ => Ok(()),
    }
}

/// Each race that was found is an expected one, and each expected one was found.
fn compare(case: &Case, report: &Report) -> Result<(), String> {
    let places = case.places();
    let mut met = vec![false; case.pairs.len()];
    let mut faults = String::new();
    for race in &report.races {
        let matches = |pair: &Pair| is_the_pair(pair, race, &places);
        let fault = if let Some(index) = case.pairs.iter().position(matches) {
            met[index] = true;
            wrong_class(case.class(&case.pairs[index]), race.certainty)
        } else if case.possible.iter().any(matches) {
            (race.certainty == Certainty::Certain).then_some("a right use of atomics is no certain race")
        } else {
            Some("not expected")
        };
        if let Some(fault) = fault.or_else(|| wrong_kind(race)) {
            let _ = writeln!(faults, "{fault}: {}", describe(race));
        }
    }
    for (pair, _) in case.pairs.iter().zip(&met).filter(|(_, met)| !**met) {
        let _ = writeln!(faults, "not found: {pair}");
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

fn wrong_class(expected: Class, certainty: Certainty) -> Option<&'static str> {
    let right = match expected {
        Class::Certain => certainty == Certainty::Certain,
        Class::After => certainty == Certainty::AfterFirst,
        Class::Real => certainty != Certainty::PossibleAtomic,
        Class::Unsure => true,
    };
    (!right).then_some("of another class than expected")
}

/// A race is about freed memory exactly where one side is the free.
fn wrong_kind(race: &Race) -> Option<&'static str> {
    let freed = race.accesses.iter().any(|access| access.kind == AccessKind::Free);
    ((race.kind != RaceKind::DataRace) != freed).then_some("of the wrong kind")
}

/// In either order.
fn is_the_pair(pair: &Pair, race: &Race, places: &BTreeMap<String, Place>) -> bool {
    let [one, other] = pair.sides();
    let [first, second] = &race.accesses;
    let is = |expected: &table::Access, found: &Access| {
        is_of_kind(expected.kind, found.kind) && place(found).as_ref() == places.get(&expected.tag)
    };
    (is(one, first) && is(other, second)) || (is(one, second) && is(other, first))
}

const fn is_of_kind(expected: Kind, found: AccessKind) -> bool {
    match expected {
        Kind::Read => matches!(found, AccessKind::Read | AccessKind::AtomicRead),
        Kind::Write => matches!(found, AccessKind::Write | AccessKind::AtomicWrite),
        Kind::Free => matches!(found, AccessKind::Free),
        Kind::Any => true,
    }
}

/// The innermost line in the sources of these programs, as opposed to their headers and libraries.
fn place(access: &Access) -> Option<Place> {
    let own = |frame: &Frame| {
        let (folder, file) = frame.file.as_deref()?.rsplit_once('/')?;
        let is_ours = folder.ends_with("races") && file.rsplit('.').next() != Some("h");
        is_ours.then_some(Place { file: file.to_owned(), line: frame.line? })
    };
    access.stack.iter().find_map(own)
}

fn describe(race: &Race) -> String {
    let side = |access: &Access| {
        let frames: Vec<String> = access.stack.iter().map(in_words).collect();
        format!("\n  {:?} by thread {}: {}", access.kind, access.thread, frames.join(" < "))
    };
    format!("{:?}, {:?}{}{}", race.kind, race.certainty, side(&race.accesses[0]), side(&race.accesses[1]))
}

fn in_words(frame: &Frame) -> String {
    let function = frame.function.as_deref().unwrap_or("?");
    match (&frame.file, frame.line) {
        (Some(file), Some(line)) => format!("{function} {file}:{line}"),
        _ => function.to_owned(),
    }
}

/// Reports that are made up, one right and the others each wrong in their own way.
pub(crate) fn notices_what_is_wrong(case: &Case) -> Result<(), String> {
    let places = case.places();
    let race = |certainty: &str, kind: &str, sides: [(&str, &str); 2]| {
        let access = |thread: usize, (kind, tag): (&str, &str)| {
            let frame = |function: &str, file: &str, line: u32| json!({"function": function, "file": file, "line": line, "module": "m", "offset": "0x1"});
            let stack =
                [frame("inlined", "/usr/include/x.h", 1), frame("f", "/x/races/neighbours.c", places[tag].line)];
            json!({"thread": format!("0.{thread}"), "kind": kind, "size": 1, "value": null, "event": 1, "stack": stack,
                "locks": [], "created_at": []})
        };
        json!({"id": 1, "certainty": certainty, "kind": kind, "address": "0x1", "size": 1, "object": null, "count": 1,
            "accesses": [access(0, sides[0]), access(1, sides[1])]})
    };
    let (byte, read) = (("write", "byte_3"), ("read", "read_of_byte_3"));
    let right = race("certain", "data-race", [read, byte]);
    let wrong = [
        vec![],
        vec![race("after-first", "data-race", [byte, read])],
        vec![race("possible-atomic", "data-race", [byte, read])],
        vec![race("certain", "use-after-free", [byte, read])],
        vec![race("certain", "data-race", [("read", "byte_3"), read])],
        vec![race("certain", "data-race", [byte, ("read", "byte_4")])],
        vec![right.clone(), race("certain", "data-race", [byte, byte])],
    ];
    let verdict = |races: &[Value]| {
        let text = json!({"races": races, "unobserved": []}).to_string();
        compare(case, &Report::parse(text.as_bytes(), false).expect("of the right shape"))
    };
    verdict(std::slice::from_ref(&right))?;
    match wrong.iter().position(|races| verdict(races).is_ok()) {
        Some(index) => Err(format!("wrong report {index} was taken for right")),
        None => Ok(()),
    }
}
