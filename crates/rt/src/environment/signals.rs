//! Calls that change what a signal meets: masks, actions, the alternate stack.
//!
//! Apart because they act on the frame of our own handler, which the kernel puts
//! back when it returns, and because `SIGSYS` is ours: were it blocked, the next
//! call would end the program.

use super::{Trapped, alternate, copied, faults, memory};
use crate::replay::calls as replayed;
use crate::thread::Thread;
use crate::writer;
use core::sync::atomic::{AtomicUsize, Ordering};
use relive_sys::aside;
use relive_sys::dispatch::{self, SIGSYS};
use relive_sys::passage::SIGTRAP;
use relive_sys::signal::{Context, Info};
use relive_sys::syscall;
use relive_sys::syscall::number::{
    EPOLL_PWAIT, EPOLL_PWAIT2, PPOLL, PSELECT6, RT_SIGACTION, RT_SIGPROCMASK, RT_SIGRETURN, RT_SIGSUSPEND, SIGALTSTACK,
};

const EINVAL: isize = -22;
const EFAULT: isize = -14;
/// `SIGKILL` and `SIGSTOP` can't be blocked.
const NEVER: u64 = 1 << 8 | 1 << 18;
const SIG_BLOCK: usize = 0;
const SIG_UNBLOCK: usize = 1;
const SIG_SETMASK: usize = 2;
const ACTION_WORDS: usize = 4;
const MASK_BYTES: usize = 8;

/// What the program wants for `SIGSYS`: handler, flags, restorer, mask.
static WANTED: [AtomicUsize; ACTION_WORDS] = [const { AtomicUsize::new(0) }; ACTION_WORDS];

/// What the program may not block, as bits of a mask. A replay's traps may stand where any thread comes by.
pub(super) fn ours() -> u64 {
    1 << (SIGSYS - 1) | 1 << (SIGTRAP - 1) | faults::bits()
}

/// What of a mask that the program names for a thread counts.
pub fn without_ours(mask: u64) -> u64 {
    if super::is_on() { mask & !ours() } else { mask }
}

/// A signal set of the program's without our signal, in memory of ours while the kernel reads it.
#[derive(Debug, Default)]
pub(super) struct Mask {
    set: u64,
    /// What `pselect6` wants: where the set is, and its length.
    set_and_length: [usize; 2],
}

impl Mask {
    /// The arguments of a call that may wait with another mask: handlers that run meanwhile make calls, too.
    pub(super) fn without_ours(&mut self, number: usize, arguments: &[usize; 6]) -> [usize; 6] {
        let mut given = *arguments;
        let Some(index) = mask_argument(number) else { return given };
        let mut address = arguments[index];
        let mut pair = [0u8; 16];
        if number == PSELECT6 && address != 0 && memory::read(address, &mut pair) {
            self.set_and_length = [0, 8].map(|at| usize::from_le_bytes(*pair[at..].first_chunk().expect("two words")));
            address = self.set_and_length[0];
        }
        let mut set = [0; MASK_BYTES];
        if address != 0 && memory::read(address, &mut set) {
            self.set = u64::from_le_bytes(set) & !ours();
            given[index] = (&raw const self.set).addr();
            if number == PSELECT6 {
                self.set_and_length[0] = given[index];
                given[index] = self.set_and_length.as_ptr().addr();
            }
        }
        given
    }
}

/// The argument that holds the mask with which a call waits.
pub(super) const fn mask_argument(number: usize) -> Option<usize> {
    match number {
        RT_SIGSUSPEND => Some(0),
        PPOLL => Some(3),
        EPOLL_PWAIT | EPOLL_PWAIT2 => Some(4),
        PSELECT6 => Some(5),
        _ => None,
    }
}

/// A `SIGSYS` that no call of the program's raised: a filter, or somebody's `kill`. As if nobody handled it.
pub(super) fn foreign() {
    let default = [0usize; ACTION_WORDS];
    // SAFETY: the kernel reads an action of four words.
    unsafe { syscall::syscall6(RT_SIGACTION, SIGSYS as usize, default.as_ptr().addr(), 0, MASK_BYTES, 0, 0) };
    syscall::tgkill(syscall::getpid(), syscall::gettid(), SIGSYS);
}

/// What the kernel tells a handler fits in here; behind it are zeros.
const TOLD_BYTES: usize = 48;

/// Keeps what a handler is told that is about to run: it stands there as what its way back would have taken in.
pub fn keep_signal(thread: &mut Thread, info: &Info) {
    let told = core::ptr::from_ref(info).addr();
    // SAFETY: the beginning of `info`.
    unsafe { writer::append_call(thread, RT_SIGRETURN, 0, &|visit| visit(told, TOLD_BYTES)) };
}

/// In a replay, what the recorded handler was told.
pub fn recall_signal(info: &mut Info) {
    let mut filler = replayed::take(RT_SIGRETURN).filler();
    // SAFETY: the beginning of `info`, which is plain data.
    unsafe { filler.fill(core::ptr::from_mut(info).addr(), TOLD_BYTES) };
    filler.finish(RT_SIGRETURN);
}

