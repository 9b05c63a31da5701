//! What the detector knows in this process, and what each act does to it.
//!
//! Apart from its borders: here stands in which order segments are handed over and
//! clocks move. A segment goes to the histories before its thread releases anything
//! after it; where an acquire ends one, it goes there with the clock that it had.

use super::edges::{self, Edge};
use super::ending::Ending;
use super::hints::{self, Hints};
use super::ledger::Ledger;
use super::memory::{self, Here, Mapped};
use super::open::Open;
use super::passage::Passage;
use super::robust::Holders;
use super::second::Second;
use super::tally::Tally;
use super::{Act, Pass, alone, labels};
use crate::environment;
use crate::object::{self, Cell};
use crate::runtime;
use crate::thread;
use crate::translation;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use hands::Hands;
pub(super) use hands::Ordered;
use relive_accesses::Remembered;
use relive_order::Kind;
use relive_race::{Clock, Clocks, History, Line, Race, Touch, pieces};
use relive_sys::lock::Lock;
use relive_trace::control::flag;
use relive_trace::races::FOUND;
use relive_trace::races::word::{self, not_translated};
use taking::{Again, closes};

mod hands;
mod in_vain;
mod taking;
mod variables;

/// The history is told what all threads know each time that a thread has had so many segments, or as many lines in them.
const SEGMENTS: u64 = 64;
const LINES: u64 = 2048;
/// Lines of a segment that is worth that by itself.
const LONG: u64 = 64;

/// The detector of this process.
pub(super) struct State {
    pass: Pass,
    clocks: Clocks,
    /// The first pass's, and its memory.
    history: Option<(History<'static, Here>, Mapped)>,
    /// Lines that long segments handed over since the history was told what all threads know.
    lines: AtomicU64,
    found: Lock<Found>,
    /// Who holds which lock for writing.
    writers: Lock<BTreeSet<(u32, u64)>>,
    robust: Lock<Holders>,
    second: Lock<Second>,
    tally: Tally,
    passage: Passage,
    ending: Ending,
    open: Open,
    hints: Hints,
    again: Again,
    hands: Option<Hands>,
}

/// What the first pass has told the launcher.
struct Found {
    ledger: Ledger,
    /// By lines: bytes that race.
    racing: BTreeMap<u64, u64>,
    /// How they are known, and lines with the bytes of a synchronisation variable.
    variables: BTreeSet<(u64, u64, u64)>,
    /// By lines that other processes see: bytes that this one has read and written.
    seen: BTreeMap<u64, [u64; 2]>,
}

impl Found {
    fn new() -> Self {
        Self { ledger: Ledger::new(FOUND), racing: BTreeMap::new(), variables: BTreeSet::new(), seen: BTreeMap::new() }
    }
}

static STATE: AtomicPtr<State> = AtomicPtr::new(core::ptr::null_mut());

/// The name by which objects are known to the clocks.
fn key(cell: &Cell) -> u64 {
    object::address(cell)
}

impl State {
    /// Makes the process's detector. `false` if there is no memory for what it remembers.
    pub(super) fn begin(pass: Pass, first: u32) -> bool {
        let history = if pass == Pass::First { memory::history() } else { None };
        let begun = (pass == Pass::Second || history.is_some()) && object::exact::begin();
        let threads = runtime::session().thread_count;
        let state = Box::new(Self {
            pass,
            clocks: Clocks::new(threads),
            history,
            lines: AtomicU64::new(0),
            found: Lock::new(Found::new()),
            writers: Lock::new(BTreeSet::new()),
            robust: Lock::new(Holders::default()),
            second: Lock::new(Second::new(pass)),
            tally: Tally::new(pass == Pass::First && runtime::has_flag(flag::SEGMENTS)),
            passage: Passage::new(threads),
            ending: Ending::new(),
            open: Open::new(),
            hints: Hints::new(pass),
            again: Again::new(pass, threads),
            hands: Hands::given(pass),
        });
        start(&state.clocks, first);
        state.say_of_image(word::BEGUN);
        STATE.store(Box::leak(state), Ordering::Release);
        begun
    }

    /// That of this process.
    pub(super) fn get() -> &'static Self {
        // SAFETY: null or a leaked box.
        unsafe { STATE.load(Ordering::Acquire).as_ref() }.expect("races are looked for")
    }

