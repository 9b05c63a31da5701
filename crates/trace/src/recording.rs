//! A whole recording: the data files of a trace folder, held against each other.
//!
//! Reading order for a user: [`Recording::open`], then [`Recording::threads`]
//! and the events of each.

mod files;
mod tree;

use crate::error::{Fault, Problem, ReadError};
use crate::layout::{self, NONE, end};
use crate::manifest::{Manifest, State};
use crate::reader::DataFile;
use crate::stream::ThreadStream;
pub use files::inputs_name;
use std::path::Path;
use twox_hash::XxHash3_128;

/// Indices that may be missing: processes killed between taking one and writing the first chunk.
pub(crate) const MISSING_MAX: u32 = 1 << 16;

/// A recording, verified.
#[derive(Clone, Debug)]
pub struct Recording {
    /// What was recorded.
    pub manifest: Manifest,
    /// By index; `None` where the process was killed before its first chunk.
    threads: Vec<Option<ThreadStream>>,
    processes: Vec<Option<Process>>,
    /// By thread: the indices of its children, by child number.
    children: Vec<Vec<u32>>,
    cut: Option<u64>,
}

/// A recorded process image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Index in the recording.
    pub index: u32,
    /// Process id it had.
    pub pid: u32,
    /// Its first thread.
    pub main_thread: u32,
    /// How its recording ended.
    pub end: End,
    /// Bytes of its chunks.
    pub bytes: u64,
    /// The threads that ran in it, by ascending index.
    pub threads: Vec<u32>,
}

/// How the recording of a process image ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was killed, or still ran when the recording closed.
    Live,
    /// It exited.
    Exited {
        /// With this code.
        code: u32,
        /// Thread that ran `exit`, if it is known.
        thread: Option<u32>,
    },
    /// It replaced its image.
    Executed {
        /// Thread that ran exec, if it is known.
        thread: Option<u32>,
    },
    /// Recording stopped before the process did.
    Stopped {
        /// One of [`layout::stop`].
        reason: u32,
        /// Events with a later timestamp are not part of the recording.
        clock: u64,
    },
}

impl Recording {
    /// Reads and verifies the trace in `folder`.
    ///
    /// # Errors
    /// [`ReadError`]: what is wrong with which file.
    pub fn open(folder: &Path) -> Result<Self, ReadError> {
        let manifest = Manifest::read(folder)?;
        let mut found = Vec::new();
        match manifest.state {
            State::Complete => {
                for entry in &manifest.files {
                    found.extend(files::skip_empty(files::open_listed(folder, entry), entry.process)?);
                }
                for entry in &manifest.inputs {
                    files::check_inputs(folder, entry)?;
                }
            }
            State::Unfinished => {
                for (process, path) in files::data_files(folder)? {
                    found.extend(files::skip_empty(files::open_file(&path, process), process)?);
                }
            }
        }
        if found.first().is_none_or(|file| file.header.process != 0) {
            return Err(ReadError::new(folder, None, Problem::Empty));
        }
        Self::assemble(manifest, found, folder)
    }

    /// Puts the data files of one recording together; `folder` stands in errors.
    ///
    /// # Errors
    /// [`ReadError`] if they contradict each other.
    pub fn assemble(manifest: Manifest, files: Vec<DataFile>, folder: &Path) -> Result<Self, ReadError> {
        let fail = |fault: Fault| ReadError::new(folder, None, fault.into());
        let cut = files.iter().filter(|f| f.header.end == end::STOPPED).map(|f| f.header.stop_clock).min();
        let mut processes = Vec::new();
        let mut threads = Vec::new();
        let known = files.iter().map(|file| file.threads.len() as u32).sum::<u32>();
        for file in files {
            let process = process(&file);
            put(&mut processes, process.index, process, known).map_err(fail)?;
            for mut thread in file.threads {
                if let Some(clock) = cut {
                    thread.cut(clock);
                }
                put(&mut threads, thread.index, thread, known).map_err(fail)?;
            }
        }
        let children = tree::build(&threads).map_err(fail)?;
        let recording = Self { manifest, threads, processes, children, cut };
        recording.check_exits().map_err(fail)?;
        Ok(recording)
    }

