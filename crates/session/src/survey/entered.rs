//! Whether anything may jump into bytes that a jump of ours is to take.
//!
//! Where instructions begin the walk tells, and the functions that call frame
//! information names, read from their beginnings. Whatever else looks like a jump to
//! the place counts as one, wherever it begins. So does a table with a distance that may
//! lead there, if some code names its beginning, all that stands before in it leads to
//! code, and the first of that not to another function. Apart from `apart`, which asks,
//! because here only a whole file's code and tables tell.

use super::memory::{LONGEST, Memory, Module};
use iced_x86::{Decoder, DecoderOptions, Instruction};
use std::collections::BTreeSet;
use std::ops::Range;

/// Jumps from further away into the bytes are not looked for.
const AROUND: u64 = 2048;

/// What is known of a file's code.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Where instructions begin, near the one that is looked at.
    starts: BTreeSet<u64>,
    /// Functions and parts of functions, by their addresses.
    functions: Vec<Range<u64>>,
}

impl Known {
    /// `seen` are starts; the functions around `place` are read from their beginnings.
    pub(super) fn new(memory: &Memory, seen: BTreeSet<u64>, functions: Vec<Range<u64>>, place: u64) -> Self {
        let around = place.saturating_sub(2 * AROUND)..place + 2 * AROUND;
        let mut starts = seen;
        for function in functions.iter().filter(|it| it.start < around.end && around.start < it.end) {
            let read = instructions(memory, function);
            if !function.contains(&place) || read.contains(&place) {
                starts.extend(read);
            }
        }
        Self { starts, functions }
    }

    /// Where the instruction begins that ends at `place`.
    pub(super) fn before(&self, memory: &Memory, place: u64) -> Option<u64> {
        let mut starts = self.starts.range(place.saturating_sub(LONGEST as u64)..place);
        starts.find(|&&start| memory.instruction(start).next_ip() == place).copied()
    }

    /// Whether something near `place`, or a table of its file, may lead into `inside`, which is behind it.
    pub(super) fn is_entered(&self, memory: &Memory, place: u64, inside: &Range<u64>) -> bool {
        // Code may begin anywhere before the place.
        let mut start = place.saturating_sub(AROUND);
        while start < place && memory.read(start, 1).is_empty() {
            start += 1;
        }
        let code = memory.read(start, 2 * AROUND as usize);
        let enters = |at: &usize| jump_at(&code, *at).is_some_and(|by| inside.contains(&start.wrapping_add_signed(by)));
        let mut jumps = (0..code.len()).filter(enters);
        let tables = |module: &Module| self.tables_lead_into(module, || memory.read_all(&module.code), inside);
        jumps.any(|at| !self.is_within(memory, start + at as u64)) || memory.module(place).is_some_and(tables)
    }

    /// Whether an instruction that is known begins before `place` and ends behind it.
    fn is_within(&self, memory: &Memory, place: u64) -> bool {
        let before = self.starts.range(place.saturating_sub(LONGEST as u64)..place).next_back();
        before.is_some_and(|&before| memory.instruction(before).next_ip() > place)
    }

    fn tables_lead_into(&self, module: &Module, code: impl FnOnce() -> Vec<u8>, inside: &Range<u64>) -> bool {
        let mut tables = Vec::new();
        for (at, data) in &module.tables {
            let Some(found) = tables_with(*at, data, inside) else { return true };
            // From its beginning to there, a table leads to code.
            let targets = |table: u64, to: u64| {
                let entries = data[(table - at) as usize..=(to - at) as usize + 3].as_chunks::<4>().0.iter();
                entries.map(move |entry| table.wrapping_add_signed(i64::from(i32::from_le_bytes(*entry))))
            };
            let of_ours = |&(table, to): &(u64, u64)| {
                targets(table, to).all(|target| module.code.contains(&target))
                    && !targets(table, to).next().is_some_and(|first| self.is_of_another(first, inside.start))
            };
            tables.extend(found.into_iter().filter(of_ours).map(|(table, _)| table));
        }
        tables.sort_unstable();
        !tables.is_empty() && names_any(module.code.start, &code(), &tables)
    }

    fn function_of(&self, place: u64) -> Option<&Range<u64>> {
        let after = self.functions.partition_point(|function| function.start <= place);
        self.functions[..after].last().filter(|function| function.contains(&place))
    }

