//! The translator with the tool that notes accesses.
//!
//! Apart from the plain one: here is what the detector asks of it.

mod calls;
mod observed;

use super::{Process, engine, map};
use crate::races::{self, Content, Touch, Touched};
use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use relive_accesses::{
    Accesses, COUNTED, Followed, Kind, Later, Remembered, Returned, Segment, Sink, Tables, WatchedAccess, elsewhere,
};
use relive_dbi::{Context, Elsewhere, Engine, Error};
use relive_race::{Line, Open, pieces};
use relive_sys::atomics::original;
use relive_sys::maps;
use relive_sys::signal::is_own_code;
use relive_sys::start::PIECES;
use relive_trace::races::word::not_translated;

type Noting = Engine<Process, Accesses<'static, Watcher>>;

static ENGINE: AtomicPtr<Noting> = AtomicPtr::new(core::ptr::null_mut());
static TABLES: Tables = Tables::new();

/// Lines that are handed over at a time.
const BATCH: usize = 32;

/// Who is told of accesses: of those to watched bytes, of each line with its bytes, in order.
pub(crate) struct Watcher(&'static [(u64, u64)]);

impl Watcher {
    fn watches(&self, range: &Range<u64>) -> bool {
        pieces(range.clone()).any(|(line, bytes)| {
            let found = self.0.binary_search_by_key(&line, |&(line, _)| line);
            found.is_ok_and(|at| self.0[at].1 & bytes != 0)
        })
    }
}

impl Sink for Watcher {
    fn observes(&self, ip: u64) -> bool {
        !is_own_code(ip as usize) && observed::is_observed(ip)
    }

    fn observes_reads(&self, ip: u64) -> bool {
        observed::is_read(ip)
    }

    fn is_alone(&self) -> bool {
        races::is_alone()
    }

    fn remembered(&self) -> Option<Remembered> {
        races::remembered()
    }

    fn followed(&self, ip: u64) -> Option<Followed> {
        calls::followed(ip)
    }

    fn may_return(&self, ip: u64) -> bool {
        calls::library().contains(&ip)
    }

    fn library(&self) -> Range<u64> {
        calls::library()
    }

    fn returned(&self, call: &Returned, touch: &mut dyn FnMut(Range<u64>, Kind)) {
        calls::returned(call, touch);
    }

    fn left(&self, _number: u32) {
        calls::left();
    }

    fn full(&self, segment: &mut Segment<'_, '_, '_, Self>) {
        races::full(segment);
    }

    fn is_worn(&self, ip: u64, range: &Range<u64>) -> bool {
        // The rest of a watched line may be busy.
        !self.watches(range) || races::is_worn(ip, range)
    }

    fn watched(&self, context: &Context, access: &WatchedAccess) -> Later {
        let touch = match access.kind {
            Kind::Read => Touch::Read,
            Kind::Write => Touch::Write,
            Kind::Locked => Touch::Locked,
        };
        // A jump may have taken its bytes.
        let ip = original(context.ip as usize).map_or(context.ip, |place| place as u64);
        let range = access.address..access.address + access.bytes;
        if self.is_worn(ip, &range) {
            return Later::Pass;
        }
        let content = match touch {
            Touch::Read => Content::Memory,
            _ => Content::Stored(range.start, access.stored),
        };
        if races::access(&races::Access { touch, range, general: context.general, ip, content }) {
            Later::Told
        } else {
            Later::Pass
        }
    }
}

/// The process runs translated from here on, and its accesses are noted.
///
/// # Safety
/// As for [`super::begin`].
pub(super) unsafe fn begin(dispatched: bool) -> Result<(), Error> {
    let lines: &'static [_] = races::watched_lines().leak();
    let places = (lines.len() * 2).next_power_of_two().max(64);
    let memory = map(places * size_of::<AtomicU64>()).ok_or(Error::Memory)?;
    // SAFETY: the new mapping, whose words are zero; it stays.
    let watched: &'static [AtomicU64] = unsafe { NonNull::slice_from_raw_parts(memory.cast(), places).as_ref() };
    let tool = Accesses::new(&TABLES, watched, Watcher(lines));
    // Where accesses are told one by one, each stands for its own instruction.
    let tool = if lines.is_empty() { tool } else { tool.exactly().counting(races::counted()) };
    for &(line, _) in lines {
        let watched = tool.watch(line);
        assert!(watched.is_ok(), "there are twice as many places as lines");
    }
    observed::look_up();
    calls::look_up();
    maps::each(|range| {
        // The program has nothing there, and the heap begins at the same place of the shadow.
        if !PIECES.contains(&range.start) {
            TABLES.cover(&(range.start as u64..range.end as u64));
        }
    });
    let engine = engine(tool)?;
    ENGINE.store(core::ptr::from_ref(engine).cast_mut(), Ordering::Release);
    // SAFETY: the caller's promise.
    unsafe { engine.begin(dispatched) }
}

fn noting() -> &'static Noting {
    // SAFETY: null, or the engine, which stays.
    unsafe { ENGINE.load(Ordering::Acquire).as_ref() }.expect("accesses are noted")
}

