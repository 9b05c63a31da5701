//! Single accesses: exactly the pairs that the oracle finds with nothing between them.

use super::detect::{known_by_all, synchronise};
use super::execution::{Event, What, execute, scripts};
use super::oracle::{Oracle, Touch as Kept, touched};
use crate::{Access, Clock, Clocks, Detail, Kind, Told, Touch};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::vec;
use std::vec::Vec;

#[test]
fn what_others_do_that_could_race_changes_their_number() {
    let (clocks, mut detail) = (Clocks::new(2), Detail::new());
    detail.watch(0, u64::MAX, 0);
    (0..2).for_each(|thread| clocks.start(thread).unwrap());
    let mut access = |thread: u32, touch| {
        let access = Access { record: thread, touch, range: 0..4, inner: false };
        detail.access(&clocks.current(thread), &access, &mut |_| ());
        [Touch::Read, Touch::Write].map(|touch| detail.others(touch, &(0..4)))
    };
    let first = access(0, Touch::Read);
    assert_eq!(access(0, Touch::Read), first, "its own reads");
    let other = access(1, Touch::Read);
    assert!(other[0] == first[0] && other[1] != first[1], "reads race with writes alone");
    let again = access(0, Touch::Read);
    let stored = access(1, Touch::Write);
    assert!(stored[0] != again[0] && stored[1] != again[1], "a store races with both");
    assert_eq!(detail.others(Touch::Read, &(64..68)), 0, "nothing is watched there");
}

/// A pair as it was told: events by their numbers.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) line: u64,
    pub(super) bytes: u64,
    pub(super) kind: Kind,
    pub(super) older: usize,
    pub(super) newer: usize,
    pub(super) clocks: [Clock; 2],
}

/// What all the accesses of an execution come to, and how often each record was told to be unused.
pub(super) fn observe(events: &[Event]) -> (Vec<Found>, Vec<u32>) {
    let (clocks, mut detail) = (Clocks::new(16), Detail::new());
    (0..4).for_each(|line| detail.watch(line, u64::MAX, 0));
    clocks.start(0).unwrap();
    let (mut found, mut unused) = (Vec::new(), vec![0; events.len()]);
    for (at, event) in events.iter().enumerate() {
        let mut tell = |told: Told<'_>| match told {
            Told::Unused(record) => unused[record as usize] += 1,
            Told::Pair(pair) => {
                assert!(unused[pair.older.0 as usize] == 0 && unused[pair.newer.0 as usize] == 0, "{pair:?}");
                found.push(Found {
                    line: pair.line,
                    bytes: pair.bytes,
                    kind: pair.kind,
                    older: pair.older.0 as usize,
                    newer: pair.newer.0 as usize,
                    clocks: [pair.older_clock.clone(), pair.newer_clock.clone()],
                });
            }
        };
        match (&event.what, touched(event)) {
            (_, Some((touch, range))) => {
                let touch = match touch {
                    Kept::Read => Touch::Read,
                    Kept::Write => Touch::Write,
                    Kept::Free => Touch::Free,
                };
                let access = Access { record: at as u32, touch, range: range.clone(), inner: false };
                detail.access(&clocks.current(event.thread), &access, &mut tell);
            }
            (What::Fresh(range), _) => detail.fresh(range.clone(), &mut tell),
            (What::Sweep, _) => {
                let floor = known_by_all(&clocks);
                detail.sweep(&floor, &mut tell);
            }
            _ => drop(synchronise(&clocks, event, |_| {})),
        }
    }
    detail.fresh(0..u64::MAX, &mut |told| {
        if let Told::Unused(record) = told {
            unused[record as usize] += 1;
        }
    });
    (found, unused)
}

