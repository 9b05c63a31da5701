//! What the kernel tells a signal handler, and how to send a signal to oneself
//! so that its handler runs as if the kernel had sent it.
//!
//! Apart from the other calls because it knows layouts of x86-64 Linux.

use crate::aside::Left;
use crate::syscall::number::{
    RT_SIGACTION, RT_SIGPROCMASK, RT_SIGQUEUEINFO, RT_SIGTIMEDWAIT, RT_TGSIGQUEUEINFO, TIMER_CREATE, TIMER_DELETE,
    TIMER_SETTIME,
};
use crate::syscall::{self, syscall6};
use core::ops::Range;

/// `siginfo_t`: 128 bytes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Info {
    /// `si_signo`.
    pub number: i32,
    /// `si_errno`.
    pub error: i32,
    /// `si_code`.
    pub code: i32,
    gap: u32,
    /// Sender's process id, or a timer's id.
    pub pid: i32,
    /// Sender's user id.
    pub uid: u32,
    /// `si_value`, for [`SI_QUEUE`] and [`SI_TIMER`].
    pub value: u64,
    rest: [u64; 12],
}

const _: () = assert!(size_of::<Info>() == 128);

impl Info {
    /// With nothing but a number and a code.
    pub(crate) fn new(number: i32, code: i32) -> Self {
        Self { number, error: 0, code, gap: 0, pid: 0, uid: 0, value: 0, rest: [0; 12] }
    }

    /// Whether it was sent to the process `pid` for sure, and not to one of its threads: by `kill`, the kernel or a message
    /// queue, or by `sigqueue` of another process.
    pub fn is_of_process(&self, pid: u32) -> bool {
        const SI_USER: i32 = 0;
        const SI_MESGQ: i32 = -3;
        self.code >= SI_USER || self.code == SI_MESGQ || self.code == SI_QUEUE && self.pid as u32 != pid
    }

    /// The address that a fault is about.
    pub fn address(&self) -> usize {
        self.pid as u32 as usize | (self.uid as usize) << 32
    }

    /// Changes that.
    pub fn set_address(&mut self, address: usize) {
        (self.pid, self.uid) = (address as u32 as i32, (address >> 32) as u32);
    }

    /// Whether a dispatched call was one of `int 0x80`.
    pub fn is_of_gate(&self) -> bool {
        /// `AUDIT_ARCH_I386`, in the word behind the call's number.
        const I386: u64 = 0x4000_0003;
        self.value >> 32 == I386
    }
}

/// `si_code` of `sigqueue`.
pub const SI_QUEUE: i32 = -1;
/// `si_code` of a timer.
pub const SI_TIMER: i32 = -2;
/// `si_code` of `tgkill`.
pub const SI_TKILL: i32 = -6;

impl Info {
    /// What a signal sent by this process looks like.
    pub const fn from_us(number: i32, pid: u32) -> Self {
        Self { number, error: 0, code: SI_TKILL, gap: 0, pid: pid as i32, uid: 0, value: 0, rest: [0; 12] }
    }
}

/// The start of `ucontext_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Context {
    flags: u64,
    link: u64,
    stack: [u64; 3],
    /// r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip and more.
    registers: [u64; 23],
    floating_point: u64,
    reserved: [u64; 8],
    /// The signal mask that the thread goes on with.
    pub mask: u64,
}

const _: () = assert!(core::mem::offset_of!(Context, mask) == 296);

/// Where the stack pointer stands in a [`Context`].
pub const STACK_POINTER_AT: usize = core::mem::offset_of!(Context, registers) + RSP * size_of::<u64>();

impl Context {
    /// The same of the thread's program, which it left for our code at `left`, about to go on there. Of its registers those
    /// that a callee keeps.
    #[must_use]
    pub fn of_caller(&self, left: usize, words: &Left) -> Self {
        let mut registers = [0; 23];
        let [r15, r14, r13, r12, rbx] = words.kept;
        let stack = left + size_of_val(&words.frame) + size_of_val(&words.back);
        let known = [(R12, r12), (R13, r13), (R14, r14), (R15, r15), (RBX, rbx), (RBP, words.frame), (RSP, stack)];
        for (register, value) in known {
            registers[register] = value as u64;
        }
        registers[RIP] = words.back as u64;
        // Of the flags only that signals may come; the segments.
        (registers[RIP + 1], registers[RIP + 2]) = (0x202, self.registers[RIP + 2]);
        // The kernel leaves what lay there.
        Self { registers, reserved: [0; 8], ..*self }
    }
}

