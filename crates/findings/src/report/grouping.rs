//! Races of the same pair of source places and the same variable, put together.
//!
//! A place is what people would call one: function, file and line of the innermost two
//! frames outside of system libraries, so that a helper called from two lines gives two
//! races, and a loop or a `memcpy` gives one. A frame without a line is its module and offset. A
//! variable is the whole one, so that the elements of an array give one race; what has no name (a block
//! of the heap, say) is told apart by the places alone. What a rule hides is never put together with what none hides.

use super::Race;
use crate::names::Frame;
use crate::places::telling;
use crate::raw::{Certainty, RaceKind};
use std::collections::BTreeMap;

type Place = Vec<(Option<String>, String, u64)>;
type Key = (RaceKind, bool, Option<String>, Option<String>, [Place; 2]);

/// One race a pair of places and kind, in the order of the first; of equal pairs the more certain one speaks, with
/// the sum of the counts and all bytes. Possible races are never put together with others.
pub(super) fn group(races: Vec<Race>) -> Vec<Race> {
    let mut groups: Vec<Race> = Vec::new();
    let mut known: BTreeMap<Key, usize> = BTreeMap::new();
    for race in races {
        let at = *known.entry(key(&race)).or_insert(groups.len());
        let Some(group) = groups.get_mut(at) else {
            groups.push(race);
            continue;
        };
        let count = group.count.saturating_add(race.count);
        let mut lines = std::mem::take(&mut group.lines);
        race.lines.iter().for_each(|(&line, bytes)| *lines.entry(line).or_default() |= bytes);
        if race.certainty < group.certainty {
            *group = race;
        }
        (group.count, group.lines) = (count, lines);
    }
    groups
}

fn key(race: &Race) -> Key {
    let mut places = race.stacks().map(place);
    places.sort();
    let variable = race.object.variable().map(str::to_owned);
    (race.kind, race.certainty == Certainty::PossibleAtomic, race.suppressed.clone(), variable, places)
}

fn place(stack: &[Frame]) -> Place {
    let place = |frame: &Frame| match (&frame.file, frame.line) {
        (Some(file), Some(line)) => (frame.function.clone(), file.clone(), line.into()),
        _ => (frame.function.clone(), frame.module.clone().unwrap_or_default(), frame.offset),
    };
    telling(stack).map(place).collect()
}
