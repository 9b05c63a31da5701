//! A stack of our own for our own code, beside the program's.
//!
//! What runs on the program's stack leaves things below the program's frames, and a
//! replay leaves others than the recording: it waits where that wrote, and asks
//! nobody where that asked the kernel. A program that reads such places (a variable
//! that was never set, a collector that looks through stacks, padding of a structure
//! that is written out) sees the difference. So whatever does not the same in both
//! runs aside: at the outermost entry into our code the thread changes to a stack of
//! its own, and comes back at the end. On the program's stack stand only the words
//! with which it left: registers that our code keeps for its caller, and may use itself. A handler that strikes here is
//! shown them as the caller's ([`Left`]), and collectors find them: no pointer of the program's is on a stack aside alone.
//!
//! ```text
//! program ─▶ front ─▶ aside: OUTER = rsp, rsp = TOP ─▶ body ─▶ rsp = OUTER, OUTER = 0 ─▶ registers cleared ─▶ program
//! ```
//!
//! Registers that a callee may use hold garbage of ours behind it, and the loader's
//! lazy binding, which keeps all of them, lays it on the stack: so they are cleared.
//!
//! A handler of the program's that interrupts our code runs on the program's stack,
//! below where that left it ([`crate::trampoline!`] with `signal`): it may look where its
//! stack is, and need much of it. What it does of its own goes aside below what
//! was interrupted there, and on a further stack where little of it is left ([`deepen`]). Whoever
//! leaves it by `longjmp` gives that back ([`left_handler`]).
//!
//! A stack is aligned to its size, so that a stack pointer tells whether it is in
//! there. It lies below all stacks of the program, as a callee's frame is expected to.
//! Without one, as in a plain recording, nothing goes aside, for one comparison.

use crate::{syscall, tls};

/// Bytes of a stack, to which it is aligned as well: only what is used is touched.
pub const BYTES: usize = 256 << 10;

/// Memory for a stack: its upper end. `None` if there is none.
pub fn allocate() -> Option<usize> {
    let start = usize::try_from(syscall::mmap(2 * BYTES, syscall::MAP_PRIVATE_ANONYMOUS, -1, 0)).ok()?;
    Some(start.next_multiple_of(BYTES) + BYTES)
}

/// From here on the calling thread has the stack that ends at `top`.
///
/// # Safety
/// Nobody else may use it while the thread lives.
pub unsafe fn give(top: usize) {
    tls::set::<{ tls::TOP }>(top);
}

/// Whether the calling thread has a stack aside.
pub fn has_one() -> bool {
    tls::get::<{ tls::TOP }>() != 0
}

/// Whether an address is in the stack that ends at `top`, or ended there at first.
pub fn holds(top: usize, address: usize) -> bool {
    top != 0 && (top - 1) ^ address < BYTES
}

/// Where the calling thread left the program's stack, if it is aside.
pub fn left_at() -> Option<usize> {
    Some(tls::get::<{ tls::OUTER }>()).filter(|&outer| outer != 0)
}

/// Of a thread that is aside, with its stack pointer at `pointer`: where that part of the stack ends, and where the thread left the
/// program's.
pub fn bounds(pointer: usize) -> Option<[usize; 2]> {
    let top = tls::get::<{ tls::TOP }>();
    left_at().filter(|_| pointer < top && holds(top, pointer)).map(|left| [top, left])
}

/// A handler of the program's is about to run: what is left of the stack aside is for what that does there. The kernel lays
/// a frame on it for each handler that strikes another one's operation, and nobody says how many do: where little is left,
/// the thread goes on on another stack, which the first word of this one names from then on. The end of the handler, or
/// [`left_handler`], gives the former back.
pub fn deepen() {
    const ENOUGH: usize = 64 << 10;
    let top = tls::get::<{ tls::TOP }>();
    if top == 0 {
        return;
    }
    let start = (top - 1) & !(BYTES - 1);
    if top - start >= ENOUGH {
        return;
    }
    let next = start as *mut usize;
    // SAFETY: the lowest word of the thread's own stack, to which nothing comes down.
    unsafe {
        if next.read() == 0 {
            next.write(allocate().unwrap_or(0));
        }
        if next.read() != 0 {
            give(next.read());
        }
    }
}

/// The calling thread leaves a handler by a jump to the program's stack: its stack ends where it did when that began, and is
/// not in use.
pub fn left_handler(top: usize) {
    tls::set::<{ tls::OUTER }>(0);
    tls::set::<{ tls::TOP }>(top);
}

