//! What a recording tells with a call in which time passed (`environment/lapses.rs`): how far others were.
//!
//! Apart from the calls because it has its own cursor: sleeps are not taken one by one.

use super::calls::{self, Taken};
use super::{Replay, Rule, acting, turn};
use crate::object::unpack;
use crate::runtime;
use crate::thread::Thread;
use core::num::NonZeroU64;
use core::sync::atomic::{AtomicU32, Ordering};
use relive_order::Kind;
use relive_sys::syscall;
use relive_trace::control::flag;
use relive_trace::record::Record;

/// Of so many other threads it is told at most, for it to stand in the stream.
pub const OTHERS_MAX: usize = 60;
const CLOCK_BITS: u32 = 56;
/// Where a thread stands that holds nobody up.
const ANYWHERE: u64 = u64::MAX;
const WORD: usize = size_of::<u64>();

/// Behind the words of so many threads: their number, and the clock that was joined.
pub const fn last_word(count: usize, clock: u64) -> u64 {
    (count as u64) << CLOCK_BITS | clock
}

/// What stands at the end of a call's bytes.
#[derive(Clone, Copy, Debug)]
struct Told<'a> {
    /// The clock that was joined; 0 if none was.
    clock: u64,
    /// Threads and how many events they had completed.
    others: &'a [[u8; WORD]],
}

impl<'a> Told<'a> {
    fn of(bytes: &'a [u8]) -> Option<Self> {
        let (_, words) = bytes.as_rchunks::<WORD>();
        let (last, words) = words.split_last()?;
        let last = u64::from_le_bytes(*last);
        let (count, clock) = ((last >> CLOCK_BITS) as usize, last & ((1 << CLOCK_BITS) - 1));
        Some(Self { clock, others: words.get(words.len().checked_sub(count)?..)? })
    }

    fn others(self) -> impl Iterator<Item = (u32, u64)> {
        self.others.iter().filter_map(|word| unpack(u64::from_le_bytes(*word)))
    }
}

/// Where a thread stands among its calls in which time passed.
#[derive(Debug)]
pub(super) struct Stand {
    /// The clock that the last one joined, if the thread has come to nothing behind it.
    at: u64,
    /// How many the thread has come to the end of, or passed.
    passed: u64,
    /// Up to this timestamp no other thread's holds it up, as of so many births.
    none_until: (u64, u32),
}

impl Stand {
    pub(super) const START: Self = Self { at: 0, passed: 0, none_until: (0, 0) };
}

