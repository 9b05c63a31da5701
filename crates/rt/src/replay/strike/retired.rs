//! Code of watches that are over, in which a thread may still be.
//!
//! Apart because it asks something else than the watches do: how far each thread has
//! come. One that had an event since, or waits in our own code, has left it.

use super::crowd::{NO_SITE, Site};
use crate::replay::acting;
use crate::thread;
use core::sync::atomic::Ordering;
use relive_trace::control::turn;

const PIECES: usize = 256;
/// Threads with a larger index are not followed: what they might be in is not used again.
const THREADS: usize = 64;

/// One of them.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// Its base is 0 for none.
    site: Site,
    /// Threads that may be in it, by index; all ones if it is not known which.
    inside: u64,
    /// Their events when it was retired.
    events: [u64; THREADS],
}

/// All of them.
#[derive(Debug)]
pub(super) struct Ring {
    pieces: [Piece; PIECES],
    /// There was no room for one: where it is nobody knows any more.
    lost: bool,
}

impl Ring {
    #[expect(clippy::large_stack_arrays, reason = "what a static begins with")]
    pub(super) const EMPTY: Self =
        Self { pieces: [Piece { site: NO_SITE, inside: 0, events: [0; THREADS] }; PIECES], lost: false };

    /// Nobody comes to the code of `site` any more.
    pub(super) fn add(&mut self, site: &Site) {
        let Some(piece) = self.pieces.iter_mut().find(|piece| piece.site.base == 0) else {
            self.lost = true;
            return;
        };
        *piece = Piece { site: *site, inside: 0, events: [0; THREADS] };
        let own = acting().index;
        each_running(|index, events| match piece.events.get_mut(index as usize) {
            _ if index == own => {}
            Some(known) => (*known, piece.inside) = (events, piece.inside | 1 << index),
            None => piece.inside = u64::MAX,
        });
    }

    /// Frees what nobody is in. Whether there is room for more.
    pub(super) fn sweep(&mut self) -> bool {
        let (mut running, mut events) = (0u64, [0; THREADS]);
        let mut more = false;
        each_running(|index, count| match events.get_mut(index as usize) {
            Some(known) => (*known, running) = (count, running | 1 << index),
            None => more = true,
        });
        for piece in self.pieces.iter_mut().filter(|piece| piece.site.base != 0) {
            if piece.inside == u64::MAX && more {
                continue;
            }
            let stayed = |&index: &usize| running >> index & 1 != 0 && events[index] == piece.events[index];
            let inside = (0..THREADS).filter(|index| piece.inside >> index & 1 != 0).filter(stayed);
            piece.inside = inside.fold(0, |inside, index| inside | 1 << index);
            if piece.inside == 0 {
                piece.site.base = 0;
            }
        }
        // Each change may retire two.
        !self.lost && self.pieces.iter().filter(|piece| piece.site.base == 0).count() > 2
    }

    /// The sites whose code that is.
    pub(super) fn sites(&self) -> impl Iterator<Item = &Site> + '_ {
        self.pieces.iter().map(|piece| &piece.site).filter(|site| site.base != 0)
    }

    /// Where code is that may not be written over.
    pub(super) fn bases(&self) -> impl Iterator<Item = usize> + '_ {
        self.sites().map(|site| site.base)
    }

    /// In a process that has one thread, which is not in any of it.
    pub(super) fn forget(&mut self) {
        self.pieces.iter_mut().for_each(|piece| piece.site.base = 0);
        self.lost = false;
    }
}

/// Visits the threads that may be in the program's code: index, and events so far.
fn each_running(mut visit: impl FnMut(u32, u64)) {
    thread::each(|thread| {
        if let Some(slot) = thread.replay.slot {
            let state = slot.state.load(Ordering::Acquire);
            if ![turn::WAITING, turn::BLOCKED, turn::PARKED, turn::ENDED].contains(&state) {
                visit(thread.index, slot.events.load(Ordering::Acquire));
            }
        }
        true
    });
}
