//! The byte code of a thread's stream: what cannot be computed again.
//!
//! A stream is a sequence of records in the order of the thread's events. Each
//! starts with the number of *steps* since the record before it: events whose
//! increment was one and of which nothing else is stored. A thread that never
//! meets another one writes nothing but check hashes.
//!
//! ```text
//! 0x00..=0xBF  pair: steps = byte & 15, extra = (byte >> 4) + 1
//! 0xC0         pair: varint steps, varint extra
//! 0xC1         hash: varint steps, u32
//! 0xC2         value of the next event: varint steps, zigzag value
//! 0xC3         run of failures: varint steps, kind, zigzag result, varint count
//! 0xC4         attempt at a once routine won: varint steps, varint key, varint attempt
//! 0xC5         signal delivered: varint steps, signal number, varint calls
//! 0xC6         cancelled: varint steps, varint calls
//! 0xC7         wait (derived order only): varint steps, varint thread, varint events
//! 0xC8         stream: varint steps
//! 0xC9         tally: varint steps, family, varint count
//! 0xCA         call: varint steps, varint number, zigzag result, varint bytes, the bytes
//! 0xCB         call: varint steps, varint number, zigzag result, varint bytes, varint offset in the inputs file
//! 0xCC         behind: varint steps, varint gap
//! 0xCD         own: varint steps
//! 0xD0..=0xDF  stream: steps = byte & 15
//! 0xE0..=0xFF  behind: steps = byte & 7, gap = 0, 4, 16 or 256 by (byte >> 3) & 3
//! ```
//!
//! A pair is one event: `steps` unit events, then one whose clock jumped by
//! `1 + extra`. Every other record stands between events. Varints are LEB128.

use relive_order::Kind;
use relive_order::kind::Family;

/// By how much a lock's clock is behind the thread's if that need not be told, where such locks are frequent.
pub const GAP_UNTOLD: u64 = 16;

/// Longest record in bytes, without a call's bytes; a writer makes sure of so much room before it encodes.
pub const RECORD_BYTES_MAX: usize = 48;

/// Most bytes of a call that stand in the stream itself. More go to the inputs file: a page that is written there costs
/// a tenth of one that is first touched in a mapped file.
pub const CALL_BYTES_MAX: u32 = 512;

/// Bit of [`Record::Wait`]'s `events`: it counts calls in which time passed.
pub const LAPSES: u64 = 1 << 63;

/// Bit of [`Record::Signal`]'s `calls`: the handler ran while its thread computed, between that operation and the next.
pub const COMPUTING: u32 = 1 << 31;

/// Number by which [`Record::Call`] says, behind a write to the session's output, how many others there were before:
/// stands there if the write before was another thread's.
pub const SHOWN: u16 = 0xFFF6;

/// Numbers by which [`Record::Call`] tells instructions that read the outside from system calls.
pub mod instruction {
    /// `rdtsc`; its result is the time.
    pub const TIME: u16 = 0xFFF0;
    /// `rdtscp`; four bytes say where.
    pub const TIME_AND_PLACE: u16 = 0xFFF1;
    /// `rdpid`
    pub const PLACE: u16 = 0xFFF2;
    /// `rdrand`; four bytes say whether there was a number.
    pub const RANDOM: u16 = 0xFFF3;
    /// `rdseed`, likewise.
    pub const SEED: u16 = 0xFFF4;
    /// None: from here on the thread faults at `rdtsc`, because another one has made code that may have some.
    pub const FORBIDDEN: u16 = 0xFFF5;

    /// The instruction of such a number.
    pub fn name(number: u16) -> Option<&'static str> {
        const NAMES: [&str; 6] = ["rdtsc", "rdtscp", "rdpid", "rdrand", "rdseed", "no rdtsc"];
        NAMES.get(usize::from(number.checked_sub(TIME)?)).copied()
    }
}

