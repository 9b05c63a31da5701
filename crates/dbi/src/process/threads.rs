//! Threads and forks of a process that is translated as a whole.
//!
//! Apart because a child begins with nothing but what its parent prepared: an area
//! with the registers that the program's `clone` gives it. All signals are blocked
//! until it has that: gs, which says whose area it is, is the parent's at first.

use crate::area::Area;
use crate::crossing::border;
use crate::engine::Engine;
use crate::host::{Host, read_own_memory};
use crate::register::Gpr;
use crate::tool::Tool;
use crate::translate::WayOut;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use relive_sys::syscall::number::{CLONE, CLONE3, FORK, VFORK};
use relive_sys::syscall::{self, syscall6};

const CLONE_VM: u64 = 0x100;
const CLONE_VFORK: u64 = 0x4000;
const SIGCHLD: u64 = 17;
const ENOMEM: i64 = -12;
const EFAULT: i64 = -14;
const EINVAL: i64 = -22;
/// `struct clone_args`, of which the flags are the first word, stack and its size the sixth and seventh.
const CLONE_WORDS: usize = 11;
/// The first version of it.
const CLONE_BYTES_MIN: usize = 64;
const STACK: usize = 5;

/// What a program asks for.
struct Wanted {
    flags: u64,
    /// Where the child's stack pointer begins; 0 for where the parent's is.
    stack: u64,
    /// The call as the kernel gets it.
    number: usize,
    arguments: [usize; 5],
    /// What [`CLONE3`] points to.
    block: [u64; CLONE_WORDS],
}

impl Wanted {
    fn of(number: usize, area: &Area) -> Result<Self, i64> {
        let arguments = [0, 1, 2, 3, 4].map(|index| area.argument(index) as usize);
        let mut wanted = Self { flags: SIGCHLD, stack: 0, number, arguments, block: [0; CLONE_WORDS] };
        match number {
            FORK => {}
            // The same call in its general form, which the kernel gives a thread of its own.
            VFORK => {
                wanted.number = CLONE;
                wanted.flags = CLONE_VM | CLONE_VFORK | SIGCHLD;
                wanted.arguments = [wanted.flags as usize, 0, 0, 0, 0];
            }
            CLONE => (wanted.flags, wanted.stack) = (arguments[0] as u64, arguments[1] as u64),
            _ => wanted.read_block()?,
        }
        Ok(wanted)
    }

    fn read_block(&mut self) -> Result<(), i64> {
        let [address, bytes, ..] = self.arguments;
        let mut read = [0u8; CLONE_WORDS * 8];
        if bytes < CLONE_BYTES_MIN {
            return Err(EINVAL);
        }
        let count = bytes.min(read.len());
        if read_own_memory(address as u64, &mut read[..count]) < count {
            return Err(EFAULT);
        }
        for (word, bytes) in self.block.iter_mut().zip(read.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        self.flags = self.block[0];
        if self.block[STACK] != 0 {
            self.stack = self.block[STACK] + self.block[STACK + 1];
        }
        Ok(())
    }

    /// A process of its own comes back here, on our stack: where the program's child has its stack is our matter.
    fn on_our_stack(&mut self) {
        match self.number {
            CLONE => self.arguments[1] = 0,
            CLONE3 => {
                (self.block[STACK], self.block[STACK + 1]) = (0, 0);
                self.arguments[0] = self.block.as_ptr().addr();
                self.arguments[1] = self.arguments[1].min(size_of_val(&self.block));
            }
            _ => {}
        }
    }
}

impl<H: Host, T: Tool> Engine<H, T> {
    /// Makes the thread or process that the program's call asks for; the call's result.
    pub(super) fn make_child(&self, area: &mut Area, out: &WayOut, number: usize) -> i64 {
        let wanted = match Wanted::of(number, area) {
            Ok(wanted) => wanted,
            Err(why) => return why,
        };
        if wanted.flags & CLONE_VM == 0 { self.fork(area, wanted) } else { self.clone(area, out, &wanted) }
    }

    fn fork(&self, area: &mut Area, mut wanted: Wanted) -> i64 {
        wanted.on_our_stack();
        let [first, second, third, fourth, fifth] = wanted.arguments;
        let mut result = 0;
        // The child must find it free, and whole.
        let mut areas = self.process.areas.lock();
        self.around_fork(|| {
            self.host.around_fork(&mut || {
                // SAFETY: the program's own call; a child comes back here, on its own copy of this stack.
                result = unsafe { syscall6(wanted.number, first, second, third, fourth, fifth, 0) };
            });
            result == 0
        });
        if result == 0 {
            area.tid = syscall::gettid();
            area.dispatched = false;
            areas.only(area);
            if wanted.stack != 0 {
                area.set_general(Gpr::RSP, wanted.stack);
            }
        }
        result as i64
    }

    fn clone(&self, area: &mut Area, out: &WayOut, wanted: &Wanted) -> i64 {
        let mask = syscall::block_signals();
        let result = match self.new_area() {
            // SAFETY: a new area is nobody else's.
            Some(child) => self.clone_into(area, out, wanted, unsafe { &mut *child }, mask),
            None => ENOMEM,
        };
        syscall::set_signal_mask(mask);
        result
    }

    fn clone_into(&self, area: &Area, out: &WayOut, wanted: &Wanted, child: &mut Area, mask: u64) -> i64 {
        child.context = area.context;
        child.set_general(Gpr::RAX, 0);
        child.set_general(Gpr::RCX, out.target);
        child.set_general(Gpr::R11, area.context.flags);
        if wanted.stack != 0 {
            child.set_general(Gpr::RSP, wanted.stack);
        }
        child.vectors.0.copy_from_slice(&area.vectors.0);
        (child.blocked, child.mask) = (1, mask);
        self.threads.fetch_add(1, Ordering::AcqRel);
        self.find(child, out.target, None);
        let child = core::ptr::from_mut(child);
        // SAFETY: the program's own call; the child goes on in its area, which says all that it needs.
        let result = unsafe { border::clone(wanted.number, &wanted.arguments, child) };
        // Behind a vfork the child has another image, or is gone.
        if result < 0 || wanted.flags & CLONE_VFORK != 0 {
            self.threads.fetch_sub(1, Ordering::AcqRel);
            // SAFETY: no thread is in this area any more.
            unsafe { ((*child).tid, (*child).ending) = (0, 1) };
        }
        result as i64
    }

    /// The thread ends by the program's own call.
    pub(super) fn end_thread(&self, area: &mut Area) -> ! {
        syscall::block_signals();
        self.host.thread_ends(NonNull::from(&mut *area).cast());
        self.threads.fetch_sub(1, Ordering::AcqRel);
        // SAFETY: the thread is at its end; its area is free once the kernel knows it no more.
        unsafe { border::exit(area.argument(0) as usize) }
    }
}
