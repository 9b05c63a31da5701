//! Single cases of the history.

use super::detect::known_by_all;
use super::owned::{self, Idle};
use crate::{Clocks, Epoch, History, Kind, Line, Race};
use std::vec::Vec;

const CELLS: usize = 1 << 14;

/// Threads that know nothing of each other but that thread 0 created them, and one history.
struct Case {
    clocks: Clocks,
    history: History<'static, Idle>,
}

impl Case {
    fn new(threads: u32) -> Self {
        let clocks = Clocks::new(1024);
        clocks.start(0).unwrap();
        for child in 1..threads {
            clocks.create(0, child).unwrap();
        }
        Self { clocks, history: owned::history(CELLS) }
    }

    fn check(&mut self, thread: u32, number: u64, read: u64, written: u64) -> Vec<Race> {
        let mut races = Vec::new();
        self.history
            .check(&self.clocks.current(thread), &[Line { number, read, written }], &mut |race| races.push(race));
        races
    }

    fn free(&mut self, thread: u32, range: core::ops::Range<u64>) -> Vec<Race> {
        let mut races = Vec::new();
        self.history.free(&self.clocks.current(thread), range, &mut |race| races.push(race));
        races
    }

    /// Everything that `from` did by now happens before what `to` will do.
    fn order(&mut self, from: u32, to: u32) {
        self.clocks.store(from, u64::MAX);
        drop(self.clocks.acquire(to, u64::MAX));
    }

    fn epoch(&self, thread: u32) -> Epoch {
        self.clocks.current(thread).epoch()
    }
}

#[test]
fn each_conflict_has_its_kind_and_neighbours_have_none() {
    let mut case = Case::new(3);
    assert_eq!(case.check(1, 5, 0b0000_1111, 0b0011_0000), []);
    let race = Race {
        line: 5,
        kind: Kind::Accesses,
        older: case.epoch(1),
        newer: case.epoch(2),
        write_write: 0b0001_0000,
        read_write: 0b0000_0001,
        write_read: 0b0010_0000,
    };
    assert_eq!(case.check(2, 5, 0b0110_0010, 0b1001_0001), [race]);
    assert_eq!(race.bytes(), 0b0011_0001);
    assert_eq!(case.check(2, 6, u64::MAX, u64::MAX), []);
}

#[test]
fn a_byte_read_and_written_counts_as_written() {
    let mut case = Case::new(3);
    case.check(1, 5, 1, 1);
    assert_eq!(case.check(2, 5, 1, 0)[0].write_read, 1);
    let races = case.check(0, 5, 1, 1);
    assert_eq!(races.iter().map(|race| (race.write_write, race.read_write)).collect::<Vec<_>>(), [(1, 0), (0, 1)]);
}

#[test]
fn a_line_of_many_readers_races_with_each() {
    const READERS: u32 = 40;
    let mut case = Case::new(READERS + 2);
    for round in 0..3 {
        for reader in 1..=READERS {
            assert_eq!(case.check(reader, 5, 0xF, 0), []);
            if round == 1 {
                case.clocks.release(reader, 1);
            }
        }
    }
    let mut older: Vec<_> = case.check(READERS + 1, 5, 0, 1).iter().map(|race| race.older.thread()).collect();
    older.sort_unstable();
    older.dedup();
    assert_eq!(older, (1..=READERS).collect::<Vec<_>>());
}

#[test]
fn what_is_covered_is_forgotten() {
    let mut case = Case::new(4);
    for byte in 0..64 {
        case.check(1, 5, 0, 1 << byte);
        case.order(1, 2);
        case.order(2, 1);
    }
    assert!(case.history.bytes() > 2000);
    case.check(2, 5, 0, u64::MAX);
    let races = case.check(3, 5, 0, u64::MAX);
    assert_eq!(races.iter().map(|race| race.older).collect::<Vec<_>>(), [case.epoch(2)]);
}

#[test]
fn a_read_does_not_cover_a_write() {
    let mut case = Case::new(4);
    case.check(1, 5, 0, 1);
    case.order(1, 2);
    case.check(2, 5, 1, 0);
    assert_eq!(case.check(3, 5, 1, 0)[0].older.thread(), 1);
}

#[test]
fn parts_of_a_segment_may_come_one_by_one() {
    let mut case = Case::new(3);
    case.check(1, 5, 1, 0);
    case.check(1, 5, 2, 4);
    case.check(1, 5, 0, 1);
    let races = case.check(2, 5, 0, 7);
    assert_eq!(races.iter().map(|race| (race.write_write, race.read_write)).collect::<Vec<_>>(), [(5, 2)]);
}

#[test]
fn a_free_is_told_from_a_write() {
    let mut case = Case::new(4);
    case.check(1, 1, 1, 0);
    assert_eq!(case.free(2, 64..96).iter().map(|race| race.kind).collect::<Vec<_>>(), [Kind::Free]);
    assert_eq!(case.history.freed(1), 0xFFFF_FFFF);
    let races = case.check(3, 1, 1 << 31 | 1 << 32, 0);
    assert_eq!(races.iter().map(|race| (race.kind, race.bytes())).collect::<Vec<_>>(), [(Kind::Freed, 1 << 31)]);
    assert_eq!(case.free(3, 64..65).iter().map(|race| race.kind).collect::<Vec<_>>(), [Kind::Free, Kind::Frees]);
}

