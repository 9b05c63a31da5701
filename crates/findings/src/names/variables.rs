//! Variables with a fixed address, and which part of one an address is: `table[3].count`.
//!
//! Apart from `locals`, which needs a frame to know where a variable is.

use super::base::Base;
use super::dwarf::{Debug, Entries, Entry};
use gimli::UnitOffset;
use std::fmt::Write;

/// Types refer to types; a chain longer than this is damaged.
const DEPTH_MAX: usize = 64;

/// A variable with a fixed address.
pub(super) struct Global {
    address: u64,
    unit: usize,
    offset: UnitOffset,
    /// The functions and namespaces around it, outermost first.
    scope: Vec<UnitOffset>,
}

/// What the debug information says of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Variable {
    /// Its name with scope.
    pub(super) name: String,
    /// The part of it, like `[3].count`; empty for the whole.
    pub(super) path: String,
    /// Its address in the file's own terms.
    pub(super) address: u64,
    /// Its size in bytes.
    pub(super) size: u64,
    /// Where it is declared.
    pub(super) declared: Option<(String, u64)>,
    /// The part that the address lies in is of an atomic type.
    pub(super) atomic: bool,
    /// What that part holds.
    pub(super) base: Option<Base>,
}

/// Which variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    /// Those with a fixed address.
    Fixed,
    /// Those of which each thread has one: their addresses are offsets in the file's thread-local storage.
    ThreadLocal,
}

/// The variable that holds `address`.
pub(super) fn find(debug: &Debug, which: Where, address: u64) -> Option<Variable> {
    let entries = debug.entries();
    let globals = match which {
        Where::Fixed => debug.globals.get_or_init(|| collect(&entries, which)),
        Where::ThreadLocal => debug.thread_locals.get_or_init(|| collect(&entries, which)),
    };
    let before = globals.partition_point(|global| global.address <= address);
    let candidates = globals[..before].iter().rev().take(4);
    candidates.into_iter().find_map(|global| describe(&entries, global, address))
}

fn collect(entries: &Entries<'_>, which: Where) -> Vec<Global> {
    let mut globals = Vec::new();
    for unit in entries.unit_starts() {
        if let Some(root) = entries.root(unit) {
            collect_unit(entries, unit, &root, which, &mut globals);
        }
    }
    globals.sort_by_key(|global| global.address);
    globals
}

fn collect_unit<'a>(entries: &Entries<'a>, unit: usize, root: &Entry<'a>, which: Where, globals: &mut Vec<Global>) {
    let mut cursor = root.unit.entries();
    let mut depth = 0;
    let mut scope: Vec<(isize, UnitOffset)> = Vec::new();
    while let Ok(Some((step, entry))) = cursor.next_dfs() {
        depth += step;
        while scope.last().is_some_and(|(of, _)| *of >= depth) {
            scope.pop();
        }
        match entry.tag() {
            gimli::DW_TAG_namespace | gimli::DW_TAG_subprogram => scope.push((depth, entry.offset())),
            gimli::DW_TAG_variable => {
                let location = entry.attr_value(gimli::DW_AT_location).ok().flatten();
                let address = |location| match which {
                    Where::Fixed => entries.fixed_address(&root.unit, &location),
                    Where::ThreadLocal => entries.thread_local_offset(&root.unit, &location),
                };
                if let Some(address) = location.and_then(address) {
                    let scope = scope.iter().map(|(_, offset)| *offset).collect();
                    globals.push(Global { address, unit, offset: entry.offset(), scope });
                }
            }
            _ => {}
        }
    }
}

fn describe(entries: &Entries<'_>, global: &Global, address: u64) -> Option<Variable> {
    let entry = entries.at(global.unit, global.offset)?;
    let at = address - global.address;
    let mut found = variable(entries, &entry, at)?;
    found.address = global.address;
    let scope = global.scope.iter().filter_map(|&offset| entries.name(&entries.at(global.unit, offset)?));
    let names: Vec<String> = scope.chain([std::mem::take(&mut found.name)]).collect();
    found.name = names.join("::");
    Some(found)
}

/// The variable or parameter `entry`, if byte `at` lies in it.
pub(super) fn variable<'a>(entries: &Entries<'a>, entry: &Entry<'a>, at: u64) -> Option<Variable> {
    let (owner, _) = entries.inherited(entry, gimli::DW_AT_type)?;
    let of = entries.reference(&owner, gimli::DW_AT_type)?;
    let size = size(entries, &of, DEPTH_MAX)?;
    if at >= size {
        return None;
    }
    let mut part = Part::default();
    part.descend(entries, of, at);
    let name = entries.name(entry)?;
    let declared = entries.declared(entry);
    Some(Variable { name, path: part.path, address: 0, size, declared, atomic: part.atomic, base: part.base })
}

/// The way to byte `at` of an object of this type, and what stands there.
pub(super) fn part<'a>(entries: &Entries<'a>, of: Entry<'a>, at: u64) -> (String, Option<Base>) {
    let mut part = Part::default();
    part.descend(entries, of, at);
    (part.path, part.base)
}

/// A type without its names and qualifiers; whether one of them was "atomic".
fn strip<'a>(entries: &Entries<'a>, mut of: Entry<'a>) -> Option<(Entry<'a>, bool)> {
    let mut atomic = false;
    for _ in 0..DEPTH_MAX {
        match of.tag()? {
            gimli::DW_TAG_atomic_type => atomic = true,
            gimli::DW_TAG_typedef
            | gimli::DW_TAG_const_type
            | gimli::DW_TAG_volatile_type
            | gimli::DW_TAG_restrict_type => {}
            _ => return Some((of, atomic)),
        }
        of = entries.reference(&of, gimli::DW_AT_type)?;
    }
    None
}

