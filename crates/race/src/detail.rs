//! Single accesses to the bytes that are known to race: which two they were.
//!
//! The first pass over an execution tells racing bytes. In the second one only
//! these are watched, and each access to them comes here, in the order of the
//! execution, with a number under which the caller keeps what it knows of it (program
//! counter, stack, value). Of each byte is remembered what may be one half of a
//! race that nothing stands between: writes that no later one covers and, by thread,
//! the last read that no later write covers. The rule is that of the history but for
//! reads of different threads, which do not cover each other here: each of them may
//! stand at another place of the program. So every byte that races there races here.
//!
//! Apart from the history because it works on accesses, not segments, and is small:
//! speed is no aim.

use crate::clock::{Clock, Floor};
use crate::finding::Kind;
use crate::lines::{LINE, pieces};
use crate::mix::Table;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

/// What is remembered of watched bytes.
#[derive(Debug, Default)]
pub struct Detail {
    lines: BTreeMap<u64, Watched>,
    /// In how many lines each record is remembered.
    records: Table<u32>,
}

/// One line.
#[derive(Debug, Default)]
struct Watched {
    bytes: u64,
    /// Those of `bytes` that belong to synchronisation variables.
    variables: u64,
    accesses: Vec<Remembered>,
    /// How many accesses were no mere reads.
    stores: u64,
    /// Whose the last access was, and how often that changed.
    last: Option<u32>,
    turns: u64,
}

#[derive(Debug)]
struct Remembered {
    clock: Clock,
    record: u32,
    touch: Touch,
    inner: bool,
    bytes: u64,
}

/// How an access touches memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Touch {
    /// It only reads.
    Read,
    /// It writes, and may read as well.
    Write,
    /// It gives the memory back.
    Free,
    /// A locked instruction, which reads and writes at once.
    Locked,
}

/// One access of a thread in its current segment.
#[derive(Clone, Debug)]
pub struct Access {
    /// The caller's number for what it keeps of the access.
    pub record: u32,
    /// How it touches memory.
    pub touch: Touch,
    /// Which memory.
    pub range: Range<u64>,
    /// A library made it for itself: it says less of the program than an access of the program's own, and covers none.
    pub inner: bool,
}

/// What the caller is told.
#[derive(Clone, Copy, Debug)]
pub enum Told<'a> {
    /// A race, or a use after free.
    Pair(Pair<'a>),
    /// No byte remembers this record any more, and no later pair names it.
    Unused(u32),
}

/// Two accesses that race.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// The line's address divided by 64.
    pub line: u64,
    /// The bytes that both touched: bit `i` stands for byte `i` of the line.
    pub bytes: u64,
    /// What kind of fault it is.
    pub kind: Kind,
    /// All the bytes belong to a synchronisation variable, and both accesses were plain: perhaps they were meant to be
    /// atomic. Never certain.
    pub perhaps_atomic: bool,
    /// The record of the access that came first in this execution, and how it touched the bytes.
    pub older: (u32, Touch),
    /// Its segment.
    pub older_clock: &'a Clock,
    /// The record of the other one, and how it touched the bytes.
    pub newer: (u32, Touch),
    /// Its segment.
    pub newer_clock: &'a Clock,
}

impl Detail {
    /// Watches nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Watches bytes of a line: bit `i` of `bytes` stands for byte `i`. Those of `variables` belong to synchronisation
    /// variables: of them only unordered plain accesses are told, and as such, and what has
    /// to do with a free.
    pub fn watch(&mut self, line: u64, bytes: u64, variables: u64) {
        let watched = self.lines.entry(line).or_default();
        watched.bytes |= bytes;
        watched.variables |= bytes & variables;
    }

    /// The watched bytes of a line.
    pub fn watched(&self, line: u64) -> u64 {
        self.lines.get(&line).map_or(0, |watched| watched.bytes)
    }

    /// Whether any byte of a range is watched.
    pub fn watches(&self, range: &Range<u64>) -> bool {
        self.watched_lines(range).next().is_some()
    }

