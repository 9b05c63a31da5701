//! The memory of a replaying process, its code as it was before the runtime
//! changed it.
//!
//! Apart because the walk looks at code piece by piece, and each look at another
//! process is a system call.

use iced_x86::{Decoder, DecoderOptions, Instruction};
use object::{Object, ObjectSection, ObjectSegment};
use relive_findings::raw::RawModule;
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

const PIECE: u64 = 256;
/// Bytes of an instruction, at most.
pub(super) const LONGEST: usize = 15;

/// Changed code, and what stood there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patch {
    address: u64,
    length: usize,
    before: [u8; 8],
}

impl Patch {
    /// A patch in the form in which it is asked about, if there is one.
    pub(super) fn new([address, length, before]: [u64; 3]) -> Option<Self> {
        (length > 0).then(|| Self { address, length: length.min(8) as usize, before: before.to_le_bytes() })
    }
}

/// A line of `/proc/PID/maps`.
struct Mapping<'a> {
    range: Range<u64>,
    rights: &'a str,
    offset: u64,
    name: &'a str,
}

fn mappings(maps: &str) -> impl Iterator<Item = Mapping<'_>> {
    let number = |text| u64::from_str_radix(text, 16).ok();
    maps.lines().filter_map(move |line| {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let (rights, offset) = (fields.next()?, number(fields.next()?)?);
        let name = fields.nth(2)?.trim_start();
        Some(Mapping { range: number(start)?..number(end)?, rights, offset, name })
    })
}

/// A file of a process.
#[derive(Debug)]
pub(super) struct Module {
    /// The mappings of its code.
    pub(super) code: Range<u64>,
    /// Its constants and tables, with their addresses.
    pub(super) tables: Vec<(u64, Vec<u8>)>,
}

/// Code and memory to look at.
#[derive(Debug)]
pub(super) struct Memory {
    pid: u32,
    file: Option<File>,
    patches: Vec<Patch>,
    pieces: RefCell<BTreeMap<u64, Vec<u8>>>,
    module: OnceCell<Option<Module>>,
}

impl Memory {
    pub(super) fn open(pid: u32, patches: Vec<Patch>) -> Option<Self> {
        let file = File::open(format!("/proc/{pid}/mem")).ok()?;
        Some(Self { pid, file: Some(file), patches, pieces: RefCell::default(), module: OnceCell::new() })
    }

    /// Nothing but these bytes.
    #[cfg(test)]
    pub(super) fn of(address: u64, bytes: &[u8]) -> Self {
        let mut pieces = BTreeMap::<u64, Vec<u8>>::new();
        assert!(address.is_multiple_of(PIECE));
        for (index, piece) in bytes.chunks(PIECE as usize).enumerate() {
            pieces.insert(address + index as u64 * PIECE, piece.to_vec());
        }
        Self { pid: 0, file: None, patches: Vec::new(), pieces: RefCell::new(pieces), module: OnceCell::new() }
    }

    /// Bytes at `address`; fewer, if there are not so many.
    pub(super) fn read(&self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            let Some(at) = address.checked_add(bytes.len() as u64) else { break };
            let start = at & !(PIECE - 1);
            let mut pieces = self.pieces.borrow_mut();
            let piece = pieces.entry(start).or_insert_with(|| self.fetch(start));
            let Some(rest) = piece.get((at - start) as usize..).filter(|rest| !rest.is_empty()) else { break };
            bytes.extend_from_slice(&rest[..rest.len().min(length - bytes.len())]);
        }
        self.undo(address, &mut bytes);
        bytes
    }

    /// A file's code, of which no piece is kept.
    pub(super) fn read_all(&self, range: &Range<u64>) -> Vec<u8> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        let got = self.file.as_ref().and_then(|file| file.read_at(&mut bytes, range.start).ok()).unwrap_or(0);
        bytes.truncate(got);
        self.undo(range.start, &mut bytes);
        bytes
    }

    /// The instruction at `place`; an invalid one, if there is none.
    pub(super) fn instruction(&self, place: u64) -> Instruction {
        Decoder::with_ip(64, &self.read(place, LONGEST), place, DecoderOptions::NONE).decode()
    }

    /// A word at `address`.
    pub(super) fn word(&self, address: u64) -> Option<u64> {
        self.read(address, 8).first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// The mappings of files' code.
    pub(super) fn code(&self) -> Vec<RawModule> {
        let maps = self.maps();
        let code = mappings(&maps).filter(|mapping| mapping.rights.contains('x') && mapping.name.starts_with('/'));
        let module = |Mapping { range, offset, name, .. }: Mapping<'_>| RawModule {
            file: name.to_owned(),
            start: range.start,
            end: range.end,
            bias: range.start.wrapping_sub(offset),
            ..Default::default()
        };
        code.map(module).collect()
    }

    fn maps(&self) -> String {
        std::fs::read_to_string(format!("/proc/{}/maps", self.pid)).unwrap_or_default()
    }

    /// The module whose code is at `place`: one is looked at.
    pub(super) fn module(&self, place: u64) -> Option<&Module> {
        self.module.get_or_init(|| self.find_module(place)).as_ref()
    }

    fn find_module(&self, place: u64) -> Option<Module> {
        const NAMES: [&str; 4] = [".rodata", ".data.rel.ro", ".data", ".init_array"];
        let maps = self.maps();
        let Mapping { range: code, offset, name: path, .. } = mappings(&maps).find(|it| it.range.contains(&place))?;
        let file = std::fs::read(path).ok()?;
        let file = object::File::parse(&*file).ok()?;
        let in_file = place - code.start + offset;
        let segment = file.segments().find(|segment| {
            let (start, size) = segment.file_range();
            (start..start + size).contains(&in_file)
        })?;
        let base = place.wrapping_sub(segment.address() + in_file - segment.file_range().0);
        let wanted = file
            .sections()
            .filter(|section| section.name().is_ok_and(|name| NAMES.iter().any(|&wanted| name.starts_with(wanted))));
        let read = wanted.filter_map(|section| {
            let start = base.wrapping_add(section.address());
            let mut bytes = vec![0; usize::try_from(section.size()).ok()?];
            let got = self.file.as_ref()?.read_at(&mut bytes, start).ok()?;
            bytes.truncate(got);
            Some((start, bytes))
        });
        let tables = read.collect();
        // What was changed in rights is a mapping of its own.
        let pieces = || mappings(&maps).filter(|it| it.name == path && it.rights.contains('x')).map(|it| it.range);
        let code = pieces().map(|it| it.start).min()?..pieces().map(|it| it.end).max()?;
        Some(Module { code, tables })
    }

    fn fetch(&self, start: u64) -> Vec<u8> {
        let mut piece = vec![0; PIECE as usize];
        let got = self.file.as_ref().and_then(|file| file.read_at(&mut piece, start).ok()).unwrap_or(0);
        piece.truncate(got);
        piece
    }

    fn undo(&self, address: u64, bytes: &mut [u8]) {
        for patch in &self.patches {
            for (index, &before) in patch.before[..patch.length].iter().enumerate() {
                let at = (patch.address + index as u64).wrapping_sub(address);
                if let Some(byte) = usize::try_from(at).ok().and_then(|at| bytes.get_mut(at)) {
                    *byte = before;
                }
            }
        }
    }
}
