//! Entries of DWARF debug information: which unit an address belongs to, an entry's
//! attributes, and where its references lead, across units and into what `dwz` moved away.
//!
//! Apart from `variables` and `locals` because they ask about the program; here is only the
//! format. addr2line answers for lines and inlined frames, but shows no entries.

use super::elf;
use gimli::{
    AttributeValue, DebugInfoOffset, DwAt, DwTag, Dwarf, DwarfSections, EndianSlice, Expression, LittleEndian,
    SectionId, Unit, UnitOffset,
};
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

pub(super) type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// The debug information of one file.
pub(super) struct Debug {
    sections: DwarfSections<Vec<u8>>,
    supplement: Option<DwarfSections<Vec<u8>>>,
    spans: OnceCell<Vec<Span>>,
    pub(super) globals: OnceCell<Vec<super::variables::Global>>,
    pub(super) thread_locals: OnceCell<Vec<super::variables::Global>>,
}

/// Code of one unit.
struct Span {
    start: u64,
    end: u64,
    unit: usize,
}

impl Debug {
    /// Reads the file at `path` and what it shares with others; `None` if neither says anything.
    pub(super) fn open(path: &Path, supplement: Option<&Path>) -> Option<Self> {
        let supplement = supplement.and_then(sections);
        let (globals, thread_locals) = (OnceCell::new(), OnceCell::new());
        Some(Self { sections: sections(path)?, supplement, spans: OnceCell::new(), globals, thread_locals })
    }

    /// A look at the entries.
    pub(super) fn entries(&self) -> Entries<'_> {
        let slice = |section| EndianSlice::new(Vec::as_slice(section), LittleEndian);
        let dwarf = match &self.supplement {
            Some(supplement) => self.sections.borrow_with_sup(supplement, slice),
            None => self.sections.borrow(slice),
        };
        Entries { dwarf, units: RefCell::default(), starts: Default::default() }
    }

    /// The unit whose code holds `address`.
    pub(super) fn unit_of(&self, address: u64) -> Option<usize> {
        let spans = self.spans.get_or_init(|| self.entries().spans());
        let before = spans.partition_point(|span| span.start <= address);
        spans[..before].iter().rev().take(8).find(|span| address < span.end).map(|span| span.unit)
    }
}

fn sections(path: &Path) -> Option<DwarfSections<Vec<u8>>> {
    elf::with_elf(path, |file| {
        DwarfSections::load(|id: SectionId| Ok::<_, gimli::Error>(elf::section(file, id.name()))).ok()
    })?
}

/// Units by where they begin, in the supplement or not.
type Units<'a> = BTreeMap<(bool, usize), Rc<Unit<Slice<'a>>>>;

/// The entries of one file, with the units that were looked at.
pub(super) struct Entries<'a> {
    dwarf: Dwarf<Slice<'a>>,
    units: RefCell<Units<'a>>,
    /// Where units begin, in the file and in what `dwz` moved away.
    starts: [OnceCell<Vec<usize>>; 2],
}

/// One entry.
#[derive(Clone)]
pub(super) struct Entry<'a> {
    supplementary: bool,
    pub(super) unit: Rc<Unit<Slice<'a>>>,
    pub(super) offset: UnitOffset,
}

impl<'a> Entry<'a> {
    pub(super) fn tag(&self) -> Option<DwTag> {
        Some(self.unit.entry(self.offset).ok()?.tag())
    }

    /// An attribute of the entry itself.
    pub(super) fn value(&self, name: DwAt) -> Option<AttributeValue<Slice<'a>>> {
        self.unit.entry(self.offset).ok()?.attr_value(name).ok()?
    }

    /// A number that an attribute states outright.
    pub(super) fn number(&self, name: DwAt) -> Option<u64> {
        match self.value(name)? {
            AttributeValue::Sdata(value) => u64::try_from(value).ok(),
            value => value.udata_value(),
        }
    }

    /// Whether it stands in what `dwz` moved away.
    pub(super) fn supplementary(&self) -> bool {
        self.supplementary
    }

    /// Where in the file's entries it stands.
    pub(super) fn place(&self) -> Option<usize> {
        self.unit.header.offset().as_debug_info_offset()?.0.checked_add(self.offset.0)
    }

    /// Another entry of the same unit.
    pub(super) fn sibling(&self, offset: UnitOffset) -> Self {
        Self { offset, ..self.clone() }
    }

    /// The entries right below this one.
    pub(super) fn children(&self) -> Vec<Self> {
        let mut children = Vec::new();
        let Ok(mut tree) = self.unit.entries_tree(Some(self.offset)) else { return children };
        let Ok(root) = tree.root() else { return children };
        let mut below = root.children();
        while let Ok(Some(child)) = below.next() {
            children.push(self.sibling(child.entry().offset()));
        }
        children
    }
}

/// A function's code, or what was inlined of one.
pub(super) struct Code<'e, 'a> {
    pub(super) entry: &'e Entry<'a>,
    /// The function that it was made from, by its offset in the file's entries, if that is another entry there.
    pub(super) origin: Option<usize>,
    pub(super) inlined: bool,
}

