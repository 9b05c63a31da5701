//! Looks through code for bytes that what we change begins with.
//!
//! Apart because it runs over megabytes at the start of each process, sixteen
//! bytes at a time.

use core::arch::x86_64::{
    __m128i, _mm_and_si128, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
};

const STEP: usize = 16;

/// Calls `visit` with the offset of each jump and call by a distance of four bytes that may stand in `code`, and what it
/// leads to: `jcc`, `call`, `jmp`. Where instructions begin is not known.
#[inline]
pub(crate) fn each_target(code: &[u8], mut visit: impl FnMut(usize, usize)) {
    const OPCODE_AND_DISTANCE: usize = 6;
    /// A distance within shorter code begins with all bits alike.
    const NEAR: usize = 1 << 24;
    let mut target = |at: usize, length: usize| {
        if let Some(bytes) = code.get(at + length - 4..at + length).and_then(<[u8]>::first_chunk) {
            visit(at, (at + length).wrapping_add_signed(i32::from_le_bytes(*bytes) as isize));
        }
    };
    let mut done = 0;
    while let Some(window) = code.get(done..done + STEP + OPCODE_AND_DISTANCE) {
        // SAFETY: sixteen bytes from four places of the window, the last of which is its sixth byte; every x86-64 processor
        // has these instructions.
        let (mut near, mut conditional) = unsafe {
            let at = |offset: usize| _mm_loadu_si128(window.as_ptr().add(offset).cast::<__m128i>());
            let like = |bytes, mask: u8, byte: u8| {
                _mm_cmpeq_epi8(_mm_and_si128(bytes, _mm_set1_epi8(mask as i8)), _mm_set1_epi8(byte as i8))
            };
            let is_near = |bytes| _mm_or_si128(like(bytes, 0xFF, 0), like(bytes, 0xFF, 0xFF));
            let (first, second) = (at(0), at(1));
            let mut near = like(first, 0xFE, 0xE8);
            let mut conditional = _mm_and_si128(like(first, 0xFF, 0x0F), like(second, 0xF0, 0x80));
            if code.len() <= NEAR {
                near = _mm_and_si128(near, is_near(at(4)));
                conditional = _mm_and_si128(conditional, is_near(at(5)));
            }
            (_mm_movemask_epi8(near) as u32, _mm_movemask_epi8(conditional) as u32)
        };
        while near != 0 {
            target(done + near.trailing_zeros() as usize, 5);
            near &= near - 1;
        }
        while conditional != 0 {
            target(done + conditional.trailing_zeros() as usize, 6);
            conditional &= conditional - 1;
        }
        done += STEP;
    }
    for at in done..code.len() {
        match (code[at], code.get(at + 1)) {
            (0xE8 | 0xE9, _) => target(at, 5),
            (0x0F, Some(0x80..=0x8F)) => target(at, 6),
            _ => {}
        }
    }
}

/// Calls `visit` with the offset of each byte that is `first`, with one of `seconds` behind it. Such pairs are rare where
/// the first alone is not.
#[inline]
pub(crate) fn each_pair(code: &[u8], first: u8, seconds: [u8; 4], mut visit: impl FnMut(usize)) {
    let mut done = 0;
    while let Some(window) = code.get(done..=done + STEP) {
        // SAFETY: sixteen bytes from the start of the window, and from its second byte; every x86-64 processor has these
        // instructions.
        let mut found = unsafe {
            let equal = |bytes, byte: u8| _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte as i8));
            let bytes = _mm_loadu_si128(window.as_ptr().cast::<__m128i>());
            let behind = _mm_loadu_si128(window.as_ptr().add(1).cast::<__m128i>());
            let [a, b, c, d] = seconds.map(|second| equal(behind, second));
            let any = _mm_or_si128(_mm_or_si128(a, b), _mm_or_si128(c, d));
            _mm_movemask_epi8(_mm_and_si128(equal(bytes, first), any)) as u32
        };
        while found != 0 {
            visit(done + found.trailing_zeros() as usize);
            found &= found - 1;
        }
        done += STEP;
    }
    for (at, pair) in code.windows(2).enumerate().skip(done) {
        if pair[0] == first && seconds.contains(&pair[1]) {
            visit(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{each_pair, each_target};

    #[test]
    fn every_pair_is_looked_at() {
        let code: Vec<u8> = (0..3000u32).map(|i| [0x0F, 0xA2, 0x31, 0x01, 0x90][(i * i / 7 % 5) as usize]).collect();
        for length in [0, 1, 2, 16, 17, 18, 33, 2990, 3000] {
            let code = &code[..length];
            let mut found = Vec::new();
            each_pair(code, 0x0F, [0xA2, 0x31, 0x01, 0xC7], |at| found.push(at));
            let wanted = |at: &usize| code[*at] == 0x0F && matches!(code[*at + 1], 0xA2 | 0x31 | 0x01 | 0xC7);
            let all: Vec<usize> = (0..length.saturating_sub(1)).filter(wanted).collect();
            assert_eq!(found, all, "{length}");
        }
    }

    #[test]
    fn every_jump_into_the_code_is_followed() {
        const BYTES: [u8; 8] = [0xE8, 0xE9, 0x0F, 0x84, 0x00, 0xFF, 0x12, 0x90];
        let code: Vec<u8> = (0..4000u64).map(|i| BYTES[((i * i * 0x9E37_79B9) >> 9) as usize % 8]).collect();
        for length in [0, 5, 6, 21, 22, 23, 38, 3999, 4000] {
            let code = &code[..length];
            let (mut found, mut all) = (Vec::new(), Vec::new());
            each_target(code, |_, target| found.push(target));
            for at in 0..length {
                let bytes = match code[at..] {
                    [0xE8 | 0xE9, ..] => 5,
                    [0x0F, 0x80..=0x8F, ..] => 6,
                    _ => continue,
                };
                let Some(distance) = code.get(at + bytes - 4..at + bytes) else { continue };
                let distance = i32::from_le_bytes(distance.try_into().unwrap());
                all.push((at + bytes).wrapping_add_signed(distance as isize));
            }
            let inside = |list: &[usize]| {
                let mut inside: Vec<usize> = list.iter().copied().filter(|&target| target < length).collect();
                inside.sort_unstable();
                inside
            };
            assert_eq!(inside(&found), inside(&all), "{length}");
        }
    }
}
