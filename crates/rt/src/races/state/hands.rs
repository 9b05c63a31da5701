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
//! What the runtimes of OpenMP hand over by plain loads and stores alone, as the locks of
//! one do from thread to thread, is a variable because they do: that they race in their own
//! data is nothing that a program means.
//!
//! Apart from the edges of events because what these do hangs on the instruction.

use super::{Pass, State};
use crate::races::ledger::given;
use crate::{runtime, translation};
use alloc::collections::BTreeMap;
use core::ops::Range;
use relive_accesses::{Kind, named};
use relive_race::{Variables, ranges};
use relive_sys::lock::Lock;
use relive_trace::control::flag;
use relive_trace::races::{WATCH, word};

/// An instruction that the recording orders.
#[derive(Clone, Copy, Debug)]
pub(in crate::races) struct Ordered {
    /// Where it stands.
    pub(in crate::races) place: usize,
    /// Its bytes.
    pub(in crate::races) code: &'static [u8],
    /// What it accesses.
    pub(in crate::races) address: usize,
}

/// The variables, and what instructions do to them.
pub(super) struct Hands {
    variables: Variables,
    /// By their places.
    instructions: Lock<BTreeMap<usize, Option<Does>>>,
}

/// What an instruction does to the memory that it names.
#[derive(Clone, Copy, Debug)]
struct Does {
    kind: Kind,
    bytes: u64,
    /// It is OpenMP's.
    openmp: bool,
}

impl Hands {
    /// In a first pass over a recording that orders instructions, with the variables that the launcher knows by now.
    pub(super) fn given(pass: Pass) -> Option<Self> {
        if pass != Pass::First || !runtime::has_flag(flag::ATOMICS) {
            return None;
        }
        let mut variables = Variables::new();
        for record in given(WATCH).chunks_exact(word::COUNT).filter(|record| record[0] == word::VARIABLE) {
            ranges(record[1], record[2]).for_each(|range| variables.insert(range));
        }
        Some(Self { variables, instructions: Lock::new(BTreeMap::new()) })
    }

    /// What an instruction does.
    fn does(&self, instruction: &Ordered) -> Option<Does> {
        *self.instructions.lock().entry(instruction.place).or_insert_with(|| {
            let openmp = translation::is_of_openmp(instruction.place as u64);
            named(instruction.code).map(|(kind, bytes)| Does { kind, bytes, openmp })
        })
    }
}

impl State {
    pub(in crate::races) fn follows_hands(&self) -> bool {
        self.hands.is_some()
    }

    /// The thread has made such an access.
    pub(super) fn hands(&self, me: u32, instruction: &Ordered) {
        let Some(hands) = &self.hands else { return };
        let Some(Does { kind, bytes, openmp }) = hands.does(instruction) else { return };
        let start = instruction.address as u64;
        let range: Range<u64> = start..start.saturating_add(bytes);
        if openmp && kind != Kind::Locked {
            self.gather(|found| self.variable(word::VARIABLE, &range, found));
        }
        if hands.variables.overlapping(range.clone()).next().is_none() {
            return;
        }
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
