//! Processor time and memory of each tool on each kernel, in turn.
//!
//! Apart from `kernels.rs`, which compares wall times of recordings and replays: the
//! tools here differ by two orders of magnitude, so some run on smaller sizes, and
//! what counts is processor time.

use super::tools::{Build, Peer, RACES};
use crate::bench::alone::{self, Ended};
use crate::bench::{Options, Place};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A run that takes longer is ended, and counts as more than what it took by then.
pub(super) const LIMIT: Duration = Duration::from_secs(240);
/// Rounds in which Valgrind's tools run: they take most of the time, and are far off.
pub(super) const VALGRIND_ROUNDS: usize = 3;

/// A program and its two sizes.
#[derive(Debug)]
pub(super) struct Program {
    /// Its name: `workloads/NAME.c`.
    pub(super) name: &'static str,
    /// Arguments with which it takes a third to a whole second of processor time.
    normal: &'static str,
    /// A twentieth to a tenth of a second: for what is slow.
    small: &'static str,
    /// The most that the processor time of `relive races` may be, in native ones.
    pub(super) bar: Option<f64>,
}

const fn program(name: &'static str, normal: &'static str, small: &'static str, bar: Option<f64>) -> Program {
    Program { name, normal, small, bar }
}

/// Every kernel.
pub(super) const PROGRAMS: &[Program] = &[
    program("lu", "-n 1280 -r 2", "-n 768 -r 3", Some(4.0)),
    program("radix", "-n 4194304 -r 12", "-n 1048576 -r 4", Some(6.0)),
    program("hash", "-r 12", "-r 1", Some(10.0)),
    program("cholesky", "-n 1600 -r 2", "-n 800 -r 4", None),
    program("fft", "-n 18 -r 20", "-n 16 -r 40", None),
    program("ocean", "-n 256 -r 4", "-n 128 -r 5", None),
    program("raytrace", "-n 512 -r 7", "-n 256 -r 6", None),
    program("water_nsq", "-n 10 -r 180", "-n 10 -r 40", None),
    program("water_spatial", "-n 10 -r 80", "-n 10 -r 16", None),
    program("mlem", "-n 192 -r 18", "-n 96 -r 24", None),
];

/// What is measured of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(super) enum Mode {
    /// The program itself.
    Native,
    /// `relive run --dbi`: translated, nothing inserted.
    Empty,
    /// `relive races` on a new recording.
    Races,
    /// `relive races` on a recording whose order of each object a replay has learnt.
    RacesLearnt,
    /// `relive races --live`: records and looks for races.
    Live,
    /// Another tool.
    Peer(Peer),
    /// The program itself, in its small size.
    SmallNative,
    /// `relive races` on a new recording of that.
    SmallRaces,
    /// Another tool, likewise.
    SmallPeer(Peer),
}

impl Mode {
    /// One round.
    const ROUND: [Self; 11] = [
        Self::Native,
        Self::Empty,
        Self::Races,
        Self::RacesLearnt,
        Self::Live,
        Self::Peer(Peer::TsanGcc),
        Self::Peer(Peer::TsanClang),
        Self::SmallNative,
        Self::SmallRaces,
        Self::SmallPeer(Peer::Helgrind),
        Self::SmallPeer(Peer::Drd),
    ];

    const fn is_small(self) -> bool {
        matches!(self, Self::SmallNative | Self::SmallRaces | Self::SmallPeer(_))
    }
}

/// One run.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(super) struct Run {
    /// What was run.
    pub(super) mode: Mode,
    /// Seconds of processor time.
    pub(super) cpu: f64,
    /// Peak resident memory.
    pub(super) peak_bytes: u64,
    /// It was ended for its time.
    pub(super) cut: bool,
}

