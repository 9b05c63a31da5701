//! A process with the tool in it, and what it found as sets of bytes.
//!
//! Apart because every test of this binary begins here.

use crate::process::{Code, Distance, Here, attach, engine_in, memory};
use relive_accesses::{
    Accesses, Bits, Followed, Kind, Later, LockedBytes, Remembered, Returned, Segment, Sink, Tables, WatchedAccess,
};
use relive_dbi::{Context, Engine, Thread};
use relive_race::Line;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// What happened to bytes: addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bytes {
    /// And not written.
    pub(crate) read: BTreeSet<u64>,
    pub(crate) written: BTreeSet<u64>,
    pub(crate) locked: BTreeSet<u64>,
}

impl Bytes {
    pub(crate) fn add_line(&mut self, line: Line) {
        assert_eq!(line.read & line.written, 0, "{line:x?}");
        for bit in 0..64 {
            let byte = line.number * 64 + bit;
            if line.read >> bit & 1 != 0 {
                self.read.insert(byte);
            }
            if line.written >> bit & 1 != 0 {
                self.written.insert(byte);
            }
        }
    }

    /// What several lines or accesses said, as one says it: what was written was not just read.
    pub(crate) fn settled(mut self) -> Self {
        self.read = self.read.difference(&self.written).copied().collect();
        self
    }

    pub(crate) fn add_locked(&mut self, found: LockedBytes) {
        self.locked.extend(found.address..found.address + u64::from(found.bytes));
    }

    /// Only those that `wanted` wants.
    pub(crate) fn only(mut self, wanted: impl Fn(u64) -> bool) -> Self {
        for set in [&mut self.read, &mut self.written, &mut self.locked] {
            set.retain(|byte| wanted(*byte));
        }
        self
    }

    /// What differs, as ranges: for people.
    pub(crate) fn difference(&self, other: &Self) -> String {
        let mut text = String::new();
        for (name, ours, theirs) in [
            ("read", &self.read, &other.read),
            ("written", &self.written, &other.written),
            ("locked", &self.locked, &other.locked),
        ] {
            let (more, less): (Vec<_>, Vec<_>) = (ours.difference(theirs).collect(), theirs.difference(ours).collect());
            if !more.is_empty() || !less.is_empty() {
                let _ = write!(text, "{name}: {more:x?} too much, {less:x?} missing; ");
            }
        }
        text
    }
}

/// Keeps all that it is told.
#[derive(Default)]
pub(crate) struct Keep {
    pub(crate) early: Mutex<(usize, Vec<Line>, Vec<LockedBytes>)>,
    pub(crate) watched: Mutex<Vec<(Context, WatchedAccess)>>,
    /// Accesses to the first so many bytes of watched lines may pass once they were told.
    pub(crate) passing: u64,
    /// Code whose accesses are not looked at.
    pub(crate) unseen: std::ops::Range<u64>,
    /// Whether there is one thread.
    pub(crate) alone: AtomicBool,
    /// A library, its functions that are followed, and what was told of their calls.
    pub(crate) library: std::ops::Range<u64>,
    pub(crate) functions: Vec<(u64, Followed)>,
    pub(crate) returned: Mutex<Vec<Returned>>,
    pub(crate) left: AtomicUsize,
}

impl Sink for Keep {
    fn observes(&self, ip: u64) -> bool {
        !self.unseen.contains(&ip)
    }

    fn remembered(&self) -> Option<Remembered> {
        // Nothing is there: it is no more than a hint.
        Some(Remembered { start: 1 << 40, bytes: 1 << 20 })
    }

    fn is_alone(&self) -> bool {
        self.alone.load(Ordering::Relaxed)
    }

    fn followed(&self, ip: u64) -> Option<Followed> {
        self.functions.iter().find(|function| function.0 == ip).map(|function| function.1)
    }

    fn may_return(&self, ip: u64) -> bool {
        self.library.contains(&ip)
    }

    fn library(&self) -> std::ops::Range<u64> {
        self.library.clone()
    }

