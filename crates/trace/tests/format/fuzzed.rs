//! What the fuzz targets in `fuzz/` do with their input, and the corpus they
//! left, tried again.
//!
//! Apart from the targets so that every test run repeats what fuzzing once found.

use crate::writer::{FileWriter, ThreadWriter};
use relive_order::Kind;
use relive_trace::derived::{DERIVED_MAGIC, DerivedOrder};
use relive_trace::layout::{FORMAT_VERSION, NONE};
use relive_trace::manifest::{Binary, Manifest};
use relive_trace::opened;
use relive_trace::packed::{Head, Index};
use relive_trace::plan_builder::PlanBuilder;
use relive_trace::reader::{DataFile, Series};
use relive_trace::record::{Decoder, Place, Record, encode};
use relive_trace::recording::Recording;
use std::path::{Component, Path};
use twox_hash::XxHash3_64;

/// A data file: refused, or read to events that agree with each other.
pub(crate) fn data_file(input: &[u8]) {
    let _ = DataFile::parse(input, Path::new("fuzzed"), Series::Learnt);
    let Ok(file) = DataFile::parse(input, Path::new("fuzzed"), Series::Recorded) else { return };
    assert!(file.used_bytes <= file.file_bytes && file.file_bytes == input.len() as u64);
    for thread in &file.threads {
        let index = thread.index();
        let mut clock = thread.start_clock;
        for event in thread.events() {
            assert_eq!(event.time, clock + 1 + event.extra);
            clock = event.time;
            if event.number % 61 == 0 {
                assert_eq!(index.time(event.number), Some(clock));
                assert_eq!(index.events_until(clock), event.number + 1);
            }
        }
        assert_eq!((clock, index.time(thread.events)), (thread.clock, None));
        let mut cut = thread.clone();
        cut.cut(clock / 2);
        assert!(cut.events <= thread.events && cut.events().count() as u64 == cut.events);
    }
    if let Ok(recording) = Recording::assemble(manifest_of_nothing(), vec![file], Path::new("fuzzed")) {
        plan(&recording, None);
    }
}

/// A derived order of a known recording: refused, or a plan can be made of it. An odd first byte asks for a
/// correct head and checksum around the rest, which chance would never meet.
pub(crate) fn derived_order(input: &[u8]) {
    let recording = small_recording();
    let Some((&mode, rest)) = input.split_first() else { return };
    let bytes = if mode % 2 == 0 { rest.to_vec() } else { framed(rest, recording.digest()) };
    let Ok(order) = DerivedOrder::parse(&bytes, &recording) else { return };
    plan(&recording, Some(&order));
    assert_eq!(DerivedOrder::parse(&order.to_bytes(), &recording).expect("what was accepted and written"), order);
}

fn framed(threads: &[u8], digest: u128) -> Vec<u8> {
    let mut bytes = DERIVED_MAGIC.to_vec();
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&2u32.to_le_bytes());
    bytes.extend_from_slice(&digest.to_le_bytes());
    bytes.extend_from_slice(threads);
    bytes.extend_from_slice(&XxHash3_64::oneshot(&bytes).to_le_bytes());
    bytes
}

/// A manifest: refused, or written and read to the same again, checksum or not.
pub(crate) fn manifest(input: &[u8]) {
    let _ = Manifest::parse(input, Path::new("fuzzed"));
    let Ok(mut manifest) = serde_json::from_slice::<Manifest>(input) else { return };
    manifest.format = FORMAT_VERSION;
    let json = manifest.to_json().expect("a manifest can be written");
    assert_eq!(Manifest::parse(json.as_bytes(), Path::new("fuzzed")).expect("what was written"), manifest);
}

/// The list of files that images were started from: refused, or every file in it has a full path.
pub(crate) fn opened(input: &[u8]) {
    let Ok(files) = opened::parse(input) else { return };
    let bytes: usize = files.iter().map(|file| file.path.as_os_str().len() + 41).sum();
    assert!(bytes <= input.len() && files.iter().all(|file| file.path.is_absolute()));
}

/// The head of a packed trace: refused, or written to the same again.
pub(crate) fn packed_head(input: &[u8]) {
    let Some(bytes) = input.first_chunk() else { return };
    if let Ok(head) = Head::parse(bytes) {
        assert_eq!(head.to_bytes(), *bytes);
    }
}

/// The index of a packed trace: refused, or, its checksum set right, written and read to the same again, and no name
/// in it leads out.
pub(crate) fn packed_index(input: &[u8]) {
    let _ = Index::parse(input);
    let Ok(mut index) = serde_json::from_slice::<Index>(input) else { return };
    let json = index.to_json();
    let Ok(read) = Index::parse(json.as_bytes()) else { return };
    assert_eq!(read, index);
    for link in &read.links {
        let mut depth = link.path.as_path().components().count() as i64 - 2;
        for part in link.target.as_path().components() {
            depth += if part == Component::ParentDir { -1 } else { i64::from(part != Component::CurDir) };
            assert!(depth >= 0 && part != Component::RootDir, "{link:?}");
        }
    }
}

/// A stream: the decoder ends, and what it returns can be encoded and decoded again.
pub(crate) fn stream(input: &[u8]) {
    let mut decoder = Decoder::new(input);
    while let Ok(Some((steps, record))) = decoder.next_record() {
        let encoded = encode(steps, record);
        let again = match record {
            Record::Call { place: Place::Stream, .. } => [encoded.as_bytes(), decoder.payload()].concat(),
            _ => encoded.as_bytes().to_vec(),
        };
        assert_eq!(Decoder::new(&again).next_record(), Ok(Some((steps, record))));
    }
}

fn plan(recording: &Recording, order: Option<&DerivedOrder>) {
    let builder = PlanBuilder::new(recording, order);
    let mut plan = Vec::new();
    builder.write(&mut plan).expect("memory takes all that is written");
    assert_eq!(plan.len() as u64, builder.bytes());
}

fn manifest_of_nothing() -> Manifest {
    Manifest::new("0", Binary::default(), Vec::new(), "/".into())
}

fn small_recording() -> Recording {
    let mut file = FileWriter::new(0, 0);
    let mut main = ThreadWriter::new(&mut file, 0, (NONE, 0), 0);
    let created = main.event(&mut file, 0, Kind::Create);
    let mut child = ThreadWriter::new(&mut file, 1, (0, 0), created);
    let mut object = 0;
    for turn in 0..40 {
        let thread = if turn % 3 == 0 { &mut child } else { &mut main };
        object = thread.event(&mut file, object, Kind::Lock);
        thread.note(&mut file, Record::Value(turn));
    }
    let file = DataFile::parse(&file.bytes(), Path::new("made"), Series::Recorded).expect("a good file");
    Recording::assemble(manifest_of_nothing(), vec![file], Path::new("made")).expect("a good recording")
}
