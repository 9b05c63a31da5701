//! What a processor says of itself: asked once, kept as a table, and answered
//! from there wherever a program asks.
//!
//! Of several processors one speaks for all: the numbers by which they tell
//! themselves apart are those of the one that was asked first.

use core::arch::x86_64::__cpuid_count;

/// Leaf and part of it, and what the four registers held.
pub type Leaf = [u32; 6];

/// The leaf under which the table has what `xgetbv` says of the state that is in use.
const STATE: u32 = 0xFFFF_FFFF;
const EXTENDED: u32 = 0x8000_0000;
const HYPERVISOR: u32 = 0x4000_0000;
/// Leaf 1 has its processor's number in the upper bits of the second register.
const NUMBER: u32 = 0xFF00_0000;
/// What the leaf says does not depend on a part.
const WHOLE: u32 = u32::MAX;

fn ask(leaf: u32, part: u32) -> [u32; 4] {
    let told = __cpuid_count(leaf, part);
    [told.eax, told.ebx, told.ecx, told.edx]
}

/// Asks the processor for everything, and calls `visit` with each leaf.
pub fn each_leaf(mut visit: impl FnMut(Leaf)) {
    const UNDER_HYPERVISOR: u32 = 1 << 31;
    const HAS_STATE: u32 = 1 << 27;
    let mut keep = |leaf: u32, part: u32, told: [u32; 4]| {
        let [a, b, c, d] = told;
        visit([leaf, part, a, b, c, d]);
    };
    let [.., features, _] = ask(1, 0);
    each_basic(&mut keep);
    if features & UNDER_HYPERVISOR != 0 {
        each_in(HYPERVISOR, &mut keep);
    }
    each_in(EXTENDED, &mut keep);
    if features & HAS_STATE != 0 {
        let (low, high): (u32, u32);
        // SAFETY: the processor has just said that it knows the instruction; it reads a register that user code may read.
        unsafe {
            core::arch::asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack));
        }
        keep(STATE, WHOLE, [low, 0, 0, high]);
    }
}

fn each_basic(keep: &mut impl FnMut(u32, u32, [u32; 4])) {
    const MOST: u32 = 0x40;
    let [last, ..] = ask(0, 0);
    let ([_, second, ..], [.., number]) = (ask(1, 0), ask(0xB, 0));
    for leaf in 0..=last.min(MOST) {
        if has_parts(leaf) {
            each_part(leaf, number, keep);
            continue;
        }
        let mut told = ask(leaf, 0);
        if leaf == 1 {
            told[1] = told[1] & !NUMBER | second & NUMBER;
        }
        keep(leaf, WHOLE, told);
    }
}

/// `number` is that of the processor that speaks for all.
fn each_part(leaf: u32, number: u32, keep: &mut impl FnMut(u32, u32, [u32; 4])) {
    // Of leaf 0xD, parts of the state that there are: others need not be asked for.
    let mut components = 0;
    for part in 0..32 {
        if leaf == 0xD && part > 1 && components >> part & 1 == 0 {
            continue;
        }
        let mut told = ask(leaf, part);
        match (leaf, part) {
            (0xB | 0x1F, _) => told[3] = number,
            (0xD, 0) => components |= told[0],
            (0xD, 1) => components |= told[2],
            _ => {}
        }
        let empty = is_last(leaf, part, told);
        if !empty || part == 0 {
            keep(leaf, part, told);
        }
        if empty {
            return;
        }
    }
}

fn each_in(range: u32, keep: &mut impl FnMut(u32, u32, [u32; 4])) {
    const MOST: u32 = 0x40;
    /// AMD's description of caches.
    const CACHES: u32 = 0x8000_001D;
    let [last, ..] = ask(range, 0);
    for leaf in range..=last.clamp(range, range + MOST) {
        if leaf == CACHES {
            (0..8).for_each(|part| keep(leaf, part, ask(leaf, part)));
        } else {
            keep(leaf, WHOLE, ask(leaf, 0));
        }
    }
}

