//! The kernels: native, recorded, replayed, in turn.
//!
//! One round is native, record, first replay, later replay, or the same with the
//! native run last: what drifts on the machine hits both sides of each ratio.

use super::Place;
use super::measure::{self, Sample};
use super::options::Options;
use super::report::without_folders;
use std::path::Path;
use std::process::Command;

/// Every kernel: `workloads/NAME.c`.
pub(super) const NAMES: &[&str] =
    &["cholesky", "fft", "lu", "radix", "ocean", "raytrace", "water_nsq", "water_spatial", "mlem"];

/// Failures of one kernel after which it is given up.
const FAILURES_MAX: usize = 3;

/// How a kernel is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// As it is.
    Native,
    /// `relive record`.
    Record,
    /// The first `relive replay` of a trace, which learns the order of each object.
    Learn,
    /// A later `relive replay`, by the learnt order.
    Derived,
}

impl Mode {
    const ALL: [Self; 4] = [Self::Native, Self::Record, Self::Learn, Self::Derived];
    /// The order of every second round.
    const NATIVE_LAST: [Self; 4] = [Self::Record, Self::Learn, Self::Derived, Self::Native];
}

/// The samples of one round, by [`Mode`]; after a failure the rest of the round may be missing.
type Round = [Option<Sample>; 4];

/// What was measured of one kernel with one number of threads.
#[derive(Debug, serde::Serialize)]
pub(super) struct Kernel {
    /// Its name.
    pub(super) name: &'static str,
    /// Its threads.
    pub(super) threads: usize,
    /// The rounds.
    rounds: Vec<Round>,
    /// Ordered operations of the last recording.
    pub(super) operations: Option<u64>,
    /// Bytes of its threads' streams.
    pub(super) bytes: Option<u64>,
    /// Bytes of the trace folder: also headers, manifest and what was learnt.
    pub(super) disk_bytes: Option<u64>,
    /// Why not all samples are there.
    pub(super) failures: Vec<String>,
}

impl Kernel {
    /// Wall times of `mode`.
    pub(super) fn walls(&self, mode: Mode) -> Vec<f64> {
        self.rounds.iter().filter_map(|round| Some(round[mode as usize]?.wall)).collect()
    }

    /// Wall times of `mode`, each over the native run of the same round.
    pub(super) fn wall_ratios(&self, mode: Mode) -> Vec<f64> {
        self.ratios(mode, |s| s.wall)
    }

    /// Processor times of `mode`, likewise.
    pub(super) fn cpu_ratios(&self, mode: Mode) -> Vec<f64> {
        self.ratios(mode, |s| s.cpu)
    }

    fn ratios(&self, mode: Mode, time: fn(Sample) -> f64) -> Vec<f64> {
        let pair = |round: &Round| Some(time(round[mode as usize]?) / time(round[Mode::Native as usize]?));
        self.rounds.iter().filter_map(pair).collect()
    }

    /// Runs one round in this `order`. Without a recording there is no replay, without a first replay no later one.
    fn round(&mut self, place: &Place, program: &Path, args: &[String], order: [Mode; 4]) {
        let mut round = Round::default();
        let mut recorded = String::new();
        for mode in order {
            let mut command = match mode {
                Mode::Native => Command::new(program),
                Mode::Record => place.record(program, args),
                Mode::Learn if round[Mode::Record as usize].is_none() => continue,
                Mode::Derived if round[Mode::Learn as usize].is_none() => continue,
                Mode::Learn | Mode::Derived => place.replay(),
            };
            if mode == Mode::Native {
                command.args(args);
            }
            match measure::run(&mut command).and_then(|(printed, sample)| checked(mode, printed, &mut recorded, sample))
            {
                Ok(sample) => round[mode as usize] = Some(sample),
                Err(why) => self.fail(&why),
            }
        }
        if round[Mode::Record as usize].is_some() {
            match size(place) {
                Ok([operations, bytes, disk]) => {
                    (self.operations, self.bytes, self.disk_bytes) = (Some(operations), Some(bytes), Some(disk));
                }
                Err(why) => self.fail(&why),
            }
        }
        self.rounds.push(round);
    }

    fn fail(&mut self, why: &str) {
        eprintln!("  {why}");
        self.failures.push(without_folders(why));
    }
}

/// A replay must print what the recording printed.
fn checked(mode: Mode, printed: String, recorded: &mut String, sample: Sample) -> Result<Sample, String> {
    match mode {
        Mode::Native => {}
        Mode::Record => *recorded = printed,
        Mode::Learn | Mode::Derived if printed == *recorded => {}
        Mode::Learn | Mode::Derived => {
            let (is, was) = (printed.trim_end(), recorded.trim_end());
            return Err(format!("wrong replay ({mode:?}): printed `{is}`, recorded `{was}`"));
        }
    }
    Ok(sample)
}

/// Runs the kernel `options.runs` times in each mode.
pub(super) fn measure(place: &Place, options: &Options, name: &'static str, threads: usize) -> Kernel {
    let mut kernel = Kernel {
        name,
        threads,
        rounds: Vec::new(),
        operations: None,
        bytes: None,
        disk_bytes: None,
        failures: Vec::new(),
    };
    let program = place.programs.join(name);
    let mut args = vec!["-t".to_owned(), threads.to_string()];
    if options.small {
        args.push("-s".to_owned());
    }
    for number in 1..=options.runs {
        eprintln!("{name}, {threads} threads: round {number} of {}", options.runs);
        kernel.round(place, &program, &args, if number % 2 == 1 { Mode::ALL } else { Mode::NATIVE_LAST });
        place.forget_trace();
        // What fails this often here only costs time.
        if kernel.failures.len() >= FAILURES_MAX {
            break;
        }
    }
    kernel
}

/// Operations, bytes and bytes on disk of the trace, as `relive stats` counts them.
fn size(place: &Place) -> Result<[u64; 3], String> {
    let mut command = place.relive(&["stats", "--json"]);
    let (printed, _) = measure::run(command.arg(place.trace()))?;
    let stats: serde_json::Value = serde_json::from_str(&printed).map_err(|e| format!("relive stats --json: {e}"))?;
    let field = |name: &str| stats[name].as_u64().ok_or_else(|| format!("relive stats --json: no number `{name}`"));
    Ok([field("operations")?, field("bytes")?, field("disk_bytes")?])
}
