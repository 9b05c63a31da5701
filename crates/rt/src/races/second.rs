//! The second pass: each access to a byte that races, and which two they were.
//!
//! Apart from the first, which knows bytes and no accesses. An access is kept as the
//! program's registers and the words of its stack, from which the launcher finds the
//! frames; only as long as it may still be one half of a race.

use super::content::Kept;
use super::ledger::{Ledger, given};
use super::{Access, Content, Pass};
use crate::{thread, translation};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use relive_order::Kind;
use relive_race::{Clock, Clocks, Detail, Epoch, Frontier, Standing, Touch, Variables, ranges};
use relive_trace::races::told::STACK_WORDS_MAX;
use relive_trace::races::{TOLD, WATCH, word};

mod again;
mod blocks;
mod inner;
mod learnt;
mod lives;
mod stacks;
mod telling;
mod told;
mod variables;
mod worn;

use again::Again;
use blocks::Blocks;
use learnt::Learnt;
use stacks::{RSP, Stack, Stacks, pointer_of_program, stack_of_caller};
use told::{Met, Telling, Told};
use worn::Worn;
pub(crate) use worn::is_worn;

/// After so many accesses in a row that brought nothing new, those to the same bytes are not looked at up to the thread's
/// next event. A race of another instruction there, which would be one more pair of the same bytes, is missed then.
const REPEATED_MAX: u32 = 1000;
/// From so many accesses on that are kept, those of one instruction, one way to it and one segment are kept as one.
const APART_MAX: usize = 1 << 14;

/// What is known of watched bytes.
pub(super) struct Second {
    detail: Detail,
    variables: Variables,
    /// Instructions whose accesses are to synchronisation variables, wherever they are.
    meant: BTreeSet<u64>,
    frontier: Frontier,
    records: BTreeMap<u32, Record>,
    next: u32,
    stacks: Stacks,
    told: Told,
    /// The files whose code was mapped when the last race was told.
    modules: Vec<u64>,
    threads: BTreeMap<u32, Past>,
    blocks: Blocks,
    worn: Worn,
    learnt: Learnt,
    /// Races of the last access that the next recording will order.
    to_order: Vec<Met>,
    ledger: Ledger,
    begun: bool,
}

/// An access, or several that differ in their address.
struct Record {
    thread: u32,
    event: u64,
    /// Whether it stands for several: the address and the passes are those of the first.
    several: bool,
    /// How often it came to the counted instructions since then.
    passes: [u64; 2],
    touch: Touch,
    address: u64,
    size: u64,
    content: Kept,
    stack: Stack,
    locks: Vec<Held>,
    before: Option<Operation>,
    after: Option<Operation>,
}

/// A lock that a thread holds.
#[derive(Clone)]
struct Held {
    key: u64,
    shared: bool,
    /// Where it was taken.
    taken: Stack,
}

#[derive(Clone, Copy)]
struct Operation {
    event: u64,
    kind: Kind,
    key: u64,
}

/// An instruction, where its stack is kept, and what was done.
type Like = (u64, usize, u8);

/// What a thread did.
#[derive(Default)]
struct Past {
    locks: Vec<Held>,
    last: Option<Operation>,
    /// Accesses since then.
    open: Vec<u32>,
    again: Again,
    /// Accesses in a row, since then, of which nothing new could come.
    repeated: u32,
    /// Records that stand for several accesses of the segment with this epoch, behind this event, by instruction, stack
    /// and what was done.
    several: (Option<(Epoch, u64)>, BTreeMap<Like, u32>),
    /// Synchronisation variables that it has read since, of which it may know more by now: see [`Second::settle`].
    read: Vec<Range<u64>>,
    /// How often it had come to the counted instructions by then.
    passed: [u64; 2],
    /// Who made it, and where.
    created: Option<Origin>,
    /// Where its stack is, once that is known.
    stack: Range<u64>,
    /// Whether the launcher knows that.
    told: bool,
}

/// Who did something to a thread or a block, and where.
struct Origin {
    thread: u32,
    stack: Stack,
}

