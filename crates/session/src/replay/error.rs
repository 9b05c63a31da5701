//! Why a recording is not replayed.
//!
//! Apart because each of these is a sentence for the user, with what can be done, and
//! several parts of a replay have one to say.

use crate::file_limit;
use crate::packed::PackedError;
use crate::processor::Lacks;
use crate::program::ProgramError;
use relive_trace::error::ReadError;
use relive_trace::layout::ENVIRONMENT_SINCE;
use std::io;
use std::path::PathBuf;

/// Why there is no replay.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The folder for what a hunt for races finds can't be used.
    #[error("look for races: {0}; set TMPDIR to a folder that can be written")]
    Races(io::Error),
    /// The trace can't be read or trusted.
    #[error(transparent)]
    Trace(#[from] ReadError),
    /// The files that it was packed with can't be used.
    #[error(transparent)]
    Packed(#[from] PackedError),
    /// What its calls carried from thread to thread has no order in it.
    #[error(
        "replay {}: relive had less order in an environment when this was recorded (trace format {format}, \
         replayed since {ENVIRONMENT_SINCE}); replay it with the relive that recorded it, or record again",
        folder.display()
    )]
    Older {
        /// The trace.
        folder: PathBuf,
        /// Its format.
        format: u32,
    },
    /// This machine's processor can't do what the recording's could.
    #[error("replay {}: {cause}; replay it on a processor with them, or try --allow-processor", folder.display())]
    Processor {
        /// The trace.
        folder: PathBuf,
        /// What is missing.
        cause: Lacks,
    },
    /// The program or a library is another one.
    #[error("replay {}: {} was rebuilt or replaced since; restore it, or try --allow-rebuilt", folder.display(), path.display())]
    Rebuilt {
        /// The trace.
        folder: PathBuf,
        /// The file.
        path: PathBuf,
    },
    /// The program or a library is gone.
    #[error("replay {}: {} is not there any more; restore it", folder.display(), path.display())]
    Missing {
        /// The trace.
        folder: PathBuf,
        /// The file or folder.
        path: PathBuf,
    },
    /// There is no process of this number.
    #[error("replay {} --process {number}: there is no such process, only {there}", folder.display())]
    NoProcess {
        /// The trace.
        folder: PathBuf,
        /// The number.
        number: u32,
        /// Those that there are.
        there: String,
    },
    /// The recording does not have what the process took from the others.
    #[error(
        "replay {} --process {number}: what its processes take from one another is not recorded; record with --environment",
        folder.display()
    )]
    NotByItself {
        /// The trace.
        folder: PathBuf,
        /// The process.
        number: u32,
    },
    /// The program can't be started as it was.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The session's own means are not to be had.
    #[error("prepare the replay{}", file_limit::remedy(.0))]
    Session(#[from] io::Error),
    /// gdb could not be started.
    #[error("start gdb: {0}; install it, or have it in $PATH")]
    Gdb(io::Error),
    /// The program could not be started.
    #[error("start {}: {cause}", path.display())]
    Start {
        /// The program.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
}
