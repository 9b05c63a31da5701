//! Which races are first, against the definition taken literally.

use super::detail::{Found, observe};
use super::execution::{Event, execute, scripts};
use super::oracle::Oracle;
use crate::{Clock, Clocks, Epoch, Frontier, Standing};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec::Vec;

/// A race of two segments: an event of each.
type Pair = [(Epoch, usize); 2];

fn races(found: &[Found]) -> BTreeMap<(Epoch, Epoch), Pair> {
    let of = |race: &Found| {
        let [older, newer] = [race.clocks[0].epoch(), race.clocks[1].epoch()];
        ((older, newer), [(older, race.older), (newer, race.newer)])
    };
    found.iter().filter(|race| race.kind.is_race()).map(of).collect()
}

/// For each race whether only those that it affects in turn affect it.
fn firsts(races: &[Pair], oracle: &Oracle<'_>) -> Vec<bool> {
    let affects =
        |a: &Pair, b: &Pair| a.iter().any(|x| b.iter().any(|y| x.0 != y.0 && x.1 < y.1 && oracle.ordered(x.1, y.1)));
    let count = races.len();
    let mut reach: Vec<Vec<bool>> = races.iter().map(|a| races.iter().map(|b| affects(a, b)).collect()).collect();
    for through in 0..count {
        let beyond = reach[through].clone();
        for row in reach.iter_mut().filter(|row| row[through]) {
            row.iter_mut().zip(&beyond).for_each(|(to, more)| *to |= more);
        }
    }
    (0..count).map(|race| (0..count).all(|other| !reach[other][race] || reach[race][other])).collect()
}

fn frontier(found: &[Found], pairs_max: usize) -> Frontier {
    let mut frontier = Frontier::with_limit(pairs_max);
    for race in found.iter().filter(|race| race.kind.is_race()) {
        frontier.add(&race.clocks[0], &race.clocks[1]);
    }
    frontier
}

fn clocks_of(found: &[Found]) -> BTreeMap<Epoch, Clock> {
    found.iter().flat_map(|race| &race.clocks).map(|clock| (clock.epoch(), clock.clone())).collect()
}

fn judge(events: &[Event]) -> Result<(), TestCaseError> {
    let oracle = Oracle::new(events);
    let (found, _) = observe(events);
    let races = races(&found);
    let expected = firsts(&races.values().copied().collect::<Vec<_>>(), &oracle);
    let clocks = clocks_of(&found);
    let (all, few) = (frontier(&found, usize::MAX), frontier(&found, 2));
    let (order, rough) = (all.order(), few.order());
    for ((older, newer), &first) in races.keys().zip(&expected) {
        let standing = order.standing(&clocks[older], &clocks[newer]);
        prop_assert_eq!(standing == Standing::First, first, "{:?} {:?}", older, newer);
        if races.len() > 2 && rough.standing(&clocks[older], &clocks[newer]) == Standing::First {
            prop_assert!(first, "{:?} {:?} by the frontier alone", older, newer);
        }
    }
    prop_assert!(races.is_empty() || expected.contains(&true));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn first_races_are_those_of_the_definition(script in scripts(120)) {
        judge(&execute(&script, false))?;
    }
}

/// The clocks of segments of two threads that know nothing of each other, `count` of each.
fn segments(count: usize) -> [Vec<Clock>; 2] {
    let clocks = Clocks::new(16);
    clocks.start(0).unwrap();
    clocks.create(0, 1).unwrap();
    [0, 1].map(|thread| {
        let next = || {
            let clock = clocks.current(thread).clone();
            clocks.release(thread, u64::from(thread));
            clock
        };
        (0..count).map(|_| next()).collect()
    })
}

#[test]
fn a_race_that_follows_another_is_later() {
    let [a, b] = segments(3);
    let mut frontier = Frontier::new();
    frontier.add(&a[1], &b[1]);
    frontier.add(&a[1], &b[2]);
    assert_eq!(frontier.order().standing(&a[1], &b[1]), Standing::First);
    assert_eq!(frontier.order().standing(&a[1], &b[2]), Standing::Later);
    // Found last, but before all others.
    frontier.add(&a[0], &b[0]);
    assert_eq!(frontier.order().standing(&a[1], &b[1]), Standing::Later);
    assert_eq!(frontier.order().standing(&a[0], &b[0]), Standing::First);
    assert_eq!(frontier.segments().collect::<Vec<_>>(), [a[0].epoch(), b[0].epoch()]);
    assert!(frontier.is_before(&a[1]) && !frontier.is_before(&a[0]));
}

#[test]
fn races_that_affect_each_other_are_first_together() {
    let [a, b] = segments(4);
    let mut frontier = Frontier::new();
    frontier.add(&a[0], &b[1]);
    frontier.add(&b[0], &a[1]);
    frontier.add(&a[2], &b[2]);
    let order = frontier.order();
    assert_eq!(order.standing(&a[0], &b[1]), Standing::First);
    assert_eq!(order.standing(&b[0], &a[1]), Standing::First);
    assert_eq!(order.standing(&a[2], &b[2]), Standing::Later);
}

#[test]
fn no_race_is_before_nothing() {
    let [a, _] = segments(1);
    assert!(!Frontier::new().is_before(&a[0]));
    assert_eq!(Frontier::new().segments().count(), 0);
}
