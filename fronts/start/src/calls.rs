//! The loader's system calls: where the kernel would choose an address, we do, and
//! files that it names are those of the recording.
//!
//! Everything else passes. The preloaded library ends this before it begins with
//! its own; if it is not loaded, what can't be done from within a handler ends it.

use crate::files;
use crate::kernel;
use crate::leave;
use crate::outside;
use core::ffi::CStr;
use relive_sys::dispatch::{self, SYS_USER_DISPATCH};
use relive_sys::signal::{Context, Info};
use relive_sys::start::{AREA, HANDOVER, Handover};
use relive_sys::syscall::number::{
    ACCESS, BRK, CLONE, CLONE3, EXECVE, EXECVEAT, FACCESSAT, FACCESSAT2, FORK, FSTAT, GETRLIMIT, LSTAT, MMAP,
    NEWFSTATAT, OPEN, OPENAT, PRLIMIT64, READLINK, READLINKAT, RSEQ, RT_SIGRETURN, STAT, STATX, VFORK,
};
use relive_sys::syscall::syscall6;

const ENOSYS: isize = -38;
const PAGE: usize = 4096;
const PROT_EXEC: usize = 4;
const MAP_SHARED: usize = 1;
const MAP_FIXED: usize = 0x10;
const MAP_ANONYMOUS: usize = 0x20;
const MAP_FIXED_NOREPLACE: usize = 0x10_0000;
const RLIMIT_STACK: usize = 3;
/// `syscall`.
const INSTRUCTION_BYTES: usize = 2;

/// From here on calls come here. A kernel that can't do that chooses addresses itself, and the runtime will say so.
pub(crate) fn start() {
    kernel::let_through();
    if dispatch::install(on_call) {
        dispatch::arm();
    }
}

unsafe extern "C" fn on_call(_signal: i32, info: *mut Info, context: *mut Context) {
    // SAFETY: the kernel's information and context; the handover was laid before this was armed, and one thread runs.
    unsafe {
        let (context, handover) = (&mut *context, &mut *(HANDOVER as *mut Handover));
        if (*info).code != SYS_USER_DISPATCH {
            return;
        }
        let number = context.number();
        if (*info).is_of_gate() || matches!(number, CLONE | CLONE3 | FORK | VFORK | EXECVE | EXECVEAT | RT_SIGRETURN) {
            dispatch::disarm();
            context.set_place(context.place() - INSTRUCTION_BYTES);
            return;
        }
        context.set_result(call(number, context.arguments(), handover));
    }
}

/// # Safety
/// As for the call itself.
unsafe fn call(number: usize, arguments: [usize; 6], handover: &mut Handover) -> isize {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    // SAFETY: the caller's promise.
    unsafe {
        match number {
            OPEN | ACCESS | STAT | LSTAT => files::by_name(number, 0, arguments, handover),
            FSTAT => files::by_descriptor(arguments),
            OPENAT | FACCESSAT | FACCESSAT2 | NEWFSTATAT | STATX => files::by_name(number, 1, arguments, handover),
            MMAP => {
                let chosen = fourth & (MAP_FIXED | MAP_FIXED_NOREPLACE) != 0;
                let at = if chosen {
                    syscall6(number, first, second, third, fourth, fifth, sixth)
                } else {
                    map(arguments, handover)
                };
                if at > 0 && third & PROT_EXEC != 0 && fourth & (MAP_ANONYMOUS | MAP_SHARED) == 0 {
                    outside::mapped(handover.places, at as usize..at as usize + second, fifth as u32, sixth);
                }
                at
            }
            BRK => handover.end_of_data.set(first) as isize,
            READLINK if is_own_file(first) => copy_name(second, third),
            READLINKAT if is_own_file(second) => copy_name(third, fourth),
            RSEQ => ENOSYS,
            PRLIMIT64 if [first, second, third] == [0, RLIMIT_STACK, 0] => stack_limit(fourth, handover),
            GETRLIMIT if first == RLIMIT_STACK => stack_limit(second, handover),
            _ => syscall6(number, first, second, third, fourth, fifth, sixth),
        }
    }
}

unsafe fn map(arguments: [usize; 6], handover: &mut Handover) -> isize {
    const EEXIST: isize = -17;
    if let Some(found) = files::own_place(&arguments) {
        return found;
    }
    let [_, length, protection, flags, fd, offset] = arguments;
    let bytes = length.div_ceil(PAGE).saturating_mul(PAGE);
    loop {
        let Some(at) = handover.lowest.checked_sub(bytes).filter(|&at| at >= AREA.start) else {
            // SAFETY: the caller's promise. There is no room, or no length: the kernel knows the error.
            return unsafe { syscall6(MMAP, 0, length, protection, flags, fd, offset) };
        };
        // SAFETY: the caller's promise.
        let found = unsafe { syscall6(MMAP, at, length, protection, flags | MAP_FIXED_NOREPLACE, fd, offset) };
        if found == EEXIST {
            handover.lowest -= PAGE;
            continue;
        }
        if found > 0 {
            handover.lowest = at;
        }
        return found;
    }
}

/// The stacks of threads depend on the limit, too.
unsafe fn stack_limit(into: usize, handover: &Handover) -> isize {
    // SAFETY: the caller's promise: room for two words.
    unsafe {
        let result = syscall6(PRLIMIT64, 0, RLIMIT_STACK, 0, into, 0, 0);
        if result == 0 && into != 0 {
            let limits = &mut *(into as *mut [usize; 2]);
            *limits = [handover.stack, limits[1].max(handover.stack)];
        }
        result
    }
}

unsafe fn is_own_file(path: usize) -> bool {
    // SAFETY: the loader passed a string.
    path != 0 && unsafe { CStr::from_ptr(path as *const _) } == c"/proc/self/exe"
}

unsafe fn copy_name(into: usize, room: usize) -> isize {
    // SAFETY: the loader's buffer; the handover's string.
    unsafe {
        let name = leave::file().to_bytes();
        let length = name.len().min(room);
        core::ptr::copy_nonoverlapping(name.as_ptr(), into as *mut u8, length);
        length as isize
    }
}