/// What a thread leaves on the program's stack when it goes aside, from below the place that [`left_at`] says.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Left {
    /// r15, r14, r13, r12, rbx.
    pub kept: [usize; 5],
    /// Its frame pointer.
    pub frame: usize,
    /// Where it goes on.
    pub back: usize,
}

impl Left {
    /// What a thread left at a place.
    ///
    /// # Safety
    /// The place must be one that [`left_at`] says or said, whose thread is aside still.
    pub unsafe fn at(place: usize) -> Self {
        // SAFETY: the caller's promise.
        unsafe { ((place - core::mem::offset_of!(Self, frame)) as *const Self).read() }
    }
}

/// Lays down what stands in [`Left`] below rsp, which is where a thread leaves the program's stack: no signal takes that,
/// as no signal takes what a function has there.
#[macro_export]
macro_rules! kept_registers {
    () => {
        "mov [rsp - 8], rbx
         mov [rsp - 16], r12
         mov [rsp - 24], r13
         mov [rsp - 32], r14
         mov [rsp - 40], r15"
    };
}

/// What goes aside: up to five words in, two out.
pub type Body<R> = unsafe extern "C" fn(usize, usize, usize, usize, usize) -> R;

/// Calls `body` aside, if the thread has a stack there and is not on it.
///
/// # Safety
/// As for the body, which must return, be unwound, or end the thread or the process; what `R` is fits into two registers.
#[unsafe(naked)]
pub unsafe extern "C" fn run<R>(_body: Body<R>, _: usize, _: usize, _: usize, _: usize, _: usize) -> R {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "mov r11, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov rcx, r8",
        "mov r8, r9",
        "jmp {through}",
        ".cfi_endproc",
        through = sym through,
    )
}

/// [`run`] of a closure.
///
/// # Panics
/// Never: what is called aside has run.
pub fn with<R>(operation: impl FnOnce() -> R) -> R {
    struct Both<F, R>(Option<F>, Option<R>);
    unsafe extern "C" fn body<F: FnOnce() -> R, R>(both: usize, _: usize, _: usize, _: usize, _: usize) -> usize {
        // SAFETY: the address that is given below, of what lives until this has returned.
        let both = unsafe { &mut *(both as *mut Both<F, R>) };
        both.1 = both.0.take().map(|operation| operation());
        0
    }
    fn place<F: FnOnce() -> R, R>(_: &Both<F, R>) -> Body<usize> {
        body::<F, R>
    }
    let mut both = Both(Some(operation), None);
    let body = place(&both);
    // SAFETY: a function of Rust, which unwinds only where panics do, that is nowhere in the runtime.
    unsafe { run(body, (&raw mut both).addr(), 0, 0, 0, 0) };
    both.1.expect("the operation ran")
}

/// Registers that a callee may use, but for the two of its result, become zero.
macro_rules! cleared {
    () => {
        "xor ecx, ecx
         xor esi, esi
         xor edi, edi
         xor r8d, r8d
         xor r9d, r9d
         xor r10d, r10d
         xor r11d, r11d
         pxor xmm0, xmm0
         pxor xmm1, xmm1
         pxor xmm2, xmm2
         pxor xmm3, xmm3
         pxor xmm4, xmm4
         pxor xmm5, xmm5
         pxor xmm6, xmm6
         pxor xmm7, xmm7
         pxor xmm8, xmm8
         pxor xmm9, xmm9
         pxor xmm10, xmm10
         pxor xmm11, xmm11
         pxor xmm12, xmm12
         pxor xmm13, xmm13
         pxor xmm14, xmm14
         pxor xmm15, xmm15"
    };
}

/// Back on the program's stack, where rbp is.
macro_rules! returned {
    () => {
        "mov rsp, rbp
         mov r10, [rip + relive_tls_slot@gottpoff]
         mov qword ptr fs:[r10 + {outer}], 0"
    };
}

/// Calls what r11 says with the arguments as they are, aside if the thread has a stack there and is not on it; registers are
/// clear then afterwards, but for the result's two. For assembly: takes r10 and rax besides.
///
/// # Safety
/// For the assembly of this module, of [`crate::trampoline`] and of the fronts.
#[unsafe(naked)]
pub unsafe extern "C-unwind" fn through() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "mov r10, [rip + relive_tls_slot@gottpoff]",
        "mov rax, fs:[r10 + {top}]",
        "test rax, rax",
        "jz 2f",
        "cmp qword ptr fs:[r10 + {outer}], 0",
        "jne 2f",
        crate::kept_registers!(),
        // Who interrupts between the two finds the thread on the program's stack, and in use.
        "mov fs:[r10 + {outer}], rsp",
        "mov rsp, rax",
        "xor eax, eax",
        "call r11",
        returned!(),
        cleared!(),
        "pop rbp",
        ".cfi_remember_state",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_restore_state",
        "2:",
        "xor eax, eax",
        "call r11",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        top = const tls::TOP,
        outer = const tls::OUTER,
    )
}

