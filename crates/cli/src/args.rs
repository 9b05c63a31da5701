//! The command line: names, help and parsing in one place.
//!
//! The shell completions and the man page are generated from these types.

use crate::completions::{CompletionsArgs, ManArgs};
use crate::doctor::DoctorArgs;
use crate::dump::DumpArgs;
use crate::ls::LsArgs;
use crate::rm::RmArgs;
use crate::stats::StatsArgs;
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

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
    /// Count what a recording holds
    Stats(StatsArgs),
    /// Print a recording's records
    Dump(DumpArgs),
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
    /// Say nothing but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
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
    /// The trace: a folder, or a name in the trace folder [default: the latest]
    pub(crate) trace: Option<PathBuf>,
    /// Start gdb on the replay
    #[arg(long)]
    pub(crate) gdb: bool,
    /// A command for gdb to run at its start; may be repeated
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
    /// Say nothing but errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[cfg(test)]
mod tests {
    use super::{Arguments, Command};
    use clap::{CommandFactory, Parser};

    #[test]
    fn the_definitions_are_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn options_after_the_program_belong_to_the_program() {
        let parsed = Arguments::parse_from(["relive", "record", "-o", "t", "prog", "-o", "--", "x"]);
        let Command::Record(record) = parsed.command else { panic!("not record") };
        assert_eq!(record.program, ["prog", "-o", "--", "x"]);
        assert_eq!(record.output.as_deref(), Some(std::path::Path::new("t")));
    }
}