impl Second {
    /// Watches what the launcher says, in the second pass.
    pub(super) fn new(pass: Pass) -> Self {
        let learnt = Learnt::new();
        let mut second = Self {
            detail: Detail::new(),
            variables: Variables::new(),
            meant: BTreeSet::new(),
            frontier: Frontier::new(),
            records: BTreeMap::new(),
            next: 0,
            stacks: Stacks::new(learnt.is_all()),
            told: Told::default(),
            modules: Vec::new(),
            threads: BTreeMap::new(),
            blocks: Blocks::default(),
            worn: Worn::default(),
            learnt,
            to_order: Vec::new(),
            ledger: Ledger::new(TOLD),
            begun: false,
        };
        if pass == Pass::Second {
            second.watch();
        }
        second
    }

    fn watch(&mut self) {
        for record in given(WATCH).chunks_exact(word::COUNT) {
            match *record {
                [word::RACING, line, bytes] => {
                    self.detail.watch(line, bytes, 0);
                    self.learnt.raced(line, bytes);
                    ranges(line, bytes).for_each(|range| self.told.watch(range));
                }
                [word::VARIABLE, line, bytes] => {
                    self.detail.watch(line, bytes, bytes);
                    ranges(line, bytes).for_each(|range| self.variables.insert(range));
                }
                [word::WAITED, line, bytes] => self.learnt.races(line, bytes),
                [word::MEANT, instruction, _] => _ = self.meant.insert(instruction),
                _ => {}
            }
        }
    }

    /// The lines to watch, with the bytes of each, in order.
    pub(super) fn lines() -> BTreeMap<u64, u64> {
        let mut lines = BTreeMap::new();
        let is_line = |record: &&[u64]| matches!(record[0], word::RACING | word::VARIABLE);
        for record in given(WATCH).chunks_exact(word::COUNT).filter(is_line) {
            *lines.entry(record[1]).or_default() |= record[2];
        }
        lines
    }

    /// The instructions whose executions are counted; 0 for none.
    pub(super) fn counted() -> [u64; 2] {
        let given = given(WATCH);
        let mut counted = given.chunks_exact(word::COUNT).filter(|record| record[0] == word::COUNTED);
        [0; 2].map(|none| counted.next().map_or(none, |record| record[1]))
    }

    /// The process has this thread alone, and begins anew.
    pub(super) fn fork(&mut self, pass: Pass, me: u32) {
        self.worn.forget();
        *self = Self::new(pass);
        if pass == Pass::Second {
            self.threads.entry(me).or_default().passed = translation::passes();
        }
    }

    pub(super) fn created(&mut self, me: u32, child: u32) {
        let origin = self.here(me);
        self.threads.entry(child).or_default().created = Some(origin);
    }

    /// The calling thread, at the call by which it is here.
    fn here(&mut self, me: u32) -> Origin {
        Origin { thread: me, stack: self.stack_here(me, STACK_WORDS_MAX) }
    }

    fn stack_here(&mut self, me: u32, words: usize) -> Stack {
        let (general, ip) = translation::registers();
        self.has_stack(me, general[RSP]);
        let Self { stacks, threads, .. } = self;
        stacks.of(&general, ip, &threads.entry(me).or_default().stack, words)
    }

    /// Other files may be mapped from here on.
    pub(super) fn code_changes(&mut self) {
        self.stacks.code_changes();
    }

    /// Writes what waits to be written.
    pub(super) fn flush(&mut self, all: bool) {
        let words = self.told.take(all);
        if !words.is_empty() {
            self.ledger.append(&words);
        }
    }

    /// The calling thread runs on a stack: others that had it are gone.
    fn has_stack(&mut self, me: u32, pointer: u64) {
        let pointer = pointer_of_program(pointer);
        let past = self.threads.entry(me).or_default();
        if past.stack.is_empty() {
            let own = stack_of_caller(pointer);
            for other in self.threads.values_mut().filter(|other| other.stack.contains(&own.start)) {
                other.stack = 0..0;
            }
            self.threads.entry(me).or_default().stack = own;
        }
    }

    /// A block was given out. What was there before is gone.
    pub(super) fn allocated(&mut self, me: u32, block: &Range<u64>, asked: u64) {
        self.blocks.forget(block);
        if self.detail.watches(block) {
            let allocated = self.here(me);
            self.blocks.insert(block.start, asked, allocated);
        }
    }

