//! The check before accesses: code that passes if the bits of all their bytes are set.
//!
//! With `pext`, for eight bytes that are read at [rdi + 8]:
//!
//! ```text
//! lea a, [rdi + 8]
//! pext b, a, [mask]            the line's index; behind this, `bts b, 31` for a write,
//!                              and below another displacement
//! shrx b, [touched + b*8], a   the bits from the first byte on, zeroes behind the line
//! cmp bl, -1
//! jne aside
//! ```
//!
//! So it is for up to 16 bytes; those that lie in two lines are looked for aside. Other
//! wide accesses and groups (see `plan.rs`) would often cross into another line. Theirs
//! takes the shadow by bytes, and so has the bits of at least 57 bytes from any one on:
//!
//! ```text
//! pext b, a, [mask]            which byte of the shadow
//! mov c, a
//! and c, 7
//! shrx c, [touched + b], c
//! ```
//!
//! Aside, a line that has bits already gets some more, in place, and the first touch of
//! a line is logged, if the line is in a place where the thread logged some before and
//! nothing is special. What crosses into another line, and all else, goes to the routine
//! for such accesses, which all blocks share.

use crate::classify::Piece;
use crate::layout::{BYTE_MASK, INDEX_MASK, LINE_BITS, WRITTEN_BIT, begin, ones, plain_at, span_word, tool, word};
use crate::processor::Bits;
use crate::routines::Routine;
use crate::segment::LockedBytes;
use crate::tables::PLACE_BITS;
use crate::what::{Class, Kind};
use iced_x86::Register;
use relive_dbi::{Aside, Assembler, Condition, Forward, Gpr, Inserter, Operand, Place};

/// Where the bits of the line with this index are.
pub(crate) fn line_at(index: Gpr) -> Operand {
    Operand::area_indexed(index, 8, begin(Kind::Read))
}

/// Where the written bits are of the line whose index became this by [`to_written`].
pub(crate) fn written_at(index: Gpr) -> Operand {
    Operand::area_indexed(index, 8, begin(Kind::Write))
}

/// Makes the index of a line that of its written bits, for [`written_at`].
pub(crate) fn to_written(code: &mut Assembler<'_>, index: Gpr) {
    code.set_bit(index, WRITTEN_BIT - 3);
}

/// Writes code that makes `to` the index of the line with the address in `from`. Changes flags.
pub(crate) fn index_of(code: &mut Assembler<'_>, bits: Bits, to: Gpr, from: Gpr) {
    if bits == Bits::Extract {
        return code.extract(to, from, tool(word::MASK));
    }
    code.copy(to, from);
    code.shift_right(to, LINE_BITS as u8);
    code.and_short(to, (INDEX_MASK >> LINE_BITS) as u32);
}

/// Writes code that makes `to` say which byte of the shadow has the first bit. Changes flags.
pub(crate) fn byte_of(code: &mut Assembler<'_>, bits: Bits, to: Gpr, from: Gpr) {
    if bits == Bits::Extract {
        return code.extract(to, from, tool(word::BYTE_MASK));
    }
    code.copy(to, from);
    code.shift_right(to, 3);
    code.and(to, tool(word::BYTE_MASK));
}

/// What the tool's word `BYTE_MASK` is for this way of moving bits.
pub(crate) fn byte_mask(bits: Bits) -> u64 {
    if bits == Bits::Extract { BYTE_MASK } else { BYTE_MASK >> 3 }
}

/// Bytes that are checked together, from an address on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) kind: Kind,
    /// The address, from that of the access at which the check stands.
    pub(crate) offset: i32,
    pub(crate) span: u64,
    /// The address is a multiple of the number of bytes.
    pub(crate) aligned: bool,
}

impl Wanted {
    /// How many bytes, if they have no gaps.
    fn bytes(&self) -> Option<u32> {
        let count = self.span.trailing_ones();
        (self.span == ones(count)).then_some(count)
    }

    /// Bytes from the first to the last.
    fn extent(&self) -> u32 {
        64 - self.span.leading_zeros()
    }

