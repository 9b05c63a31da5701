//! Which races are none because both sides are atomic accesses, and which may be.
//!
//! On x86-64 an atomic load and most atomic stores are plain moves, so the process that
//! replays can't tell. Debug information often can: the variable's type is an atomic one, or
//! the access was inlined from the library's atomics; or the user says so. Two atomic accesses do not race; an
//! atomic one and a plain one do. Without debug information nobody can tell, and the report says that.

use super::{Access, Object, Race};
use crate::annotations::Annotations;
use crate::names::{base_name, is_atomic_operation};
use crate::places::{is_system_module, plain};
use crate::raw::{AccessKind, RaceKind};

/// A library that does nothing else, for those that no instruction does.
const ATOMIC_LIBRARY: &str = "libatomic.so";

/// Whether debug information or the user says that both accesses are atomic operations.
pub(super) fn are_both(race: &Race, annotations: &Annotations) -> bool {
    let declared = match &race.object {
        Object::Global(global) | Object::ThreadLocal { variable: Some(global), .. } => global.atomic,
        Object::Stack { local, .. } => local.as_ref().is_some_and(|local| local.atomic),
        Object::Heap(_) | Object::Unknown | Object::ThreadLocal { variable: None, .. } => false,
    };
    let one = |access| is_atomic(access) || annotations.name_place_of(access);
    race.kind == RaceKind::Data && (declared || annotations.name_data(race) || race.accesses.iter().all(one))
}

/// The instructions of such races of heap blocks: elsewhere they do the same to other blocks, of which races of the same
/// instructions were not told. What libraries do for everybody stands for nothing.
pub(super) fn instructions(atomic: &[Race]) -> Vec<u64> {
    let of_heap = atomic.iter().filter(|race| matches!(race.object, Object::Heap(_)));
    let accesses = of_heap.flat_map(|race| &race.accesses);
    let own = accesses.filter(|access| access.stack.first().is_some_and(|frame| !is_system_module(frame)));
    own.map(|access| access.counter).collect()
}

/// Why both may be for all that is known, if that is so.
pub(super) fn doubt(race: &Race) -> Option<&'static str> {
    let unclear = |access: &Access| is_atomic(access) || may_be(access);
    (race.kind == RaceKind::Data && race.accesses.iter().all(unclear))
        .then_some("without debug information, atomic loads and stores look like this, too")
}

fn is_atomic(access: &Access) -> bool {
    let innermost = access.stack.first();
    let function = innermost.and_then(|frame| frame.function.as_deref()).unwrap_or_default();
    let module = innermost.and_then(|frame| frame.module.as_deref()).map(base_name).unwrap_or_default();
    let name = plain(function);
    matches!(access.kind, AccessKind::AtomicRead | AccessKind::AtomicWrite)
        || access.typed_atomic
        || is_atomic_operation(&name)
        || module.starts_with(ATOMIC_LIBRARY)
}

/// A move as atomic operations make it, of which no line is known that could tell.
fn may_be(access: &Access) -> bool {
    let told = access.stack.first().is_none_or(|frame| frame.line.is_some() || is_system_module(frame));
    !told && matches!(access.size, 1 | 2 | 4 | 8) && access.address.is_multiple_of(access.size)
}