/// Bytes of a type.
pub(super) fn size<'a>(entries: &Entries<'a>, of: &Entry<'a>, depth: usize) -> Option<u64> {
    let (of, _) = strip(entries, of.clone())?;
    if let Some(size) = of.number(gimli::DW_AT_byte_size) {
        return Some(size);
    }
    match of.tag()? {
        gimli::DW_TAG_array_type => {
            let element = entries.reference(&of, gimli::DW_AT_type)?;
            let counts = counts(&of);
            counts
                .iter()
                .try_fold(size(entries, &element, depth.checked_sub(1)?)?, |all, &count| all.checked_mul(count?))
        }
        gimli::DW_TAG_pointer_type | gimli::DW_TAG_reference_type | gimli::DW_TAG_rvalue_reference_type => Some(8),
        _ => None,
    }
}

/// How many elements an array has in each dimension.
pub(super) fn counts(array: &Entry<'_>) -> Vec<Option<u64>> {
    let dimensions = array.children().into_iter();
    let dimensions = dimensions.filter(|child| child.tag() == Some(gimli::DW_TAG_subrange_type));
    dimensions
        .map(|range| {
            let upper = range.number(gimli::DW_AT_upper_bound).and_then(|last| last.checked_add(1));
            range.number(gimli::DW_AT_count).or(upper)
        })
        .collect()
}

/// The way from a whole to one of its parts.
#[derive(Default)]
struct Part {
    path: String,
    atomic: bool,
    base: Option<Base>,
}

impl Part {
    fn descend<'a>(&mut self, entries: &Entries<'a>, of: Entry<'a>, at: u64) {
        let (mut of, mut at) = (of, at);
        for _ in 0..DEPTH_MAX {
            let Some((bare, atomic)) = strip(entries, of) else { return };
            self.atomic |= atomic || is_atomic_class(entries, &bare);
            let next = match bare.tag() {
                _ if self.atomic => None,
                Some(gimli::DW_TAG_array_type) => self.element(entries, &bare, at),
                Some(gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type) => self.member(entries, &bare, at),
                _ => None,
            };
            let Some(next) = next else {
                self.base = Base::of(entries, &bare, at);
                return;
            };
            (of, at) = next;
        }
    }

    fn element<'a>(&mut self, entries: &Entries<'a>, array: &Entry<'a>, at: u64) -> Option<(Entry<'a>, u64)> {
        let element = entries.reference(array, gimli::DW_AT_type)?;
        let size = size(entries, &element, DEPTH_MAX).filter(|&size| size > 0)?;
        let mut index = at / size;
        let mut indices = Vec::new();
        // The last dimension runs fastest.
        for count in counts(array).into_iter().skip(1).rev() {
            let count = count.filter(|&count| count > 0)?;
            indices.push(index % count);
            index /= count;
        }
        indices.push(index);
        for index in indices.iter().rev() {
            let _ = write!(self.path, "[{index}]");
        }
        Some((element, at % size))
    }

    fn member<'a>(&mut self, entries: &Entries<'a>, of: &Entry<'a>, at: u64) -> Option<(Entry<'a>, u64)> {
        let children = of.children();
        let found: Vec<(Entry<'a>, u64)> =
            children.into_iter().filter_map(|child| Some((child.clone(), within(entries, &child, at)?))).collect();
        let names: Vec<String> = found.iter().filter_map(|(child, _)| entries.name(child)).collect();
        let (child, rest) = found.first()?;
        match names.as_slice() {
            // Bit fields share bytes: no telling which was meant.
            [_, _, ..] => {
                let _ = write!(self.path, ".({})", names.join("|"));
                return None;
            }
            [name] => self.path.extend([".", name]),
            [] => {}
        }
        Some((entries.reference(child, gimli::DW_AT_type)?, *rest))
    }
}

/// Which byte of a member, or of a base class, byte `at` of the whole is.
fn within<'a>(entries: &Entries<'a>, child: &Entry<'a>, at: u64) -> Option<u64> {
    if !matches!(child.tag()?, gimli::DW_TAG_member | gimli::DW_TAG_inheritance) {
        return None;
    }
    if let Some(bits) = child.number(gimli::DW_AT_bit_size) {
        let first = match child.number(gimli::DW_AT_data_bit_offset) {
            Some(bit) => bit,
            None => child.number(gimli::DW_AT_data_member_location)?.checked_mul(8)?,
        };
        let bytes = first / 8..first.checked_add(bits)?.div_ceil(8);
        return bytes.contains(&at).then(|| at - bytes.start);
    }
    // A static member has no place in the whole.
    let start = match child.value(gimli::DW_AT_data_member_location) {
        Some(_) => child.number(gimli::DW_AT_data_member_location)?,
        None if child.value(gimli::DW_AT_external).is_some() => return None,
        None => 0,
    };
    let size = size(entries, &entries.reference(child, gimli::DW_AT_type)?, DEPTH_MAX)?;
    let rest = at.checked_sub(start)?;
    (rest < size).then_some(rest)
}

/// `std::atomic<int>` and `AtomicUsize` are classes, not types that DWARF calls atomic.
pub(super) fn is_atomic_class<'a>(entries: &Entries<'a>, of: &Entry<'a>) -> bool {
    let class = matches!(of.tag(), Some(gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type));
    class && entries.name(of).is_some_and(|name| is_atomic_name(&name))
}

fn is_atomic_name(name: &str) -> bool {
    let plain = name.split('<').next().unwrap_or(name);
    let rust = ["Bool", "Ptr", "I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64", "Isize", "Usize"];
    matches!(plain, "atomic" | "__atomic_base" | "__atomic_float" | "atomic_flag" | "__atomic_flag_base")
        || plain.strip_prefix("Atomic").is_some_and(|rest| rust.contains(&rest))
}
