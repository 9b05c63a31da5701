//! From raw findings to a report: grouping, hiding, numbering, what a report comes to.
//! Without modules, so that places are bare addresses; names have tests of their own.

use super::{Counts, Options, Report, Verdict};
use crate::made_up;
use crate::names::{Frame, Global, Local};
use crate::raw::{
    AccessKind, Certainty, NO_THREAD, RaceKind, RawAccess, RawBlock, RawDivergence, RawModule, RawOrigin, RawRace,
    RawReport, RawStack, RawThread, RawUnplaced,
};
use crate::report::{Object, Race, atomics, grouping};
use crate::suppressions::Suppressions;

fn access(thread: u32, addresses: &[u64]) -> RawAccess {
    let stack = RawStack::of_access(addresses.to_vec());
    RawAccess { thread, kind: AccessKind::Write, size: 4, stack, ..RawAccess::default() }
}

fn race(certainty: Certainty, first: &[u64], second: &[u64]) -> RawRace {
    let accesses = [access(1, first), access(2, second)];
    RawRace { address: 0x1000, bytes: 0xf0f, certainty, count: 2, accesses, ..RawRace::default() }
}

fn raw(races: Vec<RawRace>) -> RawReport {
    RawReport { races, complete: true, ..RawReport::default() }
}

fn report(races: Vec<RawRace>) -> Report {
    Report::new(&raw(races), &Options::default())
}

use Certainty::{AfterFirst, Certain, PossibleAtomic};

#[test]
fn one_pair_of_places_is_one_race_whichever_came_first() {
    let found = report(vec![
        race(AfterFirst, &[0x10, 0x20, 0x30], &[0x40, 0x50]),
        race(Certain, &[0x40, 0x50], &[0x10, 0x20, 0x99]),
        race(AfterFirst, &[0x10, 0x21], &[0x40, 0x50]),
        race(PossibleAtomic, &[0x10, 0x20], &[0x40, 0x50]),
    ]);
    let races: Vec<_> = found.races.iter().map(|race| (race.number, race.certainty, race.count)).collect();
    assert_eq!(races, [(1, Certain, 4), (2, AfterFirst, 2), (3, PossibleAtomic, 2)]);
    assert_eq!(found.races[0].accesses[0].counter, 0x40, "the certain one speaks for both");
    assert_eq!(found.races[0].size(), 12);
    assert_eq!(found.counts(), Counts { certain: 1, after_first: 1, possible: 1, ..Counts::default() });
    let other = RawRace { kind: RaceKind::Free, ..race(Certain, &[0x10, 0x20], &[0x40, 0x50]) };
    assert_eq!(report(vec![race(Certain, &[0x10, 0x20], &[0x40, 0x50]), other]).races.len(), 2);
}

#[test]
fn each_variable_and_what_is_hidden_is_a_race_of_its_own() {
    let race = |name: &str, part: usize, rule: Option<&str>| {
        let global = Global { name: Some(name.to_owned()), part, ..Global::default() };
        Race { object: Object::Global(global), suppressed: rule.map(str::to_owned), ..made_up::race() }
    };
    let races = [("a[1]", 3, None), ("b", 0, None), ("a[2]", 3, None), ("a[3]", 3, Some("race:a[3]"))];
    let found = grouping::group(races.map(|(name, part, rule)| race(name, part, rule)).to_vec());
    let told: Vec<_> = found.iter().map(|race| (race.object.name(), race.count, race.suppressed.is_some())).collect();
    assert_eq!(told, [(Some("a[1]"), 24, false), (Some("b"), 12, false), (Some("a[3]"), 12, true)]);
}