/// How the program is seen: whether its accesses matter. It begins alone.
const ALONE: u8 = 0;
const LOOKED_AT: u8 = 1;

/// Whether accesses matter is another thing from here on. Natively, in the only thread.
pub(crate) fn look_anew() {
    let (engine, alone) = (noting(), races::is_alone());
    if !alone {
        // SAFETY: as in `take_accesses`.
        engine.tool().segment(&mut unsafe { engine.tool_memory() }).forget_call();
    }
    // Of our own code nothing is looked at either way.
    engine.turn(if alone { ALONE } else { LOOKED_AT }, |start| !is_own_code(start as usize));
}

/// Has what the calling thread touched in its segment looked at. Natively.
pub(crate) fn touched<R>(act: impl FnOnce(&mut Segment<'_, '_, '_, Watcher>) -> R) -> R {
    let engine = noting();
    // SAFETY: the calling thread is attached, and outside of the cache.
    let mut memory = unsafe { engine.tool_memory() };
    act(&mut engine.tool().segment(&mut memory))
}

/// Whether reads of a line may be kept: nothing else shares its bits.
pub(crate) fn may_keep(line: u64) -> bool {
    TABLES.may_keep(line)
}

/// How many lines the calling thread touched since these were last taken. Natively.
pub(crate) fn touched_lines() -> u64 {
    let engine = noting();
    // SAFETY: as in `take_accesses`.
    engine.tool().segment(&mut unsafe { engine.tool_memory() }).lines()
}

/// Where others find what the calling thread touches. Natively.
pub(crate) fn memory_for_others() -> Elsewhere {
    // SAFETY: the calling thread is attached, and the process translated as a whole.
    unsafe { noting().tool_memory_for_others() }
}

/// How many lines a thread has touched since they were last taken.
pub(crate) fn lines_of(memory: &Elsewhere) -> u64 {
    elsewhere::lines(memory)
}

/// What another thread touched since that was last taken, which must not happen meanwhile, and of lines that are `kept`
/// only what is new.
pub(crate) fn look(memory: &Elsewhere, kept: &[Open], lines: impl FnMut(&[Line]), mut locked: impl FnMut(Range<u64>)) {
    let mut batch = Batch::to(lines);
    let is_kept = |number| kept.iter().any(|open| open.line == number);
    elsewhere::look(memory, |line| {
        if !is_kept(line.number) {
            batch.push(line);
        }
    });
    elsewhere::recall(memory, kept.iter().map(|open| (open.line, open.bytes)), |line| batch.push(line));
    batch.give();
    elsewhere::look_at_locked(memory, |bytes| locked(bytes.address..bytes.address + u64::from(bytes.bytes)));
}

/// Has another thread note anew what it touches: nobody knows then what it touched before.
pub(crate) fn forget(memory: &Elsewhere) {
    elsewhere::forget(memory);
}

impl Touched for Segment<'_, '_, '_, Watcher> {
    fn count(&self) -> u64 {
        self.lines()
    }

    fn take_all(&mut self, lines: impl FnMut(&[Line]), mut locked: impl FnMut(Range<u64>)) {
        let mut batch = Batch::to(lines);
        self.take(|line| batch.push(line));
        batch.give();
        self.take_locked(|bytes| locked(bytes.address..bytes.address + u64::from(bytes.bytes)));
    }

    fn news(&mut self, kept: &[Open], each: impl FnMut(Line)) {
        self.recall(kept.iter().map(|open| (open.line, open.bytes)), each);
    }

    fn keep_open(&mut self, open: Open) {
        self.keep(open.line, open.bytes);
    }

    fn let_line_go(&mut self, line: u64) {
        self.let_go(line);
    }

    fn changes(&self) -> u64 {
        TABLES.changes()
    }
}

