//! Where code stands and functions begin, by a file's sections and tables of symbols.
//!
//! Apart because it is the second choice: what an assembler or another compiler than
//! C's wrote may have symbols, and nothing for unwinders.

use core::ops::Range;

const SECTION_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
/// `SHT_SYMTAB`, and `SHT_DYNSYM`: what remains of it in a stripped file.
const TABLES: [usize; 2] = [2, 11];
/// `STT_FUNC`.
const FUNCTION: u8 = 2;

fn number(file: &[u8], at: usize, bytes: usize) -> Option<usize> {
    let bytes = file.get(at..at.checked_add(bytes)?)?;
    Some(bytes.iter().rev().fold(0, |value, &byte| value << 8 | usize::from(byte)))
}

/// Offset of the description of each section.
fn sections(file: &[u8]) -> impl Iterator<Item = usize> {
    let word = |at, bytes| number(file, at, bytes).unwrap_or(0);
    let (first, size, count) = (word(40, 8), word(58, 2), word(60, 2));
    (0..if size == SECTION_BYTES && first != 0 { count } else { 0 })
        .filter_map(move |index| first.checked_add(index * SECTION_BYTES))
        .filter(|at| at.checked_add(SECTION_BYTES).is_some_and(|end| end <= file.len()))
}

/// Offset and length of a section.
fn extent(file: &[u8], section: usize) -> Option<[usize; 2]> {
    Some([number(file, section + 24, 8)?, number(file, section + 32, 8)?])
}

/// Offset and length of each table.
fn tables(file: &[u8]) -> impl Iterator<Item = [usize; 2]> {
    let is_table = |section: &usize| number(file, section + 4, 4).is_some_and(|kind| TABLES.contains(&kind));
    sections(file).filter(is_table).filter_map(|section| extent(file, section))
}

/// Whether a file tells its code from its data: it may have both in one segment.
pub(super) fn tells_code(file: &[u8]) -> bool {
    sections(file).next().is_some()
}

/// The section of code with the byte at `offset`.
pub(super) fn code_with(file: &[u8], offset: usize) -> Option<Range<usize>> {
    /// `SHF_EXECINSTR`
    const CODE: usize = 4;
    /// `SHT_PROGBITS`: others have nothing in the file, or no code.
    const IN_FILE: usize = 1;
    let is_code = |section: &usize| {
        number(file, section + 4, 4) == Some(IN_FILE)
            && number(file, section + 8, 8).is_some_and(|flags| flags & CODE != 0)
    };
    let extents = sections(file).filter(is_code).filter_map(|section| extent(file, section));
    let mut ranges = extents.filter_map(|[at, length]| Some(at..at.checked_add(length)?));
    ranges.find(|range| range.contains(&offset) && range.end <= file.len())
}

/// The addresses of the function with the byte at `address`, and the first one behind it where another one begins.
pub(super) fn around(file: &[u8], address: usize) -> (Option<Range<usize>>, usize) {
    let mut next = usize::MAX;
    let found = tables(file).find_map(|[at, length]| {
        let symbols = file.get(at..at.checked_add(length)?)?.chunks_exact(SYMBOL_BYTES);
        let ranges = symbols.filter(|symbol| symbol[4] & 15 == FUNCTION).filter_map(|symbol| {
            let (start, length) = (number(symbol, 8, 8)?, number(symbol, 16, 8)?);
            if start > address {
                next = next.min(start);
            }
            Some(start..start.checked_add(length)?)
        });
        // The innermost: some files have symbols of whole sections, or of functions with parts.
        ranges.filter(|range| range.contains(&address)).min_by_key(Range::len)
    });
    (found, next)
}

#[cfg(test)]
mod tests {
    use super::{around, code_with, tells_code};

    #[test]
    fn an_exported_function_has_its_range() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let path = maps.lines().find(|line| line.contains("/libc.so")).and_then(|line| line.split(' ').next_back());
        let file = std::fs::read(path.expect("libc is mapped")).unwrap();
        let qsort = (0x20000..0x200_000).step_by(16).find_map(|address| around(&file, address).0).expect("a function");
        assert_eq!(around(&file, qsort.start).0, Some(qsort.clone()));
        assert_eq!(around(&file, qsort.end - 1).0.map(|found| found.end), Some(qsort.end));
        assert_eq!(around(&file, usize::MAX), (None, usize::MAX));
        let (nobody, next) = around(&file, 0);
        assert!(nobody.is_none() && next <= qsort.start && around(&file, next).0.is_some());
        assert!(tells_code(&file) && code_with(&file, qsort.start).is_some_and(|code| code.contains(&(qsort.end - 1))));
        assert!(!tells_code(&file[..100]) && code_with(&file, 0).is_none());
        assert_eq!(around(&file[..100], qsort.start).0, None);
        assert_eq!(around(&[], 0).0, None);
    }
}
