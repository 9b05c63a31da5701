//! String instructions with a repeat: how far they get.
//!
//! Apart because those that compare stop by what is in memory.

use super::Found;
use crate::classify::string;
use crate::segment::Segment;
use crate::stored::Stored;
use crate::what::Kind;
use crate::{Accesses, Sink};
use relive_dbi::{Visit, read_own_memory};

const RCX: usize = 1;
const RDI: usize = 7;
/// The direction flag.
const DOWNWARDS: u64 = 0x400;
/// Bytes that are compared at a time.
const CHUNK: usize = 512;

/// Elements side by side, from the first one on upwards or downwards.
#[derive(Clone, Copy)]
struct Run {
    first: u64,
    element: u64,
    downwards: bool,
}

impl Run {
    /// The lowest address of `count` elements behind the first `done`.
    fn lowest(&self, done: u64, count: u64) -> u64 {
        if self.downwards {
            self.first.wrapping_sub((done + count - 1).wrapping_mul(self.element))
        } else {
            self.first.wrapping_add(done.wrapping_mul(self.element))
        }
    }

    /// Reads elements in the order in which the instruction does. How many there are.
    fn read(&self, done: u64, count: usize, into: &mut [u8; CHUNK]) -> usize {
        let element = self.element as usize;
        let bytes = &mut into[..count * element];
        if read_own_memory(self.lowest(done, count as u64), bytes) < bytes.len() {
            return 0;
        }
        if self.downwards {
            bytes.reverse();
            bytes.chunks_exact_mut(element).for_each(<[u8]>::reverse);
        }
        count
    }
}

/// Notes what the instruction will touch.
pub(super) fn visit<S: Sink>(found: &Found, accesses: &Accesses<'_, S>, visit: &mut Visit<'_>) {
    let operation = found.what.operation;
    let address_mask = if operation & string::SHORT != 0 { 0xFFFF_FFFF } else { u64::MAX };
    let (element, downwards) = (u64::from(found.what.element), found.context.flags & DOWNWARDS != 0);
    let run = |first| Run { first, element, downwards };
    // The address that was left is the source's, if there is one.
    let source = run(found.address);
    let target = run(found.context.general[RDI] & address_mask);
    let count = found.context.general[RCX] & address_mask;
    let mut segment = Segment { accesses, memory: visit.memory(), stored: Stored::Unknown };
    let mut touch = |run: Run, count: u64, kind, stored| {
        if count > 0 {
            segment.stored = stored;
            segment.touch(&found.context, run.lowest(0, count), count * element, kind);
        }
    };
    match operation & 15 {
        string::MOVE => {
            touch(source, count, Kind::Read, Stored::Unknown);
            touch(target, count, Kind::Write, copied(source, target, count));
        }
        string::STORE => {
            let stored = Stored::Repeated(found.context.general[0].to_le_bytes(), element as usize);
            touch(target, count, Kind::Write, stored);
        }
        string::LOAD => touch(source, count, Kind::Read, Stored::Unknown),
        string::COMPARE => {
            let count = steps(operation, count, |done, chunk, equal| differ(source, target, done, chunk, equal));
            touch(source, count, Kind::Read, Stored::Unknown);
            touch(target, count, Kind::Read, Stored::Unknown);
        }
        _ => {
            let value = found.context.general[0].to_le_bytes();
            let value = &value[..element as usize];
            let count = steps(operation, count, |done, chunk, equal| {
                let mut bytes = [0; CHUNK];
                let chunk = target.read(done, chunk, &mut bytes);
                let elements = bytes.chunks_exact(element as usize).take(chunk);
                (chunk, elements.take_while(|there| (*there == value) != equal).count())
            });
            touch(target, count, Kind::Read, Stored::Unknown);
        }
    }
}

/// What is moved, unless the instruction reads what it has just written.
fn copied(source: Run, target: Run, count: u64) -> Stored {
    let bytes = count.wrapping_mul(source.element);
    let (from, to) = (source.lowest(0, count), target.lowest(0, count));
    let apart = to.wrapping_sub(from) >= bytes && from.wrapping_sub(to) >= bytes;
    if count > 0 && apart { Stored::Copied(from) } else { Stored::Unknown }
}

/// How many of `count` elements are looked at until two are equal, or not. `look` is told how many are done, how many to
/// do, and what ends it; it says how many could be read, and how many of those do not end it.
fn steps(operation: u8, count: u64, look: impl Fn(u64, usize, bool) -> (usize, usize)) -> u64 {
    let until_equal = operation & string::UNTIL_EQUAL != 0;
    let mut done = 0;
    let mut chunk = CHUNK / 8;
    while done < count {
        let (read, passed) = look(done, chunk.min((count - done) as usize), until_equal);
        done += passed as u64;
        if read == 0 && chunk > 1 {
            // Perhaps the end lies before what can't be read.
            chunk = 1;
        } else if passed < read || read == 0 {
            // The one that ends it, or faults, is looked at as well.
            return done + 1;
        }
    }
    done
}

fn differ(source: Run, target: Run, done: u64, chunk: usize, until_equal: bool) -> (usize, usize) {
    let (mut left, mut right) = ([0; CHUNK], [0; CHUNK]);
    let chunk = source.read(done, chunk, &mut left).min(target.read(done, chunk, &mut right));
    let element = source.element as usize;
    let pairs = left.chunks_exact(element).zip(right.chunks_exact(element)).take(chunk);
    (chunk, pairs.take_while(|(left, right)| (left == right) != until_equal).count())
}