/// Lines that are handed over together.
struct Batch<F> {
    /// Not made zero: most segments have a few lines.
    lines: [MaybeUninit<Line>; BATCH],
    /// The first so many are there.
    count: usize,
    to: F,
}

impl<F: FnMut(&[Line])> Batch<F> {
    fn to(to: F) -> Self {
        Self { lines: [const { MaybeUninit::uninit() }; BATCH], count: 0, to }
    }

    #[inline]
    fn push(&mut self, line: Line) {
        self.lines[self.count].write(line);
        self.count += 1;
        if self.count == BATCH {
            self.give();
        }
    }

    fn give(&mut self) {
        if self.count == 0 {
            return;
        }
        let lines = &self.lines[..self.count];
        // SAFETY: `push` wrote each of the first `count`, and only it raises `count`, behind that.
        (self.to)(unsafe { &*(core::ptr::from_ref(lines) as *const [Line]) });
        self.count = 0;
    }
}

/// The general registers with which the calling thread left the cache, and where. Natively.
pub(crate) fn registers() -> ([u64; 16], u64) {
    // SAFETY: as in `take_accesses`.
    let context = unsafe { noting().context() };
    (context.general, context.ip)
}

/// How often the calling thread came to each of the instructions that are counted. Natively.
pub(crate) fn passes() -> [u64; COUNTED] {
    let engine = noting();
    // SAFETY: as in `take_accesses`.
    engine.tool().passes(&unsafe { engine.tool_memory() })
}

/// Instructions whose bytes nobody can tell, by iced's numbers, and how often they ran.
pub(crate) fn unknown(mut visit: impl FnMut(u64, u64)) {
    noting().tool().unobserved().for_each(|(mnemonic, count)| visit(mnemonic as u64, count));
}

/// Calls of libc's functions of which is not known all that they did, by reason as the launcher knows it.
pub(crate) fn not_told(mut visit: impl FnMut(u64, u64)) {
    let (unclear, left, untold) = calls::not_told();
    let reasons = [(not_translated::UNCLEAR, unclear), (not_translated::LEFT, left)];
    let all = reasons.into_iter().chain((not_translated::FUNCTIONS..).zip(untold));
    all.filter(|&(_, count)| count > 0).for_each(|(reason, count)| visit(reason, count));
}

/// Whether the code at an address is the C library's, the loader's or the C++ runtime's.
pub(crate) fn is_of_runtime(address: u64) -> bool {
    observed::is_of_runtime(address)
}

/// Whether there is code of a file at an address.
pub(crate) fn is_in_file(address: u64) -> bool {
    observed::is_in_file(address)
}

/// Whether the code at an address is that of a runtime of OpenMP.
pub(crate) fn is_of_openmp(address: u64) -> bool {
    observed::is_of_openmp(address)
}

/// Something was mapped there: accesses of the calling thread must be taken first if this says so.
pub(crate) fn covers(range: &Range<u64>) -> bool {
    observed::forget(range);
    TABLES.cover(range)
}
