//! `relive dump`: the records of a trace as stable text or JSON.
//!
//! One record a line, written as it is decoded: a trace can have many more than
//! fit into memory as text.

use crate::output;
use crate::pack;
use crate::stats::end;
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use relive_session::lineage;
use relive_trace::record::{Record, SHOWN, instruction};
use relive_trace::recording::Recording;
use relive_trace::stream::{Entry, ThreadStream};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// `relive dump`
#[derive(Debug, Args)]
#[command(
    after_help = "A line is THREAD EVENT CLOCK RECORD FIELD=VALUE…: the thread's name, its event that the record \
belongs to (counted from 0), its clock there (of a pair: the event's timestamp). Events without a line have a \
timestamp one above the thread's event before. Lines of processes and threads come before their records."
)]
pub(crate) struct DumpArgs {
    /// The trace: a folder, a packed file, or a name in the trace folder [default: the latest]
    trace: Option<PathBuf>,
    /// Only this thread, by name such as 0.1; may be repeated
    #[arg(long, value_name = "NAME")]
    thread: Vec<String>,
    /// Only records of events from this number on
    #[arg(long, value_name = "N")]
    from: Option<u64>,
    /// Only records of events up to this number
    #[arg(long, value_name = "N")]
    to: Option<u64>,
    /// Only records of this kind; may be repeated
    #[arg(long, value_enum, value_name = "RECORD")]
    kind: Vec<RecordKind>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The kinds of record, as `dump` names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum RecordKind {
    /// An event whose clock jumped: it met another thread's
    Pair,
    /// A check hash
    Hash,
    /// A result that the order does not determine
    Value,
    /// Failed attempts
    Run,
    /// The thread ran a once routine or static initialiser
    Won,
    /// A signal handler ran
    Signal,
    /// The thread was cancelled
    Cancelled,
    /// A wait of the derived order
    Wait,
    /// The event before began an operation on a stream
    Stream,
    /// A lock follows an old event of another thread
    Behind,
    /// Locks follow the thread's own events
    Own,
    /// How many events were on objects of one kind
    Tally,
    /// A system call
    Call,
}

impl RecordKind {
    fn of(record: &Record) -> Self {
        match record {
            Record::Pair { .. } => Self::Pair,
            Record::Hash(_) => Self::Hash,
            Record::Value(_) => Self::Value,
            Record::Run { .. } => Self::Run,
            Record::Won { .. } => Self::Won,
            Record::Signal { .. } => Self::Signal,
            Record::Cancelled { .. } => Self::Cancelled,
            Record::Wait { .. } => Self::Wait,
            Record::Stream => Self::Stream,
            Record::Behind { .. } => Self::Behind,
            Record::Own => Self::Own,
            Record::Tally { .. } => Self::Tally,
            Record::Call { .. } => Self::Call,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Pair => "pair",
            Self::Hash => "hash",
            Self::Value => "value",
            Self::Run => "run",
            Self::Won => "won",
            Self::Signal => "signal",
            Self::Cancelled => "cancelled",
            Self::Wait => "wait",
            Self::Stream => "stream",
            Self::Behind => "behind",
            Self::Own => "own",
            Self::Tally => "tally",
            Self::Call => "call",
        }
    }
}

/// Names and values in the order in which text shows them.
type Fields = Vec<(&'static str, Value)>;

struct Filter {
    threads: Option<BTreeSet<u32>>,
    events: std::ops::RangeInclusive<u64>,
    kinds: Vec<RecordKind>,
}

impl Filter {
    fn wants(&self, entry: &Entry) -> bool {
        let kind = RecordKind::of(&entry.record);
        self.events.contains(&entry.event) && (self.kinds.is_empty() || self.kinds.contains(&kind))
    }

    fn threads<'a>(&self, recording: &'a Recording) -> impl Iterator<Item = &'a ThreadStream> {
        recording.threads().filter(|thread| self.threads.as_ref().is_none_or(|wanted| wanted.contains(&thread.index)))
    }
}

/// Reads, filters and prints.
pub(crate) fn run(options: &DumpArgs) -> Result<u8> {
    let folder = pack::find(options.trace.as_deref())?;
    let recording = Recording::open(&folder)?;
    let filter = Filter {
        threads: if options.thread.is_empty() { None } else { Some(named(&recording, &options.thread)?) },
        events: options.from.unwrap_or(0)..=options.to.unwrap_or(u64::MAX),
        kinds: options.kind.clone(),
    };
    if options.json {
        let trace = folder.to_string_lossy().into_owned();
        output::print(|out| print_json(out, &trace, (&recording, &folder), &filter))?;
    } else {
        output::print(|out| print_text(out, (&recording, &folder), &filter))?;
    }
    Ok(0)
}

fn named(recording: &Recording, names: &[String]) -> Result<BTreeSet<u32>> {
    let mut found = BTreeSet::new();
    for name in names {
        match recording.threads().find(|thread| recording.name(thread.index) == *name) {
            Some(thread) => found.insert(thread.index),
            None => bail!("dump thread {name}: no such thread; `relive stats --all` lists them"),
        };
    }
    Ok(found)
}