const R8: usize = 0;
const R9: usize = 1;
const R10: usize = 2;
const R12: usize = 4;
const R13: usize = 5;
const R14: usize = 6;
const R15: usize = 7;
const RDI: usize = 8;
const RSI: usize = 9;
const RBP: usize = 10;
const RBX: usize = 11;
const RDX: usize = 12;
const RAX: usize = 13;
const RSP: usize = 15;
const RIP: usize = 16;
/// Where a system call's arguments stand.
const ARGUMENTS: [usize; 6] = [RDI, RSI, RDX, R10, R8, R9];
const SYSCALL: [u8; 2] = [0x0F, 0x05];
const EINTR: i64 = -4;

/// A system call that a signal interrupted, as far as the registers still tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted {
    /// Whether it returned, or ended with `EINTR`, or will be restarted.
    pub finished: bool,
    /// Its result, if it finished.
    pub result: i64,
    /// Its first three arguments.
    pub arguments: [u64; 3],
    /// Its number, if the thread is about to make it, or to make it again.
    pub number: Option<u64>,
}

impl Context {
    /// Where the thread was.
    pub fn place(&self) -> usize {
        self.registers[RIP] as usize
    }

    /// Where the thread goes on.
    pub fn set_place(&mut self, place: usize) {
        self.registers[RIP] = place as u64;
    }

    /// Where in memory [`Context::place`] stands, if the context does at `address`.
    pub const fn address_of_place(address: usize) -> usize {
        address + core::mem::offset_of!(Self, registers) + RIP * size_of::<u64>()
    }

    /// A general register by its number in instructions, to be changed.
    pub fn operand(&mut self, number: usize) -> &mut u64 {
        // rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, then r8 and on.
        const ORDER: [usize; 16] = [RAX, 14, RDX, 11, RSP, 10, RSI, RDI, R8, R9, R10, 3, 4, 5, 6, 7];
        &mut self.registers[ORDER[number & 15]]
    }

    /// The flags.
    pub fn flags_register(&mut self) -> &mut u64 {
        &mut self.registers[RIP + 1]
    }

    /// The number of the system call that the thread is at.
    pub fn number(&self) -> usize {
        self.registers[RAX] as usize
    }

    /// The thread goes on with this result of the system call that it is at.
    pub fn set_result(&mut self, result: isize) {
        self.registers[RAX] = result as u64;
    }

    /// An argument of the system call that the thread is at.
    pub fn argument(&self, index: usize) -> u64 {
        self.registers[ARGUMENTS[index]]
    }

    /// Changes an argument of that call.
    pub fn set_argument(&mut self, index: usize, value: u64) {
        self.registers[ARGUMENTS[index]] = value;
    }

    /// All arguments of that call.
    pub fn arguments(&self) -> [usize; 6] {
        ARGUMENTS.map(|register| self.registers[register] as usize)
    }

    /// A general register, by its index in the kernel's context.
    pub fn register(&self, index: usize) -> u64 {
        self.registers[index]
    }

    /// The thread goes on with this register.
    pub fn set_register(&mut self, index: usize, value: u64) {
        self.registers[index] = value;
    }

    /// The lower halves of the vector registers, two words each.
    ///
    /// # Safety
    /// The context must be one that the kernel made for a thread of this process.
    pub unsafe fn vectors(&self) -> [u64; 32] {
        const VECTORS: usize = 160;
        if self.floating_point == 0 {
            return [0; 32];
        }
        // SAFETY: the kernel's image of the registers begins with 512 bytes of which these are 256.
        unsafe { ((self.floating_point as usize + VECTORS) as *const [u64; 32]).read_unaligned() }
    }

    /// The stack pointer.
    pub fn stack_pointer(&self) -> u64 {
        self.registers[RSP]
    }

    /// The thread goes on with this stack pointer.
    pub fn set_stack_pointer(&mut self, pointer: u64) {
        self.registers[RSP] = pointer;
    }

    /// The alternate signal stack that the thread had: base, flags and size.
    pub fn alternate_stack(&self) -> [u64; 3] {
        self.stack
    }

    /// The thread goes on with this alternate signal stack: base, flags and size.
    pub fn set_alternate_stack(&mut self, stack: [u64; 3]) {
        self.stack = stack;
    }

