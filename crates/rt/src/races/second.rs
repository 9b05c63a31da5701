//! The second pass: each access to a byte that races, and which two they were.
//!
//! Apart from the first, which knows bytes and no accesses. An access is kept as the
//! program's registers and the words of its stack, from which the launcher finds the
//! frames; only as long as it may still be one half of a race.

use super::ledger::{Ledger, given};
use super::{Access, Pass};
use crate::{thread, translation};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Range;
use relive_order::Kind;
use relive_race::{Clock, Clocks, Detail, Frontier, Pair, Standing, Told, Touch, Variables};
use relive_trace::races::told::STACK_WORDS_MAX;
use relive_trace::races::{TOLD, WATCH, word};

mod telling;

/// After so many accesses in a row that brought nothing new, those to the same bytes are not looked at up to the thread's
/// next event. A race of another instruction there, which would be one more pair of the same bytes, is missed then.
const REPEATED_MAX: u32 = 1000;

/// What is known of watched bytes.
pub(super) struct Second {
    detail: Detail,
    variables: Variables,
    frontier: Frontier,
    records: BTreeMap<u32, Record>,
    next: u32,
    /// Pairs of instructions, with what they did, that were told.
    told: BTreeSet<(u64, u64, relive_race::Kind, bool)>,
    threads: BTreeMap<u32, Past>,
    /// By their addresses.
    blocks: BTreeMap<u64, Block>,
    ledger: Ledger,
    begun: bool,
}

/// An access.
#[derive(Clone)]
struct Record {
    thread: u32,
    event: u64,
    touch: Touch,
    address: u64,
    size: u64,
    value: Option<u64>,
    /// rip, rsp, rbp, rbx, r12 to r15, then the words at rsp.
    snapshot: Vec<u64>,
    locks: Vec<Held>,
    before: Option<Operation>,
    after: Option<Operation>,
}

/// A lock that a thread holds.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Held {
    key: u64,
    shared: bool,
}

#[derive(Clone, Copy)]
struct Operation {
    event: u64,
    kind: Kind,
    key: u64,
}

/// What a thread did.
#[derive(Default)]
struct Past {
    locks: Vec<Held>,
    last: Option<Operation>,
    /// Accesses since then.
    open: Vec<u32>,
    /// Accesses in a row, since then, of which nothing new could come.
    repeated: u32,
    /// Synchronisation variables that it has read since, of which it may know more by now: see [`Second::settle`].
    read: Vec<Range<u64>>,
    /// Who made it, and where.
    created: Option<Origin>,
    /// Whether the launcher knows that.
    told: bool,
}

/// Who did something to a thread or a block, and where.
struct Origin {
    thread: u32,
    snapshot: Vec<u64>,
}

/// A block of the heap with watched bytes.
struct Block {
    size: u64,
    allocated: Origin,
    freed: Option<Origin>,
}

