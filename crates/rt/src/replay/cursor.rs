//! A reader of one thread's stream that sees only some kinds of record.
//!
//! The gate needs the clock's jumps ahead of the results that stand before them,
//! so it walks the same bytes with two cursors.

use super::calls;
use relive_order::Kind;
use relive_trace::record::{Decoder, Record};

/// What decides when an event runs, and is no result of it.
pub fn is_order(record: &Record) -> bool {
    matches!(record, Record::Pair { .. } | Record::Behind { .. } | Record::Own)
}

/// Looks one record ahead.
#[derive(Clone, Debug)]
pub struct Cursor {
    decoder: Decoder<'static>,
    wanted: fn(&Record) -> bool,
    /// Event number at which the decoder stands.
    reached: u64,
    /// The record looked at, and the event number it stands at.
    ahead: Option<(u64, Record)>,
    /// The bytes behind the record looked at.
    payload: &'static [u8],
    malformed: bool,
    /// How many calls in which time passed, or that tell it, were passed over, of the last event number at which there were any.
    passed_over: (u64, u32),
}

impl Cursor {
    /// A cursor without records.
    pub const fn empty() -> Self {
        Self {
            decoder: Decoder::new(&[]),
            wanted: |_| true,
            reached: 0,
            ahead: None,
            payload: &[],
            malformed: false,
            passed_over: (0, 0),
        }
    }

    /// A cursor at the first record of `stream` that is `wanted`.
    pub fn new(stream: &'static [u8], wanted: fn(&Record) -> bool) -> Self {
        let mut cursor = Self { decoder: Decoder::new(stream), wanted, ..Self::empty() };
        cursor.advance();
        cursor
    }

    /// The record at event number `event`, if one stands there.
    #[inline]
    pub fn at(&self, event: u64) -> Option<Record> {
        match self.ahead {
            Some((at, record)) if at == event => Some(record),
            _ => None,
        }
    }

    /// The bytes behind the record that [`Cursor::at`] shows, if it is a call with its bytes in the stream.
    pub fn payload(&self) -> &'static [u8] {
        self.payload
    }

    /// The event number of the next record.
    pub fn position(&self) -> Option<u64> {
        self.ahead.map(|(at, _)| at)
    }

    /// Whether the stream has `wanted` at event number `event` or, before that, goes on until there.
    pub fn has_at(&self, event: u64, wanted: Record) -> bool {
        let mut ahead = self.clone();
        while ahead.position().is_some_and(|at| at <= event) {
            if ahead.at(event) == Some(wanted) {
                return true;
            }
            ahead.advance();
        }
        false
    }

    /// Whether the stream has a run of failures of `kind` at event number `event`.
    pub fn fails_at(&self, event: u64, kind: Kind) -> bool {
        let mut ahead = self.clone();
        while let Some((at, record)) = ahead.ahead.filter(|&(at, _)| at <= event) {
            if at == event && matches!(record, Record::Run { kind: failed, .. } if failed == kind) {
                return true;
            }
            ahead.advance();
        }
        false
    }

    /// Whether the stream could not be decoded to its end.
    pub fn malformed(&self) -> bool {
        self.malformed
    }

    /// Goes to the next wanted record.
    pub fn advance(&mut self) {
        self.ahead = None;
        loop {
            match self.decoder.next_record() {
                Ok(None) => return,
                Err(_) => {
                    self.malformed = true;
                    return;
                }
                Ok(Some((steps, record))) => {
                    let at = self.reached + steps;
                    self.reached = at + u64::from(matches!(record, Record::Pair { .. }));
                    if (self.wanted)(&record) {
                        self.ahead = Some((at, record));
                        self.payload = self.decoder.payload();
                        return;
                    }
                    if calls::is_lapse(&record) || calls::is_look(&record) {
                        let before = if self.passed_over.0 == at { self.passed_over.1 } else { 0 };
                        self.passed_over = (at, before + 1);
                    }
                }
            }
        }
    }

    /// How many calls in which time passed, or that tell it, and which are not wanted, stand at event number `event`, if the next record that is
    /// wanted stands there or the stream ends.
    pub fn passed_over_at(&self, event: u64) -> u32 {
        if self.passed_over.0 == event { self.passed_over.1 } else { 0 }
    }

    /// Takes one failure off the run of `count` that the cursor stands at.
    pub fn consume_one_of(&mut self, count: u32) {
        match &mut self.ahead {
            Some((_, Record::Run { count: left, .. })) if count > 1 => *left = count - 1,
            _ => self.advance(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Cursor, Kind, is_order};
    use relive_trace::record::{Record, encode};

    fn stream() -> &'static [u8] {
        let mut bytes = Vec::new();
        let run = Record::Run { kind: Kind::Lock, result: 16, count: 3 };
        for (steps, record) in [
            (1, Record::Behind { gap: 16 }),
            (1, Record::Pair { extra: 5 }),
            (0, run),
            (0, Record::Pair { extra: 1 }),
            (4, Record::Hash(9)),
        ] {
            bytes.extend_from_slice(encode(steps, record).as_bytes());
        }
        bytes.leak()
    }

    #[test]
    fn two_cursors_agree_on_event_numbers() {
        let mut order = Cursor::new(stream(), is_order);
        let mut values = Cursor::new(stream(), |r| !is_order(r));
        assert_eq!(order.position(), Some(1));
        order.advance();
        assert_eq!(order.position(), Some(2));
        order.advance();
        assert_eq!(order.position(), Some(3));
        assert_eq!(values.position(), Some(3));
        assert!(values.fails_at(3, Kind::Lock) && !values.fails_at(3, Kind::Create) && !values.fails_at(2, Kind::Lock));
        for left in [3, 2, 1] {
            assert_eq!(values.at(3), Some(Record::Run { kind: Kind::Lock, result: 16, count: left }));
            values.consume_one_of(left);
        }
        assert_eq!(values.position(), Some(8));
        values.advance();
        assert_eq!((values.position(), values.malformed()), (None, false));
    }
}