fn print_text(out: &mut dyn Write, (recording, folder): (&Recording, &Path), filter: &Filter) -> io::Result<()> {
    for (process, member) in recording.processes().zip(lineage::members(recording, folder)) {
        let (index, pid) = (process.index, process.pid);
        let (origin, threads, end) = (member.origin.to_string(), process.threads.len(), end(process.end));
        write!(out, "process {index} pid={pid} from={origin:?} threads={threads} end={end:?}")?;
        match member.program {
            Some(program) => writeln!(out, " program={:?}", program.to_string_lossy())?,
            None => writeln!(out)?,
        }
    }
    for thread in filter.threads(recording) {
        let name = recording.name(thread.index);
        writeln!(out, "{name} thread{}", text(&thread_fields(recording, thread)))?;
        for entry in thread.entries().filter(|entry| filter.wants(entry)) {
            let kind = RecordKind::of(&entry.record).name();
            writeln!(out, "{name} {} {} {kind}{}", entry.event, time(&entry), text(&record_fields(&entry.record)))?;
        }
    }
    Ok(())
}

fn print_json(
    out: &mut dyn Write,
    trace: &str,
    (recording, folder): (&Recording, &Path),
    filter: &Filter,
) -> io::Result<()> {
    let processes = recording.processes().zip(lineage::members(recording, folder)).map(|(process, member)| {
        json!({
            "index": process.index,
            "pid": process.pid,
            "parent": member.origin.parent(),
            "origin": member.origin.to_string(),
            "program": member.program.map(|path| path.to_string_lossy().into_owned()),
            "threads": process.threads,
            "end": end(process.end),
        })
    });
    let processes: Vec<Value> = processes.collect();
    let threads: Vec<Value> = filter
        .threads(recording)
        .map(|thread| {
            let mut fields = vec![("name", recording.name(thread.index).into())];
            fields.extend(thread_fields(recording, thread));
            object(fields)
        })
        .collect();
    write!(out, "{{\"trace\":{},\"processes\":{},", json!(trace), json!(processes))?;
    write!(out, "\"threads\":{},\"records\":[", json!(threads))?;
    let mut separator = "\n";
    for thread in filter.threads(recording) {
        let name = recording.name(thread.index);
        for entry in thread.entries().filter(|entry| filter.wants(entry)) {
            let mut fields = vec![
                ("thread", name.as_str().into()),
                ("event", entry.event.into()),
                ("clock", time(&entry).into()),
                ("record", RecordKind::of(&entry.record).name().into()),
            ];
            fields.extend(record_fields(&entry.record));
            write!(out, "{separator}{}", object(fields))?;
            separator = ",\n";
        }
    }
    writeln!(out, "\n]}}")
}

/// A pair is an event itself: its timestamp. Other records stand before an event: the clock there.
fn time(entry: &Entry) -> u64 {
    match entry.record {
        Record::Pair { extra } => entry.clock.saturating_add(extra).saturating_add(1),
        _ => entry.clock,
    }
}

fn thread_fields(recording: &Recording, thread: &ThreadStream) -> Fields {
    vec![
        ("index", thread.index.into()),
        ("process", recording.process_of(thread.index).map(|process| process.index).into()),
        ("events", thread.events.into()),
        ("start_clock", thread.start_clock.into()),
        ("end_clock", thread.clock.into()),
        ("finished", thread.finished.into()),
    ]
}

fn record_fields(record: &Record) -> Fields {
    match *record {
        Record::Pair { extra } => vec![("extra", extra.into())],
        Record::Hash(hash) => vec![("hash", format!("{hash:08x}").into())],
        Record::Value(value) => vec![("value", value.into())],
        Record::Run { kind, result, count } => {
            vec![("kind", kind.name().into()), ("result", result.into()), ("count", count.into())]
        }
        Record::Won { key, attempt } => vec![("key", format!("{key:#x}").into()), ("attempt", attempt.into())],
        Record::Signal { number, calls } => vec![("number", number.into()), ("calls", calls.into())],
        Record::Cancelled { calls } => vec![("calls", calls.into())],
        Record::Wait { thread, events } => vec![("for_thread", thread.into()), ("for_events", events.into())],
        Record::Stream | Record::Own => Vec::new(),
        Record::Behind { gap } => vec![("gap", gap.into())],
        Record::Tally { family, count } => vec![("family", family.name().into()), ("count", count.into())],
        Record::Call { number, result, bytes, .. } => {
            let known = relive_calls::find(number.into())
                .map(|call| call.name)
                .or_else(|| instruction::name(number))
                .or_else(|| (number == SHOWN).then_some("shown"));
            let name = known.map_or_else(|| number.to_string(), str::to_owned);
            vec![("name", name.into()), ("result", result.into()), ("bytes", bytes.into())]
        }
    }
}

fn object(fields: Fields) -> Value {
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// ` name=value` of each; strings bare, since none has blanks.
fn text(fields: &Fields) -> String {
    let mut text = String::new();
    for (name, value) in fields {
        let _ = match value {
            Value::String(value) => write!(text, " {name}={value}"),
            other => write!(text, " {name}={other}"),
        };
    }
    text
}
