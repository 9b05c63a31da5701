//! The manifest: what goes in comes out, and nothing else is believed.

use crate::model::manifest;
use proptest::prelude::*;
use relive_trace::error::{Fault, Problem};
use relive_trace::manifest::{Manifest, Outcome, State, Text};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

fn parse(json: &str) -> Result<Manifest, Problem> {
    Manifest::parse(json.as_bytes(), Path::new("manifest.json")).map_err(|error| error.problem)
}

proptest! {
    #[test]
    fn any_arguments_and_environment_come_back(
        command in proptest::collection::vec(proptest::collection::vec(1..=255u8, 0..20), 0..5),
        text in any::<String>(),
        code in any::<u8>(),
    ) {
        let mut written = manifest();
        written.command = command.into_iter().map(|bytes| Text(OsString::from_vec(bytes))).collect();
        written.environment.push((Text::from("NAME"), Text::from(&text)));
        (written.state, written.outcome) = (State::Complete, Some(Outcome::Killed(code)));
        let json = written.to_json().unwrap();
        prop_assert_eq!(parse(&json).unwrap(), written);
    }
}

#[test]
fn a_changed_argument_is_found() {
    let json = manifest().to_json().unwrap();
    assert!(matches!(parse(&json.replace("\"-x\"", "\"-y\"")), Err(Problem::Corrupt(Fault::Checksum))));
    assert!(matches!(parse(&json.replace("\"notes\"", "\"nodes\"")), Err(Problem::Corrupt(Fault::Manifest(_)))));
}

#[test]
fn a_newer_version_is_named_whatever_else_it_holds() {
    assert!(matches!(parse(r#"{"format": 99, "strange": []}"#), Err(Problem::Newer { found: 99 })));
    assert!(matches!(parse("{\"format\": 1"), Err(Problem::Truncated)));
    assert!(matches!(parse("[]"), Err(Problem::Corrupt(Fault::Manifest(_)))));
}
