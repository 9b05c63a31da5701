//! Data files as a kill, a full disk or a second process leaves them.

use crate::model::{Model, Op, manifest, sample};
use crate::writer::{FileWriter, ThreadWriter};
use relive_order::Kind;
use relive_trace::error::{Fault, Problem};
use relive_trace::layout::{ChunkHeader, FILE_HEADER_BYTES, FORMAT_VERSION, NONE, end, stop};
use relive_trace::reader::{DataFile, Series};
use relive_trace::record::Record;
use relive_trace::recording::{End, Recording};
use std::path::Path;

fn parse(bytes: &[u8]) -> Result<DataFile, Problem> {
    DataFile::parse(bytes, Path::new("made"), Series::Recorded).map_err(|error| error.problem)
}

fn fault<T: std::fmt::Debug>(result: Result<T, Problem>) -> Fault {
    match result {
        Err(Problem::Corrupt(fault)) => fault,
        other => panic!("no fault: {other:?}"),
    }
}

fn alone() -> (FileWriter, ThreadWriter) {
    let mut file = FileWriter::new(0, 0);
    let thread = ThreadWriter::new(&mut file, 0, (NONE, 0), 0);
    (file, thread)
}

#[test]
fn reserved_space_behind_the_last_chunk_is_no_part_of_it() {
    let model = sample();
    for file in &model.files {
        let (cut, reserved) = (parse(&file.bytes()).unwrap(), parse(&file.reserved()).unwrap());
        assert_eq!(cut.threads, reserved.threads);
        assert_eq!(cut.used_bytes, file.bytes().len() as u64);
        assert_eq!(reserved.used_bytes, cut.used_bytes);
    }
}

#[test]
fn chunks_go_on_in_the_next_window() {
    let (mut file, mut thread) = alone();
    for n in 0..400_000 {
        thread.note(&mut file, Record::Value(n));
    }
    assert!(file.bytes().len() > 1 << 20);
    let read = parse(&file.bytes()).unwrap();
    assert_eq!(read.threads[0].trailing().len(), 400_000);
}

#[test]
fn a_kill_between_pair_and_commit_drops_the_pair() {
    let (mut file, mut thread) = alone();
    thread.event(&mut file, 9, Kind::Lock);
    let before = parse(&file.bytes()).unwrap();
    thread.half_event(&mut file, 500);
    assert_eq!(parse(&file.bytes()).unwrap().threads, before.threads);
    // The clock is stored before the event number.
    thread.forge(&mut file, |h| h.clock += 501);
    assert_eq!(parse(&file.bytes()).unwrap().threads, before.threads);
    // Both at once, or another clock, no kill can leave.
    thread.forge(&mut file, |h| h.clock += 1);
    assert!(matches!(fault(parse(&file.bytes())), Fault::Clock { computed: 10, .. }));
}

/// Whatever a kill interrupts, the reader gets back the events that were counted, and what stood before them.
#[test]
fn a_recording_can_be_read_at_every_moment_of_it() {
    let mut file = FileWriter::new(0, 0);
    file.moments = Some(Vec::new());
    let mut thread = ThreadWriter::new(&mut file, 0, (NONE, 0), 0);
    let mut object = 0;
    for round in 0..600u32 {
        if round % 5 == 0 {
            object = thread.header.clock + u64::from(round % 40);
        }
        thread.event(&mut file, object, Kind::ALL[round as usize % 25]);
        match round % 7 {
            0 => thread.note(&mut file, Record::Value(i64::from(round))),
            1 => thread.failures(&mut file, Kind::Lock, 16, 1 + round),
            _ => {}
        }
    }
    let moments = file.moments.take().unwrap();
    assert!(moments.len() > 2500 && thread.header.sequence > 1);
    let mut before = 0;
    for (number, bytes) in moments.iter().enumerate() {
        let read = match parse(bytes) {
            Ok(read) => read,
            Err(Problem::Empty) if number == 0 => continue,
            Err(problem) => panic!("moment {number}: {problem}"),
        };
        let plain = |records: Vec<Record>| records.into_iter().filter(|r| !matches!(r, Record::Hash(_))).collect();
        let events: Vec<_> = read.threads[0].events().map(|event| (event.time, plain(event.records))).collect();
        assert!(thread.oracle.starts_with(&events), "moment {number}");
        assert!((before..=before + 1).contains(&events.len()), "moment {number}");
        before = events.len();
    }
    assert_eq!(before, 600);
}

