//! The processes of a recording: who made whom, in which way, from which file, and
//! how each ended.
//!
//! Apart from the recording because part of it stands nowhere as such: it is read off
//! the calls that the parents made.

use crate::supervise::Outcome;
use relive_trace::layout::NONE;
use relive_trace::record::{Place, Record};
use relive_trace::recording::{End, Process, Recording, inputs_name};
use relive_trace::stream::ThreadStream;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const EXECVE: u16 = 59;
const WAIT4: u16 = 61;
const WAITID: u16 = 247;
/// What `wait4` wrote, if it was asked for the status; without that, usage alone may stand there.
const STATUS: u32 = 4;
const STATUS_AND_USAGE: u32 = 4 + 144;
/// A process has not more images than this; a damaged recording could make a circle.
const IMAGES_MAX: usize = 10_000;

/// How a process image came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It is what was recorded.
    First,
    /// A copy of this image.
    Fork(u32),
    /// A new process with a program of its own, made by this image.
    Spawn(u32),
    /// A new process, made by this image in a way that is not recorded.
    Child(u32),
    /// The same process as this image, with another program.
    Exec(u32),
}

impl Origin {
    /// The image that made it.
    pub fn parent(self) -> Option<u32> {
        match self {
            Origin::First => None,
            Origin::Fork(parent) | Origin::Spawn(parent) | Origin::Child(parent) | Origin::Exec(parent) => Some(parent),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::First => write!(f, "start"),
            Origin::Fork(parent) => write!(f, "fork of {parent}"),
            Origin::Spawn(parent) => write!(f, "spawn of {parent}"),
            Origin::Child(parent) => write!(f, "child of {parent}"),
            Origin::Exec(parent) => write!(f, "exec of {parent}"),
        }
    }
}

/// A process image of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its index: the number that commands take.
    pub index: u32,
    /// How it came to be.
    pub origin: Origin,
    /// The file that it runs, if the recording says.
    pub program: Option<PathBuf>,
}

impl Member {
    /// The file's name, or a question mark.
    pub fn name(&self) -> String {
        let name = self.program.as_deref().and_then(Path::file_name);
        name.map_or_else(|| "?".to_owned(), |name| name.to_string_lossy().into_owned())
    }
}

/// The process images of a recording in `folder`, by ascending index.
pub fn members(recording: &Recording, folder: &Path) -> Vec<Member> {
    let started = starts(recording);
    let mut found: Vec<Member> = Vec::new();
    for process in recording.processes() {
        let Some(parent) = parent_of(recording, process) else {
            let program = Some(recording.manifest.program.path.as_path().to_owned());
            found.push(Member { index: process.index, origin: Origin::First, program });
            continue;
        };
        let executed = started.get(&process.main_thread).map(|call| call.path(folder));
        let same_process = parent.pid == process.pid && matches!(parent.end, End::Executed { .. });
        let origin = match executed {
            _ if same_process => Origin::Exec(parent.index),
            Some(_) => Origin::Spawn(parent.index),
            // Without the environment nothing tells a fork from another program.
            None if !recording.manifest.environment_recorded => Origin::Child(parent.index),
            None => Origin::Fork(parent.index),
        };
        // Who makes another one has the smaller index.
        let inherited = || {
            let at = found.binary_search_by_key(&parent.index, |member| member.index).ok()?;
            found[at].program.clone()
        };
        let program = match (executed, origin) {
            (Some(path), _) => path,
            (None, Origin::Fork(_)) => inherited(),
            (None, _) => None,
        };
        found.push(Member { index: process.index, origin, program });
    }
    found
}

/// The process that is this image's, from here on: this image, and those that it becomes.
pub fn images_from(recording: &Recording, index: u32) -> Vec<u32> {
    let mut images = vec![index];
    while let Some(next) = successor(recording, images[images.len() - 1]).filter(|_| images.len() < IMAGES_MAX) {
        images.push(next);
    }
    images
}

fn successor(recording: &Recording, index: u32) -> Option<u32> {
    let process = recording.process(index).filter(|process| matches!(process.end, End::Executed { .. }))?;
    let next = |other: &&Process| {
        other.pid == process.pid && parent_of(recording, other).is_some_and(|parent| parent.index == index)
    };
    recording.processes().filter(next).last().map(|other| other.index)
}

/// The images that this one's memory comes from, from the first one on, itself left out.
pub fn ancestors(recording: &Recording, index: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut at = recording.process(index);
    while let Some(parent) = at.and_then(|process| parent_of(recording, process)) {
        found.push(parent.index);
        at = Some(parent);
    }
    found.reverse();
    found
}

