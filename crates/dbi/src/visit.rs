//! What a tool sees when inserted code has left the cache for it.
//!
//! Apart because of the vector registers: they are where `xsave` put them.

use crate::area::{Context, Vectors};
use crate::memory::ToolMemory;
use core::arch::asm;
use core::arch::x86_64::__cpuid_count;

/// The parts of the state by their numbers (Intel SDM volume 1, 13.1).
const SSE: usize = 1;
const AVX: usize = 2;
const OPMASKS: usize = 5;
const UPPER_HALVES: usize = 6;
const UPPER_REGISTERS: usize = 7;
/// Where the lower halves of the first sixteen are.
const LOW: usize = 160;
/// Where the parts are named that are not in their initial state, which is zero.
const IN_USE: usize = 512;

/// Where each part is, in bytes from the beginning.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Parts {
    begin: [u32; 8],
    enabled: u64,
}

impl Parts {
    /// As this processor has them. Asking it may take microseconds in a virtual machine.
    pub(crate) fn of_processor() -> Self {
        let mut begin = [0; 8];
        for (part, begin) in begin.iter_mut().enumerate().skip(AVX) {
            *begin = __cpuid_count(0xD, part as u32).ebx;
        }
        let (low, high): (u32, u32);
        // SAFETY: an engine is made only where the system uses xsave.
        unsafe {
            asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags));
        };
        Self { begin, enabled: u64::from(high) << 32 | u64::from(low) }
    }
}

/// A thread that left the cache.
pub struct Visit<'a> {
    pub(crate) context: Context,
    pub(crate) vectors: &'a Vectors,
    pub(crate) parts: Parts,
    pub(crate) memory: ToolMemory<'a>,
}

impl<'a> Visit<'a> {
    /// The program's registers, before the instruction at its `ip`. Those that the program does not read before it
    /// writes them may hold anything, unless the visit was asked for by [`Inserter::visit`](crate::Inserter::visit).
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The tool's memory of this thread.
    pub fn memory(&mut self) -> &mut ToolMemory<'a> {
        &mut self.memory
    }

    fn bytes<const N: usize>(&self, part: usize, offset: usize) -> Option<[u8; N]> {
        let all = &self.vectors.0;
        let in_use = self.in_use();
        let begin = self.parts.begin[part] as usize;
        let bytes = all.get(begin + offset..)?.first_chunk().copied();
        bytes.filter(|_| in_use >> part & 1 != 0)
    }

    /// The vector register `number`, 0 to 31, in its full width; what the processor does not have is zero.
    pub fn vector(&self, number: usize) -> [u8; 64] {
        let mut whole = [0; 64];
        if number >= 16 {
            return self.bytes(UPPER_REGISTERS, (number - 16) * 64).unwrap_or(whole);
        }
        let parts = [
            self.bytes::<16>(SSE, LOW + number * 16).unwrap_or_default(),
            self.bytes::<16>(AVX, number * 16).unwrap_or_default(),
        ];
        whole[..32].copy_from_slice(parts.as_flattened());
        whole[32..].copy_from_slice(&self.bytes::<32>(UPPER_HALVES, number * 32).unwrap_or_default());
        whole
    }

    /// The parts of the processor's state that the system has enabled (XCR0).
    pub fn enabled(&self) -> u64 {
        self.parts.enabled
    }

    /// The parts of the vector state that are not as they are initially; bit 1 for SSE, 2 for AVX, 5 to 7 for AVX-512.
    pub fn in_use(&self) -> u64 {
        u64::from_le_bytes(self.vectors.0[IN_USE..].first_chunk().copied().unwrap_or_default())
    }

    /// The mask register `number`, 0 to 7.
    pub fn mask(&self, number: usize) -> u64 {
        u64::from_le_bytes(self.bytes(OPMASKS, number * 8).unwrap_or_default())
    }
}
