//! Formats: which arguments are strings and where, by their kinds before them.

use super::super::made_up::Text;
use super::super::shapes::{Done, From};
use super::{Kind, printed, scanned};
use core::ops::Range;
use relive_accesses::Returned;

/// Where the stack is, the format, the first string: from the beginning of the memory on.
const STACK: u64 = 0;
const FORMAT: u64 = 128;
const STRINGS: u64 = 256;

/// Three strings of three bytes with their ends, the arguments that are not in registers, and the format.
fn memory(format: &str, stacked: &[u64]) -> Text {
    let mut all = vec![0; 8];
    all.extend(stacked.iter().flat_map(|word| word.to_le_bytes()));
    assert!(all.len() <= FORMAT as usize && format.len() < 127);
    all.resize(FORMAT as usize, 0);
    all.extend(format.bytes());
    all.resize(STRINGS as usize, 0);
    all.extend(b"abc\0def\0ghi\0");
    Text(all)
}

/// The address of the string.
fn string(number: u64) -> u64 {
    Text::START + STRINGS + number * 4
}

type Touched = Vec<(Kind, Range<u64>)>;

/// What happens beside the format, in bytes behind where the strings begin.
fn touched(format: &str, registers: [u64; 4], stacked: &[u64], count: Option<i32>) -> Option<Touched> {
    let memory = memory(format, stacked);
    let [a, b, c, d] = registers;
    let arguments = [0, Text::START + FORMAT, a, b, c, d];
    let call = Returned { number: 0, arguments, list: [0; 2], result: 0, stack: Text::START + STACK };
    let mut all = Vec::new();
    let mut touch = |range: Range<u64>, kind| {
        if range.start >= Text::START + STRINGS {
            all.push((kind, range.start - Text::START - STRINGS..range.end - Text::START - STRINGS));
        }
    };
    let mut done = Done { call: &call, unit: 1, memory: &memory, touch: &mut touch };
    match count {
        None => printed(&mut done, 1, From::Passed(2)),
        Some(count) => scanned(&mut done, 1, From::Passed(2), count),
    }?;
    Some(all)
}

fn print(format: &str, registers: [u64; 4], stacked: &[u64]) -> Option<Touched> {
    touched(format, registers, stacked, None)
}

/// From where to where, by pairs.
fn read<const N: usize>(ranges: [(u64, u64); N]) -> Option<Touched> {
    some(Kind::Read, &ranges)
}

fn written<const N: usize>(ranges: [(u64, u64); N]) -> Option<Touched> {
    some(Kind::Write, &ranges)
}

#[allow(clippy::unnecessary_wraps)] // What is compared with it may be unknown.
fn some(kind: Kind, ranges: &[(u64, u64)]) -> Option<Touched> {
    Some(ranges.iter().map(|&(start, end)| (kind, start..end)).collect())
}

#[test]
fn strings_are_read_as_far_as_they_are_printed() {
    let of = |format| print(format, [string(0), string(1), string(2), 0], &[]);
    assert_eq!(of("none 100%%"), read([]));
    assert_eq!(of("%s"), read([(0, 4)]));
    assert_eq!(of("<%-20s> %s"), read([(0, 4), (4, 8)]));
    assert_eq!(of("%.2s"), read([(0, 2)]));
    assert_eq!(of("%.0s%.9s%.s"), read([(4, 8)]));
    assert_eq!(of("%p %c %s"), read([(8, 12)]));
    assert_eq!(of("%ld%08llx%#hhx"), read([]));
    assert_eq!(of("%m%s"), read([(0, 4)]));
    assert_eq!(print("%s%s", [0, string(1), 0, 0], &[]), read([(4, 8)]), "(null)");
    assert_eq!(print("%.*s%s", [2, string(0), string(1), 0], &[]), read([(0, 2), (4, 8)]));
    assert_eq!(print("%.*s", [u64::from(u32::MAX), string(0), 0, 0], &[]), read([(0, 4)]), "a negative precision");
    assert_eq!(print("%*d%s", [9, 9, string(1), 0], &[]), read([(4, 8)]));
    assert_eq!(print("%n%s", [string(2), string(0), 0, 0], &[]), Some(vec![(Kind::Write, 8..12), (Kind::Read, 0..4)]));
    assert_eq!(print("%hhn%ln", [string(0), string(1), 0, 0], &[]), written([(0, 1), (4, 12)]));
}

