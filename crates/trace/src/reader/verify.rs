//! Holds the chunks of one thread against each other and against their records.
//!
//! What makes this strong without a checksum: check hashes stand at every 256th
//! event, so a wrong step count puts the next hash at a wrong place; and each
//! chunk header repeats the event number and clock that its records add up to.

use super::{Series, field};
use crate::error::Fault;
use crate::layout::{ChunkHeader, NONE, THREAD_FINISHED};
use crate::record::{Decoder, Record, encode};
use crate::stream::ThreadStream;
use relive_order::hash::CHECK_INTERVAL;
use relive_order::{CheckHash, Kind};

/// One thread, while its chunks are being read.
pub(super) struct Verifier {
    series: Series,
    header: ChunkHeader,
    stream: Vec<u8>,
    /// Event number after the last record.
    position: u64,
    /// Clock at `position`, unit events included.
    clock: u64,
    /// Check hashes met.
    hashes: u64,
    last_hash: u32,
    /// The last record, where it starts in the stream, and position and clock before it.
    last: Option<Last>,
}

#[derive(Clone, Copy)]
struct Last {
    record: Record,
    start: usize,
    position: u64,
    clock: u64,
}

impl Verifier {
    pub(super) fn start(header: ChunkHeader, payload: &[u8], series: Series) -> Result<Self, Fault> {
        if header.sequence != 0 {
            return Err(Fault::Sequence { thread: header.thread, expected: 0, found: header.sequence });
        }
        if header.thread == NONE {
            return Err(field("thread", header.thread));
        }
        let mut thread = Self {
            series,
            header,
            stream: Vec::new(),
            position: 0,
            clock: header.start_clock,
            hashes: 0,
            last_hash: 0,
            last: None,
        };
        thread.decode(payload)?;
        Ok(thread)
    }

    /// The chunk after the last one, which therefore must be complete.
    pub(super) fn next_chunk(&mut self, header: ChunkHeader, payload: &[u8]) -> Result<(), Fault> {
        self.check_complete()?;
        let before = std::mem::replace(&mut self.header, header);
        let thread = before.thread;
        if header.sequence != before.sequence + 1 {
            return Err(Fault::Sequence { thread, expected: before.sequence + 1, found: header.sequence });
        }
        let identity = |h: &ChunkHeader| (h.parent, h.child_number, h.start_clock);
        if identity(&header) != identity(&before) || header.events < before.events || header.clock < before.clock {
            return Err(Fault::Identity { thread });
        }
        self.decode(payload)
    }

    fn decode(&mut self, payload: &[u8]) -> Result<(), Fault> {
        let thread = self.header.thread;
        let base = self.stream.len();
        let mut decoder = Decoder::new(payload);
        loop {
            let start = base + payload.len() - decoder.remaining();
            let next = decoder.next_record().map_err(|cause| Fault::Record { thread, cause })?;
            let Some((steps, record)) = next else { break };
            self.record(start, steps, record)?;
        }
        self.stream.extend_from_slice(payload);
        let ahead = self.position.saturating_sub(self.header.events);
        // A pair goes in before its event counts: a kill in between leaves it, as the very last record.
        if ahead > u64::from(self.pending().is_some()) { Err(self.misplaced()) } else { Ok(()) }
    }

    fn misplaced(&self) -> Fault {
        Fault::Position { thread: self.header.thread, events: self.position }
    }

    fn record(&mut self, start: usize, steps: u64, record: Record) -> Result<(), Fault> {
        if self
            .last
            .is_some_and(|last| matches!(last.record, Record::Pair { .. }) && self.position > self.header.events)
        {
            return Err(self.misplaced());
        }
        let (at, clock) = (self.position.checked_add(steps), self.clock.checked_add(steps));
        let (Some(position), Some(clock)) = (at, clock) else { return Err(self.misplaced()) };
        if position > self.header.events {
            return Err(self.misplaced());
        }
        (self.position, self.clock) = (position, clock);
        self.last = Some(Last { record, start, position, clock });
        match (self.series, record) {
            (Series::Learnt, Record::Wait { .. }) => return Ok(()),
            (Series::Learnt, _) | (Series::Recorded, Record::Wait { .. }) => return Err(self.misplaced()),
            (Series::Recorded, Record::Hash(hash)) => return self.hash(hash),
            (Series::Recorded, _) => {}
        }
        if self.hashes != position / CHECK_INTERVAL {
            return Err(self.misplaced());
        }
        if let Record::Pair { extra } = record {
            let clock = clock.checked_add(extra).and_then(|clock| clock.checked_add(1));
            self.clock = clock.ok_or(Fault::Field { field: "jump", value: extra })?;
            self.position += 1;
        }
        Ok(())
    }

