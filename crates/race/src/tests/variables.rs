//! Sets of synchronisation variables, and the order that they make.

use crate::{Clocks, Variables};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::vec::Vec;

proptest! {
    #[test]
    fn what_overlaps_is_one_variable(ranges in prop::collection::vec((0..200u64, 0..12u64), 0..30), line in 0..4u64, at in 0..200u64, size in 0..20u64) {
        let mut variables = Variables::new();
        for &(start, size) in &ranges {
            variables.insert(start..start + size);
        }
        let bytes: BTreeSet<u64> = ranges.iter().flat_map(|&(start, size)| start..start + size).collect();
        // A byte is one with the next if some range holds both.
        let joined = |byte: u64| ranges.iter().any(|&(start, size)| (start..start + size).contains(&byte) && byte + 1 < start + size);
        let mut expected: Vec<core::ops::Range<u64>> = Vec::new();
        for &byte in &bytes {
            match expected.last_mut() {
                Some(last) if last.end == byte && joined(byte - 1) => last.end += 1,
                _ => expected.push(byte..byte + 1),
            }
        }
        prop_assert_eq!(variables.iter().collect::<Vec<_>>(), expected.clone());
        prop_assert_eq!((variables.len(), variables.is_empty()), (expected.len(), expected.is_empty()));
        let mask = (0..64).filter(|i| bytes.contains(&(line * 64 + i))).fold(0, |mask, i| mask | 1 << i);
        prop_assert_eq!(variables.bytes_of(line), mask);
        let overlapping: Vec<_> = expected.into_iter().filter(|v| size > 0 && v.start < at + size && at < v.end).collect();
        prop_assert_eq!(variables.overlapping(at..at + size).collect::<Vec<_>>(), overlapping);
    }
}

fn threads() -> Clocks {
    let clocks = Clocks::new(16);
    clocks.start(0).unwrap();
    for child in 1..4 {
        clocks.create(0, child).unwrap();
    }
    clocks
}

#[test]
fn a_store_is_seen_by_a_load_of_any_part() {
    let (clocks, mut variables) = (threads(), Variables::new());
    variables.insert(8..16);
    variables.insert(32..36);
    let stored = clocks.current(1).epoch();
    variables.store(&clocks, 1, 8..9);
    assert!(variables.load(&clocks, 2, 16..32).is_none());
    assert!(variables.load(&clocks, 2, 32..33).is_none());
    let ended = variables.load(&clocks, 2, 12..40).unwrap();
    assert!(!ended.knows(stored) && clocks.current(2).knows(stored));
}

#[test]
fn a_store_to_a_part_hides_nothing_of_another() {
    let (clocks, mut variables) = (threads(), Variables::new());
    variables.insert(8..16);
    let stored = clocks.current(1).epoch();
    variables.store(&clocks, 1, 8..12);
    variables.store(&clocks, 2, 12..16);
    assert!(variables.load(&clocks, 3, 8..12).is_some());
    assert!(clocks.current(3).knows(stored));
}

#[test]
fn locked_instructions_order_both_ways() {
    let (clocks, mut variables) = (threads(), Variables::new());
    variables.insert(8..16);
    let first = clocks.current(1).epoch();
    variables.transfer(&clocks, 1, 8..16);
    let second = clocks.current(2).epoch();
    variables.transfer(&clocks, 2, 8..16);
    assert!(clocks.current(2).knows(first) && !clocks.current(1).knows(second));
    assert!(variables.load(&clocks, 1, 8..16).is_some());
    assert!(clocks.current(1).knows(second));
}

#[test]
fn the_last_line_of_all_is_a_line() {
    let mut variables = Variables::new();
    variables.insert(u64::MAX - 1..u64::MAX);
    assert_eq!(variables.bytes_of(u64::MAX / 64), 1 << 62);
    assert_eq!(variables.bytes_of(u64::MAX), 0);
}