    /// It seldom crosses into another line.
    fn is_small(&self) -> bool {
        match self.bytes() {
            Some(1 | 2 | 4 | 8) => true,
            Some(16 | 32) => self.aligned,
            _ => false,
        }
    }

    /// It does so often enough that it must not be slow then, and seldom enough to be looked for aside.
    fn may_cross(&self) -> bool {
        self.bytes() == Some(16) && !self.aligned
    }
}

/// How checks are written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// How bits move.
    pub(crate) bits: Bits,
    /// Single accesses count: of a watched line, bytes that may pass do not let others pass.
    pub(crate) exact: bool,
}

/// Registers of a check.
struct Borrowed {
    /// What is to be checked. Not its register any more, aside, where that was needed for something else.
    place: Place,
    address: Gpr,
    lost: bool,
    /// Where the bits are, then the bits.
    bits: Gpr,
    /// For something to be computed aside.
    third: Option<Gpr>,
}

/// Writes a check at the access `piece`.
pub(crate) fn insert(how: Manner, insert: &mut Inserter<'_, '_>, piece: &Piece<'_>, wanted: Wanted) {
    let bits = how.bits;
    let place = Place::of(&piece.access, wanted.offset).expect("an address that no vector has");
    let own = place.bare().is_none().then(|| insert.scratch().expect("the first of four registers"));
    let address = own.or(place.bare()).expect("one or the other");
    if own.is_some() {
        let written = insert.write_place(&place, address);
        assert!(written, "one of four registers");
    }
    let bits_register = insert.scratch().expect("one of four registers");
    insert.clobber_flags();
    let checked = wanted.kind != Kind::Locked && bits != Bits::Plain;
    let wide = checked && !wanted.is_small() && (how.exact || !wanted.may_cross());
    // The address can be computed once more where it is needed.
    let lost = wide && own.is_some() && !place.of_fs();
    let count = wide.then(|| if lost { address } else { insert.scratch().expect("one of four registers") });
    let third = count.or(own).or_else(|| insert.scratch_for_nothing());
    let third = third.or_else(|| if checked && wanted.may_cross() { insert.scratch() } else { None });
    let borrowed = Borrowed { place, address, lost, bits: bits_register, third };
    let code = insert.code();
    let condition = match count {
        _ if !checked => {
            // Always: no thread has its stack at 0.
            code.test_with(Gpr::RSP, Gpr::RSP);
            Condition::NotEqual
        }
        Some(count) => test_wide(code, bits, &borrowed, count, &wanted),
        None => test_small(code, bits, &borrowed, &wanted),
    };
    insert.aside(condition, |aside| slow(aside, how, &borrowed, &wanted));
    for register in [Some(bits_register), third, own].into_iter().flatten() {
        insert.give_back(register);
    }
}

/// The condition on which the check of a small access did not pass.
fn test_small(code: &mut Assembler<'_>, how: Bits, borrowed: &Borrowed, wanted: &Wanted) -> Condition {
    let (address, bits) = (borrowed.address, borrowed.bits);
    index_of(code, how, bits, address);
    let at = if wanted.kind == Kind::Write {
        to_written(code, bits);
        written_at(bits)
    } else {
        line_at(bits)
    };
    code.shifted_right(bits, at, address);
    match wanted.span {
        1 => {
            code.test_register(bits, 1);
            Condition::Equal
        }
        0xFF | 0xFFFF | 0xFFFF_FFFF => {
            code.compare_with_ones(bits, wanted.extent() as u8);
            Condition::NotEqual
        }
        span => {
            code.not(bits);
            code.test_register(bits, span as u32);
            Condition::NotEqual
        }
    }
}

