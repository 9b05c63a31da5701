//! The first thread's stack, laid out as the kernel does it, at an address that
//! depends on nothing but arguments, environment and program.

use crate::arguments::Passed;
use crate::kernel::find;
use crate::leave;
use crate::load::{Mapped, Program};
use crate::scratch::{map, need};
use core::arch::asm;
use core::ffi::{CStr, c_char};
use relive_sys::start::{AT_HANDOVER, Handover, STACK_END, STACK_MAX};
use relive_sys::syscall::number::PRLIMIT64;
use relive_sys::syscall::syscall6;

const AT_NULL: usize = 0;
const AT_IGNORE: usize = 1;
const AT_PHDR: usize = 3;
const AT_PHNUM: usize = 5;
const AT_BASE: usize = 7;
const AT_ENTRY: usize = 9;
const AT_PLATFORM: usize = 15;
const AT_BASE_PLATFORM: usize = 24;
const AT_RANDOM: usize = 25;
const AT_EXECFN: usize = 31;

const PAGE: usize = 4096;
const PROT_EXEC: usize = 4;
const MAP_GROWSDOWN: usize = 0x100;
const MAP_STACK: usize = 0x2_0000;
/// Entries of the auxiliary vector: kernels have different ones, which must not move what lies below.
const ENTRIES: usize = 48;
/// A stack without limit gets so much.
const UNLIMITED: usize = 1 << 30;
/// What a program has beyond its arguments, however small the limit is.
const LEAST: usize = 128 << 10;

/// A stack that is laid out.
#[derive(Debug)]
pub(crate) struct Stack {
    pub(crate) pointer: usize,
    /// Start and end of the strings.
    pub(crate) arguments: [usize; 2],
    pub(crate) environment: [usize; 2],
    pub(crate) auxiliary: usize,
    /// With the entry that ends it.
    pub(crate) auxiliary_bytes: usize,
}

/// Writes from the end of the stack down.
struct Down {
    at: usize,
}

impl Down {
    fn bytes(&mut self, bytes: &[u8]) -> usize {
        self.at -= bytes.len();
        // SAFETY: the stack was mapped with room for everything.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at as *mut u8, bytes.len()) };
        self.at
    }

    fn text(&mut self, text: &CStr) -> usize {
        self.bytes(text.to_bytes_with_nul())
    }
}

fn limit() -> usize {
    const RLIMIT_STACK: usize = 3;
    let mut limit = [0usize; 2];
    // SAFETY: without a new limit only the old one, two words, is written.
    unsafe { syscall6(PRLIMIT64, 0, RLIMIT_STACK, 0, limit.as_mut_ptr().addr(), 0, 0) };
    if limit[0] > isize::MAX as usize { UNLIMITED } else { limit[0] }
}

unsafe fn text<'a>(pointer: *const c_char) -> &'a CStr {
    // SAFETY: the caller's promise: a string of the arguments or the environment.
    unsafe { CStr::from_ptr(pointer) }
}

fn map_stack(used: usize, executable: bool) {
    let bytes = limit().max(used + LEAST).min(STACK_MAX).next_multiple_of(PAGE);
    let start = STACK_END - bytes;
    let flags = MAP_GROWSDOWN | MAP_STACK;
    if executable {
        map(start, bytes, flags, PROT_EXEC | 3);
    } else {
        need(start, bytes, flags);
    }
    // It ends here even if it may grow by the limit that holds now.
    map(start - PAGE, PAGE, 0, 0);
}