    /// Whether a table that leads to `first` is one of another function than that of `place`.
    fn is_of_another(&self, first: u64, place: u64) -> bool {
        /// Compilers align functions so. A part of one that they put elsewhere is not aligned, and its tables are those
        /// of the other parts.
        const ALIGNED: u64 = 16;
        let whole = |place| self.function_of(place).filter(|function| function.start.is_multiple_of(ALIGNED));
        whole(place).is_some_and(|own| whole(first).is_some_and(|other| other != own))
    }
}

/// Where a function's instructions begin, read one behind the other; nowhere, if these don't end where it does: then there
/// is something else between.
fn instructions(memory: &Memory, function: &Range<u64>) -> BTreeSet<u64> {
    const LARGEST: u64 = 1 << 16;
    if function.end - function.start > LARGEST {
        return BTreeSet::new();
    }
    let code = memory.read(function.start, (function.end - function.start) as usize);
    let mut decoder = Decoder::with_ip(64, &code, function.start, DecoderOptions::NONE);
    let read = decoder.iter().take_while(|instruction| !instruction.is_invalid());
    let (starts, ends): (BTreeSet<_>, Vec<_>) = read.map(|it: Instruction| (it.ip(), it.next_ip())).unzip();
    if ends.last() == Some(&function.end) { starts } else { BTreeSet::new() }
}

/// Where what looks like a jump at `at` leads, as a distance from the beginning of the code.
fn jump_at(code: &[u8], at: usize) -> Option<i64> {
    let next = *code.get(at + 1)?;
    let near = |length: usize| {
        let bytes = code.get(at + length - 4..at + length)?.first_chunk()?;
        Some((at + length, i64::from(i32::from_le_bytes(*bytes))))
    };
    let (behind, by) = match code[at] {
        0x70..=0x7F | 0xE0..=0xE3 | 0xEB => Some((at + 2, i64::from(next as i8))),
        0xE8 | 0xE9 => near(5),
        0x0F if next & 0xF0 == 0x80 => near(6),
        _ => None,
    }?;
    Some(behind as i64 + by)
}

/// Where tables might begin that hold one of these places for a jump, as its distance from their beginning, and where that
/// stands. `None` if there is its address.
fn tables_with(at: u64, data: &[u8], places: &Range<u64>) -> Option<Vec<(u64, u64)>> {
    const TABLE_BYTES: u64 = 8192;
    let (words, halves) = (data.as_chunks::<8>().0, data.as_chunks::<4>().0);
    if words.iter().any(|word| places.contains(&u64::from_le_bytes(*word))) {
        return None;
    }
    let with = |(here, half): (u64, &[u8; 4])| {
        let distance = i64::from(i32::from_le_bytes(*half));
        let tables = places.clone().map(move |place| place.wrapping_add_signed(-distance));
        let fits =
            move |table: &u64| table.is_multiple_of(4) && (at..=here).contains(table) && here - table < TABLE_BYTES;
        tables.filter(fits).map(move |table| (table, here))
    };
    Some((at..).step_by(4).zip(halves).flat_map(with).collect())
}

