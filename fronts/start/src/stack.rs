//! The first thread's stack, laid out as the kernel does it, at an address that
//! depends on nothing but arguments, environment and program.

use crate::arguments::Passed;
use crate::fail;
use crate::files::Told;
use crate::kernel::find;
use crate::leave;
use crate::load::Program;
use crate::scratch::map;
use core::arch::asm;
use core::ffi::{CStr, c_char};
use relive_sys::start::{AT_HANDOVER, Handover, STACK_END, STACK_MAX, TOLD};

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
const READ_WRITE: usize = 3;
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

unsafe fn text<'a>(pointer: *const c_char) -> &'a CStr {
    // SAFETY: the caller's promise: a string of the arguments or the environment.
    unsafe { CStr::from_ptr(pointer) }
}

fn map_stack(limit: usize, used: usize, executable: bool) {
    let limit = if limit > isize::MAX as usize { UNLIMITED } else { limit };
    let protection = if executable { READ_WRITE | PROT_EXEC } else { READ_WRITE };
    let least = (used + LEAST).next_multiple_of(PAGE);
    let mut bytes = limit.min(STACK_MAX).next_multiple_of(PAGE).max(least);
    loop {
        let (start, flags) = (STACK_END - bytes, MAP_GROWSDOWN | MAP_STACK);
        let found = map(start, bytes, flags, protection);
        if found == start as isize {
            // It ends here even if it may grow by the limit that holds now.
            map(start - PAGE, PAGE, 0, 0);
            return;
        }
        if bytes == least {
            fail(c"the program", "its stack can't be mapped", found);
        }
        // The whole address space may be limited, too.
        bytes = (bytes / 2).next_multiple_of(PAGE).max(least);
    }
}

/// Where the strings are.
struct Texts {
    values: [(usize, usize); 4],
    /// Arguments from the first boundary to the second, environment from there to the third.
    boundaries: [usize; 3],
}

/// Writes from the tables' start up.
struct Up {
    at: *mut usize,
}

impl Up {
    /// # Safety
    /// The tables must have room.
    unsafe fn put(&mut self, word: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            self.at.write(word);
            self.at = self.at.add(1);
        }
    }
}

/// The entries of the environment that stand on the stack.
fn own<'a>(passed: &Passed) -> impl DoubleEndedIterator<Item = &'a CStr> + use<'a> {
    // SAFETY: strings of the environment, which stay until the program runs.
    let texts = passed.environment.iter().map(|&entry| unsafe { text(entry) });
    texts.filter(|entry| !leave::is_session(entry))
}

/// Makes the stack of a program.
///
/// # Safety
/// What was passed must be ours still.
pub(crate) unsafe fn build(passed: &Passed, program: &Program, handover: &Handover, told: &Told) -> Stack {
    // SAFETY: the caller's promise, for each string; the writes go where the stack has just been mapped.
    unsafe {
        let strings = passed.arguments.iter().chain(passed.environment);
        let words = passed.arguments.len() + passed.environment.len() + 2 * ENTRIES + 64;
        let used = strings.map(|&s| text(s).to_bytes_with_nul().len()).sum::<usize>() + words * size_of::<usize>();
        map_stack(passed.stack, used + 2 * leave::PATH_MAX, program.stack_executable);
        let mut down = Down { at: STACK_END - size_of::<usize>() };
        let texts = put_texts(passed, &mut down);
        let preload = handover.session.iter().find(|&&entry| !entry.is_null() && leave::is_preload(text(entry)));
        let entries = own(passed).count() + usize::from(preload.is_some());
        let tables = (1 + passed.arguments.len() + 1 + entries + 1) * size_of::<usize>();
        let pointer = (down.at - tables - ENTRIES * size_of::<[usize; 2]>()) & !15;
        let mut up = Up { at: pointer as *mut usize };
        up.put(passed.arguments.len());
        let mut next = texts.boundaries[0];
        let mut each = |up: &mut Up, string: &CStr| {
            up.put(next);
            next += string.to_bytes_with_nul().len();
        };
        passed.arguments.iter().for_each(|&argument| each(&mut up, text(argument)));
        up.put(0);
        own(passed).for_each(|entry| each(&mut up, entry));
        if let Some(entry) = preload {
            up.put(entry.addr());
        }
        up.put(0);
        let auxiliary = up.at.addr();
        put_auxiliary(passed, (program, handover), told, &texts, &mut up);
        let [start, middle, end] = texts.boundaries;
        let (arguments, environment) = ([start, middle], [middle, end]);
        Stack { pointer, arguments, environment, auxiliary, auxiliary_bytes: up.at.addr() - auxiliary }
    }
}

unsafe fn put_texts(passed: &Passed, down: &mut Down) -> Texts {
    // SAFETY: the caller's promise: strings of the kernel's and our own.
    unsafe {
        let name = down.text(passed.name);
        let mut platform = |kind| find(passed, kind).map_or(0, |p| down.text(text(p as *const c_char)));
        let platforms = [platform(AT_PLATFORM), platform(AT_BASE_PLATFORM)];
        let random = down.bytes(&passed.random);
        let end = down.at;
        own(passed).rev().for_each(|entry| _ = down.text(entry));
        let middle = down.at;
        passed.arguments.iter().rev().for_each(|&argument| _ = down.text(text(argument)));
        let [platform, base_platform] = platforms;
        let values =
            [(AT_EXECFN, name), (AT_PLATFORM, platform), (AT_BASE_PLATFORM, base_platform), (AT_RANDOM, random)];
        Texts { values, boundaries: [down.at, middle, end] }
    }
}

unsafe fn put_auxiliary(
    passed: &Passed,
    (program, handover): (&Program, &Handover),
    told: &Told,
    texts: &Texts,
    up: &mut Up,
) {
    let mapped = [
        (AT_PHDR, program.own.headers[0]),
        (AT_PHNUM, program.own.headers[1]),
        (AT_BASE, program.loader.bias),
        (AT_ENTRY, program.own.entry),
    ];
    let told = || told.iter().take_while(|entry| entry[0] != 0).map(|entry| entry.map(|word| word as usize));
    let instead = |kind: usize| told().next().is_some() && TOLD.contains(&(kind as u64));
    let mut entry = passed.auxiliary;
    let mut left = ENTRIES - 2 - told().count();
    // SAFETY: the caller's promise: our copy of the kernel's vector, and room for as many entries as are counted.
    unsafe {
        while (*entry)[0] != AT_NULL && left > 0 {
            let [kind, given] = *entry;
            let known = mapped.iter().chain(&texts.values).find(|(known, _)| *known == kind);
            let recorded = told().find(|entry| entry[0] == kind).map(|entry| entry[1]);
            if kind != AT_IGNORE && (recorded.is_some() || !instead(kind)) {
                up.put(kind);
                up.put(recorded.or(known.map(|&(_, value)| value)).unwrap_or(given));
                left -= 1;
            }
            entry = entry.add(1);
        }
        // What this machine's kernel doesn't tell.
        for [kind, value] in told().filter(|told| find(passed, told[0]).is_none()) {
            up.put(kind);
            up.put(value);
        }
        for word in [AT_HANDOVER, core::ptr::from_ref(handover).addr(), AT_NULL, 0] {
            up.put(word);
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
