//! The reader of the words: one function a record, in the order of the table.
//!
//! It trusts nothing: what it allocates is bounded by the words that are there, and every
//! number is checked against its meaning before it becomes one.

use super::{BUILD_ID_MAX, CONTENT_MAX, MAGIC, Problem, STACK_WORDS_MAX, VERSION, WireError, tag};
use crate::raw::{
    AccessKind, Certainty, RaceKind, RawAccess, RawBlock, RawDivergence, RawLock, RawModule, RawOrigin, RawRace,
    RawReport, RawStack, RawSync, RawThread, RawUnobserved, Setting, Snapshot,
};
use std::collections::BTreeMap;

/// Settings from here on are signals.
const SIGNAL: u64 = 256;
/// Signals have numbers below this.
const SIGNALS: u64 = 65;

/// Reads what a process wrote.
///
/// # Errors
/// If the words are none of ours, or the writer broke the rules of the table in [`crate::wire`].
pub fn read(words: &[u64]) -> Result<RawReport, WireError> {
    let mut reader = Reader { words, at: 0 };
    let mut report = RawReport::default();
    let header = reader.take(tag::HEADER).map_err(|_| WireError { at: 0, problem: Problem::NotFindings })?;
    match header {
        Some(Record { words: [MAGIC, VERSION], .. }) => {}
        Some(Record { words: &[MAGIC, version], .. }) => {
            return Err(WireError { at: 0, problem: Problem::Version(version) });
        }
        _ => return Err(WireError { at: 0, problem: Problem::NotFindings }),
    }
    loop {
        match reader.item(&mut report) {
            Ok(true) => {}
            Ok(false) | Err(Stop::Torn) => return Ok(report),
            Err(Stop::Wrong(error)) => return Err(error),
        }
    }
}

/// Why reading goes no further.
enum Stop {
    /// The words end in the middle of something.
    Torn,
    /// The writer broke a rule.
    Wrong(WireError),
}

impl From<WireError> for Stop {
    fn from(error: WireError) -> Self {
        Self::Wrong(error)
    }
}

#[derive(Clone, Copy)]
struct Record<'a> {
    at: usize,
    tag: u64,
    words: &'a [u64],
}

impl Record<'_> {
    fn wrong(self, problem: Problem) -> WireError {
        WireError { at: self.at, problem }
    }

    fn value<T>(self, what: &'static str, value: u64, meaning: Option<T>) -> Result<T, WireError> {
        meaning.ok_or_else(|| self.wrong(Problem::Value { what, value }))
    }

    fn thread(self, value: u64) -> Result<u32, WireError> {
        self.value("a thread", value, u32::try_from(value).ok())
    }

    fn flag(self, what: &'static str, value: u64) -> Result<bool, WireError> {
        let meaning = [false, true].get(usize::try_from(value).unwrap_or(usize::MAX)).copied();
        self.value(what, value, meaning)
    }

    /// A number of bytes, and the words that hold them.
    fn bytes(self) -> Result<Vec<u8>, WireError> {
        let length = || self.wrong(Problem::Length { tag: self.tag, words: self.words.len() as u64 });
        let (&count, words) = self.words.split_first().ok_or_else(length)?;
        if count.div_ceil(8) != words.len() as u64 {
            return Err(length());
        }
        Ok(words.iter().flat_map(|word| word.to_le_bytes()).take(count as usize).collect())
    }
}

struct Reader<'a> {
    words: &'a [u64],
    at: usize,
}

