//! A thread of the program that runs translated.
//!
//! Apart from the engine, which all threads share: this is what each has for itself.

use crate::area::{Area, Context, TOOL_WORDS};
use crate::crossing;
use crate::engine::Engine;
use crate::error::Error;
use crate::host::Host;
use crate::memory::ToolMemory;
use crate::tool::Tool;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;

/// The calling thread, attached to an engine. It stays on its thread.
pub struct Thread<'e, H: Host, T: Tool> {
    engine: &'e Engine<H, T>,
    area: NonNull<Area>,
    stays: PhantomData<*mut ()>,
}

impl<'e, H: Host, T: Tool> Thread<'e, H, T> {
    /// Attaches the calling thread: gs points to `memory` until this is dropped.
    ///
    /// # Safety
    /// `memory` is [`AREA_BYTES`](crate::AREA_BYTES) bytes, with what [`Tool::reserve`] wants before and behind them, aligned to 64, readable
    /// and writable, zero, and this thread's alone until the thread is dropped. The thread is attached to no other engine.
    ///
    /// # Errors
    /// If the system refuses to set gs.
    pub unsafe fn attach(engine: &'e Engine<H, T>, memory: NonNull<u8>) -> Result<Self, Error> {
        let area = memory.cast::<Area>();
        // SAFETY: the memory is large enough, aligned and zero, which is a value of each field.
        unsafe { engine.prepare_area(area.as_ptr()) };
        if !crossing::attach(area.as_ptr()) {
            return Err(Error::NoThreadArea);
        }
        engine.threads.fetch_add(1, Ordering::AcqRel);
        // SAFETY: the caller's promise, and nobody else has this memory yet.
        unsafe { engine.attach_tool(memory) };
        Ok(Self { engine, area, stays: PhantomData })
    }

    /// Runs the program from `context` on. It leaves where [`Host::is_outside`] says, natively and with all its state;
    /// the stack of the caller is left as it is. Vector and x87 registers are those at the call.
    ///
    /// # Safety
    /// As for the code at `context.ip`. Nothing of the caller's frame is used any more, unless that code comes back.
    pub unsafe fn enter(&mut self, context: &Context) -> ! {
        // SAFETY: the area is this thread's.
        let area = unsafe { self.area.as_mut() };
        area.context = *context;
        self.engine.find(area, context.ip, None);
        // SAFETY: the area is attached and complete.
        unsafe { crossing::go() }
    }

    /// Calls a function translated, and returns what it returns in rax.
    ///
    /// # Safety
    /// As for calling a function at `address` with these arguments by the C convention. It may not end the thread, or
    /// unwind beyond this call.
    pub unsafe fn call(&mut self, address: usize, arguments: [u64; 6]) -> u64 {
        // SAFETY: the area is this thread's.
        self.engine.find(unsafe { self.area.as_mut() }, address as u64, None);
        // SAFETY: the area is attached and complete, and the caller answers for the function.
        unsafe { crossing::call(&arguments) }
    }

    /// The tool's memory of this thread.
    pub fn tool_memory(&mut self) -> ToolMemory<'_> {
        // SAFETY: the thread is here and not in the cache, and borrowed.
        unsafe { ToolMemory::new(self.area.cast(), self.engine.tool.reserve()) }
    }

    /// The tool's words.
    pub fn tool_words(&self) -> [u64; TOOL_WORDS] {
        // SAFETY: the area is this thread's, which is here and not in the cache.
        unsafe { (&raw const (*self.area.as_ptr()).tool).read_volatile() }
    }
}

impl<H: Host, T: Tool> Drop for Thread<'_, H, T> {
    fn drop(&mut self) {
        crossing::attach(core::ptr::null_mut());
        self.engine.threads.fetch_sub(1, Ordering::AcqRel);
    }
}
