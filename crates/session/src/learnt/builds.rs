//! What was learnt in one build of a program is found in another: by the function that an
//! access stands in, and by what it accesses.
//!
//! Whoever looks for a race changes the program and builds it again, and has a test machine
//! build it for each change. Where an instruction stands says nothing then; but most functions
//! are as they were, and in one that was changed the accesses to the same member or variable are
//! few. If the function has an access of the same kind at the same offset, that is it. Else all
//! of that kind are, or those next to the offset if they are many. To order one too many costs
//! time alone, and one that is not found is learnt once more.
//!
//! An access's kind is what compilers leave as it was: whether it reads or writes, how many bytes,
//! and the variable's name, or the member's distance from what a register points to. Which
//! register that is they choose anew each time.

use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory, OpAccess, Register, UsedMemory};
use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};
use relive_trace::accesses::{HEAD_BYTES, key};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt::Write;
use std::fs::{self, File};
use std::io::Read;
use std::ops::Range;
use std::path::Path;

/// No more of one kind are taken in a function that was changed.
const NEAREST: usize = 8;
/// Addresses of 64 bits.
const BITS: u32 = 64;

/// Where an access stands, in words that another build understands, too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Named {
    /// The function's symbol, without what compilers make anew in each build.
    function: String,
    /// How far from its beginning.
    offset: u64,
    /// What it accesses: `read 8 at +0x10`, `write 4 at done+0x0`.
    kind: String,
}

/// The names in a file of code.
pub(super) struct Code<'a> {
    bytes: &'a [u8],
    /// Of the file, and the address that its first byte has.
    segments: Vec<(Range<u64>, u64)>,
    functions: Vec<Symbol<'a>>,
    variables: Vec<Symbol<'a>>,
}

/// A part of the memory with a name.
struct Symbol<'a> {
    start: u64,
    size: u64,
    name: &'a str,
}