    /// The system call that the thread was in, or has just left.
    ///
    /// # Safety
    /// The context must be one that the kernel made for a thread of this process.
    pub unsafe fn system_call(&self) -> Option<Interrupted> {
        let (place, rax) = (self.registers[RIP] as *const [u8; 2], self.registers[RAX] as i64);
        let arguments = [self.registers[RDI], self.registers[RSI], self.registers[RDX]];
        // SAFETY: the thread was about to run the instruction here, and an instruction of the same function stands
        // before it but at the first byte of a page, where nothing is read.
        unsafe {
            if place.read_unaligned() == SYSCALL {
                // The kernel winds back to the instruction what it will restart.
                return Some(Interrupted { finished: false, result: 0, arguments, number: Some(rax as u64) });
            }
            if place.addr().is_multiple_of(4096) || place.cast::<u8>().sub(2).cast::<[u8; 2]>().read() != SYSCALL {
                return None;
            }
        }
        Some(Interrupted { finished: rax != EINTR, result: rax, arguments, number: None })
    }
}

/// Sends a signal with this information to a thread of this process.
pub fn queue(pid: u32, tid: u32, info: &Info) -> isize {
    let (number, info) = (info.number as usize, core::ptr::from_ref(info).addr());
    // SAFETY: the kernel reads the 128 bytes of the information.
    unsafe { syscall6(RT_TGSIGQUEUEINFO, pid as usize, tid as usize, number, info, 0, 0) }
}

/// Sends a signal with this information to the process of the calling thread `tid`: whichever thread does not block it
/// gets it. What `kill` or the kernel says of a sender nobody may say but to himself: so the process is named by the
/// thread, as the kernel allows.
pub fn queue_to_process(tid: u32, info: &Info) -> isize {
    let (number, info) = (info.number as usize, core::ptr::from_ref(info).addr());
    // SAFETY: the kernel reads the 128 bytes of the information.
    unsafe { syscall6(RT_SIGQUEUEINFO, tid as usize, number, info, 0, 0, 0) }
}

/// Takes a signal that is pending for the calling thread or its process, and that the thread blocks.
pub fn take_pending(number: u32) -> Option<Info> {
    let (mask, now, mut info) = (1u64 << (number - 1), [0u64; 2], Info::new(number as i32, 0));
    let (mask, now, out) = ((&raw const mask).addr(), (&raw const now).addr(), (&raw mut info).addr());
    // SAFETY: the kernel reads a mask of eight bytes and a time, and writes the 128 bytes of the information.
    let taken = unsafe { syscall6(RT_SIGTIMEDWAIT, mask, out, now, 8, 0, 0) };
    (taken == number as isize).then_some(info)
}

/// Whether a signal's handler lies in the code of the library that contains this function.
pub fn handler_is_own(number: u32) -> bool {
    let mut action = [0usize; 4];
    // SAFETY: without a new action only the old one, four words, is written.
    unsafe { syscall6(RT_SIGACTION, number as usize, 0, (&raw mut action).addr(), 8, 0, 0) };
    is_own_code(action[0])
}

/// Writes to a descriptor for ourselves: where nobody reads any more, or the file may not grow, that is an error and no
/// signal. The number of bytes or a negative errno.
pub fn write_unsignalled(fd: u32, bytes: &[u8]) -> isize {
    const SIG_BLOCK: usize = 0;
    const SIGPIPE: u32 = 13;
    const SIGXFSZ: u32 = 25;
    const RAISED: u64 = 1 << (SIGPIPE - 1) | 1 << (SIGXFSZ - 1);
    let mut before = 0u64;
    let (raised, now) = (RAISED, [0u64; 2]);
    // SAFETY: masks of the kernel's size and a time that the kernel reads, and a mask that it writes; all are locals.
    unsafe {
        syscall6(RT_SIGPROCMASK, SIG_BLOCK, (&raw const raised).addr(), (&raw mut before).addr(), 8, 0, 0);
        let written = syscall::write(fd, bytes);
        if matches!(written, syscall::EPIPE | syscall::EFBIG) {
            syscall6(RT_SIGTIMEDWAIT, (&raw const raised).addr(), 0, (&raw const now).addr(), 8, 0, 0);
        }
        syscall::set_signal_mask(before);
        written
    }
}

/// Blocks a signal in the calling thread, until a handler that it is in returns.
pub fn block(number: u32) {
    const SIG_BLOCK: usize = 0;
    let mask = 1u64 << (number - 1);
    // SAFETY: the kernel reads a mask of eight bytes.
    unsafe { syscall6(RT_SIGPROCMASK, SIG_BLOCK, (&raw const mask).addr(), 0, 8, 0, 0) };
}

/// Ends [`block`] for the signals of a mask.
pub fn unblock(mask: u64) {
    const SIG_UNBLOCK: usize = 1;
    // SAFETY: the kernel reads a mask of eight bytes.
    unsafe { syscall6(RT_SIGPROCMASK, SIG_UNBLOCK, (&raw const mask).addr(), 0, 8, 0, 0) };
}

