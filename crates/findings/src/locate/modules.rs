//! The modules of a process: each whole and once, with where its code is.
//!
//! Apart from unwinding because names need whole modules, too: a variable lies outside of
//! the mapping of the code.

use super::signal;
use super::tables::Tables;
use crate::names::elf::{self, Elf};
use crate::names::now;
use crate::raw::RawModule;
use object::{Object, ObjectSegment, SegmentFlags};
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::iter;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The instruction.
const SYSCALL: [u8; 2] = [0x0F, 0x05];
/// Memory is mapped by so many bytes.
const PAGE: u64 = 4096;

/// The modules of a process.
pub(super) struct Modules(Vec<Module>);

/// A module.
pub(super) struct Module {
    pub(super) raw: RawModule,
    /// Its code, in the process.
    code: Vec<Range<u64>>,
    /// Its file, if that is the one that was mapped.
    file: Option<PathBuf>,
    /// Whether what was mapped begins where code of the file does.
    begins: bool,
    tables: OnceCell<Option<Tables>>,
    /// What stands at addresses that were asked for and that the tables leave out.
    undescribed: RefCell<HashMap<u64, Option<Undescribed>>>,
}

/// Code that unwinders know by its bytes, since no table describes it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Undescribed {
    /// By which the handler of a signal ends.
    SignalReturn,
    /// A system call after which a new thread has no caller: a function's description ends before it.
    Clone,
}

impl Modules {
    /// Reads the segments of the files.
    pub(super) fn new(raw: &[RawModule], relocated: &[(PathBuf, PathBuf)]) -> Self {
        let mut modules: Vec<Module> = Vec::new();
        let mut seen: Vec<&RawModule> = Vec::new();
        for raw in raw {
            if seen.contains(&raw) {
                continue;
            }
            seen.push(raw);
            let mut module = Module::new(raw, now(&raw.file, relocated));
            if !module.begins && modules.iter().any(|known| known.is_elsewhere(&module)) {
                module.keep_to(raw);
            }
            if modules.iter().all(|known| known.raw != module.raw) {
                modules.push(module);
            }
        }
        Self(modules)
    }

    /// The module that holds `address`.
    pub(super) fn find(&self, address: u64) -> Option<&Module> {
        self.0.iter().find(|module| (module.raw.start..module.raw.end).contains(&address))
    }

    /// The module whose code holds `address`.
    pub(super) fn with_code(&self, address: u64) -> Option<&Module> {
        self.find(address).filter(|module| module.code.iter().any(|range| range.contains(&address)))
    }

    /// What they are.
    pub(super) fn into_raw(self) -> Vec<RawModule> {
        self.0.into_iter().map(|module| module.raw).collect()
    }
}

impl Module {
    fn new(raw: &RawModule, path: &Path) -> Self {
        let whole = raw.file.starts_with('/').then(|| elf::with_elf(path, |file| whole(raw, file))).flatten().flatten();
        let file = whole.is_some().then(|| path.to_owned());
        let part = || (raw.clone(), iter::once(raw.start..raw.end).collect(), true);
        let (raw, code, begins) = whole.unwrap_or_else(part);
        Self { raw, code, file, begins, tables: OnceCell::new(), undescribed: RefCell::default() }
    }

    /// Whether the file of `other` is this one's, mapped at another place.
    fn is_elsewhere(&self, other: &Self) -> bool {
        self.raw.file == other.raw.file && self.raw.bias != other.raw.bias
    }

    /// Nothing but this is mapped of the file here: some programs (node) map a part of their code a second time, and what is
    /// around it is others'.
    fn keep_to(&mut self, mapped: &RawModule) {
        (self.raw.start, self.raw.end) = (mapped.start, mapped.end);
        self.code = iter::once(mapped.start..mapped.end).collect();
    }

    /// How the callers of its functions are found.
    pub(super) fn tables(&self) -> Option<&Tables> {
        self.tables.get_or_init(|| Tables::open(self.file.as_deref()?)).as_ref()
    }

    /// What stands at `address` in the file's terms, if the tables say nothing of it and it is known by its bytes.
    pub(super) fn undescribed(&self, address: u64) -> Option<Undescribed> {
        if self.tables()?.find(address).is_some() {
            return None;
        }
        let path = self.file.as_deref()?;
        let stands = |file: &Elf<'_>| {
            let is = |at: Option<u64>, bytes| at.is_some_and(|at| has_code(file, at, bytes));
            if is(Some(address), &signal::RETURN) {
                return Some(Undescribed::SignalReturn);
            }
            let call = is(Some(address), &SYSCALL) || is(address.checked_sub(2), &SYSCALL);
            call.then_some(Undescribed::Clone)
        };
        let read = || elf::with_elf(path, stands).flatten();
        *self.undescribed.borrow_mut().entry(address).or_insert_with(read)
    }
}

/// A segment of a file: bytes of memory, where in the file, and whether it is code.
struct Segment {
    memory: Range<u64>,
    offset: u64,
    code: bool,
}

fn segments(file: &Elf<'_>) -> Vec<Segment> {
    let segments = file.segments().filter_map(|segment| {
        let SegmentFlags::Elf { p_flags } = segment.flags() else { return None };
        let memory = segment.address()..segment.address().checked_add(segment.size())?;
        Some(Segment { memory, offset: segment.file_range().0, code: p_flags & object::elf::PF_X != 0 })
    });
    segments.collect()
}

/// `bytes` stand at `address` of the file.
fn has_code(file: &Elf<'_>, address: u64, bytes: &[u8]) -> bool {
    file.segments()
        .any(|segment| matches!(segment.data_range(address, bytes.len() as u64), Ok(Some(found)) if found == bytes))
}

