//! Nanoseconds a line of the history, for the ways in which programs touch memory.
//!
//! `cargo run --release -p relive-race --example lines`

use relive_race::history::{Cell, Host, Memory, STATE_WORDS, Slot};
use relive_race::{Clocks, History, Line};
use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

const ROUNDS: usize = 5;

fn main() {
    measure("one thread walks over 64 MiB, again and again", walk);
    measure("LU: blocks of 2 KiB read by one thread, written by another, a barrier a step", lu);
    measure("radix sort: four threads scatter to 1024 places, then read in order", radix);
    measure("hash table: 256 mutexes, a bucket of 1 to 3 lines under each", hash_table);
    measure("stack: one thread, few bytes of 32 lines, a lock a time", stack);
    acquire_again();
}

/// The median of some runs of `pattern`, which says how many lines it checked and how long that took.
#[allow(clippy::print_stdout)]
fn measure(name: &str, pattern: fn() -> (usize, Duration, usize)) {
    let mut runs: Vec<_> = (0..ROUNDS).map(|_| pattern()).collect();
    runs.sort_by_key(|run| run.1);
    let (lines, time, bytes) = runs[ROUNDS / 2];
    let picoseconds = time.as_nanos() * 1000 / lines as u128;
    println!("{:4}.{} ns a line  {:4} MiB  {name}", picoseconds / 1000, picoseconds / 100 % 10, bytes >> 20);
}

fn clocks(threads: u32) -> Clocks {
    let clocks = Clocks::new(16);
    clocks.start(0).unwrap();
    for child in 1..threads {
        clocks.create(0, child).unwrap();
    }
    clocks
}

fn check(clocks: &Clocks, thread: u32, lines: &[Line], history: &History<'_, Here>) {
    history.check(&clocks.current(thread), lines, &mut |race| panic!("no race was expected: {race:?}"));
}

struct Here;

impl Host for Here {
    fn pause(&self, _times: u32) {
        std::hint::spin_loop();
    }
}

fn leak<T: Default>(count: usize) -> &'static [T] {
    (0..count).map(|_| T::default()).collect::<Vec<T>>().leak()
}

/// A new history, of which each pattern makes one.
fn history() -> History<'static, Here> {
    const CELLS: usize = 1 << 21;
    let memory = Memory {
        cells: leak::<Cell>(CELLS),
        used: leak::<AtomicU64>(Memory::used_words(CELLS)),
        floor: leak::<AtomicU64>(64),
        lists: leak::<Slot>(1 << 20),
        state: leak::<AtomicU64>(STATE_WORDS).try_into().expect("as many words"),
    };
    History::new(memory, Here)
}

fn walk() -> (usize, Duration, usize) {
    let clocks = clocks(1);
    let history = history();
    let lines: Vec<Line> =
        (0..1 << 20).map(|number| Line { number, read: u64::MAX, written: u64::MAX << 32 }).collect();
    check(&clocks, 0, &lines, &history);
    let begin = Instant::now();
    for _ in 0..4 {
        clocks.release(0, 1);
        check(&clocks, 0, &lines, &history);
    }
    (lines.len() * 4, begin.elapsed(), history.bytes())
}

fn lu() -> (usize, Duration, usize) {
    const THREADS: u32 = 4;
    const BLOCKS: u64 = 24 * 24;
    let clocks = clocks(THREADS);
    let history = history();
    let block = |number: u64, read: u64, written: u64| {
        (number * 32..number * 32 + 32).map(move |number| Line { number, read, written })
    };
    let (mut count, mut spent) = (0, Duration::ZERO);
    for step in 0..24 {
        for thread in 0..THREADS {
            let own =
                (0..BLOCKS).filter(|number| *number % u64::from(THREADS) == u64::from(thread) && number / 24 > step);
            let lines: Vec<Line> = own
                .flat_map(|number| block(step * 24 + number % 24, u64::MAX, 0).chain(block(number, u64::MAX, u64::MAX)))
                .collect();
            spent += timed(|| check(&clocks, thread, &lines, &history));
            count += lines.len();
        }
        meet(&clocks, THREADS);
    }
    (count, spent, history.bytes())
}

