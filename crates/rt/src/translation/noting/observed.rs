//! Whose accesses count: the program's and its libraries', not those that the C
//! library, the loader and the C++ runtime make for themselves.
//!
//! Their own state is under locks of theirs that nobody records, or is atomic in ways
//! that only they know; a race there is no finding about the program. What they do to
//! the program's memory by functions whose purpose that is (`memcpy`, `strlen` and
//! their kin) counts.

use super::calls;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::ops::Range;
use relive_sys::lock::Lock;
use relive_sys::lookup::next_symbol;
use relive_sys::maps;

/// Files whose code is not looked at, by the beginnings of their names.
const RUNTIME: &[&[u8]] =
    &[b"libc.so", b"libc-", b"ld-linux", b"ld-2", b"libpthread", b"libgcc_s", b"libstdc++", b"libm.so"];

/// Runtimes of OpenMP, likewise: they are looked at, because the program's threads wait for each other there by atomics.
const OPENMP: &[&[u8]] = &[b"libgomp.so", b"libgomp-", b"libomp.so", b"libomp5", b"libiomp5"];

/// Functions of libc that work on memory of their callers.
const FUNCTIONS: &[&CStr] = &[
    c"memcpy",
    c"memmove",
    c"mempcpy",
    c"memccpy",
    c"memset",
    c"bcopy",
    c"bzero",
    c"explicit_bzero",
    c"swab",
    c"__mempcpy",
    c"wmemcpy",
    c"wmemmove",
    c"wmemset",
    c"__memcpy_chk",
    c"__memmove_chk",
    c"__memset_chk",
    c"__mempcpy_chk",
    c"__explicit_bzero_chk",
    c"wmempcpy",
    c"__wmemcpy_chk",
    c"__wmemmove_chk",
    c"__wmempcpy_chk",
    c"__wmemset_chk",
];
/// Those that look for an end: they read whole vectors, with bytes behind the end and before the beginning which are
/// nobody's access. Only what they write counts here; what they read is told as a whole (`calls.rs`).
const UP_TO_AN_END: &[&CStr] = &[
    c"strcpy",
    c"strncpy",
    c"stpcpy",
    c"stpncpy",
    c"strcat",
    c"strncat",
    c"wcscpy",
    c"wcsncpy",
    c"wcscat",
    c"__strcpy_chk",
    c"__strncpy_chk",
    c"__strcat_chk",
    c"__stpcpy_chk",
];
/// No such function is longer.
const LONGEST: u64 = 4096;

/// What counts of a function's accesses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Counted {
    All,
    Writes,
    /// It is told as a whole. On some processors such a function stands close behind one that counts.
    Nothing,
}

/// Whose code it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Program,
    Runtime,
    OpenMp,
}

impl Whose {
    fn of(name: &[u8]) -> Self {
        let is_one_of = |names: &[&[u8]]| names.iter().any(|beginning| name.starts_with(beginning));
        if is_one_of(RUNTIME) {
            Self::Runtime
        } else if is_one_of(OPENMP) {
            Self::OpenMp
        } else {
            Self::Program
        }
    }
}

struct Known {
    /// Mapped code, and whose it is.
    files: Vec<(Range<u64>, Whose)>,
    /// Pages with code that is in no file: the kernel's list of mappings is long, and not to be read for each instruction.
    made: BTreeSet<u64>,
    /// Functions of libc by their beginnings, and what counts of their accesses.
    functions: Vec<(Range<u64>, Counted)>,
}

const PAGE_BITS: u32 = 12;

static KNOWN: Lock<Known> = Lock::new(Known { files: Vec::new(), made: BTreeSet::new(), functions: Vec::new() });

