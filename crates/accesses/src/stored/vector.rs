//! What instructions store that lay vectors down as they are, or parts of them.
//!
//! Apart from integers because nothing that stands in memory before has a part in it.

use super::{Stored, instruction};
use iced_x86::{Instruction, Mnemonic as M, OpKind, Register};
use relive_dbi::{Context, Gpr, Visit};

/// Bytes of the part that an immediate chooses.
fn part(mnemonic: M) -> Option<usize> {
    Some(match mnemonic {
        M::Pextrb | M::Vpextrb => 1,
        M::Pextrw | M::Vpextrw => 2,
        M::Pextrd | M::Vpextrd | M::Extractps | M::Vextractps => 4,
        M::Pextrq | M::Vpextrq => 8,
        M::Vextractf128
        | M::Vextracti128
        | M::Vextractf32x4
        | M::Vextractf64x2
        | M::Vextracti32x4
        | M::Vextracti64x2 => 16,
        M::Vextractf32x8 | M::Vextractf64x4 | M::Vextracti32x8 | M::Vextracti64x4 => 32,
        _ => return None,
    })
}

/// Which operand holds the data of a store that changes nothing of it.
fn data(mnemonic: M) -> Option<u32> {
    match mnemonic {
        M::Movaps
        | M::Movapd
        | M::Movups
        | M::Movupd
        | M::Movdqa
        | M::Movdqu
        | M::Movntps
        | M::Movntpd
        | M::Movntdq
        | M::Vmovaps
        | M::Vmovapd
        | M::Vmovups
        | M::Vmovupd
        | M::Vmovdqa
        | M::Vmovdqu
        | M::Vmovdqa32
        | M::Vmovdqa64
        | M::Vmovdqu8
        | M::Vmovdqu16
        | M::Vmovdqu32
        | M::Vmovdqu64
        | M::Vmovntps
        | M::Vmovntpd
        | M::Vmovntdq
        | M::Maskmovdqu
        | M::Vmaskmovdqu => Some(1),
        M::Vmaskmovps | M::Vmaskmovpd | M::Vpmaskmovd | M::Vpmaskmovq => Some(2),
        _ => None,
    }
}

/// The vector register that is this operand.
fn vector(visit: &Visit<'_>, instruction: &Instruction, operand: u32) -> Option<[u8; 64]> {
    let register = (operand < instruction.op_count()).then(|| instruction.op_register(operand))?;
    register.is_vector_register().then(|| visit.vector(register.number()))
}

/// Of a store to bytes side by side, those from `address` on, which need not be the first: wide ones come in parts.
pub(super) fn whole(visit: &Visit<'_>, context: &Context, instruction: &Instruction, address: u64) -> Stored {
    let mnemonic = instruction.mnemonic();
    let register = |operand| vector(visit, instruction, operand);
    let bytes = if let Some(bytes) = part(mnemonic) {
        let number = instruction.try_immediate(2).map_or(0, |number| number as usize);
        register(1).map(|mut vector| {
            vector.rotate_left(number * bytes % 64);
            vector
        })
    } else {
        data(mnemonic).and_then(register)
    };
    let first = begin(context, instruction).unwrap_or(address);
    match (bytes, address.wrapping_sub(first)) {
        (Some(bytes), offset @ 0..64) => Stored::Bytes(bytes).behind(offset),
        _ => Stored::Unknown,
    }
}

/// The address of the operand in memory, if registers tell.
fn begin(context: &Context, instruction: &Instruction) -> Option<u64> {
    if instruction.op0_kind() != OpKind::Memory {
        return None;
    }
    instruction.virtual_address(0, 0, |register, _, _| {
        if matches!(register, Register::DS | Register::ES | Register::SS | Register::CS) {
            return Some(0);
        }
        Gpr::containing(register).map(|register| context.general[usize::from(register.number())])
    })
}

/// Of a store by a mask, which changes the place of none of its bytes.
pub(crate) fn spanned(visit: &Visit<'_>, context: &Context) -> Stored {
    let instruction = instruction(context);
    data(instruction.mnemonic())
        .and_then(|operand| vector(visit, &instruction, operand))
        .map_or(Stored::Unknown, Stored::Bytes)
}

/// Of elements, of so many bytes each, that a mask chooses from the instruction's second operand: these side by side.
pub(crate) fn packed(visit: &Visit<'_>, context: &Context, lanes: impl Iterator<Item = usize>, bytes: usize) -> Stored {
    let instruction = instruction(context);
    let Some(data) = vector(visit, &instruction, 1) else { return Stored::Unknown };
    let mut there = [0; 64];
    let chosen = lanes.filter_map(|lane| data.chunks_exact(bytes).nth(lane));
    there.chunks_exact_mut(bytes).zip(chosen).for_each(|(place, element)| place.copy_from_slice(element));
    Stored::Bytes(there)
}
