//! The command line: names, help and parsing in one place.
//!
//! The shell completions and the man page are generated from these types.

use crate::completions::{CompletionsArgs, ManArgs};
use crate::doctor::DoctorArgs;
use crate::dump::DumpArgs;
use crate::ls::LsArgs;
use crate::pack::{PackArgs, UnpackArgs};
use crate::rm::RmArgs;
use crate::stats::StatsArgs;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use relive_session::redact::Pattern;
use relive_trace::manifest;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Record a parallel program once, replay it as often as you need.
#[derive(Debug, Parser)]
#[command(name = "relive", version, about)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program and record it
    Record(RecordArgs),
    /// Run a recording again
    Replay(ReplayArgs),
    /// Replay a recording with a detector of data races
    Races(RacesArgs),
    /// Run a program under the translator, neither recorded nor replayed
    Run(RunArgs),
    /// Count what a recording holds
    Stats(StatsArgs),
    /// Print a recording's records
    Dump(DumpArgs),
    /// Put a trace and the programs in it into one file
    Pack(PackArgs),
    /// Make a trace folder of a packed trace
    Unpack(UnpackArgs),
    /// List the traces
    Ls(LsArgs),
    /// Remove traces
    Rm(RmArgs),
    /// Check whether this machine and a program can be recorded
    Doctor(DoctorArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print the manual page
    Man(ManArgs),
}

/// `relive record`
#[derive(Debug, Args)]
#[command(after_help = "The exit status is the program's; 128+S if signal S killed it; 125 if recording failed, \
126 if the program can't be executed, 127 if it wasn't found.")]
pub(crate) struct RecordArgs {
    #[arg(
        short,
        long,
        value_name = "DIR",
        help = "Folder to create for the trace [default: PROGRAM-N in $RELIVE_TRACE_DIR or the user's data folder]"
    )]
    pub(crate) output: Option<PathBuf>,
    /// Record what the program takes from outside, too, so that a replay needs none of it (experimental)
    #[arg(long)]
    pub(crate) environment: bool,
    /// What is ordered
    ///
    /// sync: synchronisation by calls, and with --environment what the kernel carries from thread to thread. atomics: also
    /// each instruction that changes memory indivisibly, in program and libraries, and each access that debug information says
    /// is one to an atomic or volatile variable, for locks and queues that are made of these; implies --environment.
    #[arg(long, value_name = "LEVEL", default_value = "sync", hide_possible_values = true)]
    pub(crate) level: Level,
    /// Record again and again until nothing is left that races unordered, or recordings replay; implies --level atomics
    ///
    /// Threads may hand over by plain loads and stores, of an atomic variable or of one that should be. Each recording is
    /// searched for such accesses, as `relive races` does, and the next one orders them, too. What was learnt is kept: later
    /// recordings of the program at this level order it from the beginning. It ends when two searches in a row find nothing
    /// new, or four recordings in a row have replayed three times each. The last recording remains.
    #[arg(long)]
    pub(crate) learn: bool,
    /// Keep what is learnt in this file, and order what stands there; implies --level atomics
    ///
    /// Else it is kept in the user's cache, for all recordings. A file can be checked in with the program: what was learnt in
    /// one build is found in others by the names of functions and variables, if they have symbols. Only --learn and
    /// `relive races` write to it.
    #[arg(long, value_name = "FILE")]
    pub(crate) learnt: Option<PathBuf>,
    /// Keep the values of matching environment variables out of the trace; may be repeated
    ///
    /// The pattern is a shell's, on the variable's name: --redact-env '*TOKEN*'. The program has the values while it is
    /// recorded; in a replay it finds as many letters x in their place, so that addresses stay the same. What it does
    /// with a value (prints it, writes it to a file, hands it on as an argument) is not redacted. With --environment whoever
    /// opens /proc/PID/environ finds the letters while it is recorded, too.
    #[arg(long, value_name = "PATTERN", value_parser = OsStringValueParser::new().try_map(Pattern::new))]
    pub(crate) redact_env: Vec<Pattern>,
    /// Stop recording after this time, such as 90s or 10m; the program goes on
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// Stop recording when the trace has this size, such as 500M or 2G; the program goes on
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) max_size: Option<u64>,
    /// Say nothing but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// What to do with the recording once it is made; implies --environment
    ///
    /// races: looks for data races, as `relive races` does, and prints what it finds on standard error. The exit status is
    /// the program's, unless that is 0: then it is that of `relive races`.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) then: Option<Then>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

