//! `cargo xtask bench`: what recording and replaying cost, beside the published figures.
//!
//! Apart from the tests because figures depend on the machine: they are kept in
//! `bench/` with machine, date and revision, and no test compares them.
//! Everything that is compared runs interleaved in one go, on the same machine.
// Times and counts are far below 2^52.
#![allow(clippy::cast_precision_loss)]

mod alone;
mod environment;
mod kernels;
mod machine;
mod measure;
mod micro;
mod options;
mod races;
mod report;
mod segments;
mod statistics;

use crate::run;
use crate::setup;
use options::{Options, Subject};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where things are while the benchmark runs.
struct Place {
    /// The compiled workloads.
    programs: PathBuf,
    /// The release binary.
    relive: PathBuf,
    /// Traces; removed at the end.
    scratch: PathBuf,
}

impl Place {
    /// The command line `relive ARGS…`, with its traces in the scratch folder.
    fn relive(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.relive);
        command.args(args).env("RELIVE_TRACE_DIR", &self.scratch);
        command
    }

    /// The folder of the one trace that exists at a time.
    fn trace(&self) -> PathBuf {
        self.scratch.join("trace")
    }

    /// Removes the trace, if there is one.
    fn forget_trace(&self) {
        let _ = fs::remove_dir_all(self.trace());
    }

    /// `relive record -o TRACE -- PROGRAM ARGS…`
    fn record(&self, program: &Path, args: &[String]) -> Command {
        let mut command = self.relive(&["record", "-o"]);
        command.arg(self.trace()).arg("--").arg(program).args(args);
        command
    }

    /// `relive replay TRACE`
    fn replay(&self) -> Command {
        let mut command = self.relive(&["replay"]);
        command.arg(self.trace());
        command
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

/// Measures everything, prints the tables and keeps them.
pub(crate) fn run(args: &[String]) -> Result<(), Box<dyn Error>> {
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        print!("{}", options::USAGE);
        return Ok(());
    }
    if let [alone::ARGUMENT, ..] = args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return Ok(alone::measure(&args[1..])?);
    }
    let options = match Options::parse(args) {
        Ok(options) => options,
        Err(what) => return Err(format!("bench: {what}\n{}", options::USAGE).into()),
    };
    setup::bench()?;
    let target = target_folder()?;
    let place = prepare(&target)?;
    let machine = machine::Machine::describe();
    // Only a whole run belongs into the project; the others are for the developer at work.
    let folder = if options.is_whole() { run::root().join("bench") } else { target.join("bench") };
    match options.subject {
        Subject::Kernels => {}
        Subject::Environment => return run_environment(&place, &options, &machine, &folder),
        // Counts need no repetition.
        Subject::Segments => return segments::run(&place, &options, &machine, &run::root().join("bench")),
        Subject::Races => return races::run(&place, &options, machine, &folder, &target),
    }
    let mut measured = report::Report::new(machine, &options);
    for &threads in &options.threads {
        for name in options.chosen() {
            measured.kernels.push(kernels::measure(&place, &options, name, threads));
            write(&measured, &target.join("bench"), "so-far")?;
        }
    }
    if options.only.is_none() {
        measured.locks = micro::locks(&place, &options);
        measured.start = Some(micro::start(&place, &options));
        measured.memory = Some(micro::memory(&place, &options));
    }
    println!("{}", report::markdown(&measured));
    write(&measured, &folder, &format!("{}-{}", measured.machine.date, measured.machine.host))?;
    match measured.failures() {
        0 => Ok(()),
        failures => Err(format!("bench: {failures} of the measurements failed, see above").into()),
    }
}

/// The programs of `environment.rs` instead of all else.
fn run_environment(
    place: &Place,
    options: &Options,
    machine: &machine::Machine,
    folder: &Path,
) -> Result<(), Box<dyn Error>> {
    let measured = environment::measure(place, options)?;
    let about = format!(
        "{} × {}, Linux {}, revision {}, load average before {}; {} rounds: `cargo xtask bench --environment`.",
        machine.processors, machine.processor, machine.kernel, machine.revision, machine.load, options.runs
    );
    let text = environment::markdown(&measured, &about);
    println!("{text}");
    fs::create_dir_all(folder)?;
    let file = folder.join(format!("{}-{}-environment.md", machine.date, machine.host));
    fs::write(&file, text)?;
    eprintln!("written to {}", file.display());
    Ok(())
}

/// Builds the workloads and the release binary.
fn prepare(target: &Path) -> Result<Place, Box<dyn Error>> {
    let place = Place {
        programs: target.join("workloads"),
        relive: target.join("release/relive"),
        scratch: std::env::temp_dir().join(format!("relive-bench-{}", std::process::id())),
    };
    fs::create_dir_all(&place.programs)?;
    fs::create_dir_all(&place.scratch)?;
    let sources = run::root().join("workloads");
    for name in kernels::NAMES.iter().copied().chain(["lockmicro", "idle", "calls"]) {
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-g", "-pthread", "-o"]).arg(place.programs.join(name));
        run::step(cc.arg(sources.join(format!("{name}.c"))).arg("-lm"))?;
    }
    run::step(&mut run::cargo(&["build", "--quiet", "--release", "--package", "relive"]))?;
    Ok(place)
}

fn target_folder() -> Result<PathBuf, Box<dyn Error>> {
    let metadata =
        cargo_metadata::MetadataCommand::new().manifest_path(run::root().join("Cargo.toml")).no_deps().exec();
    Ok(metadata?.target_directory.into_std_path_buf())
}

/// Writes `NAME.md` and `NAME.json`.
fn write(measured: &report::Report, folder: &Path, name: &str) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(folder)?;
    let text = folder.join(format!("{name}.md"));
    fs::write(&text, report::markdown(measured))?;
    fs::write(folder.join(format!("{name}.json")), serde_json::to_string_pretty(measured)? + "\n")?;
    eprintln!("written to {}", text.display());
    Ok(())
}
