//! Random executions: the same bytes as the oracle's, and only pairs that are right.

use super::detect::{Detect, detect, detect_in};
use super::execution::{BYTES, Event, What, execute, scripts};
use super::oracle::{Oracle, Touch, touched};
use crate::{Epoch, Kind, Race};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::vec::Vec;

/// The addresses of a race's bytes.
fn addresses(line: u64, bytes: u64) -> impl Iterator<Item = u64> {
    (0..64).filter(move |i| bytes >> i & 1 == 1).map(move |i| line * 64 + i)
}

pub(super) fn bytes_of(races: &[Race], wanted: impl Fn(Kind) -> bool) -> BTreeSet<u64> {
    races.iter().filter(|race| wanted(race.kind)).flat_map(|race| addresses(race.line, race.bytes())).collect()
}

/// Whether two accesses of these kinds to a byte stand in the two segments, ordered or not as the race says.
fn has_pair(
    events: &[Event],
    found: &Detect,
    oracle: &Oracle<'_>,
    race: &Race,
    byte: u64,
    touches: [Touch; 2],
) -> bool {
    let of = |segment: Epoch, touch: Touch| -> Vec<usize> {
        (0..events.len())
            .filter(|&at| found.segments[at] == segment)
            .filter(|&at| touched(&events[at]).is_some_and(|(kind, range)| kind == touch && range.contains(&byte)))
            .collect()
    };
    let newer = of(race.newer, touches[1]);
    of(race.older, touches[0])
        .into_iter()
        .any(|a| newer.iter().any(|&b| oracle.ordered(a.min(b), a.max(b)) != race.kind.is_race()))
}

pub(super) fn judge_pairs(events: &[Event], found: &Detect, oracle: &Oracle<'_>) -> Result<(), TestCaseError> {
    for race in &found.races {
        let (older, newer) = match race.kind {
            Kind::Accesses => (Touch::Write, Touch::Write),
            Kind::Free => (Touch::Write, Touch::Free),
            Kind::Freed | Kind::UseAfterFree => (Touch::Free, Touch::Write),
            Kind::Frees | Kind::DoubleFree => (Touch::Free, Touch::Free),
        };
        let classes = [
            (race.write_write, [older, newer]),
            (race.read_write, [Touch::Read, newer]),
            (race.write_read, [older, Touch::Read]),
        ];
        for (bytes, touches) in classes {
            for byte in addresses(race.line, bytes) {
                prop_assert!(has_pair(events, found, oracle, race, byte, touches), "{race:?} byte {byte} {touches:?}");
            }
        }
    }
    Ok(())
}

fn judge(events: &[Event]) -> Result<(), TestCaseError> {
    let oracle = Oracle::new(events);
    let found = detect(events);
    prop_assert_eq!(bytes_of(&found.races, Kind::is_race), oracle.racing());
    prop_assert_eq!(bytes_of(&found.races, |kind| kind == Kind::UseAfterFree), oracle.after_free(Touch::Write));
    prop_assert_eq!(bytes_of(&found.races, |kind| kind == Kind::DoubleFree), oracle.after_free(Touch::Free));
    judge_pairs(events, &found, &oracle)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn the_racing_bytes_are_those_of_the_oracle(script in scripts(160)) {
        judge(&execute(&script, false))?;
    }

    #[test]
    fn frees_and_fresh_blocks_are_told_from_other_accesses(script in scripts(120)) {
        judge(&execute(&script, true))?;
    }
}

/// Lines for each byte: whole pages are given back that nobody has touched.
const EACH: u64 = 24;

/// The same execution in larger memory.
fn enlarged(events: &[Event]) -> Vec<Event> {
    let larger = |range: &core::ops::Range<u64>| range.start * EACH * 64..range.end * EACH * 64;
    let of = |event: &Event| match &event.what {
        What::Read(range) => What::Read(larger(range)),
        What::Write(range) => What::Write(larger(range)),
        What::Free(range) => What::Free(larger(range)),
        What::Fresh(range) => What::Fresh(larger(range)),
        other => other.clone(),
    };
    events.iter().map(|event| Event { thread: event.thread, what: of(event) }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_given_back_untouched_is_as_free_as_the_rest(script in scripts(120)) {
        let events = execute(&script, true);
        let (oracle, found) = (Oracle::new(&events), detect_in((BYTES * EACH).next_power_of_two() as usize, &enlarged(&events)));
        let of = |wanted: fn(Kind) -> bool| -> BTreeSet<u64> {
            found.races.iter().filter(|race| wanted(race.kind)).map(|race| race.line / EACH).collect()
        };
        prop_assert!(found.races.iter().all(|race| race.bytes() == u64::MAX));
        prop_assert_eq!(of(Kind::is_race), oracle.racing());
        prop_assert_eq!(of(|kind| kind == Kind::UseAfterFree), oracle.after_free(Touch::Write));
        prop_assert_eq!(of(|kind| kind == Kind::DoubleFree), oracle.after_free(Touch::Free));
    }
}