/// Looks the functions up, once, before anything is translated.
pub(super) fn look_up() {
    let named = FUNCTIONS.iter().map(|&name| (name, Counted::All));
    let named = named.chain(UP_TO_AN_END.iter().map(|&name| (name, Counted::Writes)));
    let named = named.chain(calls::names().map(|name| (name, Counted::Nothing)));
    let mut found: Vec<(u64, Counted)> =
        named.map(|(name, counted)| (next_symbol(name, None) as u64, counted)).collect();
    found.retain(|&(start, _)| start != 0);
    // Of one that is named twice the first counts.
    found.sort_unstable();
    found.dedup_by_key(|function| function.0);
    let ends = found.iter().skip(1).map(|function| function.0).chain([u64::MAX]);
    let functions = found
        .iter()
        .zip(ends)
        .map(|(&(start, counted), next)| (start..next.min(start.saturating_add(LONGEST)), counted));
    KNOWN.lock().functions = functions.collect();
}

/// Whether what the instruction at `ip` reads counts, where its accesses do.
pub(super) fn is_read(ip: u64) -> bool {
    KNOWN.lock().function(ip).is_none_or(|counted| counted == Counted::All)
}

impl Known {
    /// Whether the code at `ip` does.
    fn counts(&mut self, ip: u64) -> bool {
        let page = ip >> PAGE_BITS;
        if let Some(whose) = find(&self.files, ip) {
            return whose != Whose::Runtime;
        }
        if self.made.contains(&page) {
            return true;
        }
        read(&mut self.files);
        // Code that is in no file was made by the program.
        let found = find(&self.files, ip);
        if found.is_none() {
            self.made.insert(page);
        }
        found != Some(Whose::Runtime)
    }

    /// What counts of the function at `ip`, if it is one of those.
    fn function(&self, ip: u64) -> Option<Counted> {
        let behind = self.functions.partition_point(|function| function.0.start <= ip);
        let (range, counted) = &self.functions[behind.checked_sub(1)?];
        range.contains(&ip).then_some(*counted)
    }
}

/// Whether accesses of the instruction at `ip` count.
pub(super) fn is_observed(ip: u64) -> bool {
    let mut known = KNOWN.lock();
    let known = &mut *known;
    known.counts(ip) || known.function(ip).is_some_and(|counted| counted != Counted::Nothing)
}

/// What was known of a range is past: something was mapped there.
pub(super) fn forget(range: &Range<u64>) {
    let mut known = KNOWN.lock();
    known.files.retain(|(file, _)| file.end <= range.start || range.end <= file.start);
    let pages = range.start >> PAGE_BITS..range.end.div_ceil(1 << PAGE_BITS);
    while let Some(&page) = known.made.range(pages.clone()).next() {
        known.made.remove(&page);
    }
}

/// Whether the code at `ip` is the C library's, the loader's or the C++ runtime's.
pub(super) fn is_of_runtime(ip: u64) -> bool {
    whose(ip) == Some(Whose::Runtime)
}

/// Whether it is that of a runtime of OpenMP.
pub(super) fn is_of_openmp(ip: u64) -> bool {
    whose(ip) == Some(Whose::OpenMp)
}

/// Whether there is code of a file at `ip`.
pub(super) fn is_in_file(ip: u64) -> bool {
    whose(ip).is_some()
}

fn whose(ip: u64) -> Option<Whose> {
    let mut known = KNOWN.lock();
    if known.files.is_empty() {
        read(&mut known.files);
    }
    find(&known.files, ip)
}

fn find(files: &[(Range<u64>, Whose)], ip: u64) -> Option<Whose> {
    files.iter().find(|(range, _)| range.contains(&ip)).map(|(_, whose)| *whose)
}

fn read(files: &mut Vec<(Range<u64>, Whose)>) {
    files.clear();
    maps::each_file_of_code(|range, _, path| {
        let name = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
        files.push((range.start as u64..range.end as u64, Whose::of(name)));
    });
}

#[cfg(test)]
mod tests {
    use super::is_observed;

    #[test]
    fn own_code_counts_and_the_c_librarys_does_not() {
        assert!(is_observed(own_code_counts_and_the_c_librarys_does_not as *const () as u64));
        let exit = relive_sys::lookup::next_symbol(c"exit", None);
        assert!(exit != 0 && !is_observed(exit as u64));
    }
}