/// The image that made this one. Thread indices ascend from parent to child, so going on from here there is an end.
fn parent_of<'a>(recording: &'a Recording, process: &Process) -> Option<&'a Process> {
    let thread = recording.thread(process.main_thread)?.parent.filter(|&thread| thread != NONE)?;
    recording.process_of(thread).filter(|parent| parent.index != process.index)
}

/// How a process ended: by its own word, or by that of whoever waited for it.
pub fn outcome(recording: &Recording, process: &Process) -> Option<Outcome> {
    if let End::Exited { code, .. } = process.end {
        return Some(Outcome::Exited((code & 0xFF) as i32));
    }
    let parent =
        recording.processes().flat_map(|process| &process.threads).filter_map(|&index| recording.thread(index));
    parent.filter_map(|thread| waited_for(thread, process.pid)).last()
}

fn waited_for(thread: &ThreadStream, pid: u32) -> Option<Outcome> {
    let mut entries = thread.entries();
    let mut found = None;
    while let Some(entry) = entries.next() {
        let Record::Call { number, result, bytes, place: Place::Stream } = entry.record else { continue };
        let word = |at: usize| entries.payload().get(at..at + 4)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        let told = match number {
            WAIT4 if result == i64::from(pid) && matches!(bytes, STATUS | STATUS_AND_USAGE) => {
                word(0).and_then(of_status)
            }
            WAITID if result == 0 && word(12) == Some(pid) => word(8).zip(word(24)).and_then(of_information),
            _ => None,
        };
        found = told.or(found);
    }
    found
}

/// `wstatus`; of a process that only stopped, or went on, it tells no end.
fn of_status(status: u32) -> Option<Outcome> {
    match (status & 0x7F, status >> 8 & 0xFF) {
        (0, code) => Some(Outcome::Exited(code as i32)),
        (0x7F, _) => None,
        (signal, _) => Some(Outcome::Killed(signal as i32)),
    }
}

/// `si_code` and `si_status`.
fn of_information((code, status): (u32, u32)) -> Option<Outcome> {
    match code {
        1 => Some(Outcome::Exited((status & 0xFF) as i32)),
        2 | 3 => Some(Outcome::Killed(status as i32)),
        _ => None,
    }
}

/// The last attempt of a thread to start a program for a child.
struct Attempt<'a> {
    process: u32,
    bytes: u32,
    place: Place,
    payload: &'a [u8],
}

impl Attempt<'_> {
    fn path(&self, folder: &Path) -> Option<PathBuf> {
        let bytes = match self.place {
            Place::Stream => self.payload.to_vec(),
            Place::Inputs(offset) => {
                let mut bytes = vec![0; self.bytes as usize];
                let file = File::open(folder.join(inputs_name(self.process)));
                file.and_then(|file| file.read_exact_at(&mut bytes, offset)).ok()?;
                bytes
            }
        };
        Some(PathBuf::from(OsString::from_vec(bytes)))
    }
}

/// By the first thread of each image that was started from a file: how its parent started it. The attempt stands behind
/// the event that the child's clock starts with.
fn starts(recording: &Recording) -> BTreeMap<u32, Attempt<'_>> {
    let mut found = BTreeMap::new();
    for process in recording.processes() {
        for thread in process.threads.iter().filter_map(|&index| recording.thread(index)) {
            let children: Vec<&ThreadStream> =
                recording.children(thread.index).iter().filter_map(|&child| recording.thread(child)).collect();
            if children.is_empty() {
                continue;
            }
            let mut attempts = attempts(process.index, thread);
            let times = thread.index();
            for child in children {
                if let Some(attempt) = attempts.remove(&times.events_until(child.start_clock)) {
                    found.insert(child.index, attempt);
                }
            }
        }
    }
    found
}

/// By the number of events before it.
fn attempts(process: u32, thread: &ThreadStream) -> BTreeMap<u64, Attempt<'_>> {
    let mut found = BTreeMap::new();
    let mut entries = thread.entries();
    while let Some(entry) = entries.next() {
        if let Record::Call { number: EXECVE, result: 0.., bytes: bytes @ 1.., place } = entry.record {
            found.insert(entry.event, Attempt { process, bytes, place, payload: entries.payload() });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Outcome, of_information, of_status};

    #[test]
    fn statuses_tell_ends_from_stops() {
        let cases = [
            (0x0300, Some(Outcome::Exited(3))),
            (0x0009, Some(Outcome::Killed(9))),
            (0x008B, Some(Outcome::Killed(11))),
            (0x137F, None),
            (0xFFFF, None),
        ];
        for (status, wanted) in cases {
            assert_eq!(of_status(status), wanted, "{status:#x}");
        }
        assert_eq!(of_information((1, 7)), Some(Outcome::Exited(7)));
        assert_eq!(of_information((3, 11)), Some(Outcome::Killed(11)));
        assert_eq!(of_information((5, 19)), None);
    }
}