    /// Where the history remembers each line.
    pub(super) fn remembered(&self) -> Option<Remembered> {
        self.history.as_ref().map(|(_, memory)| memory.cells())
    }

    /// An object will be released soon.
    #[inline]
    pub(super) fn fetch(&self, cell: &Cell) {
        if let Some(place) = self.clocks.place_of(key(cell)) {
            memory::fetch(place);
        }
    }

    /// What the thread `me` does.
    pub(super) fn act(&self, me: u32, act: &Act<'_>) {
        let _within = self.passage.enter(me);
        let _counted = self.tally.one_act();
        match act {
            Act::Started => self.ending.runs(me),
            Act::Seen => alone::counts(),
            Act::Event { kind, cells, exact } => self.event(me, *kind, cells, *exact),
            Act::Created(child) => {
                // The first of all threads is known as late as this.
                self.ending.runs(me);
                self.settle(me);
                self.hand_over(me);
                self.close(me);
                self.tally.ends(|| self.clocks.current(me));
                let made = self.clocks.create(me, *child);
                assert_eq!(made, Ok(()), "a thread is made once");
                if self.pass == Pass::Second {
                    self.second.lock().created(me, *child);
                }
            }
            Act::Joined(other) => {
                let ended = self.clocks.join(me, *other);
                self.clocks.forget_thread(*other);
                self.ended(ended);
                if self.clocks.knows_all(me) {
                    self.hand_over(me);
                    alone::begins();
                }
            }
            Act::Robust { cell, taken: true } => self.robust.lock().taken(me, key(cell)),
            Act::Robust { cell, taken: false } => self.robust.lock().left(me, key(cell)),
            Act::Done(cell) => self.ended(self.clocks.acquire(me, key(cell))),
            Act::Waits => {
                self.settle(me);
                self.hand_over(me);
                self.clocks.show(me);
            }
            Act::Forked => self.fork(me),
            Act::Fresh(range) => {
                self.fresh(me, range);
                if self.pass == Pass::Second {
                    self.second.lock().code_changes();
                }
            }
            Act::Allocated { block, asked } => {
                self.fresh(me, block);
                if self.pass == Pass::Second {
                    self.second.lock().allocated(me, block, *asked);
                }
            }
            Act::Freed(range) => self.free(me, range),
            Act::Named { thread, name } => labels::set(*thread, *name),
            Act::Hands(instruction) => self.hands(me, instruction),
            Act::ByCall { written, range } => self.by_call(me, *written, range),
        }
    }

    fn event(&self, me: u32, kind: Kind, cells: &[&Cell], exact: bool) {
        self.settle(me);
        let first = edges::of(kind, cells.first().copied());
        if matches!(first, Edge::Release | Edge::ReleaseEither | Edge::Transfer | Edge::Arrive | Edge::Flush) {
            self.hand_over(me);
        }
        if closes(kind) {
            self.close(me);
        }
        for (index, cell) in cells.iter().enumerate() {
            self.edge(me, edges::of(kind, Some(cell)), cell, exact && index == 0);
        }
        if self.pass == Pass::Second {
            self.second.lock().event(me, kind, cells.first().map_or(0, |cell| key(cell)));
        }
    }

    /// The process image begins, or has told all that it did.
    fn say_of_image(&self, what: u64) {
        if self.pass == Pass::First {
            self.found.lock().ledger.append(&[what, u64::from(runtime::process()), 0]);
        }
    }

    /// The process is about to end: what it did unobserved.
    fn say_what_was_missed(&self) {
        let found = self.found.lock();
        let [pieces, threads] = translation::not_translated();
        for (what, count) in [(not_translated::PIECE, pieces), (not_translated::THREAD, threads)] {
            if count > 0 {
                found.ledger.append(&[word::NATIVE, what, count]);
            }
        }
        translation::not_told(|reason, count| found.ledger.append(&[word::NATIVE, reason, count]));
        translation::unknown(|mnemonic, count| found.ledger.append(&[word::UNKNOWN, mnemonic, count]));
        self.tally.tell(&found.ledger);
    }

    /// What the thread has read of synchronisation variables counts before whatever it does next.
    fn settle(&self, me: u32) {
        if self.pass == Pass::Second {
            self.second.lock().settle(me, &self.clocks);
        }
    }