/// All pairs with nothing between them, by byte.
fn adjacent(events: &[Event], oracle: &Oracle<'_>) -> BTreeSet<(usize, usize, u64)> {
    let is_between = |first: usize, older: Kept, at: usize, byte: u64| {
        touched(&events[at]).is_some_and(|(touch, range)| {
            range.contains(&byte)
                && oracle.ordered(first, at)
                && match (older, touch) {
                    (Kept::Free, touch) => touch == Kept::Free,
                    (Kept::Read, Kept::Read) => events[first].thread == events[at].thread,
                    (_, touch) => touch != Kept::Read,
                }
        })
    };
    oracle.pairs(|older, touch, newer, newer_touch, byte| {
        let wanted =
            touch == Kept::Free || (touch != Kept::Read || newer_touch != Kept::Read) && !oracle.ordered(older, newer);
        wanted && !(older + 1..newer).any(|at| is_between(older, touch, at, byte))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_pairs_are_those_with_nothing_between_them(script in scripts(120), frees: bool) {
        let events = execute(&script, frees);
        let oracle = Oracle::new(&events);
        let (found, unused) = observe(&events);
        let mut pairs = BTreeSet::new();
        for pair in &found {
            prop_assert_eq!(pair.kind.is_race(), !oracle.ordered(pair.older, pair.newer), "{:?}", pair);
            for byte in (0..64).filter(|i| pair.bytes >> i & 1 == 1) {
                prop_assert!(pairs.insert((pair.older, pair.newer, pair.line * 64 + byte)), "told twice: {:?}", pair);
            }
        }
        prop_assert_eq!(pairs, adjacent(&events, &oracle));
        for (at, event) in events.iter().enumerate() {
            prop_assert_eq!(unused[at], u32::from(touched(event).is_some()), "event {}", at);
        }
    }
}

/// Two threads that know nothing of each other, one watched line, half of it a variable.
fn case() -> (Clocks, Detail) {
    let (clocks, mut detail) = (Clocks::new(16), Detail::new());
    clocks.start(0).unwrap();
    clocks.create(0, 1).unwrap();
    clocks.create(0, 2).unwrap();
    detail.watch(0, u64::MAX, 0xFFFF_FFFF);
    (clocks, detail)
}

fn pairs(
    detail: &mut Detail,
    clock: &Clock,
    record: u32,
    touch: Touch,
    range: core::ops::Range<u64>,
) -> Vec<(u32, u64, bool)> {
    let mut pairs = Vec::new();
    detail.access(clock, &Access { record, touch, range, inner: false }, &mut |told| {
        if let Told::Pair(pair) = told {
            pairs.push((pair.older.0, pair.bytes, pair.perhaps_atomic));
        }
    });
    pairs
}

#[test]
fn plain_accesses_to_variables_are_a_class_of_their_own() {
    let (clocks, mut detail) = case();
    assert_eq!(pairs(&mut detail, &clocks.current(1), 1, Touch::Write, 28..36), []);
    let found = pairs(&mut detail, &clocks.current(2), 2, Touch::Read, 28..36);
    assert_eq!(found, [(1, 0xF << 32, false), (1, 0xF << 28, true)]);
}

#[test]
fn locked_accesses_to_variables_race_with_frees_alone() {
    let (clocks, mut detail) = case();
    assert_eq!(pairs(&mut detail, &clocks.current(1), 1, Touch::Locked, 0..4), []);
    assert_eq!(pairs(&mut detail, &clocks.current(2), 2, Touch::Locked, 0..4), []);
    assert_eq!(pairs(&mut detail, &clocks.current(2), 3, Touch::Read, 0..4), []);
    assert_eq!(pairs(&mut detail, &clocks.current(0), 4, Touch::Free, 0..8).len(), 3);
    assert_eq!(pairs(&mut detail, &clocks.current(0), 5, Touch::Locked, 0..4), [(4, 0xF, false)]);
}

#[test]
fn a_locked_access_hides_no_plain_one() {
    let (clocks, mut detail) = case();
    pairs(&mut detail, &clocks.current(1), 1, Touch::Write, 0..4);
    pairs(&mut detail, &clocks.current(1), 2, Touch::Locked, 0..4);
    assert_eq!(pairs(&mut detail, &clocks.current(2), 3, Touch::Write, 0..4), [(1, 0xF, true)]);
}

#[test]
fn locked_accesses_to_other_bytes_are_writes() {
    let (clocks, mut detail) = case();
    pairs(&mut detail, &clocks.current(1), 1, Touch::Locked, 40..44);
    assert_eq!(pairs(&mut detail, &clocks.current(2), 2, Touch::Locked, 40..44), [(1, 0xF << 40, false)]);
}

#[test]
fn what_is_not_watched_is_not_remembered() {
    let (clocks, mut detail) = case();
    let mut unused = Vec::new();
    let access = Access { record: 7, touch: Touch::Write, range: 64..200, inner: false };
    detail.access(&clocks.current(1), &access, &mut |told| match told {
        Told::Unused(record) => unused.push(record),
        Told::Pair(pair) => panic!("{pair:?}"),
    });
    assert_eq!((unused, detail.watched(1), detail.watched(0)), (vec![7], 0, u64::MAX));
}

#[test]
fn a_record_may_stand_for_several_accesses_of_a_segment() {
    let (clocks, mut detail) = (Clocks::new(16), Detail::new());
    (0..2).for_each(|line| detail.watch(line, u64::MAX, 0));
    clocks.start(0).unwrap();
    clocks.create(0, 1).unwrap();
    let (mut unused, mut pairs) = (vec![], vec![]);
    let mut access = |detail: &mut Detail, thread: u32, record: u32, at: u64| {
        let access = Access { record, touch: Touch::Write, range: at..at + 1, inner: false };
        detail.access(&clocks.current(thread), &access, &mut |told| match told {
            Told::Unused(record) => unused.push(record),
            Told::Pair(pair) => pairs.push((pair.older.0, pair.newer.0, pair.line, pair.bytes)),
        });
    };
    (0..128).for_each(|at| access(&mut detail, 0, 7, at));
    assert!(detail.bytes() < 1024, "one entry a line: {}", detail.bytes());
    access(&mut detail, 1, 8, 5);
    access(&mut detail, 1, 8, 70);
    detail.fresh(0..128, &mut |told| {
        if let Told::Unused(record) = told {
            unused.push(record);
        }
    });
    assert_eq!(pairs, [(7, 8, 0, 1 << 5), (7, 8, 1, 1 << 6)]);
    unused.sort_unstable();
    assert_eq!(unused, [7, 8], "each once, when nothing remembers it");
}

#[test]
fn an_access_within_a_library_covers_none_of_the_program() {
    let (clocks, mut detail) = (Clocks::new(16), Detail::new());
    detail.watch(0, u64::MAX, 0);
    clocks.start(0).unwrap();
    clocks.create(0, 1).unwrap();
    let mut pairs = vec![];
    let mut access = |thread: u32, record: u32, touch: Touch, inner: bool| {
        let access = Access { record, touch, range: 0..4, inner };
        detail.access(&clocks.current(thread), &access, &mut |told| {
            if let Told::Pair(pair) = told {
                pairs.push((pair.older.0, pair.newer.0));
            }
        });
    };
    access(0, 1, Touch::Read, false);
    access(0, 2, Touch::Read, true);
    access(0, 3, Touch::Read, true);
    access(1, 4, Touch::Write, false);
    assert_eq!(pairs, [(1, 4), (3, 4)]);
}
