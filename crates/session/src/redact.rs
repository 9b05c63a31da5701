//! What of the environment is not to stand in a trace.
//!
//! Apart from the recording because a placeholder must keep a value's length: the
//! environment stands on the stack, and a replay's addresses are the recorded
//! ones only if it is as long.

use relive_trace::pattern;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// A pattern as shells have it for names, see [`relive_trace::pattern`].
#[derive(Clone, Debug)]
pub struct Pattern(OsString);

/// What is no pattern.
#[derive(Debug, thiserror::Error)]
#[error("a set of letters has no end: write ] behind it, or [[] for a bracket")]
pub struct NoPattern;

impl Pattern {
    /// The pattern that `text` writes.
    ///
    /// # Errors
    /// [`NoPattern`]
    pub fn new(text: OsString) -> Result<Self, NoPattern> {
        if pattern::is_whole(text.as_bytes()) { Ok(Self(text)) } else { Err(NoPattern) }
    }

    /// As it was written.
    pub(crate) fn text(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Whether it means this name.
    pub fn matches(&self, name: &OsStr) -> bool {
        pattern::matches(self.text(), name.as_bytes())
    }
}

/// The value that a trace holds for a variable.
pub fn redacted(patterns: &[Pattern], name: &OsStr, value: OsString) -> OsString {
    if patterns.iter().any(|pattern| pattern.matches(name)) {
        OsString::from_vec(vec![pattern::PLACEHOLDER; value.len()])
    } else {
        value
    }
}

#[cfg(test)]
mod tests {
    use super::{Pattern, redacted};
    use std::ffi::OsStr;

    #[test]
    fn a_placeholder_is_as_long_as_the_value() {
        let patterns = ["*SECRET*", "PIN"].map(|text| Pattern::new(text.into()).expect("a pattern"));
        let shown = |name: &str, value: &str| redacted(&patterns, OsStr::new(name), value.into());
        assert_eq!(shown("MY_SECRET", "hunter2"), "xxxxxxx");
        assert_eq!(shown("PIN", ""), "");
        assert_eq!(shown("PINS", "1234"), "1234");
    }
}