/// Whether code from `start` on may name one of these addresses, which are sorted, by its distance from itself: so a table
/// is found by who jumps with it. What only looks like a table nobody names.
fn names_any(start: u64, code: &[u8], addresses: &[u64]) -> bool {
    let (Some(&lowest), Some(&highest)) = (addresses.first(), addresses.last()) else { return false };
    (start + 4..).zip(code.windows(4)).any(|(behind, bytes)| {
        let distance = bytes.first_chunk().map_or(0, |bytes| i64::from(i32::from_le_bytes(*bytes)));
        let address = behind.wrapping_add_signed(distance);
        (lowest..=highest).contains(&address) && addresses.binary_search(&address).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::super::memory::{Memory, Module};
    use super::{Known, names_any, tables_with};
    use std::collections::BTreeSet;

    #[test]
    fn a_function_is_read_from_its_beginning_to_its_end() {
        // mov rax, [rip + 2]; add rax, 1; ret; a byte of something else
        let code = [0x48, 0x8B, 0x05, 2, 0, 0, 0, 0x48, 0x83, 0xC0, 1, 0xC3, 0x06];
        let memory = Memory::of(0x1000, &code);
        let starts = |function, place| {
            Known::new(&memory, BTreeSet::new(), vec![function], place).starts.into_iter().collect::<Vec<_>>()
        };
        assert_eq!(starts(0x1000..0x100C, 0x100B), [0x1000, 0x1007, 0x100B]);
        assert_eq!(starts(0x1000..0x100C, 0x1020), [0x1000, 0x1007, 0x100B], "another one");
        assert_eq!(starts(0x1000..0x100C, 0x4020), [] as [u64; 0], "far away");
        assert_eq!(starts(0x1000..0x100C, 0x1008), [] as [u64; 0], "within one");
        assert_eq!(starts(0x1000..0x100D, 0x1007), [] as [u64; 0], "it ends in what is none");
        assert_eq!(starts(0x1000..0x1009, 0x1007), [] as [u64; 0], "it ends within one");
    }

    #[test]
    fn a_table_is_of_the_function_that_it_first_leads_to_or_of_one_of_several_parts() {
        let known = Known { starts: BTreeSet::new(), functions: vec![0x1000..0x1100, 0x1107..0x1180, 0x1200..0x1300] };
        assert!(known.is_of_another(0x1200, 0x1010));
        assert!(!known.is_of_another(0x1010, 0x1020), "its own");
        assert!(!known.is_of_another(0x1110, 0x1010), "it may be a part of the same");
        assert!(!known.is_of_another(0x1010, 0x1110), "of one of which it may be a part");
        assert!(!known.is_of_another(0x1190, 0x1010), "of none");
        assert!(!known.is_of_another(0x1200, 0x1190), "nobody knows of what it is");
    }

    #[test]
    fn a_table_holds_distances_from_its_beginning_and_is_named_by_code() {
        const AT: u64 = 0x9000;
        let data: Vec<u8> =
            [0x1234, 0x1300].iter().flat_map(|to: &u64| (to.wrapping_sub(AT) as u32).to_le_bytes()).collect();
        let with = |place: u64| tables_with(AT, &data, &(place..place + 1));
        assert_eq!(with(0x1234), Some(vec![(AT, AT)]));
        assert_eq!(with(0x1300), Some(vec![(AT, AT + 4)]));
        assert_eq!(with(0x1304), Some(vec![(AT + 4, AT + 4)]), "of another table, which begins there, if any");
        assert_eq!(with(0x1306), Some(vec![]), "tables begin at whole words");
        assert_eq!(tables_with(AT, &0x1234u64.to_le_bytes(), &(0x1230..0x1238)), None, "an address");
        // lea rdx, [rip + 0x7FF9], which ends at 0x1007
        let code = [0x48, 0x8D, 0x15, 0xF9, 0x7F, 0, 0, 0x90];
        assert!(names_any(0x1000, &code, &[0x8FFC, AT]));
        assert!(!names_any(0x1000, &code, &[0x8FFC, AT + 4]));
        assert!(!names_any(0x1001, &code, &[AT]));
    }

    #[test]
    fn a_table_leads_to_what_it_holds_if_it_is_one_of_the_function() {
        const AT: u64 = 0x9000;
        // lea rdx, [rip + 0x7FF9], at 0x1000
        let named = [0x48, 0x8D, 0x15, 0xF9, 0x7F, 0, 0];
        let entered = |targets: &[u64], code: &[u8]| {
            let data = targets.iter().flat_map(|to| (to.wrapping_sub(AT) as u32).to_le_bytes()).collect();
            let module = Module { code: 0x1000..0x3000, tables: vec![(AT, data)] };
            let functions = vec![0x1000..0x1100, 0x1107..0x1180, 0x1200..0x1300];
            Known { starts: BTreeSet::new(), functions }.tables_lead_into(&module, || code.to_vec(), &(0x1010..0x1012))
        };
        assert!(entered(&[0x1080, 0x1010], &named));
        assert!(entered(&[0x1110, 0x1010], &named), "another part may be of the same function");
        assert!(!entered(&[0x1080, 0x1012], &named), "behind");
        assert!(!entered(&[0x1080, 0x1010], &[0x90; 7]), "nobody names it");
        assert!(!entered(&[0x5000, 0x1010], &named), "it does not lead to code");
        assert!(!entered(&[0x1200, 0x1010], &named), "it is one of another function");
    }
}
