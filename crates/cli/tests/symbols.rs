//! The preloaded library against the closed table: it exports what that says it defines, and nothing else.

use object::{Object, ObjectSymbol};
use relive_symbols::{TABLE, Treatment, find};
use std::collections::BTreeSet;
use std::fs;

/// Of our own, with names that no program has: where gdb is told of a race's thread.
const FOR_GDB: [&str; 2] = ["relive_at_first_access", "relive_at_second_access"];

fn exported() -> BTreeSet<String> {
    // The file that the build script made and embedded.
    let bytes = fs::read(env!("RELIVE_PRELOAD_FILE")).expect("the library was built");
    let file = object::File::parse(&*bytes).expect("the library is an object file");
    let defined = file.dynamic_symbols().filter(ObjectSymbol::is_definition);
    defined.filter_map(|symbol| symbol.name().ok().map(str::to_owned)).collect()
}

#[test]
fn the_library_exports_what_the_table_says_it_defines() {
    let found = exported();
    let wanted: BTreeSet<String> =
        TABLE.iter().filter(|s| s.treatment.is_defined_by_relive()).map(|s| s.name.to_owned()).collect();
    let missing: Vec<_> = wanted.difference(&found).collect();
    // What is not ordered may be defined all the same, to see cancellations.
    let may_be_defined = |name: &str| find(name).is_some_and(|symbol| symbol.treatment == Treatment::Unordered);
    let ours = |name: &str| FOR_GDB.contains(&name);
    let extra: Vec<_> = found.difference(&wanted).filter(|name| !may_be_defined(name) && !ours(name)).collect();
    assert!(
        missing.is_empty() && extra.is_empty(),
        "in the table but not in the library: {missing:?}\nin the library but not in the table: {extra:?}"
    );
}
