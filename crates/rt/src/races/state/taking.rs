//! What threads touched comes to the histories.
//!
//! A thread's log is taken at the end of each segment. What it reads in one segment after
//! the other is not in there: such reads last (`relive_race`'s history), and the bits that
//! say so stay set, so that the code which notes accesses passes them by.
//!
//! Apart from the state because none of this moves a clock.

use super::{State, looked};
use crate::races::ledger::given;
use crate::races::{Pass, Touched, alone};
use crate::runtime;
use crate::translation::{self, Elsewhere};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use relive_order::{Family, Kind};
use relive_race::{Clock, Line, Often, Open, Reads};
use relive_sys::lock::{Guard, Lock};
use relive_trace::control::flag;
use relive_trace::races::{WATCH, word};

/// Where a segment touches more lines than this, its costs are not those of what others read, too.
const SHORT: u64 = 256;

/// What each thread reads again and again, by the threads' indices.
pub(super) struct Again {
    threads: Box<[Mine]>,
    /// Whether reads may last at all.
    may: bool,
    /// Lines of which they may not: the replay before did not know of them. In order.
    unsure: Vec<u64>,
}

/// One thread's, on a line of its own: it alone takes this, but for who ends the process or forks.
#[repr(align(128))]
struct Mine(Lock<Reads>);

impl Again {
    /// For so many threads.
    ///
    /// Where the recording orders accesses to memory, a replay that waits in vain is searched for what threads read last:
    /// all of that is in their logs. And who counts segments wants what each of them read.
    pub(super) fn new(pass: Pass, threads: u32) -> Self {
        let without = [flag::ATOMICS, flag::SEGMENTS, flag::EACH_READ].into_iter().any(runtime::has_flag);
        let may = pass == Pass::First && !without && runtime::session().in_vain == 0;
        let one = |_| Mine(Lock::new(nothing_read()));
        let threads = if may { threads } else { 0 };
        Self { threads: (0..threads).map(one).collect(), may, unsure: if may { unsure() } else { Vec::new() } }
    }

    fn of(&self, thread: u32) -> Option<Guard<'_, Reads>> {
        self.may.then(|| self.threads[thread as usize].0.lock())
    }
}

/// Of a thread that has read nothing.
fn nothing_read() -> Reads {
    Reads::new(Often::USUAL, |line| {
        translation::may_keep(line) && State::get().again.unsure.binary_search(&line).is_err()
    })
}

/// The lines of which the launcher says so.
fn unsure() -> Vec<u64> {
    let given = given(WATCH);
    let mut lines: Vec<u64> =
        given.chunks_exact(word::COUNT).filter(|record| record[0] == word::UNSURE).map(|record| record[1]).collect();
    lines.sort_unstable();
    lines
}

/// Whether a thread's reads may not last beyond an event of this kind: it hands over more than what a lock guards, and what
/// it has read may be written by others then.
pub(super) fn closes(kind: Kind) -> bool {
    matches!(kind, Kind::WaitRelease | Kind::Exit | Kind::ThreadExit)
        || matches!(kind.family(), Family::Barrier | Family::Semaphore | Family::Thread)
}

impl State {
    /// The calling thread's lines, as those of the segment with this clock.
    pub(super) fn check(&self, clock: &Clock) {
        let me = clock.epoch().thread();
        let mut reads = self.again.of(me);
        translation::touched(|segment| {
            self.take(clock, reads.as_deref_mut(), segment);
            if let (Some((history, _)), Some(reads)) = (&self.history, reads.as_deref_mut()) {
                let (lasting, time) = (history.lasting(), clock.time_of(me));
                lasting.take_ended(me, reads, |line| segment.let_line_go(line));
                if reads.is_time(time, segment.changes()) {
                    lasting.close(me, reads, time, |line| segment.let_line_go(line));
                }
                reads.begun().for_each(|open| segment.keep_open(open));
            }
        });
    }

    /// The thread's log is full in the middle of a segment.
    pub(in crate::races) fn full(&self, me: u32, segment: &mut impl Touched) {
        let _within = self.passage.enter(me);
        self.take(&self.clocks.current(me), self.again.of(me).as_deref_mut(), segment);
    }

    fn take(&self, clock: &Clock, mut reads: Option<&mut Reads>, segment: &mut impl Touched) {
        self.gather(|found| {
            if let Some(reads) = reads.as_deref_mut().filter(|reads| !reads.open().is_empty()) {
                self.recall(clock, reads, segment);
            }
            let mut reads = reads.filter(|_| segment.count() <= SHORT);
            segment.take_all(
                |lines| self.hold(clock, lines, reads.as_deref_mut()),
                |range| self.variable(word::VARIABLE, &range, found),
            );
        });
    }

