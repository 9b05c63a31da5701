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
use std::path::{Path, PathBuf};
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
        missing,
        kernels: times::measure(place, options, &peers, &built),
        interpreter: times::interpreter(place, options),
        findings: Vec::new(),
        machine,
    };
    if options.only.is_none() {
        measured.findings = findings::look(place, options.runs, &peers, &built)?;
    }
    measured.minutes = started.elapsed().as_secs_f64() / 60.0;
    measured.load_after = Machine::describe().load;
    let text = report::markdown(&measured);
    println!("{text}");
    write(&measured, &text, folder)?;
    Ok(())
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

fn write(measured: &Measured, text: &str, folder: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(folder)?;
    let file: PathBuf = folder.join(format!("{}-{}-races.md", measured.machine.date, measured.machine.host));
    fs::write(&file, text)?;
    fs::write(file.with_extension("json"), serde_json::to_string_pretty(measured)? + "\n")?;
    eprintln!("written to {}", file.display());
    Ok(())
}
