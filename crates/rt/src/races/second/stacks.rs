//! What is kept of a thread's stack, from which the launcher finds its frames.
//!
//! Apart from the accesses because locks, threads and blocks have stacks as well.

use crate::{thread, translation};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use relive_sys::maps;
use relive_trace::races::told::STACK_WORDS_MAX;

/// The stack pointer's number among the general registers.
pub(super) const RSP: usize = 4;
/// Words of the stack where a lock was taken.
const LOCK_STACK_WORDS: usize = 384;

/// The stack of the calling thread, whose pointer is there.
pub(super) fn stack_of_caller(pointer: u64) -> Range<u64> {
    if let Some(stack) = thread::current().stack {
        return stack.bottom() as u64..(stack.bottom() + stack.size()) as u64;
    }
    let mut found = 0..0;
    maps::each(|range| {
        let range = range.start as u64..range.end as u64;
        if range.contains(&pointer) {
            found = range;
        }
    });
    found
}

/// Where the calling thread takes a lock: without the kernel, because locks are taken often.
pub(super) fn lock_place(stack: &Range<u64>) -> Arc<Vec<u64>> {
    let (general, ip) = translation::registers();
    let pointer = general[RSP];
    if !stack.contains(&pointer) || !pointer.is_multiple_of(8) {
        return Arc::new(snapshot(&general, ip, LOCK_STACK_WORDS));
    }
    let count = (((stack.end - pointer) / 8) as usize).min(LOCK_STACK_WORDS);
    let mut kept = Vec::with_capacity(registers(&general, ip).len() + count);
    kept.extend(registers(&general, ip));
    // SAFETY: the calling thread's own stack from its pointer up, within its mapping; others may write there meanwhile.
    kept.extend((0..count).map(|index| unsafe { (pointer as *const u64).add(index).read_volatile() }));
    Arc::new(kept)
}

/// The registers that an unwinder needs.
fn registers(general: &[u64; 16], ip: u64) -> [u64; 8] {
    const RBX: usize = 3;
    const RBP: usize = 5;
    let [.., r12, r13, r14, r15] = *general;
    [ip, general[RSP], general[RBP], general[RBX], r12, r13, r14, r15]
}

/// Those registers, and words of the stack.
pub(super) fn snapshot(general: &[u64; 16], ip: u64, most: usize) -> Vec<u64> {
    let mut words = Vec::from(registers(general, ip));
    let mut bytes = [0u8; STACK_WORDS_MAX * 8];
    let bytes = &mut bytes[..most.min(STACK_WORDS_MAX) * 8];
    // Up to the end of the stack, by pages: the kernel gives a page or nothing of it.
    let mut read = 0;
    while read < bytes.len() {
        let from = general[RSP] + read as u64;
        let part = (4096 - from as usize % 4096).min(bytes.len() - read);
        if relive_dbi::read_own_memory(from, &mut bytes[read..read + part]) < part {
            break;
        }
        read += part;
    }
    words.extend(bytes[..read].as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)));
    words
}
