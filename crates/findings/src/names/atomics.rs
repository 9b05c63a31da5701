//! Code that a program's debug information says is an access to an atomic variable.
//!
//! On x86-64 an atomic load is a plain one, and so is a store that releases; but where they
//! stand is told: compilers inline them from functions of the language's library, `load` of
//! `std::atomic` and `atomic_load` of Rust's `core`, and say so of each place. Operations that
//! change memory count as well: one that changes nothing, as adding 0, becomes a load. Libraries in C have
//! such functions of their own, whose names say it: `atomic_load_zu`, `pg_atomic_read_u32`.
//!
//! Where a compiler makes one instruction of several, it can't say of which of them it is, and says that
//! it stands at line 0, in what both were inlined into. So such places are told as well, where their
//! function has atomic accesses besides.
//!
//! Apart from the names of a report because no address is asked about: all of a file's are
//! wanted, before it runs.

use super::demangle;
use super::dwarf::{Code, Entries, Entry};
use crate::places::plain;
use std::collections::HashMap;
use std::ops::Range;

/// A piece of code that accesses an atomic variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its addresses in the file's own terms.
    pub range: Range<u64>,
    /// It stands in another function. What is not inlined has variables of its own, on the stack.
    pub inlined: bool,
}

/// Code that was made of several places, in a function with such pieces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// Its addresses in the file's own terms.
    pub range: Range<u64>,
    /// Those of the function.
    pub function: Range<u64>,
}

/// What the debug information of a file tells of atomic variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AtomicCode {
    /// Accesses to them.
    pub pieces: Vec<Piece>,
    /// What may be some.
    pub merged: Vec<Merged>,
}

/// That of a file with these entries.
pub(super) fn atomic_code(entries: &Entries<'_>) -> AtomicCode {
    let mut known = HashMap::new();
    let mut found = AtomicCode::default();
    for unit in entries.unit_starts() {
        let (mut functions, before) = (Vec::new(), found.pieces.len());
        entries.each_code(unit, |Code { entry, origin, inlined }| {
            let is_one = match origin {
                Some(origin) => *known.entry(origin).or_insert_with(|| is_atomic(entries, entry)),
                None => is_atomic(entries, entry),
            };
            if is_one || !inlined {
                let ranges = entries.ranges(entry);
                found
                    .pieces
                    .extend(ranges.iter().filter(|_| is_one).map(|range| Piece { range: range.clone(), inlined }));
                functions.extend(ranges.into_iter().filter(|_| !inlined));
            }
        });
        let mut starts: Vec<u64> = found.pieces[before..].iter().map(|piece| piece.range.start).collect();
        if !starts.is_empty() {
            starts.sort_unstable();
            let first_from = |address| starts.partition_point(|start| *start < address);
            functions.retain(|function| first_from(function.start) < first_from(function.end));
            functions.sort_unstable_by_key(|function| function.start);
            found.merged.extend(merged(entries, unit, &functions));
        }
    }
    found
}

/// What stands at line 0 in these functions of a unit, which are in ascending order.
fn merged(entries: &Entries<'_>, unit: usize, functions: &[Range<u64>]) -> Vec<Merged> {
    let within = |range: Range<u64>| {
        let before = functions.partition_point(|function| function.start <= range.start);
        let function = functions[..before].last().filter(|function| range.end <= function.end)?;
        Some(Merged { range, function: function.clone() })
    };
    entries.lineless(unit).into_iter().filter_map(within).collect()
}

/// Whether what is inlined from a function is one, or counts as one.
fn is_atomic<'a>(entries: &Entries<'a>, entry: &Entry<'a>) -> bool {
    match entries.linkage_name(entry) {
        Some(symbol) => counts(&plain(&demangle(&symbol))),
        None => entries.name(entry).is_some_and(|name| c_operation(&name).is_some()),
    }
}

/// What atomic operations of C++ and Rust are inlined from. Those that wait in C++20 (`std::barrier`, `wait`) do some
/// of them without the layers below.
const OPERATIONS: [&str; 17] = [
    "std::atomic<",
    "std::atomic_ref<",
    "std::atomic_flag::",
    "std::atomic_",
    "std::__atomic_base<",
    "std::__atomic_float<",
    "std::__atomic_impl::",
    "std::__atomic_ref<",
    "std::__detail::__waiter",
    "std::__detail::__atomic_",
    "std::__1::atomic<",
    "std::__1::atomic_flag::",
    "std::__1::__atomic_base<",
    "std::__1::__cxx_atomic_",
    "boost::atomics::",
    "core::sync::atomic::",
    "<core::sync::atomic::",
];

/// What an atomic operation is that is a plain instruction: what others do, a lock prefix shows.
const MOVES: [&str; 6] = ["load", "store", "read", "write", "get", "set"];
/// What others do. One that changes nothing may become a plain load.
const CHANGES: [&str; 15] = [
    "add", "sub", "inc", "dec", "and", "or", "xor", "fetch", "exchange", "xchg", "swap", "cas", "cmpxchg", "compare",
    "test",
];

/// Whether the function of this name, demangled and plain, is one of a language's atomic operations, or calls itself one that is a
/// plain instruction.
pub fn is_atomic_operation(name: &str) -> bool {
    OPERATIONS.iter().any(|start| name.starts_with(start))
        || c_operation(name).is_some_and(|does| MOVES.contains(&does))
}

