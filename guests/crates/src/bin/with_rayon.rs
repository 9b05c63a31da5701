//! Work that is stolen: what runs where shows in what is printed.

use rayon::prelude::*;
use std::sync::Mutex;

const NUMBERS: u64 = 100_000;

fn fibonacci(of: u32) -> u64 {
    if of < 2 {
        return of.into();
    }
    let (one, other) = rayon::join(|| fibonacci(of - 1), || fibonacci(of - 2));
    one + other
}

fn main() {
    rayon::ThreadPoolBuilder::new().num_threads(3).build_global().expect("a pool");
    let order = Mutex::new(Vec::new());
    let sum: u64 = (0..NUMBERS)
        .into_par_iter()
        .map(|number| {
            if number % 2000 == 0 {
                order.lock().expect("whole").push((number, rayon::current_thread_index()));
            }
            number * number % 7
        })
        .sum();
    let mut mixed: Vec<u64> = (0..NUMBERS).map(|number| number * 2_654_435_761 % 1_000_003).collect();
    mixed.par_sort_unstable();
    println!("{sum} {} {:?}", mixed[1234], order.into_inner().expect("whole"));
    println!("{}", fibonacci(18));
}
