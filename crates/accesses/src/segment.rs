//! What a thread touched in its segment: taking it, and adding to it from outside the
//! cache.
//!
//! Apart from the emitted code, which does the same for nearly all accesses.

use crate::Later;
use crate::layout::{LINE_BITS, LOCKED_LOG, LOG, LOG_END, RECENT, RECENT_KEYS, index, ones, touched, word, written};
use crate::stored::Stored;
use crate::tables::PLACE_BITS;
use crate::what::Kind;
use crate::{Accesses, Sink};
use core::sync::atomic::{Ordering, compiler_fence};
use relive_dbi::{Context, ToolMemory};
use relive_race::Line;

/// In the log: the next two words are the bytes read and written of this line, which has no shadow.
pub(crate) const WITH_BYTES: u64 = 1 << 63;

/// How far ahead of the line that is taken, in bytes of the log, the shadow is fetched.
const AHEAD: isize = 16 * 8;
/// From so many bytes of the log on that is worth it: what a short segment touched is still at hand.
const LONG: isize = 512 * 8;

/// Words of the longest entry of the log.
pub(crate) const ENTRY_WORDS: u64 = 3;

/// Bytes that a locked instruction touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockedBytes {
    /// Of the first.
    pub address: u64,
    /// How many, 16 at most.
    pub bytes: u8,
}

impl LockedBytes {
    const BYTES_SHIFT: u32 = 56;

    pub(crate) const fn key(self) -> u64 {
        self.address | (self.bytes as u64) << Self::BYTES_SHIFT
    }

    pub(crate) const fn of_key(key: u64) -> Self {
        Self { address: key & ((1 << Self::BYTES_SHIFT) - 1), bytes: (key >> Self::BYTES_SHIFT) as u8 }
    }
}

/// An access that the program is about to make to a watched line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchedAccess {
    /// Of the first byte.
    pub address: u64,
    /// How many bytes.
    pub bytes: u64,
    /// What is done to them.
    pub kind: Kind,
    /// What is stored, where the instruction's operands tell.
    pub stored: Stored,
}

/// The calling thread's segment.
pub struct Segment<'s, 'm, 't, S> {
    pub(crate) accesses: &'s Accesses<'t, S>,
    pub(crate) memory: &'s mut ToolMemory<'m>,
    /// What the access stores.
    pub(crate) stored: Stored,
}

