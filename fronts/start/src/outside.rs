//! Instructions of the loader, the program and the first libraries that read the
//! outside: made into traps when they are mapped, and answered here until the
//! preloaded library takes over.
//!
//! The processor is described by the session's table, so that the loader chooses
//! in a replay what it chose in the recording. The time that it sees goes on by
//! itself, alike in both: nothing is recorded yet.

use crate::arguments::Passed;
use core::ffi::CStr;
use core::mem::offset_of;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use relive_sys::frames::File;
use relive_sys::outside::{self, Answer, Kind, Places, SIGILL};
use relive_sys::processor::Leaf;
use relive_sys::signal::{Context, Info};
use relive_sys::start::{HANDOVER, Handover};
use relive_sys::syscall;
use relive_trace::control::{CONTROL_MAGIC, CPUID_LEAVES, Control, ENV_CONTROL, mode};

/// What lies between two times that the loader asks for.
const TICK: u64 = 1000;

/// From here on such instructions are changed, if the session has a table for them.
pub(crate) fn start(passed: &Passed) -> Option<&'static Places> {
    // SAFETY: strings of the environment.
    let mut entries = passed.environment.iter().map(|&entry| unsafe { CStr::from_ptr(entry) }.to_bytes_with_nul());
    let path = entries.find_map(|entry| entry.strip_prefix(ENV_CONTROL.as_bytes())?.strip_prefix(b"="))?;
    let fd = u32::try_from(syscall::open(path, syscall::O_RDONLY)).ok()?;
    let found = read(fd);
    syscall::close(fd);
    found
}

fn read(control: u32) -> Option<&'static Places> {
    let word = |offset: usize| {
        let mut bytes = [0; 4];
        (syscall::read_at(control, &mut bytes, offset as u64) == 4).then(|| u32::from_le_bytes(bytes))
    };
    let running = matches!(word(offset_of!(Control, mode))?, mode::RECORD | mode::REPLAY);
    let count = word(offset_of!(Control, cpuid.count))? as usize;
    if word(offset_of!(Control, magic))? != CONTROL_MAGIC as u32 || !running || count == 0 || count > CPUID_LEAVES {
        return None;
    }
    let mut leaves = [[0u32; 6]; CPUID_LEAVES];
    // SAFETY: plain numbers, seen as the bytes that they are.
    let bytes = unsafe { core::slice::from_raw_parts_mut(leaves.as_mut_ptr().cast::<u8>(), count * size_of::<Leaf>()) };
    if syscall::read_at(control, bytes, offset_of!(Control, cpuid.leaves) as u64) != bytes.len() as isize {
        return None;
    }
    let places = Places::own()?;
    // SAFETY: the starter has one thread.
    unsafe { places.set_leaves(&leaves[..count]) };
    outside::install(SIGILL, 0, on_trap).then_some(places)
}

/// Changes what was just mapped, if it is code.
///
/// # Safety
/// The range must be a private, executable mapping of the file, which nobody runs yet.
pub(crate) unsafe fn mapped(places: Option<&Places>, range: Range<usize>, fd: u32, offset: usize) {
    if let Some(places) = places {
        // SAFETY: the caller's promise; one thread runs.
        unsafe { outside::patch(places, &range, &File::open(fd), offset) };
    }
}

fn places() -> Option<&'static Places> {
    // SAFETY: laid before anything was changed.
    unsafe { (*(HANDOVER as *const Handover)).places }
}

unsafe extern "C" fn on_trap(signal: i32, _info: *mut Info, context: *mut Context) -> usize {
    static TIME: AtomicU64 = AtomicU64::new(0);
    // SAFETY: the kernel's context.
    let context = unsafe { &mut *context };
    let Some((places, found)) = places().and_then(|places| Some((places, places.at(context.place())?.0))) else {
        outside::as_if_unhandled(signal as u32);
        return 0;
    };
    let answer = match found.kind {
        Kind::Time | Kind::TimeAndPlace => Answer { value: TIME.fetch_add(TICK, Ordering::Relaxed), more: 0 },
        // Of random numbers there may be none, and whoever asks is prepared for it.
        _ => Answer::default(),
    };
    found.pass(context, answer, places.leaves());
    0
}
