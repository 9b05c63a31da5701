//! What debug information tells of the types of what a file's code accesses: which variables
//! have fixed addresses, which stand in registers or on the stack at which instructions, and
//! where a function's frame is meanwhile.
//!
//! C has no functions from which accesses to atomic variables are inlined, as C++ and Rust have
//! (`atomics`); what it has are types. Apart from reading code by it, which takes a decoder.

use super::dwarf::{Entries, Entry, Slice};
use super::types::{TypeId, Typer, Types};
use crate::locate::Frames;
use gimli::{AttributeValue, DwLang, Expression, Operation};
use std::ops::Range;
use std::path::Path;

/// Types in and around the code of a file.
#[derive(Debug, Default)]
pub(super) struct Typing {
    /// All types.
    pub(super) types: Types,
    /// Variables with fixed addresses, by these.
    pub(super) fixed: Vec<Fixed>,
    /// Functions, by their addresses.
    pub(super) functions: Vec<TypedFunction>,
}

/// A variable with a fixed address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fixed {
    /// In the file's own terms.
    pub(super) address: u64,
    /// Its bytes.
    pub(super) size: u64,
    /// Its type.
    pub(super) of: TypeId,
}

/// A function that is not inlined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TypedFunction {
    /// Its code, in the file's own terms.
    pub(super) ranges: Vec<Range<u64>>,
    /// Variables of it, and of what was inlined into it, with where they are.
    pub(super) held: Vec<Held>,
}

/// A variable while code is in a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// That code.
    pub(super) range: Range<u64>,
    /// Where it is then.
    pub(super) place: Place,
    /// Its type.
    pub(super) of: TypeId,
}

/// Where a variable is. Registers are numbered as in DWARF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A pointer: that register with a distance added is its value.
    Value(u16, i64),
    /// In memory, so far from where a register points.
    Memory(u16, i64),
}

/// Which units of a file are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Units {
    /// Of C and C++: threads share by types alone there.
    C,
    /// All.
    All,
}

/// That of the code in the file at `path`, by these entries.
pub(super) fn typing(entries: &Entries<'_>, path: &Path, units: Units) -> Typing {
    let (typer, frames) = (Typer::new(entries), Frames::open(path));
    let mut reading = Reading { entries, typer, frames, fixed: Vec::new(), functions: Vec::new() };
    for unit in entries.unit_starts() {
        if let Some(root) = entries.root(unit).filter(|root| units == Units::All || is_c(root)) {
            reading.unit(&root);
        }
    }
    let Reading { typer, mut fixed, mut functions, .. } = reading;
    fixed.sort_unstable_by_key(|variable| variable.address);
    functions.sort_unstable_by_key(|function: &TypedFunction| function.ranges[0].start);
    functions.dedup_by(|one, other| one.ranges[0].start == other.ranges[0].start);
    Typing { types: typer.finish(), fixed, functions }
}

/// Whether a unit is of C or C++.
fn is_c(root: &Entry<'_>) -> bool {
    const LANGUAGES: [DwLang; 12] = [
        gimli::DW_LANG_C89,
        gimli::DW_LANG_C,
        gimli::DW_LANG_C99,
        gimli::DW_LANG_C11,
        gimli::DW_LANG_C17,
        gimli::DW_LANG_C_plus_plus,
        gimli::DW_LANG_C_plus_plus_03,
        gimli::DW_LANG_C_plus_plus_11,
        gimli::DW_LANG_C_plus_plus_14,
        gimli::DW_LANG_C_plus_plus_17,
        gimli::DW_LANG_C_plus_plus_20,
        gimli::DW_LANG_ObjC,
    ];
    matches!(root.value(gimli::DW_AT_language), Some(AttributeValue::Language(language)) if LANGUAGES.contains(&language))
}

struct Reading<'e, 'a> {
    entries: &'e Entries<'a>,
    typer: Typer<'e, 'a>,
    frames: Option<Frames>,
    fixed: Vec<Fixed>,
    functions: Vec<TypedFunction>,
}

/// A function, or a block in one, while its entries are read.
struct Scope {
    depth: isize,
    ranges: Vec<Range<u64>>,
    /// Where its function keeps its variables; `None` if it is no code.
    base: Option<Base>,
}

/// From where a function's variables on the stack are counted.
#[derive(Clone, Copy)]
enum Base {
    /// The canonical frame address.
    Frame,
    /// What a register points to.
    Register(u16),
    /// Something else.
    Unknown,
}

