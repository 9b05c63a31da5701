//! Where a thread stands that a signal strikes while it computes: kept with its
//! signal, so that a replay finds the same passage of the same instruction.
//!
//! Registers alone don't tell: a counter may stand in memory. What counts of all
//! this only machine code says, which the launcher reads in a replay; so everything
//! is kept that a few steps from the registers and the stack lead to. That is at
//! most 64 KiB, and at most once in ten milliseconds.

use super::memory;
use crate::thread::Thread;
use crate::writer;
use relive_sys::signal::Context;
use relive_sys::start::{IMAGE, OWN, SCRATCH, STACK_END};
use relive_sys::syscall;
use relive_sys::syscall::number::RT_SIGRETURN;
use relive_sys::tls::thread_pointer;
use relive_trace::stand::{MAGIC, RBP, REGISTERS, RIP, RSP, VECTORS, VECTORS_AT, WINDOWS_AT, WORDS_MAX};

const WORD: u64 = 8;
/// Below the stack pointer and from there on, in words.
const RED_ZONE: u64 = 16;
const NEAR_STACK: u64 = 128;
/// Below and above the frame pointer, in words.
const FRAME: [u64; 2] = [64, 8];
/// What a register or a word of the stack points to, in words.
const FIRST: u64 = 10;
/// What those words point to.
const SECOND: u64 = 4;
/// Words of the stack that are followed.
const FOLLOWED: usize = 384;
/// What libc keeps of a thread behind the thread pointer, at most.
const THREAD_BYTES: u64 = 0xC00;
/// A thread's own stack reaches so far from where it is, if nobody knows better.
const OTHER_STACK: u64 = 16 * 1024;
/// Where our own mappings lie. Behind them are the kernel's and the stack.
const OURS: [core::ops::RangeInclusive<u64>; 2] = [SCRATCH as u64..=0x2FFF_FFFF_FFFF, OWN.start as u64..=u64::MAX];
/// Places for the words that windows begin with: three times as many as there can be.
const KNOWN: usize = 1 << 14;
const BUFFER_BYTES: usize = (WORDS_MAX + KNOWN) * size_of::<u64>();

struct Buffer {
    words: &'static mut [u64],
    /// A hash table of addresses, 0 for none.
    known: &'static mut [u64],
    used: usize,
    stack: core::ops::Range<u64>,
}

/// Keeps where the thread stands.
#[inline(never)]
pub fn keep_stand(thread: &mut Thread, context: &Context) {
    let mapped = syscall::mmap(BUFFER_BYTES, syscall::MAP_PRIVATE_ANONYMOUS, -1, 0);
    if mapped <= 0 {
        return;
    }
    // The stack that a handler is on may be small.
    // SAFETY: the mapping that was just made, zeroed and aligned.
    let both = unsafe { core::slice::from_raw_parts_mut(mapped as *mut u64, WORDS_MAX + KNOWN) };
    let (words, known) = both.split_at_mut(WORDS_MAX);
    let mut buffer = Buffer { words, known, used: WINDOWS_AT, stack: stack_of(thread, context.register(RSP)) };
    buffer.words[0] = MAGIC;
    for index in 0..REGISTERS {
        buffer.words[1 + index] = context.register(index);
    }
    // SAFETY: the kernel's context.
    let vectors = unsafe { context.vectors() };
    buffer.words[VECTORS_AT..VECTORS_AT + VECTORS].copy_from_slice(&vectors);
    buffer.keep_memory();
    let calls = thread.calls_so_far() as isize;
    let bytes = buffer.used * size_of::<u64>();
    // SAFETY: what was filled of the buffer, which nobody uses afterwards.
    unsafe {
        writer::append_call(thread, RT_SIGRETURN, 1 + calls, &|visit| visit(mapped as usize, bytes));
        syscall::munmap(mapped as usize, BUFFER_BYTES);
    }
}

/// What a pointer into the stack is told by.
fn stack_of(thread: &Thread, pointer: u64) -> core::ops::Range<u64> {
    if let Some(stack) = &thread.stack {
        let bottom = stack.bottom() as u64;
        let whole = bottom..bottom + stack.size() as u64;
        if whole.contains(&pointer) {
            return whole;
        }
    }
    if pointer > IMAGE as u64 {
        return pointer - OTHER_STACK..STACK_END as u64;
    }
    pointer.saturating_sub(OTHER_STACK)..pointer.saturating_add(OTHER_STACK)
}

