//! Accesses of C to what threads share, found by types.
//!
//! What `atomic_load` does in C, or whoever reads a volatile variable, is a plain instruction in
//! the function that does it: only the type of what it accesses tells. So code is read as
//! a compiler's back end sees it: each register that holds a pointer has a type, from the
//! variables that debug information places in registers and on the stack
//! (`typing`), through loads of members that are pointers themselves,
//! address arithmetic and copies, along all paths of a function. An access of a whole atomic
//! or volatile scalar counts; of a variable on the own stack only if it is atomic, or its address is taken.
//!
//! A variable that is changed by a locked instruction anywhere in the file is one by which threads hand over, whatever its
//! type: other accesses of it count as well. It is one by its address, or by the member of a type that it is.
//!
//! Nothing of that has to be certain: an access too many costs an event, one too few has to be learnt.

mod flow;
mod function;

use super::types::{Leaf, Shared, TypeId};
use super::typing::Typing;
use flow::Flow;
use function::Function;
use object::elf::{R_X86_64_GLOB_DAT, R_X86_64_RELATIVE};
use object::{Object, ObjectSegment, ObjectSymbol, ObjectSymbolTable, RelocationFlags, RelocationTarget};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;

/// A variable as all of a file's code sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Variable {
    /// One with this address.
    At(u64),
    /// This byte of all objects of the type with this name.
    Member(u32, u64),
}

/// What an instruction accesses.
#[derive(Clone, Copy, Debug, Default)]
struct Accessed {
    variables: [Option<Variable>; 2],
    shared: Shared,
    /// It is the function's own, as far as that is known.
    own: bool,
}

/// What was found so far.
#[derive(Debug, Default)]
struct Found {
    /// Accesses that count, by their addresses in the file's own terms.
    told: BTreeSet<u64>,
    /// Those that count if one of these variables does.
    candidates: Vec<(u64, [Option<Variable>; 2])>,
    /// Variables that locked instructions change.
    locked: HashSet<Variable>,
}

/// What is known of a whole file.
struct File<'a> {
    typing: &'a Typing,
    /// Its segments, by their addresses.
    segments: BTreeMap<u64, &'a [u8]>,
    /// Words in which the loader puts addresses of this file: code for libraries finds variables by them.
    slots: HashMap<u64, u64>,
}

/// The addresses of such accesses in the code of a file of these `bytes`, in its own terms.
pub(super) fn accesses(typing: &Typing, bytes: &[u8]) -> BTreeSet<u64> {
    let Some(file) = File::new(typing, bytes) else { return BTreeSet::new() };
    let mut found = Found::default();
    for told in &typing.functions {
        let function = Function::new(&file, told);
        let mut flow = Flow::new(&function);
        flow.follow();
        flow.tell(&mut found);
    }
    let Found { mut told, candidates, locked } = found;
    let counts = |variables: &[Option<Variable>; 2]| variables.iter().flatten().any(|one| locked.contains(one));
    told.extend(candidates.iter().filter(|(_, variables)| counts(variables)).map(|(at, _)| *at));
    told
}

/// Where an access leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reached {
    /// The type of the object.
    pub(super) of: TypeId,
    /// The first byte of it. Elements of arrays count as the first.
    pub(super) at: u64,
    /// What is accessed is atomic by its type.
    pub(super) is_atomic: bool,
}

/// Where the instruction at `counter` leads, which accesses so many bytes.
pub(super) fn reached(typing: &Typing, bytes: &[u8], counter: u64, size: u64) -> Option<Reached> {
    let told = typing.functions.iter().find(|told| told.ranges.iter().any(|range| range.contains(&counter)))?;
    let file = File::new(typing, bytes)?;
    let function = Function::new(&file, told);
    let mut flow = Flow::new(&function);
    flow.follow();
    let pointer = flow.pointer_at(counter)?;
    let is_atomic = pointer.leaf(typing, size as usize).shared == Shared::Atomic;
    Some(Reached { of: pointer.of, at: u64::try_from(pointer.at).ok()?, is_atomic })
}

/// Words of the file in which the loader puts addresses of it, with those.
fn slots(file: &object::File<'_>) -> HashMap<u64, u64> {
    let symbols = file.dynamic_symbol_table();
    let address = |relocation: &object::Relocation| match (relocation.flags(), relocation.target()) {
        (RelocationFlags::Elf { r_type: R_X86_64_RELATIVE }, _) => u64::try_from(relocation.addend()).ok(),
        (RelocationFlags::Elf { r_type: R_X86_64_GLOB_DAT }, RelocationTarget::Symbol(symbol)) => {
            let symbol = symbols.as_ref()?.symbol_by_index(symbol).ok()?;
            Some(symbol.address()).filter(|address| *address != 0)
        }
        _ => None,
    };
    let relocations = file.dynamic_relocations().into_iter().flatten();
    relocations.filter_map(|(at, relocation)| Some((at, address(&relocation)?))).collect()
}

impl<'a> File<'a> {
    fn new(typing: &'a Typing, bytes: &'a [u8]) -> Option<Self> {
        let file = object::File::parse(bytes).ok()?;
        let segments = file.segments().filter_map(|segment| Some((segment.address(), segment.data().ok()?))).collect();
        Some(Self { typing, segments, slots: slots(&file) })
    }

    /// The code at these addresses.
    fn code(&self, range: &Range<u64>) -> Option<&'a [u8]> {
        let (first, bytes) = self.segments.range(..=range.start).next_back()?;
        bytes.get((range.start - first) as usize..usize::try_from(range.end - first).ok()?)
    }
}

impl Found {
    /// Takes in that the instruction at `at` accesses something, by a locked instruction or not.
    fn add(&mut self, at: u64, accessed: Accessed, locked: bool) {
        if locked {
            self.locked.extend(accessed.variables.iter().flatten());
            return;
        }
        match accessed.shared {
            Shared::No if accessed.variables != [None; 2] && !accessed.own => {
                self.candidates.push((at, accessed.variables));
            }
            Shared::No => {}
            Shared::Volatile if accessed.own => {}
            Shared::Volatile | Shared::Atomic => _ = self.told.insert(at),
        }
    }
}

/// A pointer: the type of what it leads to, and to which byte of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pointer {
    of: TypeId,
    at: i64,
}

impl Pointer {
    /// What lies there, of so many bytes.
    fn leaf(self, typing: &Typing, bytes: usize) -> Leaf {
        u64::try_from(self.at).map(|at| typing.types.leaf(self.of, at, bytes as u64)).unwrap_or_default()
    }

    /// The same in an object behind those that it lies before.
    fn wrapped(self, typing: &Typing) -> Self {
        let size = i64::try_from(typing.types.size(self.of)).unwrap_or(0);
        Self { at: self.at.checked_rem_euclid(size).unwrap_or(self.at), ..self }.moved(0, typing)
    }

    /// So many bytes from there; elements of arrays are all alike.
    fn moved(self, by: i64, typing: &Typing) -> Self {
        Self { at: typing.types.canonical(self.of, self.at.wrapping_add(by)), ..self }
    }
}
