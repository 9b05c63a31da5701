//! Lengths: for each row's kind the bytes that are claimed, and no others.

use super::super::made_up::Text;
use super::super::table::ROWS;
use super::{Done, Kind, Returned};
use core::ops::Range;

/// From the beginning of the memory on.
type Touched = Vec<(Kind, Range<u64>)>;

/// What the function is told to have done with these arguments and this result. Small numbers are numbers; what is from
/// [`Text::START`] on is an address.
fn told_in(memory: &Text, name: &str, arguments: &[u64], result: u64) -> Touched {
    let row = ROWS.iter().find(|row| row.names.iter().any(|known| known.to_str() == Ok(name))).unwrap();
    assert!(arguments.len() <= 6);
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    let call = Returned { number: 0, arguments: all, list: [0; 2], result, stack: 0 };
    let mut touched = Vec::new();
    let mut touch = |range: Range<u64>, kind| touched.push((kind, range.start - Text::START..range.end - Text::START));
    let mut done = Done { call: &call, unit: row.unit, memory, touch: &mut touch };
    if done.is_meant(row.means) {
        row.effects.iter().for_each(|&effect| assert_eq!(done.tell(effect), Ok(()), "{name}"));
    }
    touched
}

/// The text has zeroes for blanks.
fn told(text: &str, name: &str, arguments: &[u64], result: u64) -> Touched {
    told_in(&Text(text.bytes().map(|byte| if byte == b' ' { 0 } else { byte }).collect()), name, arguments, result)
}

fn read(range: Range<u64>) -> (Kind, Range<u64>) {
    (Kind::Read, range)
}

fn written(range: Range<u64>) -> (Kind, Range<u64>) {
    (Kind::Write, range)
}

/// The address of this byte.
fn at(byte: u64) -> u64 {
    Text::START + byte
}

#[test]
fn a_length_is_read_with_its_end() {
    assert_eq!(told("abc xyz", "strlen", &[at(0)], 3), [read(0..4)]);
    assert_eq!(told("abc xyz", "strnlen", &[at(0), 9], 3), [read(0..4)]);
    assert_eq!(told("abc xyz", "strnlen", &[at(0), 3], 3), [read(0..3)]);
    assert_eq!(told("abc xyz", "strnlen", &[at(0), 0], 0), []);
    assert_eq!(told("aab ab ", "strspn", &[at(0), at(4)], 2), [read(0..3), read(4..7)]);
    assert_eq!(told("a   b   c       ", "wcslen", &[at(0)], 3), [read(0..16)]);
}

#[test]
fn a_search_ends_where_it_finds() {
    assert_eq!(told("abcb ", "strchr", &[at(0), 98], at(1)), [read(0..2)]);
    assert_eq!(told("abcb ", "strchr", &[at(0), 120], 0), [read(0..5)]);
    assert_eq!(told("abcb ", "strchr", &[at(0), 0], at(4)), [read(0..5)]);
    assert_eq!(told("abcb ", "strrchr", &[at(0), 98], at(3)), [read(0..5)]);
    assert_eq!(told("abcb", "memchr", &[at(0), 98, 4], at(1)), [read(0..2)]);
    assert_eq!(told("abcb", "memchr", &[at(0), 120, 3], 0), [read(0..3)]);
    assert_eq!(told("abcb", "memchr", &[at(0), 120, 0], 0), []);
    assert_eq!(told("abcb", "memrchr", &[at(0), 98, 3], at(1)), [read(1..3)]);
    assert_eq!(told("abcb", "memrchr", &[at(0), 120, 3], 0), [read(0..3)]);
    assert_eq!(told("abcb cx ", "strpbrk", &[at(0), at(5)], at(2)), [read(0..3), read(5..8)]);
    assert_eq!(told("a   b   c       ", "wcschr", &[at(0), 98], at(4)), [read(0..8)]);
}

