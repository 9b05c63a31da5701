//! System calls of a process that is translated as a whole.
//!
//! Apart because here stands which calls matter to the translator, and what becomes
//! of the rest: the kernel gets them with the program's registers, from a place of
//! our own library (`crossing/border.rs`), so that a signal which arrives meanwhile
//! finds the program before or behind its call.

use crate::area::Area;
use crate::crossing::border;
use crate::engine::Engine;
use crate::host::Host;
use crate::process::mappings::PKEY_MPROTECT;
use crate::register::Gpr;
use crate::tool::Tool;
use crate::translate::WayOut;
use relive_sys::signal::is_own_code;
use relive_sys::syscall::number::{
    CLONE, CLONE3, EXIT, EXIT_GROUP, FORK, MMAP, MPROTECT, MREMAP, MUNMAP, PRCTL, RT_SIGACTION, RT_SIGRETURN, SHMAT,
    VFORK,
};

const ARCH_PRCTL: usize = 158;
const ARCH_SET_GS: u64 = 0x1001;
const ARCH_GET_GS: u64 = 0x1004;
const PR_SET_SYSCALL_USER_DISPATCH: u64 = 59;
const EPERM: i64 = -1;
/// Bytes of the instruction.
pub(crate) const SYSCALL_BYTES: u64 = 2;

/// Calls `function` with `data` natively, on the thread's own stack of ours, with every signal put off: for what is too
/// slow translated, or may not be interrupted. It may not panic, wait for another translated thread, or come here again.
/// A thread that runs natively because code of it can't be translated is translated again behind it.
///
/// # Panics
/// If the process is not translated.
pub fn native(function: extern "C" fn(usize), data: usize) {
    // SAFETY: the number means nothing to the kernel.
    let done = unsafe { border::native(function, data) };
    assert_eq!(done, 0, "the process is translated");
}

/// An argument's register.
const ARGUMENTS: [Gpr; 6] = [Gpr::RDI, Gpr::RSI, Gpr::RDX, Gpr::R10, Gpr::R8, Gpr::R9];

impl Area {
    pub(super) fn argument(&self, index: usize) -> u64 {
        self.context.general[usize::from(ARGUMENTS[index].number())]
    }

    pub(super) fn set_general(&mut self, register: Gpr, value: u64) {
        self.context.general[usize::from(register.number())] = value;
    }
}

impl<H: Host, T: Tool> Engine<H, T> {
    /// The thread is at the system call that left by `out`; `copy` is the instruction in the cache.
    pub(crate) fn system_call(&self, area: &mut Area, out: &WayOut, copy: u64) {
        area.context.ip = out.ip;
        if area.dispatched && !is_own_code(out.ip as usize) {
            // The kernel hands it back as SIGSYS, as it would natively.
            area.target = copy;
            return;
        }
        let number = area.context.general[0] as usize;
        match number {
            RT_SIGACTION => {
                if let Some(result) = self.action(area) {
                    return self.answer(area, out, result);
                }
            }
            // SAFETY: the program's own call, by which its handler ends.
            RT_SIGRETURN => unsafe { self.end_of_handler(area) },
            CLONE | CLONE3 | FORK | VFORK => {
                let result = self.make_child(area, out, number);
                return self.answer(area, out, result);
            }
            EXIT => self.end_thread(area),
            EXIT_GROUP => self.host.process_ends(),
            PRCTL if area.argument(0) == PR_SET_SYSCALL_USER_DISPATCH => area.dispatched = area.argument(1) != 0,
            ARCH_PRCTL if matches!(area.argument(0), ARCH_SET_GS | ARCH_GET_GS) => {
                return self.answer(area, out, EPERM);
            }
            MMAP | MUNMAP | MPROTECT | PKEY_MPROTECT | MREMAP | SHMAT => {
                if let Some(result) = self.change_mapping(number, area) {
                    return self.answer(area, out, result);
                }
            }
            _ => {}
        }
        area.after = copy + SYSCALL_BYTES;
        area.target = border::kernel();
    }

    /// The call is made: the program goes on behind it.
    fn answer(&self, area: &mut Area, out: &WayOut, result: i64) {
        area.set_general(Gpr::RAX, result as u64);
        // What the processor leaves there.
        area.set_general(Gpr::RCX, out.target);
        area.set_general(Gpr::R11, area.context.flags);
        self.find(area, out.target, None);
    }
}