/// The module as its file describes it, its code, and whether what was mapped begins where code does; `None` if it is no code of
/// this file.
fn whole(raw: &RawModule, file: &Elf<'_>) -> Option<(RawModule, Vec<Range<u64>>, bool)> {
    let segments = segments(file);
    let first = segments.iter().map(|segment| segment.memory.start).min()? / PAGE * PAGE;
    let last = segments.iter().map(|segment| segment.memory.end).max()?;
    let with = |bias: u64| {
        let end = bias.wrapping_add(last).checked_next_multiple_of(PAGE)?;
        let module = RawModule { start: bias.wrapping_add(first), end, bias, ..raw.clone() };
        let code = segments.iter().filter(|segment| segment.code);
        let code = code.map(|it| bias.wrapping_add(it.memory.start)..bias.wrapping_add(it.memory.end)).collect();
        (module.start < end).then_some((module, code, true))
    };
    // Whole already: as long as the file says, with what the file adds to its addresses.
    let known = with(raw.bias)?;
    if known.0.start == raw.start && known.0.end <= raw.end {
        return Some((raw.clone(), known.1, true));
    }
    let offset = raw.start.wrapping_sub(raw.bias);
    let pages = |it: &Segment| {
        let end = it.offset.checked_add(it.memory.end - it.memory.start)?;
        Some(it.offset / PAGE * PAGE..end)
    };
    // Of a file whose segments share pages the one that begins there is meant; a mapping may also be a part of one.
    let code = || segments.iter().filter(|it| it.code).filter_map(|it| Some((it, pages(it)?)));
    let begins = code().find(|(_, pages)| pages.start == offset);
    let (segment, pages) = begins.or_else(|| code().find(|(_, pages)| pages.contains(&offset)))?;
    let whole = with(raw.start.wrapping_sub(offset).wrapping_add(segment.offset).wrapping_sub(segment.memory.start));
    whole.map(|(module, code, _)| (module, code, pages.start == offset))
}

#[cfg(test)]
mod tests {
    use super::{Modules, PAGE};
    use crate::names::elf;
    use crate::raw::RawModule;
    use object::{Object, ObjectSegment, SegmentFlags};

    /// This very program, as a process would map it with `bias`: its code alone, and all of it.
    fn mapped(bias: u64) -> (RawModule, RawModule) {
        let path = std::env::current_exe().expect("a path");
        let file = path.to_str().expect("a path of letters").to_owned();
        let (code, end) = elf::with_elf(&path, |elf| {
            let is_code = |flags| matches!(flags, SegmentFlags::Elf { p_flags } if p_flags & object::elf::PF_X != 0);
            let code = elf.segments().find(|it| is_code(it.flags())).expect("code");
            let end = elf.segments().map(|it| it.address() + it.size()).max().expect("segments");
            ((code.address(), code.size(), code.file_range().0), end)
        })
        .expect("an ELF file");
        let (address, size, offset) = code;
        let start = (bias + address) / PAGE * PAGE;
        let bias_told = start - offset / PAGE * PAGE;
        let part = RawModule { file, start, end: start + size, bias: bias_told, ..RawModule::default() };
        let end = (bias + end).next_multiple_of(PAGE);
        let whole = RawModule { start: bias, end, bias, ..part.clone() };
        (part, whole)
    }

    fn corrected(raw: &[RawModule]) -> Vec<RawModule> {
        Modules::new(raw, &[]).into_raw()
    }

    #[test]
    fn code_becomes_its_module_once_for_each_place() {
        let ((one, whole_one), (two, whole_two)) = (mapped(0x5555_5555_4000), mapped(0x7fff_0000_0000));
        assert_ne!(one.start, whole_one.start, "the code is not all of the program");
        let found = corrected(&[one.clone(), two.clone(), one, two]);
        assert_eq!(found, [whole_one, whole_two]);
    }

    #[test]
    fn a_part_of_the_code_becomes_the_same_module() {
        let (code, whole) = mapped(0x5555_5555_4000);
        let rest = RawModule { start: code.start + 2 * PAGE, ..code.clone() };
        assert!(rest.start < rest.end);
        assert_eq!(corrected(&[code, rest]), [whole]);
    }

    #[test]
    fn a_part_that_is_mapped_once_more_elsewhere_is_no_more_than_that() {
        let (code, whole) = mapped(0x5555_5555_4000);
        let shift = 0x2000_0000_0000;
        let again = RawModule {
            start: code.start + 2 * PAGE + shift,
            end: code.start + 3 * PAGE + shift,
            bias: code.bias + shift,
            ..code.clone()
        };
        let bias = whole.bias + shift;
        assert_eq!(corrected(&[code, again.clone()]), [whole, RawModule { bias, ..again }]);
    }

    #[test]
    fn whole_modules_and_what_is_no_file_stay_what_they_are() {
        let (code, whole) = mapped(0x5555_5555_4000);
        let page = RawModule { file: "[vdso]".to_owned(), start: 0x1000, end: 0x2000, ..RawModule::default() };
        let gone = RawModule { file: "/nowhere/program".to_owned(), ..code.clone() };
        let other = RawModule { bias: code.start.wrapping_sub(1 << 40), ..code };
        let all = [whole, page, gone, other];
        assert_eq!(corrected(&all), all);
    }

    #[test]
    fn a_file_that_moved_is_read_where_it_is() {
        let (code, whole) = mapped(0x5555_5555_4000);
        let moved = [("/nowhere/program".into(), code.file.clone().into())];
        let gone = |module: RawModule| RawModule { file: "/nowhere/program".to_owned(), ..module };
        assert_eq!(Modules::new(&[gone(code)], &moved).into_raw(), [gone(whole)]);
    }
}
