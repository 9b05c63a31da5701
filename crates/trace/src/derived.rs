//! The derived order: for each thread, whom its events wait for, learnt from an
//! actual replay and kept as `derived.order` beside the recording.
//!
//! It is an optimisation, never a source of truth: a file that does not fit its
//! recording exactly is refused, and the replay goes by timestamps. What is
//! accepted can't deadlock, because every wait leads to a smaller timestamp, or
//! (readers of one lock are not ordered) to an equal one without a circle.
//!
//! ```text
//! magic 8 · version u32 · thread count u32 · digest of the recording 16
//! per thread: index u32 · bytes u64 · waits (`record::Record::Wait`)
//! checksum of all before u64 (XXH3)
//! ```

use crate::error::ReadError;
use crate::layout::{FORMAT_VERSION, READABLE, end};
use crate::manifest::owners_file;
use crate::reader::{DataFile, Series};
use crate::record::{Decoder, LAPSES, Record, encode};
use crate::recording::Recording;
use crate::stream::{TimeCursor, TimeIndex};
use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use twox_hash::XxHash3_64;

/// Its name in the trace folder.
pub const DERIVED: &str = "derived.order";
/// Says that the order which replays of a recording learn does not lead to its end: the recording's digest.
pub const REFUTED: &str = "derived.refuted";
/// First bytes of the file.
pub const DERIVED_MAGIC: [u8; 8] = *b"RLVORDR\x01";
const HEAD_BYTES: usize = 32;
const SUM_BYTES: usize = 8;

/// A derived order that fits its recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DerivedOrder {
    digest: u128,
    waits: BTreeMap<u32, Vec<u8>>,
}

/// Why a derived order can't be used. The replay goes by timestamps then.
#[derive(Debug, thiserror::Error)]
pub enum DerivedError {
    /// There is none yet.
    #[error("no derived order")]
    Missing,
    /// The system refused.
    #[error("read the derived order: {0}")]
    Io(io::Error),
    /// Its bytes are not what was written.
    #[error("the derived order is corrupt")]
    Corrupt,
    /// Of another version of the format.
    #[error("the derived order is of another version")]
    Version,
    /// Of another recording.
    #[error("the derived order belongs to another recording")]
    OtherRecording,
    /// A learnt file can't be read.
    #[error(transparent)]
    Learnt(#[from] ReadError),
    /// There was no space for all that a replay learnt.
    #[error("the derived order is incomplete")]
    Incomplete,
    /// A wait that contradicts the recording.
    #[error("the derived order contradicts the recording: event {event} of thread {thread} can't wait for {other}")]
    Contradiction {
        /// The waiting thread.
        thread: u32,
        /// Its event.
        event: u64,
        /// The thread it would wait for.
        other: u32,
    },
}

impl DerivedOrder {
    /// Puts together what a learning replay of `recording` wrote (`learn-p*.trace`).
    ///
    /// # Errors
    /// [`DerivedError`] if a file can't be read or contradicts the recording.
    pub fn from_learnt<'p>(
        recording: &Recording,
        files: impl IntoIterator<Item = &'p Path>,
    ) -> Result<Self, DerivedError> {
        let mut waits = BTreeMap::new();
        for path in files {
            let file = DataFile::open(path, Series::Learnt)?;
            if file.header.end == end::STOPPED {
                return Err(DerivedError::Incomplete);
            }
            for thread in file.threads {
                if waits.insert(thread.index, thread.stream).is_some() {
                    return Err(DerivedError::Corrupt);
                }
            }
        }
        Self { digest: recording.digest(), waits }.checked(recording)
    }

