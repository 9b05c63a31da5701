//! Which bytes of memory each segment of a translated thread reads and writes: the
//! first tool of the translator.
//!
//! Each thread has a shadow of its own, with a bit for each byte of the program that
//! it read, and one for each that it wrote, in its present segment. Before each access
//! stands a check of a few instructions (`check.rs`) that passes if the bits are set.
//! The first touch of a line of 64 bytes goes to a log besides, so that the end of a
//! segment costs as much as it touched ([`Segment::take`]).
//!
//! - [`Accesses`]: the tool.
//! - [`Sink`]: who is told of a full log and of accesses to watched lines.
//! - [`Tables`]: what the threads share: watched lines, and memory that shares a place
//!   in the shadow with other memory.
//! - [`Segment`]: what the calling thread touched.
//! - [`Followed`] and [`Returned`]: functions that are looked at as a whole, when they return.
//!
//! A byte that a segment read and wrote is reported as written. What `lock` and `xchg`
//! access is reported apart, and neither as read nor as written: those bytes are
//! synchronisation. `classify.rs` says what counts as an access and what does not,
//! `evaluate.rs` which bytes an instruction really touches where only its operands'
//! values say so.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

mod calls;
mod check;
mod classify;
pub mod elsewhere;
mod evaluate;
mod layout;
mod masked;
mod named;
mod plan;
mod processor;
mod routines;
mod segment;
mod stored;
mod tables;
mod what;

pub use calls::{Followed, Returned};
pub use named::named;
pub use processor::Bits;
pub use segment::{LockedBytes, Segment, WatchedAccess};
pub use stored::Stored;
pub use tables::{Full, Tables};
pub use what::Kind;

use check::Manner;
use check::Wanted;
use classify::{Piece, pieces};
use core::ops::Range;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use iced_x86::{Mnemonic, OpKind, Register};
use layout::{INDEX_MASK, LINE_BITS, LOCKED_LOG, LOCKED_LOG_END, LOG, LOG_END, RECENT_KEYS, RESERVE, ones, tool, word};
use plan::Decision;
use processor::Processor;
use relive_dbi::{
    AREA_BYTES, Context, Inserter, Operand, Reserve, RoutineWriter, Site, Survey, Tool, ToolMemory, Visit,
};
use tables::{SPREAD, Watched};
use what::Class;

/// As much memory for each line as it has, side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// Where that begins, aligned to lines.
    pub start: u64,
    /// How many bytes there are, a power of two: lines so far apart share a place.
    pub bytes: u64,
}

/// The process around the tool.
pub trait Sink: Sync + Sized {
    /// Whether accesses of the program's instruction at `ip` are looked at. Asked when it is translated.
    fn observes(&self, ip: u64) -> bool {
        let _ = ip;
        true
    }

    /// Whether what such an instruction reads counts.
    fn observes_reads(&self, ip: u64) -> bool {
        let _ = ip;
        true
    }

    /// Whether the process has one thread, whose accesses race with nobody's: of what is translated meanwhile only locked
    /// instructions are looked at. Whoever says so turns the engine to another view, and back when it is over.
    fn is_alone(&self) -> bool {
        false
    }

    /// Where the sink remembers something of each line, which it looks at when a segment is taken. Asked at the start.
    fn remembered(&self) -> Option<Remembered> {
        None
    }

    /// The function that begins at `ip`, if its calls are to be told to [`Self::returned`]. Asked when it is translated.
    fn followed(&self, ip: u64) -> Option<Followed> {
        let _ = ip;
        None
    }

    /// Whether such a function may return by the `ret` at `ip`.
    fn may_return(&self, ip: u64) -> bool {
        let _ = ip;
        false
    }

    /// The code from which no call is followed.
    fn library(&self) -> Range<u64> {
        0..0
    }

    /// A followed function is about to return. `touch` takes what it read and wrote.
    fn returned(&self, call: &Returned, touch: &mut dyn FnMut(Range<u64>, Kind)) {
        let _ = (call, touch);
    }

    /// A call of the function with this number was left in another way, or interrupted by a call that is followed.
    fn left(&self, number: u32) {
        let _ = number;
    }

    /// The thread's log is full in the middle of a segment. All of it must be taken, lines and locked bytes, as at the
    /// segment's end; the segment goes on.
    fn full(&self, segment: &mut Segment<'_, '_, '_, Self>);

    /// Whether the instruction at `ip` need not be told at these bytes of a watched line: they are not what is watched
    /// there, or it is let pass.
    fn is_worn(&self, ip: u64, range: &Range<u64>) -> bool {
        let _ = (ip, range);
        false
    }

    /// A thread is about to access a watched line. `context` has the program's registers before the instruction at its
    /// `ip`; those that the program does not read before it writes them may hold anything.
    fn watched(&self, context: &Context, access: &WatchedAccess) -> Later {
        let _ = (context, access);
        Later::Told
    }
}

/// What becomes of later accesses to the same bytes of a watched line in the same segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Later {
    /// They are told, too.
    Told,
    /// They may pass, at the speed of other lines; the bytes come with the segment. Not for locked instructions.
    Pass,
}

