//! Data races: the detector's part in a replayed process.
//!
//! The first pass (`relive-race`'s histories) learns which bytes race. Each thread's
//! accesses since its last synchronisation, which `relive-accesses` noted, are held
//! against those of other threads as soon as the thread synchronises: before a release
//! takes effect, so that segments come in an order which agrees with happened-before.
//! What it learns goes to a file of the launcher's at once, byte masks of lines, each
//! only when it is new: a replay may end at any moment.
//!
//! The second pass watches those lines alone. Each access to them is kept with its
//! registers and the words of its stack, and a pair that races goes to the findings.
//!
//! Edges come from the events of the replay, in the recorded order, by what each kind
//! means ([`edges`]).
//!
//! All of it runs natively (`relive_dbi::native`), with every signal put off, while
//! the rest of the runtime is translated. Nothing of it is reached, and one flag is all
//! that is asked, where no races are looked for.

mod alone;
mod content;
mod dying;
mod edges;
mod ending;
mod hints;
mod labels;
mod ledger;
mod memory;
mod open;
mod passage;
mod robust;
mod second;
mod state;
mod storage;
mod tally;

use crate::object::Cell;
use crate::runtime;
use crate::thread;
use alloc::vec::Vec;
pub(crate) use alone::{has_one_thread, is_alone};
pub(crate) use content::Content;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};
pub(crate) use hints::Knows;
use labels::Name;
use relive_accesses::Remembered;
use relive_order::Kind;
pub(crate) use relive_race::Touch;
use relive_race::{Line, Open};
use relive_sys::syscall;
use relive_sys::syscall::number::PRCTL;
use relive_trace::control::flag;
pub(crate) use second::is_worn;
use state::{Ordered, State};

static ON: AtomicBool = AtomicBool::new(false);

/// What a thread did that the detector must know of.
#[derive(Debug)]
enum Act<'a> {
    /// An event with the clocks of its objects, by which they are known here; of the first one, whether it is one object's
    /// and one process's alone.
    Event { kind: Kind, cells: &'a [&'a Cell], exact: bool },
    /// The thread begins.
    Started,
    /// A thread was made, which does not run yet.
    Created(u32),
    /// The end of a thread was waited for.
    Joined(u32),
    /// A robust mutex is the thread's from here on, or is so no more.
    Robust { cell: &'a Cell, taken: bool },
    /// An initialiser that another thread has run is done.
    Done(&'a Cell),
    /// The thread is about to wait, perhaps for good.
    Waits,
    /// Other processes see memory of this one from here on.
    Seen,
    /// The process is a new one, with this thread alone.
    Forked,
    /// Memory that is another thing from here on.
    Fresh(Range<u64>),
    /// A block of the heap was given out, of which so many bytes were asked for.
    Allocated { block: Range<u64>, asked: u64 },
    /// A block of the heap is about to be given back.
    Freed(Range<u64>),
    /// The program gave a thread a name.
    Named { thread: u32, name: Name },
    /// An instruction that the recording orders has accessed memory.
    Hands(Ordered),
    /// The kernel read or wrote there for the program, or the recording did in its place.
    ByCall { written: bool, range: Range<u64> },
}

/// Whether races are looked for in this process.
#[inline(always)]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Which pass the session wants.
fn wanted() -> Option<Pass> {
    if runtime::process_mode() != runtime::Mode::Replay {
        return None;
    }
    if runtime::has_flag(flag::RACES) {
        Some(Pass::First)
    } else if runtime::has_flag(flag::RACES_WATCHED) {
        Some(Pass::Second)
    } else {
        None
    }
}

/// The two passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    First,
    Second,
}

/// At start-up: looks for races from now on, if the session wants it. `false` if there is no memory for that.
#[must_use]
pub fn begin() -> bool {
    let Some(pass) = wanted() else { return true };
    let begun = State::begin(pass, thread::current().index);
    if pass == Pass::Second {
        storage::look_up(thread::current().handle as u64);
    }
    ON.store(true, Ordering::Release);
    begun
}

/// An event takes effect: in its turn, before another one of its objects may. `exact` as for [`crate::replay::leave`].
#[inline(always)]
pub fn event(kind: Kind, cells: &[&Cell], exact: bool) {
    if is_on() && !(kind == Kind::Lock && hints::brings_nothing(cells)) {
        act(&Act::Event { kind, cells, exact });
    }
}

