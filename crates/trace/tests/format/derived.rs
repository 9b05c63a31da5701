//! The derived order is used only where it fits its recording exactly.

use crate::model::{Model, manifest, sample};
use crate::writer::{FileWriter, ThreadWriter};
use relive_order::Kind;
use relive_trace::derived::{DERIVED, DerivedError, DerivedOrder};
use relive_trace::layout::{FileHeader, NONE, end};
use relive_trace::reader::{DataFile, Series};
use relive_trace::record::{LAPSES, Record};
use relive_trace::recording::Recording;
use relive_trace::stream::ThreadStream;
use std::fs;
use std::mem::offset_of;
use std::path::{Path, PathBuf};

/// For each thread, the events that wait, for which thread, and for how many events of it.
type Waits = Vec<(u32, Vec<(u64, u32, u64)>)>;

/// Each event of each thread waits for the newest earlier event of every other thread.
fn full_order(recording: &Recording) -> Waits {
    let others = |thread: u32| recording.threads().filter(move |other| other.index != thread);
    let list = |thread: &ThreadStream| {
        let mut waits = Vec::new();
        for event in thread.events() {
            for other in others(thread.index) {
                let before = other.index().events_until(event.time - 1);
                if before > 0 {
                    waits.push((event.number, other.index, before));
                }
            }
        }
        waits
    };
    recording.threads().map(|thread| (thread.index, list(thread))).collect()
}

fn learnt(model: &Model, order: &Waits, folder: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for (process, original) in model.files.iter().enumerate() {
        let mut file = FileWriter::new(process as u32, original.header.main_thread);
        for (_, made) in model.threads.iter().filter(|(of, _)| *of == process) {
            let h = &made.header;
            let mut thread = ThreadWriter::new(&mut file, h.thread, (h.parent, h.child_number), h.start_clock);
            for &(event, thread_index, events) in &order[h.thread as usize].1 {
                thread.forge(&mut file, |header| header.events = event);
                thread.append(&mut file, Record::Wait { thread: thread_index, events });
            }
            thread.forge(&mut file, |header| (header.events, header.clock) = (h.events, h.clock));
        }
        let path = folder.join(format!("learn-p{process:05}.trace"));
        fs::write(&path, file.reserved()).unwrap();
        paths.push(path);
    }
    paths
}

#[test]
fn learnt_files_become_an_order_that_is_read_again() {
    let (model, folder) = (sample(), tempfile::tempdir().unwrap());
    let recording = model.recording();
    let waits = full_order(&recording);
    let paths = learnt(&model, &waits, folder.path());
    let order = DerivedOrder::from_learnt(&recording, paths.iter().map(PathBuf::as_path)).unwrap();
    assert_eq!(order.count(), waits.iter().map(|(_, list)| list.len()).sum::<usize>());
    order.write(folder.path()).unwrap();
    let mut stopped = fs::read(&paths[0]).unwrap();
    stopped[offset_of!(FileHeader, end)] = end::STOPPED as u8;
    fs::write(&paths[0], stopped).unwrap();
    let partial = DerivedOrder::from_learnt(&recording, paths.iter().map(PathBuf::as_path));
    assert!(matches!(partial, Err(DerivedError::Incomplete)));
    assert_eq!(DerivedOrder::read(folder.path(), &recording).unwrap(), order);
}

#[test]
fn no_changed_byte_and_no_other_length_is_accepted() {
    let recording = sample().recording();
    let order = DerivedOrder::from_waits(&recording, full_order(&recording)).unwrap();
    let bytes = order.to_bytes();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(DerivedOrder::parse(&damaged, &recording).is_err(), "byte {at}");
        assert!(DerivedOrder::parse(&bytes[..at], &recording).is_err(), "cut to {at}");
    }
}

#[test]
fn it_is_not_applied_to_another_recording() {
    let folder = tempfile::tempdir().unwrap();
    let mut model = sample();
    let recording = model.recording();
    assert!(matches!(DerivedOrder::read(folder.path(), &recording), Err(DerivedError::Missing)));
    DerivedOrder::from_waits(&recording, full_order(&recording)).unwrap().write(folder.path()).unwrap();
    assert!(folder.path().join(DERIVED).exists());
    model.step(1, &crate::model::Op::Events { object: 0, kind: Kind::Lock, count: 1 });
    let other = DerivedOrder::read(folder.path(), &model.recording());
    assert!(matches!(other, Err(DerivedError::OtherRecording)));
}

#[test]
fn waits_for_what_comes_later_or_never_are_refused() {
    let recording = sample().recording();
    let total = recording.thread(1).unwrap().events;
    let refused = |event, other, events| {
        let order = DerivedOrder::from_waits(&recording, [(0, vec![(event, other, events)])]);
        matches!(order, Err(DerivedError::Contradiction { thread: 0, .. }))
    };
    assert!(refused(0, 1, 1), "the creation of a thread can't wait for the thread");
    assert!(refused(0, 0, 1), "nor an event for itself");
    assert!(refused(5, 1, total + 1), "nor for an event that was not recorded");
    assert!(refused(5, 9, 1), "nor for a thread that was not recorded");
    assert!(refused(5, 1, 0), "nor for none");
    assert!(refused(u64::MAX, 1, 1), "nor can an event that was not recorded wait");
}

/// Readers of one lock take equal timestamps; a replay meets them in some order.
#[test]
fn waits_for_time_to_pass_elsewhere_are_told_apart() {
    let recording = sample().recording();
    let order = |other| DerivedOrder::from_waits(&recording, [(0, vec![(5, other, LAPSES | 7)])]);
    assert_eq!(order(1).unwrap().count(), 1);
    assert!(matches!(order(0), Err(DerivedError::Contradiction { .. })), "itself");
    assert!(matches!(order(1000), Err(DerivedError::Contradiction { .. })), "nobody");
}

#[test]
fn waits_among_equal_timestamps_must_not_go_round() {
    let mut file = FileWriter::new(0, 0);
    let mut main = ThreadWriter::new(&mut file, 0, (NONE, 0), 0);
    let readers: Vec<_> = (1..=3)
        .map(|index| {
            let created = main.event(&mut file, 0, Kind::Create);
            ThreadWriter::new(&mut file, index, (0, index - 1), created)
        })
        .collect();
    let written = main.event(&mut file, 0, Kind::WriteLock);
    for mut reader in readers {
        assert_eq!(reader.event(&mut file, written, Kind::ReadLock), written + 1);
    }
    let file = DataFile::parse(&file.bytes(), Path::new("made"), Series::Recorded).unwrap();
    let recording = Recording::assemble(manifest(), vec![file], Path::new("made")).unwrap();
    let order = |waits: &[(u32, u32)]| {
        let list = waits.iter().map(|&(thread, other)| (thread, vec![(0, 0, 4), (0, other, 1)]));
        DerivedOrder::from_waits(&recording, list.collect::<Waits>())
    };
    assert_eq!(order(&[(1, 2), (2, 3)]).unwrap().count(), 4, "a chain");
    assert_eq!(order(&[(1, 3), (2, 3)]).unwrap().count(), 4, "two for one");
    let round = order(&[(1, 2), (2, 3), (3, 1)]);
    assert!(matches!(round, Err(DerivedError::Contradiction { thread: 1, event: 0, other: 2 })));
    assert!(matches!(order(&[(2, 2)]), Err(DerivedError::Contradiction { .. })), "itself");
}
