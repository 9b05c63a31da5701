//! `relive races`: replay a recording with the detector of data races.

use crate::args::{RacesArgs, RacesFormat, RecordArgs};
use crate::embedded;
use crate::message::{self, ExitWith};
use crate::output;
use crate::pack;
use crate::record::record_to_folder;
use anyhow::{Context, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use relive_findings::{Options, Report, Style, Suppressions, Verdict};
use relive_session::learnt::{Declared, Learnt, Lists};
use relive_session::replay::{Allow, Besides, Hunt, KnownRaces, MeetError, Meeting, Pass, Replayer};
use relive_session::signals::Held;
use relive_trace::manifest::Level;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Exit statuses: that of `ThreadSanitizer` for races, ours for a replay that went another way.
const RACES: u8 = 66;
const DIVERGED: u8 = 125;
/// A shell's way to say that a signal ended something.
const SIGNAL_BASE: i32 = 128;

/// What was made of a recording, or the exit status for the signal by which the user ended that.
pub(crate) type OrEnded<T> = std::result::Result<T, u8>;

/// Looks for races and prints them.
pub(crate) fn run(options: &RacesArgs) -> Result<u8> {
    let folder = match &options.trace {
        _ if options.live => record_first(options)?,
        Some(folder) if folder.is_dir() => fs::canonicalize(folder)?,
        named => pack::find(named.as_deref())?,
    };
    let report = match look(&folder, options)? {
        Ok((report, _)) => report,
        Err(status) => return Ok(status),
    };
    let text = printed(&report, options.format, io::stdout().is_terminal())?;
    output::print(|out| out.write_all(text.as_bytes()))?;
    Ok(status(&report))
}

/// Looks for races in the recording that was just made, and prints them beside what the program printed.
pub(crate) fn in_recording(folder: &Path, recorded: &RecordArgs) -> Result<u8> {
    let options = RacesArgs { learnt: recorded.learnt.clone(), ..RacesArgs::of_recording(recorded.quiet) };
    let report = match look(folder, &options)? {
        Ok((report, _)) => report,
        Err(status) => return Ok(status),
    };
    let text = printed(&report, options.format, io::stderr().is_terminal())?;
    // As with all that is said there, nobody may listen.
    let _ = io::stderr().write_all(text.as_bytes());
    Ok(status(&report))
}

/// What a recording could have ordered.
#[derive(Debug)]
pub(crate) struct Lesson {
    /// The accesses.
    pub(crate) accesses: Learnt,
    /// Threads hand over by them. Else they may just race.
    pub(crate) ordering: bool,
    /// The recording replays as it is.
    pub(crate) replays: bool,
}

/// The accesses that the recording in `folder` could have ordered, and should have.
pub(crate) fn learn(folder: &Path) -> Result<Lesson> {
    let options = RacesArgs::of_recording(true);
    let allow = Allow { rebuilt: false, processor: false };
    let replayer = Replayer::open(folder, &embedded::runtime()?, allow)?;
    let ordered = Learnt::from_manifest(&replayer.recording().manifest.accesses);
    let besides = Besides { segments: false, accesses: true, ordering_first: true };
    let hunt = search(replayer, &report_options(&options)?, &options, besides)?;
    match hunt.interrupted {
        Some(signal) => {
            let message = "ended by a signal while it looked for accesses to order".to_owned();
            Err(ExitWith { code: ended_by(signal), message }.into())
        }
        None => Ok(Lesson { accesses: hunt.learnt.without(&ordered), ordering: hunt.ordering, replays: hunt.replays }),
    }
}

fn record_first(options: &RacesArgs) -> Result<PathBuf> {
    let recording = RecordArgs::of_environment(options.program.clone(), options.quiet);
    Ok(record_to_folder(&recording)?.0)
}

fn look(folder: &Path, options: &RacesArgs) -> Result<OrEnded<(Report, KnownRaces)>> {
    let report = report_options(options)?;
    let allow = Allow { rebuilt: false, processor: options.allow_processor };
    let replayer = Replayer::open(folder, &embedded::runtime()?, allow)?;
    if !replayer.recording().manifest.environment_recorded {
        bail!(
            "look for races in {}: the recording does not hold what the program took from outside, so its addresses \
             may be others in each replay; record it with --environment",
            folder.display()
        );
    }
    let manifest = &replayer.recording().manifest;
    let (level, program) = (manifest.level, manifest.program.path.as_path().to_owned());
    let ordered = (level == Level::Atomics).then(|| Learnt::from_manifest(&manifest.accesses));
    let besides = Besides { segments: options.segments, accesses: ordered.is_some(), ordering_first: false };
    let hunt = search(replayer, &report, options, besides)?;
    if let Some(signal) = hunt.interrupted {
        return Ok(Err(ended_by(signal)));
    }
    if let Some(ordered) = ordered {
        remember(&ordered, &hunt, options)?;
    }
    let report = Report::new(&hunt.found, &report);
    if level == Level::Sync && report.counts().certain > 0 && !options.quiet {
        tell_unordered(&program)?;
    }
    let known = KnownRaces::new(&hunt, &report);
    // Where they can't be kept, they are looked for again when one of them is wanted.
    let _ = known.keep(folder);
    Ok(Ok((report, known)))
}

/// What is published by an atomic store seems to race where that store is no event.
fn tell_unordered(program: &Path) -> Result<()> {
    let count = Declared::of(&embedded::runtime()?).count_in(program);
    if count > 0 {
        message::say(format_args!(
            "debug information tells of plain accesses to atomic or volatile variables ({count}), which this recording does not order: if \
             threads hand over by those, record the program with --level atomics, and what races then does race"
        ));
    }
    Ok(())
}

/// Has later recordings of a program order what was found in one at the level of atomics.
fn remember(ordered: &Learnt, hunt: &Hunt, options: &RacesArgs) -> Result<()> {
    let runtime = embedded::runtime()?;
    let lists = Lists::of(&runtime, options.learnt.as_deref());
    let fail = "keep what was learnt";
    let new = lists.keep(&hunt.learnt).context(fail)?;
    if new > 0 {
        // Where an older build taught what this one orders, its own list has that, too.
        let declared = Declared::of(&runtime).in_files_of(&hunt.learnt);
        lists.keep(&ordered.in_files_of(&hunt.learnt).without(&declared)).context(fail)?;
        if !options.quiet {
            message::say(format_args!("{new} more accesses are ordered in later recordings at the level of atomics"));
        }
    }
    Ok(())
}

fn ended_by(signal: i32) -> u8 {
    (SIGNAL_BASE + signal) as u8
}

/// The way to one of the recording's races. `name` is its number in what was printed
/// last, or its fingerprint.
pub(crate) fn meeting(folder: &Path, name: &str, options: &RacesArgs) -> Result<OrEnded<Meeting>> {
    let known = match KnownRaces::read(folder) {
        Some(known) => known,
        None => match look(folder, options)? {
            Ok((_, known)) => known,
            Err(status) => return Ok(Err(status)),
        },
    };
    let Some(race) = known.find(name) else {
        match known.count() {
            0 => bail!("{}: no race was found in it", folder.display()),
            count => bail!("{}: there is no race {name} among the {count} that `relive races` lists", folder.display()),
        }
    };
    if !options.quiet {
        message::say(format_args!("going to race {}: another replay, which counts up to its accesses", race.number));
    }
    let allow = Allow { rebuilt: false, processor: options.allow_processor };
    match Replayer::open(folder, &embedded::runtime()?, allow)?.meet(&known, race) {
        Err(MeetError::Interrupted(signal)) => Ok(Err(ended_by(signal))),
        met => Ok(Ok(met?)),
    }
}

/// Both replays, with a bar on a terminal.
fn search(replayer: Replayer, report: &Options, options: &RacesArgs, besides: Besides) -> Result<Hunt> {
    const LOOK: Duration = Duration::from_millis(100);
    let (bar, progress) = (bar(replayer.recording().events(), options.quiet), replayer.progress());
    let (searching, over) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let shown = bar.clone();
        // Signals are for those who wait for the replay: in this thread they would end us and leave files behind.
        let held = Held::new()?;
        scope.spawn(move || {
            // The other end is dropped when the search is over.
            while over.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                if let Some(events) = progress.events() {
                    shown.set_position(events);
                }
            }
            shown.finish_and_clear();
        });
        drop(held);
        let hunt = replayer.races(report, besides, &mut |pass| {
            bar.reset();
            bar.suspend(|| tell(pass, options));
        });
        drop(searching);
        Ok(hunt?)
    })
}

