//! Barriers: which arrivals a departure follows.
//!
//! It follows those of its round, and nothing else that was done at the barrier
//! (`relive_sys::rounds`). So its timestamp is one above that of the round's last
//! arrival, and it leaves none at the barrier: a thread that wakes late does not come
//! behind what a faster one computes next. In a replay by timestamps the last event at
//! the barrier is that arrival, because a later one has a larger timestamp.
//!
//! What is known of a barrier stands in a table by its address, and is never given
//! back: a barrier at the same place goes on with it, because its clock does. Barriers
//! that find no place there, and those of several processes, do without: a departure
//! comes behind whatever was done at the barrier before it.
//!
//! Apart from the gates because no other object has rounds.

use crate::object::Cell;
use crate::record;
use crate::thread;
use core::sync::atomic::{AtomicU64, Ordering};
use relive_order::Kind;
use relive_sys::rounds::Rounds;

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

/// A barrier that the calling thread of a recording has arrived at.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    cell: &'a Cell,
    place: Option<&'static Place>,
    /// Where its arrival set the barrier's clock.
    time: u64,
}

impl<'a> Arrival<'a> {
    /// The calling thread arrives at the barrier at `address`, which lets `parties` go on at a time, and has `cell`.
    /// `shared`: other processes may use it.
    pub fn record(address: usize, cell: &'a Cell, parties: u32, shared: bool) -> Self {
        let place = if shared { None } else { place(address as u64) };
        if let Some(place) = place {
            place.rounds.come(parties);
        }
        record::shared(&cell.clock, Kind::Arrive);
        Self { cell, place, time: thread::current_if_known().map_or(0, |thread| thread.clock()) }
    }

    /// It departs. The barrier itself may be gone.
    pub fn record_departure(&self) {
        match self.place {
            Some(place) => {
                let clock = || self.cell.clock.load(Ordering::SeqCst);
                record::joining(place.rounds.completed(self.time, clock), Kind::Depart);
            }
            None => record::shared(&self.cell.clock, Kind::Depart),
        }
    }
}

fn place(address: u64) -> Option<&'static Place> {
    let place = &PLACES[((address >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - PLACE_BITS)) as usize];
    match place.barrier.compare_exchange(0, address, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(place),
        Err(owner) => (owner == address).then_some(place),
    }
}
