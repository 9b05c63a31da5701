//! Assembly in front of calls with any number of arguments that may run the
//! program's code, block, be cancelled or throw.
//!
//! A call here is a sequence of steps: `step` says which real function to call
//! next and with which arguments, until it says none. So no Rust frame is on the
//! stack while a real function runs, and one operation may be several real calls.
//!
//! A variadic function can't be forwarded, as nobody knows how many arguments it
//! has. Its registers are saved in the layout of a `va_list` (System V ABI,
//! section 3.5.7), and the real function is the one that takes such a list.

use relive_sys::trampoline::Frame;

/// `va_list` of the System V ABI for x86-64.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Arguments {
    general: u32,
    floating: u32,
    overflow: usize,
    registers: usize,
}

/// The stack frame of one call, shared between the assembly and its `step`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Call<S: 'static> {
    /// First member: [`Frame::watch`] works on it.
    pub(crate) frame: Frame,
    /// What the entry is about.
    pub(crate) subject: &'static S,
    /// 0 at the first step.
    pub(crate) state: usize,
    /// For the steps' own use; not initialised. [`Frame::scratch`] belongs to `cancel`.
    pub(crate) own: [usize; 8],
    /// From here on only in a variadic call.
    list: Arguments,
    padding: usize,
    registers: [u8; 6 * 8 + 8 * 16],
}

/// Bytes of the general registers in a register save area.
const GENERAL_BYTES: u32 = 6 * 8;

/// Where the assembly finds what, from the start of a [`Call`].
pub(crate) mod offset {
    use super::{Call, Frame};
    use core::mem::offset_of;

    pub(crate) const ARGUMENTS: usize = offset_of!(Frame, args);
    pub(crate) const RESULT: usize = offset_of!(Frame, result);
    pub(crate) const PLACE: usize = offset_of!(Frame, place);
    pub(crate) const UNWOUND: usize = offset_of!(Frame, unwound);
    pub(crate) const SUBJECT: usize = offset_of!(Call<()>, subject);
    pub(crate) const STATE: usize = offset_of!(Call<()>, state);
    pub(crate) const OWN: usize = offset_of!(Call<()>, own);
    pub(crate) const REGISTERS: usize = offset_of!(Call<()>, registers);
    pub(crate) const SHORT: usize = offset_of!(Call<()>, list);
    pub(crate) const WHOLE: usize = size_of::<Call<()>>();
    const _: () = assert!(SHORT.is_multiple_of(16) && WHOLE.is_multiple_of(16) && REGISTERS.is_multiple_of(16));
}

impl<S> Call<S> {
    /// The list of the arguments after the first `fixed` ones, from its start.
    ///
    /// # Safety
    /// Only in a call that came through a variadic entry.
    pub(crate) unsafe fn list(call: *mut Self, fixed: u32) -> usize {
        // SAFETY: the caller's promise: the frame has these members, and above it stand the saved frame pointer, the
        // return address and the arguments that were passed on the stack.
        unsafe {
            let overflow = call.add(1) as usize + 2 * size_of::<usize>();
            let registers = &raw const (*call).registers as usize;
            (*call).list = Arguments { general: fixed * 8, floating: GENERAL_BYTES, overflow, registers };
            &raw mut (*call).list as usize
        }
    }
}

