//! Variables on a thread's stack, found by the frame that they belong to.
//!
//! A variable is known only where its place follows from the frame base (`DW_OP_fbreg`) and
//! that from the canonical frame address, as compilers lay out what has its address taken;
//! nothing else is seen by two threads.

use super::dwarf::{Debug, Entries, Entry};
use super::variables::{self, Variable};

/// What a frame pointer lies below the canonical frame address, where a function keeps one.
const FRAME_POINTER_BELOW: u64 = 16;

/// The variable at `address` in the frame of the function at `counter` (in the file's own terms), whose
/// canonical frame address is `frame`; with the function's name.
pub(super) fn find(debug: &Debug, counter: u64, frame: u64, address: u64) -> Option<(String, Variable)> {
    let unit = debug.unit_of(counter)?;
    let entries = debug.entries();
    let function = function(&entries, &entries.root(unit)?, counter)?;
    let base = frame_base(&function, frame)?;
    let found = search(&entries, &function, base, address)?;
    Some((entries.name(&function)?, found))
}

/// The innermost function, not inlined, that holds `counter`.
fn function<'a>(entries: &Entries<'a>, root: &Entry<'a>, counter: u64) -> Option<Entry<'a>> {
    let mut cursor = root.unit.entries();
    let mut found = None;
    while let Ok(Some((_, entry))) = cursor.next_dfs() {
        if entry.tag() == gimli::DW_TAG_subprogram {
            let entry = root.sibling(entry.offset());
            if entries.holds(&entry, counter) {
                found = Some(entry);
            }
        }
    }
    found
}

fn frame_base(function: &Entry<'_>, frame: u64) -> Option<u64> {
    let expression = function.value(gimli::DW_AT_frame_base)?.exprloc_value()?;
    match expression.operations(function.unit.encoding()).next().ok()?? {
        gimli::Operation::CallFrameCFA => Some(frame),
        gimli::Operation::Register { register: gimli::X86_64::RBP } => frame.checked_sub(FRAME_POINTER_BELOW),
        _ => None,
    }
}

/// The variable of `within`, or of a block or inlined function in it, that holds `address`.
fn search<'a>(entries: &Entries<'a>, within: &Entry<'a>, base: u64, address: u64) -> Option<Variable> {
    within.children().into_iter().find_map(|child| match child.tag()? {
        gimli::DW_TAG_variable | gimli::DW_TAG_formal_parameter => {
            let start = place(&child, base)?;
            let mut found = variables::variable(entries, &child, address.checked_sub(start)?)?;
            found.address = start;
            Some(found)
        }
        gimli::DW_TAG_lexical_block | gimli::DW_TAG_inlined_subroutine => search(entries, &child, base, address),
        _ => None,
    })
}

fn place(variable: &Entry<'_>, base: u64) -> Option<u64> {
    let expression = variable.value(gimli::DW_AT_location)?.exprloc_value()?;
    let mut operations = expression.operations(variable.unit.encoding());
    let gimli::Operation::FrameOffset { offset } = operations.next().ok()?? else { return None };
    operations.next().ok()?.is_none().then(|| base.wrapping_add_signed(offset))
}
