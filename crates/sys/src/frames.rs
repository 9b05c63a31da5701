//! Where functions begin and end, by what a file tells unwinders of them.
//!
//! Nearly every function has that, whoever made it, and a stripped file keeps it. Where
//! it is missing the tables of symbols are asked ([`symbols`]), and the code itself
//! ([`agreed`]). Read from the file as a whole, by offsets: it need not be mapped yet as a
//! program.

mod agreed;
pub(crate) mod marks;
mod named;
mod reached;
mod symbols;

use crate::decode::{Instruction, length};
use crate::elf::{EXECUTABLE, Elf, LOAD, Segment};
use crate::syscall::{self, Stat};
use core::cell::OnceCell;
use core::ops::Range;
use marks::Marks;
use reached::Reached;

/// `PT_GNU_EH_FRAME`.
const TABLE: u32 = 0x6474_E550;
/// Version, and encodings: distances of four bytes, from the place or from the table, as every linker writes them.
const HEAD: [u8; 4] = [1, 0x1B, 0x03, 0x3B];
const ENTRY_BYTES: usize = 8;
/// Linkers make four to ten parts that are loaded. Of a file with more than this nothing is known.
const LOADED_MAX: usize = 32;

/// A file that is looked at as a whole, when it must be.
#[derive(Debug)]
pub struct File {
    descriptor: u32,
    stat: Option<Stat>,
    length: usize,
    shown: OnceCell<usize>,
}

impl File {
    /// An open file.
    pub fn open(descriptor: u32) -> Self {
        let stat = syscall::file_stat(descriptor).filter(Stat::is_regular);
        let length = stat.map_or(0, |stat| stat.size as usize);
        Self { descriptor, stat, length, shown: OnceCell::new() }
    }

    /// Names so many bytes of it, see [`Stat::part`]; `None` if it is no regular file.
    pub fn part(&self, length: usize, offset: usize) -> Option<u64> {
        self.stat.map(|stat| stat.part(length, offset))
    }

    /// Its descriptor.
    pub fn descriptor(&self) -> u32 {
        self.descriptor
    }

    /// The part of a mapping of it from `offset` on that can be looked at: behind the file's end nothing can.
    pub fn shown_in(&self, range: &Range<usize>, offset: usize) -> Range<usize> {
        range.start..range.end.min(range.start.saturating_add(self.length.saturating_sub(offset)))
    }

    /// All of it; nothing if it can't be mapped.
    pub fn bytes(&self) -> &[u8] {
        const MAP_PRIVATE: u32 = 2;
        let map = || usize::try_from(syscall::mmap(self.length, MAP_PRIVATE, self.descriptor as i32, 0)).unwrap_or(0);
        match *self.shown.get_or_init(map) {
            0 => &[],
            // SAFETY: a mapping of this length that lives as long as this.
            at => unsafe { core::slice::from_raw_parts(at as *const u8, self.length) },
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if let Some(&at) = self.shown.get().filter(|&&at| at != 0) {
            // SAFETY: its own mapping, which nobody can have borrowed any more.
            unsafe { syscall::munmap(at, self.length) };
        }
    }
}

/// What is known of a place in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The instruction that starts here has its opcode there.
    At(usize),
    /// No instruction has its opcode there.
    Nothing,
    /// It may be code, or data.
    Unsure,
}

impl Found {
    /// The same, by offsets from `start` of the file, where some code begins.
    #[must_use]
    pub fn from(self, start: usize) -> Self {
        match self {
            Self::At(at) => at.checked_sub(start).map_or(Self::Unsure, Self::At),
            other => other,
        }
    }
}

#[derive(Debug)]
enum Source<'a> {
    File(&'a File),
    Bytes(&'a [u8]),
}

/// The instructions of a file, decoded from the starts of its functions.
#[derive(Debug)]
pub struct Known<'a> {
    source: Source<'a>,
    functions: OnceCell<Option<Functions<'a>>>,
    named: OnceCell<Option<Marks>>,
    /// How far a function was decoded: most questions are about the same one, in ascending order.
    function: Range<usize>,
    at: usize,
    /// Where the last instruction before that ends behind which nothing goes on.
    behind: Option<usize>,
    reached: Reached,
    /// What was found last: of these bytes, by offsets, this is the function, or there is none.
    last: (Range<usize>, Option<Range<usize>>),
}

impl<'a> Known<'a> {
    /// Those of `file`, which is looked at with the first question.
    pub fn of(file: &'a File) -> Self {
        Self::new(Source::File(file))
    }

