//! Signals of a process that is translated as a whole.
//!
//! The kernel calls `relive_dbi_signal` for every signal that the program handles.
//! Where the thread was translated, its registers become the program's in the frame
//! that the kernel made, and the program's handler is entered, translated, on that
//! very frame: it may look at its context, change it, or leave by `longjmp`. When it
//! returns, `rt_sigreturn` is looked at like any call: the kernel puts back mask,
//! stack and vector registers, and the thread goes on in `relive_dbi_go` with the
//! frame's registers, translated.
//!
//! A signal whose default action ends the process has a handler of ours as well, where
//! the program leaves it to the kernel: the host is told, and then it strikes again, as
//! the program wanted it. The kernel alone knows which of the two handlers is there, so a
//! child that shares our memory on its way to another image may change its own.
//!
//! A signal that finds the translator itself at work blocks all signals, is sent
//! again, and goes back. The mask that counts is put back by `relive_dbi_load` as
//! soon as the stack pointer is the program's, so that the kernel makes its frame on
//! the right stack.

use super::{Process, SIGNALS};
use crate::area::{Area, Context};
use crate::crossing::border::{self, Where};
use crate::engine::Engine;
use crate::host::{Host, read_own_memory, write_own_memory};
use crate::register::Gpr;
use crate::tool::Tool;
use core::sync::atomic::Ordering;
use relive_sys::signal::{self, Info};
use relive_sys::syscall::number::{RT_SIGACTION, RT_SIGPROCMASK};
use relive_sys::syscall::{self, syscall6};

/// The kernel's form of an action: handler, flags, restorer, mask.
const ACTION_WORDS: usize = 4;
const MASK_BYTES: u64 = 8;
/// `SIG_DFL` and `SIG_IGN` are no handlers.
const SIG_DFL: usize = 0;
const SIG_IGN: usize = 1;
/// Where the kernel takes what a handler returns to.
const SA_RESTORER: usize = 0x0400_0000;
/// A stack that has no room for a handler may be why the process dies.
const SA_ONSTACK: usize = 0x0800_0000;
/// The signals that end a process by default, but for `SIGKILL` and the two that libc has for itself.
const FATAL: u64 = !(1 << 8 | 1 << 16 | 1 << 17 | 1 << 18 | 1 << 19 | 1 << 20 | 1 << 21 | 1 << 22 | 1 << 27 | 3 << 31);
/// Without it the kernel does not say what a signal that must be sent again is.
const SA_SIGINFO: usize = 4;
const EFAULT: i64 = -14;
const SIG_SETMASK: usize = 2;
/// What runs with the flags as a function expects them: interrupts on, no direction, no trace.
const FLAGS: u64 = 0x202;

impl Process {
    /// Remembers a handler of the program.
    fn keep(&self, number: usize, handler: usize, flags: usize) {
        let bit = 1 << (number - 1);
        if flags & SA_SIGINFO != 0 {
            self.informed.fetch_or(bit, Ordering::Relaxed);
        } else {
            self.informed.fetch_and(!bit, Ordering::Relaxed);
        }
        self.handlers[number].store(handler, Ordering::Release);
    }

    /// The handler, and whether its flags had [`SA_SIGINFO`].
    fn kept(&self, number: usize) -> (usize, usize) {
        let informed = self.informed.load(Ordering::Relaxed) >> (number - 1) & 1 != 0;
        (self.handlers[number].load(Ordering::Acquire), if informed { SA_SIGINFO } else { 0 })
    }
}

impl<H: Host, T: Tool> Engine<H, T> {
    /// Stands before the handlers that are installed already.
    pub(super) fn take_handlers_over(&self) {
        for number in 1..SIGNALS {
            let mut action = [0usize; ACTION_WORDS];
            // SAFETY: the kernel writes the action, four words.
            let known = unsafe { syscall6(RT_SIGACTION, number, 0, (&raw mut action).addr(), 8, 0, 0) == 0 };
            let [handler, flags, restorer, mask] = action;
            if !known || handler == SIG_IGN || handler == SIG_DFL && !is_fatal(number) {
                continue;
            }
            let mut ours = [handler, flags, restorer, mask];
            if handler == SIG_DFL {
                ours = fatal_of(&ours);
            } else {
                self.process.keep(number, handler, flags);
                ours = [border::signal(), flags | SA_SIGINFO, restorer, mask];
            }
            // SAFETY: the kernel reads the action.
            unsafe { syscall6(RT_SIGACTION, number, (&raw const ours).addr(), 0, 8, 0, 0) };
        }
    }

