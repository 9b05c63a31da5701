//! A piece of code that is watched while other threads may be anywhere in it.
//!
//! A jump takes the place of several instructions, and another thread may stand at
//! the second of them. So the jump goes to an address whose distance has a trap's
//! byte wherever an instruction began: who comes to one of these is sent by the trap's
//! handler to the copy of that instruction, and nobody ever runs half a jump.
//!
//! ```text
//! native:  E9 d0 CC d2 d3        base:  gate of instruction 0: is it this thread? → its comparison
//!              ^ instruction 1          copy of instruction 0
//!                                       gate of instruction 1 …
//!                                       jmp behind the last
//! ```
//!
//! Such code is written once, for whichever threads await something there by then; it
//! asks with a dozen instructions whether the thread is one of them. If that
//! changes, other code takes its place.

use super::{ENTRY, FRAME, JUMP_BYTES, TRAP, Writer, write_code};
use crate::start::{PIECES, PROGRAM};
use crate::syscall::number::{MEMBARRIER, MMAP};
use crate::syscall::syscall6;
use core::ops::Range;

/// Instructions of a site, at most.
pub const INSTRUCTIONS: usize = 12;
/// Bytes of a site, at most.
pub const BYTES: usize = 64;
/// Bytes of the copy of one of them and of a jump behind it, at most.
pub const COPY_BYTES: usize = 40;
/// Bytes of a question for one thread.
pub const ASK_BYTES: usize = 68;
/// Bytes of a site's code, at most.
pub const SITE_BYTES: usize = 2048;
/// Questions in a site, at most.
pub const ASKS: usize = 20;
const _: () = assert!((INSTRUCTIONS + 1) * COPY_BYTES + ASKS * ASK_BYTES <= SITE_BYTES);
/// Where the comparison of a watch without leading code begins: the question has put two registers away already.
const COMPARE: usize = ENTRY + 17;
const PAGE: usize = 4096;
/// Near a program that says where it wants to be, near one that does not, near libraries: nobody else is given these.
const YARDS: [Range<usize>; 3] = [
    0x3000_0000..0x3FF0_0000,
    PROGRAM - 0x6000_0000..PROGRAM - 0x20_0000,
    PIECES.end + 0x10_0000..PIECES.end + 0x1000_0000,
];

/// How instructions lie: for each, the bytes before it. The last number is the length of all.
pub type Starts = [u8; INSTRUCTIONS + 1];

/// Whether `place` is in the code of a site.
pub fn is_site(place: usize) -> bool {
    YARDS.iter().any(|yard| yard.contains(&place))
}

/// Whether code near `place` may have a jump in whose last byte an instruction began: it leads 832 megabytes down.
pub fn reaches_all(place: usize) -> bool {
    YARDS[1].contains(&place.wrapping_sub(0x3400_0000))
}

/// Whether the code may be in the way of nobody, with `used` saying which is in use.
fn is_free(base: usize, used: &mut dyn FnMut(Range<usize>) -> bool) -> bool {
    !used(base..base + SITE_BYTES)
}

/// Where the code of a site may lie whose jump at `entry` has a trap's byte where `starts` says. Fresh memory, or such
/// that `used` does not know of.
pub fn find_base(entry: usize, starts: &[u8], used: &mut dyn FnMut(Range<usize>) -> bool) -> Option<usize> {
    const ATTEMPTS: usize = 1 << 14;
    let behind = entry + JUMP_BYTES;
    let fixed = |byte: usize| starts.contains(&(byte as u8 + 1));
    let mask = (0..4).filter(|&byte| fixed(byte)).fold(0usize, |mask, byte| mask | 0xFF << (8 * byte));
    let traps = (0xCCCC_CCCC & mask) as u32;
    let near =
        |yard: &&Range<usize>| yard.start.abs_diff(behind) < 0x7F00_0000 && yard.end.abs_diff(behind) < 0x7F00_0000;
    let yard = YARDS.iter().find(near)?;
    // Distances that fit, in order: those bits that are not fixed count.
    let mut at = yard.start;
    for _ in 0..ATTEMPTS {
        let distance = at.wrapping_sub(behind) as i64 as u32;
        let fitting = next_fitting(distance, mask as u32, traps)?;
        let base = behind.wrapping_add_signed(fitting as i32 as isize);
        if base < at || base + SITE_BYTES > yard.end {
            return None;
        }
        if is_free(base, used) && map(base) {
            return Some(base);
        }
        at = base + SITE_BYTES;
    }
    None
}

