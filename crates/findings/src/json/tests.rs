//! The JSON against its published schema, by a checker of the few words that the schema uses.

use crate::made_up::{self, folded};
use crate::names::Local;
use crate::raw::{NO_THREAD, RawDivergence, RawSegments, Setting};
use crate::report::{Object, Report};
use insta::assert_snapshot;
use serde_json::Value;
use std::collections::BTreeSet;

const SCHEMA: &str = include_str!("../../../../docs/races.schema.json");

/// A schema in one file, and what of it was used.
struct Schema {
    root: Value,
    used: BTreeSet<String>,
}

impl Schema {
    fn new() -> Self {
        Self { root: serde_json::from_str(SCHEMA).expect("the schema is JSON"), used: BTreeSet::new() }
    }

    /// Fails with the place at which `value` is not what `schema` says.
    fn check(&mut self, schema: &Value, value: &Value, place: &str) {
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            self.used.insert(reference.to_owned());
            let target = self.root.pointer(reference.trim_start_matches('#')).expect(reference).clone();
            return self.check(&target, value, place);
        }
        if let Some(options) = schema.get("anyOf").and_then(Value::as_array) {
            let is_null = |option: &&Value| option.get("type") == Some(&Value::from("null"));
            let option = options.iter().find(|option| is_null(option) == value.is_null());
            return self.check(option.expect("null or something else"), value, place);
        }
        check_type(schema, value, place);
        if let Some(allowed) = schema.get("enum").and_then(Value::as_array) {
            assert!(allowed.contains(value), "{place}: {value} is none of {allowed:?}");
        }
        if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
            && !value.is_null()
        {
            let text = value.as_str().expect(place);
            let hexadecimal = |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_hexdigit());
            let digits = match pattern {
                "^0x[0-9a-f]+$" => text.strip_prefix("0x").filter(|digits| digits.len() <= 16),
                "^([0-9a-f]{2})+$" => Some(text).filter(|digits| digits.len() % 2 == 0),
                other => panic!("{place}: this test does not know {other}"),
            };
            assert!(digits.is_some_and(hexadecimal), "{place}: {text}");
        }
        self.check_parts(schema, value, place);
    }

    fn check_parts(&mut self, schema: &Value, value: &Value, place: &str) {
        if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
            for bound in ["minItems", "maxItems"] {
                let bound = schema.get(bound).and_then(Value::as_u64);
                assert!(bound.is_none_or(|bound| bound == values.len() as u64), "{place}: {} items", values.len());
            }
            values.iter().enumerate().for_each(|(at, value)| self.check(items, value, &format!("{place}[{at}]")));
        }
        let Some(object) = value.as_object() else { return };
        let properties = schema["properties"].as_object().expect("properties");
        let required: BTreeSet<&str> =
            schema["required"].as_array().expect(place).iter().filter_map(Value::as_str).collect();
        let keys: BTreeSet<&str> = object.keys().map(String::as_str).collect();
        let described: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
        assert_eq!((&keys, &keys), (&described, &required), "{place}: described, required");
        assert_eq!(schema["additionalProperties"], Value::Bool(false), "{place}");
        for (key, value) in object {
            self.check(&properties[key], value, &format!("{place}.{key}"));
        }
    }
}

fn check_type(schema: &Value, value: &Value, place: &str) {
    let allowed = match &schema["type"] {
        Value::String(one) => vec![one.as_str()],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        other => panic!("{place}: type {other}"),
    };
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    assert!(allowed.contains(&found), "{place}: {found}, not {allowed:?}");
}

/// A report in which everything occurs that can.
fn everything() -> Report {
    let mut report = made_up::report();
    report.diverged = Some(RawDivergence { thread: 7, event: 3, what: "lock instead of unlock".to_owned() });
    let local = Local { name: "x".to_owned(), function: "main".to_owned(), start: 0x10, size: 4, ..Local::default() };
    report.races[0].object = Object::Stack { thread: 0, local: Some(local) };
    report.races[0].accesses[0].setting = Setting::Signal(10);
    report.races[2].object = Object::Unknown;
    report.segments = Some(RawSegments::default());
    report
}

#[test]
fn what_is_written_is_what_the_schema_says() {
    let mut schema = Schema::new();
    for report in [everything(), made_up::report(), Report::default()] {
        let value: Value = serde_json::from_str(&report.json()).expect("JSON");
        let root = schema.root.clone();
        schema.check(&root, &value, "$");
    }
    let described = schema.root["$defs"].as_object().expect("definitions").keys();
    let described: BTreeSet<String> = described.map(|name| format!("#/$defs/{name}")).collect();
    assert_eq!(schema.used, described, "every definition is used");
}

