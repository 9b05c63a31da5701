//! The code cache: which blocks there are, and how they are joined.
//!
//! Code is written from the beginning of the caller's memory on, and never twice in
//! one place as long as another thread could be in it. A block that is flushed stays
//! where it is and becomes unreachable: no jump of another block leads there, not even
//! its own, and no slot of the table. A thread that is in it runs it to its end and
//! comes out. Room comes back only when everything is emptied at once.
//!
//! A jump between blocks is changed by storing its displacement, aligned, as a whole:
//! a thread that runs it goes one way or the other.

mod find;
mod join;
#[cfg(test)]
mod tests;
mod versions;
mod views;

use crate::arena::{Arena, Array};
use crate::assembler::Assembler;
use crate::decode::Block;
use crate::error::Error;
use crate::host::Host;
use crate::layout::{Layout, Nature};
use crate::lookup::{TABLE_BYTES, Table};
use crate::register::GprSet;
use crate::state::Mark;
use crate::stubs::Stubs;
use crate::tool::Tool;
use crate::translate::{BLOCK_BYTES, Surroundings, Translated, Way, WayOut, translate};
use core::ptr::NonNull;
use find::{Index, Pages, Recent};
use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory};

/// No block, or no exit.
const NONE: u32 = u32::MAX;
/// Near jumps reach so far, within the cache and from it to the caller's data.
const CODE_BYTES_MAX: usize = 1 << 30;
const CODE_BYTES_MIN: usize = 4 * BLOCK_BYTES;
/// The smallest block that anybody could write: an entry, a jump and its exit.
const BLOCK_BYTES_MIN: usize = 32;

/// Memory for a translator, which the caller maps and never gives back.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Readable, writable and executable memory.
    pub code: NonNull<u8>,
    /// Its size: 256 KiB to 1 GiB.
    pub code_bytes: usize,
    /// Readable and writable memory that reads as zero. It need not be committed: what is not used is not touched.
    pub data: NonNull<u8>,
    /// Its size: [`data_bytes`] of the code's.
    pub data_bytes: usize,
}

/// Of the code so much at least is not the program's own bytes: an entry, exits.
const SOURCE_SHARE: usize = 2;

/// How much data goes with so much code, both in bytes.
pub const fn data_bytes(code_bytes: usize) -> usize {
    let blocks = code_bytes / BLOCK_BYTES_MIN;
    // An exit takes 20 bytes of code, a mark at least two.
    TABLE_BYTES
        + blocks * size_of::<Piece>()
        + 2 * Index::bytes(blocks)
        + Layout::BYTES
        + Recent::BYTES
        + code_bytes / SOURCE_SHARE
        + code_bytes / 20 * size_of::<Exit>()
        + code_bytes / 2 * size_of::<Mark>()
        + 4096
}

/// A block in the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// Its range in the program.
    start: u64,
    end: u64,
    /// Its code, from the beginning of the cache.
    code: u32,
    length: u32,
    /// Behind what only indirect branches need.
    body: u32,
    /// Where its own rounds begin, if it is a loop that has registers put away.
    round: u32,
    first_exit: u32,
    exit_count: u32,
    first_mark: u32,
    mark_count: u32,
    /// The first of the exits that are joined to it.
    joined: u32,
    /// Where its bytes in the program are kept, if it may be used again once it was flushed.
    source: u32,
    /// The next older block that begins at the same address and was flushed.
    older: u32,
    flushed: bool,
    /// Whether it compares these bytes before it runs.
    checked: bool,
    /// The tool's view that it was made by.
    view: u8,
    /// It is unreachable for no other reason than that this is not the tool's view now.
    rests: bool,
}

/// A way out of a block, and where it is joined to.
#[derive(Clone, Copy, Debug)]
struct Exit {
    out: WayOut,
    /// The block that has it.
    piece: u32,
    /// The block that it is joined to.
    to: u32,
    /// The next exit that is joined to the same.
    next: u32,
}

