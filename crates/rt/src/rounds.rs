//! Barriers: which arrivals a departure follows, in a recording and in a replay that
//! learns.
//!
//! It follows those of its round, and nothing else that was done at the barrier
//! (`relive_sys::rounds`). So its timestamp is one above that of the round's last
//! arrival, and it leaves none at the barrier: a thread that wakes late does not come
//! behind what a faster one computes next.
//!
//! What is known of a barrier stands in a table by its address, and is never given
//! back: a barrier at the same place goes on with it, because its clock does. Barriers
//! that find no place there, and those of several processes, do without: a departure
//! comes behind whatever was done at the barrier before it.
//!
//! Apart from the gates because no other object has rounds.

use crate::object::Cell;
use crate::thread;
use crate::{record, runtime};
use core::sync::atomic::{AtomicU64, Ordering};
use relive_order::Kind;
use relive_sys::rounds::Rounds;
use relive_trace::control::flag;

/// What is known of one barrier, on a line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct Place {
    barrier: AtomicU64,
    rounds: Rounds,
}

const PLACE_BITS: u32 = 9;

static PLACES: [Place; 1 << PLACE_BITS] =
    [const { Place { barrier: AtomicU64::new(0), rounds: Rounds::new() } }; 1 << PLACE_BITS];

/// A barrier that a thread is about to arrive at.
#[derive(Clone, Copy, Debug)]
pub struct Barrier<'a> {
    /// Its clock.
    pub cell: &'a Cell,
    place: Option<&'static Place>,
    /// How many threads make a round.
    parties: u32,
}

impl<'a> Barrier<'a> {
    /// The barrier at `address`, which other processes may share.
    pub fn new(address: usize, cell: &'a Cell, parties: u32, shared: bool) -> Self {
        Self { cell, place: if shared { None } else { place(address as u64) }, parties }
    }

    /// The calling thread arrives, while recording. Returns what [`Barrier::record_departure`] needs.
    pub fn record_arrival(&self) -> u64 {
        if let Some(place) = self.place {
            place.rounds.come(self.parties);
        }
        record::shared(&self.cell.clock, Kind::Arrive);
        thread::current_if_known().map_or(0, |thread| thread.clock_base())
    }

    /// It departs from the round of this arrival, while recording. The barrier itself may be gone.
    pub fn record_departure(&self, arrived: u64) {
        match self.place {
            Some(place) => {
                let clock = || (self.cell.clock.load(Ordering::SeqCst), 0);
                record::joining(place.rounds.completed(arrived, clock).0, Kind::Depart);
            }
            None => record::shared(&self.cell.clock, Kind::Depart),
        }
    }

    /// The calling thread is about to arrive, in a replay.
    pub fn comes(&self) {
        thread::current().parties = self.parties;
        if let Some(place) = self.place
            && runtime::has_flag(flag::LEARN)
        {
            place.rounds.come(self.parties);
        }
    }

    /// The event that its departure follows, in a replay that learns: that of the last one who arrived. `arrived` is the
    /// timestamp of its own arrival.
    pub(crate) fn last_arrival(&self, arrived: u64) -> u64 {
        let Some(place) = self.place else { return self.cell.last.load(Ordering::Acquire) };
        // The event first: the clock has at least its timestamp then.
        let read = || {
            let last = self.cell.last.load(Ordering::SeqCst);
            (self.cell.clock.load(Ordering::SeqCst), last)
        };
        place.rounds.completed(arrived, read).1
    }
}

fn place(address: u64) -> Option<&'static Place> {
    let place = &PLACES[((address >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - PLACE_BITS)) as usize];
    match place.barrier.compare_exchange(0, address, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(place),
        Err(owner) => (owner == address).then_some(place),
    }
}