impl<'a> Reader<'a> {
    /// The next record, which stays; `None` at the end of what was written whole.
    fn peek(&self) -> Result<Option<Record<'a>>, WireError> {
        let at = self.at;
        let Some(&tag) = self.words.get(at).filter(|&&tag| tag != 0) else { return Ok(None) };
        let wrong = |problem| WireError { at, problem };
        if tag::name(tag).is_none() {
            return Err(wrong(Problem::UnknownTag(tag)));
        }
        let count = self.words.get(at + 1).copied().unwrap_or(0);
        let rest = self.words.get(at + 2..).ok_or(wrong(Problem::Cut { tag, words: count }))?;
        let words = usize::try_from(count).ok().and_then(|count| rest.get(..count));
        let words = words.ok_or(wrong(Problem::Cut { tag, words: count }))?;
        if tag::words(tag).is_some_and(|fixed| fixed != words.len()) {
            return Err(wrong(Problem::Length { tag, words: count }));
        }
        Ok(Some(Record { at, tag, words }))
    }

    /// The next record if it has this tag.
    fn take(&mut self, tag: u64) -> Result<Option<Record<'a>>, WireError> {
        let record = self.peek()?.filter(|record| record.tag == tag);
        if let Some(record) = record {
            self.at += 2 + record.words.len();
        }
        Ok(record)
    }

    /// The next record, which must have this tag.
    fn expect(&mut self, tag: u64) -> Result<Record<'a>, Stop> {
        if let Some(record) = self.take(tag)? {
            return Ok(record);
        }
        Err(match self.peek()? {
            Some(other) => other.wrong(Problem::Misplaced(other.tag)).into(),
            None => Stop::Torn,
        })
    }

    /// One record of the outermost level with all that belongs to it; `false` at the end.
    fn item(&mut self, report: &mut RawReport) -> Result<bool, Stop> {
        let Some(record) = self.peek()? else { return Ok(false) };
        match record.tag {
            tag::MODULE => report.modules.push(self.module()?),
            tag::THREAD => report.threads.push(self.thread()?),
            tag::RACE => report.races.push(self.race()?),
            tag::MORE => {
                let more = self.expect(tag::MORE)?;
                let race = usize::try_from(more.words[0]).ok().and_then(|number| report.races.get_mut(number));
                let race = more.value("the number of a race", more.words[0], race)?;
                *race.more.entry(more.words[1]).or_default() |= more.words[2];
            }
            tag::UNOBSERVED => {
                let count = self.expect(tag::UNOBSERVED)?.words[0];
                report.unobserved.push(RawUnobserved { what: self.text()?, count });
            }
            tag::DIVERGED if report.diverged.is_none() => {
                self.expect(tag::DIVERGED)?;
                let thread = record.thread(record.words[0])?;
                report.diverged = Some(RawDivergence { thread, event: record.words[1], what: self.text()? });
            }
            tag::END => {
                report.complete = true;
                return Ok(false);
            }
            other => return Err(record.wrong(Problem::Misplaced(other)).into()),
        }
        Ok(true)
    }

    fn module(&mut self) -> Result<RawModule, Stop> {
        let record = self.expect(tag::MODULE)?;
        let &[start, end, bias, storage] = record.words else { return Err(Stop::Torn) };
        record.value("the end of a module", end, (start <= end).then_some(()))?;
        let file = self.text()?;
        let mut build_id = Vec::new();
        if let Some(id) = self.take(tag::BUILD_ID)? {
            build_id = id.bytes()?;
            let bytes = build_id.len() as u64;
            id.value("the length of a build id", bytes, (bytes <= BUILD_ID_MAX).then_some(()))?;
        }
        Ok(RawModule { file, start, end, bias, storage, build_id, recorded: None })
    }

    fn thread(&mut self) -> Result<RawThread, Stop> {
        let record = self.expect(tag::THREAD)?;
        let &[number, creator, low, high, pointer] = record.words else { return Err(Stop::Torn) };
        record.value("the end of a stack", high, (low <= high).then_some(()))?;
        let (number, creator) = (record.thread(number)?, record.thread(creator)?);
        let name = self.text()?;
        let label = self.take(tag::TEXT)?.map(text).transpose()?.unwrap_or_default();
        let created = self.perhaps_stack()?;
        Ok(RawThread { number, name, label, creator, created, stack: [low, high], pointer })
    }

    fn race(&mut self) -> Result<RawRace, Stop> {
        let record = self.expect(tag::RACE)?;
        let &[address, bytes, kind, certainty, count] = record.words else { return Err(Stop::Torn) };
        record.value("the set of racing bytes", bytes, (bytes != 0).then_some(()))?;
        let kind = record.value("the kind of a race", kind, race_kind(kind))?;
        let certainty = record.value("a certainty", certainty, self::certainty(certainty))?;
        let mut block = None;
        let mut accesses = Vec::new();
        loop {
            match self.peek()? {
                Some(next) if next.tag == tag::ACCESS => accesses.push(self.access()?),
                Some(next) if next.tag == tag::BLOCK && block.is_none() => block = Some(self.block()?),
                next => {
                    let found = accesses.len();
                    let accesses: [RawAccess; 2] = accesses.try_into().map_err(|_| match next {
                        None if found < 2 => Stop::Torn,
                        _ => record.wrong(Problem::Accesses(found)).into(),
                    })?;
                    let more = BTreeMap::new();
                    return Ok(RawRace { address, bytes, more, kind, certainty, count, accesses, block });
                }
            }
            if accesses.len() > 2 {
                return Err(record.wrong(Problem::Accesses(accesses.len())).into());
            }
        }
    }

    fn access(&mut self) -> Result<RawAccess, Stop> {
        let record = self.expect(tag::ACCESS)?;
        let &[thread, event, count_since_event, kind, address, size, known, value, setting] = record.words else {
            return Err(Stop::Torn);
        };
        let known = record.flag("whether a value is known", known)?;
        let mut access = RawAccess {
            thread: record.thread(thread)?,
            event,
            count_since_event,
            kind: record.value("the kind of an access", kind, access_kind(kind))?,
            address,
            size,
            value: known.then_some(value),
            setting: record.value("a setting", setting, self::setting(setting))?,
            stack: self.stack_of_access()?,
            ..RawAccess::default()
        };
        while let Some(next) = self.peek()? {
            match next.tag {
                tag::LOCK => access.locks.push(self.lock()?),
                tag::SYNC => self.sync(&mut access)?,
                tag::CONTENT if access.content.is_empty() => access.content = self.content()?,
                _ => break,
            }
        }
        Ok(access)
    }

    fn content(&mut self) -> Result<Vec<u8>, Stop> {
        let record = self.expect(tag::CONTENT)?;
        let content = record.bytes()?;
        let bytes = content.len() as u64;
        record.value("the length of what was accessed", bytes, (1..=CONTENT_MAX).contains(&bytes).then_some(()))?;
        Ok(content)
    }

    fn lock(&mut self) -> Result<RawLock, Stop> {
        let record = self.expect(tag::LOCK)?;
        let shared = record.flag("whether a lock is shared", record.words[1])?;
        Ok(RawLock { address: record.words[0], shared, stack: self.perhaps_stack()? })
    }

    fn sync(&mut self, access: &mut RawAccess) -> Result<(), Stop> {
        let record = self.expect(tag::SYNC)?;
        let &[side, event, object] = record.words else { return Err(Stop::Torn) };
        let place =
            if record.flag("the side of a synchronisation", side)? { &mut access.after } else { &mut access.before };
        if place.is_some() {
            return Err(record.wrong(Problem::Misplaced(tag::SYNC)).into());
        }
        *place = Some(RawSync { event, operation: self.text()?, object });
        Ok(())
    }

    fn block(&mut self) -> Result<RawBlock, Stop> {
        let record = self.expect(tag::BLOCK)?;
        let allocated = self.origin()?.unwrap_or(RawOrigin { thread: crate::raw::NO_THREAD, ..RawOrigin::default() });
        Ok(RawBlock { start: record.words[0], size: record.words[1], allocated, freed: self.origin()? })
    }

    fn origin(&mut self) -> Result<Option<RawOrigin>, Stop> {
        let Some(record) = self.take(tag::ORIGIN)? else { return Ok(None) };
        Ok(Some(RawOrigin { thread: record.thread(record.words[0])?, stack: self.perhaps_stack()? }))
    }

    /// What says where an access was: there must be something.
    fn stack_of_access(&mut self) -> Result<RawStack, Stop> {
        if let Some(Record { tag: tag::SNAPSHOT, .. }) = self.peek()? {
            return self.snapshot();
        }
        let RawStack { addresses, slots, .. } = self.stack()?;
        Ok(RawStack { slots, ..RawStack::of_access(addresses) })
    }

    fn perhaps_stack(&mut self) -> Result<RawStack, Stop> {
        match self.peek()? {
            Some(Record { tag: tag::STACK, .. }) => self.stack(),
            Some(Record { tag: tag::SNAPSHOT, .. }) => self.snapshot(),
            _ => Ok(RawStack::default()),
        }
    }

    fn stack(&mut self) -> Result<RawStack, Stop> {
        let addresses = self.expect(tag::STACK)?.words.to_vec();
        let mut slots = Vec::new();
        if let Some(record) = self.take(tag::SLOTS)? {
            slots = record.words.to_vec();
            let count = slots.len() as u64;
            record.value("the number of slots", count, (slots.len() <= addresses.len()).then_some(()))?;
        }
        Ok(RawStack { slots, ..RawStack::of_call(addresses) })
    }

    fn snapshot(&mut self) -> Result<RawStack, Stop> {
        let record = self.expect(tag::SNAPSHOT)?;
        let parts = record.words.split_first_chunk().filter(|(_, words)| words.len() <= STACK_WORDS_MAX);
        let length = Problem::Length { tag: tag::SNAPSHOT, words: record.words.len() as u64 };
        let (&registers, words) = parts.ok_or_else(|| record.wrong(length))?;
        Ok(RawStack { snapshot: Some(Snapshot { registers, words: words.to_vec() }), ..RawStack::default() })
    }

    fn text(&mut self) -> Result<String, Stop> {
        Ok(text(self.expect(tag::TEXT)?)?)
    }
}

fn text(record: Record<'_>) -> Result<String, WireError> {
    Ok(String::from_utf8_lossy(&record.bytes()?).into_owned())
}

fn race_kind(value: u64) -> Option<RaceKind> {
    [RaceKind::Data, RaceKind::Free, RaceKind::UseAfterFree].get(usize::try_from(value).ok()?).copied()
}

fn certainty(value: u64) -> Option<Certainty> {
    [Certainty::Certain, Certainty::AfterFirst, Certainty::PossibleAtomic].get(usize::try_from(value).ok()?).copied()
}

fn access_kind(value: u64) -> Option<AccessKind> {
    use AccessKind::{AtomicRead, AtomicWrite, Free, Read, Write};
    [Read, Write, AtomicRead, AtomicWrite, Free].get(usize::try_from(value).ok()?).copied()
}

fn setting(value: u64) -> Option<Setting> {
    match value {
        0 => Some(Setting::Ordinary),
        1 => Some(Setting::Constructor),
        2 => Some(Setting::Exit),
        value => value.checked_sub(SIGNAL).filter(|n| (1..SIGNALS).contains(n)).map(|n| Setting::Signal(n as u32)),
    }
}
