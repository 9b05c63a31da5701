//! Input for real programs: pseudo-random text, the same on every machine.
//!
//! Apart from the tests because its bytes must never change by accident: it
//! compresses about as well as English does, so that compressors really work.

use crate::dice::Dice;

/// Different words.
const WORDS: usize = 4096;

/// At least `bytes` of text in lines.
pub(crate) fn text(bytes: usize, seed: u64) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    let words: Vec<Vec<u8>> = (0..WORDS).map(|_| word(&mut dice)).collect();
    let mut text = Vec::with_capacity(bytes + 128);
    while text.len() < bytes {
        for _ in 0..2 + dice.below(4) {
            // The smaller of two: frequent words and rare ones.
            let chosen = dice.below(WORDS).min(dice.below(WORDS));
            text.extend_from_slice(&words[chosen]);
            text.push(b' ');
        }
        text.push(b'\n');
    }
    text
}

fn word(dice: &mut Dice) -> Vec<u8> {
    (0..2 + dice.below(9)).map(|_| b'a' + dice.below(26) as u8).collect()
}