impl<'a> Reading<'_, 'a> {
    fn unit(&mut self, root: &Entry<'a>) {
        let mut cursor = root.unit.entries();
        let (mut depth, mut scopes) = (0, Vec::<Scope>::new());
        while let Ok(Some((step, found))) = cursor.next_dfs() {
            depth += step;
            while scopes.last().is_some_and(|scope| scope.depth >= depth) {
                scopes.pop();
            }
            let entry = root.sibling(found.offset());
            match found.tag() {
                gimli::DW_TAG_subprogram => {
                    let (ranges, base) = (self.entries.ranges(&entry), base(&entry));
                    let base = (!ranges.is_empty()).then_some(base);
                    if base.is_some() {
                        self.functions.push(TypedFunction { ranges: ranges.clone(), held: Vec::new() });
                    }
                    scopes.push(Scope { depth, ranges, base });
                }
                gimli::DW_TAG_lexical_block | gimli::DW_TAG_inlined_subroutine => {
                    let base = scopes.last().and_then(|scope| scope.base);
                    let own = self.entries.ranges(&entry);
                    let ranges = match scopes.last() {
                        Some(around) if own.is_empty() => around.ranges.clone(),
                        _ => own,
                    };
                    scopes.push(Scope { depth, ranges, base });
                }
                gimli::DW_TAG_variable | gimli::DW_TAG_formal_parameter => self.variable(&entry, scopes.last()),
                _ => {}
            }
        }
    }

    fn variable(&mut self, entry: &Entry<'a>, scope: Option<&Scope>) {
        let Some(location) = entry.value(gimli::DW_AT_location) else { return };
        let Some(of) = self.typer.of_variable(entry) else { return };
        if let Some(address) = self.entries.fixed_address(&entry.unit, &location) {
            self.fixed.push(Fixed { address, size: self.typer.types().size(of), of });
            return;
        }
        let Some((scope, base)) = scope.and_then(|scope| Some((scope, scope.base?))) else { return };
        let mut held = Vec::new();
        for (range, expression) in self.entries.locations(entry, location) {
            let ranges = range.map_or_else(|| scope.ranges.clone(), |range| vec![range]);
            let Some(place) = place(entry, expression) else { continue };
            held.extend(ranges.into_iter().map(|range| (range, place)));
        }
        let Some(function) = self.functions.last_mut() else { return };
        for (range, place) in held {
            match place {
                Found::At(place @ Place::Memory(..)) => function.held.push(Held { range, place, of }),
                Found::At(place) if self.typer.types().pointee(of).is_some() => {
                    function.held.push(Held { range, place, of });
                }
                Found::At(_) => {}
                Found::InFrame(distance) => match base {
                    Base::Register(number) => {
                        function.held.push(Held { range, place: Place::Memory(number, distance), of });
                    }
                    Base::Frame => {
                        let rows = self.frames.as_ref().map(|frames| frames.within(&range)).unwrap_or_default();
                        let at = |(range, register, above): (_, _, i64)| Held {
                            range,
                            place: Place::Memory(register, above.wrapping_add(distance)),
                            of,
                        };
                        function.held.extend(rows.into_iter().map(at));
                    }
                    Base::Unknown => {}
                },
            }
        }
    }
}

/// From where a function counts.
fn base(function: &Entry<'_>) -> Base {
    let expression = function.value(gimli::DW_AT_frame_base).and_then(|value| value.exprloc_value());
    let first = expression.and_then(|expression| expression.operations(function.unit.encoding()).next().ok()?);
    match first {
        Some(Operation::CallFrameCFA) => Base::Frame,
        Some(Operation::Register { register }) => Base::Register(register.0),
        _ => Base::Unknown,
    }
}

#[derive(Clone, Copy)]
enum Found {
    At(Place),
    /// So far from the function's base.
    InFrame(i64),
}

/// Where an expression says that a variable is.
fn place<'a>(entry: &Entry<'a>, expression: Expression<Slice<'a>>) -> Option<Found> {
    let mut operations = expression.operations(entry.unit.encoding());
    let (first, second) = (operations.next().ok()??, operations.next().ok()?);
    Some(match (first, second) {
        (Operation::Register { register }, None) => Found::At(Place::Value(register.0, 0)),
        (Operation::RegisterOffset { register, offset, .. }, None) => Found::At(Place::Memory(register.0, offset)),
        (Operation::RegisterOffset { register, offset, .. }, Some(Operation::StackValue)) => {
            operations.next().ok()?.is_none().then_some(Found::At(Place::Value(register.0, offset)))?
        }
        (Operation::FrameOffset { offset }, None) => Found::InFrame(offset),
        _ => return None,
    })
}
