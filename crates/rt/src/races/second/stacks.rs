//! Stacks as they are kept for the launcher to unwind: registers, and the words above
//! the stack pointer.
//!
//! Apart from the accesses because most of these share one. Two stacks at one
//! instruction, with one stack pointer and the same addresses of code at the same
//! places, have the same frames, whatever else stands there: one of them is kept.

use crate::{thread, translation};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use relive_sys::signal::is_own_code;
use relive_sys::{aside, maps};
use relive_trace::races::told::STACK_WORDS_MAX;

/// The stack pointer's number among the general registers.
pub(super) const RSP: usize = 4;
/// Words of the stack where a lock was taken.
pub(super) const LOCK_WORDS: usize = 384;
/// Words where nobody wants to see the stack: enough to know in which function an access is, and its variables.
const FEW_WORDS: usize = 32;
/// Words of all stacks together: 32 MiB. Of those beyond only the instruction is kept.
const WORDS_MAX: usize = 4 << 20;
/// So many stacks must be asked for before it is worth looking for those that nobody has any more, and twice as many each
/// time that this does not free an eighth of the room: a look goes through all of them.
const LOOK_AGAIN: u32 = 1024;
/// Words of registers.
const REGISTERS: usize = 8;

/// Registers as an unwinder needs them, then words of the stack.
pub(super) type Stack = Arc<Vec<u64>>;

/// The stacks that somebody keeps.
pub(super) struct Stacks {
    known: BTreeMap<Way, Stack>,
    /// Words of all of these.
    words: usize,
    /// How often there may be no room before room is looked for, and before the time after that.
    patience: u32,
    next: u32,
    code: Code,
    /// Words that are read before it is known whether they are kept.
    read: Vec<u64>,
}

/// How a thread came to an instruction: this, the stack pointer, what tells its callers, and how much of the stack is kept.
type Way = (u64, u64, u64, usize);

impl Stacks {
    /// If they are `short`, so few words of each are kept that only the innermost function is known.
    pub(super) fn new(short: bool) -> Self {
        let read = alloc::vec![0; if short { FEW_WORDS } else { STACK_WORDS_MAX }];
        Self { known: BTreeMap::new(), words: 0, patience: 0, next: LOOK_AGAIN, code: Code::default(), read }
    }

    /// Other files may be mapped from here on.
    pub(super) fn code_changes(&mut self) {
        self.code.ranges.clear();
    }

    /// That of the calling thread with these registers, up to so many words. `own` is the stack that it runs on, if known.
    pub(super) fn of(&mut self, general: &[u64; 16], ip: u64, own: &Range<u64>, most: usize) -> Stack {
        let mut registers = registers(general, ip);
        let most = most.min(self.read.len());
        let buffer = &mut self.read[..most];
        let count = read_aside(&mut registers, buffer);
        let pointer = registers[1];
        let (rest, from) = (&mut buffer[count..], pointer + 8 * count as u64);
        let count = count
            + if own.contains(&from) && from.is_multiple_of(8) {
                read_own(from, own.end, rest)
            } else {
                read_by_kernel(from, rest)
            };
        let way = (ip, pointer, self.code.callers(&self.read[..count]), most);
        if let Some(known) = self.known.get(&way) {
            return known.clone();
        }
        if !self.has_room(REGISTERS + count) {
            return Arc::new(Vec::from(registers));
        }
        let mut kept = Vec::with_capacity(REGISTERS + count);
        kept.extend(registers);
        kept.extend(&self.read[..count]);
        let kept = Arc::new(kept);
        self.words += kept.len();
        self.known.insert(way, kept.clone());
        kept
    }

    fn has_room(&mut self, words: usize) -> bool {
        if self.words + words <= WORDS_MAX {
            return true;
        }
        if let Some(left) = self.patience.checked_sub(1) {
            self.patience = left;
        } else {
            let before = self.words;
            self.known.retain(|_, stack| Arc::strong_count(stack) > 1);
            self.words = self.known.values().map(|stack| stack.len()).sum();
            self.next =
                if before - self.words < WORDS_MAX / 8 { (self.next * 2).min(64 * LOOK_AGAIN) } else { LOOK_AGAIN };
            self.patience = self.next;
        }
        self.words + words <= WORDS_MAX
    }
}

/// Whether there was room for its words.
pub(super) fn is_whole(stack: &Stack) -> bool {
    stack.len() > REGISTERS
}

/// The innermost word of the stack.
pub(super) fn top(stack: &Stack) -> Option<u64> {
    stack.get(REGISTERS).copied()
}

/// The first word of the stack with an address of code that is neither ours nor the C runtime's: most likely who called that.
pub(super) fn caller(stack: &Stack) -> Option<u64> {
    let words = stack.iter().skip(REGISTERS).copied();
    let is_ours = |word: u64| is_own_code(word as usize) || translation::is_of_runtime(word);
    words.filter(|&word| !is_ours(word)).find(|&word| translation::is_in_file(word))
}

/// Where code is mapped, as far as it is in files.
#[derive(Default)]
struct Code {
    /// In order; empty if not known.
    ranges: Vec<Range<u64>>,
    /// The program's and the libraries': nothing else lies in these, or little.
    hulls: [Range<u64>; 2],
}

impl Code {
    fn read(&mut self) {
        let ranges = &mut self.ranges;
        maps::each_file_of_code(|range, _, _| ranges.push(range.start as u64..range.end as u64));
        ranges.sort_unstable_by_key(|range| range.start);
        let hull = |part: &[Range<u64>]| match part {
            [] => 0..0,
            [first, .., last] => first.start..last.end,
            [one] => one.clone(),
        };
        let gap = |at: &usize| ranges[*at].start - ranges[at - 1].end;
        let (low, high) = ranges.split_at((1..ranges.len()).max_by_key(gap).unwrap_or(0));
        self.hulls = [hull(low), hull(high)];
    }

