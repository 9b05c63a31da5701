//! The preloaded library: the functions that a program's synchronisation goes
//! through, each a few lines that name the object and the operation and call
//! the gate.
//!
//! Every front has the same shape. Recording: do the real operation, take the
//! event while the effect is exclusive. Replaying: wait for the turn, do the
//! real operation without blocking, complete the event. Otherwise: straight on.
#![no_std]
// The names, arguments and contracts are those of the C functions.
#![allow(missing_docs)]
// Exported by symbol, not by path.
#![allow(unreachable_pub)]

mod asynchronous;
mod backtrace;
mod barrier;
mod c11;
mod callbacks;
mod cancel;
mod condition;
mod described;
mod entry;
mod files;
mod first_use;
mod guard;
mod handlers;
mod heap;
mod identity;
mod jobs;
mod jumps;
mod last;
mod libc_state;
mod loader;
mod lookups;
mod module;
mod mutex;
mod notify;
mod once;
mod processes;
mod real;
mod rseq;
mod rwlock;
mod semaphore;
mod sharing;
mod signals;
mod spin;
mod stdio;
mod threads;
mod unannounced;
mod variadic;

relive_sys::memory_functions!("");
relive_sys::never_unwinds!();

#[global_allocator]
static ALLOCATOR: relive_rt::allocator::Own = relive_rt::allocator::Own;

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    relive_rt::report::line(format_args!("broken invariant in the runtime, the program is aborted: {info}"));
    relive_sys::syscall::exit_group(125)
}
