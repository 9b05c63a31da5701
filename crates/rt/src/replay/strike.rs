//! Signals that strike a thread while it computes, in a replay: at the same
//! passage of the same instruction.
//!
//! The record of such a signal follows a *stand point*: registers and memory of
//! the thread when it was struck. Once the thread has done its last operation
//! before, the instruction is watched (`relive_sys::passage`), and each passage is
//! compared with the stand point. At the one that is equal the signal is sent to
//! the thread itself, blocked until our handler returns: so the kernel delivers it
//! exactly there.
//!
//! Equal must be what the program can still see. Caller-saved registers hold
//! garbage of ours behind our fronts, unused parts of the stack do so too, and it
//! differs between recording and replay. Which registers and which memory count
//! the launcher finds by reading the code from there on (see `session/survey`).
//!
//! Comparing costs a handler's call, microseconds; so the stub compares registers
//! in nanoseconds, and whatever else once told a wrong passage from the right one
//! is added to what the stub compares.
//!
//! If the thread comes to its next operation first, the passage was missed, and
//! the handler runs there.

mod asking;
mod crowd;
mod placed;
mod repeated;
mod retired;
mod trap;

use super::{Replay, acting};
use crate::deferred;
use crate::environment::read_memory;
use crate::object::unpack;
use crate::replay::calls;
use crate::runtime;
use crate::thread::Thread;
use core::sync::atomic::{AtomicBool, Ordering};
use crowd::Crowd;
pub use placed::{copy_of, original};
use relive_sys::lock::Lock;
use relive_sys::passage::{self, Before, CHECKS, Check, JUMP_BYTES, STUBS, Taken, What};
use relive_sys::signal::{Context, handler_is_own, is_blocked, is_own_code};
use relive_sys::syscall::{self, number::RT_SIGRETURN};
use relive_sys::tls::thread_pointer;
use relive_trace::control::flag;
use relive_trace::record::Record;
use relive_trace::stand::{CODE_BYTES, FLAGS, LEAD_BYTES, RANGES, RIP, RSP, Stand, Survey, VECTORS, WORDS_MAX, mask};
use repeated::Repeated;
use trap::on_trap;

/// What one watch keeps: the stand point, and the memory that counts.
#[repr(C)]
struct Kept {
    words: [u64; WORDS_MAX],
    /// Address; offset in the stand point and length << 32.
    ranges: [[u64; 2]; RANGES],
}

/// A watched instruction.
struct Strike {
    /// The thread's block, 0 if this one is free.
    owner: usize,
    place: usize,
    stub: usize,
    room: usize,
    repeated: Option<Repeated>,
    before: Taken,
    /// A trap stands at the place instead of a jump at the entry.
    trapped: bool,
    /// In a process with threads: where it is one of several, the pointer of its thread, and where that goes on.
    site: Option<usize>,
    thread: usize,
    back: usize,
    kept: *mut Kept,
    words: usize,
    range_count: usize,
    live: u64,
    flags: u64,
    code: [u8; CODE_BYTES],
    code_bytes: usize,
    /// Bytes that the jump stands before the place, and what runs instead of them before the comparison.
    lead: usize,
    lead_code: [u8; LEAD_BYTES],
    lead_bytes: usize,
    checks: [Check; CHECKS],
    check_count: usize,
}

struct Table {
    strikes: [Strike; STUBS],
    homes: [bool; 3],
    traps: u32,
    before: Option<Before>,
    crowd: Crowd,
    crowd_traps: bool,
}

// SAFETY: the pointers lead to mappings of the table's own, used under its lock.
unsafe impl Send for Table {}

const NOTHING: Check = Check { what: What::Register(RSP), expected: 0 };
const FREE: Strike = Strike {
    owner: 0,
    place: 0,
    stub: 0,
    room: 0,
    repeated: None,
    before: [0; 8],
    trapped: false,
    site: None,
    thread: 0,
    back: 0,
    kept: core::ptr::null_mut(),
    words: 0,
    range_count: 0,
    live: 0,
    flags: 0,
    code: [0; CODE_BYTES],
    code_bytes: 0,
    lead: 0,
    lead_code: [0; LEAD_BYTES],
    lead_bytes: 0,
    checks: [NOTHING; CHECKS],
    check_count: 0,
};

static TABLE: Lock<Table> = Lock::new(Table {
    strikes: [const { FREE }; STUBS],
    homes: [false; 3],
    traps: 0,
    before: None,
    crowd: Crowd::NONE,
    crowd_traps: false,
});

/// Whether the table was ever used, by this process or by one that it was forked from: a recording's never is, and a fork
/// child that only looked at it would copy eighty pages.
static WATCHED: AtomicBool = AtomicBool::new(false);

