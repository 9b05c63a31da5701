//! Every single-byte change of a small trace and every length of its files,
//! through the reader that all commands share.
//!
//! Apart from `damage.rs` because no process is started here: thousands of
//! damaged traces are read in a second.

use crate::damage::Specimen;
use crate::timed::long;
use relive_trace::derived::DerivedOrder;
use relive_trace::manifest::Manifest;
use relive_trace::plan_builder::PlanBuilder;
use relive_trace::reader::{DataFile, Series};
use relive_trace::recording::Recording;
use std::path::Path;

/// One bit low and high, a letter's case, all bits.
const CHANGES: [u8; 4] = [0x01, 0x80, 0x20, 0xFF];
/// The data file of the only process.
const DATA: &str = "p00000.trace";

/// What `open` says about a damaged trace, if anything: one line.
fn complaint<T, E: std::fmt::Display>(result: Result<T, E>) -> Result<T, String> {
    result.map_err(|e| {
        let line = e.to_string();
        assert!(!line.is_empty() && !line.contains('\n'), "not one line: {line:?}");
        line
    })
}

/// Calls `look` with single-byte changes of `good`: one at each position, each kind in turn, or all in the long run.
fn with_changes(good: &[u8], mut look: impl FnMut(&[u8], &str)) {
    let mut damaged = good.to_vec();
    for position in 0..good.len() {
        let first = position % CHANGES.len();
        let changes = if long() { &CHANGES[..] } else { &CHANGES[first..=first] };
        for change in changes {
            damaged[position] = good[position] ^ change;
            look(&damaged, &format!("byte {position} changed by {change:#04x}"));
        }
        damaged[position] = good[position];
    }
}

#[test]
fn no_change_of_a_finished_trace_goes_unnoticed() {
    let specimen = Specimen::finished();
    let copy = specimen.copy();
    let good = Recording::open(&copy).expect("the good trace");
    for name in ["manifest.json", DATA] {
        let path = copy.join(name);
        let bytes = std::fs::read(&path).expect("a file of the trace");
        with_changes(&bytes, |damaged, what| {
            std::fs::write(&path, damaged).expect("the damage");
            // White space of the manifest is the only thing that may change.
            if let Ok(read) = complaint(Recording::open(&copy)) {
                assert_eq!(read.manifest, good.manifest, "{name}: {what}");
                assert_eq!(read.digest(), good.digest(), "{name}: {what}");
            }
        });
        std::fs::write(&path, &bytes).expect("the good file");
    }
}

#[test]
fn no_change_of_the_derived_order_goes_unnoticed() {
    let specimen = Specimen::finished();
    let copy = specimen.copy();
    let recording = Recording::open(&copy).expect("the good trace");
    let bytes = std::fs::read(copy.join("derived.order")).expect("the first replay learnt it");
    let good = DerivedOrder::parse(&bytes, &recording).expect("the order fits");
    with_changes(&bytes, |damaged, what| {
        if let Ok(read) = complaint(DerivedOrder::parse(damaged, &recording)) {
            assert_eq!(read, good, "{what}");
        }
    });
}

#[test]
fn any_change_of_an_unfinished_trace_can_be_read_or_refused() {
    let specimen = Specimen::unfinished();
    let copy = specimen.copy();
    let good = Recording::open(&copy).expect("an unfinished trace can be read");
    let bytes = std::fs::read(copy.join(DATA)).expect("the data file");
    let (mut read, mut refused) = (0, 0);
    with_changes(&bytes, |damaged, what| {
        let file = complaint(DataFile::parse(damaged, Path::new(DATA), Series::Recorded));
        let whole = |file| complaint(Recording::assemble(good.manifest.clone(), vec![file], &copy));
        match file.and_then(whole) {
            Ok(recording) => {
                read += 1;
                // Nobody computed a checksum yet; what was believed must at least make a plan of honest size.
                let bytes = PlanBuilder::new(&recording, None).bytes();
                assert!(bytes < 1 << 24, "{what}: a plan of {bytes} bytes");
                assert!(recording.thread_count() <= good.thread_count() + (1 << 16), "{what}");
            }
            Err(_) => refused += 1,
        }
    });
    assert!(read > 0 && refused > 0, "{read} read, {refused} refused: the changes did not reach the reader");
}

#[test]
fn every_length_of_a_data_file_gives_a_prefix_or_an_error() {
    let specimen = Specimen::unfinished();
    let bytes = std::fs::read(specimen.copy().join(DATA)).expect("the data file");
    let good = DataFile::parse(&bytes, Path::new(DATA), Series::Recorded).expect("the good file");
    for length in 0..bytes.len() {
        let Ok(read) = complaint(DataFile::parse(&bytes[..length], Path::new(DATA), Series::Recorded)) else {
            continue;
        };
        for thread in &read.threads {
            let whole = good.threads.iter().find(|t| t.index == thread.index).expect("a recorded thread");
            assert!(thread.events <= whole.events, "cut to {length}: thread {} gained events", thread.index);
            assert_eq!(thread.start_clock, whole.start_clock, "cut to {length}: thread {}", thread.index);
            assert_eq!((thread.parent, thread.child_number), (whole.parent, whole.child_number), "cut to {length}");
        }
    }
}

#[test]
fn every_length_of_a_finished_trace_is_an_error() {
    let specimen = Specimen::finished();
    let copy = specimen.copy();
    let manifest = std::fs::read(copy.join("manifest.json")).expect("the manifest");
    // The manifest's last byte is a line feed.
    for length in 0..manifest.len() - 1 {
        let read = complaint(Manifest::parse(&manifest[..length], Path::new("manifest.json")));
        assert!(read.is_err(), "a manifest cut to {length} was believed");
    }
    let path = copy.join(DATA);
    let data = std::fs::File::options().write(true).open(&path).expect("the data file");
    for length in (0..data.metadata().expect("its length").len()).rev() {
        data.set_len(length).expect("the damage");
        assert!(complaint(Recording::open(&copy)).is_err(), "a data file cut to {length} was believed");
    }
}
