//! The reader against an encoder that writes as the replayed process does, and against
//! words that nobody wrote.

use super::{BUILD_ID_MAX, MAGIC, Problem, STACK_WORDS_MAX, VERSION, WireError, read, tag};
use crate::raw::{
    AccessKind, Certainty, NO_THREAD, RaceKind, RawAccess, RawBlock, RawDivergence, RawLock, RawModule, RawOrigin,
    RawRace, RawReport, RawStack, RawSync, RawThread, RawUnobserved, Setting, Snapshot,
};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

/// Writes words as the runtime does: never back, one record behind the other.
struct Encoder(Vec<u64>);

impl Encoder {
    fn record(&mut self, tag: u64, words: &[u64]) {
        self.0.extend([tag, words.len() as u64]);
        self.0.extend(words);
    }

    fn bytes(&mut self, tag: u64, bytes: &[u8]) {
        self.0.extend([tag, 1 + bytes.len().div_ceil(8) as u64, bytes.len() as u64]);
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.0.push(u64::from_le_bytes(word));
        }
    }

    fn text(&mut self, text: &str) {
        self.bytes(tag::TEXT, text.as_bytes());
    }

    fn stack(&mut self, stack: &RawStack) {
        if let Some(Snapshot { registers, words }) = &stack.snapshot {
            return self.record(tag::SNAPSHOT, &[registers, &words[..]].concat());
        }
        self.record(tag::STACK, &stack.addresses);
        if !stack.slots.is_empty() {
            self.record(tag::SLOTS, &stack.slots);
        }
    }

    fn module(&mut self, module: &RawModule) {
        self.record(tag::MODULE, &[module.start, module.end, module.bias, module.storage]);
        self.text(&module.file);
        if !module.build_id.is_empty() {
            self.bytes(tag::BUILD_ID, &module.build_id);
        }
    }

    fn thread(&mut self, thread: &RawThread) {
        let [low, high] = thread.stack;
        self.record(tag::THREAD, &[thread.number.into(), thread.creator.into(), low, high, thread.pointer]);
        self.text(&thread.name);
        if !thread.label.is_empty() {
            self.text(&thread.label);
        }
        if thread.created != RawStack::default() {
            self.stack(&thread.created);
        }
    }

    fn origin(&mut self, origin: &RawOrigin) {
        self.record(tag::ORIGIN, &[origin.thread.into()]);
        if origin.stack != RawStack::default() {
            self.stack(&origin.stack);
        }
    }

    fn race(&mut self, race: &RawRace) {
        let numbers = [race.kind as u64, race.certainty as u64];
        self.record(tag::RACE, &[race.address, race.bytes, numbers[0], numbers[1], race.count]);
        for access in &race.accesses {
            self.access(access);
        }
        if let Some(block) = &race.block {
            self.record(tag::BLOCK, &[block.start, block.size]);
            self.origin(&block.allocated);
            block.freed.iter().for_each(|freed| self.origin(freed));
        }
    }

    fn access(&mut self, access: &RawAccess) {
        let setting = match access.setting {
            Setting::Ordinary => 0,
            Setting::Constructor => 1,
            Setting::Exit => 2,
            Setting::Signal(number) => 256 + u64::from(number),
        };
        let (known, value) = (access.value.is_some().into(), access.value.unwrap_or(0));
        let (thread, event, count) = (access.thread.into(), access.event, access.count_since_event);
        let (kind, address, size) = (access.kind as u64, access.address, access.size);
        self.record(tag::ACCESS, &[thread, event, count, kind, address, size, known, value, setting]);
        self.stack(&access.stack);
        if !access.content.is_empty() {
            self.bytes(tag::CONTENT, &access.content);
        }
        for lock in &access.locks {
            self.record(tag::LOCK, &[lock.address, lock.shared.into()]);
            if lock.stack != RawStack::default() {
                self.stack(&lock.stack);
            }
        }
        for (side, sync) in [(0, &access.before), (1, &access.after)] {
            if let Some(sync) = sync {
                self.record(tag::SYNC, &[side, sync.event, sync.object]);
                self.text(&sync.operation);
            }
        }
    }
}