    fn hash(&mut self, hash: u32) -> Result<(), Fault> {
        self.hashes += 1;
        if self.hashes.checked_mul(CHECK_INTERVAL) != Some(self.position) {
            return Err(self.misplaced());
        }
        self.last_hash = hash;
        Ok(())
    }

    /// The last record, if it is a pair whose event does not count yet.
    fn pending(&self) -> Option<Last> {
        self.last.filter(|last| {
            matches!(last.record, Record::Pair { .. })
                && last.position == self.header.events
                && self.series == Series::Recorded
        })
    }

    fn check_complete(&self) -> Result<(), Fault> {
        if self.position > self.header.events {
            return Err(self.misplaced());
        }
        self.check_hashes()?;
        let computed = self.clock.saturating_add(self.header.events - self.position);
        if self.series == Series::Recorded && computed != self.header.clock {
            return Err(Fault::Clock { thread: self.header.thread, computed, stored: self.header.clock });
        }
        Ok(())
    }

    /// The hash of the last interval may be missing: it is stored after its event counts.
    fn check_hashes(&self) -> Result<(), Fault> {
        let (due, events) = (self.header.events / CHECK_INTERVAL, self.header.events);
        let missing = events.is_multiple_of(CHECK_INTERVAL) && events > 0 && self.hashes + 1 == due;
        if self.series == Series::Recorded && self.hashes != due && !missing {
            return Err(Fault::Position { thread: self.header.thread, events });
        }
        Ok(())
    }

    /// The thread's last chunk was read: what a kill left half-done is dropped.
    pub(super) fn finish(mut self) -> Result<ThreadStream, Fault> {
        let mut ahead = 1;
        if self.position > self.header.events {
            let last = self.pending().ok_or_else(|| self.misplaced())?;
            ahead = self.clock - last.clock;
            self.stream.truncate(last.start);
            (self.position, self.clock) = (last.position, last.clock);
            self.last = None;
        }
        self.check_hashes()?;
        let header = self.header;
        let clock = self.clock.saturating_add(header.events - self.position);
        if self.series == Series::Recorded {
            self.check_live(clock, ahead)?;
            self.close_run()?;
        }
        Ok(ThreadStream {
            index: header.thread,
            parent: (header.parent != NONE).then_some(header.parent),
            child_number: header.child_number,
            start_clock: header.start_clock,
            events: header.events,
            clock,
            finished: header.flags & THREAD_FINISHED != 0,
            chunks: header.sequence + 1,
            stream: self.stream,
        })
    }

    /// The live header: hash, clock and event number are stored one after the other,
    /// so one event may be in some of them and not in the others.
    fn check_live(&self, computed: u64, ahead: u64) -> Result<(), Fault> {
        let stored = self.header.clock;
        let (thread, events) = (self.header.thread, self.header.events);
        if stored != computed && stored != computed.saturating_add(ahead) {
            return Err(Fault::Clock { thread, computed, stored });
        }
        let known = match self.hashes.checked_mul(CHECK_INTERVAL) {
            Some(at) if at == events => CheckHash(self.last_hash),
            _ => return Ok(()),
        };
        let next = || Kind::ALL.iter().any(|&kind| known.then(kind).0 == self.header.hash);
        if known.0 == self.header.hash || next() { Ok(()) } else { Err(Fault::Hash { thread }) }
    }

    /// Moves the open run of failures into the stream, unless a kill left it in both places.
    fn close_run(&mut self) -> Result<(), Fault> {
        let header = self.header;
        if header.run_count == 0 {
            return Ok(());
        }
        let kind = Kind::from_code(header.run_kind).ok_or_else(|| field("kind of a run", header.run_kind))?;
        let run = Record::Run { kind, result: header.run_result, count: header.run_count };
        let stored = self.last.is_some_and(|last| last.record == run && last.position == header.events);
        if !stored {
            self.stream.extend_from_slice(encode(header.events - self.position, run).as_bytes());
        }
        Ok(())
    }
}
