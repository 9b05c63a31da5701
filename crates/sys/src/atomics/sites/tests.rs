//! What becomes of sites that lie close to each other, and of those that something jumps to.

use super::{JUMP_BYTES, Site, TRAP_BYTES, each_suspect, join, settle};

#[test]
fn suspects_are_told_by_their_opcodes() {
    let mut found = Vec::new();
    // lock xadd [rdi], rax; xchg [rsi], eax; xchg esi, eax; lock xchg [rdi], rax
    let code = [0xF0, 0x48, 0x0F, 0xC1, 0x07, 0x87, 0x06, 0x87, 0xC6, 0xF0, 0x48, 0x87, 0x07];
    each_suspect(&code, |at| found.push(at));
    assert_eq!(found, [2, 5, 11]);
}

#[test]
fn what_is_jumped_into_is_a_trap_or_left() {
    let mut code = vec![0x90; 64];
    // Jumps to the second instruction of the first room, and behind the lock prefix of the last.
    code[0..2].copy_from_slice(&[0xEB, 0x12]);
    code[2..4].copy_from_slice(&[0x74, 0x2D]);
    let mut sites = [Site::new(16, 4, [0, 6]), Site::new(32, 4, [2, 4]), Site::new(48, 4, [0, 5])];
    assert_eq!(settle(&code, &mut sites, |_| false), 2);
    assert_eq!(sites[..2], [Site::new(16, 4, [0, 0]), Site::new(32, 4, [2, 4])]);
}

#[test]
fn those_in_anothers_room_go_with_it() {
    let covered =
        |place, length, room, other| Site { covered: true, other: [0, other], ..Site::new(place, length, [0, room]) };
    let mut sites = [
        Site::new(16, 2, [0, 6]),
        Site::new(18, 2, [0, 5]),
        Site::new(20, 3, [0, 7]),
        Site::new(30, 2, [5, 2]),
        Site::new(40, 2, [0, 0]),
        Site::new(44, 2, [3, 3]),
    ];
    join(&mut sites);
    let first = [Site::new(16, 2, [0, 6]), covered(18, 2, 4, 5), covered(20, 3, 3, 7)];
    assert_eq!(sites[..3], first);
    assert_eq!(sites[3..], [Site::new(30, 2, [5, 2]), Site::new(40, 2, [0, 0]), Site::new(44, 2, [0, 0])]);
    // Something jumps to where the third is: none of the three has room.
    let mut code = vec![0x90; 64];
    code[0..2].copy_from_slice(&[0xEB, 0x12]);
    assert_eq!(settle(&code, &mut sites, |_| false), 6);
    assert_eq!(sites[..3], first.map(Site::as_trap));
}

#[test]
fn one_in_anothers_room_has_its_own_where_something_jumps_to_it() {
    let mut sites = [Site::new(16, 4, [0, 9]), Site::new(20, 5, [0, 5]), Site::new(25, 3, [0, 0])];
    join(&mut sites);
    assert!(sites[1].covered && sites[2].covered);
    let mut code = vec![0x90; 64];
    let (joined, whole) = (sites, sites.map(|site| Site { other: [0; 2], ..site }));
    assert_eq!(settle(&code, &mut sites, |_| false), 3);
    assert_eq!(sites, whole);
    // To the second one.
    code[0..2].copy_from_slice(&[0xEB, 0x12]);
    let mut sites = joined;
    assert_eq!(settle(&code, &mut sites, |_| false), 3);
    assert_eq!(sites, [whole[0].as_trap(), Site::new(20, 5, [0, 5]), whole[2]]);
    // And into it.
    code[2..4].copy_from_slice(&[0xEB, 0x12]);
    let mut sites = joined;
    assert_eq!(settle(&code, &mut sites, |_| false), 3);
    assert_eq!(sites, whole.map(Site::as_trap));
}

#[test]
fn where_something_jumps_into_a_room_another_is_taken_that_is_free() {
    let site = |place, room, other| Site { other, ..Site::new(place, 4, room) };
    let mut code = vec![0x90; 64];
    // To 20 and 36.
    code[0..2].copy_from_slice(&[0xEB, 0x12]);
    code[2..4].copy_from_slice(&[0xEB, 0x20]);
    let mut sites = [site(16, [0, 7], [2, 4]), site(28, [0, 4], [0, 0]), site(32, [0, 7], [1, 4])];
    assert_eq!(settle(&code, &mut sites, |_| false), 3);
    assert_eq!(sites, [site(16, [2, 4], [0; 2]), site(28, [0, 4], [0; 2]), site(32, [0; 2], [0; 2])]);
    // One that is covered keeps its own.
    let mut sites = [Site::new(16, 4, [0, 7]), Site::new(20, 3, [0, 6]), Site::new(40, 3, [0, 6])];
    join(&mut sites);
    assert!(sites[1].covered);
    assert_eq!(settle(&code, &mut sites, |_| false), 3);
    assert_eq!(sites, [Site::new(16, 4, [0, 0]), Site::new(20, 3, [0, 6]), Site::new(40, 3, [0, 6])]);
}

