//! Lines of a limited width, with or without colour.

use super::Style;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;

/// How a piece of text stands out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paint {
    Plain,
    Bold,
    /// The line that names a race.
    Headline,
    /// A line of the source.
    Source,
    /// What few people read.
    Dim,
}

impl Paint {
    const fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Bold => "\x1b[1m",
            Self::Headline => "\x1b[1;31m",
            Self::Source => "\x1b[36m",
            Self::Dim => "\x1b[2m",
        }
    }
}

/// A text that is being written, and the source files that it quotes.
pub(super) struct Page<'a> {
    out: &'a mut dyn fmt::Write,
    style: Style,
    sources: BTreeMap<String, Option<Vec<String>>>,
}

impl<'a> Page<'a> {
    pub(super) fn new(out: &'a mut dyn fmt::Write, style: Style) -> Self {
        Self { out, style, sources: BTreeMap::new() }
    }

    pub(super) const fn width(&self) -> usize {
        self.style.width
    }

    pub(super) fn blank(&mut self) -> fmt::Result {
        self.out.write_char('\n')
    }

    /// One line as it is, cut at the width.
    pub(super) fn line(&mut self, indent: usize, paint: Paint, text: &str) -> fmt::Result {
        let text = cut(text, self.style.width.saturating_sub(indent).max(20));
        self.put(indent, paint, &text)
    }

    /// Text broken between words; lines after the first stand at `hang`.
    pub(super) fn hanging(&mut self, indent: usize, hang: usize, paint: Paint, text: &str) -> fmt::Result {
        // Blanks at the start align numbers: they stay whatever follows.
        let words = text.trim_start_matches(' ');
        let (mut at, mut line) = (indent + text.len() - words.len(), String::new());
        for word in words.split(' ') {
            let longer = at + line.chars().count() + 1 + word.chars().count() > self.style.width;
            if longer && !line.is_empty() {
                self.put(at, paint, &line)?;
                (at, line) = (hang, word.to_owned());
            } else {
                if !line.is_empty() {
                    line.push(' ');
                }
                line.push_str(word);
            }
        }
        self.put(at, paint, &line)
    }

    fn put(&mut self, indent: usize, paint: Paint, text: &str) -> fmt::Result {
        let text = clean(text);
        let text = text.trim_end();
        if self.style.colour && !paint.code().is_empty() {
            writeln!(self.out, "{:indent$}{}{text}\x1b[0m", "", paint.code())
        } else {
            writeln!(self.out, "{:indent$}{text}", "")
        }
    }

    /// The text of a source line, if it is wanted and can be read.
    pub(super) fn source(&mut self, file: &str, line: u32) -> Option<String> {
        if !self.style.sources {
            return None;
        }
        let read = || Some(fs::read_to_string(file).ok()?.lines().map(str::to_owned).collect());
        let lines = self.sources.entry(file.to_owned()).or_insert_with(read).as_ref()?;
        let text = lines.get(usize::try_from(line).ok()?.checked_sub(1)?)?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    }
}

/// What a file or a name holds must not steer the terminal.
fn clean(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// At most `width` characters, the last of which says that something is missing.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// At most `width` characters, the first of which says that something is missing.
pub(super) fn cut_front(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    ['…'].into_iter().chain(text.chars().skip(count + 1 - width.max(1))).collect()
}

#[cfg(test)]
mod tests {
    use super::{Page, Paint, cut, cut_front};
    use crate::text::Style;

    fn written(width: usize, write: impl FnOnce(&mut Page<'_>)) -> String {
        let mut text = String::new();
        write(&mut Page::new(&mut text, Style { width, ..Style::default() }));
        text
    }

    #[test]
    fn lines_are_broken_between_words_and_cut_where_they_have_none() {
        let text = written(12, |page| page.hanging(0, 4, Paint::Plain, "one two three four").expect("a string"));
        assert_eq!(text, "one two\n    three\n    four\n");
        let text = written(12, |page| page.hanging(2, 4, Paint::Plain, " 1 abcdefghijklmnop").expect("a string"));
        assert_eq!(text, "   1\n    abcdefghijklmnop\n");
        assert_eq!((cut("abcdef", 4).as_str(), cut_front("abcdef", 4).as_str()), ("abc…", "…def"));
        assert_eq!((cut("abcd", 4).as_str(), cut_front("abcd", 4).as_str()), ("abcd", "abcd"));
    }

    #[test]
    fn what_is_quoted_can_not_steer_the_terminal() {
        let text = written(80, |page| page.line(0, Paint::Plain, "a\x1b[2Jb\tc").expect("a string"));
        assert_eq!(text, "a [2Jb c\n");
    }
}
