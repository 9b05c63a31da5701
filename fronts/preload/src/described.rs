//! Calls on descriptors with any number of arguments: `dprintf`, which is a
//! cancellation point like those of `cancel`, and `syscall`, which is none.
//!
//! What goes through descriptors has an order where the environment is recorded,
//! and `syscall` is how some programs read and write, and how all of them wait at words.

use crate::cancel::points::{GIVE, after, before};
use crate::real::{self, Real};
use crate::variadic::{Call, entry, steps};
use relive_rt::Mode;
use relive_rt::environment::carried::Carries;
use relive_sys::detour;

/// What an entry is about.
#[derive(Debug)]
struct Print {
    /// The function that takes a list.
    real: Real,
    /// Named arguments.
    fixed: u32,
}

const START: usize = 0;
const RUNNING: usize = 1;

steps!(variadic printing, step_print);

unsafe extern "C" fn step_print(call: *mut Call<Print>) -> usize {
    // SAFETY: the assembly's frame, through its variadic entry.
    unsafe {
        let frame = &raw mut (*call).frame;
        if (*call).state == START {
            (*call).state = RUNNING;
            let fixed = (*call).subject.fixed;
            (*frame).args[fixed as usize] = Call::list(call, fixed);
            let next = before(frame, &(*call).subject.real, &GIVE);
            if next != 0 {
                return next;
            }
        }
        (*frame).result = after(frame);
        0
    }
}

entry!(dprintf, printing, Print = Print { real: Real::new(c"vdprintf", None), fixed: 2 });
entry!(__dprintf_chk, printing, Print = Print { real: Real::new(c"__vdprintf_chk", None), fixed: 3 });

detour!(
    /// `syscall`
    syscall, before_syscall
);

/// Most calls go straight on: one that makes a process, or a thread on another stack, returns elsewhere.
unsafe extern "C" fn before_syscall(
    number: usize,
    first: usize,
    second: usize,
    third: usize,
    fourth: usize,
    _place: usize,
) -> usize {
    if Carries::of(number, &[first, second, third, fourth, 0, 0]).is_anything() && relive_rt::mode() != Mode::Off {
        return carrying_syscall as *const () as usize;
    }
    real::at::system_call.address()
}

steps!(stacked carrying, step_syscall);

unsafe extern "C" fn step_syscall(call: *mut Call<()>) -> usize {
    // SAFETY: the assembly's frame.
    let call = unsafe { &mut *call };
    let [number, first, second, third, fourth, fifth] = call.frame.args;
    let arguments = [first, second, third, fourth, fifth, 0];
    let carries = Carries::of(number, &arguments);
    if call.state == START {
        call.state = RUNNING;
        carries.begins(&arguments, call.frame.place);
        return real::at::system_call.address();
    }
    carries.ended(call.frame.result.cast_signed(), call.frame.place);
    0
}

static NOTHING: () = ();

/// `syscall` for calls that hand something on.
#[unsafe(naked)]
unsafe extern "C-unwind" fn carrying_syscall() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "lea r11, [rip + {subject}]",
        "jmp {steps}",
        ".cfi_endproc",
        subject = sym NOTHING,
        steps = sym carrying,
    )
}