#[test]
fn one_right_behind_anothers_room_goes_with_it_unless_something_jumps_to_it() {
    let mut sites = [Site::new(16, 4, [0, 6]), Site::new(22, 3, [0, 0]), Site::new(30, 3, [0, 0])];
    join(&mut sites);
    let behind = Site { covered: true, ..Site::new(22, 3, [0, 3]) };
    assert_eq!(sites, [Site::new(16, 4, [0, 6]), behind, Site::new(30, 3, [0, 0])]);
    let mut code = vec![0x90; 64];
    assert_eq!(settle(&code, &mut sites, |_| false), 3);
    assert_eq!(sites[1], behind);
    code[0..2].copy_from_slice(&[0xEB, 0x14]);
    assert_eq!(settle(&code, &mut sites, |_| false), 3);
    assert_eq!(sites, [Site::new(16, 4, [0, 6]), behind.as_trap(), Site::new(30, 3, [0, 0])]);
}

/// A generator of numbers below a bound.
fn dice(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as usize % below
    }
}

/// Nothing is changed twice, nobody comes into what is changed, and each piece leads to the next.
fn check_settled(sites: &[Site], targets: &[usize]) {
    let mut behind = 0;
    for chain in sites.chunk_by(|_, next| next.covered) {
        let [head, last] = [chain[0], chain[chain.len() - 1]];
        assert!(!head.covered && head.start() >= behind, "{head:?} begins before {behind}");
        for pair in chain.windows(2) {
            let (end, place) = (pair[0].end(), pair[1].place as usize);
            assert!(end >= place && pair[1].end() >= end && pair[1].room[0] == 0, "{pair:?}");
        }
        let end = if head.room[1] == 0 { head.place as usize + TRAP_BYTES } else { last.end() };
        assert!(head.room[1] == 0 || head.room[0] + head.room[1] >= JUMP_BYTES as u8, "{head:?}");
        assert!(head.room[1] != 0 || chain.len() == 1, "{chain:?}");
        let entered = targets.iter().find(|&&target| head.start() < target && target < end);
        assert_eq!(entered, None, "of {chain:?}");
        behind = last.end();
    }
}

#[test]
fn however_sites_lie_and_whatever_jumps_to_them_nothing_comes_into_what_is_changed() {
    let mut kept = [0; 3];
    for seed in 0..20_000 {
        let mut dice = dice(seed);
        // Instructions of up to seven bytes, some of which are sites.
        let mut starts = vec![32];
        while starts.last().is_some_and(|&at| at < 120) {
            starts.push(starts[starts.len() - 1] + 2 + dice(6));
        }
        let room = |from: usize| starts[from..].iter().position(|&end| end >= starts[from] + JUMP_BYTES);
        let (mut sites, mut before) = (Vec::new(), 0);
        for at in 0..starts.len() - 6 {
            if dice(3) == 0 {
                continue;
            }
            let [place, next] = [starts[at], starts[at + 1]];
            let behind = [0, room(at).map_or(0, |count| starts[at + count] - place) as u8];
            let ahead = at.checked_sub(1).filter(|&at| starts[at] >= before && next - starts[at] >= JUMP_BYTES);
            let ahead = ahead.map_or([0; 2], |at| [(place - starts[at]) as u8, (next - place) as u8]);
            let rooms = if next - place >= JUMP_BYTES {
                [behind, [0; 2]]
            } else {
                [[behind, ahead], [behind, [0; 2]], [ahead, [0; 2]], [[0; 2]; 2]][dice(4)]
            };
            let site = Site { other: rooms[1], ..Site::new(place, next - place, rooms[0]) };
            before = site.end();
            sites.push(site);
        }
        let mut code = vec![0x90; 200];
        let targets: Vec<usize> = (0..dice(5)).map(|_| starts[dice(starts.len())]).collect();
        for (at, target) in targets.iter().enumerate() {
            code[at * 2..at * 2 + 2].copy_from_slice(&[0xEB, (target - at * 2 - 2) as u8]);
        }
        join(&mut sites);
        let count = settle(&code, &mut sites, |_| false);
        sites.truncate(count);
        check_settled(&sites, &targets);
        for site in &sites {
            kept[if site.covered { 2 } else { usize::from(site.room[1] != 0) }] += 1;
        }
    }
    assert!(kept.iter().all(|&count| count > 10_000), "of each kind: {kept:?}");
}
