//! What this processor can do, asked once: asking takes microseconds in a virtual
//! machine.

use core::arch::x86_64::{__cpuid, __cpuid_count};

/// How bits are moved by a count in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bits {
    /// BMI2, and `pext` takes a step or two.
    Extract,
    /// BMI2, with `pext` in microcode: AMD's before Zen 3.
    Shift,
    /// None of it.
    Plain,
}

/// The parts of the processor's state that `xsave` knows.
pub(crate) const PARTS: usize = 32;

/// What was asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Processor {
    pub(crate) bits: Bits,
    /// Where each part of the state is in the standard form, its bytes, and whether it is aligned in the compact one.
    pub(crate) parts: [(u32, u32, bool); PARTS],
}

impl Processor {
    pub(crate) fn ask() -> Self {
        const BMI2: u32 = 1 << 8;
        let leaves = __cpuid(0).eax;
        let has_bmi2 = leaves >= 7 && __cpuid_count(7, 0).ebx & BMI2 != 0;
        let bits = match has_bmi2 {
            false => Bits::Plain,
            true if is_amd_before_zen3() => Bits::Shift,
            true => Bits::Extract,
        };
        let mut parts = [(0, 0, false); PARTS];
        if leaves >= 0xD {
            for (part, place) in parts.iter_mut().enumerate().skip(2) {
                let found = __cpuid_count(0xD, part as u32);
                *place = (found.ebx, found.eax, found.ecx & 2 != 0);
            }
        }
        Self { bits, parts }
    }
}

fn is_amd_before_zen3() -> bool {
    let maker = __cpuid(0);
    let name = [maker.ebx, maker.edx, maker.ecx].map(u32::to_le_bytes);
    let is_amd = name.as_flattened() == b"AuthenticAMD";
    let family = __cpuid(1).eax;
    let family = (family >> 8 & 15) + (family >> 20 & 255);
    is_amd && family < 0x19
}
