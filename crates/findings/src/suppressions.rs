//! Suppressions in the syntax of `ThreadSanitizer`: which races somebody knows of and does
//! not want to hear of.
//!
//! One rule a line, `kind:pattern`; `#` begins a comment line. In a pattern `*` stands for
//! anything, `^` at its start and `$` at its end hold it to the start and the end; otherwise
//! it may match anywhere within a name. A pattern is held against the function (with and
//! without its parameters), the file and the module of a frame, and against its place as reports tell it
//! (`file.c:31`, or `module+0x1234` where no line is known), which `ThreadSanitizer` does not:
//!
//! - `race`: of any frame of either access; or against the name of the data, with and without the part;
//! - `race_top`: of the innermost frame of either access;
//! - `called_from_lib`: against the module of the innermost frame outside of the C library.
//!
//! Where threads were created is not looked at: `main` would match nearly always. `mutex`,
//! `thread`, `signal` and `deadlock` are allowed, because files are shared with
//! `ThreadSanitizer`, and say nothing about races.

use crate::names::Frame;
use crate::places;
use std::fmt;

/// Rules, in the order of their files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suppressions {
    rules: Vec<Rule>,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What it is held against.
    pub kind: RuleKind,
    /// The pattern as it was written.
    pub pattern: String,
    /// The file that it stands in.
    pub file: String,
    /// The line, from 1 on.
    pub line: usize,
}

/// What a rule is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleKind {
    /// Any frame, and the data.
    Race,
    /// The innermost frame.
    RaceTop,
    /// The library that called.
    CalledFromLib,
    /// Something that is not about races.
    Other(&'static str),
}

const KINDS: [RuleKind; 7] = [
    RuleKind::Race,
    RuleKind::RaceTop,
    RuleKind::CalledFromLib,
    RuleKind::Other("mutex"),
    RuleKind::Other("thread"),
    RuleKind::Other("signal"),
    RuleKind::Other("deadlock"),
];

impl RuleKind {
    /// As it is written before the colon.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Race => "race",
            Self::RaceTop => "race_top",
            Self::CalledFromLib => "called_from_lib",
            Self::Other(name) => name,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.name(), self.pattern)
    }
}