/// How many calls the stand point that comes next was recorded after, if one does.
pub(super) fn next_stand(r: &Replay) -> Option<u32> {
    match r.values.at(r.events) {
        Some(Record::Call { number, result, .. }) if usize::from(number) == RT_SIGRETURN && result > 0 => {
            Some((result - 1) as u32)
        }
        _ => None,
    }
}

/// The thread has completed an operation: if a signal struck it before the next one, watches the place.
#[inline(never)]
pub(super) fn arm(thread: &mut Thread) {
    // Some operations only count as calls and come to nobody's notice: it may have some of them before it.
    let calls = thread.calls_so_far();
    thread.replay.skip_hashes();
    if next_stand(&thread.replay).is_none_or(|recorded| recorded < calls) || thread.signals.strike.is_some() {
        return;
    }
    let mut table = TABLE.lock();
    WATCHED.store(true, Ordering::Relaxed);
    let free = table.strikes.iter().position(|s| s.owner == 0);
    thread.signals.strike = free.filter(|&index| table.arm(index, thread).is_some());
    let looks = u32::from(thread.signals.strike.is_some());
    thread.replay.slot().looks_for_passage.store(looks, Ordering::Release);
}

/// The thread has come to its next operation: what struck before it strikes now, if it was missed.
#[inline(never)]
pub(super) fn give_up(thread: &mut Thread) {
    disarm(thread);
    if next_stand(&thread.replay).is_some() {
        thread.replay.values.advance();
    }
}

fn disarm(thread: &mut Thread) {
    if let Some(index) = thread.signals.strike.take() {
        TABLE.lock().disarm(index);
        thread.replay.slot().looks_for_passage.store(0, Ordering::Release);
    }
}

/// In a fork child: it has copies of what other threads watched.
///
/// # Safety
/// Only in a fork child while it has one thread.
pub unsafe fn reset_after_fork() {
    // SAFETY: the caller's promise.
    unsafe { TABLE.reset_after_fork() };
    if !WATCHED.load(Ordering::Relaxed) {
        return;
    }
    let mut table = TABLE.lock();
    table.clear();
    for index in 0..STUBS {
        if table.strikes[index].owner != 0 {
            table.disarm(index);
        }
    }
}

/// A call of a stub's: a passage that may be the one.
///
/// # Safety
/// The context must be of that call.
pub unsafe fn on_stub(context: &mut Context) {
    // SAFETY: the caller's promise.
    unsafe { passage::leave_stub(context) };
    look(context);
}

/// Compares a passage of the calling thread with its stand point.
fn look(context: &mut Context) {
    let thread = acting();
    let Some(index) = thread.signals.strike else { return };
    let mut table = TABLE.lock();
    let strike = &mut table.strikes[index];
    context.set_place(strike.place);
    let recorded = next_stand(&thread.replay);
    if recorded != Some(thread.calls_so_far()) || !strike.is_here(context) {
        if let Some(calls @ 1..) = recorded.filter(|&calls| calls > thread.calls_so_far()) {
            // So many since the last event, at which the word may keep an older number. It is the thread's own.
            strike.differs(What::Memory((&raw const thread.calls).addr(), size_of::<u32>()), u64::from(calls));
        }
        return context.set_place(strike.stub);
    }
    drop(table);
    let r = &mut thread.replay;
    let mut ahead = r.values.clone();
    ahead.advance();
    let Some(Record::Signal { number, .. }) = ahead.at(r.events) else { return give_up(thread) };
    let number = u32::from(number);
    if !handler_is_own(number) || is_blocked(number) {
        return give_up(thread);
    }
    give_up(thread);
    thread.signals.struck = [context.place(), context.stack_pointer() as usize];
    thread.replay.values.advance();
    deferred::replay_here(thread, number);
}

/// Whether a word that was 0 holds the calling thread's last event on an object, which only replays keep there.
fn is_clock(found: u64, expected: u64) -> bool {
    let thread = acting();
    let own = |(index, events)| index == thread.index && events <= thread.replay.events;
    expected == 0 && unpack(found).is_some_and(own)
}

