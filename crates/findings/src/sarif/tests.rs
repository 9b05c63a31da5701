//! The log against what SARIF 2.1.0 demands of each of its objects: which properties there
//! are, which must be there, and what refers to what.

use crate::made_up::{self, folded};
use crate::report::{Object, Report};
use insta::assert_snapshot;
use serde_json::Value;
use std::collections::BTreeSet;

/// A kind of SARIF object: its name, properties with the kind of what they hold (empty: nothing that has
/// properties of its own) and those that must be there. `*` is a property of any name.
struct Kind(&'static str, &'static [(&'static str, &'static str)], &'static [&'static str]);

const KINDS: &[Kind] = &[
    Kind("log", &[("$schema", ""), ("version", ""), ("runs", "run")], &["version", "runs"]),
    Kind(
        "run",
        &[
            ("tool", "tool"),
            ("invocations", "invocation"),
            ("columnKind", ""),
            ("results", "result"),
            ("originalUriBaseIds", "bases"),
        ],
        &["tool"],
    ),
    Kind("tool", &[("driver", "component")], &["driver"]),
    Kind("component", &[("name", ""), ("semanticVersion", ""), ("rules", "rule")], &["name"]),
    Kind(
        "rule",
        &[("id", ""), ("name", ""), ("shortDescription", "message"), ("defaultConfiguration", "configuration")],
        &["id"],
    ),
    Kind("configuration", &[("level", "")], &[]),
    Kind(
        "invocation",
        &[("executionSuccessful", ""), ("toolExecutionNotifications", "notification")],
        &["executionSuccessful"],
    ),
    Kind("notification", &[("level", ""), ("message", "message")], &["message"]),
    Kind("message", &[("text", "")], &["text"]),
    Kind(
        "result",
        &[
            ("ruleId", ""),
            ("ruleIndex", ""),
            ("level", ""),
            ("message", "message"),
            ("locations", "location"),
            ("relatedLocations", "location"),
            ("codeFlows", "codeFlow"),
            ("stacks", "stack"),
            ("partialFingerprints", "strings"),
            ("occurrenceCount", ""),
            ("suppressions", "suppression"),
            ("properties", "properties"),
        ],
        &["message"],
    ),
    Kind("codeFlow", &[("message", "message"), ("threadFlows", "threadFlow")], &["threadFlows"]),
    Kind("threadFlow", &[("id", ""), ("message", "message"), ("locations", "step")], &["locations"]),
    Kind("step", &[("location", "location"), ("nestingLevel", ""), ("executionOrder", ""), ("importance", "")], &[]),
    Kind("stack", &[("message", "message"), ("frames", "frame")], &["frames"]),
    Kind("frame", &[("location", "location"), ("module", "")], &[]),
    Kind("suppression", &[("kind", ""), ("justification", "")], &["kind"]),
    Kind(
        "location",
        &[("id", ""), ("physicalLocation", "physical"), ("logicalLocations", "logical"), ("message", "message")],
        &[],
    ),
    Kind("physical", &[("artifactLocation", "artifact"), ("address", "address"), ("region", "region")], &[]),
    Kind("artifact", &[("uri", ""), ("uriBaseId", "")], &[]),
    Kind("address", &[("absoluteAddress", ""), ("relativeAddress", ""), ("kind", "")], &[]),
    Kind("region", &[("startLine", ""), ("startColumn", "")], &[]),
    Kind("logical", &[("fullyQualifiedName", ""), ("kind", "")], &[]),
    Kind("bases", &[("*", "artifact")], &[]),
    Kind("strings", &[("*", "")], &[]),
    Kind("properties", &[("*", "")], &[]),
];

fn check(kind: &str, value: &Value, place: &str) {
    if let Value::Array(values) = value {
        return values.iter().enumerate().for_each(|(at, value)| check(kind, value, &format!("{place}[{at}]")));
    }
    let Kind(_, properties, required) = KINDS.iter().find(|known| known.0 == kind).expect(kind);
    let object = value.as_object().unwrap_or_else(|| panic!("{place} is no object"));
    for key in *required {
        assert!(object.contains_key(*key), "{place} lacks {key}");
    }
    for (key, value) in object {
        let known = properties.iter().find(|(name, _)| name == key || *name == "*");
        let (_, inner) = known.unwrap_or_else(|| panic!("{place}: SARIF has no {key}"));
        assert!(!value.is_null() || kind == "properties", "{place}.{key} is null");
        match *inner {
            "" => check_value(key, value, place),
            inner => check(inner, value, &format!("{place}.{key}")),
        }
    }
}