#[test]
fn one_call_of_a_library_is_one_place() {
    let module =
        |file: &str, start| RawModule { file: file.to_owned(), start, end: start + 0x100, ..RawModule::default() };
    let races = [0x210, 0x220].map(|inside| race(Certain, &[inside, 0x130], &[0x140]));
    let modules = vec![module("/opt/program", 0x100), module("/lib/libc.so.6", 0x200)];
    let raw = RawReport { modules, ..raw(races.to_vec()) };
    assert_eq!(Report::new(&raw, &Options::default()).races.len(), 1);
}

#[test]
fn what_a_rule_hides_is_last_and_does_not_count() {
    let module =
        |file: &str, start: u64| RawModule { file: file.to_owned(), start, end: start + 16, ..RawModule::default() };
    let raw = RawReport {
        modules: vec![module("/opt/known.so", 0x10), module("/opt/new.so", 0x20)],
        ..raw(vec![race(Certain, &[0x10], &[0x11]), race(AfterFirst, &[0x20], &[0x21])])
    };
    let rules = "race:known.so\nrace:never\nmutex:whatever\n";
    let suppressions = Suppressions::parse(rules, "supp").expect("rules");
    let found = Report::new(&raw, &Options { suppressions, ..Options::default() });
    let races: Vec<_> = found.races.iter().map(|race| (race.number, race.suppressed.as_deref())).collect();
    assert_eq!(races, [(1, None), (2, Some("race:known.so"))]);
    assert_eq!(found.races[0].suppression.as_deref(), Some("race_top:^new.so+0x20$"));
    assert_eq!(found.unused, ["race:never (supp:2)"]);
    assert_eq!((found.counts().suppressed, found.verdict()), (1, Verdict::Races));
    assert_eq!(
        found.advice,
        ["/opt/known.so is gone: its functions have no names", "/opt/new.so is gone: its functions have no names"]
    );
}

#[test]
fn only_certain_races_and_those_after_make_a_verdict() {
    let of = |races| report(races).verdict();
    assert_eq!(of(vec![]), Verdict::Clean);
    assert_eq!(of(vec![race(PossibleAtomic, &[1], &[2])]), Verdict::Clean);
    assert_eq!(of(vec![race(AfterFirst, &[1], &[2])]), Verdict::Races);
    let died = RawReport { complete: false, ..raw(vec![]) };
    assert_eq!(Report::new(&died, &Options::default()).verdict(), Verdict::Unfinished);
    let diverged = Some(RawDivergence::default());
    let after = RawReport { diverged: diverged.clone(), ..raw(vec![race(Certain, &[1], &[2])]) };
    assert_eq!(Report::new(&after, &Options::default()).verdict(), Verdict::Races);
    let instead = RawReport { diverged, ..raw(vec![]) };
    assert_eq!(Report::new(&instead, &Options::default()).verdict(), Verdict::Unfinished);
}

#[test]
fn bytes_of_the_same_places_are_counted_once() {
    let more = |lines: &[(u64, u64)]| RawRace {
        more: lines.iter().copied().collect(),
        ..race(Certain, &[0x10, 0x20, 0x30], &[0x40, 0x50])
    };
    // 8 bytes of the races themselves, in line 0x40.
    let found = report(vec![more(&[(0x40, 0x1f), (0x41, u64::MAX)]), more(&[(0x41, 1), (0x42, 3)])]);
    assert_eq!((found.races.len(), found.races[0].bytes_in_all()), (1, 9 + 64 + 2));
}

#[test]
fn bytes_that_race_stay_a_race_if_the_second_replay_is_cut() {
    let of = |races, bytes, certain| {
        let diverged = Some(RawDivergence::default());
        let found = RawReport { diverged, unplaced: RawUnplaced { bytes, certain }, ..raw(races) };
        let report = Report::new(&found, &Options::default());
        (report.verdict(), report.summary())
    };
    let words = |verdict, words: &str| (verdict, words.to_owned());
    assert_eq!(of(vec![], 7, true), words(Verdict::Races, "7 bytes race, places not found"));
    assert_eq!(of(vec![], 7, false), words(Verdict::Unfinished, "7 bytes may race, places not found"));
    let one = of(vec![race(Certain, &[1], &[2])], 1, true);
    assert_eq!(one, words(Verdict::Races, "1 data race; 1 byte races, places not found"));
}