impl RecordArgs {
    /// Those of a recording for `relive races --live`.
    pub(crate) fn of_environment(program: Vec<OsString>, quiet: bool) -> Self {
        Self {
            output: None,
            environment: true,
            level: Level::Sync,
            learn: false,
            learnt: None,
            redact_env: Vec::new(),
            duration: None,
            max_size: None,
            quiet,
            then: None,
            program,
        }
    }
}

/// What a recording orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Level {
    Sync,
    Atomics,
}

impl From<Level> for manifest::Level {
    fn from(level: Level) -> Self {
        match level {
            Level::Sync => Self::Sync,
            Level::Atomics => Self::Atomics,
        }
    }
}

/// What follows a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Then {
    /// `relive races`
    Races,
}

/// `relive races`
#[derive(Debug, Args)]
#[command(
    after_help = "The exit status is 0 if no race was found, 66 if there are some, 125 if the replay went another \
way than the recording or the recording can't be used."
)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct RacesArgs {
    /// The trace, recorded with --environment: a folder, a packed file, or a name in the trace folder [default: the latest]
    pub(crate) trace: Option<PathBuf>,
    /// How to print what was found
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) format: RacesFormat,
    /// Hide the races that a file of suppressions, in the syntax of `ThreadSanitizer`, names; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) suppressions: Vec<PathBuf>,
    /// Take what a file names for atomic, or for harmless; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) annotations: Vec<PathBuf>,
    /// Replay although this processor lacks features that the recording's had
    #[arg(long)]
    pub(crate) allow_processor: bool,
    /// Count as well what a detector that stores segments until nothing can race with them would store and compare
    #[arg(long)]
    pub(crate) segments: bool,
    /// Keep in this file, and not in the user's cache, what later recordings at the level of atomics are to order
    #[arg(long, value_name = "FILE")]
    pub(crate) learnt: Option<PathBuf>,
    /// Say nothing but the findings and errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Record a program first, and look for races in that run
    #[arg(long, requires = "program", conflicts_with = "trace")]
    pub(crate) live: bool,
    /// With --live: the program and its arguments
    #[arg(last = true, requires = "live", value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

impl RacesArgs {
    /// Those for a recording that was just made.
    pub(crate) fn of_recording(quiet: bool) -> Self {
        Self {
            trace: None,
            format: RacesFormat::Text,
            suppressions: Vec::new(),
            annotations: Vec::new(),
            allow_processor: false,
            segments: false,
            learnt: None,
            quiet,
            live: false,
            program: Vec::new(),
        }
    }
}

/// How races are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RacesFormat {
    /// For people
    Text,
    /// One object; its schema is docs/races.schema.json
    Json,
    /// SARIF 2.1.0, for code review tools
    Sarif,
}

