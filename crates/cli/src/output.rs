//! What the reading commands print on stdout: tables, JSON, colours.
//!
//! Apart from `message.rs`, which is stderr: this is the result that scripts
//! read. A reader that goes away (`relive dump | head`) is no error.

use anstream::AutoStream;
use anstyle::{AnsiColor, Style};
use anyhow::Result;
use serde::Serialize;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{self, BufWriter, ErrorKind, Write};

/// Good news.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// To be noticed.
pub(crate) const CARE: Style = AnsiColor::Yellow.on_default();
/// Bad news.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// Headings.
pub(crate) const HEAD: Style = Style::new().bold();

/// Runs `print` on stdout. Colours are left out where stdout is no terminal or `NO_COLOR` is set.
pub(crate) fn print(print: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut out = BufWriter::new(AutoStream::auto(io::stdout().lock()));
    match print(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(anyhow::anyhow!("write to stdout: {error}; check where it leads")),
        Ok(()) => Ok(()),
    }
}

/// Prints one JSON value.
pub(crate) fn json(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value)?;
    print(|out| writeln!(out, "{text}"))
}

/// How a column is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Prints rows in columns as wide as needed; nothing stands behind the last cell of a row.
pub(crate) fn columns<const N: usize>(
    out: &mut dyn Write,
    head: [(&str, Align); N],
    rows: &[[String; N]],
) -> io::Result<()> {
    let mut widths = head.map(|(name, _)| name.len());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: [&str; N]| {
        let mut line = String::new();
        for ((cell, &width), (_, align)) in cells.iter().zip(&widths).zip(&head) {
            let _ = match align {
                Align::Left => write!(line, "{cell:<width$}  "),
                Align::Right => write!(line, "{cell:>width$}  "),
            };
        }
        line.trim_end().to_owned()
    };
    writeln!(out, "{HEAD}{}{HEAD:#}", line(head.map(|(name, _)| name)))?;
    for row in rows {
        writeln!(out, "{}", line(row.each_ref().map(String::as_str)))?;
    }
    Ok(())
}

/// A number of bytes for people: exact below 100 KiB.
#[expect(clippy::cast_precision_loss, reason = "a size is shown with one digit behind the point")]
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if count < 100 << 10 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// `1 thread`, `2 threads`.
pub(crate) fn counted(count: u64, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

/// A command as one line that a shell would read back; what a terminal would act on is escaped.
pub(crate) fn command<'a>(words: impl IntoIterator<Item = &'a OsStr>) -> String {
    let words: Vec<_> = words.into_iter().map(|word| quoted(&word.to_string_lossy())).collect();
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "%+,-./:=@_^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    if word.chars().any(char::is_control) {
        return format!("$'{}'", word.escape_default().to_string().replace("\\\"", "\""));
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::{Align, bytes, columns, command};
    use std::ffi::OsStr;

    #[test]
    fn columns_fit_their_widest_cell_and_leave_no_blanks_behind() {
        let mut out = Vec::new();
        let rows =
            [["a".to_owned(), "1".to_owned(), "x".to_owned()], ["bbb".to_owned(), "22".to_owned(), String::new()]];
        columns(&mut out, [("NAME", Align::Left), ("N", Align::Right), ("", Align::Left)], &rows).unwrap();
        let text = anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string();
        assert_eq!(text, "NAME   N\na      1  x\nbbb   22\n");
    }

    #[test]
    fn sizes_are_exact_while_small() {
        assert_eq!(bytes(102_399), "102399 B");
        assert_eq!(bytes(102_400), "100.0 KiB");
        assert_eq!(bytes(3 << 30), "3.0 GiB");
    }

    #[test]
    fn commands_are_quoted_where_a_shell_needs_it() {
        let words = ["a.out", "-n=3", "", "two words", "it's", "bell\u{7}\n"].map(OsStr::new);
        assert_eq!(command(words), r"a.out -n=3 '' 'two words' 'it'\''s' $'bell\u{7}\n'");
    }
}