    /// The lines with watched bytes in a range.
    pub fn watched_lines(&self, range: &Range<u64>) -> impl Iterator<Item = u64> {
        let lines = range.start / LINE..range.end.div_ceil(LINE).max(range.start / LINE);
        let watched = self.lines.range(lines).filter(|(line, watched)| watched.bytes & bytes_of(**line, range) != 0);
        watched.map(|(&line, _)| line)
    }

    /// Whether nothing new can come of an access: one of the same segment, to the same bytes and of the same kind, is
    /// remembered under a record that is as good. What races with either was told of that one, or will be.
    pub fn knows(&self, clock: &Clock, touch: Touch, range: &Range<u64>, as_good: impl Fn(u32) -> bool) -> bool {
        pieces(range.clone()).all(|(line, bytes)| {
            let Some(watched) = self.lines.get(&line) else { return true };
            let bytes = bytes & watched.bytes;
            let same = |known: &Remembered| {
                known.touch == touch && bytes & !known.bytes == 0 && known.clock.epoch() == clock.epoch()
            };
            bytes == 0 || watched.accesses.iter().any(|known| same(known) && as_good(known.record))
        })
    }

    /// A number that is another one once a thread has done something to these bytes that an access of this kind, by
    /// another thread, could race with.
    pub fn others(&self, touch: Touch, range: &Range<u64>) -> u64 {
        let of = |watched: &Watched| if touch == Touch::Read { watched.stores } else { watched.turns };
        pieces(range.clone()).filter_map(|(line, _)| self.lines.get(&line)).map(of).sum()
    }

