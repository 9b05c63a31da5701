//! A report as SARIF 2.1.0, for tools that show findings beside the source.
//!
//! A race is a result at its first access with the second as related location, and one code
//! flow of two thread flows: each from the thread's creation down its stack to the access.
//! Certain races are errors, later ones warnings, possible ones notes; suppressed ones are
//! there and marked. What has no source line is placed by module and address.

mod places;

use crate::json;
use crate::places::{describe, own};
use crate::raw::{AccessKind, Certainty, RaceKind};
use crate::report::{Access, Object, Race, Report};
use crate::text::headline;
use places::Places;
use serde_json::{Value, json};
use std::path::Path;

/// Every kind of race is a rule.
const RULES: [RaceKind; 3] = [RaceKind::Data, RaceKind::Free, RaceKind::UseAfterFree];

impl Report {
    /// The report as a SARIF log with one run. Files below `source_root` are named relative to it, as tools
    /// that look at repositories want.
    ///
    /// # Panics
    /// Never: strings and numbers can always be written.
    pub fn sarif(&self, source_root: Option<&Path>) -> String {
        let places = Places::new(source_root);
        let mut run = json!({
            "tool": { "driver": {
                "name": "relive",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": RULES.map(rule),
            }},
            "invocations": [self.invocation()],
            "columnKind": "unicodeCodePoints",
            "results": self.races.iter().map(|race| self.result(race, &places)).collect::<Vec<_>>(),
        });
        if let Some(bases) = places.bases() {
            run["originalUriBaseIds"] = bases;
        }
        let log = json!({
            "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
            "version": "2.1.0",
            "runs": [run],
        });
        serde_json::to_string_pretty(&log).expect("strings and numbers")
    }

    /// How the replay went, and what it could not see.
    fn invocation(&self) -> Value {
        let notification = |level: &str, text: String| json!({ "level": level, "message": { "text": text } });
        let unobserved = self.unobserved.iter();
        let mut notifications: Vec<Value> = unobserved
            .map(|one| notification("warning", format!("not observed: {} ({} times)", one.what, one.count)))
            .collect();
        notifications.extend(self.advice.iter().map(|line| notification("note", line.clone())));
        if let Some(diverged) = &self.diverged {
            notifications.push(notification("error", format!("the replay left its recording: {}", diverged.what)));
        }
        json!({
            "executionSuccessful": self.complete && self.diverged.is_none(),
            "toolExecutionNotifications": notifications,
        })
    }

    fn result(&self, race: &Race, places: &Places) -> Value {
        let [first, second] = &race.accesses;
        let main = own(&first.stack).map(|frame| places.location(frame, None));
        let flows: Vec<Value> =
            race.accesses.iter().enumerate().map(|(at, access)| self.flow(access, at, places)).collect();
        let suppressions = race.suppressed.iter();
        let suppressions = suppressions.map(|rule| json!({ "kind": "external", "justification": rule }));
        json!({
            "ruleId": json::race_kind(race.kind),
            "ruleIndex": RULES.iter().position(|&kind| kind == race.kind),
            "level": level(race.certainty),
            "message": { "text": headline(race) },
            "locations": main.into_iter().collect::<Vec<_>>(),
            "relatedLocations": numbered(self.related(race, second, places)),
            "codeFlows": [{
                "message": { "text": "both threads, unordered" },
                "threadFlows": flows,
            }],
            "stacks": [places.stack(&first.stack, &self.who(first)), places.stack(&second.stack, &self.who(second))],
            "partialFingerprints": { "reliveRace/v2": race.fingerprint },
            "occurrenceCount": race.count.max(1),
            "suppressions": suppressions.collect::<Vec<_>>(),
            "properties": {
                "number": race.number,
                "certainty": json::certainty(race.certainty),
                "reason": race.doubt,
                "address": format!("{:#x}", race.address),
                "suppression": race.suppression,
            },
        })
    }

