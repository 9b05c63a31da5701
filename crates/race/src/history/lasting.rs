//! Reads that last: what a thread reads in one segment after the other is noted once.
//!
//! Segments end at each lock, and data that nobody writes are read in all of them: a
//! scene, a table, code's constants. Each of their lines would be noted again in each
//! segment, and its cell, which the readers share, written by each of them.
//!
//! So where a thread has read a line in many segments close to each other, and nobody
//! wrote it meanwhile, its reads of those bytes *last*: they are not noted any more, and
//! it is taken to read them in each segment from there on, until it closes the read
//! ([`Lasting::close`]); it does that after so many segments, and where it hands over
//! more than a lock. Who writes the line asks here. What the writer knows of, up to where
//! the read was closed, happened before the write. What it does not know may have been
//! read or not: the line is *unsure*, and the caller looks at the whole execution again,
//! with each read of it. So nothing is lost, and nothing reported that was not done.
//!
//! A read begins, and a write asks, under the lock of the line's cell, which says whether
//! any reads of it last: who comes later sees the other.
//!
//! Apart from the cells because hardly any line comes here.

use crate::clock::Clock;
use crate::epoch::Epoch;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use relive_sys::lock::Lock;

/// What makes reads of a line last, and how long.
#[derive(Clone, Copy, Debug)]
pub struct Often {
    /// In so many segments the line must have been read.
    pub enough: u32,
    /// Two of them in a row are no further apart; each time that they are, half of those before count no more.
    pub gap: u64,
    /// After so many segments a thread closes its reads, and begins with those that it still makes.
    pub segments: u64,
}

impl Often {
    /// A segment that reads a line once more pays for about ten that look whether anything else was done to it.
    pub const USUAL: Self = Self { enough: 24, gap: 8, segments: 256 };
}

/// Lines of a thread whose reads last: it looks through them after each segment.
const OPEN_MAX: usize = 1024;
/// Lines that a thread remembers to have read.
const SEEN: usize = 2048;
/// Lines of which something is remembered here.
const LINES_MAX: usize = 1 << 16;
/// Unsure lines that are told.
const UNSURE_MAX: usize = 1 << 12;
/// The read was not closed.
const OPEN: u64 = u64::MAX;

/// Bytes of a line of which a thread's reads last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// The line's address divided by 64.
    pub line: u64,
    /// The bytes: bit `i` stands for byte `i`.
    pub bytes: u64,
}

/// A line that a thread has read.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Its number plus one.
    line: u64,
    /// The last segment.
    time: u64,
    /// In how many, and how often the line was written by then.
    count: u32,
    writes: u32,
}

/// What one thread reads again and again.
#[derive(Debug)]
pub struct Reads {
    often: Often,
    may_last: fn(u64) -> bool,
    seen: Vec<Seen>,
    open: Vec<Open>,
    /// Those that began since their thread was last told.
    begun: Vec<Open>,
    /// The segment in which it last had none.
    since: u64,
    /// How often what may last had changed when it last asked.
    changes: u64,
    /// How often reads were ended by others when the thread last asked.
    ends: u64,
}

impl Reads {
    /// Of a thread that has read nothing. Reads of a line last only where `may_last` says that they may.
    pub fn new(often: Often, may_last: fn(u64) -> bool) -> Self {
        let (seen, open, begun) = (Vec::new(), Vec::new(), Vec::new());
        Self { often, may_last, seen, open, begun, since: 0, changes: 0, ends: 0 }
    }

    /// Lines of which the thread does not note those bytes any more.
    pub fn open(&self) -> &[Open] {
        &self.open
    }

    /// Those that began since this was last called, which from here on belong to [`Reads::open`].
    pub fn begun(&mut self) -> impl Iterator<Item = Open> {
        let from = self.open.len();
        self.open.append(&mut self.begun);
        self.open[from..].iter().copied()
    }

    /// The thread reads a line in a segment, which was written so often before: whether its reads last from here on.
    #[inline]
    pub(super) fn lasts(&mut self, line: u64, time: u64, writes: u32) -> bool {
        if self.seen.is_empty() {
            // Most threads of a program that makes many are gone before.
            if time < u64::from(self.often.enough) / 2 {
                return false;
            }
            self.seen = vec![Seen::default(); SEEN];
        }
        let seen = &mut self.seen[line as usize % SEEN];
        let count = match (seen.line == line + 1 && seen.writes == writes, time - seen.time) {
            (false, _) => 0,
            (true, 0) => seen.count,
            (true, gap) if gap <= self.often.gap => seen.count + 1,
            (true, _) => seen.count / 2,
        };
        *seen = Seen { line: line + 1, time, count, writes };
        count >= self.often.enough && self.open.len() + self.begun.len() < OPEN_MAX && (self.may_last)(line)
    }