impl Table {
    fn arm(&mut self, index: usize, thread: &mut Thread) -> Option<()> {
        let taken = calls::next_taken(&thread.replay)?;
        let bytes = taken.bytes as usize;
        if !bytes.is_multiple_of(8) || bytes > WORDS_MAX * 8 {
            return None;
        }
        let crowded = !thread.was_always_alone();
        if crowded && runtime::has_flag(flag::DEBUGGER) {
            // Its breakpoints are traps as well, and other threads meet ours.
            return None;
        }
        let strike = &mut self.strikes[index];
        if strike.kept.is_null() {
            let mapped = syscall::mmap(size_of::<Kept>(), syscall::MAP_PRIVATE_ANONYMOUS, -1, 0);
            strike.kept = (mapped > 0).then_some(mapped as *mut Kept)?;
        }
        strike.words = bytes / 8;
        // SAFETY: our own mapping, as long as that.
        let whole = unsafe {
            let mut filler = taken.filler();
            filler.fill(strike.kept.addr(), bytes);
            filler.is_whole()
        };
        // Within a call of ours a replay does not come by: it strikes when the thread comes to that call.
        let place = strike.stand().filter(|_| whole).map(|stand| stand.register(RIP) as usize);
        let place = place.filter(|&place| !is_own_code(place))?;
        let stub = passage::stub_near(place, index, &mut self.homes)?;
        let mut code = [0; 4];
        let readable = read_memory(place, &mut code);
        self.strikes[index].repeated = Repeated::of(&code).filter(|_| readable);
        self.strikes[index].place = place;
        self.survey(index, stub, crowded)?;
        if crowded {
            self.watch_in_crowd(index, stub)?;
        } else {
            self.watch(index, place, stub, thread.signals.struck[0])?;
        }
        self.strikes[index].owner = core::ptr::from_ref(thread).addr();
        Some(())
    }

    fn watch_in_crowd(&mut self, index: usize, stub: usize) -> Option<()> {
        let strike = &mut self.strikes[index];
        (strike.lead_bytes, strike.code_bytes) = (0, 0);
        (strike.stub, strike.thread, strike.trapped) = (stub, thread_pointer(), false);
        // Not the way back of its last site.
        strike.back = stub;
        strike.first_checks();
        strike.write_stub();
        self.join(index)
    }

    /// Where the thread goes back to when its last handler returns, no jump may stand in the way.
    fn watch(&mut self, index: usize, place: usize, stub: usize, struck: usize) -> Option<()> {
        let (entry, room) = (self.strikes[index].entry(), self.strikes[index].room);
        let overlaps = |s: &Strike| s.owner != 0 && entry < s.entry() + s.room && s.entry() < entry + JUMP_BYTES;
        if room == 0 || self.strikes.iter().any(overlaps) {
            return None;
        }
        let trap = room < JUMP_BYTES || (entry + 1..entry + room).contains(&struck);
        if trap && (runtime::has_flag(flag::DEBUGGER) || is_blocked(passage::SIGTRAP)) {
            return None;
        }
        let strike = &mut self.strikes[index];
        (strike.stub, strike.thread) = (stub, 0);
        strike.first_checks();
        strike.write_stub();
        strike.trapped = trap;
        if trap && self.before.is_none() {
            self.before = Some(passage::take_traps(on_trap));
        }
        self.traps += u32::from(trap);
        placed::ALONE.store(true, Ordering::Relaxed);
        // SAFETY: the launcher has seen that so many bytes can be taken.
        let before = unsafe { if trap { passage::watch(place, stub, 1) } else { passage::watch(entry, stub, room) } };
        self.strikes[index].before = before.or_else(|| {
            self.traps -= u32::from(trap);
            None
        })?;
        Some(())
    }

    fn disarm(&mut self, index: usize) {
        let strike = &mut self.strikes[index];
        strike.owner = 0;
        if strike.site.is_some() || strike.thread != 0 {
            strike.thread = 0;
            return self.part(index);
        }
        if !strike.trapped {
            // SAFETY: what `watch` returned for it.
            return unsafe { passage::unwatch(strike.entry(), strike.room, &strike.before) };
        }
        // SAFETY: as above.
        unsafe { passage::unwatch(strike.place, 1, &strike.before) };
        self.traps -= 1;
        if let Some(before) = self.before.take_if(|_| self.traps == 0) {
            before.put_back();
        }
    }

    /// The thread has come to the trap from elsewhere than its last handler: a jump will do from now on.
    fn improve(&mut self, index: usize) {
        let strike = &mut self.strikes[index];
        if !strike.trapped || strike.room < JUMP_BYTES {
            return;
        }
        // SAFETY: what `watch` returned, and what the launcher has seen; the thread itself goes on in the stub.
        unsafe {
            passage::unwatch(strike.place, 1, &strike.before);
            strike.trapped = false;
            self.traps -= 1;
            // The code was written before, so it can be again.
            strike.before = passage::watch(strike.entry(), strike.stub, strike.room).unwrap_or(strike.before);
        }
    }
}