#[test]
fn a_comparison_ends_where_they_differ() {
    assert_eq!(told("abc abx ", "strcmp", &[at(0), at(4)], 1), [read(0..3), read(4..7)]);
    assert_eq!(told("ab abx ", "strcmp", &[at(0), at(3)], u64::MAX), [read(0..3), read(3..6)]);
    assert_eq!(told("abc abc ", "strcmp", &[at(0), at(4)], 0), [read(0..4), read(4..8)]);
    assert_eq!(told("abc abc ", "strcmp", &[at(0), at(0)], 0), []);
    assert_eq!(told("abc abx ", "strncmp", &[at(0), at(4), 2], 0), [read(0..2), read(4..6)]);
    assert_eq!(told("abc abx ", "strncmp", &[at(0), at(4), 9], 1), [read(0..3), read(4..7)]);
    assert_eq!(told("abc abx ", "strncmp", &[at(0), at(4), 0], 0), []);
    assert_eq!(told("abc abx ", "memcmp", &[at(0), at(4), 4], 1), [read(0..3), read(4..7)]);
    assert_eq!(told("abc abc ", "memcmp", &[at(0), at(4), 4], 0), [read(0..4), read(4..8)]);
    assert_eq!(told("ab  ac  ", "memcmp", &[at(0), at(4), 0], 0), []);
    assert_eq!(told("aBc abc ", "strcasecmp", &[at(0), at(4)], 0), [read(0..4), read(4..8)]);
    assert_eq!(told("aBc abx ", "strcasecmp", &[at(0), at(4)], 1), [read(0..2), read(4..6)], "at least");
    assert_eq!(told("a   b   a   c   ", "wcscmp", &[at(0), at(8)], 1), [read(0..8), read(8..16)]);
}

#[test]
fn a_text_in_a_text() {
    assert_eq!(told("xabxab ab ", "strstr", &[at(0), at(7)], at(1)), [read(0..3), read(7..10)]);
    assert_eq!(told("xabxab no ", "strstr", &[at(0), at(7)], 0), [read(7..8), read(0..7)]);
    assert_eq!(told("xab  ", "strstr", &[at(0), at(4)], at(0)), [read(4..5)]);
    assert_eq!(told("xabxabab", "memmem", &[at(0), 6, at(6), 2], at(1)), [read(1..3), read(6..8)]);
    assert_eq!(told("xabxabno", "memmem", &[at(0), 6, at(6), 2], 0), []);
}

#[test]
fn copies_read_their_source() {
    assert_eq!(told("abc xyz ", "strcpy", &[at(4), at(0)], at(4)), [read(0..4)]);
    assert_eq!(told("abc xyz ", "strncpy", &[at(4), at(0), 9], at(4)), [read(0..4)]);
    assert_eq!(told("abc xyz ", "strncpy", &[at(4), at(0), 2], at(4)), [read(0..2)]);
    // "x" to which "abc" was appended.
    assert_eq!(told("abc xabc ", "strcat", &[at(4), at(0)], at(4)), [read(0..4), read(4..6)]);
    assert_eq!(told("abc xab ", "strncat", &[at(4), at(0), 2], at(4)), [read(0..2), read(4..6)]);
    assert_eq!(told("abc ", "strndup", &[at(0), 2], at(0)), [read(0..2)]);
    assert_eq!(told("abc ", "strndup", &[at(0), 2], 0), [], "no memory");
}

/// An address in memory that begins at [`Text::START`].
fn pointer(to: u64) -> [u8; 8] {
    (Text::START + to).to_le_bytes()
}

#[test]
fn tokens_end_where_their_delimiters_were() {
    let with = |text: &[u8], pointer: [u8; 8]| Text([text, &pointer].concat());
    let memory = with(b"ab\0c\0,\0\0", pointer(3));
    let expected = [read(8..16), written(8..16), written(2..3), read(0..3), read(5..7)];
    assert_eq!(told_in(&memory, "strsep", &[at(8), at(5)], at(0)), expected);
    let memory = with(b"abcdc\0,\0", pointer(3));
    assert_eq!(told_in(&memory, "strsep", &[at(8), at(6)], at(0))[..4], expected[..4], "somebody wrote over the end");
    let memory = with(b"ab\0c\0,\0\0", [0; 8]);
    assert_eq!(
        told_in(&memory, "strsep", &[at(8), at(5)], at(0)),
        [read(8..16), written(8..16), read(0..3), read(5..7)],
        "the last one"
    );
    assert_eq!(told_in(&memory, "strsep", &[at(8), at(5)], 0), [read(8..16)]);
    let memory = with(b",ab\0c,\0\0", pointer(4));
    let expected = [written(8..16), read(0..1), written(3..4), read(1..4), read(5..7)];
    assert_eq!(told_in(&memory, "strtok_r", &[at(0), at(5), at(8)], at(1)), expected);
    let memory = with(b",abxc,\0\0", pointer(4));
    assert_eq!(told_in(&memory, "strtok_r", &[at(0), at(5), at(8)], at(1)), expected, "somebody wrote over the end");
    let memory = with(b",ab\0c,\0\0", pointer(3));
    let expected = [read(8..16), written(8..16), read(1..4), read(5..7)];
    assert_eq!(told_in(&memory, "strtok_r", &[0, at(5), at(8)], at(1)), expected, "the last one");
}

