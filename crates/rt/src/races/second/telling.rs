//! A race in the words that `relive-findings` reads.
//!
//! Apart from what is known of it: here is the layout alone, one record after the other
//! (see the table at the head of `relive-findings`' `wire.rs`, whose tests read what is
//! written here).

use super::blocks::Block;
use super::told::Met;
use super::{Operation, Origin, Record};
use crate::races::{labels, storage};
use crate::thread;
use alloc::vec::Vec;
use core::ops::Range;
use relive_race::{Kind, Touch};
use relive_sys::maps;
use relive_trace::layout::NONE;
use relive_trace::races::told::{MAGIC, VERSION, tag};

fn record(words: &mut Vec<u64>, tag: u64, content: &[u64]) {
    words.extend_from_slice(&[tag, content.len() as u64]);
    words.extend_from_slice(content);
}

fn text(words: &mut Vec<u64>, text: &[u8]) {
    bytes(words, tag::TEXT, text);
}

fn bytes(words: &mut Vec<u64>, tag: u64, bytes: &[u8]) {
    words.extend_from_slice(&[tag, 1 + bytes.len().div_ceil(8) as u64, bytes.len() as u64]);
    words.extend(bytes.chunks(8).map(|bytes| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    }));
}

/// What comes first.
pub(super) fn header() -> Vec<u64> {
    let mut words = Vec::new();
    record(&mut words, tag::HEADER, &[MAGIC, VERSION]);
    words
}

/// The files whose code is mapped. The launcher, which reads them, knows how their addresses follow from where they lie.
pub(super) fn modules() -> Vec<u64> {
    let mut words = Vec::new();
    maps::each_file_of_code(|range, offset, path| {
        let (start, end) = (range.start as u64, range.end as u64);
        let storage = storage::of_code(&(start..end));
        record(&mut words, tag::MODULE, &[start, end, start.wrapping_sub(offset as u64), storage]);
        text(&mut words, path.strip_suffix(&[0]).unwrap_or(path));
    });
    words
}

/// Who made a thread, where its stack and its thread-local storage are, and what the program calls it. Its name in the
/// tree of threads is the launcher's to know.
pub(super) fn thread(words: &mut Vec<u64>, number: u32, created: Option<&Origin>, stack: &Range<u64>) {
    let creator = created.map_or(NONE, |created| created.thread);
    let pointer = thread::handle_of(number) as u64;
    record(words, tag::THREAD, &[u64::from(number), u64::from(creator), stack.start, stack.end, pointer]);
    text(words, b"");
    labels::with(number, |label| text(words, label));
    if let Some(created) = created {
        record(words, tag::SNAPSHOT, &created.stack);
    }
}

/// The block in which the bytes of the race before lie.
pub(super) fn block(words: &mut Vec<u64>, start: u64, block: &Block) {
    record(words, tag::BLOCK, &[start, block.size]);
    for origin in [Some(&block.allocated), block.freed.as_ref()].into_iter().flatten() {
        record(words, tag::ORIGIN, &[u64::from(origin.thread)]);
        record(words, tag::SNAPSHOT, &origin.stack);
    }
}

/// A race with its two accesses.
pub(super) fn race(words: &mut Vec<u64>, met: &Met, certain: bool, accesses: [&Record; 2]) {
    let kind = match met.kind {
        Kind::Accesses => 0,
        Kind::Free | Kind::Freed | Kind::Frees => 1,
        Kind::UseAfterFree | Kind::DoubleFree => 2,
    };
    let certainty = match (met.perhaps_atomic, certain) {
        (true, _) => 2,
        (false, true) => 0,
        (false, false) => 1,
    };
    let bytes = met.bytes >> met.bytes.trailing_zeros();
    record(words, tag::RACE, &[met.address(), bytes, kind, certainty, 1]);
    for access in accesses {
        one(words, met, access);
    }
}

/// Both counts in one word: which of them is the access's the launcher knows, who asked for them.
fn passes(passes: [u64; 2]) -> u64 {
    let [first, second] = passes.map(|count| count.min(u32::MAX.into()));
    first | second << 32
}

fn one(words: &mut Vec<u64>, met: &Met, access: &Record) {
    let kind = match access.touch {
        Touch::Read => 0,
        Touch::Write => 1,
        Touch::Locked => 3,
        Touch::Free => 4,
    };
    // Of one that stands for several it is known which bytes race, and not what all of them hold.
    let (address, value) = if access.several { (met.address(), None) } else { (access.address, access.content.value) };
    let (known, value) = value.map_or((0, 0), |value| (1, value));
    let thread = u64::from(access.thread);
    let content = [thread, access.event, passes(access.passes), kind, address, access.size, known, value, 0];
    record(words, tag::ACCESS, &content);
    record(words, tag::SNAPSHOT, &access.stack);
    let racing = access.content.racing(met.line, met.bytes);
    if !racing.is_empty() && !access.several {
        bytes(words, tag::CONTENT, racing);
    }
    for held in &access.locks {
        record(words, tag::LOCK, &[held.key, u64::from(held.shared)]);
        record(words, tag::SNAPSHOT, &held.taken);
    }
    for (side, operation) in [(0, access.before), (1, access.after)] {
        if let Some(Operation { event, kind, key }) = operation {
            record(words, tag::SYNC, &[side, event, key]);
            text(words, kind.name().as_bytes());
        }
    }
}