/// `relive run`
#[derive(Debug, Args)]
#[command(after_help = "The exit status is the program's; 126 if it can't be executed, 127 if it wasn't found.")]
pub(crate) struct RunArgs {
    /// Translate all its code, with a tool that inserts nothing: what `relive races` does to a program, without the
    /// detector
    #[arg(long, required = true)]
    pub(crate) dbi: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

/// `relive replay`
#[derive(Debug, Args)]
#[command(after_help = "The exit status is the recorded one; 128+S if signal S ended the recording; 125 if the \
replay went another way than the recording.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct ReplayArgs {
    /// The trace: a folder, a packed file, or a name in the trace folder [default: the latest]
    pub(crate) trace: Option<PathBuf>,
    /// Of a recorded tree of processes, replay only this one; `relive stats` lists them with their numbers
    ///
    /// It must have been recorded with --environment. What the process wrote to its standard output and error is shown,
    /// wherever that led; the exit status is its own. Its ancestors run up to the fork that leads to it, and show
    /// nothing; no other process is started, its own children neither. With --gdb, gdb is attached to it at its first
    /// moment: set breakpoints and `continue`, where a replay of everything begins with `run`.
    #[arg(long, value_name = "N")]
    pub(crate) process: Option<u32>,
    /// Start gdb on the replay
    #[arg(long)]
    pub(crate) gdb: bool,
    /// Stop in gdb right before the first access of a data race, by its number or fingerprint in what `relive races` printed
    ///
    /// `continue` then leads to right before the second access. Without a search for races before, there is one now. gdb
    /// counts how often the thread comes to the instruction since its last event, which takes a tenth of a millisecond or
    /// more each time.
    #[arg(long, value_name = "RACE", requires = "gdb", conflicts_with = "process")]
    pub(crate) at_race: Option<String>,
    /// A command for gdb to run at its start, or with --at-race when it is there; may be repeated
    #[arg(long, value_name = "COMMAND", requires = "gdb")]
    pub(crate) gdb_command: Vec<String>,
    /// Leave gdb after its commands instead of waiting for more
    #[arg(long, requires = "gdb")]
    pub(crate) gdb_batch: bool,
    /// Replay N times and check that output and exit status agree
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "gdb")]
    pub(crate) repeat: Option<u32>,
    /// Replay although the program or a library was rebuilt
    #[arg(long)]
    pub(crate) allow_rebuilt: bool,
    /// Replay although this processor lacks features that the recording's had
    #[arg(long)]
    pub(crate) allow_processor: bool,
    /// Translate all code of the program, as `races` does, with a tool that inserts nothing
    #[arg(long, conflicts_with = "gdb")]
    pub(crate) dbi: bool,
    /// Show nothing of what the program writes (but under gdb), and say nothing but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Less would hold next to nothing.
const SMALLEST: u64 = 64 << 10;

/// A number of bytes, with K, M, G or T for powers of 1024.
fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &*text[digits.len()..].to_ascii_uppercase() {
        "" => 0,
        "K" | "KIB" => 10,
        "M" | "MIB" => 20,
        "G" | "GIB" => 30,
        "T" | "TIB" => 40,
        unit => return Err(format!("{unit} is no unit of size; use K, M, G or T")),
    };
    let number: u64 = digits.parse().map_err(|_| "a whole number is needed, such as 500M".to_owned())?;
    let bytes = number.checked_mul(1 << shift).ok_or("it is too large")?;
    if bytes < SMALLEST { Err("it must be at least 64K".to_owned()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::{Arguments, Command, size};
    use clap::{CommandFactory, Parser};

    #[test]
    fn the_definitions_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("500M"), Ok(500 << 20));
        assert_eq!(size("2g"), Ok(2 << 30));
        assert_eq!(size("3000000"), Ok(3_000_000));
        assert_eq!(size("4096KiB"), Ok(4 << 20));
        for wrong in ["", "M", "1.5G", "-3M", "5X", "63K", "99999999T", "3 G", "\u{661}M"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn options_after_the_program_belong_to_the_program() {
        let parsed = Arguments::parse_from(["relive", "record", "-o", "t", "prog", "-o", "--", "x"]);
        let Command::Record(record) = parsed.command else { panic!("not record") };
        assert_eq!(record.program, ["prog", "-o", "--", "x"]);
        assert_eq!(record.output.as_deref(), Some(std::path::Path::new("t")));
    }
}