    /// The recorded threads, by ascending index.
    pub fn threads(&self) -> impl Iterator<Item = &ThreadStream> {
        self.threads.iter().flatten()
    }

    /// The thread with this index.
    pub fn thread(&self, index: u32) -> Option<&ThreadStream> {
        self.threads.get(index as usize)?.as_ref()
    }

    /// One more than the largest thread index; some indices below may have no thread.
    pub fn thread_count(&self) -> u32 {
        self.threads.len() as u32
    }

    /// The recorded process images, by ascending index.
    pub fn processes(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter().flatten()
    }

    /// The process image with this index.
    pub fn process(&self, index: u32) -> Option<&Process> {
        self.processes.get(index as usize)?.as_ref()
    }

    /// One more than the largest process index.
    pub fn process_count(&self) -> u32 {
        self.processes.len() as u32
    }

    /// The process image that a thread ran in.
    pub fn process_of(&self, thread: u32) -> Option<&Process> {
        self.processes().find(|process| process.threads.binary_search(&thread).is_ok())
    }

    /// A thread's children by child number; [`NONE`] where a number has no thread.
    pub fn children(&self, thread: u32) -> &[u32] {
        self.children.get(thread as usize).map_or(&[], Vec::as_slice)
    }

    /// A thread's deterministic name: the path of child numbers from `0`, the first thread.
    pub fn name(&self, thread: u32) -> String {
        let mut numbers = Vec::new();
        let mut at = thread;
        while let Some(found) = self.thread(at) {
            let Some(parent) = found.parent else { break };
            numbers.push(found.child_number);
            at = parent;
        }
        numbers.iter().rev().fold("0".to_owned(), |name, number| format!("{name}.{number}"))
    }

    /// Events over all threads.
    pub fn events(&self) -> u64 {
        self.threads().map(|thread| thread.events).sum()
    }

    /// If the recording of a process had to stop: the timestamp after which nothing is part of it any more.
    pub fn cut(&self) -> Option<u64> {
        self.cut
    }

    /// Names this recording's order of events; no other recording has the same.
    pub fn digest(&self) -> u128 {
        let mut hash = XxHash3_128::new();
        for thread in self.threads() {
            let parent = thread.parent.unwrap_or(NONE);
            for word in [thread.index, parent, thread.child_number, u32::from(thread.finished)] {
                hash.write(&word.to_le_bytes());
            }
            for word in [thread.start_clock, thread.events, thread.stream.len() as u64] {
                hash.write(&word.to_le_bytes());
            }
            hash.write(&thread.stream);
        }
        hash.finish_128()
    }

    fn check_exits(&self) -> Result<(), Fault> {
        for process in self.processes() {
            let (End::Exited { thread: Some(thread), .. } | End::Executed { thread: Some(thread) }) = process.end
            else {
                continue;
            };
            if process.threads.binary_search(&thread).is_err() {
                return Err(Fault::Field { field: "exit thread", value: thread.into() });
            }
        }
        Ok(())
    }
}

fn process(file: &DataFile) -> Process {
    let header = &file.header;
    let thread = (header.exit_thread != NONE).then_some(header.exit_thread);
    Process {
        index: header.process,
        pid: header.pid,
        main_thread: header.main_thread,
        end: match header.end {
            end::EXITED => End::Exited { code: header.exit_code, thread },
            end::EXECUTED => End::Executed { thread },
            end::STOPPED => End::Stopped { reason: header.stop_reason, clock: header.stop_clock },
            _ => End::Live,
        },
        bytes: file.used_bytes - layout::FILE_HEADER_BYTES,
        threads: file.threads.iter().map(|thread| thread.index).collect(),
    }
}

/// Puts an item at its index, which must be free and not leave out too many.
fn put<T>(items: &mut Vec<Option<T>>, index: u32, item: T, known: u32) -> Result<(), Fault> {
    if index >= known.saturating_add(MISSING_MAX) {
        return Err(Fault::Sparse { thread: index, known });
    }
    let at = index as usize;
    if items.len() <= at {
        items.resize_with(at + 1, || None);
    }
    match items[at].replace(item) {
        None => Ok(()),
        Some(_) => Err(Fault::Identity { thread: index }),
    }
}
