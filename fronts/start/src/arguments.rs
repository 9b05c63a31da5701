//! What the kernel laid on the stack: our arguments, the environment, the
//! auxiliary vector.
//!
//! The command line is `STARTER OPTIONS FILE NAME ARGUMENT…`: the file to run, the
//! name that it is run by (`AT_EXECFN`) and its arguments from `argv[0]` on. The
//! options are 32 hexadecimal digits, the program's random bytes, and in decimal
//! the limit of its stack: the kernel's own may be lower in a replay. A `g` behind
//! them says that a debugger started us: then the environment stands in front of
//! the file, ended by `--`, and behind `argv[0]` stands what the debugger added
//! for it.

use crate::fail;
use crate::scratch::Scratch;
use core::ffi::{CStr, c_char};
use relive_sys::start;

const AT_EXECFN: usize = 31;
const PAGE: usize = 4096;

/// Digits of the random bytes.
pub(crate) const OPTION_DIGITS: usize = 32;

type Text = *const c_char;

/// What we were given, with nothing left on the kernel's stack.
#[derive(Debug)]
pub(crate) struct Passed {
    /// Our own path.
    pub(crate) starter: &'static CStr,
    pub(crate) options: &'static CStr,
    /// `AT_RANDOM`.
    pub(crate) random: [u8; 16],
    /// The limit of the stack.
    pub(crate) stack: usize,
    /// A debugger waits to be told when the program is there.
    pub(crate) debugger: bool,
    /// The file to run.
    pub(crate) file: &'static CStr,
    /// The name that it is run by.
    pub(crate) name: &'static CStr,
    pub(crate) arguments: &'static [Text],
    pub(crate) environment: &'static [Text],
    /// Ended by an entry of type 0.
    pub(crate) auxiliary: *mut [usize; 2],
}

/// Copies what the kernel laid out and makes its pointers point into the copy.
///
/// # Safety
/// `passed` must be the stack pointer that the kernel started us with.
pub(crate) unsafe fn copy(passed: *const usize, scratch: &mut Scratch) -> *mut usize {
    // SAFETY: the caller's promise: counts, pointers and strings as the ABI says.
    unsafe {
        let (environment, auxiliary) = tables(passed);
        let name = start::find(auxiliary, AT_EXECFN).unwrap_or(auxiliary.addr());
        let last = CStr::from_ptr(name as Text).to_bytes_with_nul().len() + name;
        let bytes = last.next_multiple_of(PAGE) - passed.addr();
        let copy = scratch.take(bytes);
        core::ptr::copy_nonoverlapping(passed.cast::<u8>(), copy, bytes);
        let moved = |address: usize| address - passed.addr() + copy.addr();
        let here = copy.cast::<usize>();
        let words = (auxiliary.addr() - passed.addr()) / size_of::<usize>();
        for index in 1..words {
            let word = here.add(index);
            if *word != 0 {
                *word = moved(*word);
            }
        }
        let mut entry = moved(auxiliary.addr()) as *mut [usize; 2];
        while (*entry)[0] != 0 {
            if (passed.addr()..last).contains(&(*entry)[1]) {
                (*entry)[1] = moved((*entry)[1]);
            }
            entry = entry.add(1);
        }
        debug_assert!(environment.addr() > passed.addr());
        here
    }
}

/// Environment and auxiliary vector behind the arguments.
unsafe fn tables(passed: *const usize) -> (*const Text, *const [usize; 2]) {
    // SAFETY: the caller's promise.
    unsafe {
        let environment = passed.add(*passed + 2).cast::<Text>();
        let mut end = environment;
        while !(*end).is_null() {
            end = end.add(1);
        }
        (environment, end.add(1).cast())
    }
}

impl Passed {
    /// # Safety
    /// `passed` must be what [`copy`] made.
    pub(crate) unsafe fn read(passed: *mut usize) -> Self {
        // SAFETY: the caller's promise; strings and tables stay until the program runs.
        unsafe {
            let (environment, auxiliary) = tables(passed);
            let count = (auxiliary.addr() - environment.addr()) / size_of::<usize>() - 1;
            let environment = core::slice::from_raw_parts(environment, count);
            let words = core::slice::from_raw_parts_mut(passed.add(1).cast::<Text>(), *passed);
            let [_, options, rest @ ..] = words else { usage() };
            let starter = start::find(auxiliary, AT_EXECFN).map_or(c"", |name| CStr::from_ptr(name as Text));
            let options = CStr::from_ptr(*options);
            let (random, stack, debugger) = read_options(options.to_bytes()).unwrap_or_else(|| usage());
            let (environment, rest) = if debugger { from_debugger(rest) } else { (environment, &*rest) };
            let [file, name, arguments @ ..] = rest else { usage() };
            let (file, name) = (CStr::from_ptr(*file), CStr::from_ptr(*name));
            let auxiliary = auxiliary.cast_mut();
            Self { starter, options, random, stack, debugger, file, name, arguments, environment, auxiliary }
        }
    }
}

fn usage() -> ! {
    fail(c"without a program", "this is a part of relive that relive itself starts", 0)
}

fn read_options(text: &[u8]) -> Option<([u8; 16], usize, bool)> {
    let (digits, rest) = text.split_at_checked(OPTION_DIGITS)?;
    let mut random = [0; 16];
    for (byte, pair) in random.iter_mut().zip(digits.chunks_exact(2)) {
        for &digit in pair {
            *byte = *byte << 4 | (digit as char).to_digit(16)? as u8;
        }
    }
    let (rest, debugger) = rest.strip_suffix(b"g").map_or((rest, false), |rest| (rest, true));
    let decimal =
        |value: usize, &digit: &u8| value.checked_mul(10)?.checked_add((digit as char).to_digit(10)? as usize);
    let stack = rest.iter().try_fold(0, decimal).filter(|_| !rest.is_empty())?;
    Some((random, stack, debugger))
}

/// # Safety
/// The words must be our arguments behind the options.
unsafe fn from_debugger(words: &'static mut [Text]) -> (&'static [Text], &'static [Text]) {
    // SAFETY: the caller's promise.
    let end = words.iter().position(|&word| unsafe { CStr::from_ptr(word) } == c"--").unwrap_or_else(|| usage());
    let (environment, rest) = words.split_at_mut(end);
    if rest.len() < 5 {
        usage();
    }
    // File, name and `argv[0]` move up over what the debugger added for the last one.
    rest.copy_within(1..4, 2);
    (environment, &rest[2..])
}