#[test]
fn a_race_as_json() {
    let mut report = made_up::report();
    report.races.truncate(1);
    assert_snapshot!(folded(&report.json()), @r##"
    {"races": [{"id": 1,"fingerprint": "cac9de5691894e6c","certainty": "certain","reason": null,
    "kind": "data-race",
    "summary": "data race: add() race.c:7 writes total, reader() race.c:40 reads it, unordered",
    "address": "0x555555558010","size": 4,"bytes": "0xf","bytes_in_all": 4,"object": {"kind": "global",
    "name": "total","start": "0x555555558010","size": 4,"offset": 0,"module": "/opt/bin/race",
    "function": null,"thread": null,"declared": {"file": "race.c","line": 4},"allocated": null,
    "freed": null},"count": 12,"accesses": [{"thread": "0.1","thread_number": 1,
    "thread_label": "worker","kind": "write","setting": "ordinary","signal": null,
    "address": "0x555555558010","size": 4,"value": "0x2a","value_text": null,"racing_bytes": null,
    "event": 12,"count_since_event": 3,"counter": "0x555555555107","stack": [{"function": "add",
    "file": "/src/race.c","line": 7,"column": 5,"module": "/opt/bin/race","offset": "0x1107",
    "inlined": true},{"function": "worker","file": "/src/race.c","line": 31,"column": 5,
    "module": "/opt/bin/race","offset": "0x111f","inlined": false},{"function": "start_thread",
    "file": null,"line": null,"column": null,"module": "/lib/x86_64-linux-gnu/libc.so.6",
    "offset": "0x891f4","inlined": false}],"locks": [{"address": "0x555555558080","name": "lock_a",
    "shared": false,"taken_at": [{"function": "pthread_mutex_lock","file": null,"line": null,
    "column": null,"module": "/lib/x86_64-linux-gnu/libc.so.6","offset": "0x891f4","inlined": false},{
    "function": "worker","file": "/src/race.c","line": 30,"column": 5,"module": "/opt/bin/race",
    "offset": "0x111e","inlined": false}]}],"before": {"event": 12,"operation": "lock",
    "object": "0x555555558080","name": "lock_a"},"after": {"event": 13,"operation": "unlock",
    "object": "0x555555558080","name": "lock_a"},"created_by": "0","created_at": [{
    "function": "pthread_create","file": null,"line": null,"column": null,
    "module": "/lib/x86_64-linux-gnu/libc.so.6","offset": "0x891f4","inlined": false},{
    "function": "main","file": "/src/race.c","line": 65,"column": 5,"module": "/opt/bin/race",
    "offset": "0x1141","inlined": false}]},{"thread": "0.2","thread_number": 2,"thread_label": null,
    "kind": "read","setting": "ordinary","signal": null,"address": "0x555555558010","size": 4,
    "value": "0x0","value_text": null,"racing_bytes": null,"event": 0,"count_since_event": 1,
    "counter": "0x555555555128","stack": [{"function": "reader","file": "/src/race.c","line": 40,
    "column": 5,"module": "/opt/bin/race","offset": "0x1128","inlined": false},{
    "function": "start_thread","file": null,"line": null,"column": null,
    "module": "/lib/x86_64-linux-gnu/libc.so.6","offset": "0x891f4","inlined": false}],"locks": [],
    "before": null,"after": {"event": 1,"operation": "semaphore post","object": "0x555555558080",
    "name": null},"created_by": "0","created_at": [{"function": "pthread_create","file": null,
    "line": null,"column": null,"module": "/lib/x86_64-linux-gnu/libc.so.6","offset": "0x891f4",
    "inlined": false},{"function": "main","file": "/src/race.c","line": 66,"column": 5,
    "module": "/opt/bin/race","offset": "0x1142","inlined": false}]}],"suppressed": null,
    "suppression": "race_top:^add$"}],"counts": {"certain": 1,"after_first": 0,"possible": 0,
    "atomic": 1,"suppressed": 0},"unobserved": [{
    "what": "instructions that can't be decoded in libodd.so","count": 2}],"diverged": null,
    "complete": true,"segments": null,"unplaced": {"bytes": 0,"certain": false},"advice": [
    "/opt/libodd.so has no debug information: install it"],"unused_suppressions": [
    "race:nothing (my.supp:3)"]}
    "##);
}

#[test]
fn a_divergence_that_words_alone_tell_has_no_thread_and_is_no_complete_report() {
    let diverged = Some(RawDivergence { thread: NO_THREAD, event: 0, what: "thread 0.1 spins".to_owned() });
    let json = Report { diverged, complete: true, ..Report::default() }.json();
    let value: Value = serde_json::from_str(&json).expect("JSON");
    let mut schema = Schema::new();
    let root = schema.root.clone();
    schema.check(&root, &value, "$");
    assert_eq!((&value["complete"], &value["diverged"]["thread"]), (&Value::from(false), &Value::Null), "{json}");
}
