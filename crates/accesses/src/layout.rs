//! Where a thread's shadow and logs are, seen from the address that gs holds.
//!
//! ```text
//! area         the translator's, with the tool's words
//! touched      a bit for each byte: read or written
//! gap          a page that stays zero
//! log          lines touched in this segment, each by an address in it
//! recent       keys that were logged last, by a hash of their address
//! locked log   what locked instructions touched, as keys (see `LockedBytes`)
//! written      a bit for each byte: written
//! ```
//!
//! The bits of a line are a word of 64, and those of lines side by side lie side by
//! side, so that a load at any byte of the shadow gives those of the next 64 bytes.
//! Where they would come to the end of the window, they come to the gap.
//!
//! From the touched bits to the written ones it is a power of two that the index does
//! not have, and [`ASKEW`]: a `bts` leads there, and another displacement. A line's
//! index is what is left of its number modulo the window of 64 GiB; `tables.rs` says
//! what becomes of lines that share an index.
//!
//! All of it is reserved and not committed: a page of shadow stands for 32 KiB of the
//! program's memory.

use crate::what::Kind;
use relive_dbi::{AREA_BYTES, Gpr, Operand, Reserve};

/// Bytes of a line, as a power of two.
pub(crate) const LINE_BITS: u32 = 6;
/// Bytes of the window, as a power of two: lines this far apart share an index.
pub(crate) const WINDOW_BITS: u32 = 36;
/// The bits of an address that are its line's index.
pub(crate) const INDEX_MASK: u64 = ((1 << WINDOW_BITS) - 1) & !((1 << LINE_BITS) - 1);
/// The bits of an address that say which byte of the shadow has its bit.
pub(crate) const BYTE_MASK: u64 = ((1 << WINDOW_BITS) - 1) & !7;

const SHADOW_BYTES: usize = 1 << (WINDOW_BITS - 3);
/// From a byte of the touched shadow to that of the written one, as a power of two.
pub(crate) const WRITTEN_BIT: u8 = WINDOW_BITS as u8 - 2;
const GAP_BYTES: usize = 4096;
/// Room for the lines of a segment: eight gigabytes of them.
const LOG_BYTES: usize = 1 << 30;
/// Keys that are remembered.
pub(crate) const RECENT: usize = 1024;
const LOCKED_LOG_BYTES: usize = 1 << 20;

pub(crate) const TOUCHED: isize = AREA_BYTES as isize;
const WRITTEN: isize = TOUCHED + (1 << WRITTEN_BIT) + ASKEW;
/// What is between the two words of a line beside that power of two: with the same lowest bits, and so the same set and
/// tag of the first cache, one would put the other out, and a load of one would wait for the store to the other.
const ASKEW: isize = 39 * 64;
/// Where the log begins, and behind it ends.
pub(crate) const LOG: isize = TOUCHED + (SHADOW_BYTES + GAP_BYTES) as isize;
pub(crate) const LOG_END: isize = LOG + LOG_BYTES as isize;
pub(crate) const RECENT_KEYS: isize = LOG_END;
pub(crate) const LOCKED_LOG: isize = RECENT_KEYS + 8 * RECENT as isize;
pub(crate) const LOCKED_LOG_END: isize = LOCKED_LOG + LOCKED_LOG_BYTES as isize;

/// What each thread needs around its area; the last bytes are another gap.
pub(crate) const RESERVE: Reserve =
    Reserve { before: 0, behind: (1 << WRITTEN_BIT) + ASKEW as usize + SHADOW_BYTES + GAP_BYTES };

const _: () = assert!(LOCKED_LOG_END <= WRITTEN && WINDOW_BITS < 40);
const _: () = assert!(ASKEW % 64 == 0 && ASKEW % 4096 != 0, "whole lines, and not the same place in a page");