#[test]
fn use_after_free_needs_no_race() {
    let mut case = Case::new(2);
    case.free(1, 64..128);
    for _ in 0..2 {
        let races = case.check(1, 1, 0, 1);
        assert_eq!(races.iter().map(|race| race.kind).collect::<Vec<_>>(), [Kind::UseAfterFree]);
        case.order(1, 0);
        let floor = known_by_all(&case.clocks);
        case.history.raise(&floor);
    }
    assert_eq!(case.free(1, 64..128)[0].kind, Kind::DoubleFree);
    case.history.fresh(64..128);
    assert_eq!(case.history.freed(1), 0);
    assert_eq!(case.check(1, 1, 0, u64::MAX), []);
    assert_eq!(case.check(0, 1, 1, 0)[0].kind, Kind::Accesses);
}

#[test]
fn what_is_given_back_untouched_costs_nothing_and_is_free() {
    const PAGE: u64 = 4096;
    let mut case = Case::new(3);
    case.check(1, 64 * 3, 0, 1);
    let before = case.history.bytes();
    assert_eq!(case.free(1, PAGE / 2..100 * PAGE + PAGE / 2), []);
    assert!(case.history.bytes() <= before + 3 * 64 * 64, "the ends, and the page that was touched");
    assert_eq!([64 * 2, 64 * 3, 64 * 99].map(|line| case.history.freed(line)), [u64::MAX; 3]);
    assert_eq!(case.check(2, 64 * 50 + 7, 1, 0)[0].kind, Kind::Freed);
    assert_eq!(case.check(1, 64 * 50 + 8, 1, 0)[0].kind, Kind::UseAfterFree);
    case.history.fresh(60 * PAGE + 64..60 * PAGE + 128);
    assert_eq!([0, 1, 2].map(|line| case.history.freed(64 * 60 + line)), [u64::MAX, 0, u64::MAX]);
    assert_eq!(case.free(1, 61 * PAGE..62 * PAGE)[0].kind, Kind::DoubleFree);
    case.history.fresh(0..101 * PAGE);
    assert_eq!([64 * 2, 64 * 50 + 9, 64 * 61].map(|line| case.history.freed(line)), [0; 3]);
}

#[test]
fn a_fresh_block_leaves_its_neighbours_alone() {
    let mut case = Case::new(3);
    case.check(1, 1, 0, u64::MAX);
    case.check(2, 1, 1, 0);
    case.history.fresh(64 + 8..64 + 16);
    let races = case.check(0, 1, u64::MAX, 0);
    assert_eq!(races[0].bytes(), !0xFF00);
}

#[test]
fn fresh_memory_is_forgotten_whatever_the_range() {
    let mut case = Case::new(3);
    for (lines, ranges) in [(0..4096, [0..4096 * 32, 0..u64::MAX]), (100..200, [6400..6464, 6464..4096 * 32])] {
        for number in lines.clone() {
            case.check(1, number, 0xFF, 0xFF00);
            case.check(2, number, 0xF0000, 0);
            case.check(0, number, 0xF00_0000, 0);
        }
        for range in ranges {
            case.history.fresh(range);
        }
        for number in lines {
            assert_eq!(case.check(0, number, u64::MAX, u64::MAX), []);
        }
        case.history.fresh(0..u64::MAX);
    }
}

#[test]
fn lines_that_meet_in_a_cell_are_apart() {
    const FAR: u64 = CELLS as u64;
    let mut case = Case::new(3);
    for copy in 0..4 {
        assert_eq!(case.check(1, 5 + copy * FAR, 0, 1 << copy), []);
    }
    for copy in 0..4 {
        assert_eq!(case.check(2, 5 + copy * FAR, 0, !(1 << copy)), []);
    }
    case.history.fresh((5 + 2 * FAR) * 64..(6 + 2 * FAR) * 64);
    for (copy, races) in [(0, 2), (1, 2), (2, 0), (3, 2)] {
        assert_eq!(case.check(0, 5 + copy * FAR, u64::MAX, 0).len(), races, "copy {copy}");
    }
    // A range far larger than what is remembered.
    case.history.fresh(0..FAR * 64 - 1);
    assert_eq!(case.check(0, 5, u64::MAX, u64::MAX), []);
    assert_eq!(case.check(2, 5 + FAR, 2, 0).len(), 1);
}

#[test]
fn a_sweep_keeps_what_can_still_race() {
    let mut case = Case::new(3);
    case.check(1, 5, 0, 1);
    case.check(1, 6, 0, 1);
    case.order(1, 2);
    case.check(2, 6, 0, 2);
    let floor = known_by_all(&case.clocks);
    case.history.raise(&floor);
    assert_eq!(case.check(0, 5, 0, 1).len(), 1);
    case.order(1, 0);
    let floor = known_by_all(&case.clocks);
    case.history.raise(&floor);
    let races = case.check(0, 6, 0, 3);
    assert_eq!(races.iter().map(|race| (race.older.thread(), race.bytes())).collect::<Vec<_>>(), [(2, 2)]);
}

