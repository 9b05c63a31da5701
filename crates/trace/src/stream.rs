//! A recorded thread: its stream, and the events that the stream stands for.
//!
//! The stream stores only what cannot be computed; everything here computes the
//! rest on the fly, because a recording has hundreds of millions of events and
//! a few bytes for each hundred of them.

use crate::record::{Decoder, Record};

/// One thread of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadStream {
    /// Index in the recording.
    pub index: u32,
    /// Index of the thread that created it, none for the first of all.
    pub parent: Option<u32>,
    /// How-manieth child of its parent it is, from 0.
    pub child_number: u32,
    /// Timestamp of its creation: the clock it started with.
    pub start_clock: u64,
    /// Events recorded.
    pub events: u64,
    /// Timestamp of its last event, or `start_clock`.
    pub clock: u64,
    /// It ended before its process did.
    pub finished: bool,
    /// Chunks of the data file that it filled.
    pub chunks: u32,
    /// Its records, complete and in sequence: the last open run of failures is part of it.
    pub stream: Vec<u8>,
}

/// A record with its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Events before the record: the number of the event that it belongs to.
    pub event: u64,
    /// The thread's clock at that point.
    pub clock: u64,
    /// The record.
    pub record: Record,
}

/// One event of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Its number in the thread, from 0.
    pub number: u64,
    /// Its timestamp.
    pub time: u64,
    /// How much more than one the thread's clock grew.
    pub extra: u64,
    /// Records between the event before and this one: results, runs of failures, check hashes.
    pub records: Vec<Record>,
}

impl ThreadStream {
    /// The stored records in order, each with its place.
    pub fn entries(&self) -> Entries<'_> {
        Entries { decoder: Decoder::new(&self.stream), event: 0, clock: self.start_clock }
    }

    /// All events in order.
    pub fn events(&self) -> Events<'_> {
        let mut entries = self.entries();
        let next = entries.next();
        Events { entries, next, number: 0, clock: self.start_clock, total: self.events }
    }

    /// The records after the last event, e.g. failures after which nothing succeeded.
    pub fn trailing(&self) -> Vec<Record> {
        let at_end = |entry: &Entry| entry.event == self.events;
        self.entries().filter(at_end).map(|entry| entry.record).collect()
    }

    /// The timestamps of events by number, and the other way round, without listing them.
    pub fn index(&self) -> TimeIndex<'_> {
        TimeIndex::new(self)
    }

    /// Leaves out every event with a timestamp above `clock`, and the records that belong to them.
    pub fn cut(&mut self, clock: u64) {
        // A thread whose events are all kept may have ended after the cut: nothing says when.
        self.finished = false;
        let kept = self.index().events_until(clock);
        if kept == self.events {
            return;
        }
        let mut entries = self.entries();
        let mut end;
        loop {
            end = self.stream.len() - entries.decoder.remaining();
            match entries.next() {
                Some(entry) if entry.event < kept => {}
                // These belong to the events before.
                Some(Entry {
                    event,
                    record: Record::Hash(_) | Record::Stream | Record::Tally { .. } | Record::Call { .. },
                    ..
                }) if event == kept => {}
                _ => break,
            }
        }
        let clock = self.index().time(kept.wrapping_sub(1)).unwrap_or(self.start_clock);
        self.stream.truncate(end);
        (self.events, self.clock) = (kept, clock);
    }
}

/// Iterator over the stored records of a thread.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    decoder: Decoder<'a>,
    event: u64,
    clock: u64,
}

impl<'a> Entries<'a> {
    /// The bytes behind the record that came last, if it is a call with its bytes in the stream.
    pub fn payload(&self) -> &'a [u8] {
        self.decoder.payload()
    }
}

impl Iterator for Entries<'_> {
    type Item = Entry;

    /// A verified stream decodes to its end; one that doesn't simply ends early.
    fn next(&mut self) -> Option<Entry> {
        let (steps, record) = self.decoder.next_record().ok()??;
        let (event, clock) = (self.event.saturating_add(steps), self.clock.saturating_add(steps));
        (self.event, self.clock) = match record {
            Record::Pair { extra } => (event.saturating_add(1), clock.saturating_add(extra).saturating_add(1)),
            _ => (event, clock),
        };
        Some(Entry { event, clock, record })
    }
}

