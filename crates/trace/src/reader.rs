//! Reads one data file, whatever state the recorded process left it in.
//!
//! The file is walked window by window, never held in memory as a whole; the
//! streams of its threads are. Nothing is believed: sizes, sequence, clocks and
//! hashes are held against each other (see [`verify`]), and memory grows only
//! with bytes that were really read.
//!
//! A process may have been killed between any two instructions, so the last
//! chunk of each thread and the end of the last window may be half-written;
//! everything before must be exact.

mod verify;

use crate::bytes::{capacity, read_chunk_header, read_file_header};
use crate::error::{Fault, Problem, ReadError};
use crate::layout::{
    CHUNK_HEADER_BYTES, CHUNK_MAGIC, CHUNK_SIZES, ChunkHeader, FILE_HEADER_BYTES, FILE_MAGIC, FileHeader, READABLE,
    WINDOW_BYTES, end, stop,
};
use crate::stream::ThreadStream;
use std::collections::BTreeMap;
use std::fs::File;
use std::hash::Hasher;
use std::io::{ErrorKind, Read};
use std::path::Path;
use twox_hash::XxHash3_64;
use verify::Verifier;

/// What a data file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Series {
    /// A recording, `p{process:05}.trace`.
    Recorded,
    /// The order that a first replay learnt, `learn-p{process:05}.trace`: waits only.
    Learnt,
}

/// A data file that was read and found consistent.
#[derive(Clone, Debug)]
pub struct DataFile {
    /// Its first page.
    pub header: FileHeader,
    /// The threads that ran in this process image, by ascending index.
    pub threads: Vec<ThreadStream>,
    /// Bytes up to the end of the last chunk.
    pub used_bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// [`checksum`] of the file.
    pub checksum: u64,
}