    /// Those of a file whose bytes are at hand.
    pub fn in_bytes(bytes: &'a [u8]) -> Self {
        Self::new(Source::Bytes(bytes))
    }

    fn new(source: Source<'a>) -> Self {
        let (functions, named) = (OnceCell::new(), OnceCell::new());
        let reached = Reached::new();
        Self { source, functions, named, function: 0..0, at: 0, behind: None, reached, last: (0..0, None) }
    }

    /// The whole file.
    pub fn bytes(&self) -> &'a [u8] {
        match self.source {
            Source::File(file) => file.bytes(),
            Source::Bytes(bytes) => bytes,
        }
    }

    /// The function of the last instruction that was found, by offsets.
    pub fn function(&self) -> Range<usize> {
        self.function.clone()
    }

    /// The instruction with its opcode at this offset of the file.
    pub fn with_opcode(&mut self, opcode: usize) -> Found {
        self.look(opcode, true)
    }

    /// The same where a function is known around it: nothing else is tried, which takes long.
    pub fn with_opcode_in_function(&mut self, opcode: usize) -> Found {
        self.look(opcode, false)
    }

    /// The address of the code at an offset.
    pub(crate) fn address_of(&self, offset: usize) -> Option<usize> {
        let code = self.functions.get()?.as_ref()?.code_with(offset)?;
        Some(offset - code.offset + code.address)
    }

    /// The offset of what is loaded to an address.
    pub(crate) fn offset_of(&self, address: usize) -> Option<usize> {
        let segment = self.functions.get()?.as_ref()?.segment_at(address)?;
        Some(address - segment.address + segment.offset)
    }

    /// The same, if it is code.
    pub(crate) fn code_at(&self, address: usize) -> Option<usize> {
        let segment = self.functions.get()?.as_ref()?.segment_at(address)?;
        (segment.flags & EXECUTABLE != 0).then(|| address - segment.address + segment.offset)
    }

    /// Whether a word of the file is the address of code at one of these offsets, or nobody knows.
    pub(crate) fn names(&self, offsets: Range<usize>) -> bool {
        let Some(functions) = self.functions.get().and_then(Option::as_ref) else { return true };
        self.named.get_or_init(|| named::all(functions)).as_ref().is_none_or(|named| named.any(offsets))
    }

    fn look(&mut self, opcode: usize, anywhere: bool) -> Found {
        let bytes = self.bytes();
        let Some(functions) = self.functions.get_or_init(|| Functions::of(bytes)) else {
            return Found::Unsure;
        };
        if functions.code_with(opcode).is_none() {
            return Found::Nothing;
        }
        if !self.last.0.contains(&opcode) {
            let (function, end) = functions.around(opcode);
            self.last = (opcode..end, function);
        }
        let Some(function) = self.last.1.clone() else {
            self.function = opcode..opcode;
            if !anywhere {
                return Found::Unsure;
            }
            return match symbols::code_with(bytes, opcode) {
                Some(code) => agreed::find(bytes, &code, opcode),
                None if symbols::tells_code(bytes) => Found::Nothing,
                None => Found::Unsure,
            };
        };
        if self.function != function || self.at > opcode {
            (self.at, self.behind) = (function.start, None);
            self.function = function;
        }
        loop {
            let Some(length) = length(&bytes[self.at..]) else { return Found::Unsure };
            if self.at + length > opcode {
                break;
            }
            self.behind = reached::end_of_all(bytes, self.at).or(self.behind);
            self.at += length;
        }
        if Instruction::at(&bytes[self.at..]).is_none_or(|found| self.at + found.opcode_at != opcode) {
            return Found::Nothing;
        }
        let is_code = self.reached.is_code(bytes, &self.function, self.behind, self.at);
        if is_code { Found::At(self.at) } else { Found::Unsure }
    }
}

/// The functions of a file.
#[derive(Debug)]
struct Functions<'a> {
    file: &'a [u8],
    /// What is loaded of it, and how many parts: the headers are not read again for each of a hundred thousand questions.
    loaded: ([Option<Segment>; LOADED_MAX], usize),
    /// What unwinders are told, and how many functions that are.
    table: Option<(Segment, usize)>,
}