/// Iterator over the events of a thread.
#[derive(Clone, Debug)]
pub struct Events<'a> {
    entries: Entries<'a>,
    next: Option<Entry>,
    number: u64,
    clock: u64,
    total: u64,
}

impl Iterator for Events<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        if self.number >= self.total {
            return None;
        }
        let mut event = Event { number: self.number, time: self.clock + 1, extra: 0, records: Vec::new() };
        while let Some(entry) = self.next.filter(|entry| entry.event == self.number) {
            self.next = self.entries.next();
            match entry.record {
                Record::Pair { extra } => {
                    event.extra = extra;
                    event.time += extra;
                    break;
                }
                record => event.records.push(record),
            }
        }
        (self.number, self.clock) = (self.number + 1, event.time);
        Some(event)
    }
}

/// Answers [`TimeIndex::time`] from where the last question left it: the next answer is a few records ahead.
#[derive(Clone, Debug)]
pub struct TimeCursor<'a> {
    index: &'a TimeIndex<'a>,
    /// The mark that it last started from.
    mark: usize,
    /// Events from here on up to `next` grow the clock by one each.
    event: u64,
    /// The clock before `event`.
    clock: u64,
    next: Option<Entry>,
    /// What follows `next`.
    entries: Entries<'a>,
}

impl<'a> TimeCursor<'a> {
    fn at_mark(index: &'a TimeIndex<'a>, mark: usize) -> Self {
        let mut entries = index.marks[mark].clone();
        let (event, clock) = (entries.event, entries.clock);
        let next = entries.next();
        Self { index, mark, event, clock, next, entries }
    }

    /// As [`TimeIndex::time`].
    #[inline]
    pub fn time(&mut self, number: u64) -> Option<u64> {
        if number >= self.index.thread.events {
            return None;
        }
        let marks = &self.index.marks;
        if number < self.event || marks.get(self.mark + 1).is_some_and(|next| next.event <= number) {
            *self = Self::at_mark(self.index, marks.partition_point(|mark| mark.event <= number) - 1);
        }
        while let Some(entry) = self.next.filter(|entry| entry.event <= number) {
            match entry.record {
                Record::Pair { extra } if entry.event == number => return Some(entry.clock + 1 + extra),
                _ => (self.event, self.clock) = (self.entries.event, self.entries.clock),
            }
            self.next = self.entries.next();
        }
        Some(self.clock + (number - self.event) + 1)
    }
}

/// Records between two marks of a [`TimeIndex`]: a trade of memory against decoding.
const MARK_INTERVAL: usize = 64;

/// Timestamps of a thread by event number and the other way round.
#[derive(Clone, Debug)]
pub struct TimeIndex<'a> {
    thread: &'a ThreadStream,
    marks: Vec<Entries<'a>>,
}

impl<'a> TimeIndex<'a> {
    fn new(thread: &'a ThreadStream) -> Self {
        let mut marks = Vec::new();
        let mut entries = thread.entries();
        for number in 0.. {
            if number % MARK_INTERVAL == 0 {
                marks.push(entries.clone());
            }
            if entries.next().is_none() {
                break;
            }
        }
        Self { thread, marks }
    }

    /// The timestamp of event `number`, counted from 0; `None` if there is no such event.
    pub fn time(&self, number: u64) -> Option<u64> {
        self.cursor().time(number)
    }

    /// A reader for many questions in mostly ascending order.
    pub fn cursor(&self) -> TimeCursor<'_> {
        TimeCursor::at_mark(self, 0)
    }

    /// How many events have a timestamp of at most `clock`.
    pub fn events_until(&self, clock: u64) -> u64 {
        let mark = self.marks.partition_point(|mark| mark.clock <= clock);
        let Some(mark) = mark.checked_sub(1) else { return 0 };
        let mut entries = self.marks[mark].clone();
        loop {
            let (event, reached) = (entries.event, entries.clock);
            match entries.next() {
                Some(_) if entries.clock <= clock => {}
                next => {
                    // Unit events up to the next record; if that is a pair, its own event lies beyond `clock`.
                    let end = next.map_or(self.thread.events, |entry| entry.event);
                    return event + (clock - reached).min(end.saturating_sub(event));
                }
            }
        }
    }

    /// Whether some event has this timestamp.
    pub fn has_time(&self, time: u64) -> bool {
        let count = self.events_until(time);
        count > 0 && self.time(count - 1) == Some(time)
    }
}