    /// Makes an order from waits: for each thread, pairs of its event number and a wait before it, ascending.
    ///
    /// # Errors
    /// [`DerivedError::Contradiction`] with the recording.
    pub fn from_waits(
        recording: &Recording,
        threads: impl IntoIterator<Item = (u32, Vec<(u64, u32, u64)>)>,
    ) -> Result<Self, DerivedError> {
        let mut waits = BTreeMap::new();
        for (index, list) in threads {
            let stream: &mut Vec<u8> = waits.entry(index).or_default();
            let mut at = 0;
            for (event, thread, events) in list {
                let steps = event.checked_sub(at).ok_or(DerivedError::Corrupt)?;
                stream.extend_from_slice(encode(steps, Record::Wait { thread, events }).as_bytes());
                at = event;
            }
        }
        Self { digest: recording.digest(), waits }.checked(recording)
    }

    /// Reads the order in `folder`, which must belong to `recording`.
    ///
    /// # Errors
    /// [`DerivedError`]; never anything worse than going by timestamps follows from it.
    pub fn read(folder: &Path, recording: &Recording) -> Result<Self, DerivedError> {
        match fs::read(folder.join(DERIVED)) {
            Ok(bytes) => Self::parse(&bytes, recording),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(DerivedError::Missing),
            Err(error) => Err(DerivedError::Io(error)),
        }
    }

    /// Whether a replay by a learnt order left the recording, and one by timestamps did not: some order counts that the
    /// recording has only by chance, and nobody need learn it again.
    pub fn is_refuted(folder: &Path, recording: &Recording) -> bool {
        fs::read(folder.join(REFUTED)).is_ok_and(|digest| digest == recording.digest().to_le_bytes())
    }

    /// From now on [`DerivedOrder::is_refuted`]. Where the trace can't be written, each replay finds out by itself.
    pub fn refute(folder: &Path, recording: &Recording) {
        let _ = fs::remove_file(folder.join(DERIVED));
        let written = owners_file(&folder.join(REFUTED));
        let _ = written.and_then(|mut file| file.write_all(&recording.digest().to_le_bytes()));
    }

    /// Reads an order from memory.
    ///
    /// # Errors
    /// As [`DerivedOrder::read`].
    pub fn parse(bytes: &[u8], recording: &Recording) -> Result<Self, DerivedError> {
        let order = Self::decode(bytes)?;
        if order.digest != recording.digest() {
            return Err(DerivedError::OtherRecording);
        }
        order.checked(recording)
    }

    fn decode(bytes: &[u8]) -> Result<Self, DerivedError> {
        let corrupt = || DerivedError::Corrupt;
        let (body, sum) = bytes.split_last_chunk::<SUM_BYTES>().ok_or_else(corrupt)?;
        if XxHash3_64::oneshot(body) != u64::from_le_bytes(*sum) {
            return Err(DerivedError::Corrupt);
        }
        let (head, mut rest) = body.split_first_chunk::<HEAD_BYTES>().ok_or_else(corrupt)?;
        if head[..8] != DERIVED_MAGIC {
            return Err(DerivedError::Corrupt);
        }
        let version = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        if !READABLE.contains(&version) {
            return Err(DerivedError::Version);
        }
        let count = u32::from_le_bytes([head[12], head[13], head[14], head[15]]);
        let digest = u128::from_le_bytes(*head.last_chunk().ok_or_else(corrupt)?);
        let mut waits = BTreeMap::new();
        for _ in 0..count {
            let (index, after) = rest.split_first_chunk::<4>().ok_or_else(corrupt)?;
            let (length, after) = after.split_first_chunk::<8>().ok_or_else(corrupt)?;
            let (stream, after) = after.split_at_checked(u64::from_le_bytes(*length) as usize).ok_or_else(corrupt)?;
            if waits.insert(u32::from_le_bytes(*index), stream.to_vec()).is_some() {
                return Err(DerivedError::Corrupt);
            }
            rest = after;
        }
        if rest.is_empty() { Ok(Self { digest, waits }) } else { Err(DerivedError::Corrupt) }
    }

