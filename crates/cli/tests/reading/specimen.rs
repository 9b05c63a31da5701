//! A small trace made by hand: two processes, four threads, every kind of record.
//!
//! By hand, because its text must be the same on every machine and for every
//! later recorder of this format.

use relive_order::hash::CHECK_INTERVAL;
use relive_order::{CheckHash, Kind};
use relive_trace::bytes::{write_chunk_header, write_file_header};
use relive_trace::layout::{
    CHUNK_HEADER_BYTES, CHUNK_MAGIC, CHUNK_SIZES, ChunkHeader, FILE_HEADER_BYTES, FILE_MAGIC, FORMAT_VERSION,
    FileHeader, NONE, THREAD_FINISHED, end, stop,
};
use relive_trace::manifest::{Binary, FileEntry, Manifest, Outcome, State};
use relive_trace::reader::checksum;
use relive_trace::record::{Record, encode};
use std::fs;
use std::path::Path;

/// One thread: its place in the tree, and its records with the steps before each.
struct Thread {
    index: u32,
    parent: u32,
    child_number: u32,
    start_clock: u64,
    events: u64,
    finished: bool,
    open_run: Option<(Kind, i16, u32)>,
    records: Vec<(u64, Record)>,
}

impl Thread {
    fn new(index: u32, parent: u32, child_number: u32, start_clock: u64, events: u64) -> Self {
        let (finished, open_run, records) = (false, None, Vec::new());
        Self { index, parent, child_number, start_clock, events, finished, open_run, records }
    }

    fn then(mut self, steps: u64, record: Record) -> Self {
        self.records.push((steps, record));
        self
    }

    fn chunk(&self) -> Vec<u8> {
        let mut payload = Vec::new();
        let mut jumps = 0;
        for &(steps, record) in &self.records {
            payload.extend_from_slice(encode(steps, record).as_bytes());
            if let Record::Pair { extra } = record {
                jumps += extra;
            }
        }
        let (kind, result, count) =
            self.open_run.map_or((0, 0, 0), |(kind, result, count)| (kind as u8, result, count));
        let header = ChunkHeader {
            magic: CHUNK_MAGIC,
            size: CHUNK_SIZES[0],
            thread: self.index,
            sequence: 0,
            used: payload.len() as u32,
            hash: hash(self.events).0,
            events: self.events,
            clock: self.start_clock + self.events + jumps,
            run_kind: kind,
            flags: if self.finished { THREAD_FINISHED } else { 0 },
            run_result: result,
            run_count: count,
            parent: self.parent,
            child_number: self.child_number,
            start_clock: self.start_clock,
        };
        let mut chunk = write_chunk_header(&header).to_vec();
        chunk.extend(payload);
        assert!(chunk.len() <= CHUNK_SIZES[0] as usize && chunk.len() > CHUNK_HEADER_BYTES as usize - 1);
        chunk.resize(CHUNK_SIZES[0] as usize, 0);
        chunk
    }
}

/// Every thread of the specimen only locks and unlocks.
fn hash(events: u64) -> CheckHash {
    let kinds = [Kind::Lock, Kind::Unlock].into_iter().cycle();
    kinds.take(events as usize).fold(CheckHash::default(), CheckHash::then)
}

fn file(process: u32, ending: u32, exit_code: u32, threads: &[Thread]) -> Vec<u8> {
    let header = FileHeader {
        magic: FILE_MAGIC,
        version: FORMAT_VERSION,
        process,
        pid: 1000 + process,
        main_thread: threads[0].index,
        end: ending,
        stop_reason: stop::NONE,
        exit_code,
        exit_thread: if ending == end::EXITED { threads[0].index } else { NONE },
        stop_clock: 0,
    };
    let mut bytes = write_file_header(&header).to_vec();
    bytes.resize(FILE_HEADER_BYTES as usize, 0);
    bytes.extend(threads.iter().flat_map(Thread::chunk));
    bytes
}

fn first_process() -> Vec<u8> {
    let main = Thread::new(0, NONE, 0, 0, 6)
        .then(3, Record::Pair { extra: 4 })
        .then(1, Record::Won { key: 0x40, attempt: 0 })
        .then(0, Record::Pair { extra: 20 });
    let mut worker = Thread::new(1, 0, 0, 1, 2).then(0, Record::Value(-5)).then(0, Record::Pair { extra: 2 });
    worker.finished = true;
    worker.open_run = Some((Kind::Lock, 16, 3));
    let long = Thread::new(2, 0, 1, 2, 300)
        .then(7, Record::Run { kind: Kind::SemWait, result: 11, count: 1000 })
        .then(CHECK_INTERVAL - 7, Record::Hash(hash(CHECK_INTERVAL).0))
        .then(1, Record::Cancelled { calls: 2 });
    file(0, end::EXITED, 7, &[main, worker, long])
}

fn second_process() -> Vec<u8> {
    let child = Thread::new(3, 0, 2, 3, 1).then(0, Record::Signal { number: 15, calls: 1 });
    file(1, end::LIVE, 0, &[child])
}

/// Writes the specimen to the folder `trace`.
pub(crate) fn write(trace: &Path) {
    fs::create_dir_all(trace).expect("a folder for the trace");
    let program = Binary { path: (&"/opt/demo").into(), bytes: 1, ..Binary::default() };
    let command = ["demo", "-n", "two words"].map(|word| (&word).into()).to_vec();
    let mut manifest = Manifest::new("0.1.0", program, command, (&"/opt").into());
    manifest.state = State::Complete;
    // A Friday in 2026, and a second and a half later.
    manifest.started_ms = 1_772_786_096_000;
    manifest.ended_ms = Some(1_772_786_097_500);
    manifest.outcome = Some(Outcome::Exited(7));
    for (process, bytes) in [first_process(), second_process()].into_iter().enumerate() {
        let sum = checksum(&*bytes).expect("memory can be read");
        manifest.files.push(FileEntry::new(process as u32, bytes.len() as u64, sum));
        fs::write(trace.join(format!("p{process:05}.trace")), bytes).expect("a data file");
    }
    manifest.write(trace).expect("a manifest");
}
