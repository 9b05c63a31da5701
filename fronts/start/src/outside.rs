//! Instructions of the loader, the program and the first libraries that read the
//! outside: made into traps when they are mapped, and answered here until the
//! preloaded library takes over.
//!
//! The processor is described by the session's table, so that the loader chooses
//! in a replay what it chose in the recording. The time that it sees goes on by
//! itself, alike in both: nothing is recorded yet.

use crate::arguments::Passed;
use crate::files;
use core::ffi::CStr;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use relive_sys::frames::File;
use relive_sys::outside::{self, Answer, Kind, Places, SIGILL, Searched};
use relive_sys::signal::{Context, Info};
use relive_sys::start::{CONTROL, HANDOVER, Handover};
use relive_sys::syscall::number::MMAP;
use relive_sys::syscall::{self, syscall6};
use relive_trace::control::{CONTROL_MAGIC, Control, ENV_CONTROL, flag, mode};

/// What lies between two times that the loader asks for.
const TICK: u64 = 1000;

static SESSION: AtomicPtr<Control> = AtomicPtr::new(core::ptr::null_mut());

/// The control memory, until the runtime takes over.
fn session() -> Option<&'static Control> {
    // SAFETY: null, or mapped until nobody runs here any more.
    unsafe { SESSION.load(Ordering::Relaxed).as_ref() }
}

static IS_BREAK_FAR: AtomicBool = AtomicBool::new(false);

/// Whether the session has all breaks far from everything.
pub(crate) fn is_break_far() -> bool {
    IS_BREAK_FAR.load(Ordering::Relaxed)
}

/// What processes of the session have found.
const SEARCHED: Searched<'static> = Searched {
    recall: &|key| session()?.instructions.recall(key),
    remember: &|key, words| {
        if let Some(session) = session() {
            session.instructions.remember(key, words.iter().copied());
        }
    },
};

/// From here on such instructions are changed, if the session has a table for them.
pub(crate) fn start(passed: &Passed) -> Option<&'static Places> {
    // SAFETY: strings of the environment.
    let mut entries = passed.environment.iter().map(|&entry| unsafe { CStr::from_ptr(entry) }.to_bytes_with_nul());
    let path = entries.find_map(|entry| entry.strip_prefix(ENV_CONTROL.as_bytes())?.strip_prefix(b"="))?;
    let fd = files::open_control(path, syscall::O_RDWR)?;
    let control = map(fd);
    syscall::close(fd);
    let control = control?;
    IS_BREAK_FAR.store(control.magic == CONTROL_MAGIC && control.flags & flag::FAR_BREAK != 0, Ordering::Relaxed);
    let Some(leaves) = described(control) else {
        // SAFETY: what was just mapped, of which nothing is kept.
        unsafe { syscall::munmap(CONTROL, size_of::<Control>()) };
        return None;
    };
    SESSION.store(core::ptr::from_ref(control).cast_mut(), Ordering::Relaxed);
    let places = Places::own()?;
    // SAFETY: the starter has one thread.
    unsafe { places.set_leaves(leaves) };
    outside::install(SIGILL, 0, on_trap).then_some(places)
}

/// The session's table of the processor, if there is one and the session runs.
fn described(control: &'static Control) -> Option<&'static [[u32; 6]]> {
    let leaves = control.cpuid.leaves.get(..control.cpuid.count as usize)?;
    let running = matches!(control.mode.load(Ordering::Relaxed), mode::RECORD | mode::REPLAY);
    (control.magic == CONTROL_MAGIC && running && !leaves.is_empty()).then_some(leaves)
}

fn map(fd: u32) -> Option<&'static Control> {
    const READ_WRITE: usize = 3;
    /// `MAP_SHARED | MAP_FIXED_NOREPLACE`
    const THERE: usize = 1 | 0x10_0000;
    let bytes = size_of::<Control>();
    if syscall::file_stat(fd)?.size < bytes as u64 {
        return None;
    }
    // SAFETY: a new mapping where nothing lies, or none.
    let at = unsafe { syscall6(MMAP, CONTROL, bytes, READ_WRITE, THERE, fd as usize, 0) };
    // SAFETY: mapped, aligned, of a file that is as long and stays so; what is not atomic is not written any more.
    (at == CONTROL as isize).then(|| unsafe { &*(CONTROL as *const Control) })
}

/// Changes what was just mapped, if it is code.
///
/// # Safety
/// The range must be a private, executable mapping of the file, which nobody runs yet.
pub(crate) unsafe fn mapped(places: Option<&Places>, range: Range<usize>, fd: u32, offset: usize) {
    if let Some(places) = places {
        // SAFETY: the caller's promise; one thread runs.
        unsafe { outside::patch(places, &range, &File::open(fd), offset, &SEARCHED) };
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