/// One record, without its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// The next event's clock jumps by `1 + extra`. Consumes that event.
    Pair {
        /// At least 1.
        extra: u64,
    },
    /// The check hash after all events so far.
    Hash(u32),
    /// A result of the next event that order does not determine.
    Value(i64),
    /// `count` failed attempts of `kind`, each returning `result`, before the next event.
    Run {
        /// The operation that failed.
        kind: Kind,
        /// What it returned.
        result: i16,
        /// How often, at least 1.
        count: u32,
    },
    /// The thread ran the initialiser `key` as attempt number `attempt`.
    Won {
        /// Names the once object: how-manieth once call since the last event, or a guard's place in its module.
        key: u64,
        /// Attempts at this object that ended before.
        attempt: u32,
    },
    /// A signal handler ran before the next event, after `calls` interruptible calls.
    Signal {
        /// Signal number.
        number: u8,
        /// Interruptible calls since the last event, and [`COMPUTING`].
        calls: u32,
    },
    /// The thread was cancelled in its `calls`-th cancellation point since the last event.
    Cancelled {
        /// Cancellation points entered since the last event that came before the call. If the call has taken events
        /// itself by then, their number stands in the highest byte.
        calls: u32,
    },
    /// The next event waits until `thread` has completed `events` events.
    Wait {
        /// Index of the thread waited for.
        thread: u32,
        /// Its events that must be complete; or with [`LAPSES`], how many calls in which time passed it must have left.
        events: u64,
    },
    /// The event before began an operation on a stdio stream. A replay of a rebuilt program tells by it
    /// the recorded prints from added ones.
    Stream,
    /// So many of the events so far, or since the last tally, were on objects of this family. Mutexes are the rest:
    /// their fast path counts nothing.
    Tally {
        /// Not [`Family::Mutex`].
        family: Family,
        /// Events, at least 1.
        count: u32,
    },
    /// The next event, a lock or an indivisible instruction, follows one of another thread, which is so old that the clock does not jump. From here on a
    /// such an event of which nothing is told may follow another thread's event that is [`GAP_UNTOLD`] or more behind.
    Behind {
        /// The older event's timestamp is at least so much below the thread's clock; see [`told_gap`].
        gap: u64,
    },
    /// From here on, as from the thread's start, such an event of which nothing is told follows no other thread's event.
    Own,
    /// A system call was made between the event before and the next one.
    Call {
        /// The kernel's number of it.
        number: u16,
        /// What it returned, a negative errno if it failed.
        result: i64,
        /// Bytes that it took in: those which it wrote to memory, in the order of its outputs, or what a mapped file holds.
        bytes: u32,
        /// Where they stand.
        place: Place,
    },
}

/// Where the bytes stand that a system call took in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Behind the record, at most [`CALL_BYTES_MAX`]; [`Decoder::payload`] after [`Decoder::next_record`].
    Stream,
    /// In the inputs file of the process, at this offset.
    Inputs(u64),
}

const TAG_PAIR: u8 = 0xC0;
const TAG_HASH: u8 = 0xC1;
const TAG_VALUE: u8 = 0xC2;
const TAG_RUN: u8 = 0xC3;
const TAG_WON: u8 = 0xC4;
const TAG_SIGNAL: u8 = 0xC5;
const TAG_CANCELLED: u8 = 0xC6;
const TAG_WAIT: u8 = 0xC7;
const TAG_STREAM: u8 = 0xC8;
const TAG_TALLY: u8 = 0xC9;
const TAG_CALL: u8 = 0xCA;
const TAG_CALL_INPUTS: u8 = 0xCB;
const TAG_BEHIND: u8 = 0xCC;
const TAG_OWN: u8 = 0xCD;
const TAG_STREAM_COMPACT: u8 = 0xD0;
const TAG_BEHIND_COMPACT: u8 = 0xE0;
const STEPS_COMPACT_MAX: u64 = 15;
const EXTRA_COMPACT_MAX: u64 = 12;
const BEHIND_STEPS_COMPACT_MAX: u64 = 7;
/// What one byte tells of a gap: that it is at least so much.
const GAPS_COMPACT: [u64; 4] = [0, 4, GAP_UNTOLD, 256];
/// From here on a gap is told exactly.
const GAP_FAR: u64 = 8192;

/// The encoded bytes of one record.
#[derive(Clone, Copy, Debug)]
pub struct Encoded {
    bytes: [u8; RECORD_BYTES_MAX],
    len: usize,
}

impl Encoded {
    /// The bytes to append to the stream.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    const fn new() -> Self {
        Self { bytes: [0; RECORD_BYTES_MAX], len: 0 }
    }

    fn byte(&mut self, b: u8) {
        self.bytes[self.len] = b;
        self.len += 1;
    }

    fn varint(&mut self, mut v: u64) {
        while v >= 0x80 {
            self.byte(v as u8 | 0x80);
            v >>= 7;
        }
        self.byte(v as u8);
    }
}

const fn zigzag(v: i64) -> u64 {
    ((v << 1) ^ (v >> 63)) as u64
}

const fn unzigzag(v: u64) -> i64 {
    (v >> 1) as i64 ^ -((v & 1) as i64)
}

/// The one byte of a pair that is small in both respects, as nearly all are.
#[inline]
pub const fn compact_pair(steps: u64, extra: u64) -> Option<u8> {
    if steps <= STEPS_COMPACT_MAX && 1 <= extra && extra <= EXTRA_COMPACT_MAX {
        Some(steps as u8 | (extra as u8 - 1) << 4)
    } else {
        None
    }
}