/// All threads meet at a barrier.
fn meet(clocks: &Clocks, threads: u32) {
    (0..threads).for_each(|thread| clocks.arrive(thread, 9, Some(threads)));
    (0..threads).for_each(|thread| drop(black_box(clocks.depart(thread, 9))));
}

fn timed(run: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    run();
    begin.elapsed()
}

fn radix() -> (usize, Duration, usize) {
    const THREADS: u32 = 4;
    const LINES: u64 = 1 << 19;
    let clocks = clocks(THREADS);
    let history = history();
    let (mut count, mut spent) = (0, Duration::ZERO);
    for round in 0..4u64 {
        for thread in 0..THREADS {
            let part = LINES / u64::from(THREADS);
            let lines: Vec<Line> = (0..part)
                .flat_map(|i| {
                    let from = u64::from(thread) * part + i;
                    let bucket = i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54;
                    let to = LINES + bucket * (LINES / 1024) + u64::from(thread) * (part / 1024) + i / 1024;
                    let (from, to) = if round % 2 == 0 { (from, to) } else { (from + LINES, to - LINES) };
                    [Line { number: from, read: u64::MAX, written: 0 }, Line { number: to, read: 0, written: u64::MAX }]
                })
                .collect();
            spent += timed(|| check(&clocks, thread, &lines, &history));
            count += lines.len();
        }
        meet(&clocks, THREADS);
    }
    (count, spent, history.bytes())
}

fn hash_table() -> (usize, Duration, usize) {
    const THREADS: u32 = 4;
    const OPERATIONS: u64 = 1_000_000;
    let clocks = clocks(THREADS);
    let history = history();
    let mut count = 0;
    let begin = Instant::now();
    let mut random = 1u64;
    for _ in 0..OPERATIONS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (thread, bucket) = ((random >> 60) as u32 % THREADS, random >> 40 & 0xFFFF);
        let key = bucket % 256;
        if let Some(clock) = clocks.acquire(thread, key) {
            black_box(&clock);
        }
        let node = |n: u64| {
            let at = bucket + (n * 7919) % 40_000;
            Line {
                number: (1 << 20) + at / 256 * 256 + key,
                read: 0xFFFF << (16 * (n % 4)),
                written: (random >> n & 1) * (0xFF << (16 * (n % 4))),
            }
        };
        let lines = [Line { number: bucket, read: 0xFF, written: random >> 58 & 1 }, node(1), node(2)];
        let used = 1 + (random >> 50 & 1) as usize + 1;
        check(&clocks, thread, &lines[..used], &history);
        count += used;
        clocks.release(thread, key);
    }
    (count, begin.elapsed(), history.bytes())
}

fn stack() -> (usize, Duration, usize) {
    let clocks = clocks(1);
    let history = history();
    let begin = Instant::now();
    for round in 0..100_000u64 {
        let lines: [Line; 8] = std::array::from_fn(|i| {
            let number = (round * 3 + i as u64 * 5) % 32;
            Line { number, read: 0xFF << (round % 8 * 8), written: 0xF0F << ((round + i as u64) % 7 * 8) }
        });
        check(&clocks, 0, &lines, &history);
        clocks.release(0, 5);
    }
    (800_000, begin.elapsed(), history.bytes())
}

#[allow(clippy::print_stdout)]
fn acquire_again() {
    const TIMES: u32 = 2_000_000;
    let clocks = clocks(8);
    let begin = Instant::now();
    for i in 0..TIMES {
        let key = u64::from(i % 256);
        assert!(clocks.acquire(3, key).is_none());
        clocks.release(3, key);
    }
    println!("{:6?} a lock and unlock by the thread that had the lock last", begin.elapsed() / TIMES);
    let begin = Instant::now();
    for i in 0..TIMES {
        let (thread, key) = (i % 8, u64::from(i / 8 % 256));
        black_box(clocks.acquire(thread, key));
        clocks.release(thread, key);
    }
    println!("{:6?} a lock and unlock by another of eight threads", begin.elapsed() / TIMES);
}