/// Has `use_it` see the names in the file at `path`, if there are some.
pub(super) fn with<T>(path: &Path, use_it: impl FnOnce(&Code<'_>) -> T) -> Option<T> {
    Code::parse(&fs::read(path).ok()?).as_ref().map(use_it)
}

/// The key of the file at `path`.
pub(super) fn key_of(path: &Path) -> Option<u64> {
    let file = File::open(path).ok()?;
    let size = file.metadata().ok()?.len();
    let mut head = Vec::new();
    file.take(HEAD_BYTES as u64).read_to_end(&mut head).ok()?;
    Some(key(size, &head))
}

impl<'a> Code<'a> {
    /// `None` where nothing has a name.
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let file = object::File::parse(bytes).ok()?;
        let segments = file.segments().map(|segment| {
            let (from, size) = segment.file_range();
            (from..from.saturating_add(size), segment.address())
        });
        let mut code = Self { bytes, segments: segments.collect(), functions: Vec::new(), variables: Vec::new() };
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            let of_kind = match symbol.kind() {
                SymbolKind::Text => &mut code.functions,
                SymbolKind::Data => &mut code.variables,
                _ => continue,
            };
            if symbol.size() > 0
                && let Ok(name) = symbol.name()
            {
                of_kind.push(Symbol { start: symbol.address(), size: symbol.size(), name: lasting(name) });
            }
        }
        for symbols in [&mut code.functions, &mut code.variables] {
            // Aliases are in the order of their names, so that builds choose the same one.
            symbols.sort_unstable_by_key(|symbol| (symbol.start, symbol.name));
            symbols.dedup_by_key(|symbol| symbol.start);
        }
        (!code.functions.is_empty()).then_some(code)
    }

    /// How to find the instruction at this offset of the file again.
    pub(super) fn name(&self, at: u64) -> Option<Named> {
        let (range, start) = self.segments.iter().find(|(range, _)| range.contains(&at))?;
        let address = at - range.start + start;
        let function = containing(&self.functions, address)?;
        let (_, instruction) = self.instructions(function).find(|(found, _)| *found == at)?;
        let kind = self.kind(&instruction)?;
        Some(Named { function: function.name.to_owned(), offset: address - function.start, kind })
    }

    /// Offsets in the file at which each of these is found.
    pub(super) fn find<'n>(&self, wanted: impl Iterator<Item = &'n Named>) -> Vec<Vec<u64>> {
        let mut by_name: HashMap<&str, Vec<&Symbol<'_>>> = HashMap::new();
        for function in &self.functions {
            by_name.entry(written(function.name)).or_default().push(function);
        }
        let none = Vec::new();
        let found = wanted.map(|named| {
            let all = by_name.get(written(&named.function)).unwrap_or(&none);
            let same: Vec<_> = all.iter().filter(|function| function.name == named.function).collect();
            // What is split or specialised in one build may be whole in another.
            let same = if same.is_empty() { all.iter().collect() } else { same };
            same.into_iter().flat_map(|function| self.find_in(function, named)).collect()
        });
        found.collect()
    }

    fn find_in(&self, function: &Symbol<'_>, named: &Named) -> Vec<u64> {
        let of_kind = self
            .instructions(function)
            .filter(|(_, instruction)| self.kind(instruction).is_some_and(|kind| kind == named.kind));
        let mut found: Vec<(u64, u64)> =
            of_kind.map(|(at, found)| (at, (found.ip() - function.start).abs_diff(named.offset))).collect();
        found.sort_by_key(|(_, distance)| *distance);
        let count = if found.first().is_some_and(|(_, distance)| *distance == 0) { 1 } else { NEAREST };
        found.into_iter().take(count).map(|(at, _)| at).collect()
    }

    /// Those of a function, with their offsets in the file.
    fn instructions(&self, function: &Symbol<'_>) -> impl Iterator<Item = (u64, Instruction)> {
        let first = function.start;
        let at = self.segments.iter().find_map(|(range, start)| {
            let at = first.checked_sub(*start)?.checked_add(range.start)?;
            (range.contains(&at) && function.size <= range.end - at).then_some(at)
        });
        let code = at.and_then(|at| self.bytes.get(at as usize..)?.get(..function.size as usize)).unwrap_or_default();
        let decoder = Decoder::with_ip(BITS, code, first, DecoderOptions::NONE);
        decoder.into_iter().map(move |found| (found.ip() - first + at.unwrap_or_default(), found))
    }

    /// What an instruction accesses, if it accesses memory.
    fn kind(&self, instruction: &Instruction) -> Option<String> {
        let mut text = String::new();
        for memory in InstructionInfoFactory::new().info(instruction).used_memory() {
            let does = match memory.access() {
                OpAccess::Read | OpAccess::CondRead => "read",
                OpAccess::Write | OpAccess::CondWrite => "write",
                OpAccess::ReadWrite | OpAccess::ReadCondWrite => "change",
                _ => continue,
            };
            let and = if text.is_empty() { "" } else { ", " };
            // A text in memory takes all that is written.
            let _ = write!(text, "{and}{does} {} at {}", memory.memory_size().size(), self.place(memory));
        }
        (!text.is_empty()).then_some(text)
    }

    fn place(&self, memory: &UsedMemory) -> String {
        let distance = memory.displacement();
        let scale = if memory.index() == Register::None { String::new() } else { format!("*{}", memory.scale()) };
        let segment = match memory.segment() {
            Register::FS => "fs:",
            Register::GS => "gs:",
            _ => "",
        };
        // Of these two the distance is an address.
        let is_address = segment.is_empty() && matches!(memory.base(), Register::None | Register::RIP);
        match containing(&self.variables, distance).filter(|_| is_address) {
            Some(variable) => format!("{}+{:#x}{scale}", variable.name, distance - variable.start),
            None if is_address => format!("?{scale}"),
            None => format!("{segment}{}{scale}", signed(distance as i64)),
        }
    }
}

fn signed(distance: i64) -> String {
    format!("{}{:#x}", if distance < 0 { '-' } else { '+' }, distance.unsigned_abs())
}

fn containing<'s, 'a>(symbols: &'s [Symbol<'a>], address: u64) -> Option<&'s Symbol<'a>> {
    let before = symbols.partition_point(|symbol| symbol.start <= address);
    symbols[..before].last().filter(|symbol| address - symbol.start < symbol.size)
}

/// A symbol without the hash that rustc ends it with, and without what LLVM does to tell modules apart.
fn lasting(name: &str) -> &str {
    const HASH: usize = "17h0123456789abcdefE".len();
    let name = name.split_once(".llvm.").map_or(name, |(name, _)| name);
    let Some((front, end)) = name.len().checked_sub(HASH).and_then(|at| name.split_at_checked(at)) else { return name };
    let hash = end.strip_prefix("17h").and_then(|end| end.strip_suffix('E'));
    if hash.is_some_and(|hash| hash.bytes().all(|digit| digit.is_ascii_hexdigit())) { front } else { name }
}

