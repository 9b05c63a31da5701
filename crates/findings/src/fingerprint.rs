//! A name for a race that another recording, another machine and changes elsewhere in the
//! source leave alone, so that a race can be known again.
//!
//! It is the 64-bit FNV-1a hash of a text: the kind of race, then for both sides, in
//! alphabetical order, for each of the innermost two frames outside of system libraries the
//! module's file name, the function and where in the function the access is:
//!
//! - the line relative to the one at which the function is declared, if both are known: so it
//!   does not change when the function moves within its file, but when lines are added
//!   between the function's head and the access;
//! - else the offset from the function's symbol, else that in the module: these change with
//!   every other build.
//!
//! Last comes the name of the whole variable, if it has one.
//!
//! Not in it: addresses, threads, counts, values, folders, the certainty, and which of the
//! two came first. The text's form is fixed: changing it makes every stored fingerprint
//! worthless.

use crate::names::{Frame, base_name};
use crate::places::telling;
use crate::raw::RaceKind;
use crate::report::Race;

/// The fingerprint as 16 hexadecimal digits.
pub fn of(race: &Race) -> String {
    let mut sides = race.stacks().map(side);
    sides.sort();
    let kind = match race.kind {
        RaceKind::Data => "data",
        RaceKind::Free => "free",
        RaceKind::UseAfterFree => "use after free",
    };
    let variable = race.object.variable().map(|name| format!("\n{name}")).unwrap_or_default();
    format!("{:016x}", hash(format!("{kind}\n{}\n{}{variable}", sides[0], sides[1]).as_bytes()))
}

fn side(stack: &[Frame]) -> String {
    let frames: Vec<String> = telling(stack).map(frame).collect();
    frames.join("\n")
}

fn frame(frame: &Frame) -> String {
    let module = frame.module.as_deref().map(base_name).unwrap_or_default();
    let function = frame.function.as_deref().unwrap_or_default();
    let place = match (frame.line, frame.declared, frame.into) {
        (Some(line), Some(declared), _) => format!("line {}", i64::from(line) - i64::from(declared)),
        (_, _, Some(into)) => format!("into {into}"),
        _ => format!("offset {}", frame.offset),
    };
    format!("{module}\t{function}\t{place}")
}

/// Fowler, Noll & Vo's hash, variant 1a.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::{hash, of};
    use crate::made_up;
    use crate::raw::Certainty;

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(
            [hash(b""), hash(b"a"), hash(b"foobar")],
            [0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c, 0x8594_4171_f739_67e8]
        );
    }

    #[test]
    fn what_may_change_does_not_change_it() {
        let race = made_up::race();
        let fingerprint = of(&race);
        let mut moved = race.clone();
        moved.accesses.reverse();
        moved.certainty = Certainty::AfterFirst;
        moved.address += 0x1000;
        moved.count = 7;
        for access in &mut moved.accesses {
            access.thread += 1;
            for frame in &mut access.stack {
                frame.line = frame.line.map(|line| line + 100);
                frame.declared = frame.declared.map(|line| line + 100);
                frame.offset += 64;
                frame.module = frame.module.as_ref().map(|module| format!("/elsewhere{module}"));
                frame.file = frame.file.as_ref().map(|file| format!("/elsewhere{file}"));
            }
        }
        assert_eq!(of(&moved), fingerprint);
    }

    #[test]
    fn another_race_has_another() {
        let race = made_up::race();
        let fingerprint = of(&race);
        let mut other = race.clone();
        other.accesses[0].stack[0].line = Some(99);
        assert_ne!(of(&other), fingerprint);
        let mut other = race.clone();
        other.accesses[1].stack[0].function = Some("other".to_owned());
        assert_ne!(of(&other), fingerprint);
        let mut other = race.clone();
        other.object = crate::report::Object::Unknown;
        assert_ne!(of(&other), fingerprint);
        let mut other = race;
        other.kind = crate::raw::RaceKind::Free;
        assert_ne!(of(&other), fingerprint);
    }
}