    /// Nothing of the process was observed.
    pub(super) fn say_it_ran_natively(&self) {
        if self.pass == Pass::First {
            self.found.lock().ledger.append(&[word::NATIVE, not_translated::PROCESS, 1]);
        }
    }

    fn edge(&self, me: u32, edge: Edge, cell: &Cell, exact: bool) {
        let (clocks, key) = (&self.clocks, key(cell));
        if matches!(edge, Edge::Release | Edge::ReleaseEither | Edge::Transfer | Edge::Arrive) {
            self.tally.ends(|| clocks.current(me));
        }
        let mut known = None;
        let ended = match edge {
            Edge::Acquire => self.hints.acquire(clocks, me, cell, || clocks.acquire(me, key)),
            Edge::AcquireShared => clocks.acquire_shared(me, key),
            Edge::AcquireAsWriter => {
                self.writers.lock().insert((me, key));
                clocks.acquire(me, key)
            }
            Edge::Depart => clocks.depart(me, key),
            Edge::ReleaseEither if !self.writers.lock().remove(&(me, key)) => {
                clocks.release_shared(me, key);
                None
            }
            Edge::Release | Edge::ReleaseEither => {
                known = clocks.release(me, key).filter(|_| exact);
                None
            }
            Edge::Transfer => {
                clocks.transfer(me, key);
                None
            }
            Edge::Arrive => {
                let parties = thread::current().parties;
                clocks.arrive(me, key, (parties != 0).then_some(parties));
                None
            }
            Edge::Flush | Edge::Nothing => None,
        };
        if !matches!(edge, Edge::Acquire | Edge::AcquireShared | Edge::Flush | Edge::Nothing) {
            self.hints.released(cell, known);
        }
        self.ended(ended);
    }

    /// An acquire of this thread has ended a segment with this clock.
    fn ended(&self, clock: Option<Clock>) {
        if let Some(clock) = clock {
            self.check(&clock);
            self.tally.ends(|| clock.clone());
        } else {
            self.tally.snoop(&self.clocks);
        }
    }

    /// Tells the history what all threads know, once in a while: before a thread hands over so many `lines`
    /// of this one of its segments, which then need no room beside what goes.
    fn raise(&self, me: u32, segment: u64, lines: u64) {
        let Some((history, _)) = &self.history else { return };
        if !segment.is_multiple_of(SEGMENTS) && (lines < LONG || self.lines.fetch_add(lines, Ordering::Relaxed) < LINES)
        {
            return;
        }
        let running = self.clocks.running_count() as u64;
        // It costs the square of the threads.
        let square = running * running;
        let seldom =
            !(segment / SEGMENTS).is_multiple_of(square / SEGMENTS + 1) && self.lines.load(Ordering::Relaxed) < square;
        if !seldom {
            self.lines.store(0, Ordering::Relaxed);
            self.clocks.show(me);
            history.raise(&self.clocks.floor());
        }
    }

    /// Holds what the thread did since its last synchronisation against what others did.
    fn hand_over(&self, me: u32) {
        let clock = self.clocks.current(me);
        self.raise(me, clock.time_of(me), translation::touched_lines());
        self.check(&clock);
        if self.pass == Pass::Second {
            self.second.lock().flush(true);
        }
    }

    /// Tells the launcher what is found meanwhile, in one write: a program may touch each word of a large table by locked
    /// instructions.
    fn gather(&self, meanwhile: impl FnOnce(&mut Vec<u64>)) {
        let mut found = Vec::new();
        meanwhile(&mut found);
        self.tell_unsure(&mut found);
        if !found.is_empty() {
            self.found.lock().ledger.append(&found);
        }
    }

    /// What the launcher is to be told of a racing line: each byte once.
    fn tell(&self, race: Race, words: &mut Vec<u64>) {
        if race.older.thread() == race.newer.thread() {
            return;
        }
        let mut found = self.found.lock();
        let told = found.racing.entry(race.line).or_default();
        let new = race.bytes() & !*told;
        *told |= new;
        if new != 0 {
            words.extend([word::RACING, race.line, new]);
        }
    }

    fn fresh(&self, me: u32, range: &Range<u64>) {
        if translation::covers(range) {
            self.hand_over(me);
        }
        match &self.history {
            Some((history, _)) => history.fresh(range.clone()),
            None => self.second.lock().fresh(range.clone()),
        }
        self.clocks.forget_range(range.clone());
        self.take_ended(me);
    }

