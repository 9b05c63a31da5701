//! The check before a masked access: its mask becomes a span of bytes, and that is
//! checked as a group's is.
//!
//! Apart from the other checks because the span is known only then. libc copies and
//! compares small pieces of memory this way, so it may not leave the cache.

use crate::check::byte_of;
use crate::classify::Piece;
use crate::layout::{WRITTEN_BIT, begin, ones, tool, word};
use crate::processor::Bits;
use crate::routines::Routine;
use crate::what::{Class, Kind, What};
use relive_dbi::{Assembler, Condition, Gpr, Inserter, Operand};

/// The most bytes whose bits one load of the shadow has, whatever the first one is.
const CHECKED: u8 = 57;

/// Whether there is such a check.
pub(crate) fn can(what: What) -> bool {
    matches!(what.class, Class::Masked | Class::MaskedBySigns)
        && matches!(what.element, 1 | 2 | 4 | 8)
        && what.kind != Kind::Locked
}

/// Writes the check.
pub(crate) fn insert(bits: Bits, insert: &mut Inserter<'_, '_>, piece: &Piece<'_>) {
    let mut scratch = || insert.scratch().expect("one of four registers");
    let (address, span, place, count) = (scratch(), scratch(), scratch(), scratch());
    // What fs adds to an address takes a register for a moment.
    insert.give_back(span);
    let found = insert.address(&piece.access, address);
    assert!(found, "an address that no vector has");
    let again = insert.scratch();
    assert_eq!(again, Some(span), "it was given back");
    insert.clobber_flags();
    let what = piece.what;
    let code = insert.code();
    span_of(code, span, place, what);
    let extent = what.element * what.lanes;
    if extent > CHECKED {
        code.test_with(span, span);
    } else {
        byte_of(code, bits, place, address);
        if what.kind == Kind::Write {
            code.set_bit(place, WRITTEN_BIT);
        }
        code.copy(count, address);
        code.and_short(count, 7);
        code.shifted_right(count, Operand::area_at(place, begin(what.kind)), count);
        code.not(count);
        code.test_with(count, span);
    }
    insert.aside(Condition::NotEqual, |aside| {
        aside.write(|code| {
            code.store(tool(word::ADDRESS), address);
            code.store(tool(word::SPAN), span);
        });
        aside.routine(Routine::Other(what.kind).number(), place);
    });
}

/// Writes code that makes `span` the bytes that are accessed, from the address on. Changes flags.
fn span_of(code: &mut Assembler<'_>, span: Gpr, other: Gpr, what: What) {
    match what.class {
        Class::Masked => code.from_mask(span, what.register, what.lanes > 16),
        _ => code.from_signs(span, what.register, what.element),
    }
    // The mask may have bits beyond the elements.
    if what.lanes < 64 {
        code.constant(other, ones(what.lanes.into()));
        code.and_with(span, other);
    }
    if what.element > 1 {
        let which = what.element.trailing_zeros() as usize - 1;
        code.deposit(span, span, tool(word::ELEMENTS + which));
        code.multiply_by(span, ones(what.element.into()) as i32);
    }
}
