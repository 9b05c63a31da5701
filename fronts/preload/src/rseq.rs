//! Restartable sequences are given up where the environment is recorded: by them
//! the kernel writes the number of the processor into a thread's memory whenever
//! it likes, and `sched_getcpu` reads it there.

use relive_sys::lookup::next_symbol;
use relive_sys::syscall::{number, syscall6};
use relive_sys::tls;

/// What glibc registers with.
const SIGNATURE: usize = 0x5305_3053;
const UNREGISTER: usize = 1;
/// Bytes of `struct rseq` as first defined, which glibc registers.
const BYTES: usize = 32;
/// Offset of the processor's number in it.
const NUMBER: usize = 4;
/// `RSEQ_CPU_ID_REGISTRATION_FAILED`: libc asks the kernel then, and so do threads that this one creates.
const FAILED: i32 = -2;

/// Does so for the calling thread and those that it creates.
pub(crate) fn give_up() {
    let offset = next_symbol(c"__rseq_offset", None) as *const isize;
    if offset.is_null() {
        return;
    }
    // SAFETY: libc's variable says where its area lies in the calling thread's block; nobody else uses it.
    unsafe {
        let area = tls::thread_pointer().wrapping_add_signed(*offset);
        if syscall6(number::RSEQ, area, BYTES, UNREGISTER, SIGNATURE, 0, 0) == 0 {
            ((area + NUMBER) as *mut i32).write(FAILED);
        }
    }
}