#[test]
fn what_somebody_does_not_know_stays() {
    let mut case = Case::new(3);
    for (thread, byte) in [(0, 1), (1, 2), (2, 4)] {
        case.check(thread, 6, 0, byte);
    }
    case.order(0, 1);
    case.order(0, 2);
    case.order(1, 2);
    let floor = known_by_all(&case.clocks);
    case.history.raise(&floor);
    let races = case.check(0, 6, 0, 7);
    assert_eq!(races.iter().map(|race| (race.older.thread(), race.bytes())).collect::<Vec<_>>(), [(1, 2), (2, 4)]);
}

#[test]
fn what_all_know_leaves_no_list() {
    let mut case = Case::new(3);
    for thread in 0..3 {
        case.check(thread, 5, 0, 1 << thread);
    }
    let full = case.history.bytes();
    for (one, other) in [(1, 0), (2, 0), (0, 1), (0, 2)] {
        case.order(one, other);
    }
    let floor = known_by_all(&case.clocks);
    case.history.raise(&floor);
    assert_eq!(case.check(1, 5, 0, 8), []);
    assert!(case.history.bytes() < full, "one entry needs no list");
}

#[test]
fn lines_at_the_end_of_the_address_space_are_lines() {
    let mut case = Case::new(3);
    let last = u64::MAX / 64;
    assert_eq!(case.check(1, last, 0, 1), []);
    assert_eq!(case.check(2, last, 1, 0).len(), 1);
    case.history.fresh(u64::MAX - 200..u64::MAX);
    assert_eq!(case.check(0, last, 0, 1), []);
}

#[test]
fn an_empty_line_is_nothing() {
    let mut case = Case::new(2);
    assert_eq!(case.check(1, 5, 0, 0), []);
    assert_eq!(case.check(0, 5, u64::MAX, u64::MAX), []);
}

#[test]
fn memory_is_bounded_by_what_is_touched() {
    let mut case = Case::new(3);
    let (mut after_first, clocks_before) = (0, case.clocks.bytes());
    for round in 0..200 {
        for thread in [1, 2] {
            drop(case.clocks.acquire(thread, 7));
            for number in 0..100 {
                case.check(thread, number, 0xFF << (round % 8 * 8), 1 << ((round + number) % 64));
            }
            case.clocks.release(thread, 7);
        }
        if round == 100 {
            after_first = case.history.bytes();
        }
    }
    assert!(case.history.bytes() <= after_first * 5 / 4, "{after_first} bytes became {}", case.history.bytes());
    assert!(case.clocks.bytes() < clocks_before + 1000);
}

#[test]
fn one_byte_that_all_race_for_costs_no_more_than_threads() {
    let mut case = Case::new(9);
    for round in 0..1000 {
        for thread in 0..9 {
            let races = case.check(thread, 5, 1, round % 2);
            assert!(races.len() <= 16, "{} races", races.len());
            case.clocks.release(thread, u64::from(thread));
        }
    }
    assert!(case.history.bytes() < 128 << 10, "{} bytes", case.history.bytes());
}

#[test]
fn lists_that_are_no_longer_needed_are_used_again() {
    let mut case = Case::new(4);
    let mut most = 0;
    for round in 0..50 {
        for number in round * 16..round * 16 + 16 {
            for thread in 1..4 {
                case.check(thread, number, 0, 1 << thread);
            }
        }
        most = most.max(case.history.bytes() - (round as usize / 4 + 1) * 4096);
        case.history.fresh(0..u64::MAX);
    }
    assert_eq!(most, 16 * 2 * 24, "a list of two entries for each line, of one round at a time");
}

#[test]
fn threads_check_at_the_same_time() {
    const THREADS: u32 = 4;
    let clocks = Case::new(THREADS).clocks;
    for thread in 0..THREADS {
        clocks.release(thread, u64::from(thread));
    }
    // So few cells that lines meet, and threads in their locks.
    let history = owned::history(128);
    let races = std::sync::Mutex::new(std::collections::BTreeSet::new());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (clocks, history, races) = (&clocks, &history, &races);
            scope.spawn(move || {
                for round in 0..2000u64 {
                    // Each thread has a byte of its own in lines that all touch, and one byte is everybody's.
                    let own = Line { number: round % 70 * 3, read: 0, written: 1 << thread };
                    let shared = Line { number: 1, read: 1 << 20, written: u64::from(round == 1999) << 20 };
                    history.check(&clocks.current(thread), &[own, shared], &mut |race| {
                        races.lock().unwrap().insert((race.line, race.bytes()));
                    });
                }
            });
        }
    });
    assert_eq!(races.into_inner().unwrap().into_iter().collect::<Vec<_>>(), [(1, 1 << 20)]);
}