/// The condition on which another check did not pass; `count` is a further register.
fn test_wide(code: &mut Assembler<'_>, how: Bits, borrowed: &Borrowed, count: Gpr, wanted: &Wanted) -> Condition {
    let (address, place) = (borrowed.address, borrowed.bits);
    byte_of(code, how, place, address);
    if wanted.kind == Kind::Write {
        code.set_bit(place, WRITTEN_BIT);
    }
    if count != address {
        code.copy(count, address);
    }
    code.and_short(count, 7);
    code.shifted_right(count, Operand::area_at(place, begin(wanted.kind)), count);
    match wanted.bytes() {
        Some(bytes @ (8 | 16 | 32)) => code.compare_with_ones(count, bytes as u8),
        _ if wanted.extent() <= 32 => {
            code.not(count);
            code.test_register(count, wanted.span as u32);
        }
        Some(bytes) => {
            code.not(count);
            code.shift_left(count, 64 - bytes as u8);
        }
        None => {
            code.not(count);
            code.constant(place, wanted.span);
            code.test_with(count, place);
        }
    }
    Condition::NotEqual
}

fn slow(aside: &mut Aside, how: Manner, borrowed: &Borrowed, wanted: &Wanted) {
    if borrowed.lost {
        aside.write(|code| borrowed.place.write_offset(code, borrowed.address));
    }
    if let Some(third) = borrowed.third
        && wanted.kind != Kind::Locked
        && how.bits != Bits::Plain
        && !how.exact
    {
        add_to_line(aside, how.bits, borrowed, third, wanted);
    }
    let usual = wanted.bytes().filter(|bytes| bytes.is_power_of_two());
    aside.write(|code| {
        code.store(tool(word::ADDRESS), borrowed.address);
        if wanted.kind == Kind::Locked {
            let bytes = wanted.bytes().expect("a locked instruction touches bytes side by side") as u8;
            code.constant(borrowed.bits, LockedBytes { address: 0, bytes }.key());
            code.store(tool(word::KEY), borrowed.bits);
        } else if usual.is_none() {
            code.constant(borrowed.bits, wanted.span);
            code.store(tool(word::SPAN), borrowed.bits);
        }
    });
    aside.routine(Routine::of(wanted.kind, usual).number(), borrowed.bits);
}

/// Sets the bits where that is simple, and goes back.
fn add_to_line(aside: &mut Aside, how: Bits, borrowed: &Borrowed, third: Gpr, wanted: &Wanted) {
    let (address, bits) = (borrowed.address, borrowed.bits);
    // A span that is no constant of the tool's needs a register besides the address.
    let word = wanted.bytes().and_then(span_word);
    if word.is_none() && third == address {
        return;
    }
    let shifted = |code: &mut Assembler<'_>| {
        if let Some(word) = word {
            code.shifted_left(third, tool(word), address);
        } else {
            code.constant(third, wanted.span);
            code.shift_left_by(third, address);
        }
    };
    let (first, crosses) = aside.write(|code| {
        let crosses = branch_if_crossing(code, bits, address, wanted.extent());
        index_of(code, how, bits, address);
        code.compare_with_zero(line_at(bits));
        let first = code.jump_if(Condition::Equal);
        shifted(code);
        code.or_to(line_at(bits), third);
        if wanted.kind == Kind::Write {
            to_written(code, bits);
            code.or_to(written_at(bits), third);
        }
        (first, crosses)
    });
    aside.resume();
    // The address makes room for a moment, if it can be computed once more.
    let again = third != address || !borrowed.place.of_fs();
    let mut leave = [crosses, None, None];
    if again
        && wanted.may_cross()
        && let Some(crosses) = leave[0].take()
    {
        leave[0] = Some(aside.write(|code| {
            code.bind(crosses);
            let condition = test_wide(code, how, borrowed, third, wanted);
            code.jump_if(condition)
        }));
        aside.resume();
    }
    aside.write(|code| code.bind(first));
    if again {
        let [unknown, full] = aside.write(|code| {
            let leave = log_plain(code, borrowed, third);
            index_of(code, how, bits, address);
            shifted(code);
            code.store(line_at(bits), third);
            if wanted.kind == Kind::Write {
                to_written(code, bits);
                code.store(written_at(bits), third);
            }
            leave
        });
        aside.resume();
        (leave[1], leave[2]) = (Some(unknown), Some(full));
    }
    aside.write(|code| leave.into_iter().flatten().for_each(|branch| code.bind(branch)));
    if again && third == address {
        aside.write(|code| borrowed.place.write_offset(code, address));
    }
}