impl Second {
    /// Watches what the launcher says, in the second pass.
    pub(super) fn new(pass: Pass) -> Self {
        let mut second = Self {
            detail: Detail::new(),
            variables: Variables::new(),
            frontier: Frontier::new(),
            records: BTreeMap::new(),
            next: 0,
            told: BTreeSet::new(),
            threads: BTreeMap::new(),
            blocks: BTreeMap::new(),
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
                [word::RACING, line, bytes] => self.detail.watch(line, bytes, 0),
                [word::VARIABLE, line, bytes] => {
                    self.detail.watch(line, bytes, bytes);
                    for range in runs(bytes) {
                        self.variables.insert(line * 64 + range.start..line * 64 + range.end);
                    }
                }
                _ => {}
            }
        }
    }

    /// The lines to watch, with the bytes of each, in order.
    pub(super) fn lines() -> BTreeMap<u64, u64> {
        let mut lines = BTreeMap::new();
        for record in given(WATCH).chunks_exact(word::COUNT) {
            *lines.entry(record[1]).or_default() |= record[2];
        }
        lines
    }

    pub(super) fn created(&mut self, me: u32, child: u32) {
        self.threads.entry(child).or_default().created = Some(Origin::here(me));
    }

    /// A block was given out. What was there before is gone.
    pub(super) fn allocated(&mut self, me: u32, block: &Range<u64>, asked: u64) {
        while let Some((&start, old)) = self.blocks.range(..block.end).next_back()
            && start + old.size.max(1) > block.start
        {
            self.blocks.remove(&start);
        }
        if self.detail.watches(block) {
            let new = Block { size: asked, allocated: Origin::here(me), freed: None };
            self.blocks.insert(block.start, new);
        }
    }

    /// The block in which an address lies, in use or given back.
    fn block_of(&self, address: u64) -> Option<(u64, &Block)> {
        let (&start, block) = self.blocks.range(..=address).next_back()?;
        (address < start + block.size).then_some((start, block))
    }

    /// An event of a thread: the nearest one behind its accesses since the last.
    pub(super) fn event(&mut self, me: u32, kind: Kind, key: u64) {
        let now = Operation { event: thread::current().replay.events() + 1, kind, key };
        let past = self.threads.entry(me).or_default();
        for record in past.open.drain(..) {
            if let Some(record) = self.records.get_mut(&record) {
                record.after.get_or_insert(now);
            }
        }
        past.last = Some(now);
        past.repeated = 0;
        let shared = kind == Kind::ReadLock;
        match kind {
            Kind::Lock | Kind::SpinLock | Kind::WriteLock | Kind::ReadLock | Kind::Wake => {
                past.locks.push(Held { key, shared });
            }
            Kind::Unlock | Kind::SpinUnlock | Kind::RwUnlock | Kind::WaitRelease => {
                if let Some(at) = past.locks.iter().rposition(|held| held.key == key) {
                    past.locks.remove(at);
                }
            }
            _ => {}
        }
    }

    /// An access of the program, before it happens. Whether those that follow it in its segment matter.
    pub(super) fn access(&mut self, me: u32, clocks: &mut Clocks, access: &Access) -> bool {
        self.settle(me, clocks);
        let clock = clocks.current(me).clone();
        self.keep(me, &clock, access);
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

    /// Lets the thread know what the variables told it that it has read.
    ///
    /// Accesses come here before they happen. A release may well be known too early: nobody sees the store before it
    /// happens. But what a load sees may be stored between its coming here and its happening; so it acquires as late as
    /// it can, with the thread's next step.
    pub(super) fn settle(&mut self, me: u32, clocks: &mut Clocks) {
        let Some(past) = self.threads.get_mut(&me) else { return };
        for range in past.read.drain(..) {
            // What the segment did has been seen access by access: nothing is to be handed over.
            drop(self.variables.load(clocks, me, range));
        }
    }

    pub(super) fn free(&mut self, me: u32, clock: &Clock, range: Range<u64>) {
        if let Some(block) = self.blocks.get_mut(&range.start) {
            block.freed = Some(Origin::here(me));
        }
        self.by_runtime(me, clock, Touch::Free, range);
    }

    /// The runtime does it for the program, whose instruction is the call.
    pub(super) fn by_runtime(&mut self, me: u32, clock: &Clock, touch: Touch, range: Range<u64>) {
        if self.detail.watches(&range) {
            let (general, ip) = translation::registers();
            self.keep(me, clock, &Access { touch, range, general, ip, value: None });
        }
    }

    fn keep(&mut self, me: u32, clock: &Clock, access: &Access) {
        // Loops over racing data: the stack is what costs.
        let records = &self.records;
        let here = |record| records.get(&record).is_some_and(|kept| kept.snapshot[0] == access.ip);
        let past = self.threads.entry(me).or_default();
        if self.detail.knows(clock, access.touch, &access.range, here) {
            past.repeated = past.repeated.saturating_add(1);
            return;
        }
        past.repeated = 0;
        let record = self.next;
        self.next = self.next.wrapping_add(1);
        past.open.push(record);
        let kept = Record {
            thread: me,
            event: thread::current().replay.events(),
            touch: access.touch,
            address: access.range.start,
            size: access.range.end - access.range.start,
            value: access.value,
            snapshot: snapshot(&access.general, access.ip),
            locks: past.locks.clone(),
            before: past.last,
            after: None,
        };
        self.records.insert(record, kept);
        let mut unused = Vec::new();
        let mut pairs = Vec::new();
        let touched = relive_race::Access { record, touch: access.touch, range: access.range.clone() };
        self.detail.access(clock, &touched, &mut |told| match told {
            Told::Pair(pair) => pairs.push(Met::of(&pair)),
            Told::Unused(record) => unused.push(record),
        });
        for met in pairs {
            self.tell(&met);
        }
        for record in unused {
            self.records.remove(&record);
        }
    }

    pub(super) fn fresh(&mut self, range: Range<u64>) {
        let Self { detail, records, .. } = self;
        detail.fresh(range, &mut |told| {
            if let Told::Unused(record) = told {
                records.remove(&record);
            }
        });
    }

    fn tell(&mut self, met: &Met) {
        if met.clocks[0].epoch().thread() == met.clocks[1].epoch().thread() {
            // A block that one thread uses after its own free: a fault, but no race.
            return;
        }
        self.frontier.add(&met.clocks[0], &met.clocks[1]);
        let [Some(older), Some(newer)] = met.records.map(|record| self.records.get(&record)) else { return };
        let places = (older.snapshot[0], newer.snapshot[0]);
        if !self.told.insert((places.0, places.1, met.kind, met.perhaps_atomic)) {
            return;
        }
        let certain = self.frontier.order().standing(&met.clocks[0], &met.clocks[1]) == Standing::First;
        let mut words = Vec::new();
        for number in [older.thread, newer.thread] {
            if let Some(past) = self.threads.get_mut(&number)
                && !core::mem::replace(&mut past.told, true)
                && let Some(created) = &past.created
            {
                telling::thread(&mut words, number, created);
            }
        }
        telling::race(&mut words, met, certain, [older, newer]);
        if let Some((start, block)) = self.block_of(met.address()) {
            telling::block(&mut words, start, block);
        }
        if !core::mem::replace(&mut self.begun, true) {
            self.ledger.append(&telling::header());
        }
        // Which files stand where may have changed since the last race.
        self.ledger.append(&telling::modules());
        self.ledger.append(&words);
    }
}

