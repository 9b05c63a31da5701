//! Installing handlers: `sigaction`, `signal` and its older kin.
//!
//! libc's own `signal` calls libc's own `sigaction`, past ours, and without
//! `SA_SIGINFO`; so the older functions are written here in terms of `sigaction`.

use super::{HANDLES, SA_RESETHAND, SIGNALS, WANTED, on_signal};
use crate::real::{self, set_errno};
use core::ffi::c_int;
use core::sync::atomic::Ordering;
use relive_rt::{Mode, mode, replay};
use relive_sys::front;

/// glibc's `struct sigaction`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Action {
    handler: usize,
    mask: [u64; 16],
    flags: u32,
    /// Copied to the program, too.
    gap: u32,
    restorer: usize,
}

const _: () = assert!(size_of::<Action>() == 152);

const SIG_DFL: usize = 0;
const SIG_IGN: usize = 1;
const SIG_HOLD: usize = 2;
const SIG_ERR: usize = usize::MAX;
const SA_SIGINFO: u32 = 4;
const SA_RESTART: u32 = 0x1000_0000;
const SA_NODEFER: u32 = 0x4000_0000;
const EINVAL: c_int = 22;

impl Action {
    const fn new(handler: usize, flags: u32) -> Self {
        Self { handler, mask: [0; 16], flags, gap: 0, restorer: 0 }
    }
}

fn ours() -> usize {
    on_signal as *const () as usize
}

front!(
    /// `sigaction`
    sigaction, 3, sigaction_front
);
front!(
    /// `__sigaction`
    __sigaction, 3, sigaction_front
);

unsafe extern "C" fn sigaction_front(number: c_int, new: *const Action, old: *mut Action, _place: usize) -> c_int {
    // SAFETY: forwarded.
    unsafe { act(number, new.as_ref(), old.as_mut()) }
}

/// `sigaction`, with ours in the place of the program's handler.
fn act(number: c_int, new: Option<&Action>, old: Option<&mut Action>) -> c_int {
    let forward = |new: Option<&Action>, old: &mut Action| {
        let new = new.map_or(core::ptr::null(), core::ptr::from_ref);
        // SAFETY: an action to read or null, and one to write.
        unsafe { real::sigaction(number, new.cast_mut().cast(), core::ptr::from_mut(old).cast()) }
    };
    let mut before = Action::new(SIG_DFL, 0);
    let index = number as usize;
    let program = WANTED.get(index).map(|w| (w.handler.load(Ordering::Acquire), w.flags.load(Ordering::Acquire)));
    let result = match new {
        Some(action) if index < SIGNALS && action.handler > SIG_IGN && mode() != Mode::Off => {
            let wanted = &WANTED[index];
            HANDLES.store(true, Ordering::Relaxed);
            // Before the kernel knows: a signal may strike at once.
            wanted.handler.store(action.handler, Ordering::Release);
            wanted.flags.store(action.flags, Ordering::Release);
            let flags = (action.flags | SA_SIGINFO) & !SA_RESETHAND;
            let result = forward(Some(&Action { handler: ours(), flags, ..*action }), &mut before);
            if let (true, Some((handler, flags))) = (result != 0, program) {
                wanted.handler.store(handler, Ordering::Release);
                wanted.flags.store(flags, Ordering::Release);
            }
            result
        }
        other => forward(other, &mut before),
    };
    if let (0, Some(old)) = (result, old) {
        *old = before;
        // Of the mask the kernel knows one word. In the others libc leaves what its stack, here ours, held.
        old.mask[1..].fill(0);
        if let (true, Some((handler, flags))) = (before.handler == ours(), program) {
            (old.handler, old.flags) = (handler, flags | before.flags & SA_RESTART);
        }
    }
    if mode() == Mode::Replay {
        replay::deliver_computing();
    }
    result
}

/// `SA_RESETHAND`: the handler runs once.
pub(super) fn reset(number: c_int) {
    act(number, Some(&Action::new(SIG_DFL, 0)), None);
}

/// Whether the program handles a signal.
pub(super) fn is_handled(number: c_int) -> bool {
    let mut now = Action::new(SIG_DFL, 0);
    act(number, None, Some(&mut now)) == 0 && now.handler > SIG_IGN
}

unsafe fn simple(number: c_int, action: &Action) -> usize {
    let mut old = Action::new(SIG_DFL, 0);
    if act(number, Some(action), Some(&mut old)) == 0 { old.handler } else { SIG_ERR }
}

fn refuse_invalid(number: c_int, handler: usize) -> bool {
    let invalid = handler == SIG_ERR || !(1..SIGNALS as c_int).contains(&number);
    if invalid {
        set_errno(EINVAL);
    }
    invalid
}

unsafe extern "C" fn signal_front(number: c_int, handler: usize, _place: usize) -> usize {
    if refuse_invalid(number, handler) {
        return SIG_ERR;
    }
    let mut action = Action::new(handler, SA_RESTART);
    action.mask[0] = 1 << (number - 1);
    // SAFETY: the program passed a handler.
    unsafe { simple(number, &action) }
}

unsafe extern "C" fn sysv_signal_front(number: c_int, handler: usize, _place: usize) -> usize {
    if refuse_invalid(number, handler) {
        return SIG_ERR;
    }
    // SAFETY: the program passed a handler.
    unsafe { simple(number, &Action::new(handler, SA_RESETHAND | SA_NODEFER)) }
}

unsafe extern "C" fn sigset_front(number: c_int, handler: usize, _place: usize) -> usize {
    const SIG_BLOCK: c_int = 0;
    const SIG_UNBLOCK: c_int = 1;
    if refuse_invalid(number, handler) {
        return SIG_ERR;
    }
    let set = [1u64 << (number - 1), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut masked = [0u64; 16];
    let mut old = Action::new(SIG_DFL, 0);
    let how = if handler == SIG_HOLD { SIG_BLOCK } else { SIG_UNBLOCK };
    let new = Action::new(handler, 0);
    let changed = act(number, (handler != SIG_HOLD).then_some(&new), Some(&mut old));
    // SAFETY: two signal sets.
    let result =
        changed | unsafe { real::sigprocmask(how, (&raw const set).cast_mut().cast(), (&raw mut masked).cast()) };
    match (result, masked[0] & set[0]) {
        (0, 0) => old.handler,
        (0, _) => SIG_HOLD,
        _ => SIG_ERR,
    }
}

front!(
    /// `signal`
    signal, 2, signal_front
);
front!(
    /// `bsd_signal`
    bsd_signal, 2, signal_front
);
front!(
    /// `ssignal`
    ssignal, 2, signal_front
);
front!(
    /// `sysv_signal`
    sysv_signal, 2, sysv_signal_front
);
front!(
    /// `__sysv_signal`
    __sysv_signal, 2, sysv_signal_front
);
front!(
    /// `sigset`
    sigset, 2, sigset_front
);
