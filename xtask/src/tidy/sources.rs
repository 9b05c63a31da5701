//! How a Rust file must look: its opening, its length, its name, its unsafe.
//!
//! Apart from `functions` because these rules read lines, not syntax.

use super::{Finding, Findings};

/// A file longer than this does too much.
const LINES_MAX: usize = 500;
/// A file longer than this is worth a second look.
const LINES_NOTE: usize = 300;
/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &["util", "utils", "common", "helper", "helpers", "misc", "core"];
/// How many lines above an unsafe block its reason may stand.
const REASON_LINES_MAX: usize = 8;

/// What may not stand in a file, in pieces so that this file may.
const FORBIDDEN: &[(&str, &str, &str)] = &[
    ("#[ig", "nore", "a test that does not run proves nothing: make it run or take it out"),
    ("to", "do!(", "unfinished work is not committed"),
    ("unimple", "mented!(", "unfinished work is not committed"),
    ("FIX", "ME", "unfinished work is not committed"),
    ("d", "bg!(", "left over from debugging"),
];

/// Crate roots that must forbid unsafe code (DESIGN, section 3).
const FORBID_UNSAFE: &[&str] = &[
    "crates/order/src/lib.rs",
    "crates/trace/src/lib.rs",
    "crates/symbols/src/lib.rs",
    "crates/calls/src/lib.rs",
    "crates/cli/src/main.rs",
    "xtask/src/main.rs",
];
/// The launcher's few system calls without a safe crate stand in one file that may say so.
const DENY_UNSAFE: &[&str] = &["crates/session/src/lib.rs"];

/// Checks the file `name` (from the root) with content `text`.
pub(super) fn check(name: &str, text: &str, findings: &mut Findings) {
    let mut error = |place: String, what: &str| findings.errors.push(Finding::new(place, what));
    if !text.starts_with("//!") && !opens_with_attributes_then_docs(text) {
        error(name.to_owned(), "opens with `//!`: what lives here and why apart");
    }
    for part in name.split(['/', '.']) {
        if EMPTY_NAMES.contains(&part) {
            error(name.to_owned(), "a name that says nothing about what is inside");
        }
    }
    if name.ends_with("/mod.rs") {
        error(name.to_owned(), "is called mod.rs: put `name.rs` beside the folder `name`");
    }
    if FORBID_UNSAFE.contains(&name) && !text.contains("#![forbid(unsafe_code)]") {
        error(name.to_owned(), "lacks #![forbid(unsafe_code)]");
    }
    if DENY_UNSAFE.contains(&name)
        && !["forbid", "deny"].iter().any(|l| text.contains(&format!("#![{l}(unsafe_code)]")))
    {
        error(name.to_owned(), "lacks #![forbid(unsafe_code)] or #![deny(unsafe_code)]");
    }
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let place = || format!("{name}:{}", index + 1);
        for (head, tail, why) in FORBIDDEN {
            if line.contains(&format!("{head}{tail}")) {
                error(place(), why);
            }
        }
        if opens_unsafe(line) && !has_reason(&lines, index) {
            error(place(), "unsafe without a SAFETY comment that a reviewer could refute");
        }
    }
    for index in doctests(&lines) {
        error(
            format!("{name}:{}", index + 1),
            "code in documentation that nothing runs: make it a test, or say `text`",
        );
    }
    if lines.len() > LINES_MAX {
        error(name.to_owned(), &format!("{} lines, at most {LINES_MAX}: split it by what it does", lines.len()));
    } else if lines.len() > LINES_NOTE {
        findings.warnings.push(Finding::new(name, format!("{} lines", lines.len())));
    }
}

/// Lines that open a block in documentation which rustdoc would run.
fn doctests<'t>(lines: &'t [&'t str]) -> impl Iterator<Item = usize> + 't {
    let mut inside = false;
    lines.iter().enumerate().filter_map(move |(index, line)| {
        let documentation = ["///", "//!"].iter().find_map(|comment| line.trim_start().strip_prefix(comment))?;
        let words = documentation.trim_start().strip_prefix("```")?;
        inside = !inside;
        (inside && matches!(words.trim(), "" | "rust")).then_some(index)
    })
}

/// Fuzz targets and crate roots may begin with inner attributes.
fn opens_with_attributes_then_docs(text: &str) -> bool {
    text.lines().find(|l| !l.starts_with("#!") && !l.trim().is_empty()).is_some_and(|l| l.starts_with("//!"))
}

/// Whether code in `line` (not a comment or a string) opens an unsafe block or implementation.
fn opens_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    code.match_indices("unsafe ").any(|(at, word)| {
        let is_code = code[..at].matches('"').count().is_multiple_of(2);
        is_code && ["{", "impl"].iter().any(|what| code[at + word.len()..].starts_with(what))
    })
}

fn has_reason(lines: &[&str], index: usize) -> bool {
    let first = index.saturating_sub(REASON_LINES_MAX);
    lines[first..=index].iter().any(|l| l.contains("SAFETY:"))
}

#[cfg(test)]
mod tests {
    use super::{FORBIDDEN, Findings, check};

    fn errors(name: &str, text: &str) -> Vec<String> {
        let mut findings = Findings::default();
        check(name, text, &mut findings);
        findings.errors.into_iter().map(|f| format!("{} {}", f.place, f.what)).collect()
    }

    #[test]
    fn a_plain_file_passes() {
        assert_eq!(errors("a/b.rs", "//! Documented.\nfn f() {}\n"), [""; 0]);
    }

    #[test]
    fn each_rule_can_fail() {
        assert_eq!(errors("a/b.rs", "fn f() {}\n").len(), 1);
        assert_eq!(errors("a/mod.rs", "//! x\n").len(), 1);
        assert_eq!(errors("crates/core/lib.rs", "//! x\n").len(), 1);
        assert_eq!(errors("crates/order/src/lib.rs", "//! x\n").len(), 1);
        assert_eq!(errors("crates/session/src/lib.rs", "//! x\n").len(), 1);
        assert_eq!(errors("a/b.rs", &format!("//! x\n{}", "\n".repeat(600))).len(), 1);
        for (head, tail, _) in FORBIDDEN {
            assert_eq!(errors("a/b.rs", &format!("//! x\n{head}{tail}\n")).len(), 1, "{head}{tail}");
        }
    }

    #[test]
    fn documentation_has_no_tests() {
        let with = |words: &str| errors("a/b.rs", &format!("//! x\n/// ```{words}\n/// f();\n/// ```\nfn f() {{}}\n"));
        assert_eq!([with("").len(), with("rust").len(), with("text").len()], [1, 1, 0]);
    }

    #[test]
    fn unsafe_needs_a_reason_close_above() {
        let block = format!("{} {{ f() }}\n", "unsafe");
        assert_eq!(errors("a/b.rs", &format!("//! x\n{block}")).len(), 1);
        assert_eq!(errors("a/b.rs", &format!("//! x\n// SAFETY: f is.\n{block}")).len(), 0);
        assert_eq!(errors("a/b.rs", &format!("//! x\n// SAFETY: f is.\n{}{block}", "\n".repeat(9))).len(), 1);
    }
}
