//! Memory for the histories of tests.

use crate::History;
use crate::history::{Cell, Host, Memory, STATE_WORDS, Slot};
use core::sync::atomic::AtomicU64;
use std::vec::Vec;

/// What tests are to a history.
#[derive(Debug)]
pub(super) struct Idle;

impl Host for Idle {
    fn pause(&self, _times: u32) {
        std::thread::yield_now();
    }
}

fn leak<T: Default>(count: usize) -> &'static [T] {
    (0..count).map(|_| T::default()).collect::<Vec<T>>().leak()
}

/// A history with so many cells.
pub(super) fn history(cells: usize) -> History<'static, Idle> {
    let memory = Memory {
        cells: leak::<Cell>(cells),
        used: leak::<AtomicU64>(Memory::used_words(cells)),
        floor: leak::<AtomicU64>(64),
        lists: leak::<Slot>(cells * 4),
        state: leak::<AtomicU64>(STATE_WORDS).try_into().unwrap(),
    };
    History::new(memory, Idle)
}
