//! Primitives one by one: who knows what afterwards, and which segments end.

use super::detect::known_by_all;
use crate::{Clocks, Epoch, Refusal, THREADS_MAX};

/// Threads 0 to `count - 1`, created by the first one.
fn threads(count: u32) -> Clocks {
    let clocks = Clocks::new(16);
    clocks.start(0).unwrap();
    for child in 1..count {
        clocks.create(0, child).unwrap();
    }
    clocks
}

fn now(clocks: &Clocks, thread: u32) -> Epoch {
    clocks.current(thread).epoch()
}

#[test]
fn a_lock_that_brings_nothing_new_ends_no_segment() {
    let clocks = threads(2);
    assert!(clocks.acquire(1, 7).is_none());
    let first = now(&clocks, 1);
    clocks.release(1, 7);
    assert_eq!(now(&clocks, 1).time(), first.time() + 1);
    assert!(clocks.acquire(1, 7).is_none());
    clocks.release(1, 7);
    let ended = clocks.acquire(0, 7).unwrap();
    assert!(!ended.knows(first) && clocks.current(0).knows(first));
    clocks.release(0, 7);
    assert!(clocks.acquire(0, 7).is_none());
}

#[test]
fn what_follows_a_release_is_not_known_by_it() {
    let clocks = threads(2);
    clocks.release(0, 7);
    let later = now(&clocks, 0);
    assert!(clocks.acquire(1, 7).is_some());
    assert!(!clocks.current(1).knows(later));
}

#[test]
fn readers_learn_from_writers_and_writers_from_readers_but_readers_not_from_readers() {
    let clocks = threads(4);
    let (writer, reader) = (now(&clocks, 1), now(&clocks, 2));
    clocks.release(1, 7);
    assert!(clocks.acquire_shared(2, 7).is_some());
    assert!(clocks.current(2).knows(writer));
    clocks.release_shared(2, 7);
    assert!(clocks.acquire_shared(3, 7).is_some());
    assert!(clocks.current(3).knows(writer) && !clocks.current(3).knows(reader));
    assert!(clocks.acquire(3, 7).is_some());
    assert!(clocks.current(3).knows(reader));
    clocks.release(3, 7);
    assert!(clocks.acquire_shared(1, 7).is_some());
    assert!(clocks.current(1).knows(reader));
}

#[test]
fn posts_accumulate() {
    let clocks = threads(4);
    let posts = [now(&clocks, 1), now(&clocks, 2)];
    clocks.release(1, 7);
    clocks.release(2, 7);
    assert!(clocks.acquire(3, 7).is_some());
    assert!(posts.iter().all(|&post| clocks.current(3).knows(post)));
    assert!(clocks.acquire(3, 7).is_none());
}

#[test]
fn a_store_hides_what_was_there() {
    let clocks = threads(4);
    let (hidden, seen) = (now(&clocks, 1), now(&clocks, 2));
    clocks.store(1, 7);
    clocks.store(2, 7);
    assert!(clocks.acquire(3, 7).is_some());
    assert!(clocks.current(3).knows(seen) && !clocks.current(3).knows(hidden));
}

#[test]
fn a_transfer_acquires_and_releases() {
    let clocks = threads(4);
    let (first, second) = (now(&clocks, 1), now(&clocks, 2));
    clocks.transfer(1, 7);
    clocks.transfer(2, 7);
    assert!(clocks.current(2).knows(first));
    assert!(clocks.acquire(3, 7).is_some());
    assert!(clocks.current(3).knows(first) && clocks.current(3).knows(second));
}

#[test]
fn a_slow_thread_does_not_learn_of_the_next_round() {
    for parties in [Some(2), None] {
        let clocks = threads(3);
        clocks.arrive(1, 7, parties);
        clocks.arrive(2, 7, parties);
        assert!(clocks.depart(1, 7).is_some());
        let between = now(&clocks, 1);
        clocks.arrive(1, 7, parties);
        assert!(clocks.depart(2, 7).is_some());
        assert!(!clocks.current(2).knows(between));
        clocks.arrive(2, 7, parties);
        assert!(clocks.depart(2, 7).is_some());
        assert!(clocks.current(2).knows(between));
        assert!(clocks.depart(1, 7).is_some());
    }
}

#[test]
fn rounds_of_different_threads_may_overlap() {
    let clocks = threads(5);
    let (first, second) = (now(&clocks, 1), now(&clocks, 3));
    for thread in 1..5 {
        clocks.arrive(thread, 7, Some(2));
    }
    assert!(clocks.depart(4, 7).is_some() && clocks.depart(2, 7).is_some());
    assert!(clocks.current(4).knows(second) && !clocks.current(4).knows(first));
    assert!(clocks.current(2).knows(first) && !clocks.current(2).knows(second));
}

#[test]
fn who_never_arrived_learns_nothing() {
    let clocks = threads(3);
    clocks.arrive(1, 7, None);
    assert!(clocks.depart(2, 7).is_none() && clocks.depart(2, 8).is_none());
}

#[test]
fn children_know_their_creators_and_joiners_the_joined() {
    let clocks = Clocks::new(16);
    clocks.start(0).unwrap();
    let before = now(&clocks, 0);
    clocks.create(0, 1).unwrap();
    let after = now(&clocks, 0);
    assert!(clocks.current(1).knows(before) && !clocks.current(1).knows(after));
    let child = now(&clocks, 1);
    clocks.end(1);
    assert!(!clocks.current(0).knows(child));
    assert!(clocks.join(0, 1).is_some());
    assert!(clocks.current(0).knows(child));
    assert!(clocks.join(0, 1).is_none());
}

