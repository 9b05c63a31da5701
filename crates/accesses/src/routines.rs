//! The routines that all blocks share: what happens where a check did not pass.
//!
//! There is one for each usual size that is read or written, one of each kind for all
//! other sizes, one for what locked instructions touch, two for calls that are
//! followed, and one for repeated stores. The block left the address in a word of the
//! tool.

pub(crate) mod run;

use crate::calls::FLOATING;
use crate::check::{Manner, index_of, line_at, to_written, written_at};
use crate::layout::{LINE_BITS, RECENT, plain_at, span_word, tool, word};
use crate::processor::Bits;
use crate::tables::{FILTER_BITS, PLACE_BITS, SOME_CONTESTED, SOME_WATCHED};
use crate::what::{Class, Kind, What};
use relive_dbi::{Assembler, Condition, Forward, Gpr, Operand, RoutineWriter};

/// The usual sizes, as powers of two from 1 on.
const SIZES: usize = 7;

/// A routine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Routine {
    /// For so many bytes, as a power of two.
    Usual(Kind, usize),
    /// For the bytes in the tool's word `SPAN`.
    Other(Kind),
    Locked,
    /// A followed function returns.
    Returned,
    /// Another call is about to be followed.
    Left,
    /// A repeated store.
    Run,
}

impl Routine {
    /// The routine for an access, of so many bytes if that is a usual number.
    pub(crate) fn of(kind: Kind, usual: Option<u32>) -> Self {
        match (kind, usual) {
            (Kind::Locked, _) => Self::Locked,
            (_, Some(bytes)) => Self::Usual(kind, bytes.trailing_zeros() as usize),
            (_, None) => Self::Other(kind),
        }
    }

    /// Its number, in the order in which [`write`] writes them.
    pub(crate) fn number(self) -> usize {
        match self {
            Self::Usual(kind, size) => kind as usize * SIZES + size,
            Self::Other(kind) => 2 * SIZES + kind as usize,
            Self::Locked => 2 * SIZES + 2,
            Self::Returned => 2 * SIZES + 3,
            Self::Left => 2 * SIZES + 4,
            Self::Run => 2 * SIZES + 5,
        }
    }
}

/// Writes all of them. Where single accesses count (`how.exact`), some bytes of a watched line may pass, others not.
pub(crate) fn write(w: &mut RoutineWriter<'_, '_>, how: Manner) {
    for kind in [Kind::Read, Kind::Write] {
        for size in 0..SIZES {
            usual(w, how, kind, Some(size));
        }
    }
    for kind in [Kind::Read, Kind::Write] {
        usual(w, how, kind, None);
    }
    locked(w);
    returned(w, how);
    left(w);
    run::write(w, how);
}

const ADDRESS: Gpr = Gpr::RAX;
/// The bits of the access within its line. rcx, because shifts without BMI2 count there.
const MASK: Gpr = Gpr::RCX;
const INDEX: Gpr = Gpr::RDX;
const TEMPORARY: Gpr = Gpr::RSI;
const OTHER: Gpr = Gpr::RDI;

/// Notes the bytes in one line, or in two.
fn usual(w: &mut RoutineWriter<'_, '_>, how: Manner, kind: Kind, size: Option<usize>) {
    let number = w.begin(5);
    debug_assert_eq!(number, size.map_or(Routine::Other(kind), |size| Routine::Usual(kind, size)).number());
    let span = tool(size.and_then(|size| span_word(1 << size)).unwrap_or(word::SPAN));
    let code = w.code();
    code.load(ADDRESS, tool(word::ADDRESS));
    shift_left(code, how.bits, span);
    let mut leaves = [const { None }; 6];
    let (first, second) = leaves.split_at_mut(3);
    mark(code, how, kind, first);
    if size != Some(0) {
        // The bits behind the line's end, moved to the beginning of the next.
        code.copy(TEMPORARY, ADDRESS);
        code.negate(TEMPORARY);
        let aligned = bits_behind(code, how.bits, span);
        mark(code, how, kind, second);
        for forward in aligned {
            code.bind(forward);
        }
    }
    w.back();
    leave(w, leaves, What::new(size.map_or(Class::Span, |_| Class::Plain), kind, size.map_or(1, |size| 1 << size)));
}

