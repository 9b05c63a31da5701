//! Objects that are initialised once: `pthread_once`, `call_once`, C++ guards.
//!
//! The winner of an attempt runs the initialiser and ends with one event, well
//! or not. Who finds the object done joins its clock without an event: were it
//! not so, a replay in which the loser comes first would deadlock, because the
//! initialiser's events are later than the loser's next one.
//!
//! Which thread won is not decided by order, so the winner's stream says it:
//! [`Record::Won`] with a key that names the call and with the number of attempts
//! that ended before. A replay lets everybody else wait until the object is done.
//!
//! All state is one word of the object, because its memory may be zeroed or
//! reused; only the clock stands in the table.
//!
//! ```text
//! bits 0-1   0 free, 1 running, 2 done (glibc's own meaning)
//! bits 2-15  attempts that ended badly, modulo 2^14
//! bits 16-31 while running: low bits of the process id, since a fork child
//!            inherits attempts that nobody in it will end
//! ```

use crate::object::{self, Cell};
use crate::replay;
use crate::report;
use crate::runtime::{self, Mode, mode};
use crate::thread::{self, Thread};
use crate::{process, races, record};
use core::sync::atomic::{AtomicU32, Ordering};
use relive_order::Kind;
use relive_sys::syscall;
use relive_trace::control::{cause, flag};
use relive_trace::record::Record;

const STATE: u32 = 3;
const RUNNING: u32 = 1;
const DONE: u32 = 2;
const ATTEMPT: u32 = 4;
const ATTEMPTS: u32 = 0xFFFC;
const OWNER_SHIFT: u32 = 16;
/// A missed wake-up would be a bug, or the program zeroing an object in use; this bounds the delay.
const SLEEP_MS: u32 = 500;

const PLACE: u64 = 1 << 63;
const OFFSET_BITS: u32 = 40;

/// The key of an object that is named by its place: a hash of its module, and its offset in it.
pub fn place_key(module: u64, offset: u64) -> u64 {
    PLACE | module >> (OFFSET_BITS + 1) << OFFSET_BITS | offset & ((1 << OFFSET_BITS) - 1)
}

/// Whether a call with this key is the recorded one. In a rebuilt program objects have other places: there the next
/// attempt that the thread won in this module is taken for it.
fn is_same(key: u64, recorded: u64) -> bool {
    key == recorded
        || (key & PLACE != 0 && key >> OFFSET_BITS == recorded >> OFFSET_BITS && runtime::has_flag(flag::REBUILT))
}

/// What a caller has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entered {
    /// Run the initialiser, then call [`ended`].
    Run,
    /// Nothing: it is done, and its clock is joined.
    Done,
}

/// Whether the object is done.
#[inline]
pub fn is_done(word: &AtomicU32) -> bool {
    word.load(Ordering::Acquire) & STATE == DONE
}

/// The clock of the object with this word.
#[inline]
pub fn cell(word: &AtomicU32) -> &'static Cell {
    object::cell(core::ptr::from_ref(word).addr())
}

/// The calling thread comes to the object; `key` names this call in the thread's stream.
#[inline]
pub fn enter(word: &AtomicU32, key: impl Fn() -> u64, place: usize) -> Entered {
    let Some(thread) = thread::current_if_known() else { return claim(word).0 };
    if thread.forking.is_some() {
        process::settle_fork(thread);
    }
    match mode() {
        Mode::Off => claim(word).0,
        Mode::Record => {
            if is_done(word) {
                thread.join_clock(cell(word).clock.load(Ordering::Acquire));
                return Entered::Done;
            }
            contend(thread, word, &key)
        }
        Mode::Replay => follow(thread, word, &key, place),
    }
}

#[inline(never)]
fn contend(thread: &mut Thread, word: &AtomicU32, key: &dyn Fn() -> u64) -> Entered {
    let (entered, attempt) = claim(word);
    thread.join_clock(cell(word).clock.load(Ordering::Acquire));
    if entered == Entered::Run {
        // Whether a thread comes here at all may differ in a replay, so no signal may be placed here.
        record::note_quietly(Record::Won { key: key(), attempt });
    }
    entered
}

/// Takes the object, or waits until somebody else has done it; with how many attempts ended badly before.
fn claim(word: &AtomicU32) -> (Entered, u32) {
    let mut seen = word.load(Ordering::Acquire);
    loop {
        if seen & STATE == DONE {
            return (Entered::Done, 0);
        }
        let mine = owner();
        if seen & STATE == RUNNING && seen >> OWNER_SHIFT == mine >> OWNER_SHIFT {
            syscall::futex_wait(word, seen, Some(SLEEP_MS));
            seen = word.load(Ordering::Acquire);
            continue;
        }
        let taken = seen & ATTEMPTS | RUNNING | mine;
        match word.compare_exchange(seen, taken, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => return (Entered::Run, (seen & ATTEMPTS) / ATTEMPT),
            Err(now) => seen = now,
        }
    }
}

fn owner() -> u32 {
    syscall::getpid() << OWNER_SHIFT
}