/// Branches where so many bytes from `address` on lie in two lines. Changes `bits`.
fn branch_if_crossing(code: &mut Assembler<'_>, bits: Gpr, address: Gpr, extent: u32) -> Option<Forward> {
    match extent {
        1 => return None,
        2 | 4 | 8 => code.test_register(address, extent - 1),
        _ => {
            code.lea(bits, Operand::at(address, extent as i32 - 1));
            code.exclusive_or(bits, address);
            code.test_register(bits, 64);
        }
    }
    Some(code.jump_if(Condition::NotEqual))
}

/// Logs the line, if its place is known to be plain and the log not full; else branches, and has perhaps lost the address
/// if it is `third`. Changes `bits` and `third`, if that is not the address.
fn log_plain(code: &mut Assembler<'_>, borrowed: &Borrowed, third: Gpr) -> [Forward; 2] {
    let (address, bits) = (borrowed.address, borrowed.bits);
    code.copy(bits, address);
    code.shift_right(bits, PLACE_BITS as u8);
    code.copy(third, bits);
    code.and_short(third, word::PLAIN_COUNT as u32 - 1);
    code.compare(bits, plain_at(third));
    let unknown = code.jump_if(Condition::NotEqual);
    code.load(third, tool(word::LOG_NEXT));
    code.compare(third, tool(word::LOG_END));
    let full = code.jump_if(Condition::AboveOrEqual);
    let logged = if third == address { bits } else { address };
    if third == address {
        borrowed.place.write_offset(code, bits);
    }
    // First the log: a signal that strikes in between makes the access happen again.
    code.store(Operand::at(third, 0), logged);
    code.add_to(tool(word::LOG_NEXT), 8);
    fetch_remembered(code, borrowed, third);
    [unknown, full]
}

/// Fetches what the sink remembers of the line that was just logged, at `third`: in a short segment it is asked for before
/// it could be fetched otherwise, in a long one it would be gone by then. Changes `bits` or `third`, whichever is not the
/// address; if `third` should be, it is that again.
fn fetch_remembered(code: &mut Assembler<'_>, borrowed: &Borrowed, third: Gpr) {
    let (address, bits) = (borrowed.address, borrowed.bits);
    code.compare(third, tool(word::SOON));
    let free = if third == address {
        code.copy(address, bits);
        bits
    } else {
        third
    };
    let later = code.jump_if(Condition::AboveOrEqual);
    if free == third {
        code.copy(third, address);
    }
    code.and(free, tool(word::REMEMBERED_MASK));
    code.add_from(free, tool(word::REMEMBERED));
    code.fetch(Operand::at(free, 0));
    code.bind(later);
}

/// Writes code that leaves what a visit needs to find the bytes, and asks for the visit.
pub(crate) fn insert_visit(insert: &mut Inserter<'_, '_>, piece: &Piece<'_>, mask: Option<Register>) {
    let register = insert.scratch().expect("the first of four registers");
    // `xlat` adds al, which is not all of the register that it seems to add.
    let unindexed = piece.access.scattered || piece.what.class == Class::Translate;
    let found = if unindexed {
        insert.address_unindexed(&piece.access, register)
    } else {
        insert.address(&piece.access, register)
    };
    assert!(found, "an address of 64 bits");
    let packed = piece.what.pack();
    let code = insert.code();
    code.store(tool(word::ADDRESS), register);
    if let Some(mask) = mask {
        byte_signs(code, register, mask);
        code.store(tool(word::SPAN), register);
    }
    code.constant(register, packed);
    code.store(tool(word::WHAT), register);
    insert.visit();
}

/// `pmovmskb to, from`.
fn byte_signs(code: &mut Assembler<'_>, to: Gpr, from: Register) {
    if !from.is_mm() {
        code.bytes(&[0x66]);
    }
    let (to, from) = (to.number(), from.number() as u8);
    code.bytes(&[0x40 | to >> 3 << 2 | from >> 3, 0x0F, 0xD7, 0xC0 | (to & 7) << 3 | from & 7]);
}