    /// An access of the thread whose clock is given. For an access to a synchronisation variable that is the clock
    /// before the variable orders anything: what only the variable itself orders is told.
    ///
    /// Each record is told to be unused once, now or later. Until then it may stand for further accesses, of the same kind and
    /// with the same clock.
    pub fn access(&mut self, clock: &Clock, access: &Access, tell: &mut impl FnMut(Told<'_>)) {
        let Self { lines, records } = self;
        *records.entry(u64::from(access.record)).or_default() += 1;
        for (line, bytes) in pieces(access.range.clone()) {
            if let Some(watched) = lines.get_mut(&line) {
                watched.access(clock, access, (line, bytes), records, tell);
            }
        }
        leave(records, access.record, tell);
    }

    /// Forgets what is remembered of a range: a new block, a new stack, a new mapping. It stays watched.
    pub fn fresh(&mut self, range: Range<u64>, tell: &mut impl FnMut(Told<'_>)) {
        let lines = range.start / LINE..range.end.div_ceil(LINE).max(range.start / LINE);
        for (&line, watched) in self.lines.range_mut(lines) {
            let forgotten = bytes_of(line, &range);
            watched.retain(&mut self.records, tell, |access| {
                access.bytes &= !forgotten;
                access.bytes != 0
            });
        }
    }

    /// Forgets what cannot race any more, by what all threads know. Freed bytes stay freed.
    pub fn sweep(&mut self, floor: &Floor, tell: &mut impl FnMut(Told<'_>)) {
        for watched in self.lines.values_mut() {
            watched.retain(&mut self.records, tell, |access| {
                access.touch == Touch::Free || !floor.knows(access.clock.epoch())
            });
        }
    }

    /// Bytes of memory in use, without those of the vectors that clocks share. Walks over all lines.
    pub fn bytes(&self) -> usize {
        let of =
            |watched: &Watched| size_of::<(u64, Watched)>() + watched.accesses.capacity() * size_of::<Remembered>();
        self.lines.values().map(of).sum::<usize>() + self.records.allocation_size()
    }
}

/// The bytes of a line that lie in a range.
fn bytes_of(line: u64, range: &Range<u64>) -> u64 {
    let start = line * LINE;
    let part = range.start.max(start)..range.end.min(start.saturating_add(LINE));
    pieces(part).map(|(_, bytes)| bytes).next().unwrap_or(0)
}

impl Watched {
    fn access(
        &mut self,
        clock: &Clock,
        access: &Access,
        (line, bytes): (u64, u64),
        records: &mut Table<u32>,
        tell: &mut impl FnMut(Told<'_>),
    ) {
        let bytes = bytes & self.bytes;
        if bytes == 0 {
            return;
        }
        self.stores += u64::from(access.touch != Touch::Read);
        let thread = Some(clock.epoch().thread());
        self.turns += u64::from(core::mem::replace(&mut self.last, thread) != thread);
        for older in &self.accesses {
            older.compare(clock, access, (line, bytes), self.variables, tell);
        }
        let variables = self.variables;
        self.retain(records, tell, |older| {
            // A locked access races with no plain one, so it can't stand for one either.
            let apart = if access.touch == Touch::Locked && older.touch != Touch::Locked { variables } else { 0 };
            if older.is_covered(clock, access.touch) && (older.inner || !access.inner) {
                older.bytes &= !bytes | apart;
            }
            older.bytes != 0
        });
        if let Some(same) = self.accesses.iter_mut().find(|older| older.record == access.record) {
            same.bytes |= bytes;
            return;
        }
        *records.entry(u64::from(access.record)).or_default() += 1;
        let Access { record, touch, inner, .. } = *access;
        self.accesses.push(Remembered { clock: clock.clone(), record, touch, inner, bytes });
    }

    fn retain(
        &mut self,
        records: &mut Table<u32>,
        tell: &mut impl FnMut(Told<'_>),
        mut keep: impl FnMut(&mut Remembered) -> bool,
    ) {
        self.accesses.retain_mut(|access| {
            let kept = keep(access);
            if !kept {
                leave(records, access.record, tell);
            }
            kept
        });
    }
}

impl Remembered {
    /// Tells the pair that this access makes with a newer one, if it does.
    fn compare(
        &self,
        clock: &Clock,
        newer: &Access,
        (line, bytes): (u64, u64),
        variables: u64,
        tell: &mut impl FnMut(Told<'_>),
    ) {
        let (frees, known) = (self.touch == Touch::Free, clock.knows(self.clock.epoch()));
        if known && !frees || self.touch == Touch::Read && newer.touch == Touch::Read {
            return;
        }
        let kind = Kind::of(frees, newer.touch == Touch::Free, known);
        let both = self.bytes & bytes;
        // Whoever frees a variable, or uses one that is free, does not mean to synchronise by it.
        let atomic = if kind == Kind::Accesses { both & variables } else { 0 };
        let locked = self.touch == Touch::Locked || newer.touch == Touch::Locked;
        for (bytes, perhaps_atomic) in [(both & !atomic, false), (if locked { 0 } else { atomic }, true)] {
            if bytes != 0 {
                tell(Told::Pair(Pair {
                    line,
                    bytes,
                    kind,
                    perhaps_atomic,
                    older: (self.record, self.touch),
                    older_clock: &self.clock,
                    newer: (newer.record, newer.touch),
                    newer_clock: clock,
                }));
            }
        }
    }

    /// Whether a newer access to its bytes takes its place.
    fn is_covered(&self, clock: &Clock, newer: Touch) -> bool {
        let epoch = self.clock.epoch();
        match (self.touch, newer) {
            (Touch::Free, Touch::Free) => clock.knows(epoch),
            (Touch::Read, Touch::Read) => epoch.thread() == clock.epoch().thread(),
            (Touch::Free, _) | (_, Touch::Read) => false,
            _ => clock.knows(epoch),
        }
    }
}

/// One place fewer remembers a record.
fn leave(records: &mut Table<u32>, record: u32, tell: &mut impl FnMut(Told<'_>)) {
    let key = u64::from(record);
    if let Some(places) = records.get_mut(&key) {
        *places -= 1;
        if *places == 0 {
            records.remove(&key);
            tell(Told::Unused(record));
        }
    }
}