    fn free(&self, me: u32, range: &Range<u64>) {
        self.settle(me);
        let clock = self.clocks.current(me);
        match &self.history {
            Some((history, _)) => {
                self.check(&clock);
                self.gather(|found| history.free(&clock, range.clone(), &mut |race| self.tell(race, found)));
                self.take_ended(me);
            }
            None => self.second.lock().free(me, &clock, range.clone()),
        }
    }

    fn by_call(&self, me: u32, written: bool, range: &Range<u64>) {
        self.settle(me);
        let clock = self.clocks.current(me);
        match self.pass {
            Pass::First => {
                for (number, bytes) in pieces(range.clone()) {
                    let (read, written) = if written { (0, bytes) } else { (bytes, 0) };
                    self.hold(&clock, &[Line { number, read, written }], None);
                }
            }
            Pass::Second => {
                let touch = if written { Touch::Write } else { Touch::Read };
                self.second.lock().by_runtime(me, &clock, touch, range.clone());
            }
        }
    }

    /// Runs `fork` while nobody else is within, and with the locks that others take there.
    pub(super) fn around_fork(&self, me: u32, fork: &mut dyn FnMut()) {
        let _alone = self.passage.alone(me);
        let _within = self.passage.enter(me);
        let first = (self.second.lock(), self.writers.lock(), self.robust.lock());
        let found = self.found.lock();
        self.tally.around(&mut || self.ending.around(&self.passage, &mut *fork));
        drop((found, first));
    }

    /// The process has this thread alone, and none of what others did can race with it.
    fn fork(&self, me: u32) {
        hints::forked();
        self.forget_reads(me);
        self.clocks.reset();
        start(&self.clocks, me);
        // With the locks that others held.
        if let Some((_, memory)) = &self.history {
            memory.clear();
        }
        *self.found.lock() = Found::new();
        self.writers.lock().clear();
        self.robust.lock().clear();
        self.tally.fork();
        self.ending.fork();
        self.say_of_image(word::BEGUN);
        self.second.lock().fork(self.pass, me);
        alone::forked();
    }

    /// The thread's last call.
    pub(super) fn ends(&self, me: u32) {
        let _within = self.passage.enter(me);
        let _counted = self.tally.one_act();
        self.ending.is_over(me);
        self.settle(me);
        self.hand_over(me);
        self.end_reads(me);
        // The kernel gives them to others behind this.
        let left = self.robust.lock().take_those_of(me);
        self.tally.ends(|| self.clocks.current(me));
        for key in left {
            self.clocks.release(me, key);
        }
        self.clocks.end(me);
    }

    /// The last call of a thread that ends the process. Where libc does that for the last thread, no event tells.
    pub(super) fn process_ends(&self, me: u32) {
        self.settle(me);
        self.open.begins();
        self.hand_over(me);
        self.ending.let_compute(me);
        let shown = self.show_loops(me);
        self.ending.ends(me, &self.passage, |other, memory| {
            let clock = self.clocks.current(other);
            self.look_through(&shown, &clock);
            self.hold_others(&clock, memory);
            self.tally.ends(|| clock.clone());
        });
        if self.pass == Pass::First {
            self.tally.ends(|| self.clocks.current(me));
            self.say_what_was_missed();
            self.say_of_image(word::ENDED);
        }
    }

    /// An access to watched bytes, before it happens. Whether the thread's next ones matter.
    pub(super) fn access(&self, me: u32, access: &super::Access) -> bool {
        let _within = self.passage.enter(me);
        looked();
        // As in `hold`; but other processes may wait for it.
        let counts = access.touch == Touch::Locked
            || !alone::has_one_thread()
            || environment::is_seen_at(access.range.start as usize);
        counts && self.second.lock().access(me, &self.clocks, access)
    }
}

fn start(clocks: &Clocks, thread: u32) {
    let started = clocks.start(thread);
    assert_eq!(started, Ok(()), "a process's first thread starts once");
}

/// The launcher, which takes a thread that computes for long for one that spins, sees that it does not.
fn looked() {
    let looked = &thread::current().replay.slot().looked;
    // Nobody else writes there.
    looked.store(looked.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}
