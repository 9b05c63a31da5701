//! `RecPlay`'s table 2 for our kernels: `cargo xtask bench --segments`.
//!
//! Apart from what is measured: these are counts, of one replay of each kernel, and
//! hardly depend on the machine. What differs from run to run is the recorded order
//! where locks decide, and how far threads of a replay are from each other.

use super::machine::Machine;
use super::races;
use super::{Options, Place, measure};
use crate::run;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The counts of one kernel.
struct Row {
    name: &'static str,
    /// Segments, stored at once and bytes by the last partner, the same two by snooped clocks, pairs.
    counts: Result<[u64; 6], String>,
}

/// Counts for each kernel, prints the table and writes it into `folder`.
pub(super) fn run(place: &Place, options: &Options, machine: &Machine, folder: &Path) -> Result<(), Box<dyn Error>> {
    let chosen = |name: &&'static str| options.only.as_deref().is_none_or(|only| only == *name);
    let rows: Vec<Row> = races::names()
        .filter(chosen)
        .map(|name| {
            eprintln!("{name}");
            let counts = count(place, name, options.threads[0]);
            place.forget_trace();
            Row { name, counts }
        })
        .collect();
    let text = markdown(&rows, machine, options);
    println!("{text}");
    fs::create_dir_all(folder)?;
    let file = folder.join(format!("{}-{}-segments.md", machine.date, machine.host));
    fs::write(&file, text)?;
    eprintln!("written to {}", file.display());
    match rows.iter().filter(|row| row.counts.is_err()).count() {
        0 => Ok(()),
        failures => Err(format!("bench: {failures} of the kernels failed, see above").into()),
    }
}

fn count(place: &Place, name: &str, threads: usize) -> Result<[u64; 6], String> {
    let program = place.programs.join(name);
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-g", "-pthread", "-o"]).arg(&program);
    compiler.arg(run::root().join(format!("workloads/{name}.c"))).arg("-lm");
    run::step(&mut compiler).map_err(|e| e.to_string())?;
    let mut record = place.relive(&["record", "-q", "--environment", "-o"]);
    record.arg(place.trace()).arg("--").arg(program).args(["-s", "-t", &threads.to_string()]);
    measure::run(&mut record)?;
    let mut search = place.relive(&["races", "-q", "--segments", "--format", "json"]);
    let (printed, _) = measure::run(search.arg(place.trace()))?;
    let report: serde_json::Value = serde_json::from_str(&printed).map_err(|e| format!("relive races: {e}"))?;
    let number = |way: &str, what: &str| {
        report["segments"][way][what].as_u64().ok_or_else(|| format!("relive races: no number {way} {what}"))
    };
    Ok([
        number("exact", "created")?,
        number("exact", "stored_max")?,
        number("exact", "bytes_max")?,
        number("snooped", "stored_max")?,
        number("snooped", "bytes_max")?,
        number("snooped", "compared")?,
    ])
}

fn markdown(rows: &[Row], machine: &Machine, options: &Options) -> String {
    let head = format!(
        "# Segments\n\n\
         The columns of RecPlay's table 2 (Ronsse, Christiaens & De Bosschere 2003) for our kernels: small sizes (`-s`), \
         {} threads, one replay each, revision {}: `cargo xtask bench {}`. `relive races --segments` prints the same for any \
         recording.\n\n\
         A segment is what a thread does between two operations that order it with others. It is stored, with the bytes \
         that it read and wrote, until nothing that is to come can race with it: known exactly, by the whole execution, or \
         by snooped matrix clocks while it runs. Compared are the pairs that nothing orders. Bytes are those of the sets, \
         which are multilevel bitmaps. A thread that waits for the end of another is in one long segment, the last \
         partner of all that the others do meanwhile. What the program does before its first thread is made is not looked at, and so in \
         no set. Figures of kernels whose threads take work from queues differ from recording to recording; how much is \
         stored depends on the replay as well.\n\n\
         | kernel | segments | stored, exact | bytes | stored, snooped | bytes | pairs compared |\n\
         |---|---:|---:|---:|---:|---:|---:|\n",
        options.threads[0], machine.revision, options.given
    );
    rows.iter().fold(head, |text, row| match &row.counts {
        Ok(counts) => {
            let cells: Vec<String> = counts.iter().map(u64::to_string).collect();
            format!("{text}| {} | {} |\n", row.name, cells.join(" | "))
        }
        Err(why) => format!("{text}| {} | {} | – | – | – | – | – |\n", row.name, super::report::flat(why)),
    })
}