    /// `rt_sigaction` of the program. `None` for what the kernel refuses anyway.
    pub(super) fn action(&self, area: &Area) -> Option<i64> {
        let [number, new, old, bytes] = [0, 1, 2, 3].map(|index| area.argument(index));
        if bytes != MASK_BYTES || number == 0 || number as usize >= SIGNALS {
            return None;
        }
        let (mut wanted, mut before) = ([0usize; ACTION_WORDS], [0usize; ACTION_WORDS]);
        if new != 0 {
            let mut words = [0u8; ACTION_WORDS * 8];
            if read_own_memory(new, &mut words) < words.len() {
                return Some(EFAULT);
            }
            for (word, bytes) in wanted.iter_mut().zip(words.as_chunks::<8>().0) {
                *word = usize::from_le_bytes(*bytes);
            }
        }
        let (previous, previous_flags) = self.process.kept(number as usize);
        if wanted[0] > SIG_IGN {
            // It must be there when the first signal comes; where there is none, the last one is not asked for.
            self.process.keep(number as usize, wanted[0], wanted[1]);
            wanted = [border::signal(), wanted[1] | SA_SIGINFO, wanted[2], wanted[3]];
        } else if wanted[0] == SIG_DFL && is_fatal(number as usize) {
            wanted = fatal_of(&wanted);
        }
        let given = if new == 0 { 0 } else { wanted.as_ptr().addr() };
        // SAFETY: the kernel reads one action and writes another, both of this function's.
        let result = unsafe { syscall6(RT_SIGACTION, number as usize, given, before.as_mut_ptr().addr(), 8, 0, 0) };
        if result < 0 {
            self.process.keep(number as usize, previous, previous_flags);
            return Some(result as i64);
        }
        if old != 0 {
            if before[0] == border::signal() {
                before = [previous, before[1] & !SA_SIGINFO | previous_flags, before[2], before[3]];
            } else if before[0] == border::fatal() {
                before = default_of(&before);
            }
            let mut words = [0u8; ACTION_WORDS * 8];
            for (bytes, word) in words.as_chunks_mut::<8>().0.iter_mut().zip(before) {
                *bytes = word.to_le_bytes();
            }
            if write_own_memory(old, &words) < words.len() {
                return Some(EFAULT);
            }
        }
        Some(0)
    }

    /// The program's handler returned: its frame says how the thread goes on.
    ///
    /// # Safety
    /// The stack pointer is at the context of a signal's frame.
    pub(super) unsafe fn end_of_handler(&self, area: &mut Area) -> ! {
        let frame = area.context.general[usize::from(Gpr::RSP.number())];
        // What arrives from here on belongs behind the mask that the kernel puts back.
        syscall::block_signals();
        area.blocked = 0;
        // SAFETY: the caller's promise.
        let context = unsafe { &mut *(frame as *mut signal::Context) };
        area.context = program_of(context);
        let ip = area.context.ip;
        self.find(area, ip, None);
        context.set_place(border::go());
        // SAFETY: the frame is the kernel's own, and the area says where its thread goes on.
        unsafe { border::return_from_signal(frame) }
    }

    /// Whether the signal is to go to its handler now. Else all signals are blocked, and it waits with them.
    pub(crate) unsafe extern "C" fn arrived(
        number: i32,
        info: *const Info,
        context: *mut signal::Context,
        area: *mut Area,
    ) -> bool {
        // SAFETY: the kernel's frame, which is this handler's.
        let (info, context) = unsafe { (&*info, &mut *context) };
        if border::whereabouts(context.place() as u64) != Where::Inside {
            return true;
        }
        if info.code > 0 && is_fault(number) {
            // The translator itself is at fault: the process ends by this signal, where it struck.
            relive_sys::outside::as_if_unhandled(number as u32);
            return false;
        }
        let all = u64::MAX;
        // SAFETY: the kernel reads a mask of eight bytes.
        unsafe { syscall6(RT_SIGPROCMASK, SIG_SETMASK, (&raw const all).addr(), 0, 8, 0, 0) };
        assert_eq!(signal::queue(syscall::getpid(), syscall::gettid(), info), 0, "one's own signals can be sent again");
        // The outermost of several is the last to come here.
        // SAFETY: these words are the thread's alone, and what was interrupted reads them later.
        unsafe { ((*area).mask, (*area).blocked) = (context.mask, 1) };
        context.mask = all;
        false
    }

    /// The program's registers where a signal struck.
    fn struck(&self, program: &mut signal::Context, area: &Area) -> Context {
        let found = program_of(program);
        let mut now = found;
        match border::whereabouts(found.ip) {
            Where::Going | Where::Calling => return area.context,
            Where::Called => {
                now.ip = area.context.ip + 2;
                now.general[usize::from(Gpr::RCX.number())] = now.ip;
            }
            Where::Inside | Where::Elsewhere if self.contains(found.ip) => {
                // SAFETY: the thread is attached to this engine.
                let known = unsafe { self.recover(&mut now) };
                assert!(known, "each place of the cache is known");
            }
            Where::Inside | Where::Elsewhere => {
                if self.may_run(found.ip) {
                    self.host.escaped(found.ip);
                }
            }
        }
        now
    }