/// The checksum of a data file's bytes, as the manifest keeps it (XXH3, 64 bits).
///
/// # Errors
/// What reading `file` says.
pub fn checksum(mut file: impl Read) -> std::io::Result<u64> {
    let mut hash = XxHash3_64::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hash.finish()),
            Ok(n) => hash.write(&buffer[..n]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

impl DataFile {
    /// Reads the data file at `path`.
    ///
    /// # Errors
    /// [`ReadError`]: what is wrong and where.
    pub fn open(path: &Path, series: Series) -> Result<Self, ReadError> {
        let file = File::open(path).map_err(|error| ReadError::io(path, error))?;
        Self::read(file, path, series)
    }

    /// Reads a data file from memory; `name` stands in errors.
    ///
    /// # Errors
    /// As [`DataFile::open`].
    pub fn parse(bytes: &[u8], name: &Path, series: Series) -> Result<Self, ReadError> {
        Self::read(bytes, name, series)
    }

    fn read(mut file: impl Read, name: &Path, series: Series) -> Result<Self, ReadError> {
        let mut hash = XxHash3_64::new();
        let mut window = Vec::new();
        let mut walk: Option<Walk> = None;
        let mut offset = 0;
        loop {
            window.clear();
            file.by_ref().take(WINDOW_BYTES).read_to_end(&mut window).map_err(|error| ReadError::io(name, error))?;
            let fail = |(at, problem): (u64, Problem)| ReadError::new(name, Some(at), problem);
            hash.write(&window);
            match &mut walk {
                None => walk = Some(Walk::start(&window, series).map_err(fail)?),
                Some(_) if window.is_empty() => break,
                Some(walk) => walk.window(offset, 0, &window).map_err(fail)?,
            }
            offset += window.len() as u64;
        }
        let walk = walk.expect("the first window, even an empty one, starts the walk");
        let (header, used_bytes) = (walk.header, walk.used);
        let threads = walk.finish().map_err(|(at, problem)| ReadError::new(name, Some(at), problem))?;
        Ok(Self { header, threads, used_bytes, file_bytes: offset, checksum: hash.finish() })
    }
}

type Place<T> = Result<T, (u64, Problem)>;

struct Walk {
    header: FileHeader,
    series: Series,
    threads: BTreeMap<u32, Verifier>,
    /// End of the last chunk.
    used: u64,
    /// A window ended without a chunk that would have filled it: nothing may follow.
    ended: bool,
}

impl Walk {
    fn start(window: &[u8], series: Series) -> Place<Self> {
        let header = file_header(window)?;
        let mut walk = Self { header, series, threads: BTreeMap::new(), used: FILE_HEADER_BYTES, ended: false };
        if window.len() < FILE_HEADER_BYTES as usize {
            return Err((window.len() as u64, Problem::Truncated));
        }
        let page = &window[size_of::<FileHeader>()..FILE_HEADER_BYTES as usize];
        expect_zeros(page, size_of::<FileHeader>() as u64)?;
        walk.window(0, FILE_HEADER_BYTES as usize, window)?;
        Ok(walk)
    }

    /// Walks the chunks of the window at `offset`, the first of them at `at` in it.
    fn window(&mut self, offset: u64, mut at: usize, window: &[u8]) -> Place<()> {
        if self.ended {
            return expect_zeros(window, offset);
        }
        let first = at;
        while window.len() - at >= CHUNK_HEADER_BYTES as usize {
            let place = offset + at as u64;
            let header = read_chunk_header(&window[at..]).expect("enough bytes for a chunk header");
            if header.magic != CHUNK_MAGIC {
                break;
            }
            let size = check_shape(&header).map_err(|fault| (place, fault.into()))?;
            if at + size > WINDOW_BYTES as usize {
                return Err((place, field("chunk size", header.size).into()));
            }
            let Some(chunk) = window.get(at..at + size) else {
                return Err((offset + window.len() as u64, Problem::Truncated));
            };
            self.chunk(header, chunk, place)?;
            at += size;
            self.used = offset + at as u64;
        }
        self.rest_of_window(offset, first, at, window)
    }

    /// A window ends where the next chunk did not fit, or where the file's last chunk ended.
    fn rest_of_window(&mut self, offset: u64, first: usize, at: usize, window: &[u8]) -> Place<()> {
        let largest = CHUNK_SIZES[CHUNK_SIZES.len() - 1] as usize;
        let rest = &window[at..];
        let full = window.len() as u64 == WINDOW_BYTES && rest.len() < largest && at > first;
        self.ended = !full;
        // The last header may be half-written; its magic comes last.
        let half_written = rest.len().min(if full { 0 } else { CHUNK_HEADER_BYTES as usize });
        let cut = (window.len() as u64) < WINDOW_BYTES && rest.len() < CHUNK_HEADER_BYTES as usize;
        if cut && rest.iter().any(|&b| b != 0) {
            return Err((offset + window.len() as u64, Problem::Truncated));
        }
        if rest.len() >= 4 && rest[..4] != [0; 4] {
            return Err((offset + at as u64, Fault::NoChunk.into()));
        }
        expect_zeros(&rest[half_written..], offset + (at + half_written) as u64)
    }

    fn chunk(&mut self, header: ChunkHeader, chunk: &[u8], place: u64) -> Place<()> {
        let payload = &chunk[CHUNK_HEADER_BYTES as usize..][..header.used as usize];
        let added = match self.threads.get_mut(&header.thread) {
            Some(thread) => thread.next_chunk(header, payload),
            None => Verifier::start(header, payload, self.series).map(|thread| {
                self.threads.insert(header.thread, thread);
            }),
        };
        added.map_err(|fault| (place, fault.into()))
    }

    fn finish(self) -> Place<Vec<ThreadStream>> {
        if self.threads.is_empty() {
            return Err((FILE_HEADER_BYTES, Problem::Empty));
        }
        let main = self.header.main_thread;
        if !self.threads.contains_key(&main) {
            return Err((0, field("main thread", main).into()));
        }
        let end = self.used;
        self.threads.into_values().map(Verifier::finish).collect::<Result<_, _>>().map_err(|fault| (end, fault.into()))
    }
}

pub(crate) fn field(field: &'static str, value: impl Into<u64>) -> Fault {
    Fault::Field { field, value: value.into() }
}

fn expect_zeros(bytes: &[u8], offset: u64) -> Place<()> {
    match bytes.iter().position(|&b| b != 0) {
        Some(at) => Err((offset + at as u64, Fault::NoChunk.into())),
        None => Ok(()),
    }
}

/// What a chunk header must satisfy on its own. Returns the chunk's size.
fn check_shape(header: &ChunkHeader) -> Result<usize, Fault> {
    let legal = CHUNK_SIZES[(header.sequence as usize).min(CHUNK_SIZES.len() - 1)];
    if header.size != legal {
        return Err(field("chunk size", header.size));
    }
    if header.used > capacity(header) {
        return Err(field("payload size", header.used));
    }
    if header.flags & !crate::layout::CHUNK_FLAGS != 0 {
        return Err(field("thread flags", header.flags));
    }
    Ok(header.size as usize)
}

fn file_header(window: &[u8]) -> Place<FileHeader> {
    if window.is_empty() {
        return Err((0, Problem::Empty));
    }
    let start = &window[..window.len().min(8)];
    if start != &FILE_MAGIC[..start.len()] {
        // A process that was killed before its first chunk leaves reserved space only.
        let empty = start.len() == 8 && window.iter().all(|&b| b == 0);
        return Err((0, if empty { Problem::Empty } else { Problem::NotATrace }));
    }
    let Some(header) = read_file_header(window) else {
        return Err((window.len() as u64, Problem::Truncated));
    };
    match header.version {
        version if READABLE.contains(&version) => {}
        0 => return Err((8, field("version", 0u32).into())),
        found => return Err((8, Problem::Newer { found })),
    }
    if header.end > end::STOPPED {
        return Err((0, field("end", header.end).into()));
    }
    if header.stop_reason > stop::LIMIT || (header.end != end::STOPPED && header.stop_reason != stop::NONE) {
        return Err((0, field("stop reason", header.stop_reason).into()));
    }
    Ok(header)
}
