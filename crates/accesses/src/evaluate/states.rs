//! Instructions that save and restore the processor's state.
//!
//! Apart because their memory has parts, of which some are touched (Intel SDM volume 1,
//! 10.5 and 13.4 to 13.8).

use super::Found;
use crate::classify::keep;
use crate::layout::ones;
use crate::processor::PARTS;
use crate::{Accesses, Sink};
use relive_dbi::{Visit, read_own_memory};

/// The part of `fxsave` that the processor touches.
const LEGACY: u64 = 416;
const HEADER: u64 = 512;
const BEHIND_HEADER: u64 = 576;
/// Of the second word of the header: the form is compact.
const COMPACT: u64 = 1 << 63;
const X87: u64 = 1;
const SSE: u64 = 2;
const AVX: u64 = 4;
/// Whose use a visit knows.
const VECTORS: u64 = 0xE6;

/// Notes what the instruction will touch.
pub(super) fn visit<S: Sink>(found: &Found, accesses: &Accesses<'_, S>, visit: &mut Visit<'_>) {
    let [rax, _, rdx, ..] = found.context.general;
    let wanted = (rax & ones(32) | rdx << 32) & visit.enabled();
    // x87 and what else there may be is taken to be in use.
    let in_use = visit.in_use() | !VECTORS;
    let mut touch = |offset, bytes| found.touch(accesses, visit, offset, bytes);
    match found.what.operation {
        keep::FXSAVE | keep::FXRSTOR => touch(0, LEGACY),
        keep::FNSAVE | keep::FRSTOR => touch(0, u64::from(found.what.lanes)),
        keep::XSAVE | keep::XSAVEOPT => {
            let parts = if found.what.operation == keep::XSAVE { wanted } else { wanted & in_use };
            touch(HEADER, 8);
            for_parts(accesses, wanted, parts, false, &mut touch);
        }
        keep::XSAVEC => {
            touch(HEADER, 16);
            for_parts(accesses, wanted, wanted & in_use, true, &mut touch);
        }
        _ => {
            touch(HEADER, 64);
            let mut header = [0; 16];
            if read_own_memory(found.address + HEADER, &mut header) == header.len() {
                let [there, form] = [&header[..8], &header[8..]]
                    .map(|word| word.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)));
                let compact = form & COMPACT != 0;
                for_parts(accesses, if compact { form } else { wanted }, wanted & there, compact, &mut touch);
            }
        }
    }
}

/// Notes the `parts` of a state whose layout has `room`.
fn for_parts<S>(accesses: &Accesses<'_, S>, room: u64, parts: u64, compact: bool, touch: &mut impl FnMut(u64, u64)) {
    if parts & X87 != 0 {
        touch(0, 24);
        touch(32, 128);
    }
    if parts & (SSE | AVX) != 0 {
        touch(24, 8);
    }
    if parts & SSE != 0 {
        touch(160, 256);
    }
    let mut next = BEHIND_HEADER;
    for part in (2..PARTS).filter(|part| room >> part & 1 != 0) {
        let (begin, bytes, aligned) = accesses.processor.parts[part];
        let begin = match compact {
            true if aligned => next.next_multiple_of(64),
            true => next,
            false => u64::from(begin),
        };
        next = begin + u64::from(bytes);
        if parts >> part & 1 != 0 {
            touch(begin, u64::from(bytes));
        }
    }
}
