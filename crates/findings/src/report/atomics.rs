//! Which races may be none because both sides are atomic accesses.
//!
//! On x86-64 an atomic load and most atomic stores are plain moves, so the process that
//! replays can't tell. Debug information often can: the variable's type is an atomic one, or
//! the access was inlined from the library's atomics; or the user says so. Two atomic accesses do not race; an
//! atomic one and a plain one do.

use super::{Access, Object, Race};
use crate::annotations::Annotations;
use crate::places::is_system_module;
use crate::raw::{AccessKind, Certainty, RaceKind};

/// What atomic operations of C++ and Rust are inlined from.
const ATOMIC_FUNCTIONS: [&str; 6] = [
    "std::atomic<",
    "std::__atomic_base<",
    "std::__atomic_float<",
    "std::atomic_flag::",
    "core::sync::atomic::",
    "std::atomic_",
];

/// Makes a race a possible one where debug information says that it is none.
pub(super) fn classify(race: &mut Race, annotations: &Annotations) {
    race.atomic = reason(race, annotations);
    if race.atomic.is_some() {
        race.certainty = Certainty::PossibleAtomic;
    }
}

/// The instructions of such races of heap blocks: elsewhere they do the same to other blocks, of which races of the same
/// instructions were not told. What libraries do for everybody stands for nothing.
pub(super) fn instructions(races: &[Race]) -> Vec<u64> {
    let of_heap = races.iter().filter(|race| race.atomic.is_some() && matches!(race.object, Object::Heap(_)));
    let accesses = of_heap.flat_map(|race| &race.accesses);
    let own = accesses.filter(|access| access.stack.first().is_some_and(|frame| !is_system_module(frame)));
    own.map(|access| access.counter).collect()
}

fn reason(race: &Race, annotations: &Annotations) -> Option<&'static str> {
    if race.kind != RaceKind::Data {
        return None;
    }
    let declared = match &race.object {
        Object::Global(global) => global.atomic,
        Object::Stack { local, .. } => local.as_ref().is_some_and(|local| local.atomic),
        Object::Heap(_) | Object::Unknown => false,
    };
    if declared {
        return Some("it is declared atomic");
    }
    if annotations.name_data(race) {
        return Some("an annotation says that it is");
    }
    let [first, second] = &race.accesses;
    if is_atomic(first) && is_atomic(second) {
        return Some("both are atomic operations of the source");
    }
    let annotated = race.accesses.iter().all(|access| is_atomic(access) || annotations.name_place_of(access));
    annotated.then_some("an annotation says that its accesses are atomic operations")
}

fn is_atomic(access: &Access) -> bool {
    let innermost = access.stack.first().and_then(|frame| frame.function.as_deref()).unwrap_or_default();
    let plain = crate::places::plain(innermost);
    matches!(access.kind, AccessKind::AtomicRead | AccessKind::AtomicWrite)
        || ATOMIC_FUNCTIONS.iter().any(|start| plain.starts_with(start))
}
