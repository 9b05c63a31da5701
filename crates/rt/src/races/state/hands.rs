//! What threads hand over by instructions that the recording orders, in the first pass.
//!
//! The first pass learns which bytes are synchronisation variables while it runs, and so
//! knows of none what its stores hand over: whatever a program hands over by atomics races
//! there. The second one knows them, but is told of each single access to what races, and
//! where that is an array it takes a hundred times as long. So if much races in a recording
//! which orders such instructions, the first pass is done once more with the variables that
//! it has found: a plain or locked store to one of them lets others know, a load knows.
//!
//! Each of these edges is one of the second pass's, too, which has those of all other
//! accesses to the variables besides: what it would tell races here.
//!
//! Apart from the edges of events because what these do hangs on the instruction.

use super::{Pass, State};
use crate::races::ledger::given;
use alloc::collections::BTreeMap;
use core::ops::Range;
use relive_accesses::{Kind, named};
use relive_race::{Variables, ranges};
use relive_sys::lock::Lock;
use relive_trace::races::{WATCH, word};

/// The variables, and what instructions do to them.
pub(super) struct Hands {
    variables: Variables,
    /// By their addresses.
    instructions: Lock<BTreeMap<usize, Option<(Kind, u64)>>>,
}

impl Hands {
    /// What the launcher gave the first pass, if it did.
    pub(super) fn given(pass: Pass) -> Option<Self> {
        if pass != Pass::First {
            return None;
        }
        let mut variables = Variables::new();
        for record in given(WATCH).chunks_exact(word::COUNT).filter(|record| record[0] == word::VARIABLE) {
            ranges(record[1], record[2]).for_each(|range| variables.insert(range));
        }
        (!variables.is_empty()).then(|| Self { variables, instructions: Lock::new(BTreeMap::new()) })
    }

    /// How an instruction accesses a variable at this address, and which bytes; if it does.
    fn access(&self, address: usize, code: &[u8]) -> Option<(Kind, Range<u64>)> {
        let known = *self.instructions.lock().entry(code.as_ptr().addr()).or_insert_with(|| named(code));
        let (kind, bytes) = known?;
        let range = address as u64..(address as u64).saturating_add(bytes);
        self.variables.overlapping(range.clone()).next()?;
        Some((kind, range))
    }
}

impl State {
    pub(in crate::races) fn follows_hands(&self) -> bool {
        self.hands.is_some()
    }

    /// The thread's instruction `code` has accessed this address.
    pub(super) fn hands(&self, me: u32, address: usize, code: &[u8]) {
        let Some(hands) = &self.hands else { return };
        let Some((kind, range)) = hands.access(address, code) else { return };
        if kind != Kind::Read {
            self.hand_over(me);
            hands.variables.store(&self.clocks, me, range.clone());
        }
        if kind != Kind::Write {
            let ended = hands.variables.load(&self.clocks, me, range);
            self.ended(ended);
        }
    }
}
