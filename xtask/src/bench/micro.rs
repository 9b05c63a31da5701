//! What is too small to see in a kernel: one lock, one start, one thread.

use super::measure::{self, field};
use super::options::Options;
use super::statistics::{self, Estimate};
use super::{Place, report};
use std::path::Path;
use std::process::Command;

/// Mutexes and threads of the lock-heavy cases.
const MUTEXES: [usize; 3] = [1, 16, 1024];
const THREADS: [usize; 3] = [1, 2, 4];
/// Operations of all threads together, about a quarter of a second.
const OPERATIONS: usize = 12_000_000;
/// Runs, at least: they are short.
const LOCK_RUNS: usize = 10;
const START_RUNS: usize = 40;
const MEMORY_RUNS: usize = 3;
/// Threads alive at once in the memory measurement.
const IDLE_THREADS: usize = 500;

/// One case of `lockmicro`.
#[derive(Debug, serde::Serialize)]
pub(super) struct Lock {
    /// What it is.
    pub(super) case: String,
    /// Nanoseconds of a lock and unlock, native.
    pub(super) native: Option<Estimate>,
    /// Recorded minus native, in the same round.
    pub(super) added: Option<Estimate>,
    /// Recorded over native, in the same round.
    pub(super) ratio: Option<Estimate>,
    /// Why there is none.
    pub(super) failure: Option<String>,
}

/// A figure native and recorded, and the difference of the two.
#[derive(Debug, serde::Serialize)]
pub(super) struct Overhead {
    /// Native.
    pub(super) native: Option<Estimate>,
    /// Recorded minus native.
    pub(super) added: Option<Estimate>,
    /// Why there is none.
    pub(super) failure: Option<String>,
}

impl Overhead {
    fn of(pairs: Result<Vec<(f64, f64)>, String>) -> Self {
        match pairs {
            Err(failure) => Self { native: None, added: None, failure: Some(report::without_folders(&failure)) },
            Ok(pairs) => Self {
                native: statistics::estimate(&pairs.iter().map(|p| p.0).collect::<Vec<_>>()),
                added: statistics::estimate(&pairs.iter().map(|p| p.1 - p.0).collect::<Vec<_>>()),
                failure: None,
            },
        }
    }
}

/// Every case of `lockmicro`.
pub(super) fn locks(place: &Place, options: &Options) -> Vec<Lock> {
    let scale = if options.quick || options.small { 4 } else { 1 };
    let mut cases = vec![
        ("uncontended".to_owned(), lock_args(1, 1, OPERATIONS / scale)),
        ("uncontended, the process's only thread".to_owned(), lock_args(1, 1, OPERATIONS / scale)),
    ];
    cases[1].1.push("-a".to_owned());
    for mutexes in MUTEXES {
        for threads in THREADS {
            let name =
                format!("{mutexes} {}, {threads} {}", s(mutexes, "mutex", "mutexes"), s(threads, "thread", "threads"));
            cases.push((name, lock_args(mutexes, threads, OPERATIONS / scale)));
        }
    }
    cases.into_iter().map(|(case, args)| lock(place, options, case, &args)).collect()
}

fn s(count: usize, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

fn lock_args(mutexes: usize, threads: usize, operations: usize) -> Vec<String> {
    let numbers = [("-m", mutexes), ("-t", threads), ("-n", operations / threads)];
    numbers.iter().flat_map(|(flag, n)| [(*flag).to_owned(), n.to_string()]).collect()
}

fn lock(place: &Place, options: &Options, case: String, args: &[String]) -> Lock {
    eprintln!("lockmicro: {case}");
    let program = place.programs.join("lockmicro");
    let runs = options.runs.max(if options.quick { 0 } else { LOCK_RUNS });
    match pairs(place, runs, &program, args, |printed, _| field(printed, "ns_per_op")) {
        Err(failure) => Lock {
            case,
            native: None,
            added: None,
            ratio: None,
            failure: Some(report::flat(&report::without_folders(&failure))),
        },
        Ok(pairs) => {
            let (native, recorded): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            let added: Vec<f64> = recorded.iter().zip(&native).map(|(r, n)| r - n).collect();
            Lock {
                case,
                native: statistics::estimate(&native),
                added: statistics::estimate(&added),
                ratio: statistics::estimate(&statistics::ratios(&recorded, &native)),
                failure: None,
            }
        }
    }
}

/// Milliseconds of `true`.
pub(super) fn start(place: &Place, options: &Options) -> Overhead {
    eprintln!("start of a program");
    let runs = if options.quick { START_RUNS / 4 } else { START_RUNS };
    Overhead::of(pairs(place, runs, Path::new("/bin/true"), &[], |_, sample| Ok(1e3 * sample.wall)))
}

/// KiB of resident memory of a program with many idle threads.
pub(super) fn memory(place: &Place, _options: &Options) -> Overhead {
    eprintln!("memory of {IDLE_THREADS} idle threads");
    let args = ["-t".to_owned(), IDLE_THREADS.to_string()];
    let program = place.programs.join("idle");
    Overhead::of(pairs(place, MEMORY_RUNS, &program, &args, |printed, _| field(printed, "vmhwm_kib")))
}

/// The threads of [`memory`].
pub(super) fn idle_threads() -> f64 {
    IDLE_THREADS as f64
}

/// A figure of `program` native and recorded, in turn.
fn pairs(
    place: &Place,
    runs: usize,
    program: &Path,
    args: &[String],
    figure: impl Fn(&str, measure::Sample) -> Result<f64, String>,
) -> Result<Vec<(f64, f64)>, String> {
    let mut pairs = Vec::new();
    for number in 0..runs {
        let native = || measure::run(Command::new(program).args(args)).and_then(|(p, s)| figure(&p, s));
        let recorded = || {
            let outcome = measure::run(&mut place.record(program, args)).and_then(|(p, s)| figure(&p, s));
            place.forget_trace();
            outcome
        };
        pairs.push(if number % 2 == 0 {
            let first = native()?;
            (first, recorded()?)
        } else {
            let first = recorded()?;
            (native()?, first)
        });
    }
    Ok(pairs)
}
