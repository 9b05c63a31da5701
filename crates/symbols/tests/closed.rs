//! The table against the libraries of this machine, against the event families and against its page.

use object::{Object, ObjectSymbol};
use relive_symbols::{Document, Family, TABLE, Treatment, find, must_be_known};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Where Debian, Fedora and others keep the two libraries.
const FOLDERS: [&str; 5] = ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/usr/lib"];

fn library(name: &str) -> PathBuf {
    let found = FOLDERS.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{name} is in none of {FOLDERS:?}"))
}

fn exports(name: &str) -> BTreeSet<String> {
    let bytes = fs::read(library(name)).expect("the library is readable");
    let file = object::File::parse(&*bytes).expect("the library is an object file");
    let defined = file.dynamic_symbols().filter(ObjectSymbol::is_definition);
    // The names of the dynamic table carry no version, except where a linker wrote it behind an @.
    defined.filter_map(|symbol| symbol.name().ok()?.split('@').next().map(str::to_owned)).collect()
}

#[test]
fn every_synchronisation_symbol_of_the_libraries_is_classified() {
    let mut closed = 0;
    let mut missing = Vec::new();
    for library in ["libc.so.6", "libstdc++.so.6"] {
        for name in exports(library).into_iter().filter(|name| must_be_known(name)) {
            closed += 1;
            if find(&name).is_none() {
                missing.push(format!("{name} ({library})"));
            }
        }
    }
    assert!(closed > 150, "only {closed} symbols of the closed prefixes were found: the libraries were not read");
    assert!(missing.is_empty(), "not in the table: {missing:#?}");
}

#[test]
fn a_closed_name_is_never_left_unordered() {
    let wrong: Vec<_> = TABLE.iter().filter(|s| must_be_known(s.name) && s.treatment == Treatment::Unordered).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_entry_is_exported_by_glibc_or_a_library_of_gcc_and_stands_once() {
    let mut known = exports("libc.so.6");
    known.extend(exports("libstdc++.so.6"));
    known.extend(exports("libgcc_s.so.1"));
    let mut seen = BTreeSet::new();
    for symbol in &TABLE {
        assert!(seen.insert(symbol.name), "{} stands twice", symbol.name);
        assert!(known.contains(symbol.name), "{} is exported by no library", symbol.name);
        assert!(!symbol.why.is_empty() && !symbol.why.contains(['\n', '|']), "{}: {:?}", symbol.name, symbol.why);
    }
}

#[test]
fn families_have_the_names_that_events_have() {
    let ours: BTreeSet<_> = Family::ALL.iter().map(|family| family.name()).collect();
    // What instructions do by themselves has no symbol.
    let by_calls = relive_order::Kind::ALL.iter().filter(|&&kind| kind != relive_order::Kind::Atomic);
    let events: BTreeSet<_> = by_calls.map(|kind| kind.family().name()).collect();
    assert_eq!(ours, events);
}

#[test]
fn the_page_is_made_from_the_table() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/symbols.md");
    let wanted = Document.to_string();
    if std::env::var_os("RELIVE_WRITE_DOCS").is_some() {
        fs::write(&page, &wanted).expect("docs/symbols.md can be written");
    }
    let found = fs::read_to_string(&page).unwrap_or_default();
    assert!(found == wanted, "docs/symbols.md is stale: run RELIVE_WRITE_DOCS=1 cargo test -p relive-symbols");
}
