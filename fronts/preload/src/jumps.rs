//! `longjmp` and kin: frames that we watch and that a jump leaves are taken off
//! the list.
//!
//! A frame that stays on it would be taken for one that is still on the stack:
//! the memory holds other things by then. A jump out of a handler that interrupts
//! a call of ours is the usual case (shells do it on SIGINT).

use crate::real::Real;
use crate::signals;
use relive_sys::detour;

/// Words of a `jmp_buf`: where the mangled stack pointer stands (glibc, `jmpbuf-offsets.h`).
const STACK: usize = 6;
/// How far glibc rotates what it mangles.
const ROTATION: u32 = 17;

/// The stack pointer that a jump sets.
unsafe fn target(buffer: *const u64) -> usize {
    let guard: u64;
    // SAFETY: the thread control block's `pointer_guard`, part of glibc's ABI; the program's buffer was filled by
    // `setjmp`, or the jump is undefined.
    unsafe {
        core::arch::asm!("mov {}, fs:[0x30]", out(reg) guard, options(nostack, readonly, preserves_flags));
        (buffer.add(STACK).read().rotate_right(ROTATION) ^ guard) as usize
    }
}

macro_rules! jumps {
    ($($name:ident = $symbol:literal),* $(,)?) => {$(
        mod $name {
            use super::*;

            static REAL: Real = Real::new($symbol, None);

            pub(super) unsafe extern "C" fn before(
                buffer: usize, _: usize, _: usize, _: usize, _: usize, _place: usize,
            ) -> usize {
                // SAFETY: the program's buffer.
                signals::leave_frames(unsafe { target(buffer as *const u64) });
                REAL.address()
            }
        }
        detour!($name, $name::before);
    )*};
}

jumps! { longjmp = c"longjmp", _longjmp = c"_longjmp", siglongjmp = c"siglongjmp", __longjmp_chk = c"__longjmp_chk" }