impl Strike {
    fn stand(&self) -> Option<Stand<'static>> {
        // SAFETY: our own mapping, never given back, of at least so many words.
        Stand::new(unsafe { core::slice::from_raw_parts(self.kept.cast::<u64>(), self.words) })
    }

    /// Where the jump or trap stands.
    fn entry(&self) -> usize {
        self.place - self.lead
    }

    fn take_answer(&mut self, survey: &Survey) {
        let load = |word: &core::sync::atomic::AtomicU64| word.load(Ordering::Relaxed);
        (self.live, self.flags, self.room) = (load(&survey.live), load(&survey.flags), load(&survey.room) as usize);
        self.code_bytes = (load(&survey.code_bytes) as usize).min(CODE_BYTES);
        self.lead = (load(&survey.lead) as usize).min(LEAD_BYTES);
        self.lead_bytes = (load(&survey.lead_bytes) as usize).min(LEAD_BYTES);
        let code = self.code.as_chunks_mut::<8>().0.iter_mut().zip(&survey.code);
        let lead = self.lead_code.as_chunks_mut::<8>().0.iter_mut().zip(&survey.lead_code);
        code.chain(lead).for_each(|(bytes, word)| *bytes = load(word).to_le_bytes());
        self.range_count = (load(&survey.range_count) as usize).min(RANGES);
        for index in 0..self.range_count {
            // SAFETY: our own mapping, used under the table's lock.
            unsafe { (*self.kept).ranges[index] = [0, 1].map(|i| load(&survey.ranges[index][i])) };
        }
    }

    /// The stack pointer tells threads apart. Other registers are cheap, too.
    fn first_checks(&mut self) {
        let Some(stand) = self.stand() else { return };
        self.check_count = 0;
        self.add(Check { what: What::Register(RSP), expected: stand.register(RSP) });
        let (live, repeated) = (self.live, self.repeated);
        let same = |index: &usize| live >> index & 1 != 0 && !repeated.is_some_and(|repeated| repeated.changes(*index));
        for index in (0..RSP).filter(same) {
            self.add(Check { what: What::Register(index), expected: stand.register(index) });
        }
    }

    fn add(&mut self, check: Check) {
        if self.check_count < CHECKS {
            self.checks[self.check_count] = check;
            self.check_count += 1;
        }
    }

    fn write_stub(&self) {
        let checks = &self.checks[..self.check_count];
        // SAFETY: the stub of this watch, whose owner is here.
        unsafe {
            let pieces = [&self.lead_code[..self.lead_bytes], &self.code[..self.code_bytes]];
            let back = if self.thread == 0 { self.entry() + self.room } else { self.back };
            passage::write_stub(self.stub, pieces, back, checks);
        }
    }

    /// What differs is compared by the stub from now on.
    fn differs(&mut self, what: What, expected: u64) -> bool {
        let known = self.checks[..self.check_count].iter().any(|check| check.what == what);
        if !known && self.check_count < CHECKS {
            // Behind the stack pointer's, where no other thread comes.
            self.checks.copy_within(1..self.check_count, 2);
            self.checks[1] = Check { what, expected };
            self.check_count += 1;
            self.write_stub();
        }
        false
    }

    /// Whether the thread stands as it did.
    fn is_here(&mut self, context: &mut Context) -> bool {
        let Some(stand) = self.stand() else { return false };
        if let Some(repeated) = self.repeated {
            // SAFETY: the context of a thread at the place.
            unsafe { repeated.catch_up(context, &stand) };
        }
        let differs = |index: &usize| context.register(*index) != stand.register(*index);
        if (0..RSP).filter(|index| self.live >> index & 1 != 0).any(|index| differs(&index)) || differs(&RSP) {
            return false;
        }
        if (context.register(FLAGS) ^ stand.register(FLAGS)) & self.flags != 0 {
            return false;
        }
        // SAFETY: the kernel's context.
        let vectors = unsafe { context.vectors() };
        for index in 0..VECTORS / 2 {
            let expected = stand.vectors()[2 * index];
            if self.live >> (16 + index) & 1 != 0 && vectors[2 * index] != expected {
                return self.differs(What::Vector(index), expected);
            }
        }
        self.memory_is(&stand)
    }

    fn memory_is(&mut self, stand: &Stand<'_>) -> bool {
        const PIECE: usize = 64;
        for index in 0..self.range_count {
            // SAFETY: our own mapping.
            let [address, rest] = unsafe { (*self.kept).ranges[index] };
            let (mut address, mut offset, mut left) = (address as usize, rest as u32 as usize, (rest >> 32) as usize);
            if address < self.entry() + JUMP_BYTES && self.entry() < address.saturating_add(left) {
                continue;
            }
            while left > 0 {
                let count = left.min(PIECE);
                let mut now = [0; PIECE];
                if !read_memory(address, &mut now[..count]) {
                    return false;
                }
                for at in (0..count).step_by(8) {
                    let length = (count - at).min(8);
                    let found = u64::from_le_bytes(*now[at..].first_chunk().expect("a piece has whole words"));
                    let Some(expected) = stand.bytes(offset + at, length) else { return false };
                    if found & mask(length) != expected && !is_clock(found, expected) {
                        let length = if length.is_power_of_two() { length } else { 1 };
                        let what = What::Memory(address + at, length);
                        return self.differs(what, expected & mask(length));
                    }
                }
                (address, offset, left) = (address + count, offset + count, left - count);
            }
        }
        true
    }
}
