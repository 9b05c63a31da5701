//! Every single-byte change and every truncation of a small trace.

use crate::model::{Model, manifest, programs, sample};
use proptest::prelude::*;
use relive_trace::error::{Fault, Problem};
use relive_trace::reader::{DataFile, Series};
use relive_trace::recording::Recording;
use std::fs;
use std::path::Path;

/// Timestamps of each thread of a data file.
fn times(file: &DataFile) -> Vec<(u32, Vec<u64>)> {
    file.threads.iter().map(|t| (t.index, t.events().map(|event| event.time).collect())).collect()
}

fn parse(bytes: &[u8]) -> Option<DataFile> {
    DataFile::parse(bytes, Path::new("damaged"), Series::Recorded).ok()
}

/// Every position, but one in sixteen of the zeros that fill a data file's first page.
fn positions(is_manifest: bool, length: usize) -> impl Iterator<Item = usize> {
    (0..length).filter(move |at| is_manifest || at % 16 == 0 || !(64..FILE_PAGE).contains(at))
}

#[test]
fn a_complete_trace_refuses_every_changed_byte_and_every_length() {
    let folder = tempfile::tempdir().unwrap();
    sample().store(folder.path());
    let good = Recording::open(folder.path()).unwrap();
    for entry in fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        let is_manifest = path.extension().is_some_and(|e| e == "json");
        for at in positions(is_manifest, bytes.len()) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            fs::write(&path, &damaged).unwrap();
            match Recording::open(folder.path()) {
                Err(error) => assert!(error.to_string().contains(folder.path().to_str().unwrap()), "{error}"),
                // White space of the manifest means nothing.
                Ok(read) => assert!(is_manifest && read.manifest == good.manifest && read.digest() == good.digest()),
            }
        }
        for length in positions(is_manifest, bytes.len()) {
            fs::write(&path, &bytes[..length]).unwrap();
            let read = Recording::open(folder.path());
            // The manifest's last byte is a line feed.
            assert!(read.is_err() || (is_manifest && length + 1 == bytes.len()), "{} cut to {length}", path.display());
        }
        fs::write(&path, &bytes).unwrap();
    }
}

#[test]
fn without_checksums_a_truncated_file_is_refused_or_a_prefix() {
    for file in &sample().files {
        let bytes = file.bytes();
        let good = times(&parse(&bytes).unwrap());
        for length in 0..bytes.len() {
            let Some(read) = parse(&bytes[..length]) else { continue };
            for (thread, found) in times(&read) {
                let (_, whole) = good.iter().find(|(index, _)| *index == thread).expect("a thread of the file");
                assert!(whole.starts_with(&found), "thread {thread} of the file cut to {length}");
            }
        }
    }
}

/// Without a checksum a changed byte may go unnoticed where nothing else depends on it: a value, the process
/// id, the jumps after the last check hash as long as their sum is right. It must never do more harm than that.
#[test]
fn without_checksums_a_changed_byte_never_adds_events_and_keeps_the_final_clocks() {
    for file in &sample().files {
        let bytes = file.bytes();
        let good = parse(&bytes).unwrap();
        let mut refused = 0;
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            let Some(read) = parse(&damaged) else {
                refused += 1;
                continue;
            };
            for thread in &read.threads {
                // A thread may be renumbered: names come from parents and child numbers.
                let Some(whole) = good.threads.iter().find(|t| t.index == thread.index) else { continue };
                assert!(thread.events <= whole.events + 1, "byte {at}");
                assert!(thread.clock <= whole.clock + 1, "byte {at}");
            }
        }
        assert!(refused > FILE_PAGE, "only {refused} changes were found");
    }
}

/// The first page must be zero behind its header.
const FILE_PAGE: usize = 4000;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_damage_makes_the_reader_fail_badly(
        steps in programs(60),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        length in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let model = Model::run(&steps);
        let mut files = Vec::new();
        for mut bytes in model.bytes() {
            for (at, value) in &changes {
                let at = at.index(bytes.len());
                bytes[at] = *value;
            }
            if cut {
                bytes.truncate(length.index(bytes.len()));
            }
            match DataFile::parse(&bytes, Path::new("damaged"), Series::Recorded) {
                Ok(file) => files.push(file),
                Err(error) => prop_assert!(error.offset.is_some_and(|at| at <= bytes.len() as u64), "{}", error),
            }
        }
        for file in &files {
            prop_assert!(file.threads.iter().map(|t| t.events().count()).sum::<usize>() <= 1 << 20);
        }
        if let Ok(recording) = Recording::assemble(manifest(), files, Path::new("damaged")) {
            prop_assert!(recording.thread_count() < 1 << 17);
        }
    }

    #[test]
    fn any_bytes_behind_a_good_header_are_read_or_refused(tail in proptest::collection::vec(any::<u8>(), 0..3000)) {
        let mut bytes = sample().bytes().swap_remove(0);
        let at = bytes.len() / 2;
        bytes.truncate(at);
        bytes.extend(tail);
        let _ = DataFile::parse(&bytes, Path::new("damaged"), Series::Recorded);
        let _ = DataFile::parse(&bytes, Path::new("damaged"), Series::Learnt);
    }
}

#[test]
fn a_wiped_file_of_a_complete_trace_is_not_a_process_without_events() {
    let folder = tempfile::tempdir().unwrap();
    sample().store(folder.path());
    let path = folder.path().join("p00001.trace");
    let length = fs::metadata(&path).unwrap().len() as usize;
    for byte in [0, 7] {
        fs::write(&path, vec![byte; length]).unwrap();
        let error = Recording::open(folder.path()).unwrap_err();
        assert!(matches!(error.problem, Problem::Corrupt(Fault::Checksum)), "{error}");
    }
}

#[test]
fn what_is_no_trace_is_told_apart_from_what_is_absent() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "text").unwrap();
    for (path, what) in [(folder.path().to_owned(), "not a relive trace"), (file, "not a relive trace")] {
        let error = Recording::open(&path).unwrap_err();
        assert!(matches!(error.problem, Problem::NotATrace), "{error}");
        assert!(error.to_string().contains(what));
    }
    let absent = Recording::open(&folder.path().join("absent")).unwrap_err();
    assert!(matches!(absent.problem, Problem::Io(_)), "{absent}");
}
