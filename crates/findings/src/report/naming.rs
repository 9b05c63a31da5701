//! From addresses to names: one function for each part of the raw model.

use super::{Access, Block, Lock, Object, Options, Origin, Race, Sync, Thread};
use crate::names::{Frame, Local, Symbols, Typed};
use crate::raw::{
    NO_THREAD, RaceKind, RawAccess, RawBlock, RawLock, RawOrigin, RawRace, RawReport, RawStack, RawSync, RawThread,
};

/// The threads of the whole. Where one of another image was created is told there.
pub(super) fn threads(namers: &[Namer<'_>]) -> Vec<Thread> {
    let Some((all, images)) = namers.split_first() else { return Vec::new() };
    let thread = |raw: &RawThread| {
        let told = |image: &Namer<'_>| {
            let told = image.raw.threads.iter().find(|told| told.number == raw.number)?;
            Some(image.calls(&told.created))
        };
        let created = images.iter().find_map(told);
        let thread = all.thread(raw);
        created.map_or(thread.clone(), |created| Thread { created, ..thread })
    };
    all.raw.threads.iter().map(thread).collect()
}

/// Names the parts of one raw report.
pub(super) struct Namer<'a> {
    raw: &'a RawReport,
    symbols: Symbols,
}

impl<'a> Namer<'a> {
    pub(super) fn new(raw: &'a RawReport, options: &Options) -> Self {
        Self { raw, symbols: Symbols::new(&raw.modules, &options.debug_roots, &options.relocated) }
    }

    pub(super) fn advice(&self) -> Vec<String> {
        self.symbols.advice()
    }

    pub(super) fn races(&self) -> impl Iterator<Item = Race> {
        self.raw.races.iter().map(|race| self.race(race))
    }

    fn thread(&self, raw: &RawThread) -> Thread {
        Thread {
            number: raw.number,
            name: raw.name.clone(),
            label: raw.label.clone(),
            creator: known(raw.creator),
            created: self.calls(&raw.created),
        }
    }

    fn race(&self, raw: &RawRace) -> Race {
        let object = self.object(raw);
        let mut accesses = [&raw.accesses[0], &raw.accesses[1]].map(|access| self.access(access));
        // Of others the variable is known, and its type.
        let mut typed = Typed::default();
        if matches!(object, Object::Heap(_) | Object::Unknown) {
            let types = accesses.each_mut().map(|access| {
                let within = raw.address.checked_sub(access.address).filter(|within| *within < access.size)?;
                let typed = self.symbols.by_type(access.counter, access.size, within)?;
                access.typed_atomic = raw.kind == RaceKind::Data && typed.is_atomic;
                Some(typed)
            });
            typed = types.into_iter().flatten().next().unwrap_or_default();
        }
        Race {
            kind: raw.kind,
            certainty: raw.certainty,
            address: raw.address,
            bytes: raw.bytes,
            lines: raw.racing_lines(),
            object,
            member: typed.member,
            base: typed.base,
            count: raw.count,
            accesses,
            ..Race::default()
        }
    }

    fn access(&self, raw: &RawAccess) -> Access {
        Access {
            thread: raw.thread,
            event: raw.event,
            counter: raw.stack.addresses.first().copied().unwrap_or(0),
            count_since_event: raw.count_since_event,
            kind: raw.kind,
            typed_atomic: false,
            address: raw.address,
            size: raw.size,
            value: raw.value,
            content: raw.content.clone(),
            setting: raw.setting,
            stack: self.symbols.stack(&raw.stack),
            locks: raw.locks.iter().map(|lock| self.lock(lock)).collect(),
            before: raw.before.as_ref().map(|sync| self.sync(sync)),
            after: raw.after.as_ref().map(|sync| self.sync(sync)),
        }
    }

    fn lock(&self, raw: &RawLock) -> Lock {
        let taken = self.calls(&raw.stack);
        Lock { address: raw.address, name: self.variable(raw.address), shared: raw.shared, taken }
    }