#[test]
fn a_run_that_a_kill_left_in_header_and_stream_counts_once() {
    let (mut file, mut thread) = alone();
    thread.event(&mut file, 0, Kind::Lock);
    thread.failures(&mut file, Kind::Lock, 16, 3);
    let run = Record::Run { kind: Kind::Lock, result: 16, count: 3 };
    assert_eq!(parse(&file.bytes()).unwrap().threads[0].trailing(), [run]);
    thread.append(&mut file, run);
    assert_eq!(parse(&file.bytes()).unwrap().threads[0].trailing(), [run]);
}

#[test]
fn a_process_without_chunks_is_empty_and_the_first_one_must_not_be() {
    for bytes in [Vec::new(), vec![0; 1 << 20], FileWriter::new(0, 0).bytes()] {
        assert!(matches!(parse(&bytes), Err(Problem::Empty)), "{} bytes", bytes.len());
    }
    let folder = tempfile::tempdir().unwrap();
    sample().store(folder.path());
    let mut unfinished = manifest();
    unfinished.write(folder.path()).unwrap();
    std::fs::write(folder.path().join("p00001.trace"), vec![0; 1 << 20]).unwrap();
    assert_eq!(Recording::open(folder.path()).unwrap().process_count(), 1);
    std::fs::write(folder.path().join("p00000.trace"), vec![0; 1 << 20]).unwrap();
    assert!(matches!(Recording::open(folder.path()).unwrap_err().problem, Problem::Empty));
}

#[test]
fn names_are_paths_of_child_numbers() {
    let mut model = Model::new();
    model.step(0, &Op::Create { fork: false });
    model.step(0, &Op::Create { fork: true });
    model.step(2, &Op::Create { fork: false });
    let recording = model.recording();
    let names: Vec<_> = (0..4).map(|thread| recording.name(thread)).collect();
    assert_eq!(names, ["0", "0.0", "0.1", "0.1.0"]);
    assert_eq!(recording.children(0), [1, 2]);
    assert_eq!(recording.process(1).unwrap().threads, [2, 3]);
}

#[test]
fn a_stopped_process_cuts_the_whole_recording() {
    let mut model = sample();
    let whole = model.recording();
    (model.files[1].header.end, model.files[1].header.stop_reason) = (end::STOPPED, stop::NO_SPACE);
    model.files[1].header.stop_clock = 40;
    let recording = model.recording();
    assert_eq!(recording.cut(), Some(40));
    assert_eq!(recording.process(1).unwrap().end, End::Stopped { reason: stop::NO_SPACE, clock: 40 });
    for (cut, whole) in recording.threads().zip(whole.threads()) {
        let kept: Vec<_> = whole.events().map(|event| event.time).take_while(|&time| time <= 40).collect();
        assert_eq!(cut.events().map(|event| event.time).collect::<Vec<_>>(), kept);
    }
    assert!(recording.events() < whole.events());
}

