//! What recording the environment costs: `cargo xtask bench --environment`.
//!
//! Apart from the kernels because these programs do little but ask the system:
//! copying, searching, compiling, compressing, and one cheap operation in a loop.

mod server;

use super::measure::{Sample, field, run};
use super::statistics::{Estimate, estimate, ratios};
use super::{Options, Place};
use serde::Serialize;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Bytes that are copied.
const COPIED: u64 = 1 << 30;
const COPIED_SMALL: u64 = 16 << 20;
/// Bytes that are compressed.
const COMPRESSED: u64 = 48 << 20;

/// One program in its three modes.
#[derive(Debug, Serialize)]
pub(super) struct Measured {
    name: &'static str,
    /// Median of native wall time in seconds, or nanoseconds a call.
    native: f64,
    /// Whether it is of a call.
    of_call: bool,
    /// Recorded over native.
    record: Option<Estimate>,
    /// Replayed over native.
    replay: Option<Estimate>,
    /// Bytes of the trace.
    trace_bytes: u64,
    /// Why a round does not count, of the last that does not.
    failure: Option<String>,
    /// How many do not.
    failed: usize,
}

struct Case {
    name: &'static str,
    command: Vec<String>,
    /// The printed field that counts, instead of the wall time.
    field: Option<&'static str>,
}

fn cases(place: &Place, small: bool) -> Vec<Case> {
    let scratch = place.scratch.display();
    let source = crate::run::root().join("workloads/lu.c");
    let calls = place.programs.join("calls");
    let text = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    let calls = calls.display().to_string();
    let many = |name, operation, count: u32| Case {
        name,
        command: text(&[&calls, "-w", operation, "-n", &(if small { count / 10 } else { count }).to_string()]),
        field: Some("ns"),
    };
    let mut cases = vec![
        many("getppid", "getppid", 1_000_000),
        many("lock and unlock", "lock", 20_000_000),
        many("malloc and free", "malloc", 20_000_000),
        // A replay does not sleep, however often the program did.
        Case {
            name: "sleeps",
            command: text(&[&calls, "-w", "sleep", "-n", if small { "500" } else { "5000" }]),
            field: None,
        },
        Case {
            name: "cp",
            command: text(&["cp", &format!("{scratch}/large"), &format!("{scratch}/copy")]),
            field: None,
        },
        Case { name: "find /usr", command: text(&["find", "/usr", "-name", "nothing"]), field: None },
        Case {
            name: "gcc",
            command: text(&["gcc", "-O2", "-c", &source.display().to_string(), "-o", &format!("{scratch}/o")]),
            field: None,
        },
        Case { name: "pigz", command: text(&["pigz", "-k", "-f", "-p2", &format!("{scratch}/text")]), field: None },
    ];
    cases.extend(server::cases(place));
    cases
}

/// Measures all of them, each mode in each round.
pub(super) fn measure(place: &Place, options: &Options) -> Result<Vec<Measured>, Box<dyn std::error::Error>> {
    let copied = if options.small { COPIED_SMALL } else { COPIED };
    let block: Vec<u8> = (0..1 << 20).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    for (name, bytes) in [("large", copied), ("text", COMPRESSED.min(copied))] {
        let repeated = usize::try_from(bytes / block.len() as u64)?;
        fs::write(place.scratch.join(name), block.repeat(repeated))?;
    }
    Ok(cases(place, options.small).iter().map(|case| one(place, case, options)).collect())
}

fn one(place: &Place, case: &Case, options: &Options) -> Measured {
    eprintln!("{}", case.name);
    let (mut walls, mut trace_bytes, mut failure, mut failed) = ([const { Vec::new() }; 3], 0, None, 0);
    for _ in 0..options.runs {
        let round = if server::is(case) { server::round(place, case, options.small) } else { round(place, case) };
        match round {
            Ok((times, bytes)) => {
                for (wall, time) in walls.iter_mut().zip(times) {
                    wall.push(time);
                }
                trace_bytes = bytes;
            }
            Err(what) => {
                (failure, failed) = (Some(super::report::without_folders(&what)), failed + 1);
            }
        }
        place.forget_trace();
    }
    let [native, recorded, replayed] = walls;
    Measured {
        name: case.name,
        native: super::statistics::median(&native),
        of_call: case.field.is_some(),
        record: estimate(&ratios(&recorded, &native)),
        replay: estimate(&ratios(&replayed, &native)),
        trace_bytes,
        failure,
        failed,
    }
}

fn round(place: &Place, case: &Case) -> Result<([f64; 3], u64), String> {
    let value = |(printed, sample): (String, Sample)| match case.field {
        Some(name) => field(printed.lines().find(|line| line.contains(name)).unwrap_or_default(), name),
        None => Ok(sample.wall),
    };
    let native = value(run(Command::new(&case.command[0]).args(&case.command[1..]))?)?;
    let mut record = place.relive(&["record", "--environment", "-q", "-o"]);
    let recorded = value(run(record.arg(place.trace()).arg("--").args(&case.command))?)?;
    let bytes = folder_bytes(&place.trace());
    // A clock that the program reads is the recorded one: of a replay only the whole counts.
    let (_, replayed) = run(&mut place.replay())?;
    let whole = if case.field.is_some() { f64::NAN } else { replayed.wall };
    Ok(([native, recorded, whole], bytes))
}

fn folder_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// The table.
pub(super) fn markdown(measured: &[Measured], machine: &str) -> String {
    let mut text = format!(
        "# What recording the environment costs\n\n{machine}\n\nMedians of paired ratios with their intervals.\n\n\
         | program | native | recorded | replayed | trace |\n|---|---|---|---|---|\n"
    );
    let show = |estimate: &Option<Estimate>| match estimate {
        Some(e) if e.median.is_finite() => format!("{:.2} [{:.2}, {:.2}]", e.median, e.low, e.high),
        _ => "–".to_owned(),
    };
    for row in measured {
        let native = if row.of_call { format!("{:.1} ns", row.native) } else { format!("{:.3} s", row.native) };
        let trace = row.trace_bytes as f64 / f64::from(1 << 20);
        let (record, replay) = (show(&row.record), show(&row.replay));
        let _ = writeln!(text, "| {} | {native} | {record} | {replay} | {trace:.1} MiB |", row.name);
    }
    for row in measured {
        if let Some(failure) = &row.failure {
            let _ = writeln!(text, "\n{}, {} rounds that do not count: {failure}", row.name, row.failed);
        }
    }
    text
}
