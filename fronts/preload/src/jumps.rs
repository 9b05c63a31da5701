//! `longjmp` and kin: frames that we watch and that a jump leaves are taken off
//! the list.
//!
//! A frame that stays on it would be taken for one that is still on the stack:
//! the memory holds other things by then. A jump out of a handler that interrupts
//! a call of ours is the usual case (shells do it on SIGINT).

use crate::real::Real;
use crate::signals;
use relive_sys::{detour, jump};

macro_rules! jumps {
    ($($name:ident = $symbol:literal),* $(,)?) => {
        $(
            mod $name {
                use super::*;

                pub(super) static REAL: Real = Real::new($symbol, None);
                $crate::real::in_time!(REAL);

                pub(super) unsafe extern "C" fn before(
                    buffer: usize, _: usize, _: usize, _: usize, _: usize, _place: usize,
                ) -> usize {
                    // SAFETY: the program's buffer, which `setjmp` has filled, or the jump is undefined.
                    signals::leave_frames(unsafe { jump::stack_pointer(buffer as *const u64) });
                    REAL.address()
                }
            }
            detour!(here $name, $name::before);
        )*

        /// Before the first is called: a jump may come from a handler that interrupted the loader.
        pub(crate) fn look_up() {
            $($name::REAL.look_up_if_present();)*
        }
    };
}

jumps! { longjmp = c"longjmp", _longjmp = c"_longjmp", siglongjmp = c"siglongjmp", __longjmp_chk = c"__longjmp_chk" }
