//! Assembly around calls that may not return: cancellation, `pthread_exit` and
//! C++ exceptions unwind from the real function through us.
//!
//! Unwinding through a Rust `extern "C"` frame is undefined, so no Rust frame is
//! on the stack during such a call. A trampoline has call frame information and a
//! personality routine without language data: when the unwinder removes its
//! frame, [`Frame::unwound`] is called, and unwinding goes on.
//!
//! ```text
//! program ─▶ trampoline ─▶ before(frame)    Rust: says which function to call, or none
//!                       ─▶ real(args)       from the trampoline's own frame
//!                       ─▶ after(frame)     Rust: gives the result
//! ```
//!
//! The personality routine is given an opaque context of whichever unwinder the
//! program uses; instead of asking it, frames are kept in a list per thread.

use crate::{aside, tls};

/// The stack frame of a trampoline, shared between `before`, the assembly and `after`.
#[derive(Debug)]
#[repr(C)]
pub struct Frame {
    /// The arguments that are passed in registers, which `before` may change.
    pub args: [usize; 6],
    /// What the real function returned, or what `before` put there to skip it. While the frame is unwound: the
    /// unwinder's actions, see [`FORCED`].
    pub result: usize,
    /// Return address into the caller.
    pub place: usize,
    /// Called with this frame when it is unwound, if set. Set by [`Frame::watch`].
    pub unwound: Option<unsafe extern "C" fn(*mut Frame)>,
    previous: *mut Frame,
    /// For the front's own use.
    pub scratch: [usize; 4],
}

/// Bytes above the frame of a function to which the kernel hands signals, and two words, where it goes back to the program's
/// stack.
pub const SHOWN_BYTES: usize = 1104;

/// Bytes of a [`Frame`] in the assembly below.
const FRAME_BYTES: usize = 112;
const _: () = assert!(size_of::<Frame>() == FRAME_BYTES);

impl Frame {
    /// Asks for `unwound` to be called if this frame is unwound before [`Frame::unwatch`].
    pub fn watch(&mut self, unwound: unsafe extern "C" fn(*mut Frame)) {
        let this = core::ptr::from_mut(self);
        let mut top = tls::get::<{ tls::FRAMES }>() as *mut Frame;
        while !top.is_null() && top <= this {
            // A frame below ours, or where ours now is, was left by longjmp.
            // SAFETY: only read to go on along the list; the memory is this thread's stack.
            top = unsafe { (*top).previous };
        }
        self.previous = top;
        self.unwound = Some(unwound);
        tls::set::<{ tls::FRAMES }>(this as usize);
    }

    /// The next outer watched frame on the same stack, or null.
    pub fn previous(&self) -> *mut Frame {
        self.previous
    }

    /// Ends [`Frame::watch`].
    pub fn unwatch(&mut self) {
        if self.unwound.take().is_some() {
            tls::set::<{ tls::FRAMES }>(self.previous as usize);
        }
    }
}

/// Where the innermost watched front was called that the calling thread is in, if it is near by: further away, what the thread
/// does now was begun by a callback. 0 if there is none.
pub fn caller() -> usize {
    const NEAR: usize = 16 << 10;
    let here = 0u8;
    // Aside, what was left of the program's stack counts.
    let here = aside::left_at().unwrap_or(core::ptr::from_ref(&here).addr());
    let top = tls::get::<{ tls::FRAMES }>() as *const Frame;
    let near = (here..here + NEAR).contains(&top.addr());
    // SAFETY: no further above this function's frame than the stack is in use by the runtime and its callers. A frame that
    // longjmp left, which nobody has taken off the list, is memory of the same stack: what is read there may be wrong.
    if near { unsafe { (*top).place } } else { 0 }
}

/// Bit of the unwinder's actions: the thread ends, by cancellation or `pthread_exit`; else it is an exception.
pub const FORCED: usize = 8;

/// The personality routine of every trampoline (Itanium C++ ABI, section 1.6).
///
/// # Safety
/// For the unwinder only, on a thread whose innermost watched frame is the one being removed.
pub unsafe extern "C" fn personality(
    _version: i32,
    actions: i32,
    _class: u64,
    _exception: usize,
    _context: usize,
) -> i32 {
    const CLEANUP_PHASE: i32 = 2;
    const CONTINUE_UNWIND: i32 = 8;
    let frame = tls::get::<{ tls::FRAMES }>() as *mut Frame;
    if actions & CLEANUP_PHASE != 0 && !frame.is_null() {
        // SAFETY: frames are unwound innermost first, and this one is still on the stack.
        let unwound = unsafe {
            let unwound = (*frame).unwound;
            (*frame).unwatch();
            (*frame).result = actions as usize;
            unwound
        };
        if let Some(unwound) = unwound {
            // SAFETY: set by the front for exactly this frame.
            unsafe { unwound(frame) };
        }
    }
    CONTINUE_UNWIND
}