/// Whether the calling thread blocks a signal.
pub fn is_blocked(number: u32) -> bool {
    let mut mask = 0u64;
    // SAFETY: without a new mask only the old one, eight bytes, is written.
    unsafe { syscall6(RT_SIGPROCMASK, 0, 0, (&raw mut mask).addr(), 8, 0, 0) };
    mask >> (number - 1) & 1 != 0
}

/// A kernel timer that sends a signal to one thread.
#[derive(Clone, Copy, Debug)]
pub struct Timer(i32);

impl Timer {
    /// A timer that sends `number` with `value` to the thread `tid`; `None` if the kernel has none left.
    pub fn new(tid: u32, number: u32, value: u64) -> Option<Self> {
        #[repr(C)]
        struct Event {
            value: u64,
            number: u32,
            notify: u32,
            tid: u32,
            rest: [u32; 11],
        }
        const MONOTONIC: usize = 1;
        const THREAD_ID: u32 = 4;
        let event = Event { value, number, notify: THREAD_ID, tid, rest: [0; 11] };
        let mut id = 0i32;
        let (event, out) = ((&raw const event).addr(), (&raw mut id).addr());
        // SAFETY: the kernel reads the event and writes the timer's number.
        let made = unsafe { syscall6(TIMER_CREATE, MONOTONIC, event, out, 0, 0, 0) };
        (made == 0).then_some(Self(id))
    }

    /// Lets it strike once.
    pub fn set(self, milliseconds: u32) {
        let span = [0i64, 0, 0, i64::from(milliseconds) * 1_000_000];
        // SAFETY: the kernel reads an interval and a time, four words.
        unsafe { syscall6(TIMER_SETTIME, self.0 as usize, 0, (&raw const span).addr(), 0, 0, 0) };
    }

    /// Gives it back.
    pub fn delete(self) {
        // SAFETY: no pointers.
        unsafe { syscall6(TIMER_DELETE, self.0 as usize, 0, 0, 0, 0, 0) };
    }
}

core::arch::global_asm!(".hidden __ehdr_start", ".hidden etext");

/// Whether an address lies in the code of the library, or program, that contains this function.
pub fn is_own_code(address: usize) -> bool {
    own_code().contains(&address)
}

/// The code of the library, or program, that contains this function.
pub fn own_code() -> Range<usize> {
    let (start, end): (usize, usize);
    // SAFETY: two addresses that the linker defines in every image.
    unsafe {
        core::arch::asm!("lea {s}, [rip + __ehdr_start]", "lea {e}, [rip + etext]",
            s = out(reg) start, e = out(reg) end, options(nostack, nomem, preserves_flags));
    }
    start..end
}

#[cfg(test)]
mod tests {
    use super::{Context, Info, Interrupted, RAX, RDI, RIP, SYSCALL, is_blocked, is_own_code, queue};
    use crate::syscall;

    #[test]
    fn a_call_that_is_about_to_be_made_has_its_number() {
        // At a page's first byte nothing is read.
        #[repr(align(8))]
        struct Code([u8; 5]);
        let Code(code) = &Code([0x90, 0x90, SYSCALL[0], SYSCALL[1], 0x90]);
        // SAFETY: plain data, of which zeros are some.
        let mut context: Context = unsafe { core::mem::zeroed() };
        let mut at = |place: usize, rax: i64| {
            (context.registers[RIP], context.registers[RAX]) = ((code.as_ptr().addr() + place) as u64, rax as u64);
            context.registers[RDI] = 7;
            // SAFETY: there is code before and behind it.
            unsafe { context.system_call() }
        };
        let arguments = [7, 0, 0];
        assert_eq!(at(2, 15), Some(Interrupted { finished: false, result: 0, arguments, number: Some(15) }));
        assert_eq!(at(4, -4), Some(Interrupted { finished: false, result: -4, arguments, number: None }));
        assert_eq!(at(4, 15), Some(Interrupted { finished: true, result: 15, arguments, number: None }));
        assert_eq!(at(3, 15), None);
    }

    #[test]
    fn knows_its_own_code() {
        assert!(is_own_code(knows_its_own_code as *const () as usize));
        assert!(!is_own_code("heap".to_owned().as_ptr().addr()));
    }

    #[test]
    fn a_blocked_signal_can_be_queued() {
        const SIGURG: u32 = 23;
        let before = syscall::block_signals();
        assert!(is_blocked(SIGURG));
        assert_eq!(queue(syscall::getpid(), syscall::gettid(), &Info::from_us(SIGURG as i32, syscall::getpid())), 0);
        // SIGURG is ignored by default, so that taking the block away drops it.
        syscall::set_signal_mask(before);
        assert!(!is_blocked(SIGURG));
    }
}