impl Replay {
    fn told(&self) -> Option<Told<'static>> {
        self.lapses.at(self.events)?;
        Told::of(self.lapses.payload())
    }

    /// Before which timestamp the calling thread does nothing that others could wait for: that of its next event, unless such a
    /// call comes before it. What it does behind one it does before others go on, up to the next.
    pub(super) fn earliest(&self) -> u64 {
        if self.events == self.total {
            // It may never come to a call behind its last event: its process may have ended before.
            return self.next_time;
        }
        let told = || self.told().map_or(0, |told| told.clock);
        match if self.stand.at > 0 { self.stand.at } else { told() } {
            0 | ANYWHERE => self.next_time,
            clock => self.next_time.min(clock),
        }
    }

    /// The thread goes on from the last of them.
    fn leave_last(&mut self) {
        self.stand.at = 0;
        self.tell();
    }

    /// Says where the thread stands to those whom that may hold up.
    fn tell(&self) {
        let beyond = if self.is_in_one() { self.next_time } else { 0 };
        turn::publish_stand(self.slot(), beyond);
        self.tell_next();
        if self.rule != Rule::Derived {
            self.publish();
        }
    }

    /// Likewise, to those who look for that and not for its next event.
    pub(super) fn tell_next(&self) {
        if self.rule != Rule::Timestamps || runtime::has_flag(flag::AHEAD) {
            let left = self.stand.passed - u64::from(self.is_in_one());
            turn::publish_lapses(self.slot(), left, self.next_lapse());
        }
    }

    /// The thread has come to the end of one, and to nothing behind it.
    fn is_in_one(&self) -> bool {
        !matches!(self.stand.at, 0 | ANYWHERE)
    }

    /// The next of them has ended, or will never come.
    fn next_record(&mut self) {
        self.lapses.advance();
        self.stand.passed += 1;
    }

    /// The clock of the call behind which threads that go ahead do not come before this one has left it; `u64::MAX` if there is none.
    fn next_lapse(&self) -> u64 {
        if self.events == self.total {
            return u64::MAX;
        }
        // See `earliest`.
        let is_sure = self.lapses.position().is_some_and(|at| at < self.total);
        let next = || Told::of(self.lapses.payload()).map_or(0, |told| told.clock);
        match self.stand.at {
            0 if is_sure => NonZeroU64::new(next()).map_or(u64::MAX, NonZeroU64::get),
            0 => u64::MAX,
            clock => clock,
        }
    }

    /// Goes on to the next of `wanted` before the next event, if there is one.
    fn skip_to(&mut self, wanted: fn(&Record) -> bool) {
        while self.lapses.position().is_some_and(|at| at < self.events)
            || self.lapses.at(self.events).is_some_and(|record| !wanted(&record))
        {
            self.next_record();
        }
    }

    /// The program comes to an event: waits that it did not make it has no need for. Those of other kinds may make calls themselves.
    pub(super) fn skip_lapses_before(&mut self, kind: Kind) {
        let is_left =
            |at: u64| at < self.events || at == self.events && matches!(kind, Kind::Lock | Kind::Unlock | Kind::Atomic);
        while let Some(at) = self.values.position().filter(|&at| is_left(at))
            && self.may_leave_out(at)
        {
            self.values.advance();
        }
    }

    /// The program comes to an event: nobody waits for ends of calls before it any more, nor for those of what it may make itself.
    #[inline]
    pub(super) fn leave_lapses(&mut self) {
        if self.stand.at > 0 || self.lapses.at(self.events).is_some() {
            while self.lapses.at(self.events).is_some() {
                self.next_record();
            }
            self.leave_last();
        }
    }

    /// The thread's next event is another one: what was not come to before the last one will not be.
    pub(super) fn pass_lapses(&mut self) {
        if self.lapses.position().is_some_and(|at| at < self.events) {
            self.skip_to(|_| true);
            self.tell_next();
        }
    }
}

impl Thread {
    /// Waits until no other thread of the process has a call left in which time passed, and before whose end the next event was not;
    /// later replays do so, too.
    #[inline]
    pub(super) fn wait_for_lapses(&mut self) {
        let control = runtime::session();
        if control.lapses.load(Ordering::Relaxed) == 0 {
            return;
        }
        let births = control.births.load(Ordering::Acquire);
        let (time, known) = (self.replay.next_time, self.replay.stand.none_until);
        if time > known.0 || births != known.1 {
            let until = turn::wait_for_lapses(self.replay.slot(), self.index, time, |other, left| {
                if self.replay.rule == Rule::Learning && left > 0 {
                    self.learn_lapses(other, left);
                }
            });
            self.replay.stand.none_until = (until, births);
        }
    }
}

/// The calling thread may wait in the kernel, for others.
pub fn let_go() {
    let r = &mut acting().replay;
    if r.stand.at > 0 || r.lapses.at(r.events).is_some() {
        r.stand.at = ANYWHERE;
        r.tell();
    }
}

/// The calling thread has slept. Sleeps are not counted: behind the last one that the recording has before the next event nobody
/// is let come anywhere.
pub(super) fn end_sleep() {
    let r = &mut acting().replay;
    r.pass_lapses();
    r.leave_last();
    if r.lapses.at(r.events).is_some_and(|record| calls::is_full_sleep(&record)) {
        end();
    }
}

/// Calls of which programs make as many as it takes until they see what they wait for: counted ones in which time passes, and
/// those that tell the time.
const fn class(number: usize) -> Option<usize> {
    if calls::is_sleep(number) {
        None
    } else if calls::lets_time_pass(number) {
        Some(0)
    } else if calls::tells_time(number) {
        Some(1)
    } else {
        None
    }
}

/// The last such calls since the thread's last event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repeated {
    /// Of each class: its number, and what was recorded of it.
    last: [Option<(usize, Taken)>; 2],
    /// How many events the thread had completed.
    events: u64,
    /// How often one was made once more, and how far all threads were at the last time.
    times: u32,
    progress: u64,
    /// That is what the thread does now.
    again: bool,
}

impl Repeated {
    pub(super) const NOTHING: Self = Self { last: [None; 2], events: 0, times: 0, progress: 0, again: false };
}

impl Replay {
    fn last_of(&self, class: usize) -> Option<(usize, Taken)> {
        self.repeated.last[class].filter(|_| self.repeated.events == self.events)
    }