#[test]
fn arguments_are_where_the_calling_convention_has_them() {
    assert_eq!(print("%d%d%d%d%s%s", [0; 4], &[string(0), string(1)]), read([(0, 4), (4, 8)]));
    assert_eq!(print("%f%g%s", [string(0), 0, 0, 0], &[]), read([(0, 4)]), "in other registers");
    assert_eq!(print("%f%f%f%f%f%f%f%f%f%d%d%d%d%s", [0; 4], &[0, string(2)]), read([(8, 12)]), "the ninth is not");
    // A long double is aligned: the first place is at 8 behind the stack pointer.
    assert_eq!(print("%Lf%s%d%d%d%s", [string(0), 0, 0, 0], &[0, 0, 0, string(1)]), read([(0, 4), (4, 8)]));
}

#[test]
fn a_list_goes_on_where_it_is() {
    let memory = memory("%s%s", &[0, 0, Text::START + 32, 0, string(0), string(1)]);
    let arguments = [0, Text::START + FORMAT, Text::START + 8, 0, 0, 0];
    // One argument is left in registers, which were saved at 32; the first on the stack is at 48.
    let list = [(176 << 32) + 40, Text::START + 48];
    let call = Returned { number: 0, arguments, list, result: 0, stack: 0 };
    let mut all = Vec::new();
    let mut saved = memory;
    saved.0.splice(72..80, string(2).to_le_bytes());
    let mut touch = |range: Range<u64>, _: Kind| all.push(range.start);
    let mut done = Done { call: &call, unit: 1, memory: &saved, touch: &mut touch };
    assert_eq!(printed(&mut done, 1, From::List(2)), Some(()));
    assert_eq!(all, [Text::START + FORMAT, string(2), string(1)]);
}

#[test]
fn what_is_not_known_says_so() {
    for format in ["%1$s", "%*1$d", "%.3ls", "%y", "%", "%.*1$s"] {
        assert_eq!(print(format, [string(0); 4], &[]), None, "{format}");
    }
}

#[test]
fn as_much_is_stored_as_was_converted() {
    let scan = |format, count| touched(format, [string(0), string(1), string(2), 0], &[], Some(count));
    assert_eq!(scan("%d", 1), written([(0, 4)]));
    assert_eq!(scan("%d %d", 1), written([(0, 4)]));
    assert_eq!(scan("%d %d", -1), written([]));
    assert_eq!(scan("%d %d", 0), written([]));
    assert_eq!(scan("%hhd%hd%ld", 3), written([(0, 1), (4, 6), (8, 16)]));
    assert_eq!(scan("%f%lf%Lf", 3), written([(0, 4), (4, 12), (8, 18)]));
    assert_eq!(scan("%*d %s", 1), written([(0, 4)]));
    assert_eq!(scan("%*[^]x] = %[]a-z]%c", 2), written([(0, 4), (4, 5)]));
    assert_eq!(scan("%3c", 1), written([(0, 3)]));
    assert_eq!(scan("%d%n%s", 2), written([(0, 4), (4, 8), (8, 12)]));
    assert_eq!(scan("%n%d", 1), written([(0, 4), (4, 8)]));
    assert_eq!(scan("100%% %d", 1), written([(0, 4)]));
    for format in ["%1$d", "%as", "%y", "none", "%[abc"] {
        assert_eq!(scan(format, 1), None, "{format}");
    }
}