    fn sync(&self, raw: &RawSync) -> Sync {
        /// The C library's inner states have no address: they are told by smaller numbers.
        const FIRST_ADDRESS: u64 = 4096;
        let RawSync { event, operation, object } = raw;
        let object = if *object < FIRST_ADDRESS { 0 } else { *object };
        Sync { event: *event, operation: operation.clone(), object, name: self.variable(object) }
    }

    fn variable(&self, address: u64) -> Option<String> {
        self.symbols.global(address)?.name
    }

    fn calls(&self, stack: &RawStack) -> Vec<Frame> {
        self.symbols.stack(stack)
    }

    fn object(&self, race: &RawRace) -> Object {
        if let Some(block) = &race.block {
            return Object::Heap(self.block(block));
        }
        if let Some(owner) = self.keeper(race) {
            let variable = self.symbols.thread_local(owner.pointer, race.address);
            return Object::ThreadLocal { thread: owner.number, variable };
        }
        if let Some(owner) = self.owner(race) {
            return Object::Stack { thread: owner.number, local: self.local(race, owner.number) };
        }
        self.symbols.global(race.address).map_or(Object::Unknown, Object::Global)
    }

    /// The thread on whose stack the bytes lie. Of several that had it one after the other, one that races or created
    /// one of those that do.
    fn owner(&self, race: &RawRace) -> Option<&'a RawThread> {
        self.one_of(race, &|thread| (thread.stack[0]..thread.stack[1]).contains(&race.address))
    }

    /// The thread among whose thread-local variables the bytes lie. libc lays them right below the thread pointer, for
    /// all threads but the first at the end of the stack.
    fn keeper(&self, race: &RawRace) -> Option<&'a RawThread> {
        /// More than programs and libraries have; it spares asking all files for each race.
        const STORAGE_MAX: u64 = 1 << 16;
        let below = |thread: &RawThread| thread.pointer.checked_sub(race.address).filter(|&below| below > 0);
        self.one_of(race, &|thread| {
            below(thread).is_some_and(|below| below <= STORAGE_MAX && below <= self.symbols.storage())
        })
    }

    fn one_of(&self, race: &RawRace, has: &dyn Fn(&RawThread) -> bool) -> Option<&'a RawThread> {
        let party = |number| race.accesses.iter().any(|access| access.thread == number);
        let creator = |number| self.raw.threads.iter().any(|thread| party(thread.number) && thread.creator == number);
        let holders = || self.raw.threads.iter().filter(|thread| has(thread));
        let near = holders().find(|thread| party(thread.number));
        near.or_else(|| holders().find(|thread| creator(thread.number))).or_else(|| holders().next())
    }

    fn block(&self, raw: &RawBlock) -> Block {
        let origin = |origin: &RawOrigin| Origin { thread: known(origin.thread), stack: self.calls(&origin.stack) };
        Block {
            start: raw.start,
            size: raw.size,
            allocated: origin(&raw.allocated),
            freed: raw.freed.as_ref().map(origin),
        }
    }

    /// The variable on the stack of `owner`. Its frame is in one of the stacks that are known of this thread: that
    /// of an access of its own, or where it created the threads that it handed the address to.
    fn local(&self, race: &RawRace, owner: u32) -> Option<Local> {
        let own = race.accesses.iter().filter(|access| access.thread == owner).map(|access| &access.stack);
        let parties = race.accesses.iter().map(|access| access.thread);
        let parties = parties.filter_map(|number| self.raw.threads.iter().find(|thread| thread.number == number));
        let created = parties.filter(|thread| thread.creator == owner).map(|thread| &thread.created);
        let mut stacks = own.chain(created);
        stacks.find_map(|stack| self.symbols.local(stack, race.address))
    }
}

fn known(thread: u32) -> Option<u32> {
    (thread != NO_THREAD).then_some(thread)
}
