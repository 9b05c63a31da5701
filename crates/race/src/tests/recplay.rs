//! The paper's way to find races finds the same bytes.

use super::detect::synchronise;
use super::execution::{Event, What, execute, scripts};
use super::oracle::{Oracle, Touch, touched};
use crate::recplay::{Figures, Recorder, Recplay};
use crate::{Clock, Clocks, Line, Race, pieces};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

#[derive(Default)]
struct Run {
    recplay: Recplay,
    recorder: Recorder,
    pending: BTreeMap<u32, BTreeMap<u64, (u64, u64)>>,
    races: Vec<Race>,
    segments: Vec<(Clock, usize)>,
}

impl Run {
    fn end(&mut self, clock: &Clock) {
        let lines = self.pending.remove(&clock.epoch().thread()).unwrap_or_default();
        let lines: Vec<Line> =
            lines.into_iter().map(|(number, (read, written))| Line { number, read, written }).collect();
        self.recplay.end(clock, &lines, &mut |race| self.races.push(race));
        self.recorder.end(clock, &lines);
        self.segments.push((clock.clone(), lines.len()));
    }

    fn note(&mut self, event: &Event) -> bool {
        let Some((touch, range)) = touched(event) else { return false };
        let lines = self.pending.entry(event.thread).or_default();
        for (line, bytes) in pieces(range.clone()) {
            let (read, written) = lines.entry(line).or_default();
            *(if touch == Touch::Read { read } else { written }) |= bytes;
        }
        true
    }
}

fn run(events: &[Event]) -> Run {
    let (mut run, clocks) = (Run::default(), Clocks::new(16));
    clocks.start(0).unwrap();
    for event in events {
        if run.note(event) || event.what == What::Sweep {
            continue;
        }
        let ended = synchronise(&clocks, event, |clocks| run.end(&clocks.current(event.thread)));
        if let Some(clock) = ended {
            run.end(&clock);
        }
        run.recplay.snoop(&clocks);
        run.recorder.snoop(&clocks);
    }
    for clock in clocks.running() {
        run.end(&clock);
    }
    run
}

/// Table 2 by its words: segments, those that are still unordered with one to come at each end of one, unordered pairs.
fn naive(segments: &[(Clock, usize)]) -> (u64, u64, u64) {
    let unordered = |one: usize, other: usize| {
        let (one, other) = (&segments[one].0, &segments[other].0);
        one.epoch().thread() != other.epoch().thread() && !one.knows(other.epoch()) && !other.knows(one.epoch())
    };
    let count = segments.len();
    let pairs = (0..count).flat_map(|now| (0..now).map(move |older| (older, now)));
    let compared = pairs.filter(|&(older, now)| unordered(older, now)).count() as u64;
    let needed = |older: usize, now: usize| older == now || (now..count).any(|later| unordered(older, later));
    let stored = (0..count).map(|now| (0..=now).filter(|&older| needed(older, now)).count() as u64);
    (count as u64, stored.max().unwrap_or(0), compared)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_same_bytes_race(script in scripts(160)) {
        let events = execute(&script, false);
        let found = run(&events);
        let bytes: BTreeSet<u64> = found
            .races
            .iter()
            .flat_map(|race| (0..64).filter(|i| race.bytes() >> i & 1 == 1).map(|i| race.line * 64 + i))
            .collect();
        prop_assert_eq!(bytes, Oracle::new(&events).racing());
        prop_assert_eq!(found.recplay.figures(), found.recorder.figures());
        let (exact, snooped) = (found.recorder.exact(), found.recorder.figures());
        prop_assert_eq!((exact.created, exact.stored_max, exact.compared), naive(&found.segments));
        prop_assert_eq!((exact.created, exact.compared), (snooped.created, snooped.compared));
        prop_assert!(exact.stored_max <= snooped.stored_max && exact.bytes_max <= snooped.bytes_max);
    }
}

#[test]
fn segments_go_when_everybody_knows_them() {
    let (clocks, mut recplay) = (Clocks::new(16), Recplay::new());
    clocks.start(0).unwrap();
    clocks.create(0, 1).unwrap();
    let line = |number| [Line { number, read: 1, written: 0 }];
    let none = &mut |race: Race| panic!("{race:?}");
    for round in 0..100 {
        let (from, to) = (round % 2, 1 - round % 2);
        recplay.end(&clocks.current(from), &line(u64::from(round)), none);
        clocks.release(from, 7);
        if let Some(ended) = clocks.acquire(to, 7) {
            recplay.end(&ended, &[], none);
        }
        recplay.snoop(&clocks);
    }
    let figures = recplay.figures();
    assert_eq!((figures.created, figures.stored_max), (200, 3));
    assert!(recplay.bytes() < 2000);
}

#[test]
fn what_one_thread_does_not_know_is_kept() {
    let (clocks, mut recorder) = (Clocks::new(16), Recorder::new());
    clocks.start(0).unwrap();
    clocks.create(0, 1).unwrap();
    for _ in 0..10 {
        recorder.end(&clocks.current(1), &[]);
        clocks.release(1, 7);
        recorder.snoop(&clocks);
    }
    recorder.end(&clocks.current(0), &[]);
    assert_eq!(recorder.figures(), Figures { created: 11, stored_max: 11, bytes_max: 0, compared: 10 });
    recorder.end(&clocks.current(1), &[]);
    clocks.end(1);
    assert!(clocks.join(0, 1).is_some());
    recorder.snoop(&clocks);
    recorder.end(&clocks.current(0), &[]);
    assert_eq!(recorder.figures(), Figures { created: 13, stored_max: 12, bytes_max: 0, compared: 11 });
}
