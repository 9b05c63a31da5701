//! The translator as a whole: one for a process, shared by its threads.
//!
//! The program's threads run in the cache and come here when a block ends whose
//! successor nobody has joined it to, or when an instruction is handed over. All that
//! is under one lock: programs translate their code once, and afterwards rarely come.

use crate::area::{AREA_BYTES, Area, Context};
use crate::cache::{Cache, Memory};
use crate::crossing;
use crate::error::Error;
use crate::host::{After, Host};
use crate::layout::Rights;
use crate::memory::{Elsewhere, ToolMemory};
use crate::process::Process;
use crate::routine::{VISIT, VISIT_PLAINLY};
use crate::stubs::INDIRECT;
use crate::tool::Tool;
use crate::translate::Way;
use crate::visit::{Parts, Visit};
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};
use relive_sys::lock::Lock;

/// A translator with its cache.
pub struct Engine<H, T> {
    pub(crate) host: H,
    pub(crate) tool: T,
    pub(crate) cache: Lock<Cache>,
    /// The cache's range, for whoever may not take the lock.
    range: Range<u64>,
    resume: u64,
    /// Threads that may be in the cache.
    pub(crate) threads: AtomicUsize,
    pub(crate) vector_mask: u32,
    parts: Parts,
    /// Whether it translates everything that the process does.
    whole: bool,
    pub(crate) process: Process,
}

/// How full a cache is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of code.
    pub code_bytes: usize,
    /// Blocks, those included that were flushed.
    pub blocks: usize,
    /// How often it was full and emptied.
    pub emptied: u64,
}

impl<H: Host, T: Tool> Engine<H, T> {
    /// A translator with an empty cache.
    ///
    /// iced builds its tables and two vectors by the global allocator in this call; from then on translating allocates
    /// nothing but what an instruction with more operands than any before makes those vectors grow by.
    ///
    /// # Safety
    /// `memory` is as its fields say, and the engine's for good.
    ///
    /// # Errors
    /// If the memory has the wrong size, or the processor lacks `xsave`.
    pub unsafe fn new(memory: Memory, host: H, tool: T) -> Result<Self, Error> {
        let vector_mask = crossing::vector_mask().ok_or(Error::NoVectorState)?;
        let start = memory.code.as_ptr().addr() as u64;
        // SAFETY: the caller's promise.
        let cache = unsafe { Cache::new(memory, &tool)? };
        let resume = cache.stubs.resume;
        // The decoder makes its tables at the first instruction; that may not happen in a signal handler.
        let _tables = iced_x86::Decoder::new(64, &[0x90], iced_x86::DecoderOptions::NONE).decode();
        let range = start..start + memory.code_bytes as u64;
        Ok(Self {
            host,
            tool,
            cache: Lock::new(cache),
            range,
            resume,
            threads: AtomicUsize::new(0),
            vector_mask,
            whole: false,
            process: Process::new(),
            parts: Parts::of_processor(),
        })
    }

    /// Makes it one for a whole process, which [`Self::begin`] enters.
    #[must_use]
    pub fn of_process(mut self) -> Self {
        self.whole = true;
        self
    }

    /// Fills in what an area must say from the beginning.
    ///
    /// # Safety
    /// It is [`AREA_BYTES`](crate::AREA_BYTES) of zeroed memory, aligned to 64, and the caller's.
    pub(crate) unsafe fn prepare_area(&self, area: *mut Area) {
        // SAFETY: the caller's promise: zero is a value of each field.
        let words = unsafe { &mut *area };
        words.itself = area;
        words.leave = crossing::leave();
        words.leave_plainly = crossing::border::leave_plainly();
        words.stack = area.addr() + AREA_BYTES;
        words.serve = Self::serve_area as *const () as usize;
        words.arrived = Self::arrived as *const () as usize;
        words.take_signal = Self::take_signal as *const () as usize;
        words.resume = self.resume;
        words.die = Self::die as *const () as usize;
        words.engine = core::ptr::from_ref(self).cast();
        words.vector_mask = self.vector_mask;
    }

    /// The process around it.
    pub fn host(&self) -> &H {
        &self.host
    }

    /// The tool.
    pub fn tool(&self) -> &T {
        &self.tool
    }

