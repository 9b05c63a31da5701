//! What instructions read and write, in the terms of the walk: registers by the
//! processor's numbers, flags as the kernel keeps them.

use iced_x86::{Mnemonic, OpAccess, Register};

/// The processor's number of the general register that this one is a part of.
pub(super) fn number(register: Register) -> Option<usize> {
    register.is_gpr().then(|| register.full_register().number())
}

pub(super) fn vector(register: Register) -> Option<usize> {
    register.is_vector_register().then(|| register.number()).filter(|&number| number < 16)
}

/// Instructions on vectors that write the lower half, which is compared, and read what they write for the rest only.
pub(super) fn keeps_half(mnemonic: Mnemonic) -> bool {
    use Mnemonic::{
        Cvtsd2ss, Cvtsi2sd, Cvtsi2ss, Cvtss2sd, Movhlps, Movlpd, Movlps, Movsd, Movss, Rcpss, Roundsd, Roundss,
        Rsqrtss, Sqrtsd, Sqrtss,
    };
    matches!(
        mnemonic,
        Cvtsd2ss
            | Cvtsi2sd
            | Cvtsi2ss
            | Cvtss2sd
            | Movhlps
            | Movlpd
            | Movlps
            | Movsd
            | Movss
            | Rcpss
            | Roundsd
            | Roundss
            | Rsqrtss
            | Sqrtsd
            | Sqrtss
    )
}

pub(super) fn reads(access: OpAccess) -> bool {
    matches!(access, OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

pub(super) fn writes(access: OpAccess) -> bool {
    matches!(access, OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite)
}

/// The decoder's flags as they stand in the register.
pub(super) fn kernel_flags(bits: u64) -> u64 {
    const PAIRS: [(u32, u64); 6] = [
        (iced_x86::RflagsBits::CF, 0x1),
        (iced_x86::RflagsBits::PF, 0x4),
        (iced_x86::RflagsBits::AF, 0x10),
        (iced_x86::RflagsBits::ZF, 0x40),
        (iced_x86::RflagsBits::SF, 0x80),
        (iced_x86::RflagsBits::OF, 0x800),
    ];
    PAIRS.iter().filter(|(theirs, _)| bits & u64::from(*theirs) != 0).fold(0, |flags, (_, ours)| flags | ours)
}
