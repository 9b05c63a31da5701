//! What one thread has noted, as the runtime has it: bits of the lines of its segment, and
//! of lines of which its reads last.

use super::owned::Idle;
use crate::{Clock, Epoch, History, Line, Often, Open, Race, Reads};
use std::collections::BTreeMap;
use std::vec::Vec;

/// Bytes read or written, and written, by lines.
type Bits = BTreeMap<u64, (u64, u64)>;

pub(super) struct Shadow {
    /// What was touched in this segment.
    log: Bits,
    /// Likewise of lines whose reads last: those bytes are set from the beginning.
    kept: Bits,
    reads: Option<Reads>,
    pub(super) lasted: usize,
}

impl Shadow {
    pub(super) fn new(often: Option<Often>) -> Self {
        let reads = often.map(|often| Reads::new(often, |_| true));
        Self { log: Bits::new(), kept: Bits::new(), reads, lasted: 0 }
    }

    pub(super) fn note(&mut self, line: u64, bytes: u64, read: bool) {
        let (touched, written) = match self.kept.get_mut(&line) {
            Some(bits) => bits,
            None => self.log.entry(line).or_default(),
        };
        *touched |= bytes;
        if !read {
            *written |= bytes;
        }
    }

    pub(super) fn has_any(&self) -> bool {
        !self.log.is_empty() || !self.kept.is_empty()
    }

    pub(super) fn hand_over(&mut self, history: &History<'_, Idle>, clock: &Clock, races: &mut Vec<Race>) {
        let me = clock.epoch().thread();
        self.recall(history, clock, races);
        let lines = core::mem::take(&mut self.log).into_iter().map(|(number, (touched, written))| {
            // As a program does that reads first.
            Line { number, read: touched & !written, written }
        });
        for line in lines {
            match &mut self.reads {
                Some(reads) => history.check_reads(clock, &[line], reads, &mut |race| races.push(race)),
                None => history.check(clock, &[line], &mut |race| races.push(race)),
            }
        }
        self.let_ended_go(history, me);
        let Self { reads: Some(reads), kept, .. } = self else { return };
        if reads.is_time(clock.epoch().time(), 0) {
            history.lasting().close(me, reads, clock.epoch().time(), |line| _ = kept.remove(&line));
        }
        for open in reads.begun() {
            self.lasted += 1;
            assert_eq!(kept.insert(open.line, (open.bytes, 0)), None, "what is kept is not noted");
        }
    }

    fn recall(&mut self, history: &History<'_, Idle>, clock: &Clock, races: &mut Vec<Race>) {
        let Self { reads: Some(reads), kept, .. } = self else { return };
        for open in reads.open().to_vec() {
            let (touched, written) = kept[&open.line];
            let read = touched & !written & !open.bytes;
            if written != 0 {
                kept.remove(&open.line);
                history.lasting().close_one(clock.epoch().thread(), reads, clock.epoch().time(), open.line);
                let line = Line { number: open.line, read, written };
                history.check(clock, &[line], &mut |race| races.push(race));
            } else if read != 0 {
                let more = Open { line: open.line, bytes: read };
                history.check_more(clock, more, reads, &mut |race| races.push(race));
            }
        }
    }

    pub(super) fn let_ended_go(&mut self, history: &History<'_, Idle>, thread: u32) {
        if let Self { reads: Some(reads), kept, .. } = self {
            history.lasting().take_ended(thread, reads, |line| _ = kept.remove(&line));
        }
    }

    pub(super) fn close(&mut self, history: &History<'_, Idle>, segment: Epoch) {
        if let Self { reads: Some(reads), kept, .. } = self {
            history.lasting().close(segment.thread(), reads, segment.time(), |line| _ = kept.remove(&line));
        }
    }
}