/// Where a thread goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    piece: u32,
    /// For indirect branches.
    pub(crate) entry: u64,
    /// With all registers as the program has them.
    pub(crate) body: u64,
}

pub(crate) struct Cache {
    code: NonNull<u8>,
    capacity: usize,
    used: usize,
    /// Where the shared routines end.
    routines: usize,
    routine_marks: usize,
    pieces: Array<Piece>,
    exits: Array<Exit>,
    marks: Array<Mark>,
    index: Index,
    recent: Recent,
    /// The newest of those flushed blocks that may be used again, by where they begin.
    old: Index,
    /// Bytes of the program that blocks were made from.
    sources: Array<u8>,
    /// What the program's memory is.
    pub(crate) layout: Layout,
    pages: Pages,
    pub(crate) table: Table,
    pub(crate) stubs: Stubs,
    factory: InstructionInfoFactory,
    /// The tool's view of the program.
    view: u8,
    /// How often everything was emptied.
    pub(crate) emptied: u64,
}

// SAFETY: the memory behind `code` is the cache's alone, whichever thread has the cache.
unsafe impl Send for Cache {}

impl Cache {
    /// # Safety
    /// `memory` is as its fields say, and nobody else's for good.
    pub(crate) unsafe fn new(memory: Memory, tool: &impl Tool) -> Result<Self, Error> {
        let capacity = memory.code_bytes;
        if !(CODE_BYTES_MIN..=CODE_BYTES_MAX).contains(&capacity) || memory.data_bytes < data_bytes(capacity) {
            return Err(Error::Memory);
        }
        // SAFETY: the caller's promise.
        let mut arena = unsafe { Arena::new(memory.data, memory.data_bytes) };
        let blocks = capacity / BLOCK_BYTES_MIN;
        let parts =
            (Table::new(&mut arena), arena.array(blocks), arena.array(capacity / 20), arena.array(capacity / 2));
        let (Some(table), Some(pieces), Some(exits), Some(marks)) = parts else { return Err(Error::Memory) };
        let indices = (Index::new(&mut arena, blocks), Index::new(&mut arena, blocks));
        let (Some(index), Some(old), Some(layout)) = (indices.0, indices.1, Layout::new(&mut arena)) else {
            return Err(Error::Memory);
        };
        let recent = Recent::new(&mut arena).ok_or(Error::Memory)?;
        let sources = arena.array(capacity / SOURCE_SHARE).ok_or(Error::Memory)?;
        let mut cache = Self {
            code: memory.code,
            capacity,
            used: 0,
            routines: 0,
            routine_marks: 0,
            pieces,
            exits,
            marks,
            index,
            recent,
            old,
            sources,
            layout,
            pages: Pages::NONE,
            table,
            stubs: Stubs::NONE,
            factory: factory_with_room(),
            view: 0,
            emptied: 0,
        };
        let table = cache.table.addresses();
        // SAFETY: nobody runs in the cache yet.
        let code = unsafe { writable(cache.code, 0, capacity) };
        cache.stubs = Stubs::write(code, &mut cache.marks, table, tool).ok_or(Error::Memory)?;
        cache.routines = (cache.stubs.routines.end() - cache.address()) as usize;
        cache.routine_marks = cache.marks.len();
        cache.used = cache.routines;
        cache.table.clear(cache.stubs.stale);
        Ok(cache)
    }

    /// Where the cache begins.
    pub(crate) fn address(&self) -> u64 {
        self.code.as_ptr().addr() as u64
    }

    /// Bytes of code so far.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Blocks so far, flushed ones too.
    pub(crate) fn block_count(&self) -> usize {
        self.pieces.len()
    }

    fn place(&self, piece: u32) -> Place {
        let found = &self.pieces[piece as usize];
        let entry = self.address() + u64::from(found.code);
        Place { piece, entry, body: entry + u64::from(found.body) }
    }

