//! Patterns for names, as shells have them: `*` for anything, `?` for one byte,
//! `[a-z]` and `[!a-z]` for one of a set.
//!
//! Here because who records and who is recorded both look whether they mean a name.

/// What stands in the place of each byte of a value that is not to stand in a trace. A letter: nothing that a shell would
/// expand.
pub const PLACEHOLDER: u8 = b'x';

/// Whether a pattern means this name. A bracket without its end stands for itself.
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
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

/// Whether each set has its end: what has none was not meant so.
pub fn is_whole(pattern: &[u8]) -> bool {
    let mut rest = pattern;
    while let Some(open) = rest.iter().position(|&byte| byte == b'[') {
        let Some((_, length)) = set(&rest[open + 1..], 0) else { return false };
        rest = &rest[open + length + 1..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::{is_whole, matches};

    fn means(pattern: &str, name: &str) -> bool {
        matches(pattern.as_bytes(), name.as_bytes())
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
    fn a_set_without_its_end_is_seen() {
        assert!(["", "A*", "[a]", "[]]x[!b]", "]"].iter().all(|pattern| is_whole(pattern.as_bytes())));
        assert!(["[", "[]", "[a]b[!", "*[a-"].iter().all(|pattern| !is_whole(pattern.as_bytes())));
    }
}