fn bar(events: u64, quiet: bool) -> ProgressBar {
    let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(events) };
    let style = ProgressStyle::with_template("{wide_bar} {human_pos} of {human_len} events, {eta} left");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn status(report: &Report) -> u8 {
    match report.verdict() {
        Verdict::Clean => 0,
        Verdict::Races => RACES,
        Verdict::Unfinished => DIVERGED,
    }
}

fn report_options(options: &RacesArgs) -> Result<Options> {
    let mut all = Options::default();
    let read = |file: &Path, what| fs::read_to_string(file).with_context(|| format!("read {what} {}", file.display()));
    for file in &options.suppressions {
        let text = read(file, "suppressions")?;
        all.suppressions.extend(Suppressions::parse(&text, &file.display().to_string())?);
    }
    for file in &options.annotations {
        all.annotations.add(&read(file, "annotations")?, &file.display().to_string())?;
    }
    Ok(all)
}

fn tell(pass: Pass, options: &RacesArgs) {
    if options.quiet {
        return;
    }
    match pass {
        Pass::Plain => message::say("looking for races: a replay by itself, which shows whether it goes as recorded"),
        Pass::First => message::say("looking for races: first replay, which bytes race"),
        Pass::Unsure => message::say("looking for races: first replay again, with each read of what is written, too"),
        Pass::EachRead => {
            message::say("looking for races: first replay again, with each read of all that is read often");
        }
        Pass::Hands => message::say("looking for races: first replay again, with what is handed over by atomics"),
        Pass::Second { bytes: 0 } => message::say("looking for races: second replay, by what threads synchronise"),
        Pass::Second { bytes } => {
            message::say(format_args!("looking for races: second replay, which accesses race for {bytes} bytes"));
        }
        Pass::Again => message::say("looking for races: the replay diverged, again with all waiting for all"),
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
