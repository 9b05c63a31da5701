//! What a handler of the program's is told when its signal struck our own code, aside.
//!
//! The kernel laid signal and context on the stack aside, whose address differs in a replay, and the context is that of
//! our code. The handler runs on the program's stack, as it does natively, and finds both there: the signal as it is, and
//! of the context the thread at the operation that it was in, called from the program. What the handler changes of the
//! mask is the thread's; of the rest a return goes by what the kernel laid.
//!
//! What lies below is cleared, as far as the kernel would have laid its frame there: in a recording the signal may have
//! struck before, and been put off, and have left one. A collector looks through the handler's frames, and where they have
//! gaps it would see that.

use crate::loader::real;
use core::sync::atomic::{AtomicUsize, Ordering};
use relive_sys::aside::{self, Left};
use relive_sys::signal::{Context, Info};
use relive_sys::trampoline::{Frame, SHOWN_BYTES};

/// libc's `ucontext_t` behind what the kernel writes of it.
const FURTHER: usize = 83;

/// On the program's stack, above the frame.
#[repr(C)]
struct Shown {
    info: Info,
    context: Context,
    further: [u64; FURTHER],
    real: *mut Context,
}

const _: () = assert!(size_of::<Shown>() == SHOWN_BYTES);

fn place(frame: *mut Frame) -> *mut Shown {
    const WORDS: usize = 2;
    frame.wrapping_add(1).cast::<usize>().wrapping_add(WORDS).cast()
}

/// The signal and the context that the handler with this frame is given. `left` is where the thread left the program's stack,
/// `top` the end of its stack aside.
///
/// # Safety
/// For a frame of the function to which the kernel hands signals, before the handler runs.
pub(super) unsafe fn show(frame: *mut Frame, top: usize, left: usize) {
    // SAFETY: the caller's promise: the kernel's information and context; if they lie aside there is room above the frame. The
    // thread left the program's stack with what `Left` says on it.
    unsafe {
        let [_, info, context, ..] = (*frame).args;
        if !aside::holds(top, context) {
            return;
        }
        let shown = place(frame);
        let real = context as *mut Context;
        clear(shown.wrapping_add(1).addr(), left - Left::BELOW);
        // This very function left it there.
        let here = aside::left_at().unwrap_or(frame.addr());
        clear(left - RED_ZONE - frame_of_kernel(), here - Left::BELOW);
        shown.write(Shown {
            info: (info as *const Info).read(),
            context: (*real).of_caller(left, &Left::at(left)),
            further: [0; FURTHER],
            real,
        });
        let (info, context) = ((&raw const (*shown).info).addr(), (&raw const (*shown).context).addr());
        (*frame).args = [(*frame).args[0], info, context, 0, 0, 0];
    }
}

/// What a function may use below the stack pointer: the kernel's frame lies below that.
const RED_ZONE: usize = 128;

/// Bytes of a signal's frame on this processor (`AT_MINSIGSTKSZ`).
fn frame_of_kernel() -> usize {
    const AT_MINSIGSTKSZ: usize = 51;
    const LEAST: usize = 2048;
    static BYTES: AtomicUsize = AtomicUsize::new(0);
    match BYTES.load(Ordering::Relaxed) {
        0 => {
            // SAFETY: libc looks through what the kernel handed over.
            let known = unsafe { real::auxiliary(AT_MINSIGSTKSZ) }.max(LEAST);
            BYTES.store(known, Ordering::Relaxed);
            known
        }
        known => known,
    }
}

/// # Safety
/// Nothing between the two addresses may be in use.
unsafe fn clear(from: usize, to: usize) {
    if from < to {
        // SAFETY: the caller's promise.
        unsafe { (from as *mut u8).write_bytes(0, to - from) };
    }
}

/// The handler has returned.
///
/// # Safety
/// For a frame that [`show`] saw.
pub(super) unsafe fn shown(frame: *mut Frame) {
    let shown = place(frame);
    // SAFETY: the caller's promise; what was shown lies where the frame says.
    unsafe {
        if (*frame).args[2] == (&raw const (*shown).context).addr() {
            (*(*shown).real).mask = (*shown).context.mask;
            shown.cast::<u8>().write_bytes(0, SHOWN_BYTES);
        }
    }
}