/// What was measured of one kernel.
#[derive(Debug, serde::Serialize)]
pub(super) struct Kernel {
    /// Its name.
    pub(super) name: &'static str,
    /// See [`Program::bar`].
    pub(super) bar: Option<f64>,
    /// The rounds.
    pub(super) rounds: Vec<Vec<Run>>,
    /// What went wrong, or was reported although the kernels have no race.
    pub(super) remarks: Vec<String>,
}

impl Kernel {
    /// `of` each run of `mode`, over that of `base` in the same round; and whether one was cut, so that they are too little.
    pub(super) fn ratios(&self, mode: Mode, base: Mode, of: fn(&Run) -> f64) -> (Vec<f64>, bool) {
        let mut cut = false;
        let ratio = |round: &Vec<Run>| {
            let find = |mode| round.iter().find(|run| run.mode == mode);
            let (run, base) = (find(mode)?, find(base)?);
            cut |= run.cut;
            Some(of(run) / of(base))
        };
        (self.rounds.iter().filter_map(ratio).collect(), cut)
    }

    /// `of` each run of `mode`.
    pub(super) fn figures(&self, mode: Mode, of: fn(&Run) -> f64) -> Vec<f64> {
        self.rounds.iter().flatten().filter(|run| run.mode == mode).map(of).collect()
    }
}

/// What a kernel is measured with.
#[derive(Clone, Copy)]
pub(super) struct Bench<'a> {
    /// Where things are.
    pub(super) place: &'a Place,
    /// How often.
    pub(super) options: &'a Options,
    /// The other tools that are there.
    pub(super) peers: &'a [Peer],
    /// The folder of the compiled programs.
    pub(super) built: &'a Path,
    /// The kernel.
    pub(super) program: &'a Program,
}

/// Runs one kernel in each mode, `options.runs` times.
pub(super) fn measure(bench: Bench<'_>) -> Kernel {
    let program = bench.program;
    let mut kernel = Kernel { name: program.name, bar: program.bar, rounds: Vec::new(), remarks: Vec::new() };
    for round in 0..bench.options.runs {
        let mut runs = Vec::new();
        for mode in Mode::ROUND.into_iter().filter(|mode| bench.takes_part(*mode, round)) {
            eprintln!("{}, round {} of {}: {mode:?}", program.name, round + 1, bench.options.runs);
            match bench.run(mode) {
                Ok((run, remark)) => {
                    runs.push(run);
                    kernel.remark(remark);
                }
                Err(why) => kernel.remark(Some(why)),
            }
            // What comes next goes by the same recording.
            if mode != Mode::Races {
                bench.place.forget_trace();
            }
        }
        bench.place.forget_trace();
        kernel.rounds.push(runs);
    }
    kernel
}

impl Kernel {
    /// Notes what was not noted before.
    fn remark(&mut self, remark: Option<String>) {
        if let Some(remark) = remark.filter(|remark| !self.remarks.contains(remark)) {
            eprintln!("  {remark}");
            self.remarks.push(remark);
        }
    }
}

