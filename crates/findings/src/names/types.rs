//! Types as code sees them: at which bytes of an object there is something that threads share by
//! its type, `_Atomic` or `volatile`, and where pointers lead.
//!
//! Apart from `variables`, which finds a name for one address: here all types of a file that
//! its variables reach are laid into a table, and code is read with it.

use super::dwarf::{Entries, Entry};
use super::variables::{counts, is_atomic_class, size};
use std::collections::HashMap;

/// Types within types; a deeper one is damaged.
const DEPTH_MAX: usize = 64;

/// A type by its place in the table.
pub(super) type TypeId = u32;

/// What a type says of threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Shared {
    /// Nothing.
    #[default]
    No,
    /// It is volatile: some other thread may change it, or a signal's handler, or a device; or it is to survive `longjmp`.
    Volatile,
    /// It is atomic.
    Atomic,
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Type {
    /// A number or whatever has no parts.
    Plain { size: u64, shared: Shared },
    /// An address of something; `None` where nothing is known of that.
    Pointer { to: Option<TypeId>, shared: Shared },
    /// So many bytes from one element to the next; at its end a record may have one of any size.
    Array { of: TypeId, stride: u64, size: u64 },
    /// Its name, if it has one, with its size; members by where they begin.
    Whole { size: u64, name: Option<u32>, members: Vec<(u64, TypeId)> },
}

/// All types of a file that were asked for.
#[derive(Debug, Default)]
pub(super) struct Types {
    all: Vec<Type>,
    /// Where in the file's entries each stands, or in what `dwz` moved away.
    places: Vec<(bool, usize)>,
    /// Names of records, by their numbers.
    names: Vec<String>,
}

/// What is at one byte of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Leaf {
    /// How it is declared.
    pub(super) shared: Shared,
    /// The type, by a number of its name, and the byte in it: the same in all units of the file.
    pub(super) member: Option<(u32, u64)>,
    /// It is a pointer to this.
    pub(super) to: Option<TypeId>,
}

impl Types {
    /// How many bytes a type has.
    pub(super) fn size(&self, of: TypeId) -> u64 {
        match self.all.get(of as usize) {
            Some(Type::Plain { size, .. } | Type::Whole { size, .. } | Type::Array { size, .. }) => *size,
            Some(Type::Pointer { .. }) => 8,
            None => 0,
        }
    }

    /// Where in the file's entries a type stands: in what `dwz` moved away, or not.
    pub(super) fn place(&self, of: TypeId) -> Option<(bool, usize)> {
        self.places.get(of as usize).copied()
    }

    /// The name of a record.
    pub(super) fn name(&self, of: TypeId) -> Option<&str> {
        match self.all.get(of as usize)? {
            Type::Whole { name, .. } => self.names.get((*name)? as usize).map(String::as_str),
            _ => None,
        }
    }

    /// What a pointer of this type leads to.
    pub(super) fn pointee(&self, of: TypeId) -> Option<TypeId> {
        match self.all.get(of as usize)? {
            Type::Pointer { to, .. } => *to,
            _ => None,
        }
    }

    /// Which byte of an object of this type stands for byte `at` of it, or of an array of such: of elements of an array the first does
    /// for all. What lies before an object stays where it is.
    pub(super) fn canonical(&self, of: TypeId, at: i64) -> i64 {
        self.first(of, at, 0)
    }

    fn first(&self, of: TypeId, at: i64, depth: usize) -> i64 {
        let within = |size: u64| match i64::try_from(size) {
            Ok(size @ 1..) if at >= 0 => at % size,
            _ => at,
        };
        match self.all.get(of as usize).filter(|_| depth < DEPTH_MAX) {
            Some(Type::Array { of, stride, .. }) => match i64::try_from(*stride) {
                Ok(stride @ 1..) => self.first(*of, at.rem_euclid(stride), depth + 1),
                _ => at,
            },
            Some(Type::Whole { size, members, .. }) => {
                let at = within(*size);
                let before = members.partition_point(|(start, _)| i64::try_from(*start).is_ok_and(|start| start <= at));
                let mut all = members[..before].iter().rev().map(|(start, member)| (*start as i64, *member));
                let member = all.find(|(start, member)| ((at - start) as u64) < self.size(*member));
                member.map_or(at, |(start, member)| start + self.first(member, at - start, depth + 1))
            }
            Some(Type::Plain { size, .. }) => within(*size),
            Some(Type::Pointer { .. }) => within(8),
            None => at,
        }
    }

