//! `relive replay`: run a recording again.

use crate::args::{RacesArgs, ReplayArgs};
use crate::embedded;
use crate::message;
use crate::pack;
use crate::races;
use anyhow::{Result, bail};
use relive_session::gdb::Debugger;
use relive_session::replay::{Allow, Ending, Meeting, Note, Passed, Replayed, Replayer};
use relive_session::report::Report;
use relive_session::signals;
use relive_session::supervise::Outcome;
use relive_trace::layout::stop;
use relive_trace::manifest::FileEntry;
use relive_trace::recording::{End, Recording};
use rustix::io::Errno;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write};

/// Exit status of a replay that went another way.
const DIVERGED: u8 = 125;
/// gdb takes a second or more for so many passes of a breakpoint.
const MANY: u64 = 10_000;
/// A shell's way to say that a signal ended something.
const SIGNAL_BASE: i32 = 128;
/// Ends a tool whose output nobody reads.
const SIGPIPE: i32 = 13;

/// Replays; the exit status is the recorded one.
pub(crate) fn run(options: &ReplayArgs) -> Result<u8> {
    let folder = match &options.trace {
        Some(folder) if folder.is_dir() => std::fs::canonicalize(folder)?,
        named => pack::find(named.as_deref())?,
    };
    let allow = Allow { rebuilt: options.allow_rebuilt, processor: options.allow_processor };
    let replayer = Replayer::open(&folder, &embedded::runtime()?, allow)?;
    let replayer = match options.process {
        None => replayer,
        Some(number) => replayer.only(number)?,
    };
    let replayer = if options.dbi { replayer.translated() } else { replayer };
    if let Some(name) = &options.at_race {
        return at_race(replayer, name, options);
    }
    if options.gdb {
        return debug(&replayer, None, options);
    }
    let replayer = if options.quiet { replayer.silent() } else { replayer };
    match options.repeat {
        None => {
            let mut nowhere = Tap::new(false);
            let output = options.quiet.then_some(&mut nowhere);
            Ok(conclude(&replayer, &once(&replayer, options, output)?, options))
        }
        Some(count) => repeat(&replayer, options, count),
    }
}

/// One replay; where the learnt order or going ahead leads elsewhere, another one by timestamps.
fn once(replayer: &Replayer, options: &ReplayArgs, output: Option<&mut Tap>) -> Result<Ending> {
    let rule = replayer.first_rule();
    let (loose, derived) = (replayer.is_loose(&rule), rule.is_derived());
    let (mut output, mut replayed) = match output {
        None => (None, replayer.run(&rule, None)?),
        Some(tap) => {
            let replayed = replayer.run(&rule, Some(tap))?;
            (Some(tap), replayed)
        }
    };
    // What a learnt order writes was the same by timestamps when it was learnt, or was other there, too.
    let report = match (&replayed.ending, &replayed.passed) {
        (Ending::Diverged(report), _) => Some((report, &report.stands[..])),
        (Ending::AsRecorded(_) | Ending::RecordingEnds(_), Some(passed)) if !derived => Some((&passed.report, &[][..])),
        _ => None,
    };
    if let (true, Some((report, stands))) = (loose, report) {
        let how = if derived { "by the learnt order" } else { "in which threads wait for little" };
        message::say(format_args!("the replay {how} diverged: {}", report.headline));
        for stand in stands {
            message::say(format_args!("  {stand}"));
        }
        message::say("trying again by timestamps");
        if let Some(tap) = output.as_mut().filter(|_| !replayer.recording().manifest.environment_recorded) {
            tap.restart();
        }
        replayed = replayer.run_again(&rule, &replayed, output.map(|tap| tap as &mut (dyn Write + Send)))?;
    }
    note_learning(&replayed, options);
    if let Some(passed) = &replayed.passed {
        tell_passed(passed);
    }
    Ok(replayed.ending)
}

/// Not an end: the replay takes nothing from what it wrote.
fn tell_passed(Passed { report, count }: &Passed) {
    let more = match count - 1 {
        0 => String::new(),
        1 => ", and another time".to_owned(),
        more => format!(", and {more} more times"),
    };
    message::say(format_args!("{}{more}; the replay went on", report.headline));
    message::say(format_args!("likely cause: {}", report.likely));
}

fn note_learning(replayed: &Replayed, options: &ReplayArgs) {
    if let Some(why) = replayed.not_learnt.as_ref().filter(|_| !options.quiet) {
        message::say(format_args!("what this replay learnt is not kept: {why}"));
    }
}

fn conclude(replayer: &Replayer, ending: &Ending, options: &ReplayArgs) -> u8 {
    match ending {
        Ending::AsRecorded(outcome) => {
            if let (Outcome::Killed(signal), false) = (outcome, options.quiet) {
                message::say(format_args!("killed by {}, as recorded", signals::name(*signal)));
            }
            outcome.exit_status()
        }
        Ending::RecordingEnds(outcome) => {
            if !options.quiet {
                tell_end(replayer, *outcome);
            }
            outcome.map_or(0, Outcome::exit_status)
        }
        Ending::Interrupted(signal) => (SIGNAL_BASE + signal) as u8,
        Ending::Unread(Errno::PIPE) => (SIGNAL_BASE + SIGPIPE) as u8,
        Ending::Unread(error) => {
            let cause = io::Error::from(*error);
            message::say(format_args!(
                "replay {}: show what the program wrote: {cause}; check where the output leads",
                replayer.folder().display()
            ));
            DIVERGED
        }
        Ending::Shares { process } => {
            message::say(format_args!(
                "replay {} --process: process {process} shares writable memory with the processes that it makes, which \
                 can only be replayed together; leave out --process",
                replayer.folder().display()
            ));
            DIVERGED
        }
        Ending::Diverged(report) => {
            tell(replayer, report);
            DIVERGED
        }
    }
}

