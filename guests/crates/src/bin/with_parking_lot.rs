//! Locks of a futex each, maps and channels that stand on them.

use dashmap::DashMap;
use parking_lot::{Condvar, Mutex, RwLock};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

const ROUNDS: u64 = 300;

#[derive(Default)]
struct Shared {
    list: Mutex<Vec<u64>>,
    grown: Condvar,
    number: RwLock<u64>,
    sum: AtomicU64,
    map: DashMap<u64, u64>,
}

fn fold(all: u64, next: u64) -> u64 {
    all.wrapping_mul(31).wrapping_add(next)
}

fn work(shared: &Shared, barrier: &Barrier, thread: u64) {
    for round in 0..ROUNDS {
        shared.list.lock().push(thread);
        shared.grown.notify_all();
        if round % 3 == 0 {
            let mut number = shared.number.write();
            *number = fold(*number, thread);
        } else {
            shared.sum.fetch_add(*shared.number.read() & 0xFF, Ordering::Relaxed);
        }
        shared.map.insert(round % 17, thread * 1000 + round);
        if round % 100 == 0 {
            barrier.wait();
        }
    }
}

fn channels() -> (u64, u64) {
    let ((into, from), (into_flume, from_flume)) = (mpsc::channel(), flume::bounded(3));
    for thread in 0..3 {
        let (into, into_flume) = (into.clone(), into_flume.clone());
        thread::spawn(move || {
            for message in 0..100 {
                into.send(thread * 1000 + message).expect("a receiver");
                into_flume.send(thread).expect("a receiver");
            }
        });
    }
    drop((into, into_flume));
    let other = thread::spawn(move || from_flume.iter().fold(1, fold));
    (from.iter().fold(1, fold), other.join().expect("no panic"))
}

fn main() {
    let (shared, barrier) = (Arc::new(Shared::default()), Arc::new(Barrier::new(4)));
    let start = |thread| {
        let (shared, barrier) = (shared.clone(), barrier.clone());
        thread::spawn(move || work(&shared, &barrier, thread))
    };
    let threads: Vec<_> = (0..4).map(start).collect();
    let mut list = shared.list.lock();
    while list.len() < 600 {
        shared.grown.wait(&mut list);
    }
    println!("{}", list.len());
    drop(list);
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    let listed = shared.list.lock().iter().copied().fold(1, fold);
    println!("{listed} {} {}", *shared.number.read(), shared.sum.load(Ordering::Relaxed));
    let mut mapped: Vec<_> = shared.map.iter().map(|entry| (*entry.key(), *entry.value())).collect();
    mapped.sort_unstable();
    println!("{mapped:?} {:?}", channels());
    // Its order goes by random numbers.
    println!("{:?}", (0..20).map(|number| (number, ())).collect::<HashMap<_, _>>().keys().collect::<Vec<_>>());
}