fn check_value(key: &str, value: &Value, place: &str) {
    let one_of = |allowed: &[&str]| allowed.contains(&value.as_str().unwrap_or("?"));
    let valid = match key {
        "version" => one_of(&["2.1.0"]),
        "level" => one_of(&["none", "note", "warning", "error"]),
        "importance" => one_of(&["important", "essential", "unimportant"]),
        "columnKind" => one_of(&["utf16CodeUnits", "unicodeCodePoints"]),
        "startLine" | "startColumn" | "occurrenceCount" => value.as_u64().is_some_and(|number| number >= 1),
        "uri" => value.as_str().is_some_and(|uri| !uri.is_empty() && uri.bytes().all(|byte| byte.is_ascii_graphic())),
        _ => true,
    };
    assert!(valid, "{place}.{key} can't be {value}");
}

fn log(report: &Report) -> Value {
    let log = serde_json::from_str(&report.sarif(None)).expect("JSON");
    check("log", &log, "$");
    log
}

#[test]
fn every_object_is_one_of_sarif() {
    let log = log(&made_up::report());
    let run = &log["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().expect("rules");
    for result in run["results"].as_array().expect("results") {
        let index = usize::try_from(result["ruleIndex"].as_u64().expect("an index")).expect("small");
        assert_eq!(rules[index]["id"], result["ruleId"]);
        let flows = result["codeFlows"][0]["threadFlows"].as_array().expect("flows");
        assert_eq!(flows.len(), 2);
        assert_ne!(flows[0]["id"], flows[1]["id"]);
        let orders: Vec<_> = flows.iter().map(|flow| flow["locations"].as_array().expect("steps").last()).collect();
        let orders: Vec<_> = orders.into_iter().map(|step| step.expect("a step")["executionOrder"].clone()).collect();
        assert_eq!(orders, [1, 2]);
        let ids: Vec<_> =
            result["relatedLocations"].as_array().expect("locations").iter().map(|it| &it["id"]).collect();
        assert_eq!(ids.iter().map(|id| id.as_u64()).collect::<BTreeSet<_>>().len(), ids.len());
        assert!(result["partialFingerprints"]["reliveRace/v2"].as_str().is_some_and(|text| text.len() == 16));
    }
    let levels: Vec<_> = run["results"].as_array().expect("results").iter().map(|it| it["level"].clone()).collect();
    assert_eq!(levels, ["error", "warning", "note", "error"]);
    let suppressed: Vec<usize> = run["results"]
        .as_array()
        .expect("results")
        .iter()
        .map(|it| it["suppressions"].as_array().expect("suppressions").len())
        .collect();
    assert_eq!(suppressed, [0, 0, 0, 1]);
}

#[test]
fn a_race_of_which_little_is_known_is_still_a_result() {
    let mut report = made_up::report();
    report.threads.clear();
    report.races.truncate(1);
    report.races[0].object = Object::Unknown;
    for access in &mut report.races[0].accesses {
        access.stack.clear();
        access.locks.clear();
    }
    let log = log(&report);
    assert_eq!(log["runs"][0]["results"][0]["locations"], Value::Array(Vec::new()));
    assert_eq!(log["runs"][0]["results"][0]["codeFlows"][0]["threadFlows"][1]["id"], "#2");
    self::log(&Report::default());
}

#[test]
fn a_race_as_sarif() {
    let mut report = made_up::report();
    report.races = report.races.split_off(3);
    let log = log(&report);
    let result = &log["runs"][0]["results"][0];
    assert_snapshot!(folded(&serde_json::to_string_pretty(result).expect("JSON")), @r##"
    {"codeFlows": [{"message": {"text": "both threads, unordered"},"threadFlows": [{"id": "0.1",
    "locations": [{"location": {"logicalLocations": [{"fullyQualifiedName": "main","kind": "function"}],
    "message": {"text": "the thread is created"},"physicalLocation": {"artifactLocation": {
    "uri": "file:///src/race.c"},"region": {"startColumn": 5,"startLine": 65}}},"nestingLevel": 0},{
    "location": {"logicalLocations": [{"fullyQualifiedName": "worker","kind": "function"}],"message": {
    "text": "in worker() race.c:31"},"physicalLocation": {"artifactLocation": {
    "uri": "file:///src/race.c"},"region": {"startColumn": 5,"startLine": 31}}},"nestingLevel": 1},{
    "location": {"logicalLocations": [{"fullyQualifiedName": "worker","kind": "function"}],"message": {
    "text": "lock_a is taken"},"physicalLocation": {"artifactLocation": {"uri": "file:///src/race.c"},
    "region": {"startColumn": 5,"startLine": 30}}},"nestingLevel": 2},{"executionOrder": 1,
    "importance": "essential","location": {"logicalLocations": [{"fullyQualifiedName": "add",
    "kind": "function"}],"message": {"text": "thread 0.1 \"worker\" writes"},"physicalLocation": {
    "artifactLocation": {"uri": "file:///src/race.c"},"region": {"startColumn": 5,"startLine": 7}}},
    "nestingLevel": 3}],"message": {"text": "thread 0.1 \"worker\" writes"}},{"id": "0.2","locations": [
    {"location": {"logicalLocations": [{"fullyQualifiedName": "main","kind": "function"}],"message": {
    "text": "the thread is created"},"physicalLocation": {"artifactLocation": {
    "uri": "file:///src/race.c"},"region": {"startColumn": 5,"startLine": 66}}},"nestingLevel": 0},{
    "executionOrder": 2,"importance": "essential","location": {"logicalLocations": [{
    "fullyQualifiedName": "reader","kind": "function"}],"message": {"text": "thread 0.2 reads"},
    "physicalLocation": {"artifactLocation": {"uri": "file:///src/race.c"},"region": {"startColumn": 5,
    "startLine": 40}}},"nestingLevel": 1}],"message": {"text": "thread 0.2 reads"}}]}],"level": "error",
    "locations": [{"logicalLocations": [{"fullyQualifiedName": "add","kind": "function"}],
    "physicalLocation": {"artifactLocation": {"uri": "file:///src/race.c"},"region": {"startColumn": 5,
    "startLine": 7}}}],"message": {
    "text": "data race: add() race.c:7 writes total, reader() race.c:40 reads it, unordered"},
    "occurrenceCount": 12,"partialFingerprints": {"reliveRace/v2": "cac9de5691894e6c"},"properties": {
    "address": "0x555555558010","certainty": "certain","number": 4,"reason": null,
    "suppression": "race_top:^add$"},"relatedLocations": [{"id": 1,"logicalLocations": [{
    "fullyQualifiedName": "reader","kind": "function"}],"message": {"text": "thread 0.2 reads"},
    "physicalLocation": {"artifactLocation": {"uri": "file:///src/race.c"},"region": {"startColumn": 5,
    "startLine": 40}}}],"ruleId": "data-race","ruleIndex": 0,"stacks": [{"frames": [{"location": {
    "logicalLocations": [{"fullyQualifiedName": "add","kind": "function"}],"physicalLocation": {
    "artifactLocation": {"uri": "file:///src/race.c"},"region": {"startColumn": 5,"startLine": 7}}},
    "module": "/opt/bin/race"},{"location": {"logicalLocations": [{"fullyQualifiedName": "worker",
    "kind": "function"}],"physicalLocation": {"artifactLocation": {"uri": "file:///src/race.c"},
    "region": {"startColumn": 5,"startLine": 31}}},"module": "/opt/bin/race"},{"location": {
    "logicalLocations": [{"fullyQualifiedName": "start_thread","kind": "function"}],
    "physicalLocation": {"address": {"kind": "instruction","relativeAddress": 561652},
    "artifactLocation": {"uri": "file:///lib/x86_64-linux-gnu/libc.so.6"}}},
    "module": "/lib/x86_64-linux-gnu/libc.so.6"}],"message": {"text": "thread 0.1 \"worker\" writes"}},{
    "frames": [{"location": {"logicalLocations": [{"fullyQualifiedName": "reader","kind": "function"}],
    "physicalLocation": {"artifactLocation": {"uri": "file:///src/race.c"},"region": {"startColumn": 5,
    "startLine": 40}}},"module": "/opt/bin/race"},{"location": {"logicalLocations": [{
    "fullyQualifiedName": "start_thread","kind": "function"}],"physicalLocation": {"address": {
    "kind": "instruction","relativeAddress": 561652},"artifactLocation": {
    "uri": "file:///lib/x86_64-linux-gnu/libc.so.6"}}},"module": "/lib/x86_64-linux-gnu/libc.so.6"}],
    "message": {"text": "thread 0.2 reads"}}],"suppressions": [{"justification": "race:reader",
    "kind": "external"}]}
    "##);
}