fn word(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl<'a> Functions<'a> {
    /// Those of a file; `None` if it is no program or library that a linker makes.
    fn of(file: &'a [u8]) -> Option<Self> {
        let elf = Elf::read(file)?;
        let known = |table: Segment| {
            let head = file.get(table.offset..)?;
            let count = word(head, 8)? as usize;
            let whole = head.starts_with(&HEAD) && count.checked_mul(ENTRY_BYTES)?.checked_add(12)? <= head.len();
            whole.then_some((table, count))
        };
        let table = elf.segments(file).find(|segment| segment.kind == TABLE).and_then(known);
        let mut loaded = ([None; LOADED_MAX], 0);
        for segment in elf.segments(file).filter(|segment| segment.kind == LOAD) {
            *loaded.0.get_mut(loaded.1)? = Some(segment);
            loaded.1 += 1;
        }
        Some(Self { file, loaded, table })
    }

    /// The code with the byte at `offset` of the file.
    fn code_with(&self, offset: usize) -> Option<Segment> {
        self.code().find(|code| offset >= code.offset && offset - code.offset < code.in_file)
    }

    fn code(&self) -> impl Iterator<Item = Segment> {
        let is_code = |s: &Segment| s.flags & EXECUTABLE != 0 && s.offset.checked_add(s.in_file).is_some();
        self.loaded().filter(is_code)
    }

    /// What is loaded from the file to an address.
    fn segment_at(&self, address: usize) -> Option<Segment> {
        self.loaded().find(|segment| address >= segment.address && address - segment.address < segment.in_file)
    }

    fn loaded(&self) -> impl Iterator<Item = Segment> {
        let (parts, count) = &self.loaded;
        parts[..*count].iter().copied().flatten()
    }

    /// The function with the byte at `offset` of the file, by offsets, and up to where that is so.
    fn around(&self, offset: usize) -> (Option<Range<usize>>, usize) {
        let nobody = (None, offset + 1);
        let Some(code) = self.code_with(offset) else { return nobody };
        let Some(address) = (offset - code.offset).checked_add(code.address) else { return nobody };
        let place = |address: usize| address.checked_sub(code.address)?.checked_add(code.offset);
        let (function, end) = if let Some(function) = self.told(address) {
            (Some(function.clone()), function.end)
        } else {
            let (function, next) = symbols::around(self.file, address);
            let next = self.next_told(address).map_or(next, |told| next.min(told));
            (function.clone(), function.map_or(next, |function| next.min(function.end)))
        };
        let end = place(end).unwrap_or(usize::MAX).clamp(offset + 1, code.offset + code.in_file);
        let function = function.and_then(|function| Some(place(function.start)?..place(function.end)?));
        (function.filter(|function| function.contains(&offset) && function.end <= self.file.len()), end)
    }

    /// The first address behind this one where a function begins, as unwinders are told.
    fn next_told(&self, address: usize) -> Option<usize> {
        let (table, count) = self.table?;
        let index = self.entries_up_to(&table, count, address)?;
        let start = word(self.file, table.offset + 12 + index * ENTRY_BYTES).filter(|_| index < count)?;
        table.address.checked_add_signed(start as isize)
    }

    /// How many functions begin at or before an address, as unwinders are told.
    fn entries_up_to(&self, table: &Segment, count: usize, address: usize) -> Option<usize> {
        let wanted = i32::try_from(address as isize - table.address as isize).ok()?;
        let entry = |index: usize| word(self.file, table.offset + 12 + index * ENTRY_BYTES);
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low.midpoint(high);
            if entry(middle)? <= wanted { low = middle + 1 } else { high = middle }
        }
        Some(low)
    }

    /// The addresses of the function with the byte at `address`, as unwinders are told.
    fn told(&self, address: usize) -> Option<Range<usize>> {
        let (table, count) = self.table?;
        let index = self.entries_up_to(&table, count, address)?.checked_sub(1)?;
        let entry = |index: usize| word(self.file, table.offset + 12 + index * ENTRY_BYTES);
        let start = table.address.checked_add_signed(entry(index)? as isize)?;
        let record = word(self.file, table.offset + 16 + index * ENTRY_BYTES)?;
        let length = self.length(&table, start, record)?;
        Some(start..start.checked_add(length)?).filter(|function| function.contains(&address))
    }

    /// Bytes of the function at `start`, whose record lies at this distance from the table.
    fn length(&self, table: &Segment, start: usize, distance: i32) -> Option<usize> {
        const BEGIN: usize = 8;
        let address = table.address.checked_add_signed(distance as isize)?;
        let segment = self.segment_at(address)?;
        let record = self.file.get((address - segment.address).checked_add(segment.offset)?..)?;
        // Whoever writes it in another way is not understood here.
        let begin = address.checked_add(BEGIN)?.checked_add_signed(word(record, BEGIN)? as isize)?;
        (begin == start).then_some(word(record, BEGIN + 4)? as u32 as usize)
    }
}