/// Defines an exported function that runs `before`, perhaps the real function, then `after`.
///
/// `before: unsafe extern "C" fn(*mut Frame) -> usize` returns the address to call with the
/// frame's arguments, or 0. `after: unsafe extern "C" fn(*mut Frame) -> usize` returns the result.
///
/// Both run aside ([`crate::aside`]); with `aside` the real function does so, too, which then must call nothing of the
/// program's. `signal` is for the function to which the kernel hands signals: it goes back to the program's stack if it
/// finds the thread aside, or stays on the alternate one that the program asked for, and keeps in the last two words of
/// [`Frame::scratch`] what [`crate::aside`] says of the thread, in the one before whether the thread was aside.
#[macro_export]
macro_rules! trampoline {
    ($(#[$doc:meta])* private $name:ident, $before:path, $after:path) => {
        $(#[$doc])*
        #[unsafe(naked)]
        unsafe extern "C-unwind" fn $name() {
            $crate::trampoline!(@usual "call r11", $before, $after)
        }
    };
    ($(#[$doc:meta])* private aside $name:ident, $before:path, $after:path) => {
        $(#[$doc])*
        #[unsafe(naked)]
        unsafe extern "C-unwind" fn $name() {
            $crate::trampoline!(@usual "call {through}", $before, $after)
        }
    };
    ($(#[$doc:meta])* signal $name:ident, $before:path, $after:path) => {
        $(#[$doc])*
        #[unsafe(naked)]
        unsafe extern "C-unwind" fn $name() {
            // To gdb it is part of the signal's frame: no other frame may lie below its callee's.
            $crate::trampoline!(@body ".cfi_startproc\n.cfi_signal_frame", $before, $after,
                // Whether it is aside the stack pointer says, or that of the code it struck, if the kernel gave it another stack.
                // Where it left the program's stack nothing says while it begins.
                // The frame pointer leads to where the kernel's frame is: itself it must be of the program's stack, because
                // the handler lays it down, and the other registers that it keeps: they are those of the program, as natively,
                // for a collector that looks for pointers in its frames. The kernel gives ours back.
                "mov r11, [rip + relive_tls_slot@gottpoff]
                 mov r10, fs:[r11 + {top}]
                 mov r9, fs:[r11 + {outer}]
                 test r10, r10
                 jz 4f
                 test r9, r9
                 jz 4f
                 lea rax, [r10 - 1]
                 xor rax, rsp
                 cmp rax, {bytes}
                 jae 6f
                 lea rsp, [r9 - 256 - {shown}]
                 lea rax, [rbp - 64]
                 jmp 7f
                 6:
                 mov rax, [rdx + {stack_pointer}]
                 sub rax, 256
                 lea rcx, [r10 - 1]
                 xor rcx, rax
                 cmp rcx, {bytes}
                 jae 4f
                 lea rsp, [rsp - 256 - {shown}]
                 7:
                 and rsp, -16
                 mov qword ptr [rsp + 88], 1
                 mov [rsp + 96], r10
                 mov [rsp + 104], r9
                 and rax, -64
                 mov fs:[r11 + {top}], rax
                 mov qword ptr fs:[r11 + {outer}], 0
                 mov rbx, [r9 - 8]
                 mov r12, [r9 - 16]
                 mov r13, [r9 - 24]
                 mov r14, [r9 - 32]
                 mov r15, [r9 - 40]
                 jmp 5f
                 4:
                 sub rsp, 128
                 mov qword ptr [rsp + 88], 0
                 mov [rsp + 96], r10
                 mov [rsp + 104], r9
                 5:
                 mov [rsp + 112], rbp
                 lea rbp, [rsp + 112]
                 .cfi_escape 0x0f, 5, 0x76, 0, 0x06, 0x23, 16",
                "mov rax, [rbp]
                 mov rax, [rax + 8]",
                "call r11",
                concat!(
                    "mov r11, [rip + relive_tls_slot@gottpoff]
                     mov r9, [rsp + 104]
                     mov fs:[r11 + {outer}], r9
                     mov r10, [rsp + 96]
                     mov fs:[r11 + {top}], r10
                     mov rbp, [rbp]
                     .cfi_def_cfa rbp, 16\n",
                    $crate::zeroed_frame!(),
                    "\nmovups [rsp + 112], xmm0"
                ))
        }
    };
    ($(#[$doc:meta])* aside $name:ident, $before:path, $after:path) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// As for the function that this one stands in front of.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C-unwind" fn $name() {
            $crate::trampoline!(@usual "call {through}", $before, $after)
        }
    };
    ($(#[$doc:meta])* $name:ident, $before:path, $after:path) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// As for the function that this one stands in front of.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C-unwind" fn $name() {
            $crate::trampoline!(@usual "call r11", $before, $after)
        }
    };
    (@usual $call:literal, $before:path, $after:path) => {
        $crate::trampoline!(@body ".cfi_startproc", $before, $after, "sub rsp, 112", "mov rax, [rbp + 8]", $call,
            $crate::cleared_frame!(""))
    };
    (@body $start:literal, $before:path, $after:path, $room:literal, $place:literal, $call:literal, $end:expr) => {
            core::arch::naked_asm!(
                $start,
                ".cfi_personality 0x1b, {personality}",
                "push rbp",
                ".cfi_def_cfa_offset 16",
                ".cfi_offset rbp, -16",
                "mov rbp, rsp",
                ".cfi_def_cfa_register rbp",
                concat!("# {top} {outer} {bytes} {shown} {stack_pointer}\n", $room),
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "mov [rsp + 16], rdx",
                "mov [rsp + 24], rcx",
                "mov [rsp + 32], r8",
                "mov [rsp + 40], r9",
                $place,
                "mov [rsp + 56], rax",
                "mov qword ptr [rsp + 64], 0",
                "mov rdi, rsp",
                "lea r11, [rip + {before}]",
                "call {through}",
                "test rax, rax",
                "jz 2f",
                "mov r11, rax",
                "mov rdi, [rsp]",
                "mov rsi, [rsp + 8]",
                "mov rdx, [rsp + 16]",
                "mov rcx, [rsp + 24]",
                "mov r8, [rsp + 32]",
                "mov r9, [rsp + 40]",
                "xor eax, eax",
                $call,
                "mov [rsp + 48], rax",
                "2:",
                "mov rdi, rsp",
                "lea r11, [rip + {after}]",
                "call {through}",
                $end,
                "leave",
                ".cfi_def_cfa rsp, 8",
                "ret",
                ".cfi_endproc",
                before = sym $before,
                after = sym $after,
                personality = sym $crate::trampoline::personality,
                through = sym $crate::aside::through,
                top = const $crate::tls::TOP,
                outer = const $crate::tls::OUTER,
                bytes = const $crate::aside::BYTES,
                shown = const $crate::trampoline::SHOWN_BYTES,
                stack_pointer = const $crate::signal::STACK_POINTER_AT,
            )
    };
}

/// The [`Frame`] at rsp becomes zero, and xmm0.
#[macro_export]
macro_rules! zeroed_frame {
    () => {
        "pxor xmm0, xmm0
         movups [rsp], xmm0
         movups [rsp + 16], xmm0
         movups [rsp + 32], xmm0
         movups [rsp + 48], xmm0
         movups [rsp + 64], xmm0
         movups [rsp + 80], xmm0
         movups [rsp + 96], xmm0"
    };
}

/// The end of a function with a [`Frame`] at rsp, in a thread that has a stack aside: what a replay keeps otherwise in the
/// frame is not left, nor what `more` makes zero by xmm0. The registers are clear by then, behind [`crate::aside::through`].
#[macro_export]
macro_rules! cleared_frame {
    ($more:literal) => {
        concat!(
            "mov r10, [rip + relive_tls_slot@gottpoff]
             cmp qword ptr fs:[r10 + {top}], 0
             je 3f
             xor edx, edx\n",
            $crate::zeroed_frame!(),
            "\n",
            $more,
            "\n3:"
        )
    };
}

/// Defines an exported function that hands its arguments on, with its return address as one more, aside
/// ([`crate::aside`]); with `here` on the program's stack, because it calls functions of the program's.
///
/// The number is how many arguments the function takes (0 to 5); the target takes one more `usize`. Its result is of one word,
/// with `number` a floating-point number. With `private` the function is not exported, and the arguments are all.
#[macro_export]
macro_rules! front {
    ($(#[$doc:meta])* $name:ident, 0, $target:path) => { $crate::front!(@aside $(#[$doc])* $name, "mov rdi, [rsp]", $target); };
    ($(#[$doc:meta])* $name:ident, 1, $target:path) => { $crate::front!(@aside $(#[$doc])* $name, "mov rsi, [rsp]", $target); };
    ($(#[$doc:meta])* $name:ident, 2, $target:path) => { $crate::front!(@aside $(#[$doc])* $name, "mov rdx, [rsp]", $target); };
    ($(#[$doc:meta])* $name:ident, 3, $target:path) => { $crate::front!(@aside $(#[$doc])* $name, "mov rcx, [rsp]", $target); };
    ($(#[$doc:meta])* $name:ident, 4, $target:path) => { $crate::front!(@aside $(#[$doc])* $name, "mov r8, [rsp]", $target); };
    ($(#[$doc:meta])* $name:ident, 5, $target:path) => { $crate::front!(@aside $(#[$doc])* $name, "mov r9, [rsp]", $target); };
    ($(#[$doc:meta])* number $name:ident, 0, $target:path) => {
        $crate::front!(@aside $(#[$doc])* $name, "mov rdi, [rsp]", $target, back_with_number);
    };
    ($(#[$doc:meta])* here $name:ident, 1, $target:path) => { $crate::front!(@here $(#[$doc])* $name, "mov rsi, [rsp]", $target); };
    (private $name:ident, $target:path) => {
        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $name() {
            $crate::front!(@body "", $target, $crate::aside::back)
        }
    };
    (at_hand $name:ident, $quick:path, $target:path) => {
        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $name() {
            $crate::front!(@body
                "mov r10, [rip + relive_tls_slot@gottpoff]
                 mov rsi, fs:[r10 + {at_hand}]
                 test rsi, rsi
                 jz 2f
                 push rdi
                 .cfi_adjust_cfa_offset 8
                 call {quick}
                 pop rdi
                 .cfi_adjust_cfa_offset -8
                 test rax, rax
                 jnz {done}
                 2:",
                $target, $crate::aside::back_at_hand,
                quick = sym $quick, done = sym $crate::aside::at_hand, at_hand = const $crate::tls::AT_HAND)
        }
    };
    (@aside $(#[$doc:meta])* $name:ident, $load:literal, $target:path) => {
        $crate::front!(@aside $(#[$doc])* $name, $load, $target, back);
    };
    (@aside $(#[$doc:meta])* $name:ident, $load:literal, $target:path, $back:ident) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// As for the function that this one stands in front of.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            $crate::front!(@body $load, $target, $crate::aside::$back)
        }
    };
    (@body $load:literal, $target:path, $back:path $(, $name:ident = $kind:tt $value:path)*) => {
            core::arch::naked_asm!(
                ".cfi_startproc",
                $load,
                "mov r10, [rip + relive_tls_slot@gottpoff]",
                "mov rax, fs:[r10 + {top}]",
                "test rax, rax",
                "jz {target}",
                "cmp qword ptr fs:[r10 + {outer}], 0",
                "jne {target}",
                "push rbp",
                ".cfi_def_cfa_offset 16",
                ".cfi_offset rbp, -16",
                "mov rbp, rsp",
                ".cfi_def_cfa_register rbp",
                $crate::kept_registers!(),
                // Who interrupts between the two finds the thread on the program's stack, and in use.
                "mov fs:[r10 + {outer}], rsp",
                "mov rsp, rax",
                "call {target}",
                "jmp {back}",
                ".cfi_endproc",
                target = sym $target,
                back = sym $back,
                top = const $crate::tls::TOP,
                outer = const $crate::tls::OUTER,
                $($name = $kind $value,)*
            )
    };
    (@here $(#[$doc:meta])* $name:ident, $load:literal, $target:path) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// As for the function that this one stands in front of.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(".cfi_startproc", $load, "jmp {target}", ".cfi_endproc", target = sym $target)
        }
    };
}

/// Defines an exported function that runs `before` and then becomes the real function: nothing of it stays on
/// the stack, so it takes any number of arguments, and the real function may unwind or not return.
///
/// `before: unsafe extern "C" fn(usize × 5, place: usize) -> usize` sees the first five register arguments and
/// the return address, and returns where to go on. It runs aside ([`crate::aside`]); with `here` on the program's stack.
#[macro_export]
macro_rules! detour {
    ($(#[$doc:meta])* $name:ident, $before:path) => {
        $crate::detour!(@ $(#[$doc])* $name, $before, "lea r11, [rip + {before}]\ncall {through}");
    };
    ($(#[$doc:meta])* here $name:ident, $before:path) => {
        $crate::detour!(@ $(#[$doc])* $name, $before, "call {before} # {through}");
    };
    (@ $(#[$doc:meta])* $name:ident, $before:path, $call:literal) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// As for the function that this one stands in front of.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C-unwind" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "push rbp",
                ".cfi_def_cfa_offset 16",
                ".cfi_offset rbp, -16",
                "mov rbp, rsp",
                ".cfi_def_cfa_register rbp",
                "sub rsp, 64",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "mov [rsp + 16], rdx",
                "mov [rsp + 24], rcx",
                "mov [rsp + 32], r8",
                "mov [rsp + 40], r9",
                "mov [rsp + 48], rax",
                "mov r9, [rbp + 8]",
                $call,
                "mov r11, rax",
                "mov rdi, [rsp]",
                "mov rsi, [rsp + 8]",
                "mov rdx, [rsp + 16]",
                "mov rcx, [rsp + 24]",
                "mov r8, [rsp + 32]",
                "mov r9, [rsp + 40]",
                "mov rax, [rsp + 48]",
                "leave",
                ".cfi_def_cfa rsp, 8",
                "jmp r11",
                ".cfi_endproc",
                before = sym $before,
                through = sym $crate::aside::through,
            )
        }
    };
}
