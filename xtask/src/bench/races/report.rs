//! The figures of the race detector as text, beside what is wanted of them.
//!
//! Apart from `bench/report.rs`, whose tables hold other tools and other figures.

use super::times::{Kernel, LIMIT, Mode, PROGRAMS, Run, VALGRIND_ROUNDS};
use super::tools::Peer;
use super::{Measured, findings};
use crate::bench::report::flat;
use crate::bench::statistics::{Estimate, estimate, geometric, median};
use std::fmt::Write;

/// What is wanted, as the project's plan says it.
const GEOMETRIC_MAX: f64 = 5.0;
const OVER_HELGRIND_MIN: f64 = 10.0;
const EMPTY_MAX: f64 = 1.2;
const CPYTHON_MAX: f64 = 3.0;
const WORKING_SETS_MAX: f64 = 4.0;
const THREAD_BYTES_MAX: f64 = (64 << 20) as f64;
/// A higher load average than this means that others use the machine.
const LOAD_MAX: f64 = 1.0;
const MIB: f64 = (1 << 20) as f64;

/// The whole report.
pub(super) fn markdown(measured: &Measured) -> String {
    let mut text = heading(measured);
    text += &wanted(measured);
    text += &times(measured);
    text += &beside_valgrind(measured);
    text += &memory(measured);
    text += &remarks(measured);
    text += &findings::markdown(&measured.findings);
    text
}

fn heading(measured: &Measured) -> String {
    let m = &measured.machine;
    let threads = measured.threads;
    let mut doubts = String::new();
    if measured.preliminary {
        doubts += "**A first impression, not a result**: too few runs, small sizes or only a part.\n\n";
    }
    let load: Option<f64> = m.load.split(' ').next().and_then(|first| first.parse().ok());
    if load.is_some_and(|load| load > LOAD_MAX) {
        doubts += "**Others used the machine meanwhile**: processor times are roughly right, no more than that.\n\n";
    }
    format!(
        "# What the race detector costs and finds, {} on {}\n\n\
         {doubts}`{}`, {:.0} minutes. Rounds: {}, with Helgrind and DRD: {}.\n\n\
         - machine: {} × {}, Linux {}\n- tools: {}; {}\n\
         - revision {}, load average before {}, after {}\n\n\
         Processor time, user and system, of all processes of a command, over that of the program itself in the same \
         round; everything that is compared runs in turn. Medians, in brackets their intervals (with few rounds: least to \
         greatest). {threads} threads. A run is ended after {} s of wall time and counts as more than what it took by \
         then (`>`).\n",
        m.date,
        m.host,
        measured.command,
        measured.minutes,
        measured.rounds,
        measured.rounds.min(VALGRIND_ROUNDS),
        m.processors,
        m.processor,
        m.kernel,
        m.tools,
        measured.versions,
        m.revision,
        m.load,
        measured.load_after,
        LIMIT.as_secs(),
    )
}

/// A line of what is wanted.
struct Line {
    what: String,
    bar: String,
    reached: Option<f64>,
    shown: String,
    kept: bool,
}

impl Line {
    fn at_most(what: impl Into<String>, reached: Option<f64>, bar: f64) -> Self {
        let shown = reached.map_or("–".to_owned(), |r| format!("{r:.3}"));
        Self { what: what.into(), bar: format!("≤ {bar}"), reached, shown, kept: reached.is_some_and(|r| r <= bar) }
    }
}

fn wanted(measured: &Measured) -> String {
    let cpu = |run: &Run| run.cpu;
    let races = |k: &Kernel| k.ratios(Mode::Races, Mode::Native, cpu).0;
    let empty = |k: &Kernel| k.ratios(Mode::Empty, Mode::Native, cpu).0;
    let of_all = |of: &dyn Fn(&Kernel) -> Vec<f64>| {
        // A mean without some of the kernels would be another mean.
        let series: Vec<Vec<f64>> = measured.kernels.iter().map(of).collect();
        if !is_whole(measured) || series.iter().any(Vec::is_empty) {
            None
        } else {
            geometric(&series).map(|e| e.median)
        }
    };
    let mut lines: Vec<Line> = measured
        .kernels
        .iter()
        .filter_map(|k| Some(Line::at_most(format!("`relive races`, {}", k.name), middle(&races(k)), k.bar?)))
        .collect();
    lines.push(Line::at_most("`relive races`, geometric mean of all kernels", of_all(&races), GEOMETRIC_MAX));
    lines.push(least_over_helgrind(measured));
    lines.push(Line::at_most("empty tool, geometric mean of all kernels", of_all(&empty), EMPTY_MAX));
    let cpython = measured.interpreter.as_ref().ok().map(|pairs| interpreter_ratios(pairs));
    lines.push(Line::at_most("empty tool, CPython", cpython.and_then(|r| middle(&r)), CPYTHON_MAX));
    lines.push(most_memory(measured));
    let mut text = "\n## Wanted and reached\n\n| | wanted | reached | |\n|---|---|---|---|\n".to_owned();
    for line in lines {
        let verdict = match line.reached {
            None => "not measured",
            Some(_) if line.kept => "kept",
            Some(_) => "**missed**",
        };
        let _ = writeln!(text, "| {} | {} | {} | {verdict} |", line.what, line.bar, line.shown);
    }
    text
}

