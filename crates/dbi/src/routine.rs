//! Routines of a tool, shared by all blocks: what the rare parts of many sites have in
//! common.
//!
//! They stand at the beginning of the cache, behind those of the translator. A routine
//! begins by putting registers away that it wants for itself, one fixed store each, so
//! that a signal that strikes within it finds the program's registers by the distance
//! from its beginning; the rest is as in the block that it goes back to.

use crate::area::{Area, BACK, Context, EXIT, KEEP, KEPT, LEAVE};
use crate::assembler::{Assembler, Operand};
use crate::register::Gpr;

/// Routines that a tool can have.
pub(crate) const ROUTINES: usize = 48;
/// The exit that stands for a visit that a routine asked for.
pub(crate) const VISIT: u32 = u32::MAX - 1;
/// The same where no vector register needs to be kept.
pub(crate) const VISIT_PLAINLY: u32 = u32::MAX - 2;
/// Registers of a routine, in this order.
const REGISTERS: [Gpr; KEPT] = [Gpr::RAX, Gpr::RCX, Gpr::RDX, Gpr::RSI, Gpr::RDI, Gpr::R8];

/// Where the routines are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Routines {
    begin: [u64; ROUTINES],
    kept: [u8; ROUTINES],
    /// Bytes of one of a routine's first stores.
    store_bytes: u64,
    count: usize,
    end: u64,
}

impl Routines {
    pub(crate) const NONE: Self = Self { begin: [0; ROUTINES], kept: [0; ROUTINES], store_bytes: 1, count: 0, end: 0 };

    /// Behind the last one.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Their addresses, by number.
    pub(crate) fn addresses(&self) -> &[u64] {
        &self.begin[..self.count]
    }

    /// Makes `context`, as the processor has it at its `ip` in a routine, what it was at the branch that led there, and
    /// `ip` what is behind that. Nothing if it is in none of them.
    pub(crate) fn restore(&self, context: &mut Context, area: &Area) {
        let pc = context.ip;
        let Some(number) = self.addresses().iter().rposition(|&begin| begin <= pc).filter(|_| pc < self.end) else {
            return;
        };
        let stores = (pc - self.begin[number]) / self.store_bytes;
        let kept = usize::from(self.kept[number]).min(stores as usize);
        for (register, value) in REGISTERS.into_iter().zip(area.kept).take(kept) {
            context.general[usize::from(register.number())] = value;
        }
        context.ip = area.back;
    }
}

/// Writes a tool's routines.
pub struct RoutineWriter<'w, 'a> {
    code: &'w mut Assembler<'a>,
    routines: Routines,
}

impl<'w, 'a> RoutineWriter<'w, 'a> {
    pub(crate) fn new(code: &'w mut Assembler<'a>) -> Self {
        Self { code, routines: Routines::NONE }
    }

    /// Begins another routine; its number, counted from 0. It has the first `registers` of rax, rcx, rdx, rsi, rdi and
    /// r8, and the flags, to itself.
    ///
    /// # Panics
    /// If there are 48 already.
    pub fn begin(&mut self, registers: usize) -> usize {
        let number = self.routines.count;
        assert!(number < ROUTINES && registers <= KEPT, "a tool has 48 routines with six registers");
        self.code.align(16, 0);
        self.routines.begin[number] = self.code.here();
        self.routines.kept[number] = registers as u8;
        self.routines.count += 1;
        for (n, &register) in REGISTERS[..registers].iter().enumerate() {
            let before = self.code.offset();
            self.code.store(Operand::area(KEEP + n * 8), register);
            self.routines.store_bytes = (self.code.offset() - before) as u64;
        }
        number
    }

    /// The writer of code. It may branch forward, and change the routine's registers and memory that is the tool's.
    pub fn code(&mut self) -> &mut Assembler<'a> {
        self.code
    }

    fn put_back(&mut self) {
        let registers = usize::from(self.routines.kept[self.routines.count - 1]);
        for (n, &register) in REGISTERS[..registers].iter().enumerate() {
            self.code.load(register, Operand::area(KEEP + n * 8));
        }
    }

    /// Goes back to the block.
    pub fn back(&mut self) {
        self.put_back();
        self.code.jump_through(Operand::area(BACK));
    }

    /// Leaves the cache for [`Tool::visit`](crate::Tool::visit), and goes back to the block behind that.
    pub fn leave(&mut self) {
        self.put_back();
        self.code.store_immediate(Operand::area(EXIT), VISIT);
        self.code.jump_through(Operand::area(LEAVE));
    }

    /// As [`Self::leave`], in a fifth of the time, where the program reads no vector register before it writes it: a function
    /// returns (System V ABI, 3.2.1). The visit finds general registers as the block has them, which may have put some
    /// away, and `ip` in the cache.
    pub fn leave_plainly(&mut self) {
        self.put_back();
        self.code.store_immediate(Operand::area(EXIT), VISIT_PLAINLY);
        self.code.jump_through(Operand::area(LEAVE));
    }

    pub(crate) fn finish(mut self) -> Routines {
        self.routines.end = self.code.here();
        self.routines
    }
}
