//! A number that an atomic flag publishes, and another one that two threads write with nothing between.

use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

struct Number(UnsafeCell<u64>);

// SAFETY: of `PUBLISHED` the flag decides whose it is; to share `RACES` is the error that is to be found.
unsafe impl Sync for Number {}

static PUBLISHED: Number = Number(UnsafeCell::new(0));
static RACES: Number = Number(UnsafeCell::new(0));
static IS_SET: AtomicBool = AtomicBool::new(false);

fn read_once_it_is_set() -> u64 {
    // SAFETY: none; whoever writes it meanwhile is the race. One aligned word is written as a whole.
    unsafe { *RACES.0.get() = 1 };
    while !IS_SET.load(Ordering::Acquire) {
        spin_loop();
    }
    // SAFETY: the flag was set behind the last write.
    unsafe { *PUBLISHED.0.get() }
}

fn main() {
    let reader = thread::spawn(read_once_it_is_set);
    // SAFETY: as there.
    unsafe { *RACES.0.get() = 2 };
    // SAFETY: nobody reads it before the flag is set.
    unsafe { *PUBLISHED.0.get() = 4711 };
    IS_SET.store(true, Ordering::Release);
    let number = reader.join().expect("no panic");
    // SAFETY: the other thread has ended.
    println!("{number} {}", unsafe { *RACES.0.get() } > 0);
}