#[test]
fn what_no_writer_leaves_is_named() {
    let (mut file, mut thread) = alone();
    thread.event(&mut file, 9, Kind::Lock);
    let good = thread.header;
    let mut forged = |change: &dyn Fn(&mut ChunkHeader)| {
        thread.forge(&mut file, |h| {
            *h = good;
            change(h);
        });
        fault(parse(&file.bytes()))
    };
    assert_eq!(forged(&|h| h.size = 1024), Fault::Field { field: "chunk size", value: 1024 });
    assert_eq!(forged(&|h| h.used = 193), Fault::Field { field: "payload size", value: 193 });
    assert_eq!(forged(&|h| h.flags = 8), Fault::Field { field: "thread flags", value: 8 });
    assert_eq!(forged(&|h| h.thread = 1), Fault::Field { field: "main thread", value: 0 });
    assert_eq!(forged(&|h| h.clock = 12), Fault::Clock { thread: 0, computed: 10, stored: 12 });
    assert_eq!(forged(&|h| h.events = 2), Fault::Clock { thread: 0, computed: 11, stored: 10 });
    assert_eq!(forged(&|h| (h.run_kind, h.run_count) = (0, 1)), Fault::Field { field: "kind of a run", value: 0 });
    assert_eq!(forged(&|h| h.events = 256), Fault::Clock { thread: 0, computed: 265, stored: 10 });
    assert_eq!(forged(&|h| h.events = 300), Fault::Position { thread: 0, events: 300 });
}

#[test]
fn a_missing_chunk_is_found() {
    let (mut file, mut thread) = alone();
    while thread.header.sequence < 4 {
        thread.note(&mut file, Record::Value(1));
    }
    assert!(parse(&file.bytes()).is_ok());
    let good = thread.header;
    thread.forge(&mut file, |h| h.sequence = 5);
    assert_eq!(fault(parse(&file.bytes())), Fault::Sequence { thread: 0, expected: 4, found: 5 });
    thread.forge(&mut file, |h| *h = ChunkHeader { start_clock: 1, ..good });
    assert_eq!(fault(parse(&file.bytes())), Fault::Identity { thread: 0 });
}

#[test]
fn a_newer_version_and_another_file_are_told_apart() {
    let (mut file, mut thread) = alone();
    thread.event(&mut file, 0, Kind::Lock);
    file.header.version = FORMAT_VERSION + 1;
    assert!(matches!(parse(&file.bytes()), Err(Problem::Newer { found }) if found == FORMAT_VERSION + 1));
    assert!(matches!(parse(b"something else"), Err(Problem::NotATrace)));
    assert!(matches!(parse(&file.bytes()[..20]), Err(Problem::Truncated)));
    assert!(matches!(
        parse(&file.bytes()[..FILE_HEADER_BYTES as usize - 1]),
        Err(Problem::Truncated | Problem::Newer { .. })
    ));
}

#[test]
fn threads_that_form_no_tree_are_refused() {
    let assemble = |thread: u32, parent: u32, number: u32, start: u64| {
        let (mut file, mut main) = alone();
        main.event(&mut file, 0, Kind::Create);
        let mut child = ThreadWriter::new(&mut file, thread, (parent, number), start);
        child.event(&mut file, 0, Kind::Lock);
        let file = parse(&file.bytes())?;
        Recording::assemble(manifest(), vec![file], Path::new("made")).map_err(|error| error.problem)
    };
    assert!(assemble(1, 0, 0, 1).is_ok());
    let tree = |thread, parent, child_number| Fault::Tree { thread, parent, child_number };
    assert_eq!(fault(assemble(1, 1, 0, 1)), tree(1, 1, 0), "its own parent");
    assert_eq!(fault(assemble(1, NONE, 0, 1)), tree(1, NONE, 0), "no parent");
    assert_eq!(fault(assemble(3, 2, 0, 1)), tree(3, 2, 0), "a parent that is not there");
    assert_eq!(fault(assemble(1, 0, 0, 7)), tree(1, 0, 0), "created at no event of its parent");
    assert_eq!(fault(assemble(1, 0, 1 << 20, 1)), tree(1, 0, 1 << 20), "a child number far out");
    assert_eq!(fault(assemble(1 << 20, 0, 0, 1)), Fault::Sparse { thread: 1 << 20, known: 2 });
}