/// What a function of C does atomically, by its name: that stands behind the word, perhaps behind a type.
fn c_operation(name: &str) -> Option<&str> {
    const TYPES: [&str; 9] = ["int", "uint", "long", "pointer", "ptr", "bool", "size", "u32", "u64"];
    let is_atomic = |word: &&str| word.trim_end_matches(|digit: char| digit.is_ascii_digit()) == "atomic";
    let mut words = name.split('_').skip_while(|word| !is_atomic(word)).skip(1);
    let next = words.next()?;
    let does = if TYPES.contains(&next) { words.next()? } else { next };
    // Whole files are written atomically, too.
    let is_one = (MOVES.contains(&does) || CHANGES.contains(&does)) && !matches!(words.next(), Some("file" | "to"));
    is_one.then_some(does)
}

/// Whether threads hand over by what the function of this name does, whether or not its language calls that atomic: how many
/// share an object, of which who gives it up last looks at it plainly; and what a program reads anew each time.
fn counts(name: &str) -> bool {
    const OTHERS: [&str; 4] = [
        "std::_Sp_counted_base<",
        "std::__1::__shared_count::",
        "core::ptr::read_volatile",
        "core::ptr::write_volatile",
    ];
    is_atomic_operation(name) || c_operation(name).is_some() || OTHERS.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::{counts, is_atomic_operation};
    use crate::names::{demangle, elf, shared_code};
    use crate::places::plain;
    use object::{Object, ObjectSection};
    use std::path::Path;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn functions_go_by_their_names() {
        for (symbol, expected) in [
            ("_ZN4core4sync6atomic11atomic_load17h0123456789abcdefE", true),
            ("_RINvNtNtCs6ycNlaeJrLF_4core4sync6atomic11atomic_loadjEB6_", true),
            ("_ZN4core3ptr13read_volatile17h0123456789abcdefE", true),
            ("_ZN4core3ptr4read17h0123456789abcdefE", false),
            ("_ZNKSt13__atomic_baseIiE4loadESt12memory_order", true),
            ("_ZNSt6atomicIbE5storeEbSt12memory_order", true),
            ("_ZNVKSt11atomic_flag4testESt12memory_order", true),
            ("_ZNSt16_Sp_counted_baseILN9__gnu_cxx12_Lock_policyE2EE10_M_releaseEv", true),
            ("_ZNKSt3__113__atomic_baseIjLb0EE4loadENS_12memory_orderE", true),
            ("_ZNSt6vectorISt6atomicIbESaIS1_EE4sizeEv", false),
            ("_ZNSt12_Vector_baseIiSaIiEE4sizeEv", false),
            ("atomic_write_file", false),
            ("atomic_load_zu", true),
            ("pg_atomic_read_u32_impl", true),
            ("g_atomic_int_get", true),
            ("rte_atomic64_cmpxchg", true),
            ("rbimpl_atomic_fetch_add", true),
            ("atomic_ops_init", false),
            ("is_atomic", false),
            ("nonatomic_load", false),
        ] {
            assert_eq!(counts(&plain(&demangle(symbol))), expected, "{symbol}: {}", plain(&demangle(symbol)));
        }
    }

    #[test]
    fn what_a_function_of_c_changes_plainly_is_no_atomic_operation() {
        let names = ["atomic_store_zu", "atomic_load_b", "atomic_add", "atomic_fetch_add_u32"];
        assert_eq!(names.map(is_atomic_operation), [true, true, false, false]);
        assert!(names.into_iter().all(counts), "but it is ordered");
    }

    #[test]
    fn damaged_debug_information_tells_something_or_nothing() {
        let whole = std::fs::read(std::env::current_exe().expect("a path")).expect("its bytes");
        let path = std::env::temp_dir().join(format!("atomics-{}", std::process::id()));
        let sections = elf::with_elf(&std::env::current_exe().expect("a path"), |file| {
            let of = |name| file.section_by_name(name).and_then(|section| section.file_range()).expect("a section");
            [".debug_info", ".debug_abbrev", ".debug_line", ".debug_str"].map(of)
        });
        for (start, size) in sections.expect("an ELF file") {
            for (part, byte) in [(0, 0xFF), (5, 0)] {
                let mut damaged = whole.clone();
                let from = (start + size * part / 8) as usize;
                damaged[from..=from + (size / 64) as usize].fill(byte);
                std::fs::write(&path, &damaged).expect("room");
                assert!(shared_code(&path, &[]).is_some());
            }
        }
        std::fs::write(&path, &whole[..whole.len() / 2]).expect("room");
        let _ = shared_code(&path, &[]);
        std::fs::remove_file(&path).expect("it was there");
    }

    /// An atomic load, wherever the compiler puts it.
    fn loads(of: &AtomicU32) -> u32 {
        of.load(Ordering::Acquire)
    }

    #[test]
    fn a_program_tells_where_its_own_stand() {
        assert_eq!(loads(&AtomicU32::new(3)), 3);
        let path = std::env::current_exe().expect("a path");
        let pieces = shared_code(&path, &[]).expect("debug information").0.pieces;
        assert!(!pieces.is_empty() && pieces.iter().all(|piece| piece.range.start < piece.range.end));
        assert!(shared_code(Path::new("/nowhere"), &[]).is_none());
    }
}