/// A line that is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {problem}")]
pub struct SuppressionError {
    /// The file.
    pub file: String,
    /// The line, from 1 on.
    pub line: usize,
    /// What is wrong.
    pub problem: SuppressionProblem,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SuppressionProblem {
    /// There is no colon.
    #[error("not a suppression: write KIND:PATTERN, for instance race:function")]
    NoKind,
    /// Nobody knows this kind.
    #[error("suppressions of kind {kind} are not known; known are {}", KINDS.map(RuleKind::name).join(", "))]
    UnknownKind {
        /// What stands before the colon.
        kind: String,
    },
    /// It would match everything.
    #[error("an empty pattern; write * if everything is meant")]
    Empty,
}

/// The one race that rules are held against.
pub struct Subject<'a> {
    /// The frames of both accesses.
    pub stacks: [&'a [Frame]; 2],
    /// Names of the data, as far as it has some.
    pub data: [Option<&'a str>; 2],
}

impl Suppressions {
    /// The rules in `text`, which stands in `file`.
    ///
    /// # Errors
    /// For the first line that is no rule.
    pub fn parse(text: &str, file: &str) -> Result<Self, SuppressionError> {
        let mut rules = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let (line, number) = (line.trim(), index + 1);
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |problem| SuppressionError { file: file.to_owned(), line: number, problem };
            let (kind, pattern) = line.split_once(':').ok_or_else(|| wrong(SuppressionProblem::NoKind))?;
            let known = KINDS.into_iter().find(|known| known.name() == kind);
            let kind = known.ok_or_else(|| wrong(SuppressionProblem::UnknownKind { kind: kind.to_owned() }))?;
            if pattern.is_empty() {
                return Err(wrong(SuppressionProblem::Empty));
            }
            rules.push(Rule { kind, pattern: pattern.to_owned(), file: file.to_owned(), line: number });
        }
        Ok(Self { rules })
    }

    /// Adds the rules of another file behind these.
    pub fn extend(&mut self, other: Self) {
        self.rules.extend(other.rules);
    }

    /// All rules.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The first rule that hides a race, by its index in [`Suppressions::rules`].
    pub fn matching(&self, subject: &Subject<'_>) -> Option<usize> {
        self.rules.iter().position(|rule| rule.hides(subject))
    }
}

impl Rule {
    fn hides(&self, subject: &Subject<'_>) -> bool {
        let is = |text: &str| matches(&self.pattern, text);
        let frame = |frame: &Frame| {
            let function = frame.function.as_deref();
            function.is_some_and(|name| is(name) || is(&places::plain(name)))
                || frame.file.as_deref().is_some_and(is)
                || frame.module.as_deref().is_some_and(is)
                || is(&places::short_place(frame))
        };
        let mut stacks = subject.stacks.iter();
        match self.kind {
            RuleKind::Race => stacks.any(|stack| stack.iter().any(frame)) || subject.data.into_iter().flatten().any(is),
            RuleKind::RaceTop => stacks.any(|stack| stack.first().is_some_and(frame)),
            RuleKind::CalledFromLib => stacks.any(|stack| {
                let caller = stack.iter().find(|frame| !places::is_system_module(frame));
                caller.and_then(|frame| frame.module.as_deref()).is_some_and(is)
            }),
            RuleKind::Other(_) => false,
        }
    }
}

/// A rule that hides races of these two accesses, on this variable, and as little else as possible; none if both were made
/// within system libraries, whose functions everybody calls.
pub fn suggestion(stacks: [&[Frame]; 2], variable: Option<&str>) -> Option<String> {
    let sides = stacks.map(Side::of);
    let sides = || sides.iter().flatten();
    let rule = |kind: RuleKind, what: &str| format!("{}:^{what}$", kind.name());
    // An access of a function itself hides no more than this function's; a call from it, everything below it.
    let itself = |side: &&Side<'_>| side.kind == RuleKind::RaceTop;
    let named = |side: &Side<'_>| Some(rule(side.kind, &places::plain(side.frame.function.as_deref()?)));
    let placed = |side: &Side<'_>| rule(side.kind, &places::short_place(side.frame));
    let top = sides().filter(itself).find_map(named);
    let top = top.or_else(|| sides().find(itself).map(placed));
    let top = top.or_else(|| variable.map(|name| rule(RuleKind::Race, name)));
    // Everything that a thread does stands below the function with which it begins.
    let called = || sides().filter(|side| !side.outermost).find_map(named);
    top.or_else(called).or_else(|| sides().next().map(placed))
}

/// What of one access says whose it is.
struct Side<'a> {
    /// The innermost frame of the program's authors.
    frame: &'a Frame,
    kind: RuleKind,
    /// No other frame of theirs is further out.
    outermost: bool,
}

impl<'a> Side<'a> {
    fn of(stack: &'a [Frame]) -> Option<Self> {
        let mut own = stack.iter().enumerate().filter(|(_, frame)| !places::is_system(frame));
        let (index, frame) = own.next()?;
        let kind = if index == 0 { RuleKind::RaceTop } else { RuleKind::Race };
        Some(Self { frame, kind, outermost: own.next().is_none() })
    }
}

/// Whether `text` fits `pattern`.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let (at_start, pattern) = pattern.strip_prefix('^').map_or((false, pattern), |rest| (true, rest));
    let (at_end, pattern) = pattern.strip_suffix('$').map_or((false, pattern), |rest| (true, rest));
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(last) = parts.next_back() else {
        return match (at_start, at_end) {
            (true, true) => text == first,
            (true, false) => text.starts_with(first),
            (false, true) => text.ends_with(first),
            (false, false) => text.contains(first),
        };
    };
    let start = if at_start { text.starts_with(first).then_some(first.len()) } else { behind(text, first) };
    let Some(mut rest) = start.map(|start| &text[start..]) else { return false };
    for part in parts {
        let Some(end) = behind(rest, part) else { return false };
        rest = &rest[end..];
    }
    if at_end { rest.ends_with(last) } else { rest.contains(last) }
}

/// Where the first occurrence of `part` ends.
fn behind(text: &str, part: &str) -> Option<usize> {
    text.find(part).map(|at| at + part.len())
}

#[cfg(test)]
mod tests;