    /// What is new of the lines of which the thread's reads last.
    fn recall(&self, clock: &Clock, reads: &mut Reads, segment: &mut impl Touched) {
        let Some((history, _)) = &self.history else { return };
        if alone::has_one_thread() {
            // As in `hold`.
            let (me, time) = (clock.epoch().thread(), clock.epoch().time());
            return history.lasting().close(me, reads, time, |line| segment.let_line_go(line));
        }
        let mut news: Vec<Line> = Vec::new();
        segment.news(reads.open(), |line| news.push(line));
        for line in news {
            if line.written != 0 {
                history.lasting().close_one(clock.epoch().thread(), reads, clock.epoch().time(), line.number);
                self.hold(clock, &[line], None);
            } else {
                let more = Open { line: line.number, bytes: line.read };
                self.gather(|found| history.check_more(clock, more, reads, &mut |race| self.tell(race, found)));
            }
        }
    }

    /// The thread's reads do not last any longer.
    pub(super) fn close(&self, me: u32) {
        let Some((history, _)) = &self.history else { return };
        if self.again.of(me).is_some_and(|reads| reads.is_any()) {
            let clock = self.clocks.current(me);
            // What it did to those lines meanwhile is noted in their bits alone.
            self.check(&clock);
            if let Some(mut reads) = self.again.of(me) {
                translation::touched(|segment| {
                    history.lasting().close(me, &mut reads, clock.epoch().time(), |line| segment.let_line_go(line));
                });
            }
        }
    }

    /// Others, or the thread itself, have made another thing of memory that it reads again and again.
    pub(super) fn take_ended(&self, me: u32) {
        let (Some((history, _)), Some(mut reads)) = (&self.history, self.again.of(me)) else { return };
        // Blocks of the heap come and go more often than anything lasts. Else the next segment's end asks.
        if !reads.is_any() {
            return;
        }
        translation::touched(|segment| {
            history.lasting().take_ended(me, &mut reads, |line| segment.let_line_go(line));
        });
    }

    /// The thread ends.
    pub(super) fn end_reads(&self, me: u32) {
        self.close(me);
        if let Some(mut reads) = self.again.of(me) {
            *reads = nothing_read();
        }
    }

    /// In a child, with this thread alone: what it did in its parent races with nothing here.
    pub(super) fn forget_reads(&self, me: u32) {
        if let Some(reads) = self.again.of(me) {
            translation::touched(|segment| reads.open().iter().for_each(|open| segment.let_line_go(open.line)));
        }
        for thread in &self.again.threads {
            *thread.0.lock() = nothing_read();
        }
        if let Some((history, _)) = &self.history {
            history.lasting().reset();
        }
    }

    /// Lines of one segment, whose reads may last if `reads` are those of their thread.
    pub(super) fn hold(&self, clock: &Clock, lines: &[Line], reads: Option<&mut Reads>) {
        looked();
        self.tell_seen(lines);
        // The second pass has its accesses one by one. Those of the only thread count as little where they are looked at as
        // where they are not.
        if let Some((history, _)) = self.history.as_ref().filter(|_| !alone::has_one_thread()) {
            self.tally.touched(clock, lines);
            self.gather(|found| {
                let mut tell = |race| self.tell(race, found);
                match reads {
                    Some(reads) => history.check_reads(clock, lines, reads, &mut tell),
                    None => history.check(clock, lines, &mut tell),
                }
                self.open.tell(clock.epoch().thread(), lines, found);
            });
        }
    }

    /// What another thread did in the segment with this clock, at which nobody is within.
    pub(super) fn hold_others(&self, clock: &Clock, memory: &Elsewhere) {
        let reads = self.again.of(clock.epoch().thread());
        let kept = reads.as_deref().map_or(&[][..], Reads::open);
        self.gather(|found| {
            translation::look(
                memory,
                kept,
                |lines| self.hold(clock, lines, None),
                |range: Range<u64>| self.variable(word::VARIABLE, &range, found),
            );
        });
    }

    /// Lines of which the first pass does not know, by reads that last, whether they race: the launcher has it done again.
    pub(super) fn tell_unsure(&self, words: &mut Vec<u64>) {
        if let Some((history, _)) = &self.history {
            words.extend(history.lasting().take_unsure().into_iter().flat_map(|line| [word::UNSURE, line, 0]));
        }
    }
}