    pub(super) fn begin(&mut self, open: Open) {
        match self.begun.iter_mut().find(|begun| begun.line == open.line) {
            Some(begun) => begun.bytes |= open.bytes,
            None => self.begun.push(open),
        }
    }

    pub(super) fn go_on(&mut self, more: Open) {
        for open in self.open.iter_mut().filter(|open| open.line == more.line) {
            open.bytes |= more.bytes;
        }
    }

    /// Whether any of them last.
    #[inline]
    pub fn is_any(&self) -> bool {
        !self.open.is_empty() || !self.begun.is_empty()
    }

    /// Whether the thread should close what lasts: it is long since it did, in its segment with this number; or what may last
    /// has changed, which it did so often by now.
    #[inline]
    pub fn is_time(&mut self, time: u64, changes: u64) -> bool {
        let changed = core::mem::replace(&mut self.changes, changes) != changes;
        self.is_any() && (changed || time >= self.since + self.often.segments)
    }

    /// What lasted was read up to this segment.
    fn seen_until(&mut self, time: u64) {
        let Self { seen, open, .. } = self;
        for open in open {
            let seen = &mut seen[open.line as usize % SEEN];
            if seen.line == open.line + 1 {
                seen.time = time;
            }
        }
    }

    fn forget(&mut self, gone: impl Fn(u64) -> bool, mut each: impl FnMut(u64)) {
        for all in [&mut self.open, &mut self.begun] {
            all.retain(|open| {
                let goes = gone(open.line);
                if goes {
                    each(open.line);
                }
                !goes
            });
        }
    }
}

/// A thread's reads of a line.
#[derive(Debug)]
struct Last {
    thread: u32,
    bytes: u64,
    /// The last segment in which it may have read them.
    until: u64,
}

impl Last {
    /// It was closed, and nobody can write unordered with it any more.
    fn is_past(&self, all_know: &impl Fn(Epoch) -> bool) -> bool {
        self.until != OPEN && all_know(Epoch::new(self.thread, self.until))
    }
}

#[derive(Debug, Default)]
struct Lines {
    by_line: BTreeMap<u64, Vec<Last>>,
    /// By threads: lines of which somebody else ended the read.
    ended: BTreeMap<u32, Vec<u64>>,
    unsure: BTreeSet<u64>,
    /// More lines than this are looked through for what all threads know.
    enough: usize,
}

/// What the threads of a process read again and again.
#[derive(Debug, Default)]
pub struct Lasting {
    lines: Lock<Lines>,
    /// How often somebody ended another's read.
    ends: AtomicU64,
    /// How many lines became unsure.
    unsure: AtomicU64,
}

impl Lasting {
    /// Reads of a thread last from here on; if there is room for that. Under the lock of the line's cell.
    pub(super) fn begin(&self, thread: u32, open: Open, all_know: impl Fn(Epoch) -> bool) -> bool {
        let mut lines = self.lines.lock();
        if lines.by_line.len() > lines.enough {
            lines.by_line.retain(|_, all| {
                all.retain(|last| !last.is_past(&all_know));
                !all.is_empty()
            });
            lines.enough = (lines.by_line.len() * 2).clamp(LINES_MAX / 16, LINES_MAX);
        }
        if lines.by_line.len() >= LINES_MAX && !lines.by_line.contains_key(&open.line) {
            return false;
        }
        add(&mut lines, thread, open);
        true
    }

    /// Reads of a thread last, and from here on those of further bytes of the line. As above.
    pub(super) fn go_on(&self, thread: u32, open: Open) {
        add(&mut self.lines.lock(), thread, open);
    }

    /// Of a line it is not known what reads that last meet there.
    pub(super) fn doubt(&self, line: u64) {
        self.doubt_in(&mut self.lines.lock().unsure, line);
    }

    fn doubt_in(&self, unsure: &mut BTreeSet<u64>, line: u64) {
        if unsure.len() < UNSURE_MAX {
            unsure.insert(line);
        }
        self.unsure.fetch_add(1, Relaxed);
    }

    /// A segment writes bytes of a line, or gives them back. Under the lock of its cell. Whether any reads of it last still.
    pub(super) fn written(
        &self,
        clock: &Clock,
        line: u64,
        (bytes, freed): (u64, bool),
        all_know: impl Fn(Epoch) -> bool,
    ) -> bool {
        let writer = clock.epoch().thread();
        self.meet(line, bytes, all_know, |last| {
            if last.thread == writer {
                // Nobody races with oneself; but what is given back becomes another thing.
                return if freed { Meets::Ends(clock.time_of(writer)) } else { Meets::Stays };
            }
            if clock.time_of(last.thread) >= last.until { Meets::Before } else { Meets::Unsure }
        })
    }

