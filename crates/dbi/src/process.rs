//! A whole process under translation: nothing of it runs but in the cache.
//!
//! What the program can leave translated code by, unnoticed, is a matter of the
//! kernel alone: it begins threads and signal handlers where it is told, and goes on
//! behind a handler where the handler's frame says. So every system call is looked at
//! before it is made ([`calls`]):
//!
//! - a new thread starts in an area of its own, behind its `clone` ([`threads`]);
//! - the kernel is told a handler of ours, which goes on in the program's, translated,
//!   with a frame that says where the program was; and the end of a handler goes on
//!   translated ([`signals`]);
//! - what was translated from code that is unmapped, or whose protection changes, is
//!   flushed, and what may change by itself is known ([`mappings`]).
//!
//! Libraries that are preloaded, the one that contains this code among them, are
//! translated like the rest: their callbacks and returns need no care. Only what the
//! translator itself does runs natively, on the thread's own stack of ours. A signal
//! that arrives then is put off: all signals are blocked, it is sent again, and the
//! mask is put back when the program goes on.
//!
//! A place that is outside nevertheless (code that can't be translated) is counted,
//! and comes back at the next signal, new thread or [`native`] call.

mod calls;
mod mappings;
mod signals;
mod threads;

pub(crate) use calls::SYSCALL_BYTES;
pub use calls::native;

use crate::area::Area;
use crate::crossing;
use crate::engine::Engine;
use crate::error::Error;
use crate::host::Host;
use crate::tool::Tool;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use relive_sys::lock::Lock;
use relive_sys::syscall;

/// Signals have the numbers from 1 to 64.
const SIGNALS: usize = 65;

/// What an engine knows of the process that it translates as a whole.
pub(crate) struct Process {
    /// The program's handler of each signal.
    handlers: [AtomicUsize; SIGNALS],
    /// Signals whose handler asked for information, by number.
    informed: AtomicU64,
    /// The first of all areas.
    areas: Lock<Areas>,
}

pub(crate) struct Areas(*mut Area);

// SAFETY: areas stay for good, and what of them is not their thread's alone is read and written under the lock.
unsafe impl Send for Areas {}

impl Process {
    pub(crate) const fn new() -> Self {
        Self {
            handlers: [const { AtomicUsize::new(0) }; SIGNALS],
            informed: AtomicU64::new(0),
            areas: Lock::new(Areas(core::ptr::null_mut())),
        }
    }
}

impl<H: Host, T: Tool> Engine<H, T> {
    /// From the return of this call on, the calling thread runs translated, and so does every thread and every handler
    /// of the process from then on.
    ///
    /// `dispatched` says whether the kernel hands this thread's system calls back already.
    ///
    /// # Safety
    /// The engine translates whole processes ([`Self::of_process`]), and the process has one thread.
    ///
    /// # Errors
    /// If there is no memory for the thread, or the system refuses to set gs.
    pub unsafe fn begin(&'static self, dispatched: bool) -> Result<(), Error> {
        let area = self.new_area().ok_or(Error::NoThreadArea)?;
        // SAFETY: the area is this thread's from here on.
        unsafe { ((*area).tid, (*area).dispatched) = (syscall::gettid(), dispatched) };
        if !crossing::attach(area) {
            return Err(Error::NoThreadArea);
        }
        self.threads.fetch_add(1, Ordering::AcqRel);
        self.take_handlers_over();
        self.take_mappings_over();
        // SAFETY: the area is attached and complete.
        unsafe { crossing::border::begin(Self::begin_area) };
        Ok(())
    }

    unsafe extern "C" fn begin_area(area: *mut Area) {
        // SAFETY: as in `serve_area`.
        let (area, engine) = unsafe { (&mut *area, &*(*area).engine.cast::<Self>()) };
        let ip = area.context.ip;
        engine.find(area, ip, None);
    }

    /// An area for another thread: that of one that is gone, or a new one.
    fn new_area(&self) -> Option<*mut Area> {
        let mut areas = self.process.areas.lock();
        let (pid, mut at) = (syscall::getpid(), areas.0);
        while !at.is_null() {
            // SAFETY: areas stay for good; of one that is ending its thread writes nothing more.
            unsafe {
                let gone = (*at).ending != 0 && ((*at).tid == 0 || !syscall::thread_exists(pid, (*at).tid));
                if gone {
                    let next = (*at).next;
                    at.write_bytes(0, 1);
                    self.prepare_area(at);
                    (*at).next = next;
                    self.attach_tool(NonNull::new_unchecked(at).cast());
                    return Some(at);
                }
                at = (*at).next;
            }
        }
        let memory: NonNull<u8> = self.host.thread_memory(self.tool.reserve())?;
        let area = memory.as_ptr().cast::<Area>();
        // SAFETY: the host's promise: zeroed memory of an area's size and alignment, for good.
        unsafe {
            self.prepare_area(area);
            (*area).next = areas.0;
            self.attach_tool(memory);
        }
        areas.0 = area;
        Some(area)
    }
}

impl Areas {
    /// In a fork child: the areas of the parent's other threads are nobody's any more. What their tools left in them is not
    /// taken by anybody, so none of them is used again.
    fn only(&mut self, own: &mut Area) {
        own.next = core::ptr::null_mut();
        self.0 = own;
    }
}