    /// What an access of so many `bytes` at byte `at` of an object of this type meets.
    pub(super) fn leaf(&self, of: TypeId, at: u64, bytes: u64) -> Leaf {
        /// Records within records, at most: damaged debug information may have some that hold themselves, twice over.
        const PARTS_MAX: u32 = 1000;
        self.find(of, at, bytes, None, &mut { PARTS_MAX }).unwrap_or_default()
    }

    fn find(&self, of: TypeId, at: u64, bytes: u64, within: Option<(u32, u64)>, left: &mut u32) -> Option<Leaf> {
        *left = left.checked_sub(1)?;
        match self.all.get(of as usize)? {
            Type::Plain { size, shared } => {
                let shared = if at == 0 && bytes == *size { *shared } else { Shared::No };
                (at < *size).then_some(Leaf { shared, member: within, to: None })
            }
            Type::Pointer { to, shared } => (at < 8).then(|| {
                let whole = at == 0 && bytes == 8;
                let shared = if whole { *shared } else { Shared::No };
                Leaf { shared, member: within, to: to.filter(|_| whole) }
            }),
            Type::Array { of, stride, .. } => {
                let rest = at.checked_rem(*stride)?;
                let within = within.map(|(name, byte)| (name, byte.wrapping_sub(at - rest)));
                self.find(*of, rest, bytes, within, left)
            }
            Type::Whole { name, members, size } => {
                let within = name.map(|name| (name, at)).or(within).filter(|_| at < *size);
                let before = &members[..members.partition_point(|(start, _)| *start <= at)];
                let mut all = before.iter().rev().filter_map(|(start, member)| {
                    let rest = at - start;
                    (rest < self.size(*member)).then(|| self.find(*member, rest, bytes, within, left))?
                });
                // Of a union's members that one counts which says most.
                let first = all.next()?;
                Some(all.fold(first, |one, other| Leaf {
                    shared: one.shared.max(other.shared),
                    to: one.to.or(other.to),
                    ..one
                }))
            }
        }
    }
}

/// Where a type stands, in what `dwz` moved away or not, and how what it is part of is declared.
type Key = (bool, usize, Shared);

/// Lays types into the table.
pub(super) struct Typer<'e, 'a> {
    entries: &'e Entries<'a>,
    known: HashMap<Key, TypeId>,
    names: HashMap<(String, u64), u32>,
    /// Pointers with what they lead to, which has no type yet.
    pointers: Vec<(TypeId, Entry<'a>)>,
    types: Types,
}

impl<'e, 'a> Typer<'e, 'a> {
    pub(super) fn new(entries: &'e Entries<'a>) -> Self {
        Self { entries, known: HashMap::new(), names: HashMap::new(), pointers: Vec::new(), types: Types::default() }
    }

    /// The type of a variable, if code can tell something by it.
    pub(super) fn of_variable(&mut self, variable: &Entry<'a>) -> Option<TypeId> {
        let (owner, _) = self.entries.inherited(variable, gimli::DW_AT_type)?;
        let of = self.entries.reference(&owner, gimli::DW_AT_type)?;
        let id = self.id(&of, Shared::No, 0)?;
        // One after the other: chains of pointers are long.
        while let Some((pointer, leads_to)) = self.pointers.pop() {
            let known = self.id(&leads_to, Shared::No, 0);
            if let Type::Pointer { to, .. } = &mut self.types.all[pointer as usize] {
                *to = known;
            }
        }
        (!matches!(
            self.types.all[id as usize],
            Type::Plain { shared: Shared::No, .. } | Type::Pointer { to: None, shared: Shared::No }
        ))
        .then_some(id)
    }

    /// The types so far.
    pub(super) fn types(&self) -> &Types {
        &self.types
    }

    pub(super) fn finish(self) -> Types {
        self.types
    }

