//! The table against the system's header, and the page against the table.

use relive_calls::{Document, FIRST_NUMBERS, LATER_NUMBERS, find};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Where Debian, Fedora and others keep the header.
const HEADERS: [&str; 2] = ["/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h"];

fn header() -> BTreeMap<usize, String> {
    let text = HEADERS.iter().find_map(|path| fs::read_to_string(path).ok());
    let text =
        text.unwrap_or_else(|| panic!("none of {HEADERS:?} is there: install the kernel's headers for programs"));
    let lines = text.lines().filter_map(|line| line.strip_prefix("#define __NR_")?.split_once(char::is_whitespace));
    lines.filter_map(|(name, number)| Some((number.trim().parse().ok()?, name.to_owned()))).collect()
}

#[test]
fn every_call_of_the_header_has_its_row() {
    let known = header();
    assert!(known.len() > 340, "only {} calls were found: the header was not read", known.len());
    // Only the kernel's own trampolines call these.
    let inner = ["uretprobe", "uprobe"];
    for (number, name) in known.iter().filter(|(_, name)| !inner.contains(&name.as_str())) {
        let row = find(*number).unwrap_or_else(|| panic!("{name} ({number}) has no row"));
        assert_eq!(row.name, name, "{number}");
    }
}

#[test]
fn no_row_of_the_headers_time_is_invented() {
    let known = header();
    let newest = *known.keys().next_back().expect("a call");
    for number in FIRST_NUMBERS.chain(LATER_NUMBERS).filter(|number| *number <= newest) {
        assert!(known.contains_key(&number), "{number} is in no header");
    }
}

#[test]
fn the_page_is_made_from_the_table() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/system-calls.md");
    let wanted = Document.to_string();
    if std::env::var_os("RELIVE_WRITE_DOCS").is_some() {
        fs::write(&page, &wanted).expect("docs/system-calls.md can be written");
    }
    let found = fs::read_to_string(&page).unwrap_or_default();
    assert!(found == wanted, "docs/system-calls.md is stale: run RELIVE_WRITE_DOCS=1 cargo test -p relive-calls");
}
