//! A writer of data files for tests, as plain as possible: it knows the layout
//! and nothing of the runtime's mapping, growth or threads.
//!
//! Besides the file it keeps what it was told, event by event: the oracle.

use relive_order::{CheckHash, Kind, hash::CHECK_INTERVAL, stamp};
use relive_trace::bytes::{write_chunk_header, write_file_header};
use relive_trace::layout::{
    CHUNK_HEADER_BYTES, CHUNK_MAGIC, CHUNK_SIZES, ChunkHeader, FILE_HEADER_BYTES, FILE_MAGIC, FORMAT_VERSION,
    FileHeader, NONE, THREAD_FINISHED, WINDOW_BYTES, end, stop,
};
use relive_trace::record::{RECORD_BYTES_MAX, Record, encode};

/// A data file in the making.
pub(crate) struct FileWriter {
    pub(crate) header: FileHeader,
    /// If asked for: the file after each single store.
    pub(crate) moments: Option<Vec<Vec<u8>>>,
    bytes: Vec<u8>,
}

/// A thread that writes into a [`FileWriter`].
pub(crate) struct ThreadWriter {
    pub(crate) header: ChunkHeader,
    at: usize,
    stored: u64,
    /// Timestamps of its events, each with the records before it, check hashes left out.
    pub(crate) oracle: Vec<(u64, Vec<Record>)>,
    /// Records since the last event.
    pub(crate) open: Vec<Record>,
    /// Children created.
    pub(crate) children: u32,
}

impl FileWriter {
    pub(crate) fn new(process: u32, main_thread: u32) -> Self {
        let header = FileHeader {
            magic: FILE_MAGIC,
            version: FORMAT_VERSION,
            process,
            pid: 1000 + process,
            main_thread,
            end: end::LIVE,
            stop_reason: stop::NONE,
            exit_code: 0,
            exit_thread: NONE,
            stop_clock: 0,
        };
        Self { header, moments: None, bytes: vec![0; FILE_HEADER_BYTES as usize] }
    }

    /// The file as the launcher leaves it: cut behind the last chunk.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        let header = write_file_header(&self.header);
        bytes[..header.len()].copy_from_slice(&header);
        bytes
    }

    /// The file as it stands if the launcher is killed: whole windows.
    pub(crate) fn reserved(&self) -> Vec<u8> {
        let mut bytes = self.bytes();
        bytes.resize(bytes.len().next_multiple_of(WINDOW_BYTES as usize), 0);
        bytes
    }

    fn allocate(&mut self, header: &ChunkHeader) -> usize {
        let (size, window) = (header.size as usize, WINDOW_BYTES as usize);
        let mut at = self.bytes.len();
        if window - at % window < size {
            at = at.next_multiple_of(window);
        }
        self.bytes.resize(at + size, 0);
        // The magic goes last: a reader that finds it finds the rest.
        self.put(at, &ChunkHeader { magic: 0, ..*header });
        self.put(at, header);
        at
    }

    fn put(&mut self, at: usize, header: &ChunkHeader) {
        self.bytes[at..at + CHUNK_HEADER_BYTES as usize].copy_from_slice(&write_chunk_header(header));
        self.moment();
    }

    fn moment(&mut self) {
        if self.moments.is_some() {
            let now = self.bytes();
            self.moments.get_or_insert_default().push(now);
        }
    }
}

impl ThreadWriter {
    pub(crate) fn new(file: &mut FileWriter, thread: u32, parent: (u32, u32), start_clock: u64) -> Self {
        let header = ChunkHeader {
            magic: CHUNK_MAGIC,
            size: CHUNK_SIZES[0],
            thread,
            sequence: 0,
            used: 0,
            hash: 0,
            events: 0,
            clock: start_clock,
            run_kind: 0,
            flags: 0,
            run_result: 0,
            run_count: 0,
            parent: parent.0,
            child_number: parent.1,
            start_clock,
        };
        let at = file.allocate(&header);
        Self { header, at, stored: 0, oracle: Vec::new(), open: Vec::new(), children: 0 }
    }

    /// An event on an object whose clock is `object`; returns its timestamp.
    pub(crate) fn event(&mut self, file: &mut FileWriter, object: u64, kind: Kind) -> u64 {
        self.close_run(file);
        let stamp = stamp(self.header.clock, object);
        if stamp.extra > 0 {
            self.append(file, Record::Pair { extra: stamp.extra });
        }
        self.header.hash = CheckHash(self.header.hash).then(kind).0;
        file.put(self.at, &self.header);
        self.header.clock = stamp.time;
        file.put(self.at, &self.header);
        self.header.events += 1;
        file.put(self.at, &self.header);
        self.oracle.push((stamp.time, std::mem::take(&mut self.open)));
        if self.header.events.is_multiple_of(CHECK_INTERVAL) {
            self.append(file, Record::Hash(self.header.hash));
        }
        stamp.time
    }

    /// A record between events.
    pub(crate) fn note(&mut self, file: &mut FileWriter, record: Record) {
        self.close_run(file);
        self.append(file, record);
        self.open.push(record);
    }

    /// `count` failures in a row; they stay in the header until something else happens.
    pub(crate) fn failures(&mut self, file: &mut FileWriter, kind: Kind, result: i16, count: u32) {
        self.close_run(file);
        (self.header.run_kind, self.header.run_result, self.header.run_count) = (kind as u8, result, count);
        self.open.push(Record::Run { kind, result, count });
        file.put(self.at, &self.header);
    }

    pub(crate) fn finish(&mut self, file: &mut FileWriter) {
        self.header.flags |= THREAD_FINISHED;
        file.put(self.at, &self.header);
    }

    /// What a kill between a pair and the commit of its event leaves.
    pub(crate) fn half_event(&mut self, file: &mut FileWriter, extra: u64) {
        self.append(file, Record::Pair { extra });
    }

    /// Whatever `change` makes of the live header stands in the file.
    pub(crate) fn forge(&mut self, file: &mut FileWriter, change: impl FnOnce(&mut ChunkHeader)) {
        change(&mut self.header);
        file.put(self.at, &self.header);
    }

    fn close_run(&mut self, file: &mut FileWriter) {
        if self.header.run_count > 0 {
            let kind = Kind::from_code(self.header.run_kind).expect("a kind of ours");
            let run = Record::Run { kind, result: self.header.run_result, count: self.header.run_count };
            self.append(file, run);
            self.header.run_count = 0;
            file.put(self.at, &self.header);
        }
    }

    pub(crate) fn append(&mut self, file: &mut FileWriter, record: Record) {
        let h = &mut self.header;
        if h.used as usize + RECORD_BYTES_MAX > (h.size - CHUNK_HEADER_BYTES) as usize {
            h.sequence += 1;
            h.size = CHUNK_SIZES[(h.sequence as usize).min(3)];
            h.used = 0;
            self.at = file.allocate(h);
        }
        let encoded = encode(h.events - self.stored, record);
        let start = self.at + (CHUNK_HEADER_BYTES + h.used) as usize;
        file.bytes[start..start + encoded.as_bytes().len()].copy_from_slice(encoded.as_bytes());
        file.moment();
        h.used += encoded.as_bytes().len() as u32;
        self.stored = h.events + u64::from(matches!(record, Record::Pair { .. }));
        file.put(self.at, &self.header);
    }
}
