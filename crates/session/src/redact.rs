//! What of the environment is not to stand in a trace.
//!
//! Apart from the recording because a placeholder must keep a value's length: the
//! environment stands on the stack, and a replay's addresses are the recorded
//! ones only if it is as long.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// What stands in the place of each byte of a value. A letter: nothing that a shell would expand.
const PLACEHOLDER: u8 = b'x';

/// A pattern as shells have it for names: `*` for anything, `?` for one byte, `[a-z]` and `[!a-z]` for one of a set.
#[derive(Clone, Debug)]
pub struct Pattern(OsString);

impl Pattern {
    /// The pattern that `text` writes.
    pub fn new(text: OsString) -> Self {
        Self(text)
    }

    /// Whether it means this name.
    pub fn matches(&self, name: &OsStr) -> bool {
        matches(self.0.as_bytes(), name.as_bytes())
    }
}

/// The value that a trace holds for a variable.
pub fn redacted(patterns: &[Pattern], name: &OsStr, value: OsString) -> OsString {
    if patterns.iter().any(|pattern| pattern.matches(name)) {
        OsString::from_vec(vec![PLACEHOLDER; value.len()])
    } else {
        value
    }
}

fn matches(pattern: &[u8], name: &[u8]) -> bool {
    // Where the last star stands, and how far the name went into it: a later mismatch gives it one byte more.
    let (mut at, mut done, mut star) = (0, 0, None);
    while done < name.len() {
        let step = match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, done));
                at += 1;
                continue;
            }
            Some(_) => one(&pattern[at..], name[done]),
            None => None,
        };
        match (step, star) {
            (Some(length), _) => (at, done) = (at + length, done + 1),
            (None, Some((place, taken))) => {
                star = Some((place, taken + 1));
                (at, done) = (place + 1, taken + 1);
            }
            (None, None) => return false,
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

/// How much of the pattern means this byte, if it does.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', rest @ ..] => match set(rest, byte) {
            Some((holds, length)) => holds.then_some(length + 1),
            // Without its end it is a bracket.
            None => (byte == b'[').then_some(1),
        },
        [first, ..] => (*first == byte).then_some(1),
        [] => None,
    }
}

/// Whether the set that begins behind its bracket has this byte, and its length with the end.
fn set(text: &[u8], byte: u8) -> Option<(bool, usize)> {
    let inverted = matches!(text.first(), Some(b'!' | b'^'));
    let start = usize::from(inverted);
    // An end that stands first belongs to the set.
    let end = start + 1 + text.get(start + 1..)?.iter().position(|&byte| byte == b']')?;
    let (mut at, mut holds) = (start, false);
    while at < end {
        let from = text[at];
        let range = at + 2 < end && text[at + 1] == b'-';
        let to = if range { text[at + 2] } else { from };
        holds |= (from..=to).contains(&byte);
        at += if range { 3 } else { 1 };
    }
    Some((holds != inverted, end + 1))
}

#[cfg(test)]
mod tests {
    use super::{Pattern, redacted};
    use std::ffi::{OsStr, OsString};

    fn means(pattern: &str, name: &str) -> bool {
        Pattern::new(OsString::from(pattern)).matches(OsStr::new(name))
    }

    #[test]
    fn patterns_are_those_of_shells() {
        for (pattern, name) in [
            ("TOKEN", "TOKEN"),
            ("*", "ANYTHING"),
            ("*", ""),
            ("*_TOKEN", "GITHUB_TOKEN"),
            ("AWS_*", "AWS_"),
            ("*KEY*", "A_KEY_KEY_B"),
            ("A?C", "ABC"),
            ("[A-C]X", "BX"),
            ("[!A-C]X", "DX"),
            ("[]]", "]"),
            ("[", "["),
            ("*[0-9]", "PASSWORD2"),
            ("a*b*c", "a-b-b-c"),
        ] {
            assert!(means(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("TOKEN", "TOKENS"),
            ("TOKEN", "token"),
            ("*_TOKEN", "GITHUB_TOKEN2"),
            ("A?C", "AC"),
            ("[A-C]X", "DX"),
            ("[!A-C]X", "BX"),
            ("a*b*c", "a-c-b"),
            ("", "A"),
        ] {
            assert!(!means(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn a_placeholder_is_as_long_as_the_value() {
        let patterns = [Pattern::new("*SECRET*".into()), Pattern::new("PIN".into())];
        let shown = |name: &str, value: &str| redacted(&patterns, OsStr::new(name), value.into());
        assert_eq!(shown("MY_SECRET", "hunter2"), "xxxxxxx");
        assert_eq!(shown("PIN", ""), "");
        assert_eq!(shown("PINS", "1234"), "1234");
    }
}