    /// The file's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&DERIVED_MAGIC);
        bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&(self.waits.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&self.digest.to_le_bytes());
        for (index, stream) in &self.waits {
            bytes.extend_from_slice(&index.to_le_bytes());
            bytes.extend_from_slice(&(stream.len() as u64).to_le_bytes());
            bytes.extend_from_slice(stream);
        }
        bytes.extend_from_slice(&XxHash3_64::oneshot(&bytes).to_le_bytes());
        bytes
    }

    /// Writes it into `folder`, replacing an earlier one in one step.
    ///
    /// # Errors
    /// What the system says; an earlier one stays then.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let temporary = folder.join(".derived.order.new");
        owners_file(&temporary)?.write_all(&self.to_bytes())?;
        fs::rename(&temporary, folder.join(DERIVED)).inspect_err(|_| {
            let _ = fs::remove_file(&temporary);
        })
    }

    /// The waits of a thread, as a stream of the plan.
    pub fn waits(&self, thread: u32) -> &[u8] {
        self.waits.get(&thread).map_or(&[], Vec::as_slice)
    }

    /// Number of waits over all threads.
    pub fn count(&self) -> usize {
        let count = |stream: &Vec<u8>| {
            let mut decoder = Decoder::new(stream);
            std::iter::from_fn(|| decoder.next_record().ok().flatten()).count()
        };
        self.waits.values().map(count).sum()
    }

    fn checked(self, recording: &Recording) -> Result<Self, DerivedError> {
        let times: BTreeMap<u32, TimeIndex<'_>> =
            recording.threads().map(|thread| (thread.index, thread.index())).collect();
        let mut equal = Vec::new();
        for (&index, stream) in &self.waits {
            check_thread(index, stream, &times, &mut equal)?;
        }
        equal.sort_unstable();
        for same_time in equal.chunk_by(|a, b| a.time == b.time) {
            check_no_circle(same_time)?;
        }
        Ok(self)
    }
}

/// A wait for an event with the same timestamp.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Equal {
    time: u64,
    thread: u32,
    event: u64,
    other: u32,
}

/// Every wait must lead from an event of the recording to one with a smaller timestamp, or an equal one.
fn check_thread(
    thread: u32,
    stream: &[u8],
    times: &BTreeMap<u32, TimeIndex<'_>>,
    equal: &mut Vec<Equal>,
) -> Result<(), DerivedError> {
    let mut own = times.get(&thread).map(TimeIndex::cursor);
    let mut others: BTreeMap<u32, TimeCursor<'_>> = BTreeMap::new();
    let mut decoder = Decoder::new(stream);
    let mut event = 0u64;
    while let Some((steps, record)) = decoder.next_record().map_err(|_| DerivedError::Corrupt)? {
        let Record::Wait { thread: other, events } = record else { return Err(DerivedError::Corrupt) };
        event = event.checked_add(steps).ok_or(DerivedError::Corrupt)?;
        // Where others let time pass the events don't tell. Whoever waits for that in vain is seen to.
        if events & LAPSES != 0 && other != thread && times.contains_key(&other) {
            continue;
        }
        let waiting = own.as_mut().and_then(|own| own.time(event));
        let awaited = events.checked_sub(1).and_then(|last| {
            let cursor = match others.entry(other) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(times.get(&other)?.cursor()),
            };
            cursor.time(last)
        });
        match (waiting, awaited) {
            (Some(time), Some(before)) if before < time => {}
            (Some(time), Some(same)) if same == time && other != thread => {
                equal.push(Equal { time, thread, event, other });
            }
            _ => return Err(DerivedError::Contradiction { thread, event, other }),
        }
    }
    Ok(())
}

/// A thread has one event at most with a given timestamp, so threads stand for events here.
fn check_no_circle(waits: &[Equal]) -> Result<(), DerivedError> {
    let mut left = waits.to_vec();
    while let Some(&Equal { thread, event, other, .. }) = left.first() {
        let waiting: BTreeSet<u32> = left.iter().map(|wait| wait.thread).collect();
        let before = left.len();
        left.retain(|wait| waiting.contains(&wait.other));
        if left.len() == before {
            return Err(DerivedError::Contradiction { thread, event, other });
        }
    }
    Ok(())
}