impl Bench<'_> {
    fn takes_part(&self, mode: Mode, round: usize) -> bool {
        match mode {
            Mode::Peer(peer) => self.peers.contains(&peer),
            Mode::SmallPeer(peer) => self.peers.contains(&peer) && round < VALGRIND_ROUNDS,
            Mode::SmallNative | Mode::SmallRaces => round < VALGRIND_ROUNDS,
            _ => true,
        }
    }

    /// One run, and what is odd about it.
    fn run(&self, mode: Mode) -> Result<(Run, Option<String>), String> {
        let arguments = self.arguments(mode.is_small());
        let program = Build::Plain.folder(self.built).join(self.program.name);
        let mut command = match mode {
            Mode::Native | Mode::SmallNative => Command::new(&program),
            Mode::Empty => {
                let mut command = self.place.relive(&["run", "--dbi", "--"]);
                command.arg(&program);
                command
            }
            Mode::Live => {
                let mut command = self.place.relive(&["races", "--live", "--"]);
                command.arg(&program);
                command
            }
            Mode::Races | Mode::SmallRaces => {
                self.record(&program, &arguments)?;
                self.look()
            }
            Mode::RacesLearnt => {
                good(&alone::run(self.place.replay().arg("-q"), LIMIT)?, "replay")?;
                self.look()
            }
            Mode::Peer(peer) | Mode::SmallPeer(peer) => {
                peer.command(&peer.build().folder(self.built).join(self.program.name))
            }
        };
        if !matches!(mode, Mode::Races | Mode::SmallRaces | Mode::RacesLearnt) {
            command.args(&arguments);
        }
        let ended = alone::run(&command, LIMIT)?;
        let remark = judge(mode, &ended)?;
        Ok((Run { mode, cpu: ended.cpu, peak_bytes: ended.peak_bytes, cut: ended.status.is_none() }, remark))
    }

    fn arguments(&self, small: bool) -> Vec<String> {
        let size = if small || self.options.small { self.program.small } else { self.program.normal };
        let threads = format!("-t {} {size}", self.options.threads[0]);
        threads.split(' ').map(str::to_owned).collect()
    }

    fn record(&self, program: &Path, arguments: &[String]) -> Result<(), String> {
        let mut command = self.place.relive(&["record", "-q", "--environment", "-o"]);
        command.arg(self.place.trace()).arg("--").arg(program).args(arguments);
        good(&alone::run(&command, LIMIT)?, "record")
    }

    fn look(&self) -> Command {
        let mut command = self.place.relive(&["races"]);
        command.arg(self.place.trace());
        command
    }
}

fn good(ended: &Ended, what: &str) -> Result<(), String> {
    if ended.status == Some(0) { Ok(()) } else { Err(format!("{what}: {}", ended.in_short())) }
}

/// The kernels have no races, and each finds out whether its answer is right.
fn judge(mode: Mode, ended: &Ended) -> Result<Option<String>, String> {
    match (mode, ended.status) {
        (Mode::Peer(peer) | Mode::SmallPeer(peer), Some(0 | RACES)) => {
            Ok(peer.reported(ended).then(|| format!("{} reports races where there are none", peer.name())))
        }
        (Mode::Races | Mode::RacesLearnt | Mode::SmallRaces | Mode::Live, Some(RACES)) => {
            Ok(Some(format!("{mode:?}: races where there are none")))
        }
        (Mode::Races | Mode::RacesLearnt | Mode::SmallRaces, Some(0)) => {
            let second = ended.stderr.contains("second replay");
            Ok(second.then(|| format!("{mode:?}: took a second replay")))
        }
        (Mode::Peer(_) | Mode::SmallPeer(_), None) | (_, Some(0)) => Ok(None),
        _ => Err(format!("{mode:?}: {}", ended.in_short())),
    }
}

/// Each round's processor time of the interpreter, native and under the empty tool.
pub(super) fn interpreter(place: &Place, options: &Options) -> Result<Vec<(f64, f64)>, String> {
    let debian = Path::new("/usr/bin/python3");
    let python = if debian.exists() { debian } else { Path::new("python3") };
    let script = crate::run::root().join("workloads/interpreter.py");
    let rounds = if options.small { "5" } else { "40" };
    let mut pairs = Vec::new();
    for round in 0..options.runs {
        eprintln!("CPython, round {} of {}", round + 1, options.runs);
        let native = alone::run(Command::new(python).arg(&script).arg(rounds), LIMIT)?;
        good(&native, "python3")?;
        let mut command = place.relive(&["run", "--dbi", "--"]);
        let empty = alone::run(command.arg(python).arg(&script).arg(rounds), LIMIT)?;
        good(&empty, "python3 under the empty tool")?;
        if native.stdout != empty.stdout {
            return Err("python3 printed something else under the empty tool".to_owned());
        }
        pairs.push((native.cpu, empty.cpu));
    }
    Ok(pairs)
}
