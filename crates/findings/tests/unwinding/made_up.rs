//! Snapshots that no process took: whatever they hold, there is an end and no fault.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use relive_findings::locate;
use relive_findings::raw::{RawModule, RawRace, RawReport, RawStack, Snapshot};
use std::sync::LazyLock;

/// Where the stack of a made-up snapshot begins.
const STACK: u64 = 0x7fff_ffff_0000;

/// The code of libraries that is mapped here and now; that of the test itself takes long to read.
static MODULES: LazyLock<Vec<RawModule>> = LazyLock::new(|| {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let modules: Vec<_> = maps.lines().filter_map(mapping).collect();
    assert!(modules.len() > 1, "{maps}");
    modules
});

fn mapping(line: &str) -> Option<RawModule> {
    let [range, "r-xp", offset, _, _, file] = line.split_whitespace().collect::<Vec<_>>()[..] else { return None };
    let number = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = range.split_once('-')?;
    let (start, end) = (number(start)?, number(end)?);
    let bias = start - number(offset)?;
    file.contains(".so").then(|| RawModule { file: file.to_owned(), start, end, bias, ..RawModule::default() })
}

/// A word: any, one that leads into code, or one that leads to the stack.
fn words() -> impl Strategy<Value = u64> {
    let code = (any::<Index>(), any::<Index>()).prop_map(|(module, at)| {
        let module = module.get(&MODULES);
        module.start + at.index((module.end - module.start) as usize) as u64
    });
    let stack = (0..110u64).prop_map(|index| STACK + 8 * index);
    prop_oneof![1 => any::<u64>(), 6 => code, 3 => stack]
}

prop_compose! {
    fn snapshots()(
        mut registers in prop::array::uniform8(words()),
        on_stack in prop::bool::weighted(0.9),
        words in vec(words(), 0..100),
    ) -> Snapshot {
        if on_stack {
            registers[1] = STACK;
        }
        Snapshot { registers, words }
    }
}

proptest! {
    // Each case reads the tables of the libraries anew: few, with many snapshots.
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn any_snapshot_is_unwound_to_an_end(snapshots in vec(snapshots(), 30..60)) {
        let race = |snapshot: &Snapshot| {
            let mut race = RawRace::default();
            race.accesses[0].stack = RawStack { snapshot: Some(snapshot.clone()), ..RawStack::default() };
            race
        };
        let raw = RawReport {
            modules: MODULES.clone(),
            races: snapshots.iter().map(race).collect(),
            ..RawReport::default()
        };
        let found = locate::located(&raw, &[]);
        for (race, snapshot) in found.races.iter().zip(&snapshots) {
            let stack = &race.accesses[0].stack;
            prop_assert_eq!(stack.addresses[0], snapshot.registers[0]);
            prop_assert!(stack.addresses.len() <= 128 && stack.slots.len() <= stack.addresses.len());
            prop_assert!(stack.exact.iter().all(|&index| index < stack.addresses.len()));
            let in_module = |address: &u64| found.modules.iter().any(|it| (it.start..=it.end).contains(address));
            prop_assert!(stack.addresses[1..].iter().all(in_module), "{:x?}", stack.addresses);
        }
        prop_assert_eq!(locate::located(&found, &[]), found);
    }
}