const fn class_of_gap(gap: u64) -> usize {
    (gap >= GAPS_COMPACT[1]) as usize + (gap >= GAPS_COMPACT[2]) as usize + (gap >= GAPS_COMPACT[3]) as usize
}

/// What [`Record::Behind`] says of a gap: so much or less, so that one byte does for most. A replay waits until no other
/// thread has an event before that point left; more exactly it need not be known, because threads that replay are never
/// exactly where the recorded ones were.
#[inline]
pub const fn told_gap(gap: u64) -> u64 {
    if gap < GAP_FAR { GAPS_COMPACT[class_of_gap(gap)] } else { gap }
}

/// The one byte of [`Record::Behind`] for a gap as it is, if it fits one.
#[inline]
pub const fn compact_behind(steps: u64, gap: u64) -> Option<u8> {
    if steps <= BEHIND_STEPS_COMPACT_MAX && gap < GAP_FAR {
        Some(TAG_BEHIND_COMPACT | (class_of_gap(gap) as u8) << 3 | steps as u8)
    } else {
        None
    }
}

/// The one byte of a record, if it fits one.
fn compact(steps: u64, record: Record) -> Option<u8> {
    match record {
        Record::Pair { extra } => compact_pair(steps, extra),
        Record::Behind { gap } if gap == told_gap(gap) => compact_behind(steps, gap),
        Record::Stream if steps <= STEPS_COMPACT_MAX => Some(TAG_STREAM_COMPACT | steps as u8),
        _ => None,
    }
}

/// Encodes `record` standing `steps` events after the record before it. The bytes of a call whose place is
/// [`Place::Stream`] are for the caller to append.
pub fn encode(steps: u64, record: Record) -> Encoded {
    let mut e = Encoded::new();
    if let Some(byte) = compact(steps, record) {
        e.byte(byte);
        return e;
    }
    let tag = match record {
        Record::Pair { .. } => TAG_PAIR,
        Record::Hash(_) => TAG_HASH,
        Record::Value(_) => TAG_VALUE,
        Record::Run { .. } => TAG_RUN,
        Record::Won { .. } => TAG_WON,
        Record::Signal { .. } => TAG_SIGNAL,
        Record::Cancelled { .. } => TAG_CANCELLED,
        Record::Wait { .. } => TAG_WAIT,
        Record::Stream => TAG_STREAM,
        Record::Tally { .. } => TAG_TALLY,
        Record::Behind { .. } => TAG_BEHIND,
        Record::Own => TAG_OWN,
        Record::Call { place: Place::Stream, .. } => TAG_CALL,
        Record::Call { .. } => TAG_CALL_INPUTS,
    };
    e.byte(tag);
    e.varint(steps);
    match record {
        Record::Pair { extra } => e.varint(extra),
        Record::Hash(hash) => hash.to_le_bytes().into_iter().for_each(|b| e.byte(b)),
        Record::Value(value) => e.varint(zigzag(value)),
        Record::Run { kind, result, count } => {
            e.byte(kind as u8);
            e.varint(zigzag(result as i64));
            e.varint(count as u64);
        }
        Record::Won { key, attempt } => {
            e.varint(key);
            e.varint(attempt as u64);
        }
        Record::Signal { number, calls } => {
            e.byte(number);
            e.varint(calls as u64);
        }
        Record::Cancelled { calls } => e.varint(calls as u64),
        Record::Wait { thread, events } => {
            e.varint(thread as u64);
            e.varint(events);
        }
        Record::Stream | Record::Own => {}
        Record::Behind { gap } => e.varint(gap),
        Record::Tally { family, count } => {
            e.byte(family as u8);
            e.varint(count as u64);
        }
        Record::Call { number, result, bytes, place } => {
            e.varint(number as u64);
            e.varint(zigzag(result));
            e.varint(bytes as u64);
            if let Place::Inputs(offset) = place {
                e.varint(offset);
            }
        }
    }
    e
}

/// Encodes a call with its bytes in the stream, like [`encode`], in place. Returns how many bytes it takes.
#[inline]
pub fn encode_call(into: &mut [u8; RECORD_BYTES_MAX], steps: u64, number: u16, result: i64, bytes: u32) -> usize {
    into[0] = TAG_CALL;
    let mut length = 1;
    for mut value in [steps, u64::from(number), zigzag(result), u64::from(bytes)] {
        while value >= 0x80 && length < RECORD_BYTES_MAX - 1 {
            into[length] = value as u8 | 0x80;
            value >>= 7;
            length += 1;
        }
        into[length] = value as u8;
        length += 1;
    }
    length
}

/// Why a stream can't be decoded further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// The stream ends inside a record.
    Truncated,
    /// A tag or kind that this version does not know.
    Unknown(u8),
    /// A field is out of its range.
    Range,
}