fn interpreter_ratios(pairs: &[(f64, f64)]) -> Vec<f64> {
    pairs.iter().map(|(native, empty)| empty / native).collect()
}

fn middle(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| median(values))
}

/// Whether all kernels were measured: of some nothing is said about all.
fn is_whole(measured: &Measured) -> bool {
    measured.kernels.len() == PROGRAMS.len()
}

/// The kernel that is least faster than Helgrind, at the same size.
fn least_over_helgrind(measured: &Measured) -> Line {
    let faster = |k: &Kernel| {
        let (ratios, cut) = k.ratios(Mode::SmallPeer(Peer::Helgrind), Mode::SmallRaces, |run| run.cpu);
        Some((middle(&ratios)?, cut, k.name))
    };
    let all: Vec<_> = measured.kernels.iter().map(faster).collect();
    let known = is_whole(measured) && all.iter().all(Option::is_some);
    let least = all.iter().flatten().min_by(|a, b| a.0.total_cmp(&b.0)).filter(|_| known);
    Line {
        what: "Helgrind over `relive races`, least of all kernels".to_owned(),
        bar: format!("≥ {OVER_HELGRIND_MIN}"),
        reached: least.map(|l| l.0),
        shown: least.map_or("–".to_owned(), |(r, cut, name)| format!("{}{r:.1} ({name})", more(*cut))),
        kept: least.is_some_and(|l| l.0 >= OVER_HELGRIND_MIN),
    }
}

/// What a kernel's memory may be, and what it is.
fn memory_of(kernel: &Kernel, threads: usize) -> Option<(f64, f64)> {
    let peak = |run: &Run| run.peak_bytes as f64;
    let native = middle(&kernel.figures(Mode::Native, peak))?;
    let races = middle(&kernel.figures(Mode::Races, peak))?;
    Some((WORKING_SETS_MAX * native + THREAD_BYTES_MAX * threads as f64, races))
}

fn most_memory(measured: &Measured) -> Line {
    let share = |k: &Kernel| memory_of(k, measured.threads).map(|(may, is)| (is / may, is, may, k.name));
    let all: Vec<_> = measured.kernels.iter().map(share).collect();
    let known = is_whole(measured) && all.iter().all(Option::is_some);
    let most = all.iter().flatten().max_by(|a, b| a.0.total_cmp(&b.0)).filter(|_| known);
    let show = |(_, is, may, name): &(f64, f64, f64, &str)| format!("{:.0} MiB of {:.0} ({name})", is / MIB, may / MIB);
    Line {
        what: "memory of `relive races`, worst kernel".to_owned(),
        bar: "≤ 4 × the program's + 64 MiB a thread".to_owned(),
        reached: most.map(|m| m.0),
        shown: most.map_or("–".to_owned(), show),
        kept: most.is_some_and(|m| m.0 <= 1.0),
    }
}

const fn more(cut: bool) -> &'static str {
    if cut { "> " } else { "" }
}

/// A median with its interval.
fn cell((ratios, cut): &(Vec<f64>, bool)) -> String {
    let show = |e: Estimate| format!("{}{:.2} [{:.2}, {:.2}]", more(*cut), e.median, e.low, e.high);
    estimate(ratios).map_or("–".to_owned(), show)
}

/// The geometric mean of those kernels that have figures, and how many these are if not all.
fn mean(kernels: &[Kernel], mode: Mode, base: Mode) -> String {
    let all: Vec<_> = kernels.iter().map(|k| k.ratios(mode, base, |run| run.cpu)).collect();
    let (series, cut): (Vec<Vec<f64>>, Vec<bool>) = all.into_iter().filter(|(s, _)| !s.is_empty()).unzip();
    let partly =
        if series.len() < kernels.len() { format!(" ({} of {})", series.len(), kernels.len()) } else { String::new() };
    geometric(&series).map_or("–".to_owned(), |e| format!("{}{:.2}{partly}", more(cut.contains(&true)), e.median))
}

