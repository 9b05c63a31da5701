//! The questions about a stand point that the launcher answers.
//!
//! Apart from the watch because here the two processes meet: one slot of the control
//! memory, taken, filled, answered and freed.

use super::Table;
use crate::runtime;
use core::sync::atomic::{AtomicU32, Ordering};
use relive_sys::passage::{self, JUMP_BYTES};
use relive_sys::syscall;
use relive_trace::stand::{Survey, state};

impl Table {
    /// Asks the launcher what of the stand point counts.
    pub(super) fn survey(&mut self, index: usize, stub: usize, crowded: bool) -> Option<()> {
        let survey = &runtime::session().survey;
        take(survey)?;
        let word = |value: usize| value as u64;
        survey.pid.store(runtime::pid(), Ordering::Relaxed);
        survey.stand[0].store(word(self.strikes[index].kept.addr()), Ordering::Relaxed);
        survey.stand[1].store(word(self.strikes[index].words), Ordering::Relaxed);
        survey.apart[0].store(word(stub), Ordering::Relaxed);
        survey.apart[1].store(word(passage::entry_of(stub)), Ordering::Relaxed);
        survey.crowded.store(u32::from(crowded), Ordering::Relaxed);
        let others = self.strikes.iter().filter(|s| s.owner != 0).map(|s| {
            let (place, bytes) = if s.trapped { (s.place, 1) } else { (s.entry(), JUMP_BYTES) };
            [place as u64, bytes as u64, u64::from_le_bytes(s.before)]
        });
        let mut others = others.chain(core::iter::repeat([0; 3]));
        for (patch, known) in survey.patches.iter().zip(&mut others) {
            patch.iter().zip(known).for_each(|(to, from)| to.store(from, Ordering::Relaxed));
        }
        let done = wait(survey);
        if done {
            self.strikes[index].take_answer(survey);
        }
        survey.state.store(state::FREE, Ordering::Release);
        done.then_some(())
    }
}

/// Whether the launcher may be asked now.
fn take(survey: &Survey) -> Option<()> {
    const ATTEMPTS: u32 = 200;
    for _ in 0..ATTEMPTS {
        if survey.state.compare_exchange(state::FREE, state::TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return Some(());
        }
        syscall::futex_wait(&AtomicU32::new(0), 0, Some(1));
    }
    None
}

/// Whether the launcher has answered.
fn wait(survey: &Survey) -> bool {
    const ROUNDS: u32 = 30;
    const ROUND_MS: u32 = 100;
    survey.state.store(state::ASKED, Ordering::Release);
    runtime::ring();
    for _ in 0..ROUNDS {
        if survey.state.load(Ordering::Acquire) == state::ANSWERED {
            return true;
        }
        syscall::futex_wait(&survey.state, state::ASKED, Some(ROUND_MS));
    }
    survey.state.load(Ordering::Acquire) == state::ANSWERED
}