#[test]
fn the_object_is_the_block_or_the_stack_that_holds_it() {
    let origin = RawOrigin { thread: NO_THREAD, ..RawOrigin::default() };
    let block = RawBlock { start: 0xff0, size: 64, allocated: origin, freed: None };
    let on_heap = RawRace { block: Some(block), ..race(Certain, &[1], &[2]) };
    let thread = RawThread { number: 5, creator: NO_THREAD, stack: [0x800, 0x1001], ..RawThread::default() };
    let objects = |races, threads| {
        let raw = RawReport { threads, ..raw(races) };
        Report::new(&raw, &Options::default()).races.remove(0).object
    };
    let Object::Heap(found) = objects(vec![on_heap], vec![thread.clone()]) else { panic!("not the block") };
    assert_eq!((found.start, found.allocated.thread, found.freed), (0xff0, None, None));
    let plain = || vec![race(Certain, &[1], &[2])];
    assert_eq!(objects(plain(), vec![thread.clone()]), Object::Stack { thread: 5, local: None });
    assert_eq!(objects(plain(), vec![RawThread { stack: [0x800, 0x1000], ..thread }]), Object::Unknown);
}

#[test]
fn a_declared_atomic_and_two_atomic_operations_are_no_race() {
    let are_atomic = |change: &dyn Fn(&mut Race)| {
        let mut race = made_up::race();
        change(&mut race);
        atomics::are_both(&race, &crate::Annotations::default())
    };
    let inlined = |function: &str| Frame { function: Some(function.to_owned()), ..made_up::frame("f", 1, 2) };
    let global = Object::Global(Global { atomic: true, ..Global::default() });
    let local = Object::Stack { thread: 0, local: Some(Local { atomic: true, ..Local::default() }) };
    assert!(!are_atomic(&|_| {}));
    assert!(are_atomic(&|race| race.object = global.clone()));
    assert!(are_atomic(&|race| race.object = local.clone()));
    assert!(!are_atomic(&|race| (race.object, race.kind) = (global.clone(), RaceKind::Free)));
    let load = inlined("std::__atomic_base<int>::load(std::memory_order) const");
    let others = ["core::sync::atomic::AtomicUsize::store", "void std::__atomic_impl::store<int>(int*, int)"];
    for other in others {
        assert!(!are_atomic(&|race| race.accesses[0].stack.insert(0, load.clone())), "one side is plain");
        assert!(are_atomic(&|race| {
            race.accesses[0].stack.insert(0, load.clone());
            race.accesses[1].stack.insert(0, inlined(other));
        }));
    }
    let library = Frame { module: Some("/lib/libatomic.so.1.2.0".to_owned()), ..Frame::default() };
    assert!(are_atomic(&|race| race.accesses.iter_mut().for_each(|access| access.stack.insert(0, library.clone()))));
}

#[test]
fn without_lines_a_move_may_be_an_atomic_operation() {
    let doubted = |change: &dyn Fn(&mut Race)| {
        let mut race = made_up::race();
        for access in &mut race.accesses {
            access.stack[0].line = None;
        }
        change(&mut race);
        atomics::doubt(&race).is_some()
    };
    assert!(doubted(&|_| {}));
    assert!(!doubted(&|race| race.accesses[1].stack[0].line = Some(7)), "that one is plain");
    assert!(!doubted(&|race| race.accesses[0].address += 1), "no atomic operation is unaligned");
    assert!(!doubted(&|race| race.accesses[0].size = 16));
    assert!(!doubted(&|race| race.accesses[0].stack[0].module = Some("/lib/libc.so.6".to_owned())));
    assert!(!doubted(&|race| race.kind = RaceKind::Free));
}
