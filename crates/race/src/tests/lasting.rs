//! Reads that last: where the detector is sure it is right, and it is unsure only where somebody may have read.

use super::detect::{Detect, detect, detect_lasting};
use super::execution::{Event, What, execute, scripts};
use super::oracle::{Oracle, Touch};
use super::random::{bytes_of, judge_pairs};
use crate::{Kind, Often};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::vec;
use std::vec::Vec;

/// So little that short executions have reads that last.
const SOON: Often = Often { enough: 1, gap: 8, segments: 5 };
const CELLS: usize = 128;

fn judge(events: &[Event]) -> Result<(), TestCaseError> {
    let oracle = Oracle::new(events);
    let found = detect_lasting(CELLS, events, Some(SOON));
    let same = |kinds: fn(Kind) -> bool, wanted: BTreeSet<u64>| {
        let told = bytes_of(&found.races, kinds);
        let missed = wanted.difference(&told).filter(|byte| !found.unsure.contains(&(*byte / 64))).count();
        prop_assert!(told.is_subset(&wanted) && missed == 0, "{told:?} of {wanted:?}, unsure {:?}", found.unsure);
        Ok(())
    };
    same(Kind::is_race, oracle.racing())?;
    same(|kind| kind == Kind::UseAfterFree, oracle.after_free(Touch::Write))?;
    same(|kind| kind == Kind::DoubleFree, oracle.after_free(Touch::Free))?;
    judge_pairs(events, &found, &oracle)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn what_is_not_unsure_is_that_of_the_oracle(script in scripts(240)) {
        judge(&execute(&script, false))?;
    }

    #[test]
    fn so_it_is_with_memory_that_is_given_back(script in scripts(160)) {
        judge(&execute(&script, true))?;
    }
}

/// An execution in few words: who does what.
fn events(all: &[(u32, What)]) -> Vec<Event> {
    all.iter().map(|(thread, what)| Event { thread: *thread, what: what.clone() }).collect()
}

/// Two threads, of which the second reads a line again and again, a mutex around each read.
fn reader(times: usize) -> Vec<(u32, What)> {
    let mut all = vec![(0, What::Write(0..8)), (0, What::Create(1))];
    for _ in 0..times {
        all.extend([(1, What::Lock(0)), (1, What::Read(0..8)), (1, What::Unlock(0))]);
    }
    all
}

fn of(all: &[(u32, What)]) -> (Detect, bool) {
    let events = events(all);
    let races = !detect(&events).races.is_empty();
    (detect_lasting(CELLS, &events, Some(SOON)), races)
}

#[test]
fn what_is_read_in_one_segment_after_the_other_is_noted_once() {
    let (found, races) = of(&reader(12));
    assert!(found.lasted > 0 && found.unsure.is_empty() && !races);
}

#[test]
fn a_write_beside_reads_that_last_is_unsure_whether_it_races_or_not() {
    let locked = [(0, What::Lock(0)), (0, What::Write(0..8)), (0, What::Unlock(0))];
    let (found, races) = of(&[reader(12), locked.to_vec()].concat());
    assert!(found.races.is_empty() && !races && found.unsure.contains(&0), "the reader may be at it");
    let (found, races) = of(&[reader(12), vec![(0, What::Write(0..8))]].concat());
    assert!(races && (!found.races.is_empty() || found.unsure.contains(&0)));
}

#[test]
fn a_write_behind_reads_that_were_closed_is_sure() {
    let ends = [(1, What::End), (0, What::Join(1)), (0, What::Write(0..8))];
    let (found, races) = of(&[reader(12), ends.to_vec()].concat());
    assert!(found.lasted > 0 && found.unsure.is_empty() && found.races.is_empty() && !races);
    // Others' bytes of the line are nobody's business.
    let (found, _) = of(&[reader(12), vec![(0, What::Write(8..64))]].concat());
    assert!(found.unsure.is_empty() && found.races.is_empty());
}

#[test]
fn further_bytes_of_the_line_and_writes_to_it_are_seen() {
    let more = [(1, What::Read(8..12)), (0, What::Write(10..11))];
    let (found, races) = of(&[reader(12), more.to_vec()].concat());
    assert!(races && (!found.races.is_empty() || found.unsure.contains(&0)));
    let more = [(1, What::Write(0..1)), (0, What::Write(0..1))];
    let (found, races) = of(&[reader(12), more.to_vec()].concat());
    assert!(races && !found.races.is_empty());
}

/// Whether the detector has found that something races, or that it may.
fn is_suspicious(found: &Detect) -> bool {
    !found.races.is_empty() || !found.unsure.is_empty()
}

#[test]
fn further_bytes_last_as_well() {
    // The writer knows of the first read of those bytes, and not of the second.
    let more = [
        (1, What::Lock(0)),
        (1, What::Read(8..12)),
        (1, What::Unlock(0)),
        (0, What::Lock(0)),
        (0, What::Unlock(0)),
        (1, What::Read(8..12)),
        (0, What::Write(8..9)),
    ];
    let (found, races) = of(&[reader(12), more.to_vec()].concat());
    assert!(races && is_suspicious(&found));
}

#[test]
fn what_the_reader_gives_back_is_another_thing() {
    let block = 0..16;
    let again =
        [(1, What::Free(block.clone())), (1, What::Fresh(block)), (1, What::Read(0..8)), (0, What::Write(0..8))];
    let (found, races) = of(&[reader(12), again.to_vec()].concat());
    assert!(races && found.races.iter().any(|race| race.kind == Kind::Accesses), "{:?}", found.races);
    assert!(found.unsure.is_empty());
}

#[test]
fn reads_of_what_was_there_before_do_not_count() {
    let stops = (0..20).flat_map(|_| [(1, What::Lock(0)), (1, What::Unlock(0))]).collect::<Vec<_>>();
    let closed = [reader(12), stops].concat();
    let (found, _) = of(&[closed.clone(), vec![(0, What::Write(0..8))]].concat());
    assert!(!found.unsure.is_empty(), "nothing orders it with the reads");
    let (found, races) = of(&[closed, vec![(0, What::Fresh(0..64)), (0, What::Write(0..8))]].concat());
    assert!(!races && !is_suspicious(&found));
}

#[test]
fn what_the_reader_keeps_of_a_line_it_has_read_up_to_then() {
    // It reads all bytes in this segment as well, of which the writer does not know, and gives the first ones back.
    let gives = [
        (0, What::Lock(0)),
        (0, What::Unlock(0)),
        (1, What::Read(0..8)),
        (1, What::Free(0..4)),
        (0, What::Write(4..8)),
    ];
    let (found, races) = of(&[reader(12), gives.to_vec()].concat());
    assert!(races && is_suspicious(&found), "{:?}", found.races);
}

#[test]
fn reads_of_what_was_given_back_do_not_last() {
    // The reader knows of it only in the end: one more fault, of another kind.
    let frees = [(0, What::Create(2)), (2, What::Lock(1)), (2, What::Free(0..8)), (2, What::Unlock(1))];
    let knows = [(1, What::Lock(1)), (1, What::Unlock(1)), (1, What::Read(0..8))];
    let (found, _) = of(&[reader(0), frees.to_vec(), reader(2)[2..].to_vec(), knows.to_vec()].concat());
    let kinds = |kind| is_suspicious(&found) && found.races.iter().any(|race| race.kind == kind);
    assert!(kinds(Kind::Freed) && kinds(Kind::UseAfterFree), "{:?}", found.races);
}