fn times(measured: &Measured) -> String {
    const MODES: [Mode; 6] = [
        Mode::Empty,
        Mode::Races,
        Mode::RacesLearnt,
        Mode::Live,
        Mode::Peer(Peer::TsanGcc),
        Mode::Peer(Peer::TsanClang),
    ];
    let mut text = "\n## Processor time over native\n\n\
        `relive races` is the whole command on a fresh recording: one replay with the detector, because the kernels have \
        no race (a second replay is needed only where there is one). *Learnt*: the same on a recording that was \
        replayed before, so that threads wait for each other less. *Live*: `relive races --live`, which records and looks. \
        TSan's programs are compiled for it with the same options.\n\n\
        | kernel | native s | empty tool | races | races, learnt | live | TSan, gcc | TSan, clang |\n\
        |---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for kernel in &measured.kernels {
        let native = middle(&kernel.figures(Mode::Native, |run| run.cpu));
        let _ = write!(text, "| {} | {} |", kernel.name, native.map_or("–".to_owned(), |n| format!("{n:.2}")));
        for mode in MODES {
            let _ = write!(text, " {} |", cell(&kernel.ratios(mode, Mode::Native, |run| run.cpu)));
        }
        text.push('\n');
    }
    text += "| **geometric mean** | |";
    for mode in MODES {
        let _ = write!(text, " {} |", mean(&measured.kernels, mode, Mode::Native));
    }
    match &measured.interpreter {
        Ok(pairs) => {
            let native = median(&pairs.iter().map(|pair| pair.0).collect::<Vec<_>>());
            let _ = write!(text, "\n| CPython | {native:.2} | {} |", cell(&(interpreter_ratios(pairs), false)));
            text += " | | | | |\n";
        }
        Err(why) => {
            let _ = writeln!(text, "\n\nCPython: {}", flat(why));
        }
    }
    text
}

fn beside_valgrind(measured: &Measured) -> String {
    const MODES: [Mode; 3] = [Mode::SmallRaces, Mode::SmallPeer(Peer::Helgrind), Mode::SmallPeer(Peer::Drd)];
    let mut text = "\n## Beside Helgrind and DRD\n\n\
        They are so slow that the kernels have smaller sizes here. All figures of this table are of these sizes, \
        native ones and relive's, too; what a tool needs to start weighs more in them.\n\n\
        | kernel | native s | races | Helgrind | DRD | Helgrind over races |\n|---|---|---|---|---|---|\n"
        .to_owned();
    for kernel in &measured.kernels {
        let native = middle(&kernel.figures(Mode::SmallNative, |run| run.cpu));
        let _ = write!(text, "| {} | {} |", kernel.name, native.map_or("–".to_owned(), |n| format!("{n:.3}")));
        for mode in MODES {
            let _ = write!(text, " {} |", cell(&kernel.ratios(mode, Mode::SmallNative, |run| run.cpu)));
        }
        let over = kernel.ratios(Mode::SmallPeer(Peer::Helgrind), Mode::SmallRaces, |run| run.cpu);
        let _ = writeln!(text, " {} |", cell(&over));
    }
    text += "| **geometric mean** | |";
    for mode in MODES {
        let _ = write!(text, " {} |", mean(&measured.kernels, mode, Mode::SmallNative));
    }
    let _ = writeln!(text, " {} |", mean(&measured.kernels, Mode::SmallPeer(Peer::Helgrind), Mode::SmallRaces));
    text
}

fn memory(measured: &Measured) -> String {
    const MODES: [Mode; 5] =
        [Mode::Native, Mode::Empty, Mode::Races, Mode::Peer(Peer::TsanGcc), Mode::Peer(Peer::TsanClang)];
    let mut text = "\n## Memory\n\n\
        Peak resident memory of a command's largest process in MiB, shadow memory included, at the sizes of the first table.\n\n\
        | kernel | native | empty tool | races | TSan, gcc | TSan, clang | races may have |\n|---|---|---|---|---|---|---|\n"
        .to_owned();
    for kernel in &measured.kernels {
        let _ = write!(text, "| {} |", kernel.name);
        for mode in MODES {
            let peak = middle(&kernel.figures(mode, |run| run.peak_bytes as f64));
            let _ = write!(text, " {} |", peak.map_or("–".to_owned(), |p| format!("{:.0}", p / MIB)));
        }
        let may = memory_of(kernel, measured.threads);
        let _ = writeln!(text, " {} |", may.map_or("–".to_owned(), |(may, _)| format!("{:.0}", may / MIB)));
    }
    text
}

fn remarks(measured: &Measured) -> String {
    let of_kernels = measured.kernels.iter().flat_map(|k| k.remarks.iter().map(|r| format!("{}: {}", k.name, flat(r))));
    let all: Vec<String> = measured.missing.iter().cloned().chain(of_kernels).collect();
    if all.is_empty() {
        return String::new();
    }
    format!("\nWhat went wrong, or was reported although there is no race:\n\n- {}\n", all.join("\n- "))
}
