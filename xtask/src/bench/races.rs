//! What the race detector costs and what it finds: `cargo xtask bench --races`.
//!
//! Apart from the other benchmarks because here others are measured as well: the tools
//! that look for races in the same programs, in the same run.

mod cases;
mod findings;
mod report;
mod times;
mod tools;

use super::machine::Machine;
use super::{Options, Place};
use crate::run;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Instant;
use tools::{Build, Peer};

/// Everything that was measured.
#[derive(Debug, serde::Serialize)]
struct Measured {
    machine: Machine,
    /// What the others say of their versions.
    versions: String,
    /// How to measure it again.
    command: String,
    minutes: f64,
    load_after: String,
    rounds: usize,
    threads: usize,
    /// Too few rounds, small sizes or only a part.
    preliminary: bool,
    /// Why some of the others take no part.
    missing: Vec<String>,
    kernels: Vec<times::Kernel>,
    /// Processor time of the interpreter, native and under the empty tool.
    interpreter: Result<Vec<(f64, f64)>, String>,
    findings: Vec<findings::Finding>,
}

/// The names of the programs whose times are measured.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    times::PROGRAMS.iter().map(|program| program.name)
}

/// Measures everything, prints the tables and writes them into `folder`.
pub(super) fn run(
    place: &Place,
    options: &Options,
    machine: Machine,
    folder: &Path,
    target: &Path,
) -> Result<(), Box<dyn Error>> {
    let started = Instant::now();
    let built = target.join("bench-races");
    let (missing, peers) = peers();
    build(&peers, &built)?;
    let mut measured = Measured {
        versions: tools::versions(),
        command: format!("cargo xtask bench {}", options.given),
        minutes: 0.0,
        load_after: String::new(),
        rounds: options.runs,
        threads: options.threads[0],
        preliminary: !options.is_whole(),
        missing,
        kernels: Vec::new(),
        interpreter: Err("not yet".to_owned()),
        findings: Vec::new(),
        machine,
    };
    for program in times::PROGRAMS.iter().filter(|p| options.only.as_deref().is_none_or(|only| only == p.name)) {
        measured.kernels.push(times::measure(times::Bench { place, options, peers: &peers, built: &built, program }));
        write(&measured, &target.join("bench"), "so-far-races")?;
    }
    measured.interpreter = times::interpreter(place, options);
    if options.only.is_none() {
        measured.findings = findings::look(place, options.runs, &peers, &built)?;
    }
    measured.minutes = started.elapsed().as_secs_f64() / 60.0;
    measured.load_after = Machine::describe().load;
    println!("{}", report::markdown(&measured));
    let name = format!("{}-{}-races", measured.machine.date, measured.machine.host);
    write(&measured, folder, &name)
}

/// Those of the others that are installed, and why not the rest.
fn peers() -> (Vec<String>, Vec<Peer>) {
    let (mut missing, mut there) = (Vec::new(), Vec::new());
    for peer in Peer::ALL {
        match peer.missing() {
            Some(why) => missing.push(why),
            None => there.push(peer),
        }
    }
    (missing, there)
}

/// Builds the kernels for each tool.
fn build(peers: &[Peer], built: &Path) -> Result<(), Box<dyn Error>> {
    let wanted = |build: &Build| *build == Build::Plain || peers.iter().any(|peer| peer.build() == *build);
    for build in Build::ALL.into_iter().filter(wanted) {
        fs::create_dir_all(build.folder(built))?;
        for name in names() {
            let mut compiler = build.compiler(false).ok_or("no C compiler")?;
            compiler.args(["-O2", "-g", "-pthread", "-o"]).arg(build.folder(built).join(name));
            run::step(compiler.arg(run::root().join(format!("workloads/{name}.c"))).arg("-lm"))?;
        }
    }
    Ok(())
}

/// Writes `NAME.md` and `NAME.json`.
fn write(measured: &Measured, folder: &Path, name: &str) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(folder)?;
    let file = folder.join(format!("{name}.md"));
    fs::write(&file, report::markdown(measured))?;
    fs::write(folder.join(format!("{name}.json")), serde_json::to_string_pretty(measured)? + "\n")?;
    eprintln!("written to {}", file.display());
    Ok(())
}