/// The words from the stack pointer on, as far as there are some.
fn far_stack(pointer: u64) -> [u64; FOLLOWED] {
    const PIECE: usize = 32;
    let mut words = [0; FOLLOWED];
    for (index, piece) in words.chunks_mut(PIECE).enumerate() {
        let mut bytes = [0; PIECE * WORD as usize];
        if !memory::read(pointer as usize + index * bytes.len(), &mut bytes) {
            break;
        }
        let found = bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
        piece.iter_mut().zip(found).for_each(|(word, found)| *word = found);
    }
    words
}

impl Buffer {
    fn keep_memory(&mut self) {
        let (stack, frame) = (self.words[1 + RSP], self.words[1 + RBP]);
        let near = stack & !(WORD - 1);
        self.window(near - RED_ZONE * WORD, RED_ZONE + NEAR_STACK);
        if self.stack.contains(&frame) {
            self.window((frame & !(WORD - 1)) - FRAME[0] * WORD, FRAME[0] + FRAME[1]);
        }
        self.follow_code(self.words[1 + RIP]);
        let globals = self.used;
        for index in (0..REGISTERS - 1).filter(|&index| index != RSP && index != RIP) {
            self.follow(self.words[1 + index], FIRST);
        }
        self.follow_all(globals, self.used, SECOND);
        let first = self.used;
        for pointer in far_stack(near) {
            self.follow(pointer, FIRST);
        }
        self.follow_all(first, self.used, SECOND);
    }

    /// Follows the words of the windows that stand from `start` to `end`.
    fn follow_all(&mut self, start: usize, end: usize, count: u64) {
        for at in start..end {
            self.follow(self.words[at], count);
        }
    }

    /// Variables that the code around the place names by their distance from it. Where instructions begin is not known:
    /// whatever looks like such a distance counts as one.
    fn follow_code(&mut self, place: u64) {
        const BEFORE: usize = 128;
        const DISTANCE: usize = 4;
        let start = place.saturating_sub(BEFORE as u64);
        let mut code = [0; 3 * BEFORE];
        if !memory::read(start as usize, &mut code) {
            return;
        }
        for (at, bytes) in code.windows(1 + DISTANCE).enumerate() {
            // The byte that says what an instruction's operands are.
            if bytes[0] & 0xC7 == 0x05 {
                let distance = i32::from_le_bytes(*bytes.last_chunk().expect("four bytes"));
                let behind = start + (at + 1 + DISTANCE) as u64;
                self.follow(behind.wrapping_add_signed(i64::from(distance)), SECOND);
            }
        }
    }

    fn follow(&mut self, pointer: u64, count: u64) {
        const LOWEST: u64 = 1 << 16;
        let ours = OURS.iter().any(|ours| ours.contains(&pointer));
        // The kernel says there on which processor the thread is.
        let libc = pointer.wrapping_sub(thread_pointer() as u64) < THREAD_BYTES;
        if pointer >= LOWEST && !ours && !libc && !self.stack.contains(&pointer) && !self.has_all(pointer, count) {
            self.window(pointer & !(WORD - 1), count);
        }
    }

    /// Whether a window holds what `pointer` leads to: one that begins shortly before it may end too soon.
    fn has_all(&mut self, pointer: u64, count: u64) -> bool {
        self.has(pointer) && (count <= SECOND || self.has(pointer + (SECOND - 1) * WORD))
    }

    fn has(&mut self, pointer: u64) -> bool {
        let word = pointer & !(WORD - 1);
        *self.known_at(word) == word
    }

    /// Where in the table the address is, or would be.
    fn known_at(&mut self, address: u64) -> &mut u64 {
        // Fibonacci hashing.
        let mut at = ((address / WORD).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - KNOWN.ilog2())) as usize;
        while ![0, address].contains(&self.known[at]) {
            at = (at + 1) % KNOWN;
        }
        &mut self.known[at]
    }

    /// Adds a window, if its memory is there and it fits in.
    fn window(&mut self, address: u64, count: u64) {
        let (at, count) = (self.used, count as usize);
        let Some(words) = self.words.get_mut(at + 2..at + 2 + count) else { return };
        // SAFETY: words seen as their bytes.
        let bytes = unsafe { core::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), count * 8) };
        if memory::read(address as usize, bytes) {
            (self.words[at], self.words[at + 1]) = (address, count as u64);
            self.used = at + 2 + count;
            for word in (address..).step_by(WORD as usize).take(count.min(SECOND as usize)) {
                *self.known_at(word) = word;
            }
        }
    }
}
