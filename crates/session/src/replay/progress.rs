//! How far a replay has come, for whoever shows it meanwhile.
//!
//! Apart from the replay, which does not wait for anybody who looks.

use crate::shared::Shared;
use relive_trace::control::TurnSlot;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

/// The replay that runs now, if one does.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Mutex<Option<Arc<Shared>>>>);

impl Progress {
    /// How many events of the recording have run. `None` between replays.
    pub fn events(&self) -> Option<u64> {
        let running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        running.as_ref().map(|shared| complete(shared.turns()))
    }

    pub(super) fn set(&self, running: Option<Arc<Shared>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = running;
    }
}

fn complete(turns: &[TurnSlot]) -> u64 {
    turns.iter().map(|slot| slot.events.load(Relaxed)).sum()
}
