//! The tool's own lines: stderr, prefixed, one a message.
//!
//! Apart so that no command prints on its own and every error has the same form.

use anyhow::Error;
use std::fmt::Display;
use std::io::Write;

/// An error that wants another exit status than the tool's own failure.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ExitWith {
    /// The exit status.
    pub(crate) code: u8,
    /// What to say.
    pub(crate) message: String,
}

/// One `relive: …` line. A closed stderr is nobody's concern.
pub(crate) fn say(line: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "relive: {line}");
}

/// The error as one line: the chain of causes is joined, line breaks are flattened.
pub(crate) fn error(error: &Error) {
    say(flatten(&format!("{error:#}")));
}

/// The exit status that the error asks for, if it does.
pub(crate) fn exit_code(error: &Error) -> Option<u8> {
    error.downcast_ref::<ExitWith>().map(|e| e.code)
}

fn flatten(text: &str) -> String {
    text.split(['\n', '\r']).map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::flatten;

    #[test]
    fn a_message_is_one_line() {
        assert_eq!(flatten("cannot open x:\n  no such file\r\n"), "cannot open x:; no such file");
    }
}