    /// An event of a thread: the nearest one behind its accesses since the last.
    pub(super) fn event(&mut self, me: u32, kind: Kind, key: u64) {
        self.flush(true);
        let takes = matches!(kind, Kind::Lock | Kind::SpinLock | Kind::WriteLock | Kind::ReadLock | Kind::Wake)
            .then(|| self.stack_here(me, stacks::LOCK_WORDS));
        let now = Operation { event: thread::current().replay.events() + 1, kind, key };
        let past = self.threads.entry(me).or_default();
        for record in past.open.drain(..) {
            if let Some(record) = self.records.get_mut(&record) {
                record.after.get_or_insert(now);
            }
        }
        past.last = Some(now);
        past.repeated = 0;
        past.passed = translation::passes();
        if let Some(taken) = takes {
            past.locks.push(Held { key, shared: kind == Kind::ReadLock, taken });
        }
        match kind {
            Kind::Unlock | Kind::SpinUnlock | Kind::RwUnlock | Kind::WaitRelease => {
                if let Some(at) = past.locks.iter().rposition(|held| held.key == key) {
                    past.locks.remove(at);
                }
            }
            _ => {}
        }
    }

    /// An access of the program, before it happens. Whether those that follow it in its segment matter.
    pub(super) fn access(&mut self, me: u32, clocks: &Clocks, access: &Access) -> bool {
        self.settle(me, clocks);
        let meant = self.meant.contains(&access.ip);
        self.learn(me, access, meant);
        if meant {
            self.make_variable(&access.range);
        }
        if self.learnt.wants_race(access.ip, &access.range) {
            self.keep(me, &clocks.current(me), access);
            self.order(me, clocks);
        }
        if self.variables.overlapping(access.range.clone()).next().is_none() {
            return self.threads.get(&me).is_none_or(|past| past.repeated < REPEATED_MAX);
        }
        if access.touch != Touch::Read {
            self.variables.store(clocks, me, access.range.clone());
        }
        if matches!(access.touch, Touch::Read | Touch::Locked) {
            self.threads.entry(me).or_default().read.push(access.range.clone());
        }
        true
    }

    pub(super) fn free(&mut self, me: u32, clock: &Clock, range: Range<u64>) {
        if self.blocks.at(range.start).is_some() {
            let freed = self.here(me);
            self.blocks.at(range.start).expect("it is there").freed = Some(freed);
        }
        self.by_runtime(me, clock, Touch::Free, range);
    }

    /// The runtime does it for the program, whose instruction is the call.
    pub(super) fn by_runtime(&mut self, me: u32, clock: &Clock, touch: Touch, range: Range<u64>) {
        if self.detail.watches(&range) {
            let (general, ip) = translation::registers();
            // A call's results are there by now.
            let content = if touch == Touch::Free { Content::Unknown } else { Content::Memory };
            self.keep(me, clock, &Access { touch, range, general, ip, content });
        }
    }

    fn keep(&mut self, me: u32, clock: &Clock, access: &Access) {
        self.has_stack(me, access.general[RSP]);
        // Loops over racing data.
        let records = &self.records;
        let here = |record| records.get(&record).is_some_and(|kept| kept.stack[0] == access.ip);
        let Self { detail, threads, .. } = self;
        let past = threads.entry(me).or_default();
        let mut comes_again = || {
            let others = detail.others(access.touch, &access.range);
            past.again.comes(access, clock.epoch(), others)
                && detail.knows(clock, access.touch, &access.range, |_| true)
        };
        if detail.knows(clock, access.touch, &access.range, here) || comes_again() {
            past.repeated = past.repeated.saturating_add(1);
            return;
        }
        past.repeated = 0;
        let record = self.record(me, clock, access);
        let inner = self.records.get(&record).is_some_and(Record::is_inner);
        let (mut unused, mut pairs) = (Vec::new(), Vec::new());
        let touched = relive_race::Access { record, touch: access.touch, range: access.range.clone(), inner };
        self.detail.access(clock, &touched, &mut |told| match told {
            relive_race::Told::Pair(pair) => pairs.push(Met::of(&pair)),
            relive_race::Told::Unused(record) => unused.push(record),
        });
        let (raced, mut brought) = (!pairs.is_empty(), false);
        for met in pairs {
            brought |= self.tell(&met);
            if self.learnt.is_all() && met.kind == relive_race::Kind::Accesses && !met.perhaps_atomic {
                self.to_order.push(met);
            }
        }
        if raced && !brought && self.variables.overlapping(access.range.clone()).next().is_none() {
            self.worn.raced(access.ip, &access.range);
        }
        for record in unused {
            self.records.remove(&record);
        }
    }

