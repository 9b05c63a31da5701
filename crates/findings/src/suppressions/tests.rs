//! Patterns against a naive matcher, rules against frames, and files that are none.

use super::{Subject, SuppressionProblem, Suppressions, matches, suggestion};
use crate::names::Frame;
use proptest::prelude::*;

fn frame(function: &str, file: &str, module: &str) -> Frame {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Frame { function: text(function), file: text(file), module: text(module), ..Frame::default() }
}

fn hides(rules: &str, stacks: [&[Frame]; 2]) -> bool {
    let rules = Suppressions::parse(rules, "rules").expect("rules");
    rules.matching(&Subject { stacks, data: [Some("table[3].count"), Some("table")] }).is_some()
}

/// By trying every way, one character after the other.
fn naive(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => true,
        Some((b'$', [])) => text.is_empty(),
        Some((b'*', rest)) => (0..=text.len()).any(|at| naive(rest, &text[at..])),
        Some((byte, rest)) => text.first() == Some(byte) && naive(rest, &text[1..]),
    }
}

fn naive_from_anywhere(pattern: &str, text: &str) -> bool {
    match pattern.strip_prefix('^') {
        Some(rest) => naive(rest.as_bytes(), text.as_bytes()),
        None => naive(&[b"*", pattern.as_bytes()].concat(), text.as_bytes()),
    }
}

proptest! {
    #[test]
    fn patterns_match_as_the_naive_matcher_says(pattern in r"\^?[ab*]{1,6}\$?", text in "[ab]{0,8}") {
        prop_assert_eq!(matches(&pattern, &text), naive_from_anywhere(&pattern, &text));
    }

    #[test]
    fn any_text_is_rules_or_an_error_with_its_line(text in "(race|race_top|mutex|x|#|:|\\*|\\^|\\$|é| |\n|\r){0,30}") {
        match Suppressions::parse(&text, "file") {
            Ok(rules) => prop_assert!(rules.rules().len() <= text.lines().count()),
            Err(error) => {
                prop_assert!((1..=text.lines().count()).contains(&error.line));
                let place = format!("file:{}: ", error.line);
                prop_assert!(error.to_string().starts_with(&place));
            }
        }
    }

    #[test]
    fn matching_never_panics(pattern in "\\PC{0,12}", text in "\\PC{0,12}") {
        matches(&pattern, &text);
    }

    #[test]
    fn a_rule_that_was_printed_is_the_same_rule(pattern in "[a-z*^$:(]{1,12}") {
        let rules = Suppressions::parse(&format!("race_top:{pattern}"), "file").expect("a rule");
        prop_assert_eq!(rules.rules()[0].to_string(), format!("race_top:{pattern}"));
    }
}

#[test]
fn each_kind_looks_where_it_should() {
    let writer = [
        frame("memcpy", "", "/lib/x86_64-linux-gnu/libc.so.6"),
        frame("store::put(int, char const*)", "/src/store.cc", "/opt/libstore.so.2"),
        frame("main", "/src/main.cc", "/opt/program"),
    ];
    let reader = [frame("get", "/src/read.c", "/opt/program")];
    let any = |rules: &str| hides(rules, [&writer, &reader]);
    for rule in [
        "race:main",
        "race:put(int",
        "race:^store::put$",
        "race:store.cc$",
        "race:libstore",
        "race:table",
        "race:^table$",
    ] {
        assert!(any(rule), "{rule}");
    }
    for rule in ["race_top:memcpy", "race_top:^get$", "race_top:read.c", "called_from_lib:libstore.so"] {
        assert!(any(rule), "{rule}");
    }
    for rule in ["race:^put", "race:main$x", "race_top:main", "race_top:store", "called_from_lib:libc.so", "mutex:*"] {
        assert!(!any(rule), "{rule}");
    }
    assert!(any("# a comment\n\n  race:^nothing$\n\trace_top:g*t \r\n"));
}

#[test]
fn a_line_that_is_no_rule_is_named() {
    let problem = |text: &str| Suppressions::parse(text, "f").map_err(|error| (error.line, error.problem));
    assert_eq!(problem("race:a\nraces:b"), Err((2, SuppressionProblem::UnknownKind { kind: "races".to_owned() })));
    assert_eq!(problem("\n\nmain"), Err((3, SuppressionProblem::NoKind)));
    assert_eq!(problem("race:"), Err((1, SuppressionProblem::Empty)));
    let message = Suppressions::parse("leak:x", "my.supp").expect_err("an error").to_string();
    insta::assert_snapshot!(message, @"my.supp:1: suppressions of kind leak are not known; known are race, race_top, called_from_lib, mutex, thread, signal, deadlock");
}

#[test]
fn what_is_suggested_hides_the_race_and_not_its_neighbour() {
    let libc = frame("memcpy", "", "/lib/libc.so.6");
    let own = frame("store::put(int)", "/src/store.cc", "/opt/program");
    let main = Frame { line: Some(7), ..frame("main", "/src/main.cc", "/opt/program") };
    let start = frame("start_thread", "", "/lib/libc.so.6");
    let bare = Frame { offset: 0x1196, ..frame("", "", "/opt/stripped.so") };
    let cases: [(Vec<Frame>, Option<&str>, &str); 7] = [
        (vec![own.clone(), main.clone()], None, "race_top:^store::put$"),
        (vec![libc.clone(), own.clone(), main.clone()], None, "race:^store::put$"),
        (vec![libc.clone(), own.clone(), main.clone()], Some("table"), "race:^table$"),
        (vec![bare.clone(), start.clone()], None, "race_top:^stripped.so+0x1196$"),
        (vec![libc.clone(), bare.clone(), start.clone()], None, "race:^stripped.so+0x1196$"),
        // All that the thread does is below it.
        (vec![libc.clone(), main.clone(), start.clone()], None, "race:^main.cc:7$"),
        (vec![main.clone(), start.clone()], Some("table"), "race_top:^main$"),
    ];
    let neighbour = Frame { offset: 0x1197, ..bare };
    let others = [
        vec![frame("store::put_all(int)", "/src/store.cc", "/opt/program"), start.clone()],
        vec![neighbour, start.clone()],
        vec![libc.clone(), Frame { line: Some(8), ..main }],
    ];
    for (stack, variable, expected) in cases {
        let found = suggestion([&stack, &[]], variable).expect("a rule");
        assert_eq!(found, expected);
        assert!(hides(&found, [&stack, &[]]), "{expected}");
        for other in others.iter().filter(|_| variable.is_none()) {
            assert!(!hides(&found, [other, &[]]), "{expected}");
        }
    }
    assert_eq!(suggestion([&[libc.clone(), start.clone()], &[]], None), None, "no function that everybody calls");
    assert_eq!(suggestion([&[], &[]], None), None);
}