fn encode(report: &RawReport) -> Vec<u64> {
    let mut encoder = Encoder(Vec::new());
    encoder.record(tag::HEADER, &[MAGIC, VERSION]);
    report.modules.iter().for_each(|module| encoder.module(module));
    report.threads.iter().for_each(|thread| encoder.thread(thread));
    report.races.iter().for_each(|race| encoder.race(race));
    for (number, race) in (0..).zip(&report.races) {
        race.more.iter().for_each(|(&line, &bytes)| encoder.record(tag::MORE, &[number, line, bytes]));
    }
    for one in &report.unobserved {
        encoder.record(tag::UNOBSERVED, &[one.count]);
        encoder.text(&one.what);
    }
    if let Some(diverged) = &report.diverged {
        encoder.record(tag::DIVERGED, &[diverged.thread.into(), diverged.event]);
        encoder.text(&diverged.what);
    }
    if report.complete {
        encoder.record(tag::END, &[]);
    }
    encoder.0
}

/// What stands where calls are told, or where an access is told.
fn stacks(access: bool) -> impl Strategy<Value = RawStack> {
    let addresses = (vec(any::<u64>(), 0..5), vec(any::<u64>(), 0..5)).prop_map(move |(addresses, mut slots)| {
        slots.truncate(addresses.len());
        let stack = if access { RawStack::of_access(addresses) } else { RawStack::of_call(addresses) };
        RawStack { slots, ..stack }
    });
    let snapshot = (any::<[u64; 8]>(), vec(any::<u64>(), 0..5));
    let snapshot = snapshot.prop_map(|(registers, words)| RawStack {
        snapshot: Some(Snapshot { registers, words }),
        ..RawStack::default()
    });
    prop_oneof![addresses, snapshot]
}

fn ranges() -> impl Strategy<Value = (u64, u64)> {
    any::<(u64, u64)>().prop_map(|(a, b)| (a.min(b), a.max(b)))
}

fn modules() -> impl Strategy<Value = RawModule> {
    (".{0,20}", ranges(), any::<[u64; 2]>(), vec(any::<u8>(), 0..=BUILD_ID_MAX as usize)).prop_map(
        |(file, (start, end), [bias, storage], build_id)| RawModule {
            file,
            start,
            end,
            bias,
            storage,
            build_id,
            recorded: None,
        },
    )
}

fn threads() -> impl Strategy<Value = RawThread> {
    (any::<[u32; 2]>(), "[0-9.]{1,12}", ".{0,9}", stacks(false), ranges(), any::<u64>()).prop_map(
        |([number, creator], name, label, created, (low, high), pointer)| RawThread {
            number,
            name,
            label,
            creator,
            created,
            stack: [low, high],
            pointer,
        },
    )
}

fn syncs() -> impl Strategy<Value = RawSync> {
    (any::<[u64; 2]>(), "[a-z ]{0,20}").prop_map(|([event, object], operation)| RawSync { event, operation, object })
}

fn locks() -> impl Strategy<Value = RawLock> {
    (any::<u64>(), any::<bool>(), stacks(false)).prop_map(|(address, shared, stack)| RawLock { address, shared, stack })
}

fn accesses() -> impl Strategy<Value = RawAccess> {
    use AccessKind::{AtomicRead, AtomicWrite, Free, Read, Write};
    let kind = prop::sample::select(vec![Read, Write, AtomicRead, AtomicWrite, Free]);
    let ordinary = vec![Setting::Ordinary, Setting::Constructor, Setting::Exit];
    let setting = prop_oneof![prop::sample::select(ordinary), (1u32..65).prop_map(Setting::Signal)];
    let nearest = (option::of(syncs()), option::of(syncs()));
    let content = vec(any::<u8>(), 0..64);
    let numbers = (any::<u32>(), any::<[u64; 4]>(), any::<Option<u64>>(), content);
    (numbers, kind, setting, stacks(true), vec(locks(), 0..3), nearest).prop_map(
        |(numbers, kind, setting, stack, locks, (before, after))| {
            let (thread, [event, count_since_event, address, size], value, content) = numbers;
            RawAccess {
                thread,
                event,
                count_since_event,
                kind,
                address,
                size,
                value,
                content,
                setting,
                stack,
                locks,
                before,
                after,
            }
        },
    )
}

fn origins() -> impl Strategy<Value = RawOrigin> {
    (any::<u32>(), stacks(false)).prop_map(|(thread, stack)| RawOrigin { thread, stack })
}

