//! What the translator asks of the process that it is in.
//!
//! Apart because a runtime answers differently from a test: it knows where it put
//! jumps and breakpoints into the program, and which code is its own.

use crate::area::Context;
use crate::error::Error;
use crate::memory::Reserve;
use core::ptr::NonNull;
use relive_sys::syscall::number::{PROCESS_VM_READV, PROCESS_VM_WRITEV};
use relive_sys::syscall::syscall6;

/// What to do at an instruction that was handed to [`Host::event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Execute it with the registers of the context.
    Execute,
    /// It has been done: go on behind it.
    Skip,
    /// Go on at the context's `ip`.
    Resume,
    /// Go on natively at the context's `ip`, with all its registers: the thread leaves the cache as it does where
    /// [`Host::is_outside`] says so.
    Leave,
}

/// The process around the translator.
pub trait Host: Sync {
    /// Copies the program's code from `address` on, as the program has it: without patches and breakpoints of ours.
    /// Returns how many bytes of `into` were filled; fewer if the rest can't be read, none if nothing can.
    fn read(&self, address: u64, into: &mut [u8]) -> usize;

    /// Whether code at `address` runs natively. The program jumps there with all its registers, and comes back through
    /// [`Engine::resume`](crate::Engine::resume) or a new [`Thread::enter`](crate::Thread::enter).
    fn is_outside(&self, address: u64) -> bool;

    /// A thread came to an instruction that the tool wants to see
    /// ([`Treatment::Event`](crate::Treatment::Event)). Runs on the thread's own stack of ours, without any lock.
    fn event(&self, context: &mut Context) -> After {
        let _ = context;
        After::Execute
    }

    /// Memory for another thread of a process that is translated as a whole:
    /// [`AREA_BYTES`](crate::AREA_BYTES) bytes, with what the tool wants before and behind them, aligned to 64, zeroed, readable and writable, never taken back. The engine
    /// uses that of threads that are gone again. `None` if there is none, which fails the program's `clone`.
    fn thread_memory(&self, reserve: Reserve) -> Option<NonNull<u8>> {
        let _ = reserve;
        None
    }

    /// The process ends by the calling thread's next call, which ends all its threads.
    fn process_ends(&self) {}

    /// The process ends by a signal that struck the calling thread and that the program leaves to the kernel. All signals are
    /// blocked. Runs on the thread's own stack of ours.
    fn process_dies(&self) {}

    /// A thread of such a process ends. `memory` is what [`Self::thread_memory`] gave for it. Runs in that thread.
    fn thread_ends(&self, memory: NonNull<u8>) {
        let _ = memory;
    }

    /// Runs `fork`, by which the process forks, while no other thread is within what the host has locks for: the child has
    /// this thread alone.
    fn around_fork(&self, fork: &mut dyn FnMut()) {
        fork();
    }

    /// A signal found a thread of such a process outside of the cache at `ip`: something left it unnoticed, or is not
    /// translated. It goes on translated.
    fn escaped(&self, ip: u64) {
        let _ = ip;
    }

    /// The thread leaves the cache for good, because what is at `ip` can't be translated: it goes on there natively.
    fn lost(&self, ip: u64, why: Error) {
        let _ = (ip, why);
    }
}

/// Reads this process's memory without trusting that it is there.
///
/// Returns as [`Host::read`] does.
pub fn read_own_memory(address: u64, into: &mut [u8]) -> usize {
    let read = |into: &mut [u8]| {
        let to = [into.as_mut_ptr() as usize, into.len()];
        let from = [address as usize, into.len()];
        let (to, from) = (to.as_ptr() as usize, from.as_ptr() as usize);
        // The thread, not the process: one whose first thread has ended has no memory by its own name.
        let pid = relive_sys::syscall::gettid() as usize;
        // SAFETY: `to` describes the slice; `from` is only read by the kernel, which reports what it can't read.
        let count = unsafe { syscall6(PROCESS_VM_READV, pid, to, 1, from, 1, 0) };
        usize::try_from(count).unwrap_or(0)
    };
    // The kernel gives all of a range or nothing of it; what stands before the end of a page can be had by itself.
    let count = read(into);
    let page_left = (4096 - address as usize % 4096).min(into.len());
    if count == 0 { read(&mut into[..page_left]) } else { count }
}

/// Writes to this process's memory without trusting that it is there. Returns how many bytes were written.
pub(crate) fn write_own_memory(address: u64, bytes: &[u8]) -> usize {
    let from = [bytes.as_ptr().addr(), bytes.len()];
    let to = [address as usize, bytes.len()];
    let (from, to) = (from.as_ptr().addr(), to.as_ptr().addr());
    // SAFETY: `from` describes the slice; `to` is only written by the kernel, where the program asked for it.
    let count = unsafe { syscall6(PROCESS_VM_WRITEV, relive_sys::syscall::gettid() as usize, from, 1, to, 1, 0) };
    usize::try_from(count).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::read_own_memory;

    #[test]
    fn memory_that_is_not_there_is_not_read() {
        let text = *b"some bytes";
        let mut into = [0; 10];
        assert_eq!(read_own_memory(text.as_ptr() as u64, &mut into), 10);
        assert_eq!(into, text);
        assert_eq!(read_own_memory(16, &mut into), 0);
        assert_eq!(read_own_memory(u64::MAX - 3, &mut into), 0);
    }
}