/// The tool. It stays where it is while threads are attached.
pub struct Accesses<'t, S> {
    pub(crate) tables: &'t Tables,
    pub(crate) watched: Watched<'t>,
    pub(crate) sink: S,
    pub(crate) processor: Processor,
    exact: bool,
    counted: [u64; COUNTED],
    log_lines: u64,
}

/// Instructions whose executions can be counted.
pub const COUNTED: usize = 2;

impl<'t, S: Sink> Accesses<'t, S> {
    /// A tool that reports to `sink`. `watched` has room for the numbers of watched lines, all of it zero; twice as many
    /// as there will be keep looking fast.
    pub fn new(tables: &'t Tables, watched: &'t [AtomicU64], sink: S) -> Self {
        Self {
            tables,
            watched: Watched(watched),
            sink,
            processor: Processor::ask(),
            exact: false,
            counted: [0; COUNTED],
            log_lines: u64::MAX,
        }
    }

    /// The same, as if the processor could do no more than that.
    #[must_use]
    pub fn with(mut self, bits: Bits) -> Self {
        self.processor.bits = bits;
        self
    }

    /// The same, with a check before each single access, for watched lines: none is put together with others before it
    /// in its block, so that each is told when it is about to happen. Costs more where nothing is watched.
    #[must_use]
    pub fn exactly(mut self) -> Self {
        self.exact = true;
        self
    }

    /// The same, and each thread counts how often it comes to the instructions at these addresses; 0 stands for none. What
    /// an instruction accesses is noted when it has been counted.
    #[must_use]
    pub fn counting(mut self, counted: [u64; COUNTED]) -> Self {
        self.counted = counted;
        self
    }

    /// How often the thread whose memory this is came to each of them.
    pub fn passes(&self, memory: &ToolMemory<'_>) -> [u64; COUNTED] {
        core::array::from_fn(|number| memory.word(word::PASSES + number))
    }

    fn count(&self, site: &Site<'_>, insert: &mut Inserter<'_, '_>) {
        let counted = self.counted.iter().position(|&ip| ip == site.ip());
        if let Some((number, register)) = counted.and_then(|number| Some((number, insert.scratch()?))) {
            let code = insert.code();
            code.load(register, tool(word::PASSES + number));
            code.lea(register, Operand::at(register, 1));
            code.store(tool(word::PASSES + number), register);
            insert.give_back(register);
        }
    }

    /// The same, with room for `lines` lines in the log of a thread that is attached from now on; there are 2^27 at most.
    #[must_use]
    pub fn with_log_of(mut self, lines: u64) -> Self {
        self.log_lines = lines.max(segment::ENTRY_WORDS);
        self
    }

    fn manner(&self) -> Manner {
        Manner { bits: self.processor.bits, exact: self.exact }
    }

    /// Writes a check, if anything is wanted.
    fn check(&self, insert: &mut Inserter<'_, '_>, piece: &Piece<'_>, mut wanted: Wanted) {
        if wanted.span != 0 {
            let gap = wanted.span.trailing_zeros();
            wanted.span >>= gap;
            wanted.offset += gap as i32;
            check::insert(self.manner(), insert, piece, wanted);
        }
    }

    /// Who is told.
    pub fn sink(&self) -> &S {
        &self.sink
    }

    /// What the threads share.
    pub fn tables(&self) -> &'t Tables {
        self.tables
    }

    /// Watches the line with this number, the address of its bytes divided by 64, from each thread's next segment on: each
    /// access to it is told to the sink, which may let later ones pass; none but these is taken with the segment.
    ///
    /// # Errors
    /// If there is no room for another one.
    pub fn watch(&self, line: u64) -> Result<(), Full> {
        self.watched.insert(line)?;
        self.tables.admit(line);
        Ok(())
    }

    pub(crate) fn is_watched(&self, line: u64) -> bool {
        self.tables.may_be_watched(line) && self.watched.contains(line)
    }

    /// The segment of the thread whose memory this is.
    pub fn segment<'s, 'm>(&'s self, memory: &'s mut ToolMemory<'m>) -> Segment<'s, 'm, 't, S> {
        Segment { accesses: self, memory, stored: Stored::Unknown }
    }

    /// Instructions that were executed and whose bytes nobody can tell, with how often.
    pub fn unobserved(&self) -> impl Iterator<Item = (Mnemonic, u64)> + '_ {
        let found = self.tables.unknown.iter().map(|place| place.load(Relaxed));
        found.filter_map(|entry| {
            let mnemonic = Mnemonic::try_from((entry >> tables::COUNT_BITS) as usize).ok()?;
            (entry != 0).then_some((mnemonic, entry & ones(tables::COUNT_BITS)))
        })
    }
}

