//! The questions about a stand point that the launcher answers.
//!
//! Apart from the watch because here the two processes meet: one slot of the control
//! memory, taken, filled, answered and freed.

use super::Table;
use crate::runtime;
use core::sync::atomic::{AtomicU32, Ordering};
use relive_sys::passage::{self, JUMP_BYTES, site};
use relive_sys::syscall;
use relive_trace::stand::{COPIED_BYTES, COPIES, Survey, asks, state};

impl Table {
    /// Asks the launcher what of the stand point counts.
    pub(super) fn survey(&mut self, index: usize, stub: usize, crowded: bool) -> Option<()> {
        let survey = &runtime::session().survey;
        take(survey)?;
        self.tell_patches(survey);
        let word = |value: usize| value as u64;
        survey.pid.store(runtime::pid(), Ordering::Relaxed);
        survey.stand[0].store(word(self.strikes[index].kept.addr()), Ordering::Relaxed);
        survey.stand[1].store(word(self.strikes[index].words), Ordering::Relaxed);
        // In a crowd: whether an instruction may begin at a jump's last byte.
        let first = if crowded { usize::from(site::reaches_all(self.strikes[index].place)) } else { stub };
        survey.apart[0].store(word(first), Ordering::Relaxed);
        survey.apart[1].store(word(passage::entry_of(stub)), Ordering::Relaxed);
        survey.asks.store(if crowded { asks::CROWDED } else { asks::ALONE }, Ordering::Relaxed);
        let done = wait(survey);
        if done {
            self.strikes[index].take_answer(survey);
        }
        survey.state.store(state::FREE, Ordering::Release);
        done.then_some(())
    }

    /// Asks for copies of the instructions at `places` for where `targets` says.
    pub(super) fn ask_copies(&self, places: &[usize], targets: &[usize]) -> Option<Copies> {
        let survey = &runtime::session().survey;
        take(survey)?;
        self.tell_patches(survey);
        survey.pid.store(runtime::pid(), Ordering::Relaxed);
        survey.asks.store(asks::COPIES, Ordering::Relaxed);
        for (index, known) in survey.copies.iter().enumerate() {
            let both = places.get(index).zip(targets.get(index)).map_or([0, 0], |(&place, &target)| [place, target]);
            known.iter().zip(both).for_each(|(to, from)| to.store(from as u64, Ordering::Relaxed));
        }
        let done = wait(survey);
        let mut copies = Copies { bytes: [[0; COPIED_BYTES]; COPIES], lengths: [0; COPIES] };
        for (index, words) in survey.copied.iter().enumerate().take(places.len()) {
            let length = survey.copied_bytes[index].load(Ordering::Relaxed) as usize;
            copies.lengths[index] = length.min(COPIED_BYTES);
            let bytes = copies.bytes[index].as_chunks_mut::<8>().0;
            bytes.iter_mut().zip(words).for_each(|(to, from)| *to = from.load(Ordering::Relaxed).to_le_bytes());
        }
        survey.state.store(state::FREE, Ordering::Release);
        (done && copies.lengths[..places.len()].iter().all(|&length| length > 0)).then_some(copies)
    }

    /// What stood where the code is changed now.
    fn tell_patches(&self, survey: &Survey) {
        let single = self.strikes.iter().filter(|s| s.owner != 0 && s.site.is_none()).map(|s| {
            let (place, bytes) = if s.trapped { (s.place, 1) } else { (s.entry(), JUMP_BYTES) };
            [place as u64, bytes as u64, u64::from_le_bytes(s.before)]
        });
        let mut all = single.chain(self.crowd.patches()).chain(core::iter::repeat([0; 3]));
        for (patch, known) in survey.patches.iter().zip(&mut all) {
            patch.iter().zip(known).for_each(|(to, from)| to.store(from, Ordering::Relaxed));
        }
    }
}

/// Instructions for other addresses.
#[derive(Debug)]
pub(super) struct Copies {
    pub(super) bytes: [[u8; COPIED_BYTES]; COPIES],
    pub(super) lengths: [usize; COPIES],
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
