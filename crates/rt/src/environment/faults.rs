//! Signals that instructions raise: ours and the program's, or the program's with us
//! in front of it.
//!
//! Changed instructions raise some of them. Of these the kernel keeps our handler, and
//! the program sees the action that it set. The others have the program's own action, but
//! for the handler: what runs in other places than it stands is put right before the
//! program is told. Apart from `SIGSYS`, which is ours alone as long as nobody sends
//! it.

use super::instructions;
use super::memory;
use core::sync::atomic::{AtomicUsize, Ordering};
use relive_sys::dispatch::program_call;
use relive_sys::outside::forbidden::{self, SIGSEGV};
use relive_sys::outside::{SIGILL, as_if_unhandled, in_front, is_in_front};
use relive_sys::signal::{Context, Info};
use relive_sys::syscall;
use relive_sys::syscall::number::RT_SIGACTION;

const EFAULT: isize = -14;
const ACTION_WORDS: usize = 4;
const FLAGS: usize = 1;
const MASK: usize = 3;
const SIG_DFL: usize = 0;
const SIG_IGN: usize = 1;
const SA_ONSTACK: usize = 0x0800_0000;
const SA_RESTART: usize = 0x1000_0000;
const SA_RESETHAND: usize = 0x8000_0000;
const SIGBUS: u32 = 7;
const SIGFPE: u32 = 8;

type Action = [usize; ACTION_WORDS];

/// What is kept here.
const SIGNALS: [u32; 4] = [SIGILL, SIGBUS, SIGFPE, SIGSEGV];

/// What the program wants: handler, flags, restorer, mask.
static WANTED: [[AtomicUsize; ACTION_WORDS]; SIGNALS.len()] =
    [const { [const { AtomicUsize::new(0) }; ACTION_WORDS] }; SIGNALS.len()];

fn wanted(signal: u32) -> Option<&'static [AtomicUsize; ACTION_WORDS]> {
    let index = SIGNALS.iter().position(|&known| known == signal)?;
    Some(&WANTED[index])
}

/// Those that may not be blocked, as bits of a mask.
pub(super) fn bits() -> u64 {
    let time = if forbidden::is_on() { 1 << (SIGSEGV - 1) } else { 0 };
    1 << (SIGILL - 1) | time
}

/// Whether the kernel keeps our own action of it.
fn is_shared(signal: u32) -> bool {
    match signal {
        SIGILL => instructions::is_on(),
        SIGSEGV => forbidden::is_on(),
        _ => false,
    }
}

/// Whether this signal's action is kept here.
pub(super) fn has(signal: usize) -> bool {
    wanted(signal as u32).is_some()
}

/// `rt_sigaction` of it.
pub(super) fn action(signal: usize, new: usize, old: usize) -> isize {
    let mut set = None;
    if new != 0 {
        let Some(read) = read(new) else { return EFAULT };
        set = Some(read);
    }
    let signal = signal as u32;
    let Some(wanted) = wanted(signal) else { return EFAULT };
    let mut before = wanted.each_ref().map(|word| word.load(Ordering::Relaxed));
    if !is_shared(signal) {
        // Before the kernel knows: it may strike at once.
        set.inspect(|set| store(signal, set));
        let mut now = Action::default();
        let given = set.as_ref().map(with_us);
        let result = exchange(signal, given.as_ref(), &mut now);
        if result < 0 {
            store(signal, &before);
            return result;
        }
        if !is_in_front(&now.map(|word| word as u64)) {
            before = now;
        }
    }
    if old != 0 {
        let mut words = [0u8; ACTION_WORDS * 8];
        for (bytes, word) in words.as_chunks_mut::<8>().0.iter_mut().zip(before) {
            *bytes = word.to_le_bytes();
        }
        if !memory::write(old, &words) {
            return EFAULT;
        }
    }
    if let Some(set) = set.filter(|_| is_shared(signal)) {
        keep(signal, &set);
    }
    0
}

fn read(address: usize) -> Option<Action> {
    let mut words = [0u8; ACTION_WORDS * 8];
    let known = memory::read(address, &mut words);
    let mut read = Action::default();
    for (word, bytes) in read.iter_mut().zip(words.as_chunks::<8>().0) {
        *word = usize::from_le_bytes(*bytes);
    }
    known.then_some(read)
}

/// The program's action as the kernel keeps it.
fn with_us(set: &Action) -> Action {
    let mut given = *set;
    given[MASK] &= !super::signals::ours() as usize;
    if given[0] > SIG_IGN {
        given = in_front(&given.map(|word| word as u64), instructions::decide).map(|word| word as usize);
    }
    given
}

fn exchange(signal: u32, new: Option<&Action>, old: &mut Action) -> isize {
    let new = new.map_or(0, |new| new.as_ptr().addr());
    // SAFETY: the kernel reads one action and writes another, of four words each.
    unsafe { program_call(RT_SIGACTION, &[signal as usize, new, old.as_mut_ptr().addr(), 8, 0, 0]) }
}

fn store(signal: u32, set: &Action) {
    for (word, value) in wanted(signal).into_iter().flatten().zip(set) {
        word.store(*value, Ordering::Relaxed);
    }
}

fn keep(signal: u32, set: &Action) {
    store(signal, set);
    instructions::install(signal, set[FLAGS] & (SA_ONSTACK | SA_RESTART));
}

/// From here on the kernel has our own action for a signal that was the program's.
pub(super) fn share(signal: u32) {
    let mut now = Action::default();
    exchange(signal, None, &mut now);
    if !is_in_front(&now.map(|word| word as u64)) {
        store(signal, &now);
    }
    let flags = wanted(signal).map_or(0, |wanted| wanted[FLAGS].load(Ordering::Relaxed));
    instructions::install(signal, flags & (SA_ONSTACK | SA_RESTART));
}

/// A signal that is the program's: the handler that it is for, with the mask that it wants; 0 if there is none.
pub(super) fn pass_on(signal: u32, info: &Info, context: &Context) -> usize {
    let Some(wanted) = wanted(signal) else { return 0 };
    let [handler, flags, _, mask] = wanted.each_ref().map(|word| word.load(Ordering::Relaxed));
    if !is_shared(signal) {
        // The kernel knows the rest.
        return handler;
    }
    let fault = info.code > 0;
    match handler {
        SIG_IGN if !fault => 0,
        SIG_DFL | SIG_IGN => {
            as_if_unhandled(signal);
            if !fault {
                syscall::tgkill(syscall::getpid(), syscall::gettid(), signal);
            }
            0
        }
        handler => {
            if flags & SA_RESETHAND != 0 {
                keep(signal, &[SIG_DFL, 0, 0, 0]);
            }
            syscall::set_signal_mask(context.mask | mask as u64 & !super::signals::ours());
            handler
        }
    }
}