    /// The number under which an access is kept.
    fn record(&mut self, me: u32, clock: &Clock, access: &Access) -> u32 {
        let Self { detail, stacks, threads, records, .. } = self;
        let past = threads.entry(me).or_default();
        let event = thread::current().replay.events();
        let stack = stacks.of(&access.general, access.ip, &past.stack, STACK_WORDS_MAX);
        let several = records.len() >= APART_MAX;
        // Of those without one only the instruction is known.
        let way = if stacks::is_whole(&stack) { Arc::as_ptr(&stack).addr() } else { 0 };
        let like = (access.ip, way, access.touch as u8);
        if several {
            let segment = Some((clock.epoch(), event));
            if past.several.0 != segment {
                past.several = (segment, BTreeMap::new());
            }
            if let Some(&known) = past.several.1.get(&like).filter(|&known| records.contains_key(known)) {
                return known;
            }
        }
        let record = self.next;
        self.next = self.next.wrapping_add(1);
        if several {
            past.several.1.insert(like, record);
        }
        past.open.push(record);
        let kept = Record {
            thread: me,
            event,
            several,
            passes: since(past.passed, translation::passes()),
            touch: access.touch,
            address: access.range.start,
            size: access.range.end - access.range.start,
            content: Kept::of(&access.content, &access.range, detail),
            stack,
            locks: past.locks.clone(),
            before: past.last,
            after: None,
        };
        records.insert(record, kept);
        record
    }

    pub(super) fn fresh(&mut self, range: Range<u64>) {
        self.learnt.fresh(&range);
        let Self { detail, records, .. } = self;
        detail.fresh(range, &mut |told| {
            if let relive_race::Told::Unused(record) = told {
                records.remove(&record);
            }
        });
    }

    /// Writes a race down. Whether there was anything new.
    fn tell(&mut self, met: &Met) -> bool {
        if met.clocks[0].epoch().thread() == met.clocks[1].epoch().thread() {
            // A block that one thread uses after its own free: a fault, but no race.
            return false;
        }
        if !self.is_of_openmp(met) {
            self.frontier.add(&met.clocks[0], &met.clocks[1]);
        }
        self.learnt.races(met.line, met.bytes);
        let block = self.blocks.of(met.address()).map(|(start, _)| start);
        let [Some(older), Some(newer)] = met.records.map(|record| self.records.get(&record)) else { return true };
        let pair = (older.stack[0], newer.stack[0], met.kind, met.perhaps_atomic);
        let telling = self.told.telling(pair, met, block);
        if telling != Telling::InFull {
            self.flush(false);
            return telling == Telling::Bytes;
        }
        let certain = self.frontier.order().standing(&met.clocks[0], &met.clocks[1]) == Standing::First;
        let mut words = Vec::new();
        let owner = self.threads.iter().find(|(_, past)| past.stack.contains(&met.address())).map(|(&owner, _)| owner);
        let owner = owner.or_else(|| thread::whose_storage(met.address() as usize));
        for number in [Some(older.thread), Some(newer.thread), owner].into_iter().flatten() {
            if let Some(past) = self.threads.get_mut(&number)
                && !core::mem::replace(&mut past.told, true)
            {
                telling::thread(&mut words, number, past.created.as_ref(), &past.stack);
            }
        }
        telling::race(&mut words, met, certain, [older, newer]);
        if let Some((start, block)) = self.blocks.of(met.address()) {
            telling::block(&mut words, start, block);
        }
        if !core::mem::replace(&mut self.begun, true) {
            self.ledger.append(&telling::header());
        }
        // Which files stand where may have changed since the last race.
        let modules = telling::modules();
        if modules != self.modules {
            self.ledger.append(&modules);
            self.modules = modules;
        }
        self.ledger.append(&words);
        true
    }
}

fn since(before: [u64; 2], now: [u64; 2]) -> [u64; 2] {
    [now[0] - before[0], now[1] - before[1]]
}