    fn id(&mut self, of: &Entry<'a>, shared: Shared, depth: usize) -> Option<TypeId> {
        let key = (of.supplementary(), of.place()?, shared);
        if let Some(&id) = self.known.get(&key) {
            return Some(id);
        }
        let (bare, shared, alias) = self.bare(of, shared)?;
        let bare_key = (bare.supplementary(), bare.place()?, shared);
        let id = match self.known.get(&bare_key) {
            Some(&id) => id,
            None => self.lay(&bare, bare_key, alias, depth)?,
        };
        self.known.insert(key, id);
        Some(id)
    }

    /// A type without names and qualifiers; whether one of these makes it shared, and the last of the names.
    fn bare(&self, of: &Entry<'a>, shared: Shared) -> Option<(Entry<'a>, Shared, Option<String>)> {
        let (mut of, mut shared, mut alias) = (of.clone(), shared, None);
        for _ in 0..DEPTH_MAX {
            match of.tag()? {
                gimli::DW_TAG_atomic_type => shared = Shared::Atomic,
                gimli::DW_TAG_volatile_type => shared = shared.max(Shared::Volatile),
                gimli::DW_TAG_typedef => alias = self.entries.name(&of),
                gimli::DW_TAG_const_type | gimli::DW_TAG_restrict_type => {}
                _ => return Some((of, shared, alias)),
            }
            of = self.entries.reference(&of, gimli::DW_AT_type)?;
        }
        None
    }

    fn lay(&mut self, bare: &Entry<'a>, key: Key, alias: Option<String>, depth: usize) -> Option<TypeId> {
        let id = TypeId::try_from(self.types.all.len()).ok().filter(|_| depth < DEPTH_MAX)?;
        let (shared, size) = (key.2, size(self.entries, bare, DEPTH_MAX).unwrap_or(0));
        self.known.insert(key, id);
        self.types.all.push(Type::Plain { size, shared });
        self.types.places.push((key.0, key.1));
        self.types.all[id as usize] = match bare.tag()? {
            gimli::DW_TAG_pointer_type | gimli::DW_TAG_reference_type => {
                let to = self.entries.reference(bare, gimli::DW_AT_type);
                self.pointers.extend(to.map(|to| (id, to)));
                Type::Pointer { to: None, shared }
            }
            gimli::DW_TAG_array_type => {
                self.array(bare, key.2, size, depth).unwrap_or(Type::Plain { size, shared: Shared::No })
            }
            // What is done to those of C++ is told by the functions that it is inlined from.
            _ if is_atomic_class(self.entries, bare) => Type::Plain { size, shared: Shared::No },
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type => {
                let name = self.entries.name(bare).or(alias).map(|name| self.name(name, size));
                Type::Whole { size, name, members: self.members(bare, shared, depth) }
            }
            _ => return Some(id),
        };
        Some(id)
    }

    fn name(&mut self, name: String, size: u64) -> u32 {
        let next = self.names.len() as u32;
        *self.names.entry((name, size)).or_insert_with_key(|(name, _)| {
            self.types.names.push(name.clone());
            next
        })
    }

    fn array(&mut self, bare: &Entry<'a>, shared: Shared, bytes: u64, depth: usize) -> Option<Type> {
        let element = self.entries.reference(bare, gimli::DW_AT_type)?;
        let stride = size(self.entries, &element, DEPTH_MAX)?;
        // A vector of the processor's is an array to DWARF.
        let is_vector = bare.value(gimli::DW_AT_GNU_vector).is_some() || counts(bare).is_empty();
        let of = self.id(&element, shared, depth + 1)?;
        let size = if bytes == 0 { u64::MAX } else { bytes };
        (!is_vector).then_some(Type::Array { of, stride, size })
    }