impl<'a> Entries<'a> {
    fn file(&self, supplementary: bool) -> Option<&Dwarf<Slice<'a>>> {
        if supplementary { self.dwarf.sup() } else { Some(&self.dwarf) }
    }

    /// Where in the file's entries each unit begins.
    pub(super) fn unit_starts(&self) -> Vec<usize> {
        self.starts_in(false)
    }

    /// The same of what `dwz` moved away, or not; in ascending order.
    fn starts_in(&self, supplementary: bool) -> Vec<usize> {
        let mut starts = Vec::new();
        let Some(mut units) = self.file(supplementary).map(Dwarf::units) else { return starts };
        while let Ok(Some(header)) = units.next() {
            starts.extend(header.offset().as_debug_info_offset().map(|offset| offset.0));
        }
        starts
    }

    fn spans(&self) -> Vec<Span> {
        let mut spans = Vec::new();
        for unit in self.unit_starts() {
            let Some(found) = self.unit(false, unit) else { continue };
            let Ok(mut ranges) = self.dwarf.unit_ranges(&found) else { continue };
            while let Ok(Some(range)) = ranges.next() {
                spans.push(Span { start: range.begin, end: range.end, unit });
            }
        }
        spans.sort_by_key(|span| (span.start, span.end));
        spans
    }

    /// The unit that begins at `start`.
    fn unit(&self, supplementary: bool, start: usize) -> Option<Rc<Unit<Slice<'a>>>> {
        if let Some(unit) = self.units.borrow().get(&(supplementary, start)) {
            return Some(Rc::clone(unit));
        }
        let dwarf = self.file(supplementary)?;
        let header = dwarf.debug_info.header_from_offset(DebugInfoOffset(start)).ok()?;
        let unit = Rc::new(dwarf.unit(header).ok()?);
        self.units.borrow_mut().insert((supplementary, start), Rc::clone(&unit));
        Some(unit)
    }

    /// The unit at `start` as an entry.
    pub(super) fn root(&self, start: usize) -> Option<Entry<'a>> {
        let unit = self.unit(false, start)?;
        let mut cursor = unit.entries();
        let (_, entry) = cursor.next_dfs().ok()??;
        let offset = entry.offset();
        Some(Entry { supplementary: false, unit, offset })
    }

    /// The entry at `offset` of the unit at `start`.
    pub(super) fn at(&self, start: usize, offset: UnitOffset) -> Option<Entry<'a>> {
        Some(Entry { supplementary: false, unit: self.unit(false, start)?, offset })
    }

    /// An attribute of the entry, or of the declaration that it completes.
    pub(super) fn inherited(&self, entry: &Entry<'a>, name: DwAt) -> Option<(Entry<'a>, AttributeValue<Slice<'a>>)> {
        let mut entry = entry.clone();
        for _ in 0..8 {
            if let Some(value) = entry.value(name) {
                return Some((entry, value));
            }
            let origin = self.reference(&entry, gimli::DW_AT_abstract_origin);
            entry = origin.or_else(|| self.reference(&entry, gimli::DW_AT_specification))?;
        }
        None
    }

    /// The entry that an attribute refers to.
    pub(super) fn reference(&self, entry: &Entry<'a>, name: DwAt) -> Option<Entry<'a>> {
        let (supplementary, absolute) = match entry.value(name)? {
            AttributeValue::UnitRef(offset) => return Some(entry.sibling(offset)),
            AttributeValue::DebugInfoRef(offset) => (entry.supplementary, offset),
            AttributeValue::DebugInfoRefSup(offset) => (true, offset),
            _ => return None,
        };
        self.placed(supplementary, absolute.0)
    }

    /// The entry that stands at this place of the file's entries, or of what `dwz` moved away.
    pub(super) fn placed(&self, supplementary: bool, place: usize) -> Option<Entry<'a>> {
        let starts = self.starts[usize::from(supplementary)].get_or_init(|| self.starts_in(supplementary));
        let start = *starts[..starts.partition_point(|start| *start <= place)].last()?;
        let unit = self.unit(supplementary, start)?;
        let offset = DebugInfoOffset(place).to_unit_offset(&unit.header)?;
        Some(Entry { supplementary, unit, offset })
    }

    /// The name of the entry, or of the declaration that it completes.
    pub(super) fn name(&self, entry: &Entry<'a>) -> Option<String> {
        let (owner, value) = self.inherited(entry, gimli::DW_AT_name)?;
        let text = self.file(owner.supplementary)?.attr_string(&owner.unit, value).ok()?;
        Some(text.to_string_lossy().into_owned())
    }

    /// The symbol of a function, or of the declaration that it completes.
    pub(super) fn linkage_name(&self, entry: &Entry<'a>) -> Option<String> {
        let (owner, value) = self.inherited(entry, gimli::DW_AT_linkage_name)?;
        let text = self.file(owner.supplementary)?.attr_string(&owner.unit, value).ok()?;
        Some(text.to_string_lossy().into_owned())
    }

    /// Calls `visit` with all code of the unit at `start`.
    pub(super) fn each_code(&self, start: usize, mut visit: impl FnMut(Code<'_, 'a>)) {
        let Some(unit) = self.unit(false, start) else { return };
        let mut entry = Entry { supplementary: false, unit: Rc::clone(&unit), offset: UnitOffset(0) };
        let mut cursor = unit.entries();
        while let Ok(Some((_, found))) = cursor.next_dfs() {
            let inlined = found.tag() == gimli::DW_TAG_inlined_subroutine;
            if !inlined && found.tag() != gimli::DW_TAG_subprogram {
                continue;
            }
            let origin = match found.attr_value(gimli::DW_AT_abstract_origin) {
                Ok(Some(AttributeValue::UnitRef(offset))) => start.checked_add(offset.0),
                Ok(Some(AttributeValue::DebugInfoRef(offset))) => Some(offset.0),
                _ => None,
            };
            entry.offset = found.offset();
            visit(Code { entry: &entry, origin, inlined });
        }
    }

    /// The code of the unit at `start` of which no line is known: that of line 0.
    pub(super) fn lineless(&self, start: usize) -> Vec<Range<u64>> {
        let mut found = Vec::new();
        let program = self.unit(false, start).and_then(|unit| unit.line_program.clone());
        let Some(mut rows) = program.map(gimli::IncompleteLineProgram::rows) else { return found };
        let mut begun = None;
        while let Ok(Some((_, row))) = rows.next_row() {
            let address = row.address();
            found.extend(begun.filter(|begin| *begin < address).map(|begin| begin..address));
            begun = (row.line().is_none() && !row.end_sequence()).then_some(address);
        }
        found
    }

    /// Where the code of a function stands, or of a block in it.
    pub(super) fn ranges(&self, entry: &Entry<'a>) -> Vec<Range<u64>> {
        let mut all = Vec::new();
        let Ok(found) = entry.unit.entry(entry.offset) else { return all };
        let Ok(mut ranges) = self.dwarf.die_ranges(&entry.unit, &found) else { return all };
        while let Ok(Some(range)) = ranges.next() {
            all.extend((range.begin < range.end).then_some(range.begin..range.end));
        }
        all
    }

    /// Whether the code of a function, or of a block in it, holds `address`.
    pub(super) fn holds(&self, entry: &Entry<'a>, address: u64) -> bool {
        self.ranges(entry).iter().any(|range| range.contains(&address))
    }

    /// Where a variable is: expressions, each with the code for which it holds, all of its scope if there is none.
    pub(super) fn locations(
        &self,
        entry: &Entry<'a>,
        value: AttributeValue<Slice<'a>>,
    ) -> Vec<(Option<Range<u64>>, Expression<Slice<'a>>)> {
        if let Some(always) = value.exprloc_value() {
            return vec![(None, always)];
        }
        let mut found = Vec::new();
        let Ok(Some(mut lists)) = self.dwarf.attr_locations(&entry.unit, value) else { return found };
        while let Ok(Some(one)) = lists.next() {
            let range = one.range.begin..one.range.end;
            found.extend((range.start < range.end).then_some((Some(range), one.data)));
        }
        found
    }

    /// The address that an expression consists of.
    pub(super) fn fixed_address(&self, unit: &Unit<Slice<'a>>, value: &AttributeValue<Slice<'a>>) -> Option<u64> {
        let mut operations = value.exprloc_value()?.operations(unit.encoding());
        let address = match operations.next().ok()?? {
            gimli::Operation::Address { address } => address,
            gimli::Operation::AddressIndex { index } => self.dwarf.address(unit, index).ok()?,
            _ => return None,
        };
        operations.next().ok()?.is_none().then_some(address)
    }

    /// Where in the file's thread-local storage an expression says that something is.
    pub(super) fn thread_local_offset(&self, unit: &Unit<Slice<'a>>, value: &AttributeValue<Slice<'a>>) -> Option<u64> {
        let mut operations = value.exprloc_value()?.operations(unit.encoding());
        let offset = match operations.next().ok()?? {
            gimli::Operation::UnsignedConstant { value } => value,
            gimli::Operation::Address { address } => address,
            gimli::Operation::AddressIndex { index } | gimli::Operation::ConstantIndex { index } => {
                self.dwarf.address(unit, index).ok()?
            }
            _ => return None,
        };
        matches!(operations.next().ok()??, gimli::Operation::TLS).then_some(offset)
    }

    /// The file and line at which something is declared.
    pub(super) fn declared(&self, entry: &Entry<'a>) -> Option<(String, u64)> {
        let (owner, line) = self.inherited(entry, gimli::DW_AT_decl_line)?;
        let (_, file) = self.inherited(entry, gimli::DW_AT_decl_file)?;
        let index = match file {
            AttributeValue::FileIndex(index) => index,
            other => other.udata_value()?,
        };
        let program = owner.unit.line_program.as_ref()?;
        let file = program.header().file(index)?;
        let name = self.file(owner.supplementary)?.attr_string(&owner.unit, file.path_name()).ok()?;
        Some((name.to_string_lossy().into_owned(), line.udata_value()?))
    }
}