    /// The tool's memory of the calling thread, for whoever runs outside of the cache.
    ///
    /// # Safety
    /// The calling thread is attached to this engine, and nobody else has its tool's memory meanwhile.
    pub unsafe fn tool_memory(&self) -> ToolMemory<'_> {
        // SAFETY: the thread is attached, with what its tool wants around its area.
        unsafe { ToolMemory::new(NonNull::new_unchecked(crossing::area().cast()), self.tool.reserve()) }
    }

    /// The same, for other threads to look at, whatever this one does meanwhile.
    ///
    /// # Safety
    /// The calling thread is attached to this engine, which translates the process as a whole.
    pub unsafe fn tool_memory_for_others(&self) -> Elsewhere {
        // SAFETY: as in `tool_memory`; areas of such a process are never taken back.
        unsafe { Elsewhere::new(NonNull::new_unchecked(crossing::area().cast()), self.tool.reserve()) }
    }

    /// Lets the tool lay ready what a thread needs.
    ///
    /// # Safety
    /// `memory` is an area that was prepared, with the tool's reserve around it, and nobody else's.
    pub(crate) unsafe fn attach_tool(&self, memory: NonNull<u8>) {
        // SAFETY: the caller's promise.
        self.tool.attach(&mut unsafe { ToolMemory::new(memory, self.tool.reserve()) });
    }

    /// The registers with which the calling thread left the cache.
    ///
    /// # Safety
    /// The thread is attached to this engine, and has left the cache: it is in a [`native`](crate::native) call, or in a
    /// hook of host or tool.
    pub unsafe fn context(&self) -> Context {
        // SAFETY: the caller's promise.
        unsafe { (*crossing::area()).context }
    }

    /// Where native code jumps instead of its `ret`, all registers as for that: the caller goes on translated.
    ///
    /// Only for threads that are attached.
    pub fn resume(&self) -> u64 {
        self.resume
    }

    /// Whether `address` is in the cache.
    pub fn contains(&self, address: u64) -> bool {
        self.range.contains(&address)
    }

    /// How full the cache is.
    pub fn usage(&self) -> Usage {
        let cache = self.cache.lock();
        Usage { code_bytes: cache.used(), blocks: cache.block_count(), emptied: cache.emptied }
    }

    /// Forgets what was translated from a range of the program, because its code changes or goes away. Returns how many
    /// blocks that were. A thread that is in one of them runs it to its end.
    pub fn flush(&self, range: &Range<u64>) -> usize {
        self.cache.lock().flush(range)
    }

    /// The tool sees the program in another way from now on, by whatever number: what it has inserted into blocks that
    /// begin where `varies` says so is not used before it turns back to the view that it had then. Returns how many blocks
    /// that are which were in use.
    ///
    /// A thread that is in one of them runs it to its end.
    pub fn turn(&self, view: u8, varies: impl FnMut(u64) -> bool) -> usize {
        self.cache.lock().turn(view, varies)
    }

    /// Code in `range` may change without anybody calling [`Self::flush`]: what is translated from it from now on compares
    /// it each time before it runs.
    pub fn watch(&self, range: &Range<u64>) {
        let mut cache = self.cache.lock();
        cache.flush(range);
        cache.layout.map(range, Rights::UNKNOWN, true);
    }

    /// Forks the process by `fork`, which says whether it came back in the child, while no thread translates: so the
    /// child finds a whole cache and a free lock. It has this thread alone.
    pub fn around_fork(&self, fork: impl FnOnce() -> bool) -> bool {
        let cache = self.cache.lock();
        let child = fork();
        if child {
            self.threads.store(1, Ordering::Release);
        }
        drop(cache);
        child
    }

    /// Turns registers that a signal found in the cache into those of the program, between two of its instructions.
    /// `context.ip` is the cache's address before and the program's behind it. Registers that the program does not read
    /// before it writes them may hold anything. `false`, and nothing changed, if `context.ip` is no code of the cache.
    ///
    /// For the calling thread's own registers, on its signal handler.
    ///
    /// # Safety
    /// The calling thread is attached to this engine.
    pub unsafe fn recover(&self, context: &mut Context) -> bool {
        // A thread that was interrupted with the lock in its hands was not in the cache.
        // SAFETY: the thread is attached, so its area is there; nobody writes it while the thread is here.
        self.contains(context.ip) && self.cache.lock().restore(context, unsafe { &*crossing::area() })
    }

    /// Whether the program leaves the translator at `ip`.
    pub(crate) fn is_outside(&self, ip: u64) -> bool {
        ip == crossing::returned() || self.host.is_outside(ip)
    }

    /// Sets the area's target for a thread that goes on at `ip`. `from` is the exit that it came by, or [`INDIRECT`].
    pub(crate) fn find(&self, area: &mut Area, ip: u64, from: Option<u32>) {
        area.context.ip = ip;
        let found = {
            let mut cache = self.cache.lock();
            let emptied = cache.emptied;
            let mut found = self.translated(&mut cache, ip, from);
            // A thread that is alone is the only one that could be in the cache, and it is here.
            let full = matches!(found, Err(Error::CodeFull | Error::DataFull));
            if full && self.threads.load(Ordering::Acquire) == 1 && emptied == cache.emptied {
                // SAFETY: this thread goes on at an address that is found behind this; there is no other one.
                unsafe { cache.empty() };
                found = self.translated(&mut cache, ip, None);
            }
            found
        };
        area.target = found.unwrap_or_else(|why| {
            self.host.lost(ip, why);
            ip
        });
    }

    /// Where a thread goes on in the cache, or natively.
    fn translated(&self, cache: &mut Cache, ip: u64, from: Option<u32>) -> Result<u64, Error> {
        if self.is_outside(ip) {
            if from == Some(INDIRECT) {
                let routine = cache.native(ip)?;
                cache.table.insert(ip, routine);
            }
            return Ok(ip);
        }
        let place = cache.block(&Inside(self), &self.tool, self.whole, ip)?;
        match from {
            Some(INDIRECT) => {
                cache.table.insert(ip, place.entry);
            }
            Some(exit) => cache.join_to(exit, place),
            None => {}
        }
        Ok(place.body)
    }

    /// What a thread does that left the cache by the exit in its area.
    fn serve(&self, area: &mut Area) {
        if area.exit == INDIRECT {
            let ip = area.target;
            return self.find(area, ip, Some(INDIRECT));
        }
        if area.exit == VISIT_PLAINLY {
            area.target = area.back;
            let context = Context { ip: area.back, ..area.context };
            return self.visit(area, context);
        }
        if area.exit == VISIT {
            let mut context = Context { ip: area.back, ..area.context };
            let found = self.cache.lock().restore(&mut context, area);
            assert!(found, "a routine goes back to its block");
            area.target = area.back;
            return self.visit(area, context);
        }
        let number = area.exit;
        let (out, code) = {
            let cache = self.cache.lock();
            let out = cache.exit(number).expect("a thread left by an exit that is there");
            (out, cache.code_of(number))
        };
        if let Way::Visit(back) = out.way {
            area.target = code + u64::from(back);
            let context = Context { ip: out.ip, ..area.context };
            return self.visit(area, context);
        }
        if let Way::Changed(at) = out.way {
            return self.look_again(area, number, code + u64::from(at) - 1);
        }
        let back = match out.way {
            Way::Event(back) => back,
            Way::SystemCall(back) => return self.system_call(area, &out, code + u64::from(back)),
            Way::Block(_) | Way::Round { .. } | Way::Native | Way::Visit(_) | Way::Changed(_) => {
                return self.find(area, out.target, Some(number));
            }
        };
        area.context.ip = out.ip;
        match self.host.event(&mut area.context) {
            After::Execute => area.target = code + u64::from(back),
            After::Skip => self.find(area, out.target, None),
            After::Resume => {
                let ip = area.context.ip;
                self.find(area, ip, None);
            }
            After::Leave => area.target = area.context.ip,
        }
    }

    /// The block that left by `exit`, from `place` in the cache, found that its code is another. Not by the registers that
    /// it had put away.
    fn look_again(&self, area: &mut Area, exit: u32, place: u64) {
        let mut context = Context { ip: place, ..area.context };
        {
            let mut cache = self.cache.lock();
            let found = cache.restore(&mut context, area);
            assert!(found, "each place of a block is known");
            cache.changed(exit);
        }
        area.context = context;
        self.find(area, context.ip, None);
    }

    /// Lets the tool look at a thread.
    fn visit(&self, area: &mut Area, context: Context) {
        let place = NonNull::from(area);
        // SAFETY: the area is this thread's, which is here; the tool's memory and the vector state are apart.
        let (memory, vectors) =
            unsafe { (ToolMemory::new(place.cast(), self.tool.reserve()), &(*place.as_ptr()).vectors) };
        self.tool.visit(&mut Visit { context, vectors, parts: self.parts, memory });
    }

    /// Called by the border's assembly, on the thread's own stack of ours.
    pub(crate) unsafe extern "C" fn serve_area(area: *mut Area) {
        // SAFETY: an area belongs to the thread that gs gave it for, and names the engine that it was attached to, which
        // outlives it.
        let (area, engine) = unsafe { (&mut *area, &*(*area).engine.cast::<Self>()) };
        engine.serve(area);
    }
}

/// The host, with what is outside by our own doing.
struct Inside<'a, H, T>(&'a Engine<H, T>);

impl<H: Host, T: Tool> Host for Inside<'_, H, T> {
    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        self.0.host.read(address, into)
    }

    fn is_outside(&self, address: u64) -> bool {
        self.0.is_outside(address)
    }
}