    /// As many bytes as the second argument says are written from the first one on, and one is read.
    fn returned(&self, call: &Returned, touch: &mut dyn FnMut(std::ops::Range<u64>, Kind)) {
        self.returned.lock().unwrap().push(*call);
        let [start, bytes, ..] = call.arguments;
        if call.number == 1 && start > 4096 {
            touch(start..start + bytes, Kind::Write);
            touch(start + bytes..start + bytes + 1, Kind::Read);
        }
    }

    fn left(&self, _number: u32) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }

    fn full(&self, segment: &mut Segment<'_, '_, '_, Self>) {
        let mut early = self.early.lock().unwrap();
        early.0 += 1;
        segment.take(|line| early.1.push(line));
        segment.take_locked(|found| early.2.push(found));
    }

    fn watched(&self, context: &Context, access: &WatchedAccess) -> Later {
        self.watched.lock().unwrap().push((*context, *access));
        if access.address & 63 < self.passing { Later::Pass } else { Later::Told }
    }
}

pub(crate) type Tool = Accesses<'static, Keep>;

/// An engine with the tool, and a thread.
pub(crate) struct Observed {
    pub(crate) engine: &'static Engine<Here, Tool>,
    pub(crate) thread: Thread<'static, Here, Tool>,
}

/// An engine with the tool.
pub(crate) fn engine(distance: Distance, bits: Option<Bits>, sink: Keep) -> &'static Engine<Here, Tool> {
    let tool = tool(sink);
    let tool = match bits {
        Some(bits) => tool.with(bits),
        None => tool,
    };
    engine_of(distance, tool)
}

/// The tool with tables of its own.
pub(crate) fn tool(sink: Keep) -> Tool {
    let watched: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
    Accesses::new(Box::leak(Box::new(Tables::new())), watched.leak(), sink)
}

/// An engine with this tool.
pub(crate) fn engine_of(distance: Distance, tool: Tool) -> &'static Engine<Here, Tool> {
    engine_in(memory(4 << 20, distance), Here::default(), tool)
}

/// One for each way of moving bits that this processor can do, near the code and far from it.
pub(crate) fn engines() -> Vec<&'static Engine<Here, Tool>> {
    assert!(std::arch::is_x86_feature_detected!("bmi2"), "the tests need a processor with BMI2");
    let near = [Bits::Extract, Bits::Shift, Bits::Plain];
    let mut all: Vec<_> = near.map(|bits| engine(Distance::Near, Some(bits), Keep::default())).into();
    all.push(engine(Distance::Far, None, Keep::default()));
    all
}

impl Observed {
    /// A thread has one engine at a time.
    pub(crate) fn new(engine: &'static Engine<Here, Tool>) -> Self {
        Self { engine, thread: attach(engine) }
    }

    pub(crate) fn call(&mut self, code: Code, arguments: [u64; 6]) -> u64 {
        let result = crate::process::call(&mut self.thread, code, arguments);
        assert_eq!(*self.engine.host().lost.lock().unwrap(), [], "something was not translated");
        result
    }

    /// What was touched, by the lines that were taken, each of which comes once.
    pub(crate) fn take(&mut self) -> Bytes {
        let mut bytes = Bytes::default();
        let mut lines = BTreeMap::new();
        let mut memory = self.thread.tool_memory();
        let mut segment = self.engine.tool().segment(&mut memory);
        segment.take(|line| {
            assert!(lines.insert(line.number, line).is_none(), "{line:x?} once more");
        });
        segment.take_locked(|found| bytes.add_locked(found));
        assert!(segment.is_empty());
        for line in lines.into_values() {
            bytes.add_line(line);
        }
        bytes
    }

    /// The thread's segment.
    pub(crate) fn segment<R>(&mut self, look: impl FnOnce(&mut Segment<'_, '_, '_, Keep>) -> R) -> R {
        let mut memory = self.thread.tool_memory();
        look(&mut self.engine.tool().segment(&mut memory))
    }

    /// What a call touches of `memory`.
    pub(crate) fn touched(&mut self, code: Code, arguments: [u64; 6], memory: &std::ops::Range<u64>) -> Bytes {
        self.take();
        self.call(code, arguments);
        self.take().only(|byte| memory.contains(&byte))
    }
}
