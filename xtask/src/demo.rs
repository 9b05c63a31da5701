//! `cargo xtask demo`: the first thing a newcomer runs.
//!
//! Apart from the tests because it is meant to be read: it shows a program that
//! ends otherwise with every run, records it once, and replays that one run.

use crate::run::{self, Failure, Outcome};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Plain runs to show. They differ almost surely after two.
const PLAIN_RUNS: usize = 5;
/// Plain runs at most, should the first ones happen to agree.
const PLAIN_RUNS_MAX: usize = 50;
/// Replays of the recording.
const REPLAYS: usize = 5;

/// Builds, shows, records, replays.
pub(crate) fn run() -> Outcome {
    println!("Building relive …");
    run::step(&mut run::cargo(&["build", "--quiet", "--release", "--package", "relive"]))?;
    let target = target_folder()?;
    let relive = target.join("release/relive");
    let folder = target.join("demo");
    let program = build_example(&folder)?;
    let plain_differ = plain_runs(&program)?;
    let recorded = record(&relive, &folder, &program)?;
    replay(&relive, &folder, &recorded)?;
    if !plain_differ {
        println!("\n{PLAIN_RUNS_MAX} plain runs agreed: this machine seems to run one thread after the other.");
    }
    println!("\nTry it: {} replay {} --gdb", relive.display(), folder.join("trace").display());
    Ok(())
}

fn target_folder() -> Outcome<PathBuf> {
    let metadata =
        cargo_metadata::MetadataCommand::new().manifest_path(run::root().join("Cargo.toml")).no_deps().exec();
    metadata.map(|m| m.target_directory.into_std_path_buf()).map_err(|e| Failure::Other(format!("cargo metadata: {e}")))
}

fn build_example(folder: &Path) -> Outcome<PathBuf> {
    let failed = |cause| Failure::File { path: folder.to_owned(), cause };
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(failed)?;
    }
    std::fs::create_dir_all(folder).map_err(failed)?;
    let program = folder.join("race_to_print");
    let source = run::root().join("guests/demo/race_to_print.c");
    run::step(Command::new("cc").args(["-g", "-O1", "-pthread", "-o"]).arg(&program).arg(source))?;
    Ok(program)
}

/// Runs the program as it is; whether two runs differed.
fn plain_runs(program: &Path) -> Outcome<bool> {
    println!("\nPlain runs of guests/demo/race_to_print.c, four threads and one lock:");
    let mut results = BTreeSet::new();
    for run in 1..=PLAIN_RUNS_MAX {
        let result = result_of(&mut Command::new(program))?;
        println!("  run {run}     {result}");
        results.insert(result);
        if run >= PLAIN_RUNS && results.len() > 1 {
            println!("  {} different results", results.len());
            return Ok(true);
        }
    }
    Ok(false)
}

fn record(relive: &Path, folder: &Path, program: &Path) -> Outcome<String> {
    println!("\nrelive record -o trace -- ./race_to_print");
    let mut command = Command::new(relive);
    command.current_dir(folder).args(["record", "-o", "trace", "--"]).arg(program);
    let result = result_of(&mut command)?;
    println!("  recorded  {result}");
    Ok(result)
}

fn replay(relive: &Path, folder: &Path, recorded: &str) -> Outcome {
    println!("\nrelive replay trace, {REPLAYS} times:");
    for replay in 1..=REPLAYS {
        let result = result_of(Command::new(relive).current_dir(folder).args(["replay", "trace"]))?;
        println!("  replay {replay}  {result}");
        if result != recorded {
            return Err(Failure::Other(format!("replay {replay} differs from the recording")));
        }
    }
    println!("  all {REPLAYS} as recorded");
    Ok(())
}

/// The one line that the example prints.
fn result_of(command: &mut Command) -> Outcome<String> {
    let output = run::capture(command)?;
    if !output.status.success() {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        return Err(Failure::Step { line: run::line_of(command), status: output.status });
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}