/// The smallest number from `from` on that has `bits` where `mask` has ones.
fn next_fitting(from: u32, mask: u32, bits: u32) -> Option<u32> {
    let fitting = from & !mask | bits;
    let differing = (from ^ fitting) & mask;
    if differing == 0 {
        return Some(from);
    }
    let highest = 1u32 << differing.ilog2();
    let below = highest | (highest - 1);
    if bits & highest != 0 {
        // Larger at that bit already: whatever is free below it becomes zero.
        return Some(from & !below & !mask | bits);
    }
    // Some free bit above must become one.
    let free = !mask & !below & !from;
    let carry = free & free.wrapping_neg();
    if carry == 0 {
        return None;
    }
    Some((from & !(carry | (carry - 1)) | carry) & !mask | bits)
}

/// Whether there is memory of ours for the code at `base`.
fn map(base: usize) -> bool {
    const ALL: usize = 7;
    const FLAGS: usize = 2 | 0x20 | 0x10_0000;
    const EEXIST: isize = -17;
    (base & !(PAGE - 1)..base + SITE_BYTES).step_by(PAGE).all(|page| {
        // Writable and executable, as stubs are. What is there already is another site's: nobody else has these addresses.
        // SAFETY: a new mapping at a free address, or none.
        let found = unsafe { syscall6(MMAP, page, PAGE, ALL, FLAGS, usize::MAX, 0) };
        found == page as isize || found == EEXIST
    })
}

/// One question of a site: who awaits something at the instruction, and the stub that compares.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Which instruction.
    pub instruction: usize,
    /// The thread's pointer.
    pub thread: usize,
    /// From [`super::stub_near`].
    pub stub: usize,
}

/// Where the gates of the instructions begin; the last number is where the jump behind them stands.
pub fn gates(base: usize, count: usize, asks: &[Ask]) -> [usize; INSTRUCTIONS + 1] {
    let mut gates = [0; INSTRUCTIONS + 1];
    let mut at = base;
    for (index, gate) in gates.iter_mut().enumerate().take(count + 1) {
        *gate = at;
        at += COPY_BYTES + ASK_BYTES * asks_at(asks, index);
    }
    gates
}

fn asks_at(asks: &[Ask], instruction: usize) -> usize {
    asks.iter().filter(|ask| ask.instruction == instruction).count()
}

/// Where the copy of an instruction begins whose gate is there.
pub fn copy_of(gate: usize, asks: &[Ask], instruction: usize) -> usize {
    gate + ASK_BYTES * asks_at(asks, instruction)
}

/// Where a thread goes on that misses: behind its question, which is the number `index`.
pub fn behind(gates: &[usize], asks: &[Ask], index: usize) -> usize {
    let instruction = asks[index].instruction;
    gates[instruction] + ASK_BYTES * (1 + asks_at(&asks[..index], instruction))
}

/// Writes a site's code. `copies` are those of its instructions, made for where [`copy_of`] says; `back` is behind the
/// last of them.
///
/// # Safety
/// `base` must come from [`find_base`], with nobody in that memory; the stubs be written.
pub unsafe fn write_site(base: usize, copies: &[&[u8]], asks: &[Ask], back: usize) {
    let gates = gates(base, copies.len(), asks);
    for (index, copy) in copies.iter().enumerate() {
        let mut writer = Writer(gates[index]);
        for ask in asks.iter().filter(|ask| ask.instruction == index) {
            // SAFETY: the caller's promise: memory of the site.
            unsafe { writer.ask(ask) };
        }
        // SAFETY: as above.
        unsafe {
            writer.put(copy);
            writer.jump(gates[index + 1]);
        }
    }
    // SAFETY: as above.
    unsafe { Writer(gates[copies.len()]).jump(back) };
}

impl Writer {
    /// Whoever is not the thread goes on behind this, with all registers and flags as they were.
    unsafe fn ask(&mut self, ask: &Ask) {
        let start = self.0;
        // SAFETY: the caller's promise: there is room for it.
        unsafe {
            self.put(&[0x48, 0x8D, 0xA4, 0x24]);
            self.put(&(-FRAME).to_le_bytes());
            self.put(&[0x48, 0x89, 0x0C, 0x24, 0x48, 0x89, 0x54, 0x24, 0x08]);
            // rcx = fs:[0] - thread
            self.put(&[0x64, 0x48, 0x8B, 0x0C, 0x25, 0, 0, 0, 0, 0x48, 0xBA]);
            self.put(&ask.thread.wrapping_neg().to_le_bytes());
            self.put(&[0x48, 0x8D, 0x0C, 0x11]);
            // Over what restores and the jump behind it.
            self.put(&[0xE3, 17 + 2]);
            self.put(&[0x48, 0x8B, 0x0C, 0x24, 0x48, 0x8B, 0x54, 0x24, 0x08, 0x48, 0x8D, 0xA4, 0x24]);
            self.put(&FRAME.to_le_bytes());
            self.put(&[0xEB, JUMP_BYTES as u8]);
            self.jump(ask.stub + COMPARE);
            while self.0 < start + ASK_BYTES {
                self.put(&[0x90]);
            }
        }
    }
}