#[inline(never)]
fn follow(thread: &mut Thread, word: &AtomicU32, key: &dyn Fn() -> u64, place: usize) -> Entered {
    if !is_done(word) {
        let key = key();
        let won = replay::take(|r| matches!(r, Record::Won { key: recorded, .. } if is_same(key, recorded)));
        if let Some(Record::Won { attempt, .. }) = won {
            take_turn(thread, word, attempt, place);
            if attempt > 0 {
                // What the attempts before did, which ended badly, happened before this one.
                races::done(cell(word));
            }
            replay::joined();
            return Entered::Run;
        }
        wait(word, place, |seen| seen & STATE == DONE);
    }
    races::done(cell(word));
    replay::joined();
    Entered::Done
}

/// Waits until as many attempts have ended as before this one in the recording, then takes the object.
fn take_turn(thread: &Thread, word: &AtomicU32, attempt: u32, place: usize) {
    let before = (attempt * ATTEMPT) & ATTEMPTS;
    let mine = owner();
    let free = |seen: u32| seen & STATE == 0 || seen >> OWNER_SHIFT != mine >> OWNER_SHIFT;
    let seen = wait(word, place, |seen| seen & STATE == DONE || (seen & ATTEMPTS == before && free(seen)));
    if seen & STATE == DONE {
        // An attempt that failed in the recording has not failed now.
        report::diverge_plain(cause::VALUE, thread.index, Some(Kind::OnceDone), thread.replay.events(), place);
    }
    word.store(before | RUNNING | mine, Ordering::Release);
}

fn wait(word: &AtomicU32, place: usize, ready: impl Fn(u32) -> bool) -> u32 {
    let mut seen = word.load(Ordering::Acquire);
    if ready(seen) {
        return seen;
    }
    replay::set_blocked(true, place);
    while !ready(seen) {
        syscall::futex_wait(word, seen, Some(SLEEP_MS));
        seen = word.load(Ordering::Acquire);
    }
    replay::set_blocked(false, place);
    seen
}

/// The calling thread's attempt ended: well, or by an exception, cancellation or `pthread_exit`.
pub fn ended(word: &AtomicU32, well: bool, place: usize) {
    let cell = cell(word);
    let replays = mode() == Mode::Replay && thread::current_if_known().is_some();
    if replays {
        replay::enter(Kind::OnceDone, place);
        // Before those that wait for the object may go on: what they learn of it is there then. The event itself comes
        // behind the object's change, as in the recording, and lets them know nothing more.
        races::event(Kind::OnceDone, &[cell], false);
    } else {
        record::shared(&cell.clock, Kind::OnceDone);
    }
    let attempts = word.load(Ordering::Relaxed) & ATTEMPTS;
    // Nothing may touch the object after this: its memory may be reused at once. A wake-up only names it.
    word.store(if well { DONE } else { attempts.wrapping_add(ATTEMPT) & ATTEMPTS }, Ordering::Release);
    syscall::futex_wake(word, i32::MAX as u32);
    if replays {
        replay::leave(Kind::OnceDone, &[cell], false);
    }
}

/// Whether every live thread of this process has a clock of at least `clock`, so that none of them has to join it.
///
/// A thread being created is not known yet, but its creator is, and stands at the timestamp that the child starts with.
pub fn everybody_passed(clock: u64) -> bool {
    let pid = runtime::pid();
    let mut all = true;
    thread::each(|t| {
        all = t.clock() >= clock || (t.finished && t.tid != 0 && !syscall::thread_exists(pid, t.tid));
        all
    });
    all
}

#[cfg(test)]
mod tests {
    use super::{DONE, Entered, OWNER_SHIFT, RUNNING, claim, ended, is_done, is_same, place_key};
    use core::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn attempts_that_end_badly_are_counted_until_one_ends_well() {
        let word = AtomicU32::new(0);
        for attempt in 0..3 {
            assert_eq!(claim(&word), (Entered::Run, attempt));
            ended(&word, attempt == 2, 0);
            assert_eq!(is_done(&word), attempt == 2);
        }
        assert_eq!(claim(&word).0, Entered::Done);
    }

    #[test]
    fn memory_that_is_zeroed_again_is_a_new_object() {
        let word = AtomicU32::new(DONE);
        assert_eq!(claim(&word).0, Entered::Done);
        word.store(0, Ordering::Relaxed);
        assert_eq!(claim(&word), (Entered::Run, 0));
    }

    #[test]
    fn an_attempt_of_a_process_that_is_gone_is_taken_over() {
        let another = (relive_sys::syscall::getpid() + 1) << OWNER_SHIFT;
        let word = AtomicU32::new(RUNNING | another);
        assert_eq!(claim(&word), (Entered::Run, 0));
    }

    #[test]
    fn one_of_many_runs_the_initialiser_and_the_others_see_what_it_did() {
        let (word, runs) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    if claim(&word).0 == Entered::Run {
                        runs.fetch_add(1, Ordering::Relaxed);
                        std::thread::yield_now();
                        ended(&word, true, 0);
                    }
                    assert_eq!(runs.load(Ordering::Relaxed), 1);
                });
            }
        });
    }

    #[test]
    fn places_have_keys_of_their_own() {
        let keys = [place_key(0, 8), place_key(0, 16), place_key(u64::MAX, 8), 3];
        for (i, &key) in keys.iter().enumerate() {
            assert!(keys[i + 1..].iter().all(|&other| other != key));
            assert!(is_same(key, key));
        }
        assert!(!is_same(3, keys[0]));
    }
}