fn blocks() -> impl Strategy<Value = RawBlock> {
    (any::<[u64; 2]>(), origins(), option::of(origins())).prop_map(|([start, size], allocated, freed)| RawBlock {
        start,
        size,
        allocated,
        freed,
    })
}

fn races() -> impl Strategy<Value = RawRace> {
    let kind = prop::sample::select(vec![RaceKind::Data, RaceKind::Free, RaceKind::UseAfterFree]);
    let certainty = prop::sample::select(vec![Certainty::Certain, Certainty::AfterFirst, Certainty::PossibleAtomic]);
    let accesses = [accesses(), accesses()];
    let bytes = (1u64.., btree_map(any::<u64>(), any::<u64>(), 0..3));
    (any::<[u64; 2]>(), bytes, kind, certainty, accesses, option::of(blocks())).prop_map(
        |([address, count], (bytes, more), kind, certainty, accesses, block)| RawRace {
            address,
            bytes,
            more,
            kind,
            certainty,
            count,
            accesses,
            block,
        },
    )
}

prop_compose! {
    fn reports()(
        modules in vec(modules(), 0..3),
        threads in vec(threads(), 0..3),
        races in vec(races(), 0..3),
        unobserved in vec((".{0,30}", any::<u64>()).prop_map(|(what, count)| RawUnobserved { what, count }), 0..3),
        diverged in option::of(
            (any::<u32>(), any::<u64>(), ".{0,30}")
                .prop_map(|(thread, event, what)| RawDivergence { thread, event, what })
        ),
        complete in any::<bool>(),
    ) -> RawReport {
        RawReport { modules, threads, races, unobserved, diverged, complete, ..RawReport::default() }
    }
}

fn problem(words: &[u64]) -> Problem {
    read(words).expect_err("a report that breaks a rule").problem
}

/// A header, then `words`.
fn headed(words: &[u64]) -> Vec<u64> {
    [&[tag::HEADER, 2, MAGIC, VERSION], words].concat()
}

/// What every race begins with.
const RACE: [u64; 7] = [tag::RACE, 5, 0x1000, 1, 0, 0, 1];
/// A plain read without a stack.
const ACCESS: [u64; 13] = [tag::ACCESS, 9, 1, 0, 0, 0, 0x1000, 4, 0, 0, 0, tag::STACK, 0];

proptest! {
    #[test]
    fn what_is_written_is_read(report in reports()) {
        prop_assert_eq!(read(&encode(&report)), Ok(report));
    }

    #[test]
    fn a_writer_that_died_leaves_what_was_whole(report in reports(), at in any::<prop::sample::Index>()) {
        let mut words = encode(&report);
        let whole = words.clone();
        let (mut next, mut starts) = (0, Vec::new());
        while next < whole.len() {
            starts.push(next);
            next += 2 + whole[next + 1] as usize;
        }
        // The header is always whole; of the record at `cut` everything may be there but its tag.
        if let Some(&at) = starts.get(1 + at.index(starts.len())) {
            words[at] = 0;
            let found = read(&words).expect("what was whole");
            prop_assert!(!found.complete);
            prop_assert!(found.modules.len() <= report.modules.len() && found.races.len() <= report.races.len());
            for (found, wrote) in found.modules.iter().zip(&report.modules) {
                prop_assert_eq!((&found.file, found.start), (&wrote.file, wrote.start));
            }
            for (found, wrote) in found.races.iter().zip(&report.races) {
                prop_assert_eq!((found.address, found.bytes), (wrote.address, wrote.bytes));
                prop_assert_eq!(&found.accesses[0], &wrote.accesses[0]);
            }
        }
    }

    #[test]
    fn any_words_give_a_report_or_an_error_within_them(words in vec(prop_oneof![0..20u64, any::<u64>()], 0..200)) {
        for words in [words.clone(), headed(&words)] {
            if let Err(error) = read(&words) {
                prop_assert!(error.at <= words.len());
            }
        }
    }

    #[test]
    fn a_word_that_changed_never_panics(report in reports(), at in any::<prop::sample::Index>(), to in 0..300u64) {
        let mut words = encode(&report);
        let at = at.index(words.len());
        words[at] = to;
        if let Err(error) = read(&words) {
            prop_assert!(error.at < words.len() && !error.to_string().is_empty());
        }
    }
}

