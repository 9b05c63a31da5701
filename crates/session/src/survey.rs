//! Says what of a stand point counts: a replaying process asks when it watches the
//! instruction at which a signal struck one of its threads.
//!
//! Three questions, answered from the process's own code and memory: which
//! registers and which memory can the program still see (`walk`), what else tells
//! one passage from another (the windows that live pointers lead to), and what runs
//! in the place of the instructions that a jump takes away (`apart`), if nothing else
//! leads into them (`entered`). Here, because the preloaded library has no disassembler.

mod apart;
mod entered;
mod memory;
mod walk;

use crate::processes;
use entered::Known;
use memory::{Memory, Patch};
use relive_findings::locate::{Unwinder, Waiting};
use relive_findings::raw::Snapshot;
use relive_sys::start::OWN;
use relive_trace::stand::{PATCHES, RANGES, RBP, RIP, RSP, Stand, Survey, WORDS_MAX, asks, state};
use rustix::thread::futex;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use walk::Live;

thread_local! {
    /// That of the process that asked last: many signals strike one.
    static UNWINDER: RefCell<Option<Unwinder>> = const { RefCell::new(None) };
}

/// Where the runtime's own memory lies, and its library: what points there means nothing to the program.
fn is_ours(value: u64) -> bool {
    const OURS: std::ops::Range<u64> = 0x2000_0000_0000..0x3000_0000_0000;
    OURS.contains(&value) || OWN.contains(&(value as usize))
}

/// What counts.
#[derive(Debug, Default)]
struct Answer {
    live: Live,
    apart: apart::Apart,
    /// Address, offset in the stand point, length.
    ranges: Vec<[u64; 3]>,
}

/// Answers, if somebody asks; frees what somebody who died has asked.
pub(crate) fn answer(survey: &Survey) {
    let (now, pid) = (survey.state.load(Acquire), survey.pid.load(Relaxed));
    if now == state::ASKED {
        let answer = look(survey, pid).unwrap_or_default();
        write(survey, &answer);
        survey.answered.fetch_add(1, Relaxed);
        let _ = survey.state.compare_exchange(state::ASKED, state::ANSWERED, AcqRel, Relaxed);
        let _ = futex::wake(&survey.state, futex::Flags::empty(), i32::MAX as u32);
    } else if now == state::ANSWERED && !processes::alive(pid) {
        survey.state.store(state::FREE, std::sync::atomic::Ordering::Release);
    }
}

fn look(survey: &Survey, pid: u32) -> Option<Answer> {
    let patches = (0..PATCHES).map(|i| Patch::new([0, 1, 2].map(|j| survey.patches[i][j].load(Relaxed))));
    let memory = Memory::open(pid, patches.flatten().collect())?;
    if survey.asks.load(Relaxed) == asks::COPIES {
        copies(survey, &memory);
        return None;
    }
    let count = usize::try_from(survey.stand[1].load(Relaxed)).ok().filter(|&count| count <= WORDS_MAX)?;
    let bytes = memory.read(survey.stand[0].load(Relaxed), count * 8);
    let words: Vec<u64> = bytes.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    let stand = Stand::new(&words)?;
    let crowded = survey.asks.load(Relaxed) == asks::CROWDED;
    let (callers, functions) = around(&stand, &memory);
    let (mut live, seen) = walk::from(&stand, &memory, &callers);
    let known = Known::new(&memory, seen, functions, stand.register(RIP));
    live.forget(|index| is_ours(stand.register(index)));
    let at = [0, 1].map(|i| survey.apart[i].load(Relaxed));
    let apart = apart::find(&memory, stand.register(RIP), at, &known, crowded);
    let ranges = ranges(&stand, &live, crowded);
    Some(Answer { live, apart, ranges })
}

/// Who waits for the function in which a stand point is, outwards; and the functions of its file.
fn around(stand: &Stand<'_>, memory: &Memory) -> (Vec<Waiting>, Vec<Range<u64>>) {
    const RBX: usize = 11;
    let stack = stand.register(RSP);
    let kept = stand.windows().find(|&(start, _, words)| (start..start + words.len() as u64 * 8).contains(&stack));
    let words = kept.map_or(&[][..], |(start, _, words)| &words[((stack - start) / 8) as usize..]);
    let registers = [RIP, RSP, RBP, RBX, 4, 5, 6, 7].map(|index| stand.register(index));
    let modules = memory.code();
    UNWINDER.with_borrow_mut(|known| {
        let fits = known.take().filter(|known| known.is_for(&modules));
        let unwinder = known.insert(fits.unwrap_or_else(|| Unwinder::new(modules)));
        let waiting = unwinder.waiting(&Snapshot { registers, words: words.to_vec() });
        (waiting, unwinder.functions(stand.register(RIP)))
    })
}

/// Copies of instructions for other addresses.
fn copies(survey: &Survey, memory: &Memory) {
    for (index, known) in survey.copies.iter().enumerate() {
        let [place, at] = [0, 1].map(|i| known[i].load(Relaxed));
        let copy = if place == 0 { None } else { apart::copy(memory, place, at) };
        let copy = copy.unwrap_or_default();
        for (word, bytes) in survey.copied[index].iter().zip(copy.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(whole), Relaxed);
        }
        survey.copied_bytes[index].store(copy.len() as u64, Relaxed);
    }
}

/// The memory that counts: what the program reads on its way, and, where nobody else changes it meanwhile, whatever was
/// kept besides the stack, of which most is garbage.
fn ranges(stand: &Stand<'_>, live: &Live, crowded: bool) -> Vec<[u64; 3]> {
    let mut ranges = Vec::new();
    for &(address, length) in &live.memory {
        let Some(offset) = stand.offset_of(address, length) else { continue };
        let value = stand.bytes(offset, length.min(8) as usize).unwrap_or(0);
        if length != 8 || !is_ours(value) {
            ranges.push([address, offset as u64, length]);
        }
    }
    if !crowded {
        ranges.extend(
            windows_of_heap(stand).map(|(start, begin, words)| [start, begin as u64 * 8, words.len() as u64 * 8]),
        );
    }
    ranges.truncate(RANGES);
    ranges
}

fn windows_of_heap<'a>(stand: &Stand<'a>) -> impl Iterator<Item = relive_trace::stand::Window<'a>> + use<'a> {
    const LARGEST: usize = 16;
    stand.windows().filter(|(_, _, words)| words.len() <= LARGEST)
}

fn write(survey: &Survey, answer: &Answer) {
    survey.live.store(answer.live.mask(), Relaxed);
    survey.flags.store(answer.live.flags, Relaxed);
    survey.room.store(answer.apart.room as u64, Relaxed);
    survey.code_bytes.store(answer.apart.code.len() as u64, Relaxed);
    survey.lead.store(answer.apart.lead as u64, Relaxed);
    survey.lead_bytes.store(answer.apart.lead_code.len() as u64, Relaxed);
    let code = survey.code.iter().zip(answer.apart.code.chunks(8));
    for (word, bytes) in code.chain(survey.lead_code.iter().zip(answer.apart.lead_code.chunks(8))) {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_le_bytes(whole), Relaxed);
    }
    survey.range_count.store(answer.ranges.len() as u64, Relaxed);
    for (words, [address, offset, length]) in survey.ranges.iter().zip(&answer.ranges) {
        words[0].store(*address, Relaxed);
        words[1].store(offset | length << 32, Relaxed);
    }
}
