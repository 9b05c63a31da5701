//! `relive stats`: how much was recorded, by thread and process, and how much they met.

use crate::ls::status;
use crate::output::{self, Align};
use crate::pack;
use anyhow::Result;
use clap::Args;
use relive_order::kind::Family;
use relive_session::lineage;
use relive_trace::layout::CHUNK_HEADER_BYTES;
use relive_trace::manifest::Text;
use relive_trace::record::Record;
use relive_trace::recording::{End, Recording};
use relive_trace::stream::ThreadStream;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Threads shown unless all are asked for.
const THREADS_SHOWN: usize = 32;

/// `relive stats`
#[derive(Debug, Args)]
#[command(after_help = "Contention is the share of a thread's operations at which its clock jumped: it had met an \
object that another thread used in between. Bytes are those of records and chunk headers. The number of a process is \
what `relive replay --process` takes.")]
pub(crate) struct StatsArgs {
    /// The trace: a folder, a packed file, or a name in the trace folder [default: the latest]
    trace: Option<PathBuf>,
    /// List every thread, not only those with the most operations
    #[arg(long)]
    all: bool,
    /// Print one JSON object; it always has every thread
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Stats {
    trace: String,
    command: String,
    status: String,
    operations: u64,
    bytes: u64,
    bytes_per_operation: f64,
    contention: f64,
    /// Bytes of all files in the folder.
    disk_bytes: u64,
    threads: Vec<ThreadStats>,
    processes: Vec<ProcessStats>,
    /// Operations by kind of object, of the threads that came to their end.
    objects: BTreeMap<&'static str, u64>,
    /// Operations of threads that did not, or after their end: nothing tells on what objects they were.
    objects_unknown: u64,
    /// Failed attempts (trylock, timed waits) by kind of operation.
    failures: BTreeMap<&'static str, u64>,
    /// Timestamp after which nothing is part of the recording, if a process had to stop recording.
    cut: Option<u64>,
}

#[derive(Default, Serialize)]
struct ThreadStats {
    name: String,
    index: u32,
    process: u32,
    events: u64,
    bytes: u64,
    jumps: u64,
    contention: f64,
    results: u64,
    failures: u64,
    runs: u64,
    once: u64,
    signals: u64,
    finished: bool,
}

#[derive(Serialize)]
struct ProcessStats {
    index: u32,
    pid: u32,
    /// The process image that made it, and how: `start`, `fork of N`, `spawn of N`, `child of N`, `exec of N`.
    parent: Option<u32>,
    origin: String,
    program: Option<String>,
    threads: usize,
    operations: u64,
    bytes: u64,
    end: String,
}

/// Counts and prints.
pub(crate) fn run(options: &StatsArgs) -> Result<u8> {
    let folder = pack::find(options.trace.as_deref())?;
    let recording = Recording::open(&folder)?;
    let stats = gather(&folder, &recording);
    if options.json {
        output::json(&stats)?;
    } else {
        let shown = if options.all { usize::MAX } else { THREADS_SHOWN };
        output::print(|out| print(out, &stats, shown))?;
    }
    Ok(0)
}

fn gather(folder: &Path, recording: &Recording) -> Stats {
    let mut failures = BTreeMap::new();
    let mut objects = BTreeMap::new();
    let mut counted = 0;
    let mut threads = Vec::new();
    for process in recording.processes() {
        for stream in process.threads.iter().filter_map(|&index| recording.thread(index)) {
            threads.push(thread(recording.name(stream.index), process.index, stream, &mut failures));
            counted += tally(stream, &mut objects);
        }
    }
    threads.sort_by_key(|thread| thread.index);
    let operations: u64 = threads.iter().map(|thread| thread.events).sum();
    let bytes = threads.iter().map(|thread| thread.bytes).sum();
    let jumps: u64 = threads.iter().map(|thread| thread.jumps).sum();
    let processes = recording.processes().zip(lineage::members(recording, folder)).map(|(process, member)| {
        let own = || threads.iter().filter(|thread| thread.process == process.index);
        ProcessStats {
            index: process.index,
            pid: process.pid,
            parent: member.origin.parent(),
            origin: member.origin.to_string(),
            program: member.program.map(|path| path.to_string_lossy().into_owned()),
            threads: process.threads.len(),
            operations: own().map(|thread| thread.events).sum(),
            bytes: own().map(|thread| thread.bytes).sum(),
            end: end(process.end),
        }
    });
    Stats {
        trace: folder.to_string_lossy().into_owned(),
        command: output::command(recording.manifest.command.iter().map(Text::as_os_str)),
        status: status(&recording.manifest),
        operations,
        bytes,
        bytes_per_operation: share(bytes, operations),
        contention: share(jumps, operations),
        disk_bytes: disk_bytes(folder),
        processes: processes.collect(),
        threads,
        objects,
        objects_unknown: operations - counted,
        failures,
        cut: recording.cut(),
    }
}

fn thread(
    name: String,
    process: u32,
    stream: &ThreadStream,
    failures: &mut BTreeMap<&'static str, u64>,
) -> ThreadStats {
    let bytes = stream.stream.len() as u64 + u64::from(stream.chunks) * u64::from(CHUNK_HEADER_BYTES);
    let (index, events, finished) = (stream.index, stream.events, stream.finished);
    let mut stats = ThreadStats { name, index, process, events, bytes, finished, ..ThreadStats::default() };
    for entry in stream.entries() {
        match entry.record {
            Record::Pair { .. } => stats.jumps += 1,
            Record::Value(_) => stats.results += 1,
            Record::Run { kind, count, .. } => {
                stats.runs += 1;
                stats.failures += u64::from(count);
                *failures.entry(kind.name()).or_default() += u64::from(count);
            }
            Record::Won { .. } => stats.once += 1,
            Record::Signal { .. } | Record::Cancelled { .. } => stats.signals += 1,
            Record::Hash(_)
            | Record::Wait { .. }
            | Record::Stream
            | Record::Behind { .. }
            | Record::Own
            | Record::Tally { .. }
            | Record::Call { .. } => {}
        }
    }
    stats.contention = share(stats.jumps, events);
    stats
}

/// Adds a thread's operations by kind of object. Returns how many it could tell: those up to the last tally.
fn tally(stream: &ThreadStream, objects: &mut BTreeMap<&'static str, u64>) -> u64 {
    let (mut up_to, mut others) = (0, 0);
    for entry in stream.entries() {
        if let Record::Tally { family, count } = entry.record {
            *objects.entry(family.name()).or_default() += u64::from(count);
            others += u64::from(count);
            up_to = entry.event;
        }
    }
    // A thread that only ever used mutexes leaves no tally.
    if others == 0 && stream.finished {
        up_to = stream.events;
    }
    let mutexes = up_to.saturating_sub(others);
    if mutexes > 0 {
        *objects.entry(Family::Mutex.name()).or_default() += mutexes;
    }
    up_to
}

#[expect(clippy::cast_precision_loss, reason = "a share is shown with three digits")]
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn disk_bytes(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// How the recording of a process ended, in a few words.
pub(crate) fn end(end: End) -> String {
    use relive_trace::layout::stop;
    match end {
        End::Live => "live".to_owned(),
        End::Exited { code, .. } => format!("exited {code}"),
        End::Executed { .. } => "executed".to_owned(),
        End::Stopped { reason, .. } => match reason {
            stop::NO_SPACE => "stopped: no space".to_owned(),
            stop::NO_LAUNCHER => "stopped: no launcher".to_owned(),
            stop::CLOSED => "stopped: recording closed".to_owned(),
            stop::REFUSED => "stopped: refused".to_owned(),
            stop::LIMIT => "stopped: limit".to_owned(),
            other => format!("stopped: reason {other}"),
        },
    }
}

fn print(out: &mut dyn Write, stats: &Stats, shown: usize) -> io::Result<()> {
    writeln!(out, "trace       {}", stats.trace)?;
    writeln!(out, "command     {}", stats.command)?;
    writeln!(out, "status      {}", stats.status)?;
    writeln!(out, "operations  {}", stats.operations)?;
    writeln!(out, "bytes       {} ({:.3} an operation)", stats.bytes, stats.bytes_per_operation)?;
    writeln!(out, "on disk     {}", output::bytes(stats.disk_bytes))?;
    writeln!(out, "contention  {:.1} %", stats.contention * 100.0)?;
    for (object, count) in &stats.objects {
        writeln!(out, "on          {} of {object}", output::counted(*count, "operation"))?;
    }
    if stats.objects_unknown > 0 {
        writeln!(
            out,
            "on          {} of threads that did not end",
            output::counted(stats.objects_unknown, "operation")
        )?;
    }
    for (kind, count) in &stats.failures {
        writeln!(out, "failed      {} of {kind}", output::counted(*count, "attempt"))?;
    }
    if let Some(cut) = stats.cut {
        writeln!(out, "cut         at clock {cut}")?;
    }
    writeln!(out)?;
    print_threads(out, &stats.threads, shown)?;
    if stats.processes.len() > 1 {
        writeln!(out)?;
    }
    print_processes(out, &stats.processes)
}

fn print_threads(out: &mut dyn Write, threads: &[ThreadStats], shown: usize) -> io::Result<()> {
    let mut listed: Vec<_> = threads.iter().collect();
    if listed.len() > shown {
        listed.sort_by_key(|thread| (std::cmp::Reverse(thread.events), thread.index));
        listed.truncate(shown);
    }
    let rows: Vec<_> = listed
        .iter()
        .map(|thread| {
            [
                thread.name.clone(),
                thread.process.to_string(),
                thread.events.to_string(),
                thread.bytes.to_string(),
                format!("{:.1} %", thread.contention * 100.0),
                thread.results.to_string(),
                thread.failures.to_string(),
            ]
        })
        .collect();
    let right = |name| (name, Align::Right);
    let head = [
        ("THREAD", Align::Left),
        right("PROCESS"),
        right("OPERATIONS"),
        right("BYTES"),
        right("CONTENTION"),
        right("RESULTS"),
        right("FAILED"),
    ];
    output::columns(out, head, &rows)?;
    if threads.len() > listed.len() {
        writeln!(out, "and {} more; --all lists them", threads.len() - listed.len())?;
    }
    Ok(())
}

fn print_processes(out: &mut dyn Write, processes: &[ProcessStats]) -> io::Result<()> {
    // One process says nothing that the lines above don't.
    if processes.len() < 2 {
        return Ok(());
    }
    let rows: Vec<_> = processes
        .iter()
        .map(|process| {
            [
                process.index.to_string(),
                process.pid.to_string(),
                process.origin.clone(),
                process.threads.to_string(),
                process.operations.to_string(),
                process.bytes.to_string(),
                process.end.clone(),
                process.program.clone().unwrap_or_default(),
            ]
        })
        .collect();
    let right = |name| (name, Align::Right);
    let head = [
        right("PROCESS"),
        right("PID"),
        ("FROM", Align::Left),
        right("THREADS"),
        right("OPERATIONS"),
        right("BYTES"),
        ("END", Align::Left),
        ("PROGRAM", Align::Left),
    ];
    output::columns(out, head, &rows)
}
