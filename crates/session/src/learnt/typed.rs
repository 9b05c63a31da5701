//! Accesses of C to what threads share, found by types.
//!
//! What `atomic_load` does in C, or whoever reads a volatile variable, is a plain instruction in
//! the function that does it: only the type of what it accesses tells. So code is read as
//! a compiler's back end sees it: each register that holds a pointer has a type, from the
//! variables that debug information places in registers and on the stack
//! (`relive_findings::names::Typing`), through loads of members that are pointers themselves,
//! address arithmetic and copies, along all paths of a function. An access of a whole atomic
//! or volatile scalar counts; of a variable on the own stack only if it is atomic, or its address is taken.
//!
//! A variable that is changed by a locked instruction anywhere in the file is one by which threads hand over,
//! whatever its type (RecPlay, section 3, of what a detector sees): other accesses of it count as well. It is one by its
//! address, or by the member of a type that it is.
//!
//! Nothing of that has to be certain: an access too many costs an event, one too few has to be learnt.

mod flow;
mod function;

use flow::Flow;
use function::Function;
use relive_findings::names::{Leaf, Shared, TypeId, Typing};
use std::collections::{BTreeSet, HashMap, HashSet};
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
    /// Accesses that count.
    places: BTreeSet<u64>,
    /// Those that count if one of these variables does.
    others: Vec<(u64, [Option<Variable>; 2])>,
    /// Variables that locked instructions change.
    locked: HashSet<Variable>,
}

/// What is known of a whole file.
pub(super) struct File<'t> {
    /// By its debug information.
    pub(super) typing: &'t Typing,
    /// Words in which the loader puts addresses of this file: code for libraries finds variables by them.
    pub(super) slots: HashMap<u64, u64>,
}

/// The addresses of such accesses in a file's code, in its own terms; `code_of` finds the bytes at some addresses.
pub(super) fn places<'c>(file: &File<'_>, code_of: impl Fn(&Range<u64>) -> Option<&'c [u8]>) -> BTreeSet<u64> {
    let mut found = Found::default();
    for told in &file.typing.functions {
        let function = Function::new(file, told, &code_of);
        Flow::new(&function).run(&mut found);
    }
    let Found { mut places, others, locked } = found;
    let counts = |variables: &[Option<Variable>; 2]| variables.iter().flatten().any(|one| locked.contains(one));
    places.extend(others.iter().filter(|(_, variables)| counts(variables)).map(|(at, _)| *at));
    places
}

impl Found {
    /// Takes in that the instruction at `at` accesses something, by a locked instruction or not.
    fn add(&mut self, at: u64, accessed: Accessed, locked: bool) {
        let is_shared = match accessed.shared {
            Shared::Atomic => true,
            Shared::Volatile => !accessed.own,
            Shared::No => false,
        };
        if locked {
            self.locked.extend(accessed.variables.iter().flatten());
        } else if is_shared {
            self.places.insert(at);
        } else if accessed.variables != [None; 2] && !accessed.own {
            self.others.push((at, accessed.variables));
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

    /// So many bytes from there; elements of arrays are all alike.
    fn moved(self, by: i64, typing: &Typing) -> Self {
        Self { at: typing.types.canonical(self.of, self.at.wrapping_add(by)), ..self }
    }
}
