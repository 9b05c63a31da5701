//! The signal that the program and we share: changed instructions raise it, and
//! the program has an action of its own for it.
//!
//! The kernel keeps our handler, the program sees the action that it set. Apart
//! from `SIGSYS`, which is ours alone as long as nobody sends it.

use super::instructions;
use super::memory;
use core::sync::atomic::{AtomicUsize, Ordering};
use relive_sys::outside::{SIGILL, as_if_unhandled};
use relive_sys::signal::{Context, Info};
use relive_sys::syscall;

const EFAULT: isize = -14;
const ACTION_WORDS: usize = 4;
const FLAGS: usize = 1;
const SIG_DFL: usize = 0;
const SIG_IGN: usize = 1;
const SA_ONSTACK: usize = 0x0800_0000;
const SA_RESTART: usize = 0x1000_0000;
const SA_RESETHAND: usize = 0x8000_0000;

/// As a bit of a mask: it may not be blocked.
pub(super) const BITS: u64 = 1 << (SIGILL - 1);

/// What the program wants: handler, flags, restorer, mask.
static WANTED: [AtomicUsize; ACTION_WORDS] = [const { AtomicUsize::new(0) }; ACTION_WORDS];

/// Whether this signal's action is kept here.
pub(super) fn has(signal: usize) -> bool {
    instructions::is_on() && signal as u32 == SIGILL
}

/// `rt_sigaction` of it.
pub(super) fn action(new: usize, old: usize) -> isize {
    let mut words = [0u8; ACTION_WORDS * 8];
    let mut set = None;
    if new != 0 {
        if !memory::read(new, &mut words) {
            return EFAULT;
        }
        let mut read = [0; ACTION_WORDS];
        for (word, bytes) in read.iter_mut().zip(words.as_chunks::<8>().0) {
            *word = usize::from_le_bytes(*bytes);
        }
        set = Some(read);
    }
    if old != 0 {
        for (bytes, word) in words.as_chunks_mut::<8>().0.iter_mut().zip(&WANTED) {
            *bytes = word.load(Ordering::Relaxed).to_le_bytes();
        }
        if !memory::write(old, &words) {
            return EFAULT;
        }
    }
    if let Some(set) = set {
        keep(set);
    }
    0
}

fn keep(set: [usize; ACTION_WORDS]) {
    for (word, value) in WANTED.iter().zip(set) {
        word.store(value, Ordering::Relaxed);
    }
    instructions::install(SIGILL, set[FLAGS] & (SA_ONSTACK | SA_RESTART));
}

/// A signal that is the program's: the handler that it is for, with the mask that it wants; 0 if there is none.
pub(super) fn pass_on(info: &Info, context: &Context) -> usize {
    let [handler, flags, _, mask] = [0, 1, 2, 3].map(|i| WANTED[i].load(Ordering::Relaxed));
    let fault = info.code > 0;
    match handler {
        SIG_IGN if !fault => 0,
        SIG_DFL | SIG_IGN => {
            as_if_unhandled(SIGILL);
            if !fault {
                syscall::tgkill(syscall::getpid(), syscall::gettid(), SIGILL);
            }
            0
        }
        handler => {
            if flags & SA_RESETHAND != 0 {
                keep([SIG_DFL, 0, 0, 0]);
            }
            syscall::set_signal_mask(context.mask | mask as u64 & !super::signals::OURS);
            handler
        }
    }
}
