//! The process runs translated, by `relive-dbi`, from the end of our constructor on.
//!
//! Apart because nothing else of the runtime knows whether it does: the runtime and
//! the fronts are translated like the program, whose system calls, signals and
//! threads mean what they meant. The tool is the one that notes accesses where races
//! are looked for, and none elsewhere.

mod noting;

use crate::allocator;
use crate::link::FromEnvironment;
use crate::races;
use crate::report;
use crate::runtime::{self, Mode};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use relive_dbi::{AREA_BYTES, Engine, Error, Host, Memory, Plain, Reserve, Tool, data_bytes, read_own_memory};
use relive_sys::syscall::{self, number::MPROTECT, syscall6};
use relive_trace::control::flag;

pub(crate) use noting::{
    covers, forget, is_in_file, is_of_openmp, is_of_runtime, lines_of, look, look_anew, may_keep, memory_for_others,
    not_told, passes, registers, touched, touched_lines, unknown,
};
pub(crate) use relive_dbi::Elsewhere;

/// Room for the code of large programs; only what is used is touched.
const CODE_BYTES: usize = 256 << 20;
const READ_WRITE_EXECUTE: usize = 7;

/// Places that ran natively.
static LOST: AtomicU64 = AtomicU64::new(0);
static ESCAPED: AtomicU64 = AtomicU64::new(0);

/// The process that is translated.
struct Process;

impl Host for Process {
    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        read_own_memory(address, into)
    }

    fn is_outside(&self, _address: u64) -> bool {
        false
    }

    fn thread_memory(&self, reserve: Reserve) -> Option<NonNull<u8>> {
        let start = map(reserve.before + AREA_BYTES + reserve.behind)?;
        // SAFETY: within the mapping, whose parts are multiples of 64.
        Some(unsafe { start.add(reserve.before) })
    }

    fn thread_ends(&self, _memory: NonNull<u8>) {
        races::thread_ends();
    }

    fn process_ends(&self) {
        races::process_ends();
    }

    fn process_dies(&self) {
        races::process_dies();
    }

    fn around_fork(&self, fork: &mut dyn FnMut()) {
        races::around_fork(&mut || allocator::around_fork(&mut *fork));
    }

    fn escaped(&self, _ip: u64) {
        ESCAPED.fetch_add(1, Ordering::Relaxed);
    }

    fn lost(&self, ip: u64, why: Error) {
        // A jump to nowhere ends in the fault that the program would have had.
        if matches!(why, Error::NotExecutable { .. } | Error::Unreadable { .. }) {
            return;
        }
        if LOST.fetch_add(1, Ordering::Relaxed) == 0 {
            report::line(format_args!("{why}: code at {ip:#x} runs natively"));
        }
    }
}

/// Parts of the program that ran natively, and how often a thread was found to have left the translator.
pub(crate) fn not_translated() -> [u64; 2] {
    [LOST.load(Ordering::Relaxed), ESCAPED.load(Ordering::Relaxed)]
}

fn map(bytes: usize) -> Option<NonNull<u8>> {
    let at = syscall::mmap(bytes, syscall::MAP_PRIVATE_ANONYMOUS, -1, 0);
    if at < 0 { None } else { NonNull::new(at as *mut u8) }
}

/// Memory for the engine.
fn memory() -> Option<Memory> {
    let code = map(CODE_BYTES)?;
    // SAFETY: the new mapping.
    let executable = unsafe { syscall6(MPROTECT, code.as_ptr().addr(), CODE_BYTES, READ_WRITE_EXECUTE, 0, 0, 0) == 0 };
    let data_bytes = data_bytes(CODE_BYTES);
    let data = map(data_bytes)?;
    executable.then_some(Memory { code, code_bytes: CODE_BYTES, data, data_bytes })
}

/// Whether this process is to be translated, because its environment says so or its session.
pub fn is_wanted(link: &FromEnvironment) -> bool {
    let in_session = runtime::process_mode() != Mode::Off;
    if in_session { runtime::has_flag(flag::TRANSLATED) } else { link.translate }
}

/// From the return of this call on, everything that the process does is translated. A process for which there is no
/// memory goes on natively, with a line that says so.
///
/// # Safety
/// Once, at start-up, in the first thread, which is the only one.
pub unsafe fn begin(dispatched: bool) {
    let has_memory = races::begin();
    // SAFETY: the caller's promise.
    let begun = unsafe {
        if !has_memory {
            Err(Error::Memory)
        } else if races::is_on() {
            noting::begin(dispatched)
        } else {
            engine(Plain).and_then(|engine| engine.begin(dispatched))
        }
    };
    if let Err(why) = begun {
        races::give_up();
        report::line(format_args!("the process runs natively: {why}"));
    }
}

/// An engine for the whole process, which stays.
fn engine<T: Tool + 'static>(tool: T) -> Result<&'static Engine<Process, T>, Error> {
    let place = map(size_of::<Engine<Process, T>>()).ok_or(Error::Memory)?.cast::<Engine<Process, T>>();
    // SAFETY: the mappings are new and nobody else's.
    unsafe {
        let engine = Engine::new(memory().ok_or(Error::Memory)?, Process, tool)?;
        place.write(engine.of_process());
        Ok(place.as_ref())
    }
}