#[test]
fn a_number_is_used_again_only_by_who_knows_of_the_end() {
    let clocks = threads(3);
    let former = now(&clocks, 1);
    assert_eq!(clocks.create(0, 1), Err(Refusal::InUse));
    clocks.end(1);
    assert_eq!(clocks.create(0, 1), Err(Refusal::InUse));
    assert_eq!(clocks.start(1), Err(Refusal::InUse));
    assert!(clocks.join(0, 1).is_some());
    assert_eq!(clocks.create(2, 1), Err(Refusal::InUse));
    let creator = now(&clocks, 0);
    assert_eq!(clocks.create(0, 1), Ok(()));
    assert_eq!(now(&clocks, 1).time(), former.time() + 1);
    assert!(clocks.current(1).knows(former) && clocks.current(1).knows(creator));
    assert!(!clocks.current(0).knows(now(&clocks, 1)));
    assert_eq!(clocks.create(0, THREADS_MAX), Err(Refusal::TooMany));
}

#[test]
fn a_forgotten_object_brings_nothing() {
    let clocks = threads(2);
    for key in [100, 200, 1 << 40] {
        clocks.release(0, key);
    }
    clocks.arrive(0, 150, None);
    clocks.forget(100);
    assert!(clocks.acquire(1, 100).is_none());
    clocks.forget_range(101..u64::MAX);
    assert!(clocks.acquire(1, 200).is_none() && clocks.acquire(1, 1 << 40).is_none());
    assert!(clocks.depart(0, 150).is_none());
    clocks.release(0, 300);
    clocks.forget_range(200..300);
    assert!(clocks.acquire(1, 300).is_some());
}

#[test]
fn memory_of_objects_is_given_back() {
    let clocks = threads(3);
    let before = clocks.bytes();
    for key in 0..10_000 {
        clocks.release(1, key * 64);
    }
    let many = clocks.bytes();
    assert!(many > before + 10_000 * 16);
    // Thread 0 does not know what was left.
    let floor = known_by_all(&clocks);
    clocks.sweep(&floor);
    assert!(clocks.acquire(2, 0).is_some() && clocks.acquire(0, 640).is_some());
    for thread in [0, 2] {
        drop(clocks.acquire(thread, 9_999 * 64));
    }
    let floor = known_by_all(&clocks);
    clocks.sweep(&floor);
    assert!(clocks.bytes() < before + 1000, "{} of {many} bytes are left", clocks.bytes());
}

#[test]
#[should_panic(expected = "thread 9 was not announced")]
fn an_unknown_thread_is_a_broken_invariant() {
    threads(2).release(9, 1);
}

#[test]
#[should_panic(expected = "thread 1 has ended")]
fn an_ended_thread_does_nothing() {
    let clocks = threads(2);
    clocks.end(1);
    clocks.release(1, 1);
}

#[test]
fn one_thread_knows_all_when_it_has_seen_the_end_of_each_other_one() {
    let clocks = threads(3);
    assert!(!clocks.knows_all(0));
    clocks.end(1);
    assert!(clocks.join(0, 1).is_some());
    assert!(!clocks.knows_all(0));
    clocks.release(2, 7);
    clocks.end(2);
    assert!(!clocks.knows_all(0));
    // What it did between that release and its end is not known by the lock.
    assert!(clocks.acquire(0, 7).is_some());
    assert!(!clocks.knows_all(0));
    assert!(clocks.join(0, 2).is_some());
    assert!(clocks.knows_all(0));
    clocks.forget_thread(2);
    assert!(clocks.knows_all(0));
    clocks.create(0, 3).unwrap();
    assert!(!clocks.knows_all(0));
}

#[test]
fn who_knows_the_last_release_knows_all_if_that_says_so() {
    let clocks = threads(4);
    let first = clocks.release(1, 7).unwrap();
    assert!(!clocks.current(2).knows(first));
    clocks.release(1, 8);
    assert!(clocks.acquire(2, 8).is_some());
    assert!(clocks.current(2).knows(first) && clocks.acquire(2, 7).is_none());
    // Two that do not know of each other, and one that knows of both.
    assert_eq!(clocks.release(3, 7), None);
    assert!(clocks.acquire(2, 7).is_some());
    let both = clocks.release(2, 7).unwrap();
    assert!(clocks.current(2).knows(both) && !clocks.current(3).knows(both));
    // What a reader left is more than the last writer knew.
    clocks.release_shared(3, 7);
    assert_eq!(clocks.release(1, 7), None);
}

#[test]
fn the_floor_is_what_all_running_threads_have_shown() {
    let clocks = threads(3);
    let first = now(&clocks, 1);
    clocks.release(1, 7);
    for thread in [0, 2] {
        assert!(clocks.acquire(thread, 7).is_some());
    }
    assert!(known_by_all(&clocks).knows(first) && !clocks.floor().knows(first));
    clocks.show(0);
    clocks.show(1);
    assert!(!clocks.floor().knows(first));
    clocks.show(2);
    assert!(clocks.floor().knows(first));
    let second = now(&clocks, 1);
    clocks.release(1, 7);
    clocks.end(2);
    assert!(clocks.acquire(0, 7).is_some());
    // A creator shows what it knows, and its child begins with that.
    clocks.create(0, 3).unwrap();
    clocks.show(1);
    assert!(clocks.floor().knows(second));
}