    fn contains(&self, word: u64) -> bool {
        let near = self.hulls.iter().any(|hull| hull.contains(&word));
        near && {
            let behind = self.ranges.partition_point(|range| range.start <= word);
            behind > 0 && word < self.ranges[behind - 1].end
        }
    }

    /// A number for the addresses of code among these words, and where they stand.
    fn callers(&mut self, words: &[u64]) -> u64 {
        const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
        if self.ranges.is_empty() {
            self.read();
        }
        let callers = (0u64..).zip(words).filter(|(_, word)| self.contains(**word));
        callers.fold(ODD, |hash, (place, &word)| {
            ((hash.rotate_left(29) ^ word).wrapping_mul(ODD) ^ place).wrapping_mul(ODD)
        })
    }
}

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

/// The registers that an unwinder needs.
fn registers(general: &[u64; 16], ip: u64) -> [u64; REGISTERS] {
    const RBX: usize = 3;
    const RBP: usize = 5;
    let [.., r12, r13, r14, r15] = *general;
    [ip, general[RSP], general[RBP], general[RBX], r12, r13, r14, r15]
}

/// Where a thread aside has its stack pointer, that of the program's stack where the thread left it.
pub(super) fn pointer_of_program(pointer: u64) -> u64 {
    aside::bounds(pointer as usize).map_or(pointer, |[_, left]| left as u64)
}

/// Words of the calling thread's stack aside, if the stack pointer is there: moved, with all that leads there, to right below where
/// the thread left the program's stack. Callers are found as if the thread had stayed.
fn read_aside(registers: &mut [u64; REGISTERS], into: &mut [u64]) -> usize {
    let pointer = registers[1];
    let Some([top, left]) = aside::bounds(pointer as usize).filter(|_| pointer.is_multiple_of(8)) else { return 0 };
    let count = read_own(pointer, top as u64, into);
    let distance = (left as u64).wrapping_sub(top as u64);
    let part = pointer..=top as u64;
    for word in registers.iter_mut().chain(&mut into[..count]).filter(|word| part.contains(word)) {
        *word = word.wrapping_add(distance);
    }
    count
}

/// Words from the calling thread's stack pointer up to the end of its stack. Without the kernel, because that is done often.
fn read_own(pointer: u64, end: u64, into: &mut [u64]) -> usize {
    let count = (((end - pointer) / 8) as usize).min(into.len());
    for (index, word) in into[..count].iter_mut().enumerate() {
        // SAFETY: the calling thread's own stack from its pointer up, within its mapping; others may write there meanwhile.
        *word = unsafe { (pointer as *const u64).add(index).read_volatile() };
    }
    count
}

/// Words from there up to what is not mapped, by pages: the kernel gives a page or nothing of it.
fn read_by_kernel(pointer: u64, into: &mut [u64]) -> usize {
    let mut bytes = [0u8; STACK_WORDS_MAX * 8];
    let bytes = &mut bytes[..into.len() * 8];
    let mut read = 0;
    while read < bytes.len() {
        let from = pointer + read as u64;
        let part = (4096 - from as usize % 4096).min(bytes.len() - read);
        if relive_dbi::read_own_memory(from, &mut bytes[read..read + part]) < part {
            break;
        }
        read += part;
    }
    let words = bytes[..read].as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    into.iter_mut().zip(words).map(|(to, word)| *to = word).count()
}

#[cfg(test)]
mod tests {
    use super::{Code, FEW_WORDS, LOCK_WORDS, REGISTERS, Stacks, WORDS_MAX, is_whole};
    use alloc::sync::Arc;
    use alloc::vec::Vec;

    #[test]
    fn callers_are_told_apart_and_nothing_else() {
        let mut code = Code::default();
        code.read();
        let here = callers_are_told_apart_and_nothing_else as *const () as u64;
        assert!(code.contains(here) && !code.contains(0) && !code.contains(u64::MAX));
        assert!(!code.contains(core::ptr::from_ref(&here).addr() as u64));
        assert_eq!(code.callers(&[here, 1, 2]), code.callers(&[here, 3, 4]));
        assert_ne!(code.callers(&[here, 1]), code.callers(&[here + 1, 1]));
        assert_ne!(code.callers(&[here, 1]), code.callers(&[1, here]));
    }

    #[test]
    fn one_way_is_kept_once_and_all_of_them_have_a_bound() {
        let words: Vec<u64> = (0..4 * LOCK_WORDS as u64).collect();
        let start = words.as_ptr().addr() as u64;
        let own = start..start + 8 * words.len() as u64;
        let mut stacks = Stacks::new(false);
        let mut at = |ip| {
            let mut general = [0; 16];
            general[super::RSP] = start;
            stacks.of(&general, ip, &own, LOCK_WORDS)
        };
        let first = at(1);
        assert!(Arc::ptr_eq(&first, &at(1)));
        assert_eq!((first[0], first[1], &first[REGISTERS..]), (1, start, &words[..LOCK_WORDS]));
        let room = WORDS_MAX / (REGISTERS + LOCK_WORDS);
        let kept: Vec<_> = (1..=2 * room as u64).map(&mut at).collect();
        assert_eq!(kept.iter().filter(|stack| is_whole(stack)).count(), room);
        drop(kept);
        let again: Vec<_> = (0..2 * room as u64).map(|n| at(u64::MAX - n)).collect();
        assert!(again.iter().any(is_whole), "what nobody has any more makes room");
        let short = Stacks::new(true).of(&[start; 16], 1, &own, LOCK_WORDS);
        assert_eq!(short[REGISTERS..], words[..FEW_WORDS]);
    }
}