/// What the programmer wrote of a name: without `.part.0`, `.constprop.1`, `.cold`.
fn written(name: &str) -> &str {
    match name.get(1..).and_then(|rest| rest.find('.')) {
        Some(dot) => &name[..=dot],
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::{Code, Named, Symbol, lasting, signed, written};

    #[test]
    fn what_compilers_make_anew_is_no_part_of_a_name() {
        let other = "_ZN4team4work17h0123456789abcdegE";
        for (name, lasts, is_written) in [
            ("work", "work", "work"),
            ("work.part.0", "work.part.0", "work"),
            ("work.llvm.4711", "work", "work"),
            ("_ZN4team4work17h0123456789abcdefE", "_ZN4team4work", "_ZN4team4work"),
            (other, other, other),
            (".hidden", ".hidden", ".hidden"),
            ("ä", "ä", "ä"),
        ] {
            assert_eq!((lasting(name), written(lasting(name))), (lasts, is_written));
        }
    }

    #[test]
    fn distances_have_a_sign() {
        assert_eq!([signed(-16), signed(0), signed(255)], ["-0x10", "+0x0", "+0xff"]);
    }

    /// Code at address 0x1000 of a function, and a variable at 0x2000.
    fn code<'a>(bytes: &'a [u8], function: &'a str) -> Code<'a> {
        let size = bytes.len() as u64;
        Code {
            bytes,
            segments: vec![(0..size, 0x1000)],
            functions: vec![Symbol { start: 0x1000, size, name: function }],
            variables: vec![Symbol { start: 0x2000, size: 8, name: "done" }],
        }
    }

    /// What is found in `new` of the access at an offset of `old`.
    fn check(old: &[u8], at: u64, new: &[u8], found: &[u64]) {
        let named = code(old, "work").name(at).unwrap();
        assert_eq!(code(new, "work").find([&named].into_iter()), [found], "{named:?}");
    }

    /// `mov rax, [rdi + 16]`, and `mov rbx, [rsi + 16]`.
    const READS: [u8; 4] = [0x48, 0x8B, 0x47, 0x10];
    const READS_OTHERWISE: [u8; 4] = [0x48, 0x8B, 0x5E, 0x10];
    /// `mov rax, [rdi + 24]`
    const READS_ELSEWHERE: [u8; 4] = [0x48, 0x8B, 0x47, 0x18];
    /// `mov [rdi + 16], rax`
    const WRITES: [u8; 4] = [0x48, 0x89, 0x47, 0x10];
    const NOP: [u8; 4] = [0x0F, 0x1F, 0x40, 0x00];

    #[test]
    fn an_access_is_found_where_it_was_or_wherever_the_function_has_such_a_one() {
        let old = [NOP, READS, READS].concat();
        check(&old, 4, &[NOP, READS_OTHERWISE, READS].concat(), &[4]);
        check(&old, 4, &[NOP, NOP, READS_OTHERWISE, READS, WRITES].concat(), &[8, 12]);
        check(&old, 4, &[NOP, READS_ELSEWHERE, WRITES].concat(), &[]);
        let many = [NOP.repeat(16), READS.repeat(16)].concat();
        check(&old, 4, &many, &[64, 68, 72, 76, 80, 84, 88, 92]);
    }

    #[test]
    fn a_variable_is_known_by_its_name_and_not_by_its_distance() {
        // mov eax, [rip + …], to 0x2004.
        let reads = |next: u32| [&[0x8B, 0x05][..], &(0x2004 - next).to_le_bytes()].concat();
        let old = [reads(0x1006), NOP.to_vec()].concat();
        let named = code(&old, "work").name(0).unwrap();
        assert_eq!(named, Named { function: "work".into(), offset: 0, kind: "read 4 at done+0x4".into() });
        check(&old, 0, &[NOP.to_vec(), reads(0x100A)].concat(), &[4]);
        assert_eq!(code(&old, "work").name(1), None, "no instruction begins there");
        assert_eq!(code(&old, "work").name(6), None, "nor does this one access memory");
    }

    #[test]
    fn a_part_of_a_function_is_looked_for_in_the_whole() {
        let old = [READS, NOP].concat();
        let named = code(&old, "work.part.0").name(0).unwrap();
        assert_eq!(code(&old, "work").find([&named].into_iter()), [[0]]);
        assert_eq!(code(&old, "works").find([&named].into_iter()), [[0; 0]]);
    }
}
