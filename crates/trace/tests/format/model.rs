//! A pure model of parallel programs: threads, objects and processes, run one
//! step at a time in any order that a generator picks.
//!
//! Apart because every property test starts from a program of it.

use crate::writer::{FileWriter, ThreadWriter};
use proptest::prelude::*;
use relive_order::Kind;
use relive_order::kind::Family;
use relive_trace::layout::{NONE, end};
use relive_trace::manifest::{Binary, FileEntry, Manifest, Outcome, State};
use relive_trace::reader::{DataFile, Series, checksum};
use relive_trace::record::{Place, Record, told_gap};
use relive_trace::recording::Recording;
use std::path::Path;

const OBJECTS: usize = 5;

/// What a thread does in one step.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// Events in a row on one object, each of one kind.
    Events {
        object: usize,
        kind: Kind,
        count: u16,
    },
    Note(Record),
    Failures {
        kind: Kind,
        result: i16,
        count: u32,
    },
    /// Creates a thread, in a new process if `fork`.
    Create {
        fork: bool,
    },
    Finish,
}

/// A program in execution.
pub(crate) struct Model {
    objects: [u64; OBJECTS],
    pub(crate) files: Vec<FileWriter>,
    pub(crate) threads: Vec<(usize, ThreadWriter)>,
}

impl Model {
    pub(crate) fn new() -> Self {
        let mut file = FileWriter::new(0, 0);
        let main = ThreadWriter::new(&mut file, 0, (NONE, 0), 0);
        Self { objects: [0; OBJECTS], files: vec![file], threads: vec![(0, main)] }
    }

    /// Runs one step of the thread that `selector` picks.
    pub(crate) fn step(&mut self, selector: usize, op: &Op) {
        let at = selector % self.threads.len();
        let next_index = self.threads.len() as u32;
        let (process, thread) = &mut self.threads[at];
        let file = &mut self.files[*process];
        match *op {
            Op::Events { object, kind, count } => {
                for _ in 0..count {
                    self.objects[object] = thread.event(file, self.objects[object], kind);
                }
            }
            Op::Note(record) => thread.note(file, record),
            Op::Failures { kind, result, count } => thread.failures(file, kind, result, count),
            Op::Finish => thread.finish(file),
            Op::Create { fork } => {
                let kind = if fork { Kind::Fork } else { Kind::Create };
                let time = thread.event(file, 0, kind);
                let parent = (thread.header.thread, thread.children);
                thread.children += 1;
                let process = if fork { self.files.len() } else { *process };
                if fork {
                    self.files.push(FileWriter::new(process as u32, next_index));
                }
                let child = ThreadWriter::new(&mut self.files[process], next_index, parent, time);
                self.threads.push((process, child));
            }
        }
    }

    pub(crate) fn run(steps: &[(usize, Op)]) -> Self {
        let mut model = Self::new();
        for (selector, op) in steps {
            model.step(*selector, op);
        }
        model
    }

    pub(crate) fn bytes(&self) -> Vec<Vec<u8>> {
        self.files.iter().map(FileWriter::bytes).collect()
    }

    /// What the reader makes of it.
    pub(crate) fn recording(&self) -> Recording {
        let parse = |bytes: &Vec<u8>| DataFile::parse(bytes, Path::new("made"), Series::Recorded).expect("a good file");
        let files = self.bytes().iter().map(parse).collect();
        Recording::assemble(manifest(), files, Path::new("made")).expect("a good recording")
    }

    /// Writes it as a complete trace.
    pub(crate) fn store(&mut self, folder: &Path) {
        let mut manifest = manifest();
        for (index, file) in self.files.iter_mut().enumerate() {
            (file.header.end, file.header.exit_code) = (end::EXITED, 3);
            let bytes = file.bytes();
            std::fs::write(folder.join(format!("p{index:05}.trace")), &bytes).expect("a data file");
            let sum = checksum(&bytes[..]).expect("memory can be read");
            manifest.files.push(FileEntry::new(index as u32, bytes.len() as u64, sum));
        }
        (manifest.state, manifest.outcome, manifest.ended_ms) = (State::Complete, Some(Outcome::Exited(3)), Some(9));
        manifest.write(folder).expect("the manifest");
    }
}

pub(crate) fn manifest() -> Manifest {
    let program = Binary { path: "/bin/true".into(), build_id: Some("ab12".into()), bytes: 7, checksum: None };
    let mut manifest = Manifest::new("0.1.0", program, vec!["true".into(), "-x".into()], "/home".into());
    manifest.environment.push(("A".into(), "b c".into()));
    manifest
}

pub(crate) fn kinds() -> impl Strategy<Value = Kind> {
    proptest::sample::select(Kind::ALL)
}

/// A record that may stand between events.
pub(crate) fn notes() -> impl Strategy<Value = Record> {
    prop_oneof![
        any::<i64>().prop_map(Record::Value),
        (any::<u64>(), any::<u32>()).prop_map(|(key, attempt)| Record::Won { key, attempt }),
        (any::<u8>(), any::<u32>()).prop_map(|(number, calls)| Record::Signal { number, calls }),
        any::<u32>().prop_map(|calls| Record::Cancelled { calls }),
        Just(Record::Stream),
        Just(Record::Own),
        (0..20_000u64, any::<bool>())
            .prop_map(|(gap, told)| Record::Behind { gap: if told { told_gap(gap) } else { gap } }),
        (any::<u16>(), any::<i64>(), any::<u32>(), any::<u64>()).prop_map(|(number, result, bytes, offset)| {
            Record::Call { number, result, bytes, place: Place::Inputs(offset) }
        }),
        (1..Family::ALL.len(), 1..=u32::MAX).prop_map(|(i, count)| Record::Tally { family: Family::ALL[i], count }),
    ]
}

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..OBJECTS, kinds(), 1..60u16).prop_map(|(object, kind, count)| Op::Events { object, kind, count }),
        2 => notes().prop_map(Op::Note),
        2 => (kinds(), any::<i16>(), 1..u32::MAX).prop_map(|(kind, result, count)| Op::Failures { kind, result, count }),
        1 => any::<bool>().prop_map(|fork| Op::Create { fork }),
        1 => Just(Op::Finish),
    ]
}

/// Programs of up to `length` steps.
pub(crate) fn programs(length: usize) -> impl Strategy<Value = Vec<(usize, Op)>> {
    proptest::collection::vec((any::<usize>(), ops()), 0..length)
}

/// A program with several threads, two processes and more than one chunk, always the same.
pub(crate) fn sample() -> Model {
    let mut model = Model::new();
    model.step(0, &Op::Create { fork: false });
    model.step(1, &Op::Create { fork: true });
    for round in 0..150 {
        let (selector, object) = (round * 7 + round / 3, round % OBJECTS);
        model.step(selector, &Op::Events { object, kind: Kind::ALL[round % 20], count: 1 + (round % 4) as u16 });
        if round % 11 == 0 {
            model.step(selector, &Op::Note(Record::Value(round as i64 * -3)));
        }
    }
    model.step(1, &Op::Failures { kind: Kind::Lock, result: 16, count: 1000 });
    model.step(2, &Op::Finish);
    model
}
