//! Sites in words that others may keep: the next process that maps the same code need
//! not look through it.
//!
//! Apart from the search because nothing of it is needed to read them. A word has what a
//! [`Site`] says of itself, and how far it lies behind the one before; where that is too far, a word
//! without a site stands in between.

use super::access::Access;
use super::sites::Site;

const LENGTH_BITS: u32 = 4;
const ROOM_BITS: u32 = 5;
/// The lowest bit of each part but the length's.
const ROOM: [u32; 2] = [LENGTH_BITS, LENGTH_BITS + ROOM_BITS];
const COVERED: u32 = ROOM[1] + ROOM_BITS;
const SPINS: u32 = COVERED + 1;
const DISTANCE: u32 = SPINS + 1;
/// How far a word goes.
const FAR: u32 = u32::MAX >> DISTANCE;

/// Calls `keep` with the words of some sites, in ascending order. `false` if one has more room than a word can say.
pub fn packed(sites: &[Site], mut keep: impl FnMut(u32)) -> bool {
    let mut at = 0;
    for site in sites {
        while site.place - at > FAR {
            at += FAR;
            keep(FAR << DISTANCE);
        }
        let [before, after] = site.room.map(u32::from);
        if before.max(after) >> ROOM_BITS != 0 || u32::from(site.length) >> LENGTH_BITS != 0 {
            return false;
        }
        let room = before << ROOM[0] | after << ROOM[1];
        let kind = u32::from(site.covered) << COVERED | u32::from(site.spins) << SPINS;
        keep(u32::from(site.length) | room | kind | (site.place - at) << DISTANCE);
        at = site.place;
    }
    true
}

/// Calls `visit` with the sites of some words. `false` if there is none where one should be in this code.
pub fn unpack(words: impl Iterator<Item = u32>, code: &[u8], mut visit: impl FnMut(Site)) -> bool {
    let part = |word: u32, lowest: u32, bits: u32| (word >> lowest & ((1 << bits) - 1)) as u8;
    let mut place = 0u32;
    for word in words {
        let Some(next) = place.checked_add(word >> DISTANCE) else { return false };
        place = next;
        let length = part(word, 0, LENGTH_BITS);
        if length == 0 {
            continue;
        }
        let site = Site {
            place,
            length,
            room: ROOM.map(|lowest| part(word, lowest, ROOM_BITS)),
            other: [0; 2],
            covered: word >> COVERED & 1 != 0,
            spins: word >> SPINS & 1 != 0,
        };
        let access = code.get(place as usize..).and_then(Access::at);
        let fits = usize::from(site.room[0]) <= place as usize && site.end() <= code.len();
        if !fits || access.is_none_or(|access| access.length != usize::from(length)) {
            return false;
        }
        visit(site);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::{FAR, Site, packed, unpack};

    /// `lock xadd [rdi], eax` at each of these places, and nothing else.
    fn code(places: &[u32], length: usize) -> Vec<u8> {
        let mut code = vec![0x90; length];
        for &place in places {
            code[place as usize..place as usize + 4].copy_from_slice(&[0xF0, 0x0F, 0xC1, 0x07]);
        }
        code
    }

    fn words(sites: &[Site]) -> Option<Vec<u32>> {
        let mut words = Vec::new();
        packed(sites, |word| words.push(word)).then_some(words)
    }

    fn sites(words: &[u32], code: &[u8]) -> Option<Vec<Site>> {
        let mut sites = Vec::new();
        unpack(words.iter().copied(), code, |site| sites.push(site)).then_some(sites)
    }

    #[test]
    fn what_was_found_is_found_again_where_the_code_is_the_same() {
        let places = [0, 4, 40, 40 + FAR, 50 + 3 * FAR];
        let code = code(&places, 100 + 3 * FAR as usize);
        let site = |index: usize, room, covered| Site {
            place: places[index],
            length: 4,
            room,
            other: [0; 2],
            covered,
            spins: index == 3,
        };
        let all = [
            site(0, [0, 8], false),
            site(1, [0, 4], true),
            site(2, [31, 31], false),
            site(3, [0; 2], false),
            site(4, [3, 4], false),
        ];
        let words = words(&all).expect("all fit");
        assert_eq!(words.len(), all.len() + 2, "one lies three words behind the one before");
        assert_eq!(sites(&words, &code).as_deref(), Some(&all[..]));
        assert_eq!(sites(&words, &code[..code.len() - 47]), None, "it ends within the last one");
        assert_eq!(sites(&words, &code[1..]), None, "other code");
        assert_eq!(sites(&[words[0] + 1], &code), None, "another length");
        assert_eq!(sites(&[], &code).as_deref(), Some(&[][..]), "there is none");
        assert_eq!(sites(&vec![u32::MAX; 1 << 16], &code), None, "beyond the end");
    }

    #[test]
    fn what_a_word_can_not_say_is_not_kept() {
        for (length, room) in [(4, [32, 4]), (4, [0, 40]), (16, [0, 16])] {
            assert_eq!(words(&[Site { place: 0, length, room, other: [0; 2], covered: false, spins: false }]), None);
        }
    }
}