    /// The block that begins at `start`, translated now if it is not there.
    /// `whole` says whether system calls are looked at.
    pub(crate) fn block(
        &mut self,
        host: &impl Host,
        tool: &impl Tool,
        whole: bool,
        start: u64,
    ) -> Result<Place, Error> {
        if let Some(piece) = self.index.find(start, &self.pieces) {
            return Ok(self.place(piece));
        }
        if self.layout.nature(start).is_none() {
            return Err(Error::NotExecutable { ip: start });
        }
        let mut block = Block::read(host, start)?;
        let nature = self.settle(&mut block)?;
        let checked = nature == Nature::Writable;
        if nature != Nature::Fixed
            && let Some(piece) = self.take_back(&block, checked)
        {
            return Ok(self.place(piece));
        }
        let (marks, code) = (self.marks.len(), self.room()?);
        let mut around = Surroundings {
            host,
            tool,
            stubs: self.stubs,
            table: self.table.addresses()[0],
            first_exit: self.exits.len() as u32,
            whole,
            checked,
            kept: GprSet::NONE,
        };
        loop {
            // SAFETY: nothing from `used` on has been handed out since the cache was empty.
            let assembler = unsafe { writable(self.code, code, self.capacity) };
            let done = translate(&around, &block, assembler, &mut self.marks, &mut self.factory);
            // What a loop wants put away is known when it was written once.
            if let Ok(translated) = &done
                && around.kept == GprSet::NONE
                && translated.wanted != GprSet::NONE
            {
                around.kept = translated.wanted;
                self.marks.truncate(marks);
                continue;
            }
            around.kept = GprSet::NONE;
            let done = done.and_then(|translated| self.keep(&block, code, marks, &translated, nature));
            if done.is_err() {
                self.marks.truncate(marks);
            }
            // A tool may insert more than a block can have; that is no reason to give up the cache.
            let room = self.capacity - code >= BLOCK_BYTES;
            if !(room && done == Err(Error::CodeFull) && block.shorten()) {
                return done;
            }
        }
    }

    /// What the block's code is. The block ends where that is another.
    fn settle(&mut self, block: &mut Block) -> Result<Nature, Error> {
        let nothing = Error::NotExecutable { ip: block.start };
        let (nature, until) = self.layout.nature(block.start).ok_or(nothing)?;
        let nature = if block.end() <= until || block.cut(until) {
            nature
        } else {
            // One instruction in two mappings.
            self.layout.nature(until).map(|_| Nature::Writable).ok_or(nothing)?
        };
        if nature == Nature::Writable {
            block.end_where_code_may_change(&mut self.factory);
        }
        Ok(nature)
    }

    /// Where the next code comes. There is room for the smallest: what is written may count on its first instruction.
    fn room(&self) -> Result<usize, Error> {
        let code = self.used.next_multiple_of(16);
        if code + BLOCK_BYTES_MIN <= self.capacity { Ok(code) } else { Err(Error::CodeFull) }
    }

    /// Takes a translated block into the cache.
    fn keep(
        &mut self,
        block: &Block,
        code: usize,
        first_mark: usize,
        done: &Translated,
        nature: Nature,
    ) -> Result<Place, Error> {
        let (piece, first_exit) = (self.pieces.len() as u32, self.exits.len());
        let source = match nature {
            Nature::Fixed => NONE,
            Nature::Made | Nature::Writable => self.keep_source(block).ok_or(Error::DataFull)?,
        };
        for &out in done.ways() {
            let pushed = self.exits.push(Exit { out, piece, to: NONE, next: NONE });
            pushed.map_err(|_| {
                self.exits.truncate(first_exit);
                Error::DataFull
            })?;
        }
        let new = Piece {
            start: block.start,
            end: block.end(),
            code: code as u32,
            length: done.length,
            body: done.body,
            round: done.round,
            first_exit: first_exit as u32,
            exit_count: done.ways().len() as u32,
            first_mark: first_mark as u32,
            mark_count: done.marks,
            joined: NONE,
            source,
            older: NONE,
            flushed: false,
            checked: nature == Nature::Writable,
            view: self.view,
            rests: false,
        };
        if self.pieces.push(new).is_err() {
            self.exits.truncate(first_exit);
            return Err(Error::DataFull);
        }
        self.used = code + done.length as usize;
        self.index.insert(piece, &self.pieces);
        self.pages.add(&(block.start..block.end()));
        for exit in first_exit..self.exits.len() {
            let target = self.exits[exit].out.target;
            if let (Way::Block(_) | Way::Round { .. }, Some(to)) =
                (self.exits[exit].out.way, self.index.find(target, &self.pieces))
            {
                self.join(exit as u32, to);
            }
        }
        Ok(self.place(piece))
    }

