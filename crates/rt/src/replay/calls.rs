//! Where a replay takes the results of system calls from.
//!
//! Apart from the gate because a call is no event: its record stands between two
//! events of its thread, and only that thread's stream decides.

use super::{Replay, acting, lapse, past_the_end_of_calls, signals};
use crate::inputs::Recorded;
use crate::process;
use crate::races;
use crate::report::{self, Met};
use core::sync::atomic::{AtomicU32, Ordering};
use relive_order::Kind;
use relive_sys::syscall::number::{
    BRK, CLOCK_GETTIME, CLOCK_NANOSLEEP, EPOLL_PWAIT, EPOLL_PWAIT2, EPOLL_WAIT, EXECVE, FSTAT, GETTIMEOFDAY, IOCTL,
    MMAP, MPROTECT, MUNMAP, NANOSLEEP, NEWFSTATAT, POLL, PPOLL, PSELECT6, SELECT, TIME,
};
use relive_sys::{syscall, trampoline};
use relive_trace::control::cause;
use relive_trace::record::{Place, Record, instruction};

/// What a recording has of one call.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// What it returned.
    pub result: isize,
    /// How many bytes it took in.
    pub bytes: u32,
    place: Place,
    payload: &'static [u8],
}

/// Takes the record of the calling thread's next call, which must have this number.
///
/// Never returns if the recording ends before, or if the replay has diverged.
pub fn take(number: usize) -> Taken {
    signals::deliver_before_operation();
    let thread = acting();
    let r = &mut thread.replay;
    r.skip_hashes();
    r.leave_out_before(number);
    if let Some(again) = r.again(number) {
        return again;
    }
    // Within an event that is entered and not yet left, calls come behind it: its effect makes them.
    match next(r) {
        Some(Record::Call { number: recorded, result, bytes, place }) if usize::from(recorded) == number => {
            let payload = r.values.payload();
            r.values.advance();
            let calls = &r.slot().calls;
            calls.store(calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            let taken = Taken { result: result as isize, bytes, place, payload };
            r.note_for_again(number, taken);
            taken
        }
        None if r.values.position().is_none() && r.events == r.total => past_the_end_of_calls(thread, number),
        _ => diverge(number),
    }
}

/// Whether the calling thread's next call has this number in the recording.
pub fn is_next(number: usize) -> bool {
    let r = &mut acting().replay;
    r.skip_hashes();
    matches!(next(r), Some(Record::Call { number: recorded, .. }) if usize::from(recorded) == number)
}

/// Whether the recording has one of these records behind what an operation does before it can be cancelled: `most` events
/// at most, of which the condition is given how many, and calls that are no cancellation points.
pub fn comes_behind_preparation(most: u64, wanted: impl Fn(u64, Record) -> bool) -> bool {
    const PREPARES: [usize; 7] = [FSTAT, NEWFSTATAT, IOCTL, MMAP, MUNMAP, MPROTECT, BRK];
    let r = &mut acting().replay;
    r.skip_hashes();
    let (events, mut ahead) = (r.events, r.values.clone());
    while let Some(at) = ahead.position().filter(|&at| at <= events + most) {
        match ahead.at(at) {
            Some(record) if wanted(at - events, record) => return true,
            Some(Record::Call { number, .. }) if !PREPARES.contains(&usize::from(number)) => return false,
            _ => ahead.advance(),
        }
    }
    false
}

/// Lets others see that the calling thread has done all that was recorded of it, if so.
pub fn say_if_done() {
    let r = &mut acting().replay;
    if r.events == r.total {
        // A check hash may stand behind the last event.
        r.skip_hashes();
    }
    if r.values.position().is_none() && r.events == r.total {
        r.slot().is_done.store(1, Ordering::Release);
        process::has_done_all();
    }
}

pub(super) fn next(r: &Replay) -> Option<Record> {
    r.values.at(r.events).or_else(|| r.values.at(r.events + 1))
}

/// The next record, if it is of a call, without taking it.
pub(super) fn next_taken(r: &Replay) -> Option<Taken> {
    match r.values.at(r.events) {
        Some(Record::Call { result, bytes, place, .. }) => {
            Some(Taken { result: result as isize, bytes, place, payload: r.values.payload() })
        }
        _ => None,
    }
}

/// Why the attempt to start another image failed whose record was just taken, if it did.
pub fn failure_of_exec() -> Option<isize> {
    let r = &mut acting().replay;
    r.skip_hashes();
    match next(r) {
        Some(Record::Call { number, result, .. }) if usize::from(number) == EXECVE && result < 0 => {
            r.values.advance();
            Some(result as isize)
        }
        _ => None,
    }
}

/// How an operation failed that the recording tried and this replay does not: what calls it made until then, none of which
/// changed anything in the end, stand before it.
pub fn failure_behind_calls(kind: Kind) -> Option<i32> {
    let r = &mut acting().replay;
    r.skip_hashes();
    while matches!(next(r), Some(Record::Call { .. })) {
        r.values.advance();
        r.skip_hashes();
    }
    super::failure_of_last(kind)
}

/// Whether a record is of a sleep that nothing interrupted. How often a program sleeps until another thread has set a
/// variable is a matter of time, and no order says it: so replays do not count such sleeps.
pub fn is_full_sleep(record: &Record) -> bool {
    matches!(record, &Record::Call { number, result: 0, .. } if is_sleep(usize::from(number)))
}

/// Whether a call may wait for time to pass, and returns 0 then.
pub const fn lets_time_pass(number: usize) -> bool {
    is_sleep(number) || matches!(number, POLL | PPOLL | SELECT | PSELECT6 | EPOLL_WAIT | EPOLL_PWAIT | EPOLL_PWAIT2)
}

/// Whether time passed in a call, for which the thread joined the clocks of others (`environment/lapses.rs`): the next event may
/// be later than its object says.
pub fn is_lapse(record: &Record) -> bool {
    matches!(record, &Record::Call { number, result: 0, .. } if lets_time_pass(usize::from(number)))
}

/// Whether a call, or an instruction, tells the time.
pub const fn tells_time(number: usize) -> bool {
    const INSTRUCTIONS: [usize; 2] = [instruction::TIME as usize, instruction::TIME_AND_PLACE as usize];
    matches!(number, CLOCK_GETTIME | GETTIMEOFDAY | TIME) || number == INSTRUCTIONS[0] || number == INSTRUCTIONS[1]
}

/// Whether a record is of such a one.
pub fn is_look(record: &Record) -> bool {
    matches!(record, &Record::Call { number, .. } if tells_time(usize::from(number)))
}

/// Whether a record is of a call in which time passed, and which a replay counts.
pub fn is_counted_lapse(record: &Record) -> bool {
    is_lapse(record) && !is_full_sleep(record)
}

/// Whether a call does nothing but sleep.
pub const fn is_sleep(number: usize) -> bool {
    matches!(number, NANOSLEEP | CLOCK_NANOSLEEP)
}

/// A sleep that the recording does not tell of in particular: nothing interrupted it. Returns at once, but for whoever
/// sleeps again and again, more often than is known of the recording: others must come to what it waits for. `false` if the
/// recording does tell of it.
pub fn sleep(number: usize) -> bool {
    /// Sleeps in a row that cost nothing.
    const FREE: u32 = 4;
    const PAUSE_MS: u32 = 1;
    signals::deliver_before_operation();
    let r = &mut acting().replay;
    r.skip_hashes();
    let next = r.values.at(r.events);
    if matches!(next, Some(Record::Call { number: recorded, .. }) if usize::from(recorded) == number) {
        return false;
    }
    let made = if r.sleeps.0 == r.events { r.sleeps.1 } else { 0 };
    let at_end = r.values.position().is_none() && r.events == r.total && !r.finished_in_recording;
    let is_more = made >= r.values.passed_over_at(r.events);
    // What came behind the last of them, such as a crash, is in the recording, too.
    if at_end && is_more {
        return false;
    }
    r.sleeps = (r.events, made + 1);
    lapse::end_sleep();
    if is_more && made >= FREE {
        let never = AtomicU32::new(0);
        syscall::futex_wait(&never, 0, Some(PAUSE_MS));
    } else {
        syscall::sched_yield();
    }
    true
}

/// The program makes a call that ends a recording: this one ends here, too, or the program went elsewhere.
#[cold]
pub fn refused(number: usize) -> ! {
    let thread = acting();
    let r = &thread.replay;
    if r.values.position().is_none() && r.events == r.total {
        past_the_end_of_calls(thread, number);
    }
    diverge(number)
}

/// The program made another call than recorded, or one that takes in another number of bytes.
#[cold]
pub fn diverge(number: usize) -> ! {
    let thread = acting();
    let r = &thread.replay;
    let expected = match r.values.at(r.events) {
        Some(Record::Call { number, .. }) => u64::from(number),
        _ => u64::MAX,
    };
    let (thread, event, found) = (thread.index, r.events, number as u64);
    let place = trampoline::caller();
    report::diverge(Met { cause: cause::CALL, thread, did: None, event, expected, found, place, object: 0 })
}

/// The program gives away other bytes by its present call, of which these are the check values. If `passes`, the
/// replay goes on behind it.
#[cold]
pub fn gives_other_bytes(recorded: u32, found: u32, passes: bool) {
    let thread = acting();
    let (index, event) = (thread.index, thread.replay.events);
    let (expected, found) = (u64::from(recorded), u64::from(found));
    let (cause, place) = (if passes { cause::PASSED } else { cause::OUTPUT }, trampoline::caller());
    let met = Met { cause, thread: index, did: None, event, expected, found, place, object: 0 };
    if passes { report::pass(met) } else { report::diverge(met) }
}

/// Memory can't be had where the recording had it.
#[cold]
pub fn misplaced(recorded: usize, found: isize) -> ! {
    let thread = acting();
    let (index, event) = (thread.index, thread.replay.events);
    let (expected, found) = (recorded as u64, found as u64);
    report::diverge(Met {
        cause: cause::ADDRESS,
        thread: index,
        did: None,
        event,
        expected,
        found,
        place: 0,
        object: recorded,
    })
}

impl Taken {
    /// Hands out the bytes from the first on.
    pub fn filler(&self) -> Filler {
        let file = match self.place {
            Place::Stream => None,
            Place::Inputs(_) => Recorded::open(),
        };
        Filler { taken: *self, done: 0, file, whole: true, is_access: true }
    }
}

/// Hands out the bytes of a call.
#[derive(Debug)]
pub struct Filler {
    taken: Taken,
    done: usize,
    file: Option<Recorded>,
    whole: bool,
    is_access: bool,
}

impl Filler {
    /// What it fills is new to the program, such as a mapping: nobody races with that.
    #[must_use]
    pub fn as_new(mut self) -> Self {
        self.is_access = false;
        self
    }

    /// Bytes not yet handed out.
    pub fn left(&self) -> usize {
        self.taken.bytes as usize - self.done
    }

    /// Fills memory of the program with the next bytes.
    ///
    /// # Safety
    /// The memory must be the program's to be overwritten.
    pub unsafe fn fill(&mut self, address: usize, length: usize) {
        if length > self.left() {
            self.whole = false;
            return;
        }
        if self.is_access {
            races::written(address, length);
        }
        // SAFETY: the caller's promise; the stream has so many bytes left.
        unsafe {
            match (self.taken.place, &self.file) {
                (Place::Stream, _) => {
                    let from = &self.taken.payload[self.done..][..length];
                    core::ptr::copy_nonoverlapping(from.as_ptr(), address as *mut u8, length);
                }
                (Place::Inputs(offset), Some(file)) => {
                    self.whole &= file.fill(address, length, offset + self.done as u64);
                }
                (Place::Inputs(_), None) => self.whole = false,
            }
        }
        self.done += length;
    }

    /// The next four bytes as a number of our own, unless none are left.
    pub fn word(&mut self) -> Option<u32> {
        let Place::Stream = self.taken.place else { return None };
        let word = self.taken.payload[self.done..].first_chunk::<4>()?;
        self.done += word.len();
        Some(u32::from_le_bytes(*word))
    }

    /// Passes over the next bytes.
    pub fn skip(&mut self, length: usize) {
        self.whole &= length <= self.left();
        self.done += length.min(self.left());
    }

    /// Whether all that was asked for was there.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// Every byte must have been asked for, and been there.
    pub fn finish(self, number: usize) {
        if !self.whole || self.left() != 0 {
            diverge(number);
        }
    }
}