    /// Bytes of a line are another thing from here on. As above.
    pub(super) fn fresh(&self, line: u64, bytes: u64) -> bool {
        self.meet(line, bytes, |_| false, |last| if last.until == OPEN { Meets::Unsure } else { Meets::Before })
    }

    #[cold]
    fn meet(&self, line: u64, bytes: u64, all_know: impl Fn(Epoch) -> bool, how: impl Fn(&Last) -> Meets) -> bool {
        let mut lines = self.lines.lock();
        let Lines { by_line, ended, unsure, .. } = &mut *lines;
        let Some(all) = by_line.get_mut(&line) else { return false };
        all.retain_mut(|last| {
            // Else a line of which other bytes are written comes here for good.
            if last.is_past(&all_know) {
                return false;
            }
            let meets = if last.bytes & bytes == 0 { Meets::Stays } else { how(last) };
            match meets {
                Meets::Stays => return true,
                Meets::Before => {
                    last.bytes &= !bytes;
                    return last.bytes != 0;
                }
                Meets::Unsure => {
                    self.doubt_in(unsure, line);
                    last.bytes = 0;
                }
                Meets::Ends(_) => last.bytes &= !bytes,
            }
            if last.until == OPEN {
                ended.entry(last.thread).or_default().push(line);
                self.ends.fetch_add(1, Release);
                // What is left of them the thread may have read in this segment, too.
                if let Meets::Ends(time) = meets {
                    last.until = time;
                }
            }
            last.bytes != 0
        });
        let some = !all.is_empty();
        if !some {
            by_line.remove(&line);
        }
        some
    }

    /// A thread takes back, in its segment with this number, what lasts of its reads. `each` is told of the lines.
    pub fn close(&self, thread: u32, reads: &mut Reads, time: u64, each: impl FnMut(u64)) {
        reads.since = time;
        if !reads.is_any() {
            return;
        }
        let mut lines = self.lines.lock();
        for open in reads.open.iter().chain(&reads.begun) {
            close(&mut lines, thread, open.line, time);
        }
        drop(lines);
        reads.seen_until(time);
        reads.forget(|_| true, each);
    }

    /// The same for one line.
    pub fn close_one(&self, thread: u32, reads: &mut Reads, time: u64, line: u64) {
        close(&mut self.lines.lock(), thread, line, time);
        reads.forget(|other| other == line, |_| {});
    }

    /// Of which of its lines a thread is to take its reads back because of what others did. `each` is told of them.
    #[inline]
    pub fn take_ended(&self, thread: u32, reads: &mut Reads, each: impl FnMut(u64)) {
        let ends = self.ends.load(Acquire);
        if ends != reads.ends {
            reads.ends = ends;
            let gone = self.lines.lock().ended.remove(&thread).unwrap_or_default();
            reads.forget(|line| gone.contains(&line), each);
        }
    }

    /// Lines of which is not known whether somebody else read them unordered with a write, since this was last called.
    pub fn take_unsure(&self) -> Vec<u64> {
        if self.unsure.load(Relaxed) == 0 {
            return Vec::new();
        }
        self.unsure.store(0, Relaxed);
        core::mem::take(&mut self.lines.lock().unsure).into_iter().collect()
    }

    /// Nothing lasts any more: in a child, whose one thread has taken its reads back.
    pub fn reset(&self) {
        *self.lines.lock() = Lines::default();
    }
}

/// What a write means for a read.
enum Meets {
    Stays,
    /// It happened before.
    Before,
    /// It may have.
    Unsure,
    /// It is the thread's own, in this segment of its.
    Ends(u64),
}

fn add(lines: &mut Lines, thread: u32, open: Open) {
    let all = lines.by_line.entry(open.line).or_default();
    match all.iter_mut().find(|last| last.thread == thread) {
        Some(last) => {
            last.bytes |= open.bytes;
            last.until = OPEN;
        }
        None => all.push(Last { thread, bytes: open.bytes, until: OPEN }),
    }
}

fn close(lines: &mut Lines, thread: u32, line: u64, time: u64) {
    let all = lines.by_line.get_mut(&line).into_iter().flatten();
    for last in all.filter(|last| last.thread == thread && last.until == OPEN) {
        last.until = time;
    }
}