/// Makes the stack of a program.
///
/// # Safety
/// What was passed must be ours still.
pub(crate) unsafe fn build(passed: &Passed, program: &Program, loader: &Mapped, handover: &Handover) -> Stack {
    // SAFETY: the caller's promise, for each string; the writes go where the stack has just been mapped.
    unsafe {
        let strings = || passed.arguments.iter().chain(passed.environment);
        let words = passed.arguments.len() + passed.environment.len() + 2 * ENTRIES + 64;
        let used: usize = strings().map(|&s| text(s).to_bytes_with_nul().len()).sum::<usize>()
            + words * size_of::<usize>()
            + 2 * leave::PATH_MAX;
        map_stack(used, program.stack_executable);
        let mut down = Down { at: STACK_END - size_of::<usize>() };
        let name = down.text(passed.name);
        let platform = find(passed, AT_PLATFORM).map(|p| down.text(text(p as *const c_char)));
        let base_platform = find(passed, AT_BASE_PLATFORM).map(|p| down.text(text(p as *const c_char)));
        let random = down.bytes(&passed.random);
        let own = || passed.environment.iter().filter(|&&entry| !leave::is_session(text(entry)));
        let end_of_environment = down.at;
        for &entry in own().rev() {
            down.text(text(entry));
        }
        let end_of_arguments = down.at;
        for &argument in passed.arguments.iter().rev() {
            down.text(text(argument));
        }
        let start_of_arguments = down.at;
        let preloads = || passed.environment.iter().any(|&entry| leave::is_preload(text(entry)));
        let entries = own().count() + usize::from(preloads());
        let tables = 1 + passed.arguments.len() + 1 + entries + 1;
        let auxiliary = (down.at & !15) - ENTRIES * 16;
        let pointer = (auxiliary - tables * size_of::<usize>()) & !15;
        // Behind a gap that keeps the alignment, above nothing: the tables stand without one.
        let auxiliary = pointer + tables * size_of::<usize>();
        let mut at = pointer as *mut usize;
        let mut put = |word: usize| {
            at.write(word);
            at = at.add(1);
        };
        put(passed.arguments.len());
        let mut next = start_of_arguments;
        for &argument in passed.arguments {
            put(next);
            next += text(argument).to_bytes_with_nul().len();
        }
        put(0);
        for &entry in own() {
            put(next);
            next += text(entry).to_bytes_with_nul().len();
        }
        if let Some(&entry) = handover.session.iter().find(|&&e| !e.is_null() && leave::is_preload(text(e))) {
            put(entry.addr());
        }
        put(0);
        let values = [
            (AT_PHDR, program.own.headers[0]),
            (AT_PHNUM, program.own.headers[1]),
            (AT_BASE, loader.bias),
            (AT_ENTRY, program.own.entry),
            (AT_PLATFORM, platform.unwrap_or(0)),
            (AT_BASE_PLATFORM, base_platform.unwrap_or(0)),
            (AT_RANDOM, random),
            (AT_EXECFN, name),
        ];
        let mut entry = passed.auxiliary;
        let mut count = 0;
        while (*entry)[0] != AT_NULL && count + 2 < ENTRIES {
            let [kind, given] = *entry;
            let value = values.iter().find(|(known, _)| *known == kind).map_or(given, |&(_, value)| value);
            if kind != AT_IGNORE {
                put(kind);
                put(value);
                count += 1;
            }
            entry = entry.add(1);
        }
        put(AT_HANDOVER);
        put(core::ptr::from_ref(handover).addr());
        put(AT_NULL);
        put(0);
        Stack {
            pointer,
            arguments: [start_of_arguments, end_of_arguments],
            environment: [end_of_arguments, end_of_environment],
            auxiliary,
            auxiliary_bytes: (count + 2) * 16,
        }
    }
}

impl Stack {
    /// Lets the loader run.
    ///
    /// # Safety
    /// Everything must be laid out.
    pub(crate) unsafe fn enter(&self, entry: usize, debugger: bool) -> ! {
        // SAFETY: the caller's promise: the state in which the kernel lets a program start. A debugger takes the trap for
        // the start of the program.
        unsafe {
            if debugger {
                asm!("int3", options(nostack));
            }
            asm!("mov rsp, {pointer}", "xor edx, edx", "xor ebp, ebp", "jmp {entry}", pointer = in(reg) self.pointer,
                entry = in(reg) entry, options(noreturn));
        }
    }
}