    /// The last call of this number once more, if the program makes it again and the recording goes on otherwise: it has not yet seen
    /// what it waits for.
    #[inline]
    pub(super) fn again(&mut self, number: usize) -> Option<Taken> {
        let (_, taken) = self.last_of(class(number)?).filter(|&(last, _)| last == number)?;
        self.may_make_again(number).then_some(taken)
    }

    fn may_make_again(&mut self, number: usize) -> bool {
        /// Spinning threads look often; after so many milliseconds in which nobody comes any further it has gone another way.
        const YIELDS: u32 = 1000;
        const PATIENCE: u32 = YIELDS + 2000;
        let at_end = self.values.position().is_none() && self.events == self.total;
        let is_next =
            matches!(calls::next(self), Some(Record::Call { number: next, .. }) if usize::from(next) == number);
        if at_end || is_next || self.repeated.times == PATIENCE {
            return false;
        }
        let progress = turn::progress_of_all();
        if progress != self.repeated.progress {
            (self.repeated.progress, self.repeated.times) = (progress, self.repeated.times.min(YIELDS));
        }
        self.repeated.times += 1;
        self.repeated.again = true;
        if self.repeated.times < YIELDS && calls::tells_time(number) {
            syscall::sched_yield();
        } else {
            syscall::futex_wait(&AtomicU32::new(0), 0, Some(1));
        }
        true
    }

    /// What was recorded of a call was taken. One that found something before its time was up is not made again.
    #[inline]
    pub(super) fn note_for_again(&mut self, number: usize, taken: Taken) {
        let Some(class) = class(number) else { return };
        let last = if self.repeated.events == self.events { self.repeated.last } else { [None; 2] };
        self.repeated = Repeated { last, events: self.events, ..Repeated::NOTHING };
        self.repeated.last[class] = Some((number, taken)).filter(|_| taken.result == 0 || calls::tells_time(number));
    }

    /// The program makes a call of this number: what it did not make it has no need for.
    #[inline]
    pub(super) fn leave_out_before(&mut self, number: usize) {
        let is_next = |record| matches!(record, Record::Call { number: next, .. } if usize::from(next) == number);
        while let Some(at) = self.values.position().filter(|&at| at <= self.events + 1)
            && (at < self.events || !self.values.at(at).is_some_and(is_next))
            && self.may_leave_out(at)
        {
            self.values.advance();
            self.skip_hashes();
        }
    }

    /// Whether the next record, at event number `at`, is of a call for which a program has no need that has seen what it waited for
    /// before.
    fn may_leave_out(&self, at: u64) -> bool {
        let looks = self.repeated.events == at && self.repeated.last[1].is_some();
        self.values.at(at).is_some_and(|record| calls::is_counted_lapse(&record) || looks && calls::is_look(&record))
    }
}

/// The calling thread comes to the end of a call that is counted.
pub fn end_counted() {
    let r = &mut acting().replay;
    if core::mem::take(&mut r.repeated.again) {
        return r.leave_last();
    }
    r.skip_to(calls::is_counted_lapse);
    r.leave_last();
    end();
}

/// Lets others come to where they were.
fn end() {
    let r = &mut acting().replay;
    if let Some(told) = r.told() {
        turn::let_come_to(r.slot(), || told.others());
        r.stand.at = told.clock;
    }
    r.next_record();
    r.tell();
}

#[cfg(test)]
mod tests {
    use super::{Told, last_word};
    use crate::object::pack;

    #[test]
    fn what_is_told_stands_behind_other_bytes() {
        let words = [7, 7, pack(3, 12), pack(5, 0), last_word(2, 99)];
        let bytes: Vec<u8> = words.iter().flat_map(|word: &u64| word.to_le_bytes()).collect();
        let told = Told::of(&bytes).unwrap();
        assert_eq!((told.clock, told.others().collect::<Vec<_>>()), (99, vec![(3, 12), (5, 0)]));
        let odd = [&[1, 2, 3][..], &bytes[16..]].concat();
        assert_eq!(Told::of(&odd).map(|told| told.others().count()), Some(2));
        assert!(Told::of(&[]).is_none() && Told::of(&bytes[..24]).is_none_or(|told| told.others.len() < 3));
        assert!(Told::of(&bytes[24..]).is_none(), "fewer words than it says");
    }
}