    /// The other access, and where the block came from and went to.
    fn related(&self, race: &Race, second: &Access, places: &Places) -> Vec<Value> {
        let mut related = Vec::new();
        related.extend(own(&second.stack).map(|frame| places.location(frame, Some(self.who(second)))));
        if let Object::Heap(block) = &race.object {
            let allocated = own(&block.allocated.stack).map(|frame| (frame, "the block is allocated"));
            let freed = block.freed.as_ref().and_then(|freed| own(&freed.stack)).map(|frame| (frame, "it is freed"));
            let origins = allocated.into_iter().chain(freed);
            related.extend(origins.map(|(frame, what)| places.location(frame, Some(what.to_owned()))));
        }
        related
    }

    /// A thread's way to its access: creation, calls from the outermost one, locks, the access.
    fn flow(&self, access: &Access, order: usize, places: &Places) -> Value {
        let step = |location: Value, level: usize| json!({ "location": location, "nestingLevel": level });
        let mut steps = Vec::new();
        let created = self.thread(access.thread).and_then(|thread| own(&thread.created));
        steps.extend(created.map(|frame| step(places.location(frame, Some("the thread is created".to_owned())), 0)));
        let calls = access.stack.iter().skip(1).rev().filter(|frame| frame.file.is_some());
        for (level, frame) in calls.enumerate() {
            steps.push(step(places.location(frame, Some(format!("in {}", describe(frame)))), level + 1));
        }
        for lock in &access.locks {
            let name = lock.name.clone().unwrap_or_else(|| format!("{:#x}", lock.address));
            let taken = own(&lock.taken).map(|frame| places.location(frame, Some(format!("{name} is taken"))));
            steps.extend(taken.map(|location| step(location, steps.len())));
        }
        let access_at = access.stack.first().map(|frame| places.location(frame, Some(self.who(access))));
        let mut last = step(access_at.unwrap_or_else(|| Places::nowhere(access.counter)), steps.len());
        last["executionOrder"] = json!(order + 1);
        last["importance"] = json!("essential");
        steps.push(last);
        let thread = self.thread(access.thread).map_or_else(|| format!("#{}", access.thread), |it| it.name.clone());
        json!({ "id": thread, "message": { "text": self.who(access) }, "locations": steps })
    }

    fn who(&self, access: &Access) -> String {
        let name = self.thread(access.thread).map_or_else(|| format!("#{}", access.thread), |it| it.name.clone());
        let does = match access.kind {
            AccessKind::Read => "reads",
            AccessKind::Write => "writes",
            AccessKind::AtomicRead => "reads atomically",
            AccessKind::AtomicWrite => "writes atomically",
            AccessKind::Free => "frees",
        };
        let label = self.thread(access.thread).map(|it| it.label.as_str()).filter(|label| !label.is_empty());
        let label = label.map(|label| format!(" \"{label}\"")).unwrap_or_default();
        format!("thread {name}{label} {does}")
    }
}

/// Related locations are referred to by number.
fn numbered(mut locations: Vec<Value>) -> Vec<Value> {
    for (index, location) in locations.iter_mut().enumerate() {
        location["id"] = json!(index + 1);
    }
    locations
}

fn rule(kind: RaceKind) -> Value {
    let (name, short) = match kind {
        RaceKind::Data => ("DataRace", "Two threads access the same bytes, one writes, and nothing orders them."),
        RaceKind::Free => ("RaceWithFree", "A block is freed while nothing orders that after another thread's use."),
        RaceKind::UseAfterFree => ("UseAfterFree", "A block is used after it was freed."),
    };
    json!({
        "id": json::race_kind(kind),
        "name": name,
        "shortDescription": { "text": short },
        "defaultConfiguration": { "level": "error" },
    })
}

const fn level(certainty: Certainty) -> &'static str {
    match certainty {
        Certainty::Certain => "error",
        Certainty::AfterFirst => "warning",
        Certainty::PossibleAtomic => "note",
    }
}

#[cfg(test)]
mod tests;