fn tell_end(replayer: &Replayer, outcome: Option<Outcome>) {
    message::say(format_args!("the recording ends here: {}", why_it_ends(replayer.recording(), outcome)));
}

fn why_it_ends(recording: &Recording, outcome: Option<Outcome>) -> String {
    let stopped = recording.processes().find_map(|process| match process.end {
        End::Stopped { reason, .. } => Some(reason),
        _ => None,
    });
    let lacks = |file: &FileEntry| recording.process(file.process).is_none();
    match (stopped, outcome) {
        (None, Some(Outcome::Exited(_))) if recording.manifest.files.iter().any(lacks) => {
            "there was no space to record one of its processes".to_owned()
        }
        (Some(stop::NO_SPACE), _) => "the disk was full".to_owned(),
        (Some(stop::NO_LAUNCHER), _) => "the recorder was killed".to_owned(),
        (Some(stop::CLOSED), _) | (None, Some(Outcome::Exited(_))) => {
            "a process went on after the first ended".to_owned()
        }
        (Some(stop::LIMIT), _) => "it had reached its limit of time or size".to_owned(),
        (Some(_), _) => "the program did what can't be recorded".to_owned(),
        (None, Some(Outcome::Killed(signal))) => format!("killed by {}", signals::name(signal)),
        (None, None) => "it was not finished".to_owned(),
    }
}

fn tell(replayer: &Replayer, report: &Report) {
    message::say(format_args!("replay {} diverged: {}", replayer.folder().display(), report.headline));
    for stand in &report.stands {
        message::say(format_args!("  {stand}"));
    }
    message::say(format_args!("likely cause: {}", report.likely));
}

/// Replays `count` times and compares output and exit status with the first.
fn repeat(replayer: &Replayer, options: &ReplayArgs, count: u32) -> Result<u8> {
    let mut first = None;
    for number in 1..=count {
        let mut tap = Tap::new(first.is_none() && !options.quiet);
        let ending = once(replayer, options, Some(&mut tap))?;
        let status = conclude(replayer, &ending, options);
        if matches!(ending, Ending::Diverged(_) | Ending::Interrupted(_) | Ending::Shares { .. } | Ending::Unread(_)) {
            return Ok(status);
        }
        let seen = (status, tap.bytes, tap.hash.finish());
        match first {
            None => first = Some(seen),
            Some(first) if first == seen => {}
            Some((status, bytes, _)) if (status, bytes) != (seen.0, seen.1) => {
                bail!(
                    "replay {number} of {count} differs from the first: exit status {} and {} bytes of output, first \
                     {status} and {bytes}; the program's input or surroundings changed, or it has a data race",
                    seen.0,
                    seen.1
                );
            }
            Some(_) => bail!(
                "replay {number} of {count} differs from the first in its output; the program's input or surroundings \
                 changed, or it has a data race"
            ),
        }
    }
    if !options.quiet {
        message::say(format_args!("{count} replays, same output and exit status"));
    }
    Ok(first.map_or(0, |(status, _, _)| status))
}

/// A replay under gdb that stops before the accesses of a race.
fn at_race(replayer: Replayer, name: &str, options: &ReplayArgs) -> Result<u8> {
    let search = RacesArgs { allow_processor: options.allow_processor, ..RacesArgs::of_recording(options.quiet) };
    let meeting = match races::meeting(replayer.folder(), name, &search)? {
        Ok(meeting) => meeting,
        Err(status) => return Ok(status),
    };
    let replayer = match replayer.process_of(&meeting) {
        None => replayer,
        Some(process) => replayer.only(process)?,
    };
    if !options.quiet && meeting.passes() > MANY {
        message::say(format_args!(
            "gdb counts up to {} passes of its instructions; this takes a while",
            meeting.passes()
        ));
    }
    debug(&replayer, Some(&meeting), options)
}

fn debug(replayer: &Replayer, meeting: Option<&Meeting>, options: &ReplayArgs) -> Result<u8> {
    let debugger = Debugger { meeting, commands: &options.gdb_command, batch: options.gdb_batch };
    let outcome = replayer.debug(&debugger, |note| match note {
        Note::Diverged(report) => tell(replayer, &report),
        Note::Passed(report) => message::say(format_args!("{}; the replay goes on", report.headline)),
        Note::RecordingEnds(outcome) => tell_end(replayer, outcome),
    })?;
    Ok(outcome.exit_status())
}

/// Counts and sums up a replay's output, and passes it on if it is the first.
struct Tap {
    pass_on: bool,
    bytes: u64,
    hash: DefaultHasher,
}

impl Tap {
    fn new(pass_on: bool) -> Self {
        Self { pass_on, bytes: 0, hash: DefaultHasher::new() }
    }

    fn restart(&mut self) {
        *self = Self::new(self.pass_on);
    }
}

impl Write for Tap {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes += bytes.len() as u64;
        self.hash.write(bytes);
        if self.pass_on {
            io::stdout().write_all(bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}
