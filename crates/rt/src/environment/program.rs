//! The program's memory, for the table of calls to ask.
//!
//! Apart because this alone reads it on the table's behalf.

use super::memory;
use relive_sys::syscall::number::PROCESS_VM_WRITEV;
use relive_sys::syscall::{self, syscall6};

const EFAULT: isize = 14;

/// Memory of the program, as a call's arguments name it.
pub(super) struct Program;

impl relive_calls::Memory for Program {
    fn u32(&self, address: usize) -> u32 {
        // SAFETY: the table asks for what the kernel has just read or written.
        unsafe { (address as *const u32).read_unaligned() }
    }

    fn u64(&self, address: usize) -> u64 {
        // SAFETY: as above.
        unsafe { (address as *const u64).read_unaligned() }
    }

    fn try_u32(&self, address: usize) -> Option<u32> {
        let mut bytes = [0; 4];
        memory::read(address, &mut bytes).then(|| u32::from_le_bytes(bytes))
    }

    fn try_u64(&self, address: usize) -> Option<u64> {
        let mut bytes = [0; 8];
        memory::read(address, &mut bytes).then(|| u64::from_le_bytes(bytes))
    }

    fn try_put_back(&self, address: usize, words: [u64; 2]) -> bool {
        let (from, to) = ([words.as_ptr().addr(), 16], [address, 16]);
        let (from, to) = (from.as_ptr().addr(), to.as_ptr().addr());
        // SAFETY: the same bytes are written again. Where a filter forbids the call the memory is as good as the caller says.
        unsafe { syscall6(PROCESS_VM_WRITEV, syscall::gettid() as usize, from, 1, to, 1, 0) != -EFAULT }
    }
}
