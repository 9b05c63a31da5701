//! Why a trace can't be read.
//!
//! Apart because every part of the reader's side speaks of the same few causes,
//! and the command line turns each into one line with a remedy.

use crate::record::Malformed;
use std::io;
use std::path::{Path, PathBuf};

/// A file of a trace can't be read, or not be trusted.
#[derive(Debug, thiserror::Error)]
#[error("read {}{}: {problem}; {}", file.display(), place(*offset), problem.remedy())]
pub struct ReadError {
    /// The file or folder.
    pub file: PathBuf,
    /// Where in it, in bytes, if that is known.
    pub offset: Option<u64>,
    /// What is wrong.
    pub problem: Problem,
}

fn place(offset: Option<u64>) -> String {
    offset.map(|at| format!(" at byte {at}")).unwrap_or_default()
}

/// What is wrong with a file of a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The system refused.
    #[error("{0}")]
    Io(io::Error),
    /// Something else than a trace.
    #[error("not a relive trace")]
    NotATrace,
    /// Written by a later version.
    #[error("trace format {found}, this relive reads up to {}", crate::layout::FORMAT_VERSION)]
    Newer {
        /// The version it names.
        found: u32,
    },
    /// The end is missing.
    #[error("truncated")]
    Truncated,
    /// The program ended before the first event.
    #[error("nothing was recorded")]
    Empty,
    /// It contradicts itself or its checksum.
    #[error("corrupt: {0}")]
    Corrupt(Fault),
}

impl Problem {
    /// What the user can do.
    pub fn remedy(&self) -> &'static str {
        match self {
            Problem::Io(error) if error.kind() == io::ErrorKind::NotFound => "`relive ls` lists the traces",
            Problem::Io(_) => "check the trace folder",
            Problem::NotATrace => "name a folder that `relive record` made",
            Problem::Newer { .. } => "read it with the relive that recorded it",
            Problem::Truncated | Problem::Corrupt(_) => "restore the file or record again",
            Problem::Empty => "`relive doctor PROGRAM` tells why a program can't be recorded",
        }
    }
}

/// How a trace contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Length and checksum stand in the manifest.
    #[error("its checksum differs from the recorded one")]
    Checksum,
    /// A complete manifest names each file's length.
    #[error("it has {found} bytes, {expected} were recorded")]
    Length {
        /// In the manifest.
        expected: u64,
        /// On disk.
        found: u64,
    },
    /// A file's name and content disagree.
    #[error("it is the file of process {found}, not {expected}")]
    Process {
        /// By its name.
        expected: u32,
        /// By its header.
        found: u32,
    },
    /// A header field holds what no version of the writer stores there.
    #[error("{field} can't be {value}")]
    Field {
        /// Which.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// Bytes that should be zero are not, or no chunk starts where one must.
    #[error("no chunk starts here")]
    NoChunk,
    /// Chunks of a thread are missing, repeated or out of order.
    #[error("chunk {found} of thread {thread} stands where chunk {expected} should")]
    Sequence {
        /// The thread.
        thread: u32,
        /// The next in order.
        expected: u32,
        /// What stands there.
        found: u32,
    },
    /// Two chunks of a thread disagree about where it came from, or its progress runs backwards.
    #[error("the chunks of thread {thread} contradict each other")]
    Identity {
        /// The thread.
        thread: u32,
    },
    /// The byte code can't be decoded.
    #[error("thread {thread}: {}", malformed(*.cause))]
    Record {
        /// The thread.
        thread: u32,
        /// Why.
        cause: Malformed,
    },
    /// A record stands where the writer can't have put it.
    #[error("thread {thread}: a record stands after event {events}, where none can")]
    Position {
        /// The thread.
        thread: u32,
        /// The event number.
        events: u64,
    },
    /// A chunk header's clock is not what its records add up to.
    #[error("thread {thread}: its records add up to clock {computed}, its header says {stored}")]
    Clock {
        /// The thread.
        thread: u32,
        /// By the records.
        computed: u64,
        /// By the header.
        stored: u64,
    },
    /// A chunk header's hash is not the one stored at the same event.
    #[error("thread {thread}: its check hash differs from its last stored one")]
    Hash {
        /// The thread.
        thread: u32,
    },
    /// A thread whose parent, child number or start can't be.
    #[error("thread {thread} can't be child {child_number} of thread {parent}")]
    Tree {
        /// The thread.
        thread: u32,
        /// Its parent as stored.
        parent: u32,
        /// Its number as stored.
        child_number: u32,
    },
    /// A thread index that leaves too many others out.
    #[error("a recording with a thread {thread} would have more than {known} threads")]
    Sparse {
        /// The index.
        thread: u32,
        /// Threads found.
        known: u32,
    },
    /// JSON that is no manifest.
    #[error("{0}")]
    Manifest(String),
}

fn malformed(cause: Malformed) -> String {
    match cause {
        Malformed::Truncated => "a record is cut off".to_owned(),
        Malformed::Unknown(code) => format!("unknown code {code:#04x}"),
        Malformed::Range => "a number is out of range".to_owned(),
    }
}

impl ReadError {
    pub(crate) fn new(file: &Path, offset: Option<u64>, problem: Problem) -> Self {
        Self { file: file.to_owned(), offset, problem }
    }

    pub(crate) fn io(file: &Path, error: io::Error) -> Self {
        let problem =
            if error.kind() == io::ErrorKind::UnexpectedEof { Problem::Truncated } else { Problem::Io(error) };
        Self::new(file, None, problem)
    }
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        Problem::Corrupt(fault)
    }
}
