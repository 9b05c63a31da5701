//! The `relive` binary: picks the command, turns errors into one line and an exit code.
//!
//! Everything that prints or exits is in this crate; one module a command.
#![forbid(unsafe_code)]

mod args;
mod completions;
mod doctor;
mod dump;
mod embedded;
mod learn;
mod ls;
mod message;
mod output;
mod pack;
mod races;
mod record;
mod replay;
mod rm;
mod run;
mod stats;

use args::{Arguments, Command};
use clap::Parser;
use relive_session::file_limit;
use std::process::ExitCode;

/// Exit status of the tool's own failures and of divergences.
const OWN_FAILURE: u8 = 125;
/// Exit status where the command line is not understood.
const USAGE: i32 = 125;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            let code = if error.use_stderr() { USAGE } else { 0 };
            std::process::exit(code);
        }
    };
    // Who becomes the program keeps its limit.
    if !matches!(arguments.command, Command::Run(_)) {
        file_limit::raise();
    }
    let starts =
        matches!(arguments.command, Command::Record(_) | Command::Replay(_) | Command::Races(_) | Command::Run(_));
    if starts && embedded::is_recorded() {
        message::say(
            "start a program: relive itself is being recorded or replayed, which can't be nested; start it outside",
        );
        return ExitCode::from(OWN_FAILURE);
    }
    let outcome = match arguments.command {
        Command::Record(options) => record::run(&options),
        Command::Replay(options) => replay::run(&options),
        Command::Races(options) => races::run(&options),
        Command::Run(options) => run::run(&options),
        Command::Stats(options) => stats::run(&options),
        Command::Dump(options) => dump::run(&options),
        Command::Pack(options) => pack::pack(&options),
        Command::Unpack(options) => pack::unpack(&options),
        Command::Ls(options) => ls::run(&options),
        Command::Rm(options) => rm::run(&options),
        Command::Doctor(options) => doctor::run(&options),
        Command::Completions(options) => completions::completions(&options),
        Command::Man(options) => completions::man(&options),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            message::error(&error);
            ExitCode::from(message::exit_code(&error).unwrap_or(OWN_FAILURE))
        }
    }
}