#[test]
fn what_is_not_ours_is_refused() {
    assert_eq!(problem(&[]), Problem::NotFindings);
    assert_eq!(problem(&[0; 100]), Problem::NotFindings);
    assert_eq!(problem(&[tag::HEADER, 2, 7, VERSION]), Problem::NotFindings);
    assert_eq!(problem(&[tag::HEADER, 2, MAGIC, 9]), Problem::Version(9));
    assert_eq!(problem(&headed(&[99, 0])), Problem::UnknownTag(99));
    assert_eq!(problem(&headed(&[tag::STACK, u64::MAX])), Problem::Cut { tag: tag::STACK, words: u64::MAX });
    assert_eq!(problem(&headed(&[tag::STACK])), Problem::Cut { tag: tag::STACK, words: 0 });
    assert_eq!(problem(&headed(&[tag::RACE, 1, 0])), Problem::Length { tag: tag::RACE, words: 1 });
    assert_eq!(problem(&headed(&[tag::TEXT, 1, 0])), Problem::Misplaced(tag::TEXT));
    assert_eq!(problem(&headed(&[tag::HEADER, 2, MAGIC, VERSION])), Problem::Misplaced(tag::HEADER));
    let text = headed(&[tag::UNOBSERVED, 1, 3, tag::TEXT, 2, 9, 0]);
    assert_eq!(read(&text), Err(WireError { at: 7, problem: Problem::Length { tag: tag::TEXT, words: 2 } }));
}

#[test]
fn a_race_has_two_accesses_and_numbers_that_mean_something() {
    let race = |accesses: usize| headed(&[&RACE[..], &ACCESS.repeat(accesses), &[tag::END, 0]].concat());
    assert!(read(&race(2)).is_ok_and(|report| report.complete && report.races.len() == 1));
    assert_eq!(problem(&race(1)), Problem::Accesses(1));
    assert_eq!(problem(&race(3)), Problem::Accesses(3));
    for (word, what) in [(3, "the set of racing bytes"), (4, "the kind of a race"), (5, "a certainty")] {
        let mut wrong = race(2);
        let value = if word == 3 { 0 } else { 9 };
        wrong[4 + word] = value;
        assert_eq!(problem(&wrong), Problem::Value { what, value });
    }
    for (word, what) in
        [(2, "a thread"), (5, "the kind of an access"), (8, "whether a value is known"), (10, "a setting")]
    {
        let mut wrong = race(2);
        let value = u64::from(NO_THREAD) + 1;
        wrong[4 + RACE.len() + word] = value;
        assert_eq!(problem(&wrong), Problem::Value { what, value });
    }
}

#[test]
fn a_snapshot_has_its_registers_and_not_too_many_words() {
    let with = |words: usize| {
        let access = [&ACCESS[..ACCESS.len() - 2], &[tag::SNAPSHOT, words as u64], &vec![7; words]].concat();
        headed(&[&RACE[..], &access, &access, &[tag::END, 0]].concat())
    };
    for words in [0, 7, 9 + STACK_WORDS_MAX] {
        assert_eq!(problem(&with(words)), Problem::Length { tag: tag::SNAPSHOT, words: words as u64 });
    }
    for words in [8, 8 + STACK_WORDS_MAX] {
        let found = read(&with(words)).expect("findings").races[0].accesses[1].stack.clone();
        let snapshot = Snapshot { registers: [7; 8], words: vec![7; words - 8] };
        assert_eq!(found, RawStack { snapshot: Some(snapshot), ..RawStack::default() });
    }
    assert_eq!(problem(&headed(&[tag::SNAPSHOT, 8, 0, 0, 0, 0, 0, 0, 0, 0])), Problem::Misplaced(tag::SNAPSHOT));
}

#[test]
fn each_tag_stands_in_the_published_table() {
    let table = include_str!("../wire.rs");
    for tag in tag::HEADER..=tag::MORE {
        let name = tag::name(tag).expect("tags have no gaps");
        assert!(table.contains(&format!("//! | {tag} | `{name}` |")), "{name}");
    }
    assert_eq!(tag::name(tag::MORE + 1), None);
}