/// Whether [`hands`] is to be told of the instructions that the recording orders.
#[inline]
pub fn follow_hands() -> bool {
    is_on() && State::get().follows_hands()
}

/// The instruction at `place`, which the recording orders, has accessed this address and is in its turn: what it hands over counts.
pub fn hands(place: usize, code: &'static [u8], address: usize) {
    act(&Act::Hands(Ordered { place, code, address }));
}

/// Whether an event of such a kind only tells others something, or what it is told lies in memory.
pub fn learns_nothing(kind: Kind) -> bool {
    kind == Kind::Atomic || edges::only_releases(kind)
}

/// The calling thread begins, made by another one of the process.
pub fn started() {
    if is_on() {
        act(&Act::Started);
    }
}

/// The calling thread is about to make this one.
pub fn created(index: u32) {
    if is_on() {
        act(&Act::Created(index));
    }
}

/// The calling thread has waited for the end of this one.
pub fn joined(index: u32) {
    if is_on() {
        act(&Act::Joined(index));
    }
}

/// The calling thread has a robust mutex from here on, or once more, or leaves it.
pub fn robust(cell: &Cell, taken: bool) {
    if is_on() {
        act(&Act::Robust { cell, taken });
    }
}

/// The calling thread found an initialiser done.
pub fn done(cell: &Cell) {
    if is_on() {
        act(&Act::Done(cell));
    }
}

/// The calling thread is about to wait for its turn, or diverged. What it did until then must not be lost if nothing more
/// comes of it; and what it waits for is new to it, so that its segment ends there in most cases.
pub fn waits() {
    if is_on() {
        act(&Act::Waits);
    }
}

/// In a fork child, whose one thread is known by now.
pub fn forked() {
    if is_on() {
        act(&Act::Forked);
    }
}

/// The process is about to become another image.
pub fn leaves_image() {
    if is_on() {
        relive_dbi::native(tell_the_end, 0);
    }
}

extern "C" fn tell_the_end(_: usize) {
    process_ends();
}

/// What lies in a range is another thing from here on: a stack, a mapping.
#[inline]
pub fn fresh(start: usize, bytes: usize) {
    if is_on() {
        act(&Act::Fresh(range(start, bytes)));
    }
}

/// A block of the heap was given out, for `asked` bytes.
#[inline]
pub fn allocated(start: usize, bytes: usize, asked: usize) {
    if is_on() {
        act(&Act::Allocated { block: range(start, bytes), asked: asked as u64 });
    }
}

/// A block of the heap is about to be given back.
#[inline]
pub fn freed(start: usize, bytes: usize) {
    if is_on() {
        act(&Act::Freed(range(start, bytes)));
    }
}

/// Threads wait at a word by the kernel, or are let go on: they synchronise by it, as by one that locked instructions touch.
#[inline]
pub fn waits_at(word: usize) {
    if is_on() && runtime::has_flag(flag::RACES) {
        relive_dbi::native(note_variable, word);
    }
}

extern "C" fn note_variable(word: usize) {
    if thread::current_if_known().is_some() {
        State::get().waited(thread::current().index, &range(word, size_of::<u32>()));
    }
}

/// A call's result was laid there.
#[inline]
pub fn written(start: usize, bytes: usize) {
    if is_on() && !has_one_thread() {
        act(&Act::ByCall { written: true, range: range(start, bytes) });
    }
}

/// A call took so many bytes from there.
#[inline]
pub fn given(start: usize, bytes: usize) {
    if is_on() && !has_one_thread() && bytes > 0 {
        act(&Act::ByCall { written: false, range: range(start, bytes) });
    }
}

/// The calling thread made this call, which succeeded or not.
///
/// # Safety
/// What its arguments name must be readable.
pub unsafe fn called(number: usize, arguments: &[usize; 6], result: isize) {
    const PR_SET_NAME: usize = 15;
    if (number, arguments[0], result) == (PRCTL, PR_SET_NAME, 0) {
        // SAFETY: the caller's promise.
        unsafe { named(thread::current().index, arguments[1]) };
    }
}

/// The program gave a thread a name.
///
/// # Safety
/// The name, up to the kernel's length for such names, must be readable.
pub unsafe fn named(thread: u32, name: usize) {
    if is_on() {
        // SAFETY: the caller's promise.
        act(&Act::Named { thread, name: unsafe { labels::read(name) } });
    }
}

