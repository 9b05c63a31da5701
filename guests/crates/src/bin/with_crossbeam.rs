//! Channels with `select!`, queues, and deques whose work is stolen.

use crossbeam::channel::{bounded, select, unbounded};
use crossbeam::deque::{Injector, Stealer, Worker};
use crossbeam::epoch;
use crossbeam::queue::{ArrayQueue, SegQueue};
use std::iter;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const JOBS: usize = 3000;

fn fold(all: u64, next: u64) -> u64 {
    all.wrapping_mul(31).wrapping_add(next)
}

fn channels() -> u64 {
    let ((into, from), (into_last, from_last)) = (bounded::<u64>(4), unbounded::<u64>());
    let seen = Mutex::new(1);
    crossbeam::scope(|scope| {
        for thread in 0..3 {
            let into = into.clone();
            scope.spawn(move |_| (0..100).for_each(|message| into.send(thread * 1000 + message).expect("a receiver")));
        }
        for _ in 0..2 {
            let (from, into_last) = (from.clone(), into_last.clone());
            scope.spawn(move |_| from.iter().for_each(|message| into_last.send(message).expect("a receiver")));
        }
        drop((into, into_last));
        scope.spawn(|_| {
            loop {
                select! {
                    recv(from_last) -> message => match message {
                        Ok(message) => {
                            let mut seen = seen.lock().expect("whole");
                            *seen = fold(*seen, message);
                        }
                        Err(_) => break,
                    },
                }
            }
        });
    })
    .expect("no panic");
    seen.into_inner().expect("whole")
}

fn next_job(own: &Worker<u64>, all: &Injector<u64>, others: &[Stealer<u64>]) -> Option<u64> {
    own.pop().or_else(|| {
        let steal = || all.steal_batch_and_pop(own).or_else(|| others.iter().map(Stealer::steal).collect());
        iter::repeat_with(steal).find(|found| !found.is_retry()).and_then(|found| found.success())
    })
}

fn main() {
    println!("{}", channels());
    let all = Injector::new();
    (0..JOBS as u64).for_each(|job| all.push(job));
    let workers: Vec<_> = (0..4).map(|_| Worker::new_lifo()).collect();
    let others: Vec<_> = workers.iter().map(Worker::stealer).collect();
    let (done, results, sample) = (AtomicUsize::new(0), SegQueue::new(), ArrayQueue::new(JOBS));
    crossbeam::scope(|scope| {
        for (number, worker) in workers.into_iter().enumerate() {
            let (all, others, done, results, sample) = (&all, &others, &done, &results, &sample);
            scope.spawn(move |_| {
                let mut own = 1;
                while done.load(Ordering::Relaxed) < JOBS {
                    let Some(job) = next_job(&worker, all, others) else { continue };
                    own = fold(own, job);
                    done.fetch_add(1, Ordering::Relaxed);
                    if job % 100 == 0 {
                        sample.push((number, job)).expect("room");
                        epoch::pin().flush();
                    }
                }
                results.push((number, own));
            });
        }
    })
    .expect("no panic");
    iter::from_fn(|| results.pop()).for_each(|result| println!("{result:?}"));
    println!(
        "{}",
        iter::from_fn(|| sample.pop()).fold(1, |all, (number, job)| fold(all, number as u64 * 10_000 + job))
    );
}
