//! The handler of the traps that stand in the place of watched instructions.
//!
//! Apart because threads come here that await nothing: they pass a watched place, or
//! one that is being changed.

use super::TABLE;
use crate::environment::read_memory;
use crate::replay::acting;
use relive_sys::passage;
use relive_sys::signal::{Context, Info};
use relive_sys::syscall;

/// The handler of traps: the stub does the rest.
pub(super) unsafe extern "C" fn on_trap(_number: i32, info: *mut Info, context: *mut Context) {
    // SAFETY: the kernel's information and context.
    let (info, context) = unsafe { (&*info, &mut *context) };
    let place = context.place() - 1;
    let mut table = TABLE.lock();
    let found = table.strikes.iter().position(|s| s.owner != 0 && s.trapped && s.place == place);
    let mut byte = [0];
    if let Some(gate) = table.crowd.gate(place) {
        context.set_place(gate);
    } else if let Some(index) = found {
        let strike = &table.strikes[index];
        context.set_place(passage::entry_of(strike.stub) + strike.lead_bytes);
        let thread = acting();
        let above = context.stack_pointer() as usize >= thread.signals.struck[1];
        let returned = place != thread.signals.struck[0];
        let own = thread.signals.strike == Some(index) && above;
        thread.signals.struck[0] *= usize::from(!own);
        if own && returned {
            table.improve(index);
        }
    } else if read_memory(place, &mut byte) && byte == [passage::TRAP] {
        let default = [0usize; 4];
        // The program's own, which nobody handles while ours are there.
        // SAFETY: the kernel reads an action of four words.
        unsafe {
            let number = syscall::number::RT_SIGACTION;
            syscall::syscall6(number, info.number as usize, default.as_ptr().addr(), 0, 8, 0, 0);
        }
        syscall::tgkill(syscall::getpid(), syscall::gettid(), info.number as u32);
    } else {
        // It was taken away in between.
        context.set_place(place);
    }
}