impl<S: Sink> Tool for Accesses<'_, S> {
    fn survey(&self, survey: &mut Survey<'_>) {
        if !self.exact && !self.sink.is_alone() {
            plan::survey(survey, |ip| self.sink.observes(ip) && self.sink.observes_reads(ip));
        }
    }

    fn instrument(&self, site: &Site<'_>, insert: &mut Inserter<'_, '_>) {
        self.count(site, insert);
        if !self.sink.is_alone() {
            calls::insert(&self.sink, site, insert);
        }
        if self.sink.is_alone() && !site.is_locked() || !self.sink.observes(site.ip()) {
            return;
        }
        let decision = Decision::of(site.note());
        let reads = self.sink.observes_reads(site.ip());
        for (number, piece) in pieces(site).enumerate() {
            let kind = piece.what.kind;
            if kind == Kind::Read && !reads {
                continue;
            }
            match piece.plain_bytes() {
                Some(_) if decision.skips(number) => {}
                Some(bytes) if decision.is_led_by(number) => {
                    let aligned = classify::is_aligned(site.instruction())
                        && (decision.offset, decision.read | decision.written) == (0, ones(bytes));
                    for (kind, span) in [(Kind::Write, decision.written), (Kind::Read, decision.read)] {
                        self.check(insert, &piece, Wanted { kind, offset: decision.offset, span, aligned });
                    }
                }
                Some(bytes) if bytes > 32 && kind != Kind::Locked => {
                    let second = Wanted { kind, offset: 32, span: ones(bytes - 32), aligned: false };
                    self.check(insert, &piece, Wanted { offset: 0, span: ones(32), ..second });
                    self.check(insert, &piece, second);
                }
                Some(bytes) => {
                    self.check(insert, &piece, Wanted { kind, offset: 0, span: ones(bytes), aligned: false });
                }
                // One visit finds all that a string instruction touches.
                None if piece.what.class == Class::String && !classify::is_source(site, &piece) => {}
                None if self.processor.bits != Bits::Plain && masked::can(piece.what) => {
                    masked::insert(self.processor.bits, insert, &piece);
                }
                None if routines::run::can(self.manner(), piece.what) => routines::run::insert(insert, piece.what),
                None => check::insert_visit(insert, &piece, byte_mask(site, piece.what.class)),
            }
        }
    }

    fn routines(&self, write: &mut RoutineWriter<'_, '_>) {
        routines::write(write, self.manner());
    }

    fn reserve(&self) -> Reserve {
        RESERVE
    }

    fn attach(&self, memory: &mut ToolMemory<'_>) {
        let at = |offset: isize| offset as u64;
        let address = memory.address();
        let [special, filter, contested] = self.tables.addresses();
        let remembered = self.sink.remembered().filter(|_| !self.exact);
        let words = [
            (word::MASK, INDEX_MASK),
            (word::BYTE_MASK, check::byte_mask(self.processor.bits)),
            (word::LOG_NEXT, address.wrapping_add(at(LOG))),
            (word::LOG_END, address.wrapping_add(at(LOG) + self.log_lines.min(at(LOG_END - LOG) / 8) * 8)),
            (word::LOCKED_NEXT, address.wrapping_add(at(LOCKED_LOG))),
            (word::LOCKED_END, address.wrapping_add(at(LOCKED_LOG_END))),
            (word::SPECIAL, special),
            (word::FILTER, filter),
            (word::SPREAD, SPREAD),
            (word::CONTESTED, contested),
            (word::RECENT, address.wrapping_add(at(RECENT_KEYS))),
            (word::REMEMBERED, remembered.map_or(0, |remembered| remembered.start)),
            (word::REMEMBERED_MASK, remembered.map_or(0, |remembered| (remembered.bytes - 1) & !ones(LINE_BITS))),
            (word::SOON, remembered.map_or(0, |_| address.wrapping_add(at(LOG) + SOON_LINES * 8))),
        ];
        for (word, value) in words {
            memory.set_word(word, value);
        }
        calls::attach(memory, &self.sink.library());
        segment::forget_plain(memory);
        for number in 0..word::SPAN_COUNT {
            memory.set_word(word::SPANS + number, ones(layout::span_bytes(number)));
        }
        for (n, element) in [2, 4, 8].into_iter().enumerate() {
            memory.set_word(word::ELEMENTS + n, u64::MAX / ones(element));
        }
    }

    fn visit(&self, visit: &mut Visit<'_>) {
        evaluate::visit(self, visit);
    }
}

/// Of so many lines of a segment what is remembered is fetched when they are logged.
const SOON_LINES: u64 = 16;

/// The register whose bytes' signs say which bytes are accessed.
fn byte_mask(site: &Site<'_>, class: Class) -> Option<Register> {
    let instruction = site.instruction();
    let registers = (0..instruction.op_count()).filter(|&n| instruction.op_kind(n) == OpKind::Register);
    // `maskmovdqu` and its kin: data first, the mask second.
    (class == Class::Span).then(|| registers.map(|n| instruction.op_register(n)).next_back()).flatten()
}

const _: () = assert!(AREA_BYTES.is_multiple_of(64), "the shadow begins with a word of its own");