impl<S: Sink> Segment<'_, '_, '_, S> {
    /// Whether nothing was touched since it was taken.
    pub fn is_empty(&self) -> bool {
        self.memory.word(word::LOG_NEXT) == self.log()
    }

    /// Forgets which call the thread was followed in: code in which none is followed ran meanwhile.
    pub fn forget_call(&mut self) {
        self.memory.set_word(word::RETURNS, 0);
    }

    /// How many lines it touched, rather more than fewer.
    pub fn lines(&self) -> u64 {
        (self.memory.word(word::LOG_NEXT) - self.log()) / 8
    }

    fn log(&self) -> u64 {
        self.memory.address().wrapping_add_signed(LOG as i64)
    }

    /// Takes each line that was touched, in the order of first touches, and begins a new segment. A line may come twice,
    /// with other bytes, where memory of the process shares its index. Costs a few nanoseconds a line.
    pub fn take(&mut self, mut each: impl FnMut(Line)) {
        let count = (self.memory.word(word::LOG_NEXT) - self.log()) as isize;
        let mut at = LOG;
        let mut claimed = None;
        let fetched = if count < LONG { 0 } else { LOG + count - AHEAD };
        while at < LOG + count {
            let entry = self.memory.load(at);
            if at < fetched {
                let index = index(self.memory.load(at + AHEAD));
                self.memory.prefetch(touched(index));
                self.memory.prefetch(written(index));
            }
            at += 8;
            if entry & WITH_BYTES != 0 {
                let number = (entry & !WITH_BYTES) >> LINE_BITS;
                each(Line { number, read: self.memory.load(at), written: self.memory.load(at + 8) });
                at += 16;
            } else {
                self.take_line(entry, &mut claimed, &mut each);
            }
        }
        self.memory.set_word(word::LOG_NEXT, self.log());
        self.memory.set_word(word::LAST_WITH_BYTES, 0);
        let changes = self.accesses.tables.changes();
        if changes != self.memory.word(word::CHANGES) {
            forget_plain(self.memory);
            self.memory.set_word(word::CHANGES, changes);
        }
    }

    /// Tells what is new of `lines`, of which these bytes were kept: what else was read of them; and, where something was
    /// written, what was, from where on the line is noted as others are. Before the rest is taken.
    pub fn recall(&mut self, lines: impl Iterator<Item = (u64, u64)>, mut each: impl FnMut(Line)) {
        for (number, kept) in lines {
            let index = index(number << LINE_BITS);
            let (all, changed) = (self.memory.load(touched(index)), self.memory.load(written(index)));
            if all != kept || changed != 0 {
                each(Line { number, read: all & !changed & !kept, written: changed });
            }
            if changed != 0 {
                self.let_go(number);
            }
        }
    }

    /// Reads of these bytes are not noted any more, until [`Segment::let_go`]. When all was taken.
    pub fn keep(&mut self, number: u64, bytes: u64) {
        self.memory.store(touched(index(number << LINE_BITS)), bytes);
    }

    /// Accesses to the line are noted again.
    pub fn let_go(&mut self, number: u64) {
        let index = index(number << LINE_BITS);
        self.memory.store(touched(index), 0);
        self.memory.store(written(index), 0);
    }

    #[inline]
    fn take_line(&mut self, entry: u64, claimed: &mut Option<u64>, each: &mut impl FnMut(Line)) {
        let index = index(entry);
        let (all, changed) = (self.memory.load(touched(index)), self.memory.load(written(index)));
        // A line whose logging was interrupted by a signal is there twice.
        if all != 0 {
            self.memory.store(touched(index), 0);
            self.memory.store(written(index), 0);
            if *claimed != Some(entry >> PLACE_BITS) {
                self.accesses.tables.claim(entry);
                *claimed = Some(entry >> PLACE_BITS);
            }
            each(Line { number: entry >> LINE_BITS, read: all & !changed, written: changed });
        }
    }

    /// Takes what locked instructions touched since this was last called. The same bytes may come more than once, but
    /// seldom do.
    pub fn take_locked(&mut self, mut each: impl FnMut(LockedBytes)) {
        let begin = self.memory.address().wrapping_add_signed(LOCKED_LOG as i64);
        let count = (self.memory.word(word::LOCKED_NEXT) - begin) as isize;
        for at in (LOCKED_LOG..LOCKED_LOG + count).step_by(8) {
            each(LockedBytes::of_key(self.memory.load(at)));
        }
        self.memory.set_word(word::LOCKED_NEXT, begin);
    }

    /// Notes an access that no translated instruction makes, or that is known by its result only: by the kernel, or by
    /// native code. `context` is handed on where a line is watched.
    pub fn touch(&mut self, context: &Context, address: u64, bytes: u64, kind: Kind) {
        if bytes == 0 {
            return;
        }
        let last = address.wrapping_add(bytes - 1);
        let mut later = None;
        let mut from = address;
        loop {
            let line = from >> LINE_BITS;
            let to = last.min(from | ones(LINE_BITS));
            let mask = ones((to - from + 1) as u32) << (from & ones(LINE_BITS));
            let access = WatchedAccess { address, bytes, kind, stored: self.stored };
            let passes = !self.accesses.is_watched(line)
                || *later.get_or_insert_with(|| self.accesses.sink.watched(context, &access)) == Later::Pass;
            if passes && kind != Kind::Locked {
                self.mark(from, mask, kind);
            }
            if to == last {
                break;
            }
            from = to + 1;
        }
        if kind == Kind::Locked {
            self.mark_locked(LockedBytes { address, bytes: bytes as u8 });
        }
    }

    /// Bytes that do not lie side by side: those of `span`, from `address` on.
    pub(crate) fn touch_span(&mut self, context: &Context, address: u64, mut span: u64, kind: Kind) {
        let mut at = address;
        let stored = self.stored;
        while span != 0 {
            let gap = span.trailing_zeros();
            span >>= gap;
            at = at.wrapping_add(u64::from(gap));
            self.stored = stored.behind(at.wrapping_sub(address));
            let run = span.trailing_ones();
            self.touch(context, at, u64::from(run), kind);
            span = if run == 64 { 0 } else { span >> run };
            at = at.wrapping_add(u64::from(run));
        }
    }

    /// Sets bits of the line that has `address`.
    fn mark(&mut self, address: u64, mask: u64, kind: Kind) {
        let changed = if kind == Kind::Read { 0 } else { mask };
        if self.accesses.tables.is_contested(address) {
            return self.mark_without_shadow(address, mask & !changed, changed);
        }
        let index = index(address);
        let all = self.memory.load(touched(index));
        if all == 0 {
            self.append(&[address]);
        }
        // What was there when the log was full is gone.
        let all = self.memory.load(touched(index));
        self.memory.store(touched(index), all | mask);
        let before = self.memory.load(written(index));
        self.memory.store(written(index), before | changed);
    }

    fn mark_without_shadow(&mut self, address: u64, read: u64, changed: u64) {
        let entry = (address & !ones(LINE_BITS)) | WITH_BYTES;
        let last = self.memory.word(word::LAST_WITH_BYTES) as isize;
        let next = self.memory.word(word::LOG_NEXT).wrapping_sub(self.memory.address()) as isize;
        // A loop over one line need not fill the log.
        if last != 0 && last + 24 == next && self.memory.load(last) == entry {
            let (before, changed_before) = (self.memory.load(last + 8), self.memory.load(last + 16));
            self.memory.store(last + 8, (before | read) & !(changed | changed_before));
            self.memory.store(last + 16, changed | changed_before);
        } else {
            let at = self.append(&[entry, read, changed]);
            self.memory.set_word(word::LAST_WITH_BYTES, at as u64);
        }
    }

    /// Puts words at the end of the log; where they begin.
    fn append(&mut self, words: &[u64]) -> isize {
        let bytes = words.len() as u64 * 8;
        if self.memory.word(word::LOG_NEXT) + bytes > self.memory.word(word::LOG_END) {
            self.accesses.sink.full(&mut Segment {
                accesses: self.accesses,
                memory: self.memory,
                stored: Stored::Unknown,
            });
            assert!(self.is_empty(), "whoever is told that the log is full takes what is in it");
        }
        let next = self.memory.word(word::LOG_NEXT);
        let at = next.wrapping_sub(self.memory.address()) as isize;
        for (n, &word) in words.iter().enumerate() {
            self.memory.store(at + 8 * n as isize, word);
        }
        // Another thread may look at the log meanwhile (`elsewhere.rs`).
        compiler_fence(Ordering::Release);
        self.memory.set_word(word::LOG_NEXT, next + bytes);
        at
    }

    fn mark_locked(&mut self, bytes: LockedBytes) {
        let recent = RECENT_KEYS + 8 * (bytes.address as usize % RECENT) as isize;
        if self.memory.load(recent) == bytes.key() {
            return;
        }
        self.memory.store(recent, bytes.key());
        if self.memory.word(word::LOCKED_NEXT) == self.memory.word(word::LOCKED_END) {
            self.accesses.sink.full(&mut Segment {
                accesses: self.accesses,
                memory: self.memory,
                stored: Stored::Unknown,
            });
        }
        let next = self.memory.word(word::LOCKED_NEXT);
        assert_ne!(next, self.memory.word(word::LOCKED_END), "whoever is told that a log is full takes what is in it");
        self.memory.store(next.wrapping_sub(self.memory.address()) as isize, bytes.key());
        self.memory.set_word(word::LOCKED_NEXT, next + 8);
    }
}

/// No place is known to be plain: there is none with this number.
pub(crate) fn forget_plain(memory: &mut ToolMemory<'_>) {
    (0..word::PLAIN_COUNT).for_each(|place| memory.set_word(word::PLAIN + place, u64::MAX));
}

const _: () = assert!(LOG_END > LOG);