#[test]
fn numbers_say_where_they_end() {
    assert_eq!(told("12x ", "atoi", &[at(0)], 12), [read(0..3)]);
    assert_eq!(told("12x ", "strtol", &[at(0), 0, 10], 12), [read(0..3)]);
    assert_eq!(told("12x         ", "strtol", &[at(0), at(4), 10], 12), [read(0..3), written(4..12)]);
    assert_eq!(told("12x         ", "strtol", &[at(0), at(4), 1], 0), []);
    let memory = Text([&b"1.5x"[..], &pointer(3)].concat());
    assert_eq!(told_in(&memory, "strtod", &[at(0), at(4)], 0), [read(0..4), written(4..12)]);
}

#[test]
fn what_is_printed_has_an_end_and_room() {
    // The format stands behind the text.
    assert_eq!(told("abc abc ", "sprintf", &[at(0), at(4)], 3), [written(0..4), read(4..8)]);
    assert_eq!(told("abc abc ", "snprintf", &[at(0), 9, at(4)], 3), [written(0..4), read(4..8)]);
    assert_eq!(told("ab  abc ", "snprintf", &[at(0), 3, at(4)], 3), [written(0..3), read(4..8)]);
    assert_eq!(told("abc abc ", "snprintf", &[0, 0, at(4)], 3), [read(4..8)]);
    assert_eq!(told("abc abc ", "snprintf", &[at(0), 0, at(4)], 3), [read(4..8)]);
    assert_eq!(told("abc abc ", "snprintf", &[at(0), 9, at(4)], 0xFFFF_FFFF), [], "an error");
    assert_eq!(told("abc %Y ", "strftime", &[at(0), 9, at(4)], 3), [written(0..4), read(4..7)]);
    assert_eq!(told("abc %Y ", "strftime", &[at(0), 9, at(4)], 0), []);
    let memory = Text([&pointer(8)[..], b"abc\0abc\0"].concat());
    assert_eq!(told_in(&memory, "asprintf", &[at(0), at(12)], 3), [written(0..8), written(8..12), read(12..16)]);
}

#[test]
fn lines_and_times() {
    let memory = Text([&pointer(16)[..], &[0; 8], b"ab\n\0"].concat());
    assert_eq!(told_in(&memory, "getline", &[at(0), at(8)], 3), [read(0..8), read(8..16), written(16..20)]);
    assert_eq!(told_in(&memory, "getline", &[at(0), at(8)], u64::MAX), []);
    assert_eq!(told("", "gmtime_r", &[at(0), at(8)], at(8)), [read(0..8), written(8..44)]);
    assert_eq!(told("", "gmtime_r", &[at(0), at(8)], 0), []);
}

#[test]
fn no_function_is_in_two_rows_and_each_is_in_libc() {
    let mut names: Vec<_> = ROWS.iter().flat_map(|row| row.names).collect();
    let untold = relive_trace::races::UNTOLD_FUNCTIONS.iter();
    names.extend(untold);
    // A name that is not there makes `dlsym` take memory of the program's heap, to say so.
    let missing: Vec<_> = names.iter().filter(|name| relive_sys::lookup::next_symbol(name, None) == 0).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

/// Our own code calls such functions in the program's place, and only such.
#[test]
fn what_has_a_front_is_told_of_it() {
    let symbols = include_str!("../../../../../../../docs/symbols.md");
    for row in ROWS {
        for name in row.names {
            let listed = format!("`{}`", name.to_str().unwrap());
            assert!(!symbols.contains(&listed) || row.by_fronts, "{listed}");
        }
    }
}

#[test]
fn no_row_asks_for_more_than_it_keeps() {
    use super::Effect::{Format, Scan};
    for row in ROWS {
        assert!(row.arguments <= 6);
        let formats = row.effects.iter().filter(|effect| matches!(effect, Format(..) | Scan(..)));
        assert!(formats.count() == 0 || row.unit == 1, "{:?}", row.names);
        assert!(row.list().is_none_or(|list| list < row.arguments), "{:?}", row.names);
    }
}
