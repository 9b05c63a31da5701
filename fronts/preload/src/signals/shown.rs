//! What a handler of the program's is told when its signal struck our own code, aside.
//!
//! The kernel laid signal and context on the stack aside, whose address differs in a replay, or on the alternate one, and the
//! context is that of our code. The handler runs on the program's stack, or the alternate one, as it does natively, and
//! finds both there: the signal as it is, and of the context the thread at the operation that it was in, called from the
//! program. What the handler changes of the mask is the thread's; of the rest a return goes by what the kernel laid.

use relive_sys::aside::Left;
use relive_sys::signal::{Context, Info};
use relive_sys::trampoline::{Frame, SHOWN_BYTES};

/// libc's `ucontext_t` behind what the kernel writes of it.
const FURTHER: usize = 83;

/// Above the frame.
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

/// The signal and the context that the handler with this frame is given. `left` is where the thread left the program's stack.
///
/// # Safety
/// For a frame of the function to which the kernel hands signals, before the handler runs, of a thread that was aside.
pub(super) unsafe fn show(frame: *mut Frame, left: usize) {
    // SAFETY: the caller's promise: the kernel's information and context, and room above the frame. The thread left the
    // program's stack with what `Left` says on it.
    unsafe {
        let [_, info, context, ..] = (*frame).args;
        let shown = place(frame);
        let real = context as *mut Context;
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

/// The handler has returned.
///
/// # Safety
/// For the frame of a handler, whether [`show`] saw it or not.
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