fn has_parts(leaf: u32) -> bool {
    matches!(
        leaf,
        4 | 7 | 0xB | 0xD | 0xF | 0x10 | 0x12 | 0x14 | 0x17 | 0x18 | 0x1A | 0x1B | 0x1D | 0x1F | 0x20 | 0x23 | 0x24
    )
}

/// Whether no further part of a leaf is worth asking for.
fn is_last(leaf: u32, part: u32, told: [u32; 4]) -> bool {
    const KIND_OF_CACHE: u32 = 0x1F;
    match leaf {
        4 => told[0].is_multiple_of(KIND_OF_CACHE + 1),
        0xB | 0x1F => told[1] == 0,
        0xD => false,
        _ => told == [0; 4] || part > 4,
    }
}

/// What the table says of a leaf.
pub fn answer(leaves: &[Leaf], leaf: u32, part: u32) -> [u32; 4] {
    const INTEL: [u32; 3] = [0x756E_6547, 0x6C65_746E, 0x4965_6E69];
    let told = |leaf: u32, part: u32| {
        let found = leaves.iter().find(|found| found[0] == leaf && (found[1] == part || found[1] == WHOLE))?;
        Some([found[2], found[3], found[4], found[5]])
    };
    if leaf == STATE {
        return [0; 4];
    }
    if let Some(found) = told(leaf, part) {
        return found;
    }
    let last = |range: u32| told(range, 0).map_or(0, |[last, ..]| last);
    if matches!(leaf, 0xB | 0x1F) && leaf <= last(0) {
        let number = told(leaf, 0).map_or(0, |[.., number]| number);
        return [0, 0, part & 0xFF, number];
    }
    let [_, b, c, d] = told(0, 0).unwrap_or_default();
    let beyond = leaf > last(0)
        && !(EXTENDED..=last(EXTENDED)).contains(&leaf)
        && !(HYPERVISOR..=last(HYPERVISOR)).contains(&leaf);
    // Intel's answer what is beyond the last leaf as if it were asked for.
    if beyond && [b, c, d] == INTEL { told(last(0), part).unwrap_or_default() } else { [0; 4] }
}

/// What the table has for `xgetbv`.
pub fn state(leaves: &[Leaf]) -> u64 {
    let found = leaves.iter().find(|leaf| leaf[0] == STATE);
    found.map_or(0, |&[_, _, low, _, _, high]| u64::from(high) << 32 | u64::from(low))
}

#[cfg(test)]
mod tests {
    use super::{Leaf, WHOLE, answer, ask, each_leaf, state};

    #[test]
    fn the_table_says_what_the_processor_says() {
        let mut leaves: Vec<Leaf> = Vec::new();
        each_leaf(|leaf| leaves.push(leaf));
        assert!(leaves.len() < 250, "{}", leaves.len());
        for &[leaf, part, ..] in &leaves {
            // Numbers of the processor that happens to run this, and what the kernel has changed since.
            if !matches!(leaf, 1 | 0xB | 0xD | 0x1F | u32::MAX) {
                let part = if part == WHOLE { 0 } else { part };
                assert_eq!(answer(&leaves, leaf, part), ask(leaf, part), "{leaf:x} {part}");
            }
        }
        assert_eq!(answer(&leaves, 4, 63)[0] & 0x1F, 0);
        assert_eq!(answer(&leaves, 0, 77), answer(&leaves, 0, 0));
        assert!(state(&leaves) & 3 == 3);
    }

    #[test]
    fn what_is_not_in_the_table_is_answered_alike_everywhere() {
        let amd = [[0, WHOLE, 7, 1, 2, 3], [7, 0, 1, 5, 5, 5]];
        assert_eq!(answer(&amd, 0x77, 0), [0; 4]);
        assert_eq!(answer(&amd, 7, 1), [0; 4]);
        let intel = [[0, WHOLE, 7, 0x756E_6547, 0x6C65_746E, 0x4965_6E69], [7, 0, 1, 5, 5, 5]];
        assert_eq!(answer(&intel, 0x77, 0), [1, 5, 5, 5], "the last leaf");
        assert_eq!(answer(&intel, 6, 0), [0; 4]);
    }
}
