//! Which code the words of a file name: where pointers to it may lead, the file's own
//! and those that the loader writes by its relocations.
//!
//! Apart from the functions because all of the file is read for it, once, and only where
//! something jumps to an address that it has read. A compiler's library has a hundred
//! megabytes, and thousands of such jumps.

use super::Functions;
use super::marks::Marks;

const WORD: usize = 8;

/// Marks each byte of a file if a word of it is the address to which that byte is loaded as code: of all words that are loaded
/// to addresses which are multiples of theirs. `None` if there is no memory.
pub(super) fn all(functions: &Functions<'_>) -> Option<Marks> {
    let mut named = Marks::NONE;
    named.start(0..functions.file.len())?;
    for code in functions.code() {
        let own = words(functions).filter_map(|word| word.checked_sub(code.address)).filter(|&at| at < code.in_file);
        own.for_each(|at| named.mark(code.offset + at));
    }
    Some(named)
}

fn words(functions: &Functions<'_>) -> impl Iterator<Item = usize> {
    let parts = functions.loaded().filter_map(|segment| {
        let from = segment.address.next_multiple_of(WORD) - segment.address;
        functions.file.get(segment.offset..segment.offset.checked_add(segment.in_file)?)?.get(from..)
    });
    parts.flat_map(|part| part.as_chunks::<WORD>().0).map(|word| u64::from_le_bytes(*word) as usize)
}

#[cfg(test)]
mod tests {
    use crate::frames::Known;

    #[inline(never)]
    fn pointed_to(number: u64) -> u64 {
        std::hint::black_box(number) + 1
    }

    static POINTERS: [fn(u64) -> u64; 1] = [pointed_to];

    #[test]
    fn a_function_in_a_table_is_named_and_nothing_within_it() {
        let file = std::fs::read("/proc/self/exe").unwrap();
        let address = std::hint::black_box(&POINTERS)[0] as usize;
        let mut offset = None;
        crate::maps::each_file_of_code(|range, start, _| {
            offset = offset.or(range.contains(&address).then(|| address - range.start + start));
        });
        let offset = offset.expect("this program's code is mapped from its file");
        let mut known = Known::in_bytes(&file);
        assert!(known.names(offset + 1..offset + 5), "nobody has looked at the file yet");
        known.with_opcode(offset);
        assert!(known.names(offset..offset + 1) && known.names(offset - 8..offset + 1));
        assert!(!known.names(offset + 1..offset + 5), "no word of the file is the address of what is within");
        assert!(!known.names(file.len() * 2..file.len() * 2 + 9));
    }
}