    /// Ends the process by a signal that the program leaves to the kernel. On the thread's stack of ours.
    pub(crate) unsafe extern "C" fn die(
        number: i32,
        info: *const Info,
        context: *mut signal::Context,
        area: *mut Area,
    ) -> ! {
        // SAFETY: the kernel's frame, which nothing returns to; the area is the thread's, and names its engine.
        let (info, program, area, engine) =
            unsafe { (&*info, &mut *context, &mut *area, &*(*area).engine.cast::<Self>()) };
        syscall::set_signal_mask(u64::MAX);
        area.context = engine.struck(program, area);
        engine.host.process_dies();
        relive_sys::outside::as_if_unhandled(number as u32);
        signal::queue(syscall::getpid(), syscall::gettid(), info);
        syscall::set_signal_mask(!(1 << (number - 1)));
        // Not reached: what is pending strikes as soon as it may.
        syscall::exit_group(128 + number as u32)
    }

    /// Lets the thread go on in the handler of the program. On the thread's stack of ours.
    pub(crate) unsafe extern "C" fn take_signal(
        number: i32,
        info: *mut Info,
        context: *mut signal::Context,
        frame: u64,
        area: *mut Area,
    ) {
        // SAFETY: the kernel's frame; the area is the thread's, and names the engine that it was attached to.
        let (program, area, engine) = unsafe { (&mut *context, &mut *area, &*(*area).engine.cast::<Self>()) };
        let place = program.place() as u64;
        let now = engine.struck(program, area);
        give_program(program, &now);
        // SAFETY: the kernel's information, on the same frame.
        let told = unsafe { &mut *info };
        // Of some faults the address is that of the instruction.
        if told.code > 0 && is_fault(number) && told.address() as u64 == place {
            told.set_address(now.ip as usize);
        }
        let handler = engine.process.handlers[number as usize].load(Ordering::Acquire) as u64;
        area.context = Context { flags: FLAGS, ..Context::default() };
        area.set_general(Gpr::RDI, number as u64);
        area.set_general(Gpr::RSI, info.addr() as u64);
        area.set_general(Gpr::RDX, context.addr() as u64);
        area.set_general(Gpr::RSP, frame);
        engine.find(area, handler, None);
    }
}

/// What the kernel is told for a signal that the program leaves to it.
fn fatal_of(wanted: &[usize; ACTION_WORDS]) -> [usize; ACTION_WORDS] {
    let [_, flags, restorer, mask] = *wanted;
    // Nothing returns from there, so the word may say whether the program gave one.
    let restorer = if flags & SA_RESTORER == 0 { border::fatal() } else { restorer };
    [border::fatal(), flags | SA_SIGINFO | SA_RESTORER | SA_ONSTACK, restorer, mask]
}

/// What the program finds of that.
fn default_of(ours: &[usize; ACTION_WORDS]) -> [usize; ACTION_WORDS] {
    let [_, flags, restorer, mask] = *ours;
    let flags = flags & !(SA_SIGINFO | SA_ONSTACK);
    if restorer == border::fatal() {
        [SIG_DFL, flags & !SA_RESTORER, 0, mask]
    } else {
        [SIG_DFL, flags, restorer, mask]
    }
}

fn is_fatal(number: usize) -> bool {
    FATAL >> (number - 1) & 1 != 0
}

/// What the kernel's context says of registers.
fn program_of(context: &mut signal::Context) -> Context {
    let mut program = Context { ip: context.place() as u64, flags: *context.flags_register(), ..Context::default() };
    for (number, register) in program.general.iter_mut().enumerate() {
        *register = *context.operand(number);
    }
    program
}

fn give_program(context: &mut signal::Context, program: &Context) {
    for (number, register) in program.general.iter().enumerate() {
        *context.operand(number) = *register;
    }
    *context.flags_register() = program.flags;
    context.set_place(program.ip as usize);
}

/// Whether an instruction raises the signal.
fn is_fault(number: i32) -> bool {
    const SIGILL: i32 = 4;
    const SIGTRAP: i32 = 5;
    const SIGBUS: i32 = 7;
    const SIGFPE: i32 = 8;
    const SIGSEGV: i32 = 11;
    const SIGSYS: i32 = 31;
    matches!(number, SIGILL | SIGTRAP | SIGBUS | SIGFPE | SIGSEGV | SIGSYS)
}