impl Origin {
    /// The calling thread, at the call by which it is here.
    fn here(thread: u32) -> Self {
        let (general, ip) = translation::registers();
        Self { thread, snapshot: snapshot(&general, ip) }
    }
}

/// What the detector said of a pair.
struct Met {
    line: u64,
    bytes: u64,
    kind: relive_race::Kind,
    perhaps_atomic: bool,
    records: [u32; 2],
    clocks: [Clock; 2],
}

impl Met {
    fn of(pair: &Pair<'_>) -> Self {
        Self {
            line: pair.line,
            bytes: pair.bytes,
            kind: pair.kind,
            perhaps_atomic: pair.perhaps_atomic,
            records: [pair.older.0, pair.newer.0],
            clocks: [pair.older_clock.clone(), pair.newer_clock.clone()],
        }
    }

    /// The first racing byte.
    fn address(&self) -> u64 {
        self.line * 64 + u64::from(self.bytes.trailing_zeros())
    }
}

/// The bits of a mask as ranges.
fn runs(mask: u64) -> impl Iterator<Item = Range<u64>> {
    let mut at = 0;
    core::iter::from_fn(move || {
        let left = mask.checked_shr(at).unwrap_or(0);
        if left == 0 {
            return None;
        }
        let start = at + left.trailing_zeros();
        let end = start + (mask >> start).trailing_ones();
        at = end;
        Some(u64::from(start)..u64::from(end))
    })
}

/// The registers that an unwinder needs, and the words of the stack.
fn snapshot(general: &[u64; 16], ip: u64) -> Vec<u64> {
    const RBX: usize = 3;
    const RSP: usize = 4;
    const RBP: usize = 5;
    let mut words = Vec::from([ip, general[RSP], general[RBP], general[RBX]]);
    words.extend_from_slice(&general[12..16]);
    let mut bytes = [0u8; STACK_WORDS_MAX * 8];
    // Up to the end of the stack, by pages: the kernel gives a page or nothing of it.
    let mut read = 0;
    while read < bytes.len() {
        let from = general[RSP] + read as u64;
        let part = (4096 - from as usize % 4096).min(bytes.len() - read);
        if relive_dbi::read_own_memory(from, &mut bytes[read..read + part]) < part {
            break;
        }
        read += part;
    }
    words.extend(bytes[..read].as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)));
    words
}

#[cfg(test)]
mod tests {
    use super::runs;
    use alloc::vec::Vec;

    #[test]
    fn masks_are_ranges() {
        let of = |mask| runs(mask).map(|run| (run.start, run.end)).collect::<Vec<_>>();
        assert_eq!(of(0), []);
        assert_eq!(of(u64::MAX), [(0, 64)]);
        assert_eq!(of(0b1110_0110), [(1, 3), (5, 8)]);
        assert_eq!(of(1 << 63), [(63, 64)]);
    }
}