    fn members(&mut self, bare: &Entry<'a>, shared: Shared, depth: usize) -> Vec<(u64, TypeId)> {
        let mut members = Vec::new();
        for child in bare.children() {
            let is_part = matches!(child.tag(), Some(gimli::DW_TAG_member | gimli::DW_TAG_inheritance));
            let is_whole = child.value(gimli::DW_AT_bit_size).is_none() && child.value(gimli::DW_AT_external).is_none();
            let start = match child.value(gimli::DW_AT_data_member_location) {
                Some(_) => child.number(gimli::DW_AT_data_member_location),
                None => Some(0),
            };
            let (true, true, Some(start)) = (is_part, is_whole, start) else { continue };
            let of = self.entries.reference(&child, gimli::DW_AT_type);
            members.extend(of.and_then(|of| self.id(&of, shared, depth + 1)).map(|of| (start, of)));
        }
        members.sort_by_key(|(start, _)| *start);
        members
    }
}

#[cfg(test)]
mod tests {
    use super::{Leaf, Shared, Type, TypeId, Types};

    const INT: TypeId = 0;
    const FLAG: TypeId = 1;
    const FLAGS: TypeId = 2;
    const NODE: TypeId = 3;
    const NEXT: TypeId = 4;
    const NODES: TypeId = 5;
    const UNION: TypeId = 6;

    /// `struct node { int value; volatile char flags[4]; struct node *next; union { int one; struct node *other; }; }`
    fn types() -> Types {
        let members = vec![(0, INT), (4, FLAGS), (8, NEXT), (16, UNION)];
        let all = vec![
            Type::Plain { size: 4, shared: Shared::No },
            Type::Plain { size: 1, shared: Shared::Volatile },
            Type::Array { of: FLAG, stride: 1, size: 4 },
            Type::Whole { size: 24, name: Some(9), members },
            Type::Pointer { to: Some(NODE), shared: Shared::No },
            Type::Array { of: NODE, stride: 24, size: u64::MAX },
            Type::Whole { size: 8, name: None, members: vec![(0, INT), (0, NEXT)] },
        ];
        Types { all, ..Types::default() }
    }

    #[test]
    fn a_byte_of_an_object_is_one_of_its_parts() {
        let types = types();
        let member = |byte| Some((9, byte));
        let volatile = Shared::Volatile;
        for (of, at, bytes, expected) in [
            (NODE, 0, 4, Leaf { member: member(0), ..Leaf::default() }),
            (NODE, 4, 1, Leaf { shared: volatile, member: member(4), to: None }),
            // Of an array all elements count as the first.
            (NODE, 6, 1, Leaf { shared: volatile, member: member(4), to: None }),
            // What takes several at once is no access of one of them.
            (NODE, 4, 4, Leaf { member: member(4), ..Leaf::default() }),
            (NODE, 8, 8, Leaf { member: member(8), to: Some(NODE), ..Leaf::default() }),
            (NODE, 12, 4, Leaf { member: member(12), ..Leaf::default() }),
            (NODE, 16, 8, Leaf { member: member(16), to: Some(NODE), ..Leaf::default() }),
            (NODES, 7 * 24 + 8, 8, Leaf { member: member(8), to: Some(NODE), ..Leaf::default() }),
            (FLAG, 0, 1, Leaf { shared: volatile, ..Leaf::default() }),
            (NODE, 24, 4, Leaf::default()),
            (77, 0, 4, Leaf::default()),
        ] {
            assert_eq!(types.leaf(of, at, bytes), expected, "{bytes} bytes at {at} of {of}");
        }
    }

    #[test]
    fn what_holds_itself_has_an_end() {
        let all = vec![Type::Whole { size: 8, name: None, members: vec![(0, 0), (0, 0), (0, 0)] }];
        let types = Types { all, ..Types::default() };
        assert_eq!((types.leaf(0, 0, 4), types.canonical(0, 20)), (Leaf::default(), 4));
    }

    #[test]
    fn the_first_element_stands_for_all() {
        let types = types();
        for (of, at, expected) in [
            (NODES, 0, 0),
            (NODES, 24 * 5 + 8, 8),
            (NODES, -16, 8),
            (NODE, 8, 8),
            (NODE, 7, 4),
            (NODE, 24 + 7, 4),
            (NODE, -16, -16),
            (FLAG, 3, 0),
            (NEXT, 16, 0),
            (77, 3, 3),
        ] {
            assert_eq!(types.canonical(of, at), expected, "{at} of {of}");
        }
    }
}
