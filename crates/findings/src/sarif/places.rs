//! Frames as SARIF locations: files as URIs, modules with addresses.

use crate::names::Frame;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;

/// The name of the base that relative files are relative to.
const BASE: &str = "SRCROOT";

/// How files are named.
pub(super) struct Places {
    root: Option<String>,
}

impl Places {
    pub(super) fn new(root: Option<&Path>) -> Self {
        let root = root.map(|root| root.to_string_lossy().trim_end_matches('/').to_owned());
        Self { root: root.filter(|root| !root.is_empty()) }
    }

    /// What relative files are relative to.
    pub(super) fn bases(&self) -> Option<Value> {
        let root = self.root.as_ref()?;
        Some(json!({ BASE: { "uri": format!("{}/", uri(root)) } }))
    }

    pub(super) fn location(&self, frame: &Frame, message: Option<String>) -> Value {
        let mut location = json!({ "physicalLocation": self.physical(frame) });
        if let Some(function) = &frame.function {
            location["logicalLocations"] = json!([{ "fullyQualifiedName": function, "kind": "function" }]);
        }
        if let Some(message) = message {
            location["message"] = json!({ "text": message });
        }
        location
    }

    /// The place of code of which nothing but the address is known.
    pub(super) fn nowhere(address: u64) -> Value {
        json!({ "physicalLocation": { "address": { "absoluteAddress": address } } })
    }

    pub(super) fn stack(&self, frames: &[Frame], message: &str) -> Value {
        let frame = |frame: &Frame| {
            let mut found = json!({ "location": self.location(frame, None) });
            if let Some(module) = &frame.module {
                found["module"] = json!(module);
            }
            found
        };
        json!({ "message": { "text": message }, "frames": frames.iter().map(frame).collect::<Vec<_>>() })
    }

    fn physical(&self, frame: &Frame) -> Value {
        let Some(module) = &frame.module else { return json!({ "address": { "absoluteAddress": frame.offset } }) };
        let (Some(file), Some(line)) = (&frame.file, frame.line) else {
            let address = json!({ "relativeAddress": frame.offset, "kind": "instruction" });
            return json!({ "artifactLocation": { "uri": uri(module) }, "address": address });
        };
        let mut region = json!({ "startLine": line });
        if let Some(column) = frame.column {
            region["startColumn"] = json!(column);
        }
        json!({ "artifactLocation": self.artifact(file), "region": region })
    }

    fn artifact(&self, file: &str) -> Value {
        let below = self.root.as_ref().and_then(|root| file.strip_prefix(root.as_str())?.strip_prefix('/'));
        match below {
            Some(below) => json!({ "uri": escaped(below), "uriBaseId": BASE }),
            None => json!({ "uri": uri(file) }),
        }
    }
}

fn uri(path: &str) -> String {
    if path.starts_with('/') { format!("file://{}", escaped(path)) } else { escaped(path) }
}

/// A path with everything escaped that means something else in a URI.
fn escaped(path: &str) -> String {
    path.bytes().fold(String::new(), |mut text, byte| {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' | b'+' | b',' | b'@' => {
                text.push(char::from(byte));
            }
            _ => {
                let _ = write!(text, "%{byte:02X}");
            }
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::{Places, uri};
    use crate::made_up;
    use crate::names::Frame;
    use serde_json::json;
    use std::path::Path;

    #[test]
    fn paths_become_uris() {
        assert_eq!(uri("/a b/ü#1.c"), "file:///a%20b/%C3%BC%231.c");
        assert_eq!(uri("src/main.rs"), "src/main.rs");
        assert_eq!(uri("[vdso]"), "%5Bvdso%5D");
    }

    #[test]
    fn files_below_the_root_are_relative_to_it() {
        let places = Places::new(Some(Path::new("/src/")));
        let artifact = &places.location(&made_up::frame("f", 1, 2), None)["physicalLocation"]["artifactLocation"];
        assert_eq!(artifact, &json!({ "uri": "race.c", "uriBaseId": "SRCROOT" }));
        assert_eq!(places.bases(), Some(json!({ "SRCROOT": { "uri": "file:///src/" } })));
        let neighbour = Frame { file: Some("/src2/race.c".to_owned()), ..made_up::frame("f", 1, 2) };
        let artifact = &places.location(&neighbour, None)["physicalLocation"]["artifactLocation"];
        assert_eq!(artifact, &json!({ "uri": "file:///src2/race.c" }));
    }

    #[test]
    fn code_without_lines_is_placed_by_its_address() {
        let places = Places::new(None);
        let frame = Frame { module: Some("/lib/a.so".to_owned()), offset: 7, ..Frame::default() };
        let expected = json!({ "artifactLocation": { "uri": "file:///lib/a.so" },
            "address": { "relativeAddress": 7, "kind": "instruction" } });
        assert_eq!(places.location(&frame, None)["physicalLocation"], expected);
        let bare = Frame { offset: 9, ..Frame::default() };
        assert_eq!(places.location(&bare, None), Places::nowhere(9));
    }
}
