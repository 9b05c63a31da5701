//! What threads read last, where a replay goes no further.
//!
//! A thread that waits for another one by looking at memory, in a loop, has not synchronised
//! since it began to. If the replay is given up because it looks in vain, the store that it
//! waits for was never made, and no race found. But what it reads is in its log: the launcher
//! has it watched like what races, so that the next recording can order it.
//!
//! Apart from races because nothing of this need be one.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use relive_race::Line;
use relive_sys::lock::Lock;
use relive_trace::control::flag;
use relive_trace::races::word;

use crate::runtime;

/// Whoever looks in a loop reads few lines; of those that compute no more are told.
const LINES_MAX: usize = 1024;

/// Tells lines as of what threads did last, once that is what they are.
#[derive(Debug)]
pub(super) struct Open {
    is_last: AtomicBool,
    told: AtomicUsize,
    /// Threads that look in loops, if it is known that one does so in vain.
    loops: Lock<BTreeSet<u32>>,
}

impl Open {
    pub(super) const fn new() -> Self {
        Self { is_last: AtomicBool::new(false), told: AtomicUsize::new(0), loops: Lock::new(BTreeSet::new()) }
    }

    /// The process ends: what is handed over from here on is what each thread did last.
    pub(super) fn begins(&self) {
        self.is_last.store(runtime::has_flag(flag::ATOMICS), Ordering::Relaxed);
    }

    /// All that the thread does from here on is looking in a loop.
    pub(super) fn loops(&self, thread: u32) {
        self.loops.lock().insert(thread);
    }

    /// What the launcher is to be told of these, which a thread has touched: of those in loops, if it is known that one waits
    /// in vain.
    pub(super) fn tell(&self, thread: u32, lines: &[Line], words: &mut Vec<u64>) {
        if !self.is_last.load(Ordering::Relaxed)
            || runtime::session().in_vain != 0 && !self.loops.lock().contains(&thread)
        {
            return;
        }
        for line in lines.iter().filter(|line| line.read & !line.written != 0) {
            if self.told.fetch_add(1, Ordering::Relaxed) < LINES_MAX {
                words.extend([word::OPEN, line.number, line.read & !line.written]);
            }
        }
    }
}