/// A stub's way out leads there from now on: one store of an aligned word, because its thread may be in it.
///
/// # Safety
/// `stub` must come from [`super::stub_near`], and have no code of its own before the comparison.
pub unsafe fn direct(stub: usize, to: usize) {
    let distance = (to as isize - (stub + JUMP_BYTES) as isize) as i32;
    let mut word = [0xE9, 0, 0, 0, 0, 0x0F, 0x0B, 0x90];
    word[1..JUMP_BYTES].copy_from_slice(&distance.to_le_bytes());
    // SAFETY: the beginning of a stub, which is aligned to pages.
    unsafe { (stub as *mut u64).write_volatile(u64::from_le_bytes(word)) };
}

/// What stands in the place of a site's own code: the jump to `base`, if there is one, and traps where `trapped` says.
pub fn image(entry: usize, base: Option<usize>, trapped: &[u8], before: &[u8]) -> [u8; BYTES] {
    let mut image = [0; BYTES];
    image[..before.len()].copy_from_slice(before);
    for &at in trapped {
        image[usize::from(at)] = TRAP;
    }
    if let Some(base) = base {
        let distance = (base as isize - (entry + JUMP_BYTES) as isize) as i32;
        image[0] = 0xE9;
        image[1..JUMP_BYTES].copy_from_slice(&distance.to_le_bytes());
    }
    image
}

/// Every core has seen the code as it is now.
fn synchronize() {
    const SYNC_CORE: usize = 1 << 5;
    const REGISTER_SYNC_CORE: usize = 1 << 6;
    let barrier = |command| {
        // SAFETY: no pointers.
        unsafe { syscall6(MEMBARRIER, command, 0, 0, 0, 0, 0) == 0 }
    };
    // A kernel without it: the change itself went through the kernel, and processors watch for changed code.
    let _ = barrier(SYNC_CORE) || barrier(REGISTER_SYNC_CORE) && barrier(SYNC_CORE);
}

/// Changes the code of a site while other threads run it, byte by byte: an instruction of which something changes
/// begins with a trap meanwhile. `starts` are those of its instructions and their end. Whether all could be changed.
///
/// # Safety
/// From now on the handler of traps must send who comes to one of `starts` where it belongs, once this is done; code
/// that is no start must not be run before or afterwards.
pub unsafe fn change(entry: usize, starts: &[u8], from: &[u8], to: &[u8]) -> bool {
    let differs = |at: usize| from[at] != to[at];
    let is_start = |at: usize| starts.iter().any(|&start| usize::from(start) == at);
    let pairs = || starts.windows(2).map(|pair| usize::from(pair[0])..usize::from(pair[1]));
    let changed = || pairs().filter(|bytes| bytes.clone().any(differs));
    let trapped = changed().all(|bytes| from[bytes.start] == TRAP || write_code(entry + bytes.start, &[TRAP]));
    synchronize();
    let inner = |at: &usize| differs(*at) && !is_start(*at);
    let written = trapped && (0..to.len()).filter(inner).all(|at| write_code(entry + at, &to[at..=at]));
    synchronize();
    let last = |bytes: Range<usize>| to[bytes.start] == TRAP || write_code(entry + bytes.start, &[to[bytes.start]]);
    written && changed().all(last)
}

#[cfg(test)]
mod tests {
    use super::next_fitting;

    #[test]
    fn the_next_distance_with_traps_in_it() {
        assert_eq!(next_fitting(0x1234_5678, 0, 0), Some(0x1234_5678));
        assert_eq!(next_fitting(0x1234_5678, 0xFF00, 0xCC00), Some(0x1234_CC00));
        assert_eq!(next_fitting(0x1234_CC78, 0xFF00, 0xCC00), Some(0x1234_CC78));
        assert_eq!(next_fitting(0x1234_D078, 0xFF00, 0xCC00), Some(0x1235_CC00));
        assert_eq!(next_fitting(0x12FF_FFFF, 0xFF, 0xCC), Some(0x1300_00CC));
        assert_eq!(next_fitting(0x12FF_FFFF, 0xFF_00FF, 0xCC_00CC), Some(0x13CC_00CC));
        assert_eq!(next_fitting(0xCD00_0000, 0xFF00_0000, 0xCC00_0000), None);
        assert_eq!(next_fitting(0xFFFF_FFFF, 0xFF, 0xCC), None);
    }

    #[test]
    fn it_is_the_smallest() {
        for mask in [0u32, 0xF, 0xF0, 0xF0F, 0xFFF] {
            let bits = 0xCCC & mask;
            for from in 0..0x1000u32 {
                let naive = (from..0x2000).find(|n| n & mask == bits);
                assert_eq!(next_fitting(from, mask, bits), naive, "{from:x} {mask:x}");
            }
        }
    }
}
