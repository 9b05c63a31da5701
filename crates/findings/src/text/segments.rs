//! The table of segments: what `RecPlay` would have stored and compared.
//!
//! Apart because it is no finding, and stands there only if it was asked for.

use super::page::{Page, Paint};
use crate::raw::{RawSegments, RawStored};
use std::fmt;

/// One line for each way to know when a segment may be freed.
pub(super) fn table(page: &mut Page<'_>, segments: &RawSegments) -> fmt::Result {
    page.line(0, Paint::Bold, "Segments, as RecPlay counts them:")?;
    let head = ["created", "most stored", "their bytes", "compared"].map(str::to_owned);
    page.line(2, Paint::Plain, &row("freed", &head))?;
    for (name, stored) in [("after last partner", segments.exact), ("by snooped clocks", segments.snooped)] {
        let RawStored { created, stored_max, bytes_max, compared } = stored;
        page.line(2, Paint::Plain, &row(name, &[created, stored_max, bytes_max, compared].map(|n| n.to_string())))?;
    }
    Ok(())
}

fn row(name: &str, cells: &[String; 4]) -> String {
    cells.iter().fold(format!("{name:<18}"), |row, cell| format!("{row} {cell:>13}"))
}