/// The end of a front that went aside by itself: what is done before it leaves that stack, and what behind.
macro_rules! back {
    ($before:literal, $behind:literal) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            ".cfi_def_cfa rbp, 16",
            ".cfi_offset rbp, -16",
            $before,
            returned!(),
            cleared!(),
            $behind,
            "xor edx, edx",
            "pop rbp",
            ".cfi_def_cfa rsp, 8",
            "ret",
            ".cfi_endproc",
            outer = const tls::OUTER,
        )
    };
}

/// The end of a front that went aside by itself, see [`crate::front!`]: back to the program's stack, where its frame is, with a
/// result of one word.
///
/// # Safety
/// As for [`through`].
#[unsafe(naked)]
pub unsafe extern "C" fn back() {
    back!("", "")
}

/// The same for one whose result is a floating-point number.
///
/// # Safety
/// As for [`through`].
#[unsafe(naked)]
pub unsafe extern "C" fn back_with_number() {
    back!("movq rax, xmm0", "movq xmm0, rax\nxor eax, eax")
}

/// The same for one that has another way as well, which ends at [`at_hand`].
///
/// # Safety
/// As for [`through`].
#[unsafe(naked)]
pub unsafe extern "C" fn back_at_hand() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        ".cfi_def_cfa rbp, 16",
        ".cfi_offset rbp, -16",
        returned!(),
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "jmp {at_hand}",
        ".cfi_endproc",
        at_hand = sym at_hand,
        outer = const tls::OUTER,
    )
}

/// The end of what a front did on the program's stack, with a result of one word: a function that makes no call does the same
/// in a replay, but under the race detector, which has it go aside. So whatever such a function uses of the stack is cleared
/// in both ways.
///
/// # Safety
/// As for [`through`].
#[unsafe(naked)]
pub unsafe extern "C" fn at_hand() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        cleared!(),
        "movups [rsp - 16], xmm0",
        "movups [rsp - 32], xmm0",
        "movups [rsp - 48], xmm0",
        "movups [rsp - 64], xmm0",
        "xor edx, edx",
        "ret",
        ".cfi_endproc",
    )
}

/// Makes the `BYTES` below the caller's frame zero, and registers: where our code ran on the program's stack, because it had
/// no other yet.
///
/// # Safety
/// The stack must go on that far.
#[unsafe(naked)]
pub unsafe extern "C" fn wipe<const BYTES: usize>() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "lea rdi, [rsp - {bytes}]",
        "mov ecx, {bytes} / 8",
        "xor eax, eax",
        "cld",
        "rep stosq",
        cleared!(),
        "xor edx, edx",
        "ret",
        ".cfi_endproc",
        bytes = const BYTES,
    )
}

#[cfg(test)]
mod tests {
    use super::{BYTES, allocate, give, has_one, left_at, left_handler, run, with};

    #[repr(C)]
    struct Seen {
        at: usize,
        sum: usize,
    }

    unsafe extern "C" fn look(one: usize, two: usize, three: usize, four: usize, five: usize) -> Seen {
        let here = 0u8;
        Seen { at: core::ptr::from_ref(&here).addr(), sum: one + 2 * two + 3 * three + 4 * four + 5 * five }
    }

    fn call() -> Seen {
        // SAFETY: a function that returns.
        unsafe { run(look, 1, 2, 3, 4, 5) }
    }

    #[test]
    fn a_body_runs_aside_once_there_is_a_stack() {
        let here = 0u8;
        let here = core::ptr::from_ref(&here).addr();
        let Seen { at, sum } = call();
        assert!(at < here && here - at < BYTES && sum == 55);
        let top = allocate().expect("memory");
        // SAFETY: nobody else has it.
        unsafe { give(top) };
        let aside = |at: usize| (top - BYTES..top).contains(&at);
        let Seen { at, sum } = call();
        assert!(aside(at) && sum == 55);
        assert_eq!(left_at(), None);
        // Who is there already stays.
        let (outer, inner) = with(|| (left_at(), call().at));
        assert!(outer.is_some_and(|outer| outer < here && here - outer < BYTES) && aside(inner) && inner < top - 16);
        assert!(has_one());
        left_handler(0);
        assert!(!has_one());
        assert!(!aside(call().at));
    }

    #[test]
    fn what_a_body_makes_is_handed_back() {
        let text = String::from("a");
        assert_eq!(with(move || text + "b"), "ab");
    }
}
