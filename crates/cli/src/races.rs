//! `relive races`: replay a recording with the detector of data races.

use crate::args::{RacesArgs, RacesFormat, RecordArgs};
use crate::embedded;
use crate::message;
use crate::pack;
use crate::record::record_to_folder;
use anyhow::{Context, Result, bail};
use relive_findings::{Options, Report, Style, Suppressions, Verdict};
use relive_session::replay::{Allow, Pass, Replayer};
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Exit statuses: that of `ThreadSanitizer` for races, ours for a replay that went another way.
const RACES: u8 = 66;
const DIVERGED: u8 = 125;
/// A shell's way to say that the user ended something.
const INTERRUPTED: u8 = 130;

/// Looks for races and prints them.
pub(crate) fn run(options: &RacesArgs) -> Result<u8> {
    let folder = match &options.trace {
        _ if options.live => record_first(options)?,
        Some(folder) if folder.is_dir() => fs::canonicalize(folder)?,
        named => pack::find(named.as_deref())?,
    };
    let report = look(&folder, options)?;
    let Some(report) = report else { return Ok(INTERRUPTED) };
    io::stdout().write_all(printed(&report, options.format, io::stdout().is_terminal())?.as_bytes())?;
    Ok(status(&report))
}

/// Looks for races in the recording that was just made, and prints them beside what the program printed.
pub(crate) fn in_recording(folder: &Path, quiet: bool) -> Result<u8> {
    let options = RacesArgs::of_recording(quiet);
    let Some(report) = look(folder, &options)? else { return Ok(INTERRUPTED) };
    io::stderr().write_all(printed(&report, options.format, io::stderr().is_terminal())?.as_bytes())?;
    Ok(status(&report))
}

fn record_first(options: &RacesArgs) -> Result<PathBuf> {
    let recording = RecordArgs::of_environment(options.program.clone(), options.quiet);
    Ok(record_to_folder(&recording)?.0)
}

/// `None` if the user ended it.
fn look(folder: &Path, options: &RacesArgs) -> Result<Option<Report>> {
    let suppressions = suppressions(options)?;
    let allow = Allow { rebuilt: false, processor: options.allow_processor };
    let replayer = Replayer::open(folder, &embedded::runtime()?, allow)?;
    if !replayer.recording().manifest.environment_recorded {
        bail!(
            "look for races in {}: the recording does not hold what the program took from outside, so its addresses \
             may be others in each replay; record it with --environment",
            folder.display()
        );
    }
    let hunt = replayer.races(&mut |pass| tell(pass, options))?;
    let options = Options { suppressions, ..Options::default() };
    Ok(hunt.interrupted.is_none().then(|| Report::new(&hunt.found, &options)))
}

fn status(report: &Report) -> u8 {
    match report.verdict() {
        Verdict::Clean => 0,
        Verdict::Races => RACES,
        Verdict::Unfinished => DIVERGED,
    }
}

fn suppressions(options: &RacesArgs) -> Result<Suppressions> {
    let mut all = Suppressions::default();
    for file in &options.suppressions {
        let text = fs::read_to_string(file).with_context(|| format!("read suppressions {}", file.display()))?;
        all.extend(Suppressions::parse(&text, &file.display().to_string())?);
    }
    Ok(all)
}

fn tell(pass: Pass, options: &RacesArgs) {
    if options.quiet {
        return;
    }
    match pass {
        Pass::First => message::say("looking for races: first replay, which bytes race"),
        Pass::Second { bytes } => {
            message::say(format_args!("looking for races: second replay, which accesses race for {bytes} bytes"));
        }
    }
}

fn printed(report: &Report, format: RacesFormat, colour: bool) -> Result<String> {
    let mut text = String::new();
    match format {
        RacesFormat::Text => report.text(&mut text, Style { colour, ..Style::default() })?,
        RacesFormat::Json => text = report.json(),
        RacesFormat::Sarif => text = report.sarif(None),
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}