/// Makes [`MASK`] the span from the address on.
fn shift_left(code: &mut Assembler<'_>, bits: Bits, span: Operand) {
    if bits == Bits::Plain {
        code.copy(MASK, ADDRESS);
        code.load(TEMPORARY, span);
        // shl rsi, cl
        code.bytes(&[0x48, 0xD3, 0xE6]);
        code.copy(MASK, TEMPORARY);
    } else {
        code.shifted_left(MASK, span, ADDRESS);
    }
}

/// Makes [`MASK`] what of the span is behind the line's end, and [`ADDRESS`] one in the next line. Branches on where
/// nothing is.
fn bits_behind(code: &mut Assembler<'_>, bits: Bits, span: Operand) -> [Forward; 2] {
    // Where the address is that of the line, all bits are in it; a shift by 64 would be one by 0.
    code.test_register(ADDRESS, 63);
    let aligned = code.jump_if(Condition::Equal);
    if bits == Bits::Plain {
        code.copy(MASK, TEMPORARY);
        code.load(TEMPORARY, span);
        // shr rsi, cl
        code.bytes(&[0x48, 0xD3, 0xEE]);
        code.copy(MASK, TEMPORARY);
    } else {
        code.shifted_right(MASK, span, TEMPORARY);
    }
    code.test_with(MASK, MASK);
    let nothing = code.jump_if(Condition::Equal);
    code.lea(ADDRESS, Operand::at(ADDRESS, 64));
    [aligned, nothing]
}

/// Sets [`MASK`] in the line of [`ADDRESS`], and logs the line if it had no bits. Branches to where a visit must do it.
fn mark(code: &mut Assembler<'_>, how: Manner, kind: Kind, leaves: &mut [Option<Forward>]) {
    index_of(code, how.bits, INDEX, ADDRESS);
    // Otherwise a line that has bits is none to look at twice.
    let special = how.exact.then(|| if_special(code));
    code.compare_with_zero(line_at(INDEX));
    let known = code.jump_if(Condition::NotEqual);
    let [watched, contested] = special.unwrap_or_else(|| {
        let branches = if_special(code);
        note_plain(code);
        branches
    });
    code.load(TEMPORARY, tool(word::LOG_NEXT));
    code.compare(TEMPORARY, tool(word::LOG_END));
    let full = code.jump_if(Condition::AboveOrEqual);
    // First the log: a signal that strikes in between makes the access happen again.
    code.store(Operand::at(TEMPORARY, 0), ADDRESS);
    code.lea(TEMPORARY, Operand::at(TEMPORARY, 8));
    code.store(tool(word::LOG_NEXT), TEMPORARY);
    code.bind(known);
    code.or_to(line_at(INDEX), MASK);
    if kind == Kind::Write {
        to_written(code, INDEX);
        code.or_to(written_at(INDEX), MASK);
    }
    for (place, branch) in leaves.iter_mut().zip([watched, contested, full]) {
        *place = Some(branch);
    }
}

/// Branches where the line of [`ADDRESS`], with its [`INDEX`], may be watched or contested.
fn if_special(code: &mut Assembler<'_>) -> [Forward; 2] {
    code.load(TEMPORARY, tool(word::SPECIAL));
    code.test(Operand::at(TEMPORARY, 0), SOME_CONTESTED | SOME_WATCHED);
    let usual = code.jump_if(Condition::Equal);
    code.test(Operand::at(TEMPORARY, 0), SOME_WATCHED);
    let unwatched = code.jump_if(Condition::Equal);
    code.copy(TEMPORARY, ADDRESS);
    code.shift_right(TEMPORARY, LINE_BITS as u8);
    code.multiply(TEMPORARY, tool(word::SPREAD));
    code.shift_right(TEMPORARY, 64 - FILTER_BITS as u8);
    code.load(OTHER, tool(word::FILTER));
    code.test_bit(Operand::at(OTHER, 0), TEMPORARY);
    let watched = code.jump_if(Condition::Below);
    code.bind(unwatched);
    code.copy(TEMPORARY, INDEX);
    code.shift_right(TEMPORARY, (PLACE_BITS - LINE_BITS) as u8);
    code.load(OTHER, tool(word::CONTESTED));
    code.test_bit(Operand::at(OTHER, 0), TEMPORARY);
    let contested = code.jump_if(Condition::Below);
    code.bind(usual);
    [watched, contested]
}

