//! Where an access is, as code can compute it.
//!
//! Apart from the inserter: an address may be computed once more in a rare part, where
//! the registers are as they were.

use crate::assembler::{Assembler, Operand};
use crate::register::Gpr;
use crate::tool::Access;
use iced_x86::Register;

/// The address of an access.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// `None` where the displacement is all.
    operand: Option<Operand>,
    displacement: u64,
    /// It has 32 bits.
    short: bool,
    of_fs: bool,
    bare: Option<Gpr>,
}

impl Place {
    /// `offset` bytes from where the access is. `None` for an address that no single instruction can compute: of a vector
    /// of indices, or too far from its register.
    pub fn of(access: &Access<'_>, offset: i32) -> Option<Self> {
        let index = access.memory.index();
        if access.scattered { None } else { Self::with(access, Gpr::containing(index), offset) }
    }

    /// Where the access is but for its index.
    pub(crate) fn unindexed(access: &Access<'_>) -> Option<Self> {
        Self::with(access, None, 0)
    }

    fn with(access: &Access<'_>, index: Option<Gpr>, offset: i32) -> Option<Self> {
        let memory = access.memory;
        let base = Gpr::containing(memory.base());
        let displacement = memory.displacement().wrapping_add_signed(i64::from(offset));
        // Addresses of 32 bits wrap there; those that iced gives relative to rip are whole.
        let short = memory.base().is_gpr32() || memory.index().is_gpr32();
        let near = if short { Ok(displacement as i32) } else { i32::try_from(displacement as i64) };
        let operand = match (base, index, near) {
            (None, None, _) => None,
            (base, Some(index), Ok(near)) => Some(Operand::indexed(base, index, memory.scale() as u8, near)),
            (Some(base), None, Ok(near)) => Some(Operand::at(base, near)),
            (_, _, Err(_)) => return None,
        };
        let of_fs = memory.segment() == Register::FS;
        let bare = base.filter(|_| index.is_none() && displacement == 0 && !short && !of_fs);
        Some(Self { operand, displacement, short, of_fs, bare })
    }

    /// The register that has the address already.
    pub fn bare(&self) -> Option<Gpr> {
        self.bare
    }

    /// Whether the base of fs belongs to it.
    pub fn of_fs(&self) -> bool {
        self.of_fs
    }

    /// Writes code that puts the address into `into`, but for the base of fs. Flags stay.
    pub fn write_offset(&self, code: &mut Assembler<'_>, into: Gpr) {
        match self.operand {
            None => code.constant(into, self.displacement),
            Some(operand) if self.short => code.lea_short(into, operand),
            Some(operand) => code.lea(into, operand),
        }
    }
}
