//! Into which changed pieces of code something jumps: those stay as they are.
//!
//! Apart because a library has half a million jumps, and nearly none needs a closer look.

use crate::sweep::each_target;

/// Pieces that can be asked about at a time.
pub(crate) const SPANS: usize = 1024;
const WORDS: usize = 512;

/// Which of the pieces of `code` something may jump into, behind their first byte. There are `count`, in ascending order,
/// each from its first offset to behind its last. Whatever looks like a jump counts as one, wherever it stands, unless
/// `is_none` says of its offset that no instruction begins there: every third piece has a byte nearby that looks like a
/// short jump into it.
pub(crate) fn entered(
    code: &[u8],
    count: usize,
    span: impl Fn(usize) -> [usize; 2],
    is_none: impl FnMut(usize) -> bool,
) -> [bool; SPANS] {
    const SHORT: usize = 130;
    let mut search = Search { found: [false; SPANS], coarse: [0; WORDS], count, span, is_none };
    if count == 0 {
        return search.found;
    }
    search.prepare();
    each_target(code, |at, target| search.at(at, target));
    // Short ones come from nearby.
    for index in 0..count {
        let [start, end] = (search.span)(index);
        let around = start.saturating_sub(SHORT)..(end + SHORT).min(code.len().saturating_sub(1));
        for at in around.filter(|&at| matches!(code[at], 0x70..=0x7F | 0xE0..=0xE3 | 0xEB)) {
            search.at(at, (at + 2).wrapping_add_signed(code[at + 1] as i8 as isize));
        }
    }
    search.found
}

struct Search<Span, None> {
    found: [bool; SPANS],
    /// A bit for each sixteen bytes, by the low bits of their address: few jumps need a closer look.
    coarse: [u64; WORDS],
    count: usize,
    span: Span,
    is_none: None,
}

fn bit(at: usize) -> (usize, u64) {
    let piece = at / 16;
    (piece / 64 % WORDS, 1 << (piece % 64))
}

impl<Span: Fn(usize) -> [usize; 2], None: FnMut(usize) -> bool> Search<Span, None> {
    fn prepare(&mut self) {
        for index in 0..self.count {
            let [start, end] = (self.span)(index);
            for at in (start..end).step_by(16).chain([end]) {
                let (word, bit) = bit(at);
                self.coarse[word] |= bit;
            }
        }
    }

    #[inline]
    fn at(&mut self, jump: usize, target: usize) {
        let (word, bit) = bit(target);
        if self.coarse[word] & bit == 0 {
            return;
        }
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            if (self.span)(middle)[0] < target { low = middle + 1 } else { high = middle }
        }
        if let Some(before) = low.checked_sub(1)
            && target < (self.span)(before)[1]
            && !self.found[before]
            && !(self.is_none)(jump)
        {
            self.found[before] = true;
        }
    }
}