/// Notes that the place of [`ADDRESS`] is plain, unless there are watched lines: the place is not contested.
fn note_plain(code: &mut Assembler<'_>) {
    code.load(TEMPORARY, tool(word::SPECIAL));
    code.test(Operand::at(TEMPORARY, 0), SOME_WATCHED);
    let watched = code.jump_if(Condition::NotEqual);
    code.copy(TEMPORARY, ADDRESS);
    code.shift_right(TEMPORARY, PLACE_BITS as u8);
    code.copy(OTHER, TEMPORARY);
    code.and_short(OTHER, word::PLAIN_COUNT as u32 - 1);
    code.store(plain_at(OTHER), TEMPORARY);
    code.bind(watched);
}

/// Notes what a locked instruction touches, unless it was among the last that did. The span has as many ones as it
/// touches bytes.
fn locked(w: &mut RoutineWriter<'_, '_>) {
    let number = w.begin(5);
    debug_assert_eq!(number, Routine::Locked.number());
    let code = w.code();
    code.load(ADDRESS, tool(word::ADDRESS));
    code.load(TEMPORARY, tool(word::SPECIAL));
    code.test(Operand::at(TEMPORARY, 0), SOME_WATCHED);
    let usual = code.jump_if(Condition::Equal);
    // Where anything is watched a visit finds out whether this is: locked instructions are slow by themselves.
    let special = code.jump();
    code.bind(usual);
    code.load(MASK, tool(word::KEY));
    code.lea(MASK, Operand::indexed(Some(MASK), ADDRESS, 1, 0));
    code.copy(INDEX, ADDRESS);
    code.and_short(INDEX, RECENT as u32 - 1);
    code.load(OTHER, tool(word::RECENT));
    code.lea(OTHER, Operand::indexed(Some(OTHER), INDEX, 8, 0));
    code.compare(MASK, Operand::at(OTHER, 0));
    let known = code.jump_if(Condition::Equal);
    code.load(TEMPORARY, tool(word::LOCKED_NEXT));
    code.compare(TEMPORARY, tool(word::LOCKED_END));
    let full = code.jump_if(Condition::AboveOrEqual);
    code.store(Operand::at(TEMPORARY, 0), MASK);
    code.lea(TEMPORARY, Operand::at(TEMPORARY, 8));
    code.store(tool(word::LOCKED_NEXT), TEMPORARY);
    code.store(Operand::at(OTHER, 0), MASK);
    code.bind(known);
    w.back();
    leave(w, [Some(special), Some(full)], What::new(Class::Keyed, Kind::Locked, 1));
}

/// A visit does all of it: where nobody asks for registers, and none has a result but rax and rdx, plainly.
fn returned(w: &mut RoutineWriter<'_, '_>, how: Manner) {
    let number = w.begin(1);
    debug_assert_eq!(number, Routine::Returned.number());
    let what = What::new(Class::Returned, Kind::Read, 0);
    if how.exact {
        return leave(w, [], what);
    }
    let code = w.code();
    // The highest byte of the word's lower half.
    code.test(Operand::area(relive_dbi::tool_offset(word::FUNCTION) as usize + 3), (FLOATING >> 24) as u8);
    let floating = code.jump_if(Condition::NotEqual);
    code.constant(ADDRESS, what.pack());
    code.store(tool(word::WHAT), ADDRESS);
    w.leave_plainly();
    leave(w, [Some(floating)], what);
}

/// A visit does all of it.
fn left(w: &mut RoutineWriter<'_, '_>) {
    let number = w.begin(1);
    debug_assert_eq!(number, Routine::Left.number());
    leave(w, [], What::new(Class::Left, Kind::Read, 0));
}

/// Where a visit does what is left.
fn leave<const N: usize>(w: &mut RoutineWriter<'_, '_>, branches: [Option<Forward>; N], what: What) {
    let packed = what.pack();
    let code = w.code();
    branches.into_iter().flatten().for_each(|branch| code.bind(branch));
    code.constant(ADDRESS, packed);
    code.store(tool(word::WHAT), ADDRESS);
    w.leave();
}
