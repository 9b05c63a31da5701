//! Which bytes an instruction touches where only the values of its operands say so.
//!
//! The thread has left the cache before the instruction, with all that it has in
//! registers. What is rare, or slow by itself, is found here, exactly; what is not
//! exact is counted: instructions of unknown effect.

mod states;
mod strings;

use crate::calls;
use crate::layout::{LINE_BITS, ones, word};
use crate::segment::{LockedBytes, Segment};
use crate::stored::{self, Stored};
use crate::what::{Class, Kind, What};
use crate::{Accesses, Sink};
use core::iter::once;
use core::ops::Range;
use relive_dbi::{Context, Visit};

/// Does what a visit was asked for.
pub(crate) fn visit<S: Sink>(accesses: &Accesses<'_, S>, visit: &mut Visit<'_>) {
    let memory = visit.memory();
    let what = What::unpack(memory.word(word::WHAT));
    let (address, span, key) = (memory.word(word::ADDRESS), memory.word(word::SPAN), memory.word(word::KEY));
    let found = Found { what, address, context: *visit.context() };
    match what.class {
        Class::Plain => found.touch(accesses, visit, 0, u64::from(what.element)),
        Class::Span => found.span(accesses, visit, span),
        Class::Keyed => found.touch(accesses, visit, 0, u64::from(LockedBytes::of_key(key).bytes)),
        Class::String => strings::visit(&found, accesses, visit),
        Class::Bit => found.bit(accesses, visit),
        Class::Masked | Class::Packed | Class::Broadcast | Class::MaskedBySigns => {
            let span = found.masked(visit);
            found.span(accesses, visit, span);
        }
        Class::Scattered => found.scattered(accesses, visit),
        Class::State => states::visit(&found, accesses, visit),
        Class::Translate => found.touch(accesses, visit, found.context.general[0] & 0xFF, 1),
        Class::Returned => calls::returned(accesses, visit),
        Class::Left => calls::left(accesses, visit),
        Class::Unknown => accesses.tables.count_unknown(u16::from_le_bytes([what.element, what.lanes])),
    }
}

/// What is known when a visit begins.
pub(crate) struct Found {
    pub(crate) what: What,
    pub(crate) address: u64,
    pub(crate) context: Context,
}

impl Found {
    /// Notes bytes at `offset` from the address.
    pub(crate) fn touch<S: Sink>(&self, accesses: &Accesses<'_, S>, visit: &mut Visit<'_>, offset: u64, bytes: u64) {
        let address = self.address.wrapping_add(offset);
        let stores = self.stores_to_watched(accesses, address, bytes);
        let stored = if stores { stored::of(visit, &self.context, address, bytes) } else { Stored::Unknown };
        self.touch_with(accesses, visit, address..address.wrapping_add(bytes), stored);
    }

    fn touch_with<S: Sink>(&self, accesses: &Accesses<'_, S>, visit: &mut Visit<'_>, at: Range<u64>, stored: Stored) {
        let mut segment = Segment { accesses, memory: visit.memory(), stored };
        segment.touch(&self.context, at.start, at.end.wrapping_sub(at.start), self.what.kind);
    }

    /// Whether it matters what is stored: a few bytes, at most of a line's size, some of them in a line that is watched.
    fn stores_to_watched<S: Sink>(&self, accesses: &Accesses<'_, S>, address: u64, bytes: u64) -> bool {
        let end = address.wrapping_add(bytes);
        self.what.kind != Kind::Read
            && [address, end.wrapping_sub(1)].iter().any(|byte| accesses.is_watched(byte >> LINE_BITS))
            && !accesses.sink.is_worn(self.context.ip, &(address..end))
    }

    fn span<S: Sink>(&self, accesses: &Accesses<'_, S>, visit: &mut Visit<'_>, span: u64) {
        let stored = if !self.stores_to_watched(accesses, self.address, 64) {
            Stored::Unknown
        } else if self.what.class == Class::Packed {
            let mask = visit.mask(self.what.register.into());
            let lanes = (0..usize::from(self.what.lanes)).filter(|lane| mask >> lane & 1 != 0);
            stored::packed(visit, &self.context, lanes, self.what.element.into())
        } else {
            stored::spanned(visit, &self.context)
        };
        let mut segment = Segment { accesses, memory: visit.memory(), stored };
        segment.touch_span(&self.context, self.address, span, self.what.kind);
    }

    /// The bits of bit strings are counted from the address, in both directions.
    fn bit<S: Sink>(&self, accesses: &Accesses<'_, S>, visit: &mut Visit<'_>) {
        let number = self.context.general[usize::from(self.what.register & 15)] as i64;
        let (number, bits) = match self.what.element {
            2 => (i64::from(number as i16), 4),
            4 => (i64::from(number as i32), 5),
            _ => (number, 6),
        };
        let bytes = u64::from(self.what.element);
        self.touch(accesses, visit, ((number >> bits) as u64).wrapping_mul(bytes), bytes);
    }

    /// The bytes of a masked access, from the address on.
    fn masked(&self, visit: &Visit<'_>) -> u64 {
        let lanes = u32::from(self.what.lanes);
        let element = u32::from(self.what.element);
        let mask = match self.what.class {
            Class::MaskedBySigns => signs(&visit.vector(self.what.register.into()), element as usize),
            _ => visit.mask(self.what.register.into()),
        };
        let mask = mask & ones(lanes);
        match self.what.class {
            Class::Packed => ones(mask.count_ones() * element),
            Class::Broadcast if mask == 0 => 0,
            Class::Broadcast => ones(element),
            _ => {
                let bytes = (0..lanes).filter(|lane| mask >> lane & 1 != 0);
                bytes.fold(0, |span, lane| span | ones(element) << (lane * element))
            }
        }
    }

    fn scattered<S: Sink>(&self, accesses: &Accesses<'_, S>, visit: &mut Visit<'_>) {
        let (element, indices) = (u64::from(self.what.element), visit.vector(self.what.indices.into()));
        let (index_bytes, scale) = (usize::from(self.what.scale >> 4), u64::from(self.what.scale & 15));
        let mask = match self.what.operation {
            0 => visit.mask(self.what.register.into()),
            _ => signs(&visit.vector(self.what.register.into()), element as usize),
        };
        for lane in (0..usize::from(self.what.lanes)).filter(|lane| mask >> lane & 1 != 0) {
            let at = &indices[lane * index_bytes..];
            let index = match (index_bytes, at.first_chunk(), at.first_chunk()) {
                (4, Some(four), _) => i64::from(i32::from_le_bytes(*four)),
                (_, _, Some(eight)) => i64::from_le_bytes(*eight),
                _ => continue,
            };
            let address = self.address.wrapping_add((index as u64).wrapping_mul(scale));
            let stored = if self.stores_to_watched(accesses, address, element) {
                stored::packed(visit, &self.context, once(lane), element as usize)
            } else {
                Stored::Unknown
            };
            self.touch_with(accesses, visit, address..address.wrapping_add(element), stored);
        }
    }
}

/// A bit for each element: its highest.
fn signs(vector: &[u8; 64], element: usize) -> u64 {
    let highest = vector.chunks_exact(element).map(|chunk| chunk[element - 1] >> 7);
    highest.enumerate().fold(0, |mask, (lane, sign)| mask | u64::from(sign) << lane)
}
