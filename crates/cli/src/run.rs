//! `relive run`: run a program under the translator, without a recording.

use crate::args::RunArgs;
use crate::embedded;
use crate::message::ExitWith;
use crate::record::{NOT_EXECUTABLE, with_exit_code};
use anyhow::Result;
use relive_session::program::Program;
use relive_session::run::become_translated;

/// Becomes the program.
pub(crate) fn run(options: &RunArgs) -> Result<u8> {
    let program = Program::find(&options.program).map_err(with_exit_code)?;
    let cause = become_translated(&program, &embedded::runtime()?);
    let message = format!("start {}: {cause}", program.path.display());
    Err(ExitWith { code: NOT_EXECUTABLE, message }.into())
}