    /// A routine that goes to native code at `address` with all registers, for indirect branches.
    pub(crate) fn native(&mut self, address: u64) -> Result<u64, Error> {
        let code = self.room()?;
        // SAFETY: as in `block`.
        let assembler = unsafe { writable(self.code, code, self.capacity) };
        let mut w = crate::writer::Writer::new(assembler, &mut self.marks);
        crate::stubs::entry(&mut w);
        // jmp [rip + 0]
        w.code.bytes(&[0xFF, 0x25, 0, 0, 0, 0]);
        w.code.bytes(&address.to_le_bytes());
        if w.code.is_full() {
            return Err(Error::CodeFull);
        }
        let (length, mark_count) = (w.code.offset() as u32, w.mark_count() as u32);
        let first_mark = self.marks.len() as u32 - mark_count;
        let new = Piece {
            start: address,
            end: address,
            code: code as u32,
            length,
            body: length,
            round: length,
            first_exit: 0,
            exit_count: 0,
            first_mark,
            mark_count,
            joined: NONE,
            source: NONE,
            older: NONE,
            flushed: true,
            checked: false,
            view: self.view,
            rests: false,
        };
        self.pieces.push(new).map_err(|_| Error::DataFull)?;
        self.used = code + length as usize;
        Ok(self.address() + code as u64)
    }

    /// Forgets every block.
    ///
    /// # Safety
    /// No thread is in the cache, or will come back to an address that it had from it.
    pub(crate) unsafe fn empty(&mut self) {
        self.table.clear(self.stubs.stale);
        self.index.clear();
        self.recent.clear();
        self.old.clear();
        self.sources.truncate(0);
        self.pages = Pages::NONE;
        self.pieces.truncate(0);
        self.exits.truncate(0);
        self.marks.truncate(self.routine_marks);
        self.used = self.routines;
        self.emptied += 1;
    }
}

/// One whose lists are long enough for every instruction, so that they never grow while code is translated: the longest of
/// a program is that of `vzeroupper`.
fn factory_with_room() -> InstructionInfoFactory {
    const VZEROUPPER: [u8; 3] = [0xC5, 0xF8, 0x77];
    let mut factory = InstructionInfoFactory::new();
    let registers = factory.info(&Decoder::new(64, &VZEROUPPER, DecoderOptions::NONE).decode()).used_registers().len();
    assert_eq!(registers, 32, "it reads and writes all vectors");
    factory
}

/// The part of the cache from `from` to `to`, for writing.
///
/// # Safety
/// It lies in the cache's memory, and no thread runs or writes there while the assembler lives.
unsafe fn writable<'a>(code: NonNull<u8>, from: usize, to: usize) -> Assembler<'a> {
    // SAFETY: the caller's promise; a block is never larger than what an assembler is given.
    unsafe {
        let start = code.add(from);
        let bytes = NonNull::slice_from_raw_parts(start, (to - from).min(BLOCK_BYTES)).as_mut();
        Assembler::new(bytes, start.as_ptr().addr() as u64)
    }
}
