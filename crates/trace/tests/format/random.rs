//! Random programs through the whole format: what the model did, the reader must
//! give back, timestamp by timestamp.

use crate::model::{Model, programs};
use proptest::prelude::*;
use relive_trace::record::Record;
use relive_trace::stream::ThreadStream;

/// Timestamps with the records before them, check hashes left out; and the records after the last event.
fn recovered(thread: &ThreadStream) -> (Vec<(u64, Vec<Record>)>, Vec<Record>) {
    let plain =
        |records: Vec<Record>| records.into_iter().filter(|r| !matches!(r, Record::Hash(_))).collect::<Vec<_>>();
    let events = thread.events().map(|event| (event.time, plain(event.records))).collect();
    (events, plain(thread.trailing()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_reader_gives_back_what_threads_did(steps in programs(120)) {
        let model = Model::run(&steps);
        let recording = model.recording();
        prop_assert_eq!(recording.threads().count(), model.threads.len());
        for (process, made) in &model.threads {
            let thread = recording.thread(made.header.thread).expect("the thread was recorded");
            prop_assert_eq!(recovered(thread), (made.oracle.clone(), made.open.clone()));
            prop_assert_eq!((thread.events, thread.clock), (made.header.events, made.header.clock));
            prop_assert_eq!(thread.finished, made.header.flags == 1);
            prop_assert_eq!(recording.process_of(thread.index).map(|p| p.index), Some(*process as u32));
            for (number, event) in thread.events().enumerate() {
                let before = if number == 0 { thread.start_clock } else { made.oracle[number - 1].0 };
                prop_assert_eq!((event.number, event.extra), (number as u64, event.time - before - 1));
            }
        }
    }

    #[test]
    fn timestamps_are_found_without_listing_them(
        steps in programs(60),
        probe in 0..3000u64,
        jumps in proptest::collection::vec(0..3000usize, 0..50),
    ) {
        let model = Model::run(&steps);
        for (_, made) in &model.threads {
            let recording = model.recording();
            let index = recording.thread(made.header.thread).expect("the thread was recorded").index();
            let (mut ascending, mut jumping) = (index.cursor(), index.cursor());
            for (number, &(time, _)) in made.oracle.iter().enumerate() {
                prop_assert_eq!(index.time(number as u64), Some(time));
                prop_assert_eq!(ascending.time(number as u64), Some(time));
                prop_assert_eq!(ascending.time(number as u64), Some(time), "asked twice");
            }
            for number in &jumps {
                prop_assert_eq!(jumping.time(*number as u64), made.oracle.get(*number).map(|(time, _)| *time));
            }
            prop_assert_eq!(index.time(made.oracle.len() as u64), None);
            let until = made.oracle.iter().filter(|(time, _)| *time <= probe).count();
            prop_assert_eq!(index.events_until(probe), until as u64);
            prop_assert_eq!(index.has_time(probe), made.oracle.iter().any(|(time, _)| *time == probe));
        }
    }

    #[test]
    fn a_cut_keeps_exactly_what_is_not_later(steps in programs(60), clock in 0..2000u64) {
        let model = Model::run(&steps);
        for (_, made) in &model.threads {
            let mut thread = model.recording().thread(made.header.thread).expect("the thread was recorded").clone();
            let whole = ThreadStream { finished: false, ..thread.clone() };
            thread.cut(clock);
            let (events, trailing) = recovered(&thread);
            let kept: Vec<_> = made.oracle.iter().filter(|(time, _)| *time <= clock).cloned().collect();
            if kept.len() == made.oracle.len() {
                prop_assert_eq!(&thread, &whole);
            } else {
                let behind = |record: &Record| matches!(record, Record::Stream | Record::Tally { .. } | Record::Call { .. });
                prop_assert!(trailing.iter().all(behind));
                prop_assert_eq!(thread.clock, kept.last().map_or(thread.start_clock, |(time, _)| *time));
            }
            prop_assert_eq!(events, kept);
        }
    }
}