/// Defines the assembly that runs the steps of a call: for a fixed number of arguments, up to six; with `variadic`
/// for any number; with `through_return` the real function finds [`Call::own`]'s first word as its return address,
/// which must be that of a `ret` instruction; with `stacked` it finds the two words that stand behind the return address,
/// as arguments beyond the sixth. Entries jump here with their subject in `r11`.
///
/// `step: unsafe extern "C" fn(*mut Call<S>) -> usize` gives the address to call, or 0 at the end.
macro_rules! steps {
    ($name:ident, $step:path) => {
        $crate::variadic::steps!(@ $name, $step, $crate::variadic::offset::SHORT, "", "call r11");
    };
    (through_return $name:ident, $step:path) => {
        $crate::variadic::steps!(@ $name, $step, $crate::variadic::offset::SHORT, "",
            "lea rax, [rip + 5f]
             sub rsp, 8
             push rax
             push qword ptr [rsp + {own} + 16]
             jmp r11
             5:
             add rsp, 8");
    };
    (stacked $name:ident, $step:path) => {
        $crate::variadic::steps!(@ $name, $step, $crate::variadic::offset::SHORT, "",
            "push qword ptr [rbp + 24]
             push qword ptr [rbp + 16]
             call r11
             add rsp, 16");
    };
    (variadic $name:ident, $step:path) => {
        $crate::variadic::steps!(@ $name, $step, $crate::variadic::offset::WHOLE,
            "mov [rsp + {registers}], rdi
             mov [rsp + {registers} + 8], rsi
             mov [rsp + {registers} + 16], rdx
             mov [rsp + {registers} + 24], rcx
             mov [rsp + {registers} + 32], r8
             mov [rsp + {registers} + 40], r9
             test al, al
             jz 4f
             movaps [rsp + {registers} + 48], xmm0
             movaps [rsp + {registers} + 64], xmm1
             movaps [rsp + {registers} + 80], xmm2
             movaps [rsp + {registers} + 96], xmm3
             movaps [rsp + {registers} + 112], xmm4
             movaps [rsp + {registers} + 128], xmm5
             movaps [rsp + {registers} + 144], xmm6
             movaps [rsp + {registers} + 160], xmm7
             4:", "call r11");
    };
    (@ $name:ident, $step:path, $room:expr, $save:literal, $call:literal) => {
        #[unsafe(naked)]
        unsafe extern "C-unwind" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                ".cfi_personality 0x1b, {personality}",
                "push rbp",
                ".cfi_def_cfa_offset 16",
                ".cfi_offset rbp, -16",
                "mov rbp, rsp",
                ".cfi_def_cfa_register rbp",
                "sub rsp, {room}",
                concat!("# {registers} {own}\n", $save),
                "mov [rsp + {arguments}], rdi",
                "mov [rsp + {arguments} + 8], rsi",
                "mov [rsp + {arguments} + 16], rdx",
                "mov [rsp + {arguments} + 24], rcx",
                "mov [rsp + {arguments} + 32], r8",
                "mov [rsp + {arguments} + 40], r9",
                "mov rax, [rbp + 8]",
                "mov [rsp + {place}], rax",
                "mov qword ptr [rsp + {unwound}], 0",
                "mov [rsp + {subject}], r11",
                "mov qword ptr [rsp + {state}], 0",
                "2:",
                "mov rdi, rsp",
                "lea r11, [rip + {step}]",
                "call {through}",
                "test rax, rax",
                "jz 3f",
                "mov r11, rax",
                "mov rdi, [rsp + {arguments}]",
                "mov rsi, [rsp + {arguments} + 8]",
                "mov rdx, [rsp + {arguments} + 16]",
                "mov rcx, [rsp + {arguments} + 24]",
                "mov r8, [rsp + {arguments} + 32]",
                "mov r9, [rsp + {arguments} + 40]",
                "xor eax, eax",
                $call,
                "mov [rsp + {result}], rax",
                "jmp 2b",
                "3:",
                "mov rax, [rsp + {result}]",
                // As where a trampoline ends; what the steps noted differs in a replay, too.
                relive_sys::cleared_frame!(
                    "movups [rsp + {own}], xmm0
                     movups [rsp + {own} + 16], xmm0
                     movups [rsp + {own} + 32], xmm0
                     movups [rsp + {own} + 48], xmm0
                     mov qword ptr [rsp + {state}], 0"
                ),
                "leave",
                ".cfi_def_cfa rsp, 8",
                "ret",
                ".cfi_endproc",
                step = sym $step,
                through = sym relive_sys::aside::through,
                top = const relive_sys::tls::TOP,
                personality = sym relive_sys::trampoline::personality,
                room = const $room,
                own = const $crate::variadic::offset::OWN,
                registers = const $crate::variadic::offset::REGISTERS,
                arguments = const $crate::variadic::offset::ARGUMENTS,
                result = const $crate::variadic::offset::RESULT,
                place = const $crate::variadic::offset::PLACE,
                unwound = const $crate::variadic::offset::UNWOUND,
                subject = const $crate::variadic::offset::SUBJECT,
                state = const $crate::variadic::offset::STATE,
            )
        }
    };
}
pub(crate) use steps;

/// Defines an exported function: hands its subject, a constant, to one of the [`steps!`].
macro_rules! entry {
    ($name:ident, $steps:path, $subject:ty = $value:expr) => {
        const _: () = {
            static SUBJECT: $subject = $value;
            $crate::real::in_time!(SUBJECT.real);

            #[doc = concat!("`", stringify!($name), "`")]
            ///
            /// # Safety
            /// As for the function that this one stands in front of.
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            pub unsafe extern "C-unwind" fn $name() {
                core::arch::naked_asm!(
                    ".cfi_startproc",
                    "lea r11, [rip + {subject}]",
                    "jmp {steps}",
                    ".cfi_endproc",
                    subject = sym SUBJECT,
                    steps = sym $steps,
                )
            }
        };
    };
}
pub(crate) use entry;