/// Reads records from one thread's stream (the payloads of its chunks, in sequence).
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
    payload: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// A decoder at the start of `stream`.
    pub const fn new(stream: &'a [u8]) -> Self {
        Self { rest: stream, payload: &[] }
    }

    /// The bytes behind the record just decoded, if it is a call with its bytes in the stream.
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Bytes not yet decoded.
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The next record and its steps; `None` at the end of the stream.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are not a record; the decoder stays where it was.
    #[inline]
    pub fn next_record(&mut self) -> Result<Option<(u64, Record)>, Malformed> {
        let Some((&first, rest)) = self.rest.split_first() else { return Ok(None) };
        if first < TAG_PAIR {
            self.rest = rest;
            let extra = (first >> 4) as u64 + 1;
            return Ok(Some(((first & 15) as u64, Record::Pair { extra })));
        }
        if first & !15 == TAG_STREAM_COMPACT {
            self.rest = rest;
            return Ok(Some(((first & 15) as u64, Record::Stream)));
        }
        if first >= TAG_BEHIND_COMPACT {
            self.rest = rest;
            let gap = GAPS_COMPACT[(first >> 3 & 3) as usize];
            return Ok(Some(((first & 7) as u64, Record::Behind { gap })));
        }
        let mut r = Reader { rest };
        let steps = r.varint()?;
        let record = r.fields(first)?;
        (self.payload, self.rest) = match record {
            Record::Call { bytes, place: Place::Stream, .. } => {
                r.rest.split_at_checked(bytes as usize).ok_or(Malformed::Truncated)?
            }
            _ => (&[][..], r.rest),
        };
        Ok(Some((steps, record)))
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl Reader<'_> {
    fn byte(&mut self) -> Result<u8, Malformed> {
        let (&b, rest) = self.rest.split_first().ok_or(Malformed::Truncated)?;
        self.rest = rest;
        Ok(b)
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut v = 0u64;
        for shift in (0..64).step_by(7) {
            let b = self.byte()?;
            let part = (b & 0x7F) as u64;
            if shift == 63 && part > 1 {
                return Err(Malformed::Range);
            }
            v |= part << shift;
            if b & 0x80 == 0 {
                return Ok(v);
            }
        }
        Err(Malformed::Range)
    }

    fn narrow(&mut self) -> Result<u32, Malformed> {
        u32::try_from(self.varint()?).map_err(|_| Malformed::Range)
    }

    fn positive(&mut self) -> Result<u32, Malformed> {
        self.narrow().and_then(|v| if v == 0 { Err(Malformed::Range) } else { Ok(v) })
    }

    fn fields(&mut self, tag: u8) -> Result<Record, Malformed> {
        Ok(match tag {
            TAG_PAIR => match self.varint()? {
                0 => return Err(Malformed::Range),
                extra => Record::Pair { extra },
            },
            TAG_HASH => Record::Hash(u32::from_le_bytes([self.byte()?, self.byte()?, self.byte()?, self.byte()?])),
            TAG_VALUE => Record::Value(unzigzag(self.varint()?)),
            TAG_RUN => {
                let code = self.byte()?;
                let kind = Kind::from_code(code).ok_or(Malformed::Unknown(code))?;
                let result = i16::try_from(unzigzag(self.varint()?)).map_err(|_| Malformed::Range)?;
                Record::Run { kind, result, count: self.positive()? }
            }
            TAG_WON => Record::Won { key: self.varint()?, attempt: self.narrow()? },
            TAG_SIGNAL => Record::Signal { number: self.byte()?, calls: self.narrow()? },
            TAG_CANCELLED => Record::Cancelled { calls: self.narrow()? },
            TAG_WAIT => Record::Wait { thread: self.narrow()?, events: self.varint()? },
            TAG_STREAM => Record::Stream,
            TAG_BEHIND => Record::Behind { gap: self.varint()? },
            TAG_OWN => Record::Own,
            TAG_TALLY => {
                let family = *Family::ALL.get(self.byte()? as usize).ok_or(Malformed::Range)?;
                Record::Tally { family, count: self.positive()? }
            }
            TAG_CALL | TAG_CALL_INPUTS => {
                let number = u16::try_from(self.varint()?).map_err(|_| Malformed::Range)?;
                let (result, bytes) = (unzigzag(self.varint()?), self.narrow()?);
                let place = if tag == TAG_CALL { Place::Stream } else { Place::Inputs(self.varint()?) };
                if place == Place::Stream && bytes > CALL_BYTES_MAX {
                    return Err(Malformed::Range);
                }
                Record::Call { number, result, bytes, place }
            }
            other => return Err(Malformed::Unknown(other)),
        })
    }
}