/// Carries out the call if it is one of these.
///
/// # Safety
/// The context must be of a trapped call.
pub(super) unsafe fn carry_out(context: &mut Context) -> Trapped {
    let arguments = context.arguments();
    // SAFETY: the caller's promise.
    unsafe {
        match context.number() {
            RT_SIGRETURN => {
                super::identity::returned();
                copied::put_back(context.stack_pointer() as usize);
                context.leave_handler();
                Trapped::GoesOn
            }
            RT_SIGPROCMASK => Trapped::Result(mask(context, &arguments)),
            RT_SIGACTION => Trapped::Result(action(&arguments)),
            SIGALTSTACK => Trapped::Result(stack(context, &arguments)),
            _ => Trapped::Other,
        }
    }
}

/// [`carry_out`] for a call that came by a jump: there is no frame of ours, the kernel's own state counts.
///
/// # Safety
/// As for the call itself.
pub(super) unsafe fn carry_out_directly(number: usize, arguments: &[usize; 6]) -> Option<isize> {
    let [how, new, ..] = *arguments;
    match number {
        // SAFETY: the caller's promise.
        RT_SIGACTION => Some(unsafe { action(arguments) }),
        RT_SIGPROCMASK if new != 0 && how != SIG_UNBLOCK => {
            let mut set = [0; MASK_BYTES];
            if !memory::read(new, &mut set) {
                return Some(EFAULT);
            }
            let wanted = u64::from_le_bytes(set) & !ours();
            let mut given = *arguments;
            given[1] = (&raw const wanted).addr();
            // SAFETY: the program's own call, with a copy of its set.
            Some(unsafe { dispatch::program_call(number, &given) })
        }
        // SAFETY: the caller's promise.
        SIGALTSTACK => Some(unsafe { alternate::ask(aside::left_at(), arguments) }),
        // SAFETY: the caller's promise.
        RT_SIGPROCMASK => Some(unsafe { dispatch::program_call(number, arguments) }),
        _ => None,
    }
}

/// The mask that counts is the one that our handler goes back to.
unsafe fn mask(context: &mut Context, arguments: &[usize; 6]) -> isize {
    let [how, new, old, bytes, ..] = *arguments;
    if bytes != MASK_BYTES {
        return EINVAL;
    }
    let before = context.mask;
    if new != 0 {
        let mut set = [0; MASK_BYTES];
        if !memory::read(new, &mut set) {
            return EFAULT;
        }
        let set = u64::from_le_bytes(set);
        let wanted = match how {
            SIG_BLOCK => before | set,
            SIG_UNBLOCK => before & !set,
            SIG_SETMASK => set,
            _ => return EINVAL,
        };
        context.mask = wanted & !(ours() | NEVER);
    }
    if old != 0 && !memory::write(old, &before.to_le_bytes()) {
        return EFAULT;
    }
    0
}

/// As the program asked, but no handler of its own may run with `SIGSYS` blocked.
unsafe fn action(arguments: &[usize; 6]) -> isize {
    let [number, new, old, bytes, ..] = *arguments;
    if number as u32 == SIGSYS {
        return own_action(new, old);
    }
    if faults::has(number) && bytes == MASK_BYTES {
        return faults::action(number, new, old);
    }
    let mut words = [0u8; ACTION_WORDS * 8];
    let mut given = *arguments;
    if new != 0 && bytes == MASK_BYTES {
        if !memory::read(new, &mut words) {
            return EFAULT;
        }
        let mask = words.last_chunk_mut::<MASK_BYTES>().expect("an action ends in its mask");
        *mask = (u64::from_le_bytes(*mask) & !ours()).to_le_bytes();
        given[1] = words.as_ptr().addr();
    }
    // SAFETY: the program's own call, with a copy of its action.
    unsafe { dispatch::program_call(RT_SIGACTION, &given) }
}

/// The program sees the action that it set; the kernel keeps ours.
fn own_action(new: usize, old: usize) -> isize {
    let mut words = [0u8; ACTION_WORDS * 8];
    if old != 0 {
        for (bytes, word) in words.as_chunks_mut::<8>().0.iter_mut().zip(&WANTED) {
            *bytes = word.load(Ordering::Relaxed).to_le_bytes();
        }
        if !memory::write(old, &words) {
            return EFAULT;
        }
    }
    if new != 0 {
        if !memory::read(new, &mut words) {
            return EFAULT;
        }
        for (bytes, word) in words.as_chunks::<8>().0.iter().zip(&WANTED) {
            word.store(usize::from_le_bytes(*bytes), Ordering::Relaxed);
        }
    }
    0
}

/// The stack that counts is the one that our handler goes back to.
unsafe fn stack(context: &mut Context, arguments: &[usize; 6]) -> isize {
    // SAFETY: the program's own call.
    let result = unsafe { alternate::ask(Some(context.stack_pointer() as usize), arguments) };
    if result == 0 && arguments[0] != 0 {
        context.set_alternate_stack(alternate::now());
    }
    result
}
