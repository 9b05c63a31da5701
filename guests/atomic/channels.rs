//! Rust's own mutex, condition, once and channels, which hand over by atomics, plain loads
//! and futexes.

use std::sync::{Arc, Condvar, Mutex, OnceLock, mpsc};
use std::thread;

static FIRST: OnceLock<usize> = OnceLock::new();

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<usize>().expect("a number"));
    let (threads, rounds) = (arguments.next().unwrap_or(4), arguments.next().unwrap_or(200));
    let (sender, receiver) = mpsc::channel();
    let shared = Arc::new((Mutex::new((0u64, 0usize)), Condvar::new()));
    let crew: Vec<_> = (0..threads)
        .map(|who| {
            let (sender, shared) = (sender.clone(), Arc::clone(&shared));
            thread::spawn(move || {
                FIRST.get_or_init(|| who);
                for round in 0..rounds {
                    let mut state = shared.0.lock().expect("nobody panics");
                    state.0 = state.0.wrapping_mul(31).wrapping_add(who as u64);
                    drop(state);
                    sender.send((who, round)).expect("somebody receives");
                }
                let mut state = shared.0.lock().expect("nobody panics");
                state.1 += 1;
                shared.1.notify_all();
                while state.1 < threads {
                    state = shared.1.wait(state).expect("nobody panics");
                }
            })
        })
        .collect();
    drop(sender);
    let received = receiver.iter().fold(5381u64, |hash, (who, round)| {
        hash.wrapping_mul(33) ^ (who * rounds + round) as u64
    });
    for one in crew {
        one.join().expect("nobody panics");
    }
    let state = shared.0.lock().expect("nobody panics");
    println!("{:x} {received:x} {}", state.0, FIRST.get().expect("somebody was first"));
}
