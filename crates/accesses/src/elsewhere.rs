//! What another thread has touched in its segment so far, looked at from outside.
//!
//! Apart from taking it, which is the thread's own: the log stays as it is, and may grow
//! meanwhile. An entry stands in the log before the log's end says so, and before the
//! bits of its line are set, so what is seen has happened or is about to.

use crate::layout::{LINE_BITS, LOCKED_LOG, LOG, index, touched, word, written};
use crate::segment::{LockedBytes, WITH_BYTES};
use relive_dbi::Elsewhere;
use relive_race::Line;

/// How many lines the thread touched, rather more than fewer.
pub fn lines(memory: &Elsewhere) -> u64 {
    bytes(memory, word::LOG_NEXT, LOG) as u64 / 8
}

/// Each line that the thread touched since its segment was last taken, which must not happen meanwhile. A line may come twice.
pub fn look(memory: &Elsewhere, mut each: impl FnMut(Line)) {
    let mut at = LOG;
    let end = LOG + bytes(memory, word::LOG_NEXT, LOG);
    while at < end {
        let entry = memory.load(at);
        at += 8;
        if entry & WITH_BYTES != 0 {
            let number = (entry & !WITH_BYTES) >> LINE_BITS;
            let changed = memory.load(at + 8);
            each(Line { number, read: memory.load(at) & !changed, written: changed });
            at += 16;
        } else {
            let index = index(entry);
            // What is written is noted last.
            let changed = memory.load(written(index));
            let all = memory.load(touched(index));
            if all | changed != 0 {
                each(Line { number: entry >> LINE_BITS, read: all & !changed, written: changed });
            }
        }
    }
}

/// What is new of lines of which these bytes were kept ([`Segment::keep`](crate::Segment::keep)).
pub fn recall(memory: &Elsewhere, lines: impl Iterator<Item = (u64, u64)>, mut each: impl FnMut(Line)) {
    for (number, kept) in lines {
        let index = index(number << LINE_BITS);
        let changed = memory.load(written(index));
        let all = memory.load(touched(index));
        if all != kept || changed != 0 {
            each(Line { number, read: all & !changed & !kept, written: changed });
        }
    }
}

/// Has the thread note anew what it touches. Of what it noted so far, a look shows the bytes that it touches again, and such
/// as were noted within the last instant.
pub fn forget(memory: &Elsewhere) {
    let mut at = LOG;
    let end = LOG + bytes(memory, word::LOG_NEXT, LOG);
    while at < end {
        let entry = memory.load(at);
        if entry & WITH_BYTES != 0 {
            memory.clear(at + 8);
            memory.clear(at + 16);
            at += 24;
        } else {
            memory.clear(touched(index(entry)));
            memory.clear(written(index(entry)));
            at += 8;
        }
    }
}

/// What locked instructions of the thread touched since that was last taken.
pub fn look_at_locked(memory: &Elsewhere, mut each: impl FnMut(LockedBytes)) {
    let end = LOCKED_LOG + bytes(memory, word::LOCKED_NEXT, LOCKED_LOG);
    for at in (LOCKED_LOG..end).step_by(8) {
        each(LockedBytes::of_key(memory.load(at)));
    }
}

/// From a log's beginning to where its next entry goes, as the tool's word `next` says.
fn bytes(memory: &Elsewhere, next: usize, log: isize) -> isize {
    memory.word(next).wrapping_sub(memory.address().wrapping_add_signed(log as i64)) as isize
}