/// The tool's words in the area.
pub(crate) mod word {
    /// [`INDEX_MASK`](super::INDEX_MASK), for `pext`.
    pub(crate) const MASK: usize = 0;
    /// The address of the access, where a check did not pass.
    pub(crate) const ADDRESS: usize = 1;
    /// What access that is: a [`What`](crate::what::What).
    pub(crate) const WHAT: usize = 2;
    /// Where the next line goes.
    pub(crate) const LOG_NEXT: usize = 3;
    pub(crate) const LOG_END: usize = 4;
    pub(crate) const LOCKED_NEXT: usize = 5;
    pub(crate) const LOCKED_END: usize = 6;
    /// Where [`Tables`](crate::Tables) says whether any line is special.
    pub(crate) const SPECIAL: usize = 7;
    /// The filter of watched lines, the multiplier that leads there, and the windows' contested places.
    pub(crate) const FILTER: usize = 8;
    pub(crate) const SPREAD: usize = 9;
    pub(crate) const CONTESTED: usize = 10;
    /// Keys that were logged last.
    pub(crate) const RECENT: usize = 11;
    /// The bytes of an access whose size is none of the usual ones, from its address on.
    pub(crate) const SPAN: usize = 12;
    /// The key of what a locked instruction touches, without its address.
    pub(crate) const KEY: usize = 13;
    /// [`BYTE_MASK`](super::BYTE_MASK) for `pext`, or shifted for `and`.
    pub(crate) const BYTE_MASK: usize = 14;
    /// A bit for each second, fourth and eighth byte.
    pub(crate) const ELEMENTS: usize = 15;
    /// As many bits as bytes: 1, 2, and each multiple of 4 up to 64.
    pub(crate) const SPANS: usize = 18;
    pub(crate) const SPAN_COUNT: usize = 18;
    /// Where the log's last line without shadow is, if that is its end.
    pub(crate) const LAST_WITH_BYTES: usize = SPANS + SPAN_COUNT;
    /// How often the thread came to each of the instructions that are counted.
    pub(crate) const PASSES: usize = LAST_WITH_BYTES + 1;
    /// Places, by their lowest bits, where no line is watched or contested as far as the thread knows in this segment.
    pub(crate) const PLAIN: usize = PASSES + crate::COUNTED;
    pub(crate) const PLAIN_COUNT: usize = 16;
    /// What the tables' count of changes was then.
    pub(crate) const CHANGES: usize = PLAIN + PLAIN_COUNT;
    /// From where to where the library's code is whose functions are followed.
    pub(crate) const LIBRARY: usize = CHANGES + 1;
    pub(crate) const LIBRARY_END: usize = LIBRARY + 1;
    /// Where the stack pointer is when the call returns that is followed; 0 if none is.
    pub(crate) const RETURNS: usize = LIBRARY_END + 1;
    /// Which function that is, its first arguments, and the first two words of its `va_list`.
    pub(crate) const FUNCTION: usize = RETURNS + 1;
    pub(crate) const ARGUMENTS: usize = FUNCTION + 1;
    pub(crate) const LIST: usize = ARGUMENTS + crate::calls::ARGUMENTS;
    /// What the sink remembers of each line: where that begins, and the bits of a line's address that are its place there.
    pub(crate) const REMEMBERED: usize = LIST + 2;
    pub(crate) const REMEMBERED_MASK: usize = REMEMBERED + 1;
    /// So far in the log it is fetched as soon as the line is logged.
    pub(crate) const SOON: usize = REMEMBERED_MASK + 1;
}

/// The index of the line that has `address`.
pub(crate) const fn index(address: u64) -> u64 {
    (address & INDEX_MASK) >> LINE_BITS
}

/// Where the bytes touched of a line are.
pub(crate) const fn touched(index: u64) -> isize {
    TOUCHED + index as isize * 8
}

/// Where the bytes written of a line are.
pub(crate) const fn written(index: u64) -> isize {
    WRITTEN + index as isize * 8
}

/// From `gs` on, less what [`to_written`](crate::check::to_written) adds to the index: where the bits of such accesses
/// begin.
pub(crate) const fn begin(kind: Kind) -> i32 {
    match kind {
        Kind::Write => (TOUCHED + ASKEW) as i32,
        Kind::Read | Kind::Locked => TOUCHED as i32,
    }
}

/// The operand of a tool's word.
pub(crate) const fn tool(word: usize) -> Operand {
    relive_dbi::tool_word(word)
}

/// Where a place with these lowest bits is noted as plain.
pub(crate) fn plain_at(low: Gpr) -> Operand {
    Operand::area_indexed(low, 8, relive_dbi::tool_offset(word::PLAIN))
}

/// `count` bits, the lowest ones; 64 at most.
pub(crate) const fn ones(count: u32) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

/// How many bytes the tool's word `SPANS` + `number` stands for.
pub(crate) const fn span_bytes(number: usize) -> u32 {
    if number < 2 { number as u32 + 1 } else { (number as u32 - 1) * 4 }
}

/// The tool's word that has so many ones, if there is one.
pub(crate) const fn span_word(bytes: u32) -> Option<usize> {
    match bytes {
        1 | 2 => Some(word::SPANS + bytes as usize - 1),
        4..=64 if bytes.is_multiple_of(4) => Some(word::SPANS + bytes as usize / 4 + 1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{span_bytes, span_word, word};

    #[test]
    fn each_span_has_its_word() {
        for number in 0..word::SPAN_COUNT {
            assert_eq!(span_word(span_bytes(number)), Some(word::SPANS + number));
        }
        assert_eq!(span_bytes(word::SPAN_COUNT - 1), 64);
        assert!([0, 3, 6, 10, 65, 68].into_iter().all(|bytes| span_word(bytes).is_none()));
    }
}