fn range(start: usize, bytes: usize) -> Range<u64> {
    start as u64..start.saturating_add(bytes) as u64
}

#[inline(never)]
fn act(act: &Act<'_>) {
    // A thread that nobody announced takes no part.
    if thread::current_if_known().is_some() {
        relive_dbi::native(carry_out, core::ptr::from_ref(act).addr());
    }
}

/// An access of the program to a watched line.
#[derive(Debug)]
pub(crate) struct Access {
    pub(crate) touch: Touch,
    pub(crate) range: Range<u64>,
    /// The general registers, by the processor's number.
    pub(crate) general: [u64; 16],
    /// The instruction.
    pub(crate) ip: u64,
    /// What is read or written.
    pub(crate) content: Content,
}

/// The calling thread is about to access watched bytes. Whether its next accesses to them matter. Natively.
pub(crate) fn access(access: &Access) -> bool {
    !is_on() || thread::current_if_known().is_none() || State::get().access(thread::current().index, access)
}

/// What the calling thread touched in its segment.
pub(crate) trait Touched {
    /// How many lines that is, rather more than fewer.
    fn count(&self) -> u64;
    /// Takes all of it: lines, and ranges that locked instructions touched.
    fn take_all(&mut self, lines: impl FnMut(&[Line]), locked: impl FnMut(Range<u64>));
    /// Tells what is new of lines whose reads are kept, and of written ones keeps them no longer. Before the rest is taken.
    fn news(&mut self, kept: &[Open], each: impl FnMut(Line));
    /// Reads are not told any more. When all was taken.
    fn keep_open(&mut self, open: Open);
    /// They are again.
    fn let_line_go(&mut self, line: u64);
    /// How often memory was mapped so that lines can't be kept.
    fn changes(&self) -> u64;
}

/// The calling thread's log is full.
pub(crate) fn full(segment: &mut impl Touched) {
    if is_on() && thread::current_if_known().is_some() {
        State::get().full(thread::current().index, segment);
    }
}

/// Where the first pass remembers something of each line.
pub(crate) fn remembered() -> Option<Remembered> {
    if is_on() { State::get().remembered() } else { None }
}

/// The process is not translated after all.
pub(crate) fn give_up() {
    if ON.swap(false, Ordering::AcqRel) {
        State::get().say_it_ran_natively();
    }
}

/// The lines to watch, with the bytes of each, in the second pass.
pub(crate) fn watched_lines() -> Vec<(u64, u64)> {
    let lines = (wanted() == Some(Pass::Second)).then(second::Second::lines);
    lines.into_iter().flatten().collect()
}

/// The instructions whose executions are counted, in the second pass.
pub(crate) fn counted() -> [u64; 2] {
    second::Second::counted()
}

/// Other processes see memory of this one from here on: what it does there alone may be what they wait for. That matters
/// where the next recording can order it.
pub(crate) fn is_seen() {
    if is_on() && runtime::has_flag(flag::ATOMICS) {
        act(&Act::Seen);
    }
}

extern "C" fn carry_out(act: usize) {
    // SAFETY: `act` waits for this with its argument borrowed.
    let act = unsafe { &*(act as *const Act<'_>) };
    if let Act::Created(_) = act {
        alone::ends();
    }
    State::get().act(thread::current().index, act);
}

/// Runs `fork` while no other thread is within the detector. Natively.
pub(crate) fn around_fork(fork: &mut dyn FnMut()) {
    if is_on()
        && let Some(thread) = thread::current_if_known()
    {
        State::get().around_fork(thread.index, fork);
    } else {
        fork();
    }
}

/// The process ends: natively, at the calling thread's last call.
pub(crate) fn process_ends() {
    // Not where a child that shares our memory ends, on its way to another image.
    if is_on() && thread::current_if_known().is_some() && syscall::getpid() == runtime::pid() {
        State::get().process_ends(thread::current().index);
    }
}

/// The process ends by a signal that struck the calling thread: natively, with all signals blocked.
pub(crate) fn process_dies() {
    // Not where a child that shares our memory dies.
    if is_on() && thread::current_if_known().is_some() && syscall::getpid() == runtime::pid() {
        let me = thread::current().index;
        dying::let_others_go_on(me);
        State::get().process_ends(me);
    }
}

/// The calling thread ends: natively, at its last call.
pub(crate) fn thread_ends() {
    if is_on() && thread::current_if_known().is_some() {
        State::get().ends(thread::current().index);
    }
}
