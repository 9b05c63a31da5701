//! What a recording tells with a call in which time passed (`environment/lapses.rs`): how far others were.
//!
//! Apart from the calls because it has its own cursor: sleeps are not taken one by one.

use super::calls::{self, Taken};
use super::{Replay, Rule, acting, turn};
use crate::object::unpack;
use core::sync::atomic::AtomicU32;
use relive_order::Kind;
use relive_sys::syscall;
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

impl Replay {
    fn told(&self) -> Option<Told<'static>> {
        self.lapses.at(self.events)?;
        Told::of(self.lapses.payload())
    }

    /// Before which timestamp the calling thread does nothing that others could wait for: that of its next event, unless such a
    /// call comes before it. What it does behind one it does before others go on, up to the next.
    pub(super) fn earliest(&self) -> u64 {
        let told = || self.told().map_or(0, |told| told.clock);
        match if self.stands_at > 0 { self.stands_at } else { told() } {
            0 | ANYWHERE => self.next_time,
            clock => self.next_time.min(clock + 1),
        }
    }

    /// The thread goes on from the last of them.
    fn leave_last(&mut self) {
        self.stands_at = 0;
        if self.rule != Rule::Derived {
            self.publish();
        }
    }

    /// Goes on to the next of `wanted` before the next event, if there is one.
    fn skip_to(&mut self, wanted: fn(&Record) -> bool) {
        while self.lapses.position().is_some_and(|at| at < self.events)
            || self.lapses.at(self.events).is_some_and(|record| !wanted(&record))
        {
            self.lapses.advance();
        }
    }

    /// The program comes to an event: waits that it did not make it has no need for. Those of other kinds may make calls themselves.
    pub(super) fn skip_lapses_before(&mut self, kind: Kind) {
        let is_left =
            |at: u64| at < self.events || at == self.events && matches!(kind, Kind::Lock | Kind::Unlock | Kind::Atomic);
        while let Some(at) = self.values.position().filter(|&at| is_left(at))
            && self.values.at(at).is_some_and(|record| calls::is_counted_lapse(&record))
        {
            self.values.advance();
        }
    }

    /// The program comes to an event: nobody waits for ends of calls before it any more, nor for those of what it may make itself.
    #[inline]
    pub(super) fn leave_lapses(&mut self) {
        if self.stands_at > 0 || self.lapses.at(self.events).is_some() {
            while self.lapses.at(self.events).is_some() {
                self.lapses.advance();
            }
            self.leave_last();
        }
    }

    /// The thread's next event is another one: what was not come to before the last one will not be.
    pub(super) fn pass_lapses(&mut self) {
        if self.lapses.position().is_some_and(|at| at < self.events) {
            self.skip_to(|_| true);
        }
    }
}

/// The calling thread may wait in the kernel, for others.
pub fn let_go() {
    let r = &mut acting().replay;
    if r.rule != Rule::Derived && (r.stands_at > 0 || r.lapses.at(r.events).is_some()) {
        r.stands_at = ANYWHERE;
        r.publish();
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

/// The last counted call in which time passed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repeated {
    /// Its number and what was recorded of it.
    last: Option<(usize, Taken)>,
    /// How many events the thread had completed.
    events: u64,
    /// How often it was made once more.
    times: u32,
    /// That is what it does now.
    again: bool,
}

impl Repeated {
    pub(super) const NOTHING: Self = Self { last: None, events: 0, times: 0, again: false };
}

/// The same once more, if the program makes it again and the recording goes on otherwise: it has not yet seen what it waits for.
pub fn again(number: usize) -> Option<Taken> {
    /// After so many milliseconds in vain it has gone another way.
    const PATIENCE: u32 = 1000;
    let r = &mut acting().replay;
    let (last, taken) = r.repeated.last.filter(|_| r.repeated.events == r.events)?;
    if last != number {
        return None;
    }
    r.skip_hashes();
    let at_end = r.values.position().is_none() && r.events == r.total;
    let is_next = matches!(calls::next(r), Some(Record::Call { number: next, .. }) if usize::from(next) == number);
    if at_end || is_next || r.repeated.times == PATIENCE {
        return None;
    }
    r.repeated.times += 1;
    r.repeated.again = true;
    syscall::futex_wait(&AtomicU32::new(0), 0, Some(1));
    Some(taken)
}

/// The calling thread comes to the end of a call that is counted.
pub fn end_counted(number: usize, taken: Taken) {
    let r = &mut acting().replay;
    if core::mem::take(&mut r.repeated.again) {
        return r.leave_last();
    }
    r.repeated = Repeated { last: Some((number, taken)), events: r.events, ..Repeated::NOTHING };
    r.skip_to(calls::is_counted_lapse);
    r.leave_last();
    end();
}

/// Lets others come to where they were.
fn end() {
    let r = &mut acting().replay;
    if let Some(told) = r.told() {
        turn::let_come_to(r.slot(), || told.others());
        r.stands_at = told.clock;
    }
    r.lapses.advance();
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
