//! Prints what it costs to know each access: kernels natively, translated without a
//! tool, and with it, in turn.
//!
//! An example and no test: times depend on the machine. Where a kernel locks, native
//! code ends the thread's segment and takes it, as the runtime does; what comes behind
//! that, the detector, is not here.

use relive_accesses::{Accesses, Segment, Sink, Tables};
use relive_dbi::{AREA_BYTES, Engine, Host, Memory, Plain, Thread, Tool, data_bytes, read_own_memory};
use std::io::Write;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

#[path = "cost/kernels.rs"]
mod kernels;

use kernels::{Boundary, Kernel, Work};

/// Native code: where a segment ends.
#[derive(Default)]
struct Here {
    boundary: AtomicUsize,
}

impl Host for Here {
    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        read_own_memory(address, into)
    }

    fn is_outside(&self, address: u64) -> bool {
        address == self.boundary.load(Ordering::Relaxed) as u64
    }
}

struct Nobody;

impl Sink for Nobody {
    fn full(&self, segment: &mut Segment<'_, '_, '_, Self>) {
        segment.take(|_| {});
        segment.take_locked(|_| {});
    }
}

fn map(bytes: usize, executable: bool) -> NonNull<u8> {
    let protection = libc::PROT_READ | libc::PROT_WRITE | if executable { libc::PROT_EXEC } else { 0 };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping, anywhere.
    let found = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    assert_ne!(found, libc::MAP_FAILED);
    // SAFETY: of that mapping; its pages are small, or the first touch of each line could cost two megabytes.
    unsafe { libc::madvise(found, bytes, libc::MADV_NOHUGEPAGE) };
    NonNull::new(found.cast()).unwrap()
}

/// A function that calls `function` with its argument and then returns, or jumps to `resume`.
fn trampoline(function: usize, resume: Option<u64>) -> Boundary {
    let mut code = vec![0x48, 0x83, 0xEC, 8, 0x48, 0xB8];
    code.extend(function.to_le_bytes());
    // call rax; add rsp, 8
    code.extend([0xFF, 0xD0, 0x48, 0x83, 0xC4, 8]);
    if let Some(resume) = resume {
        // jmp [rip]
        code.extend([0xFF, 0x25, 0, 0, 0, 0]);
        code.extend(resume.to_le_bytes());
    } else {
        code.push(0xC3);
    }
    let at = map(4096, true);
    // SAFETY: the mapping is larger, and its code a function by the C convention.
    unsafe {
        std::ptr::copy_nonoverlapping(code.as_ptr(), at.as_ptr(), code.len());
        std::mem::transmute::<*mut u8, Boundary>(at.as_ptr())
    }
}

static SEGMENTS: AtomicU64 = AtomicU64::new(0);
static LINES: AtomicU64 = AtomicU64::new(0);
static TOOL: AtomicUsize = AtomicUsize::new(0);

extern "C" fn nothing(_: u64) {}

type Watched = Engine<Here, Accesses<'static, Nobody>>;

extern "C" fn end_segment(_: u64) {
    // SAFETY: the address of the engine that this thread is attached to.
    let (engine, mut memory) = unsafe {
        let engine = &*(TOOL.load(Ordering::Relaxed) as *const Watched);
        (engine, engine.tool_memory())
    };
    let mut segment = engine.tool().segment(&mut memory);
    let mut lines = 0;
    segment.take(|_| lines += 1);
    segment.take_locked(|_| {});
    LINES.store(LINES.load(Ordering::Relaxed) + lines, Ordering::Relaxed);
    SEGMENTS.store(SEGMENTS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

fn engine<T: Tool>(tool: T) -> &'static Engine<Here, T> {
    let code_bytes = 32 << 20;
    let data_bytes = data_bytes(code_bytes);
    let memory = Memory { code: map(code_bytes, true), code_bytes, data: map(data_bytes, false), data_bytes };
    // SAFETY: all memory was just mapped.
    Box::leak(Box::new(unsafe { Engine::new(memory, Here::default(), tool) }.expect("an engine")))
}

/// Memory of a thread, and where its area begins.
fn area<T: Tool>(engine: &Engine<Here, T>) -> (NonNull<u8>, usize) {
    let reserve = engine.tool().reserve();
    (map(reserve.before + AREA_BYTES + reserve.behind, false), reserve.before)
}

/// Seconds of one run, and its result.
fn time(run: impl FnOnce() -> u64) -> (f64, u64) {
    let start = Instant::now();
    let result = run();
    (start.elapsed().as_secs_f64(), result)
}

/// One way of running kernels.
struct Way<T: Tool + 'static> {
    engine: &'static Engine<Here, T>,
    boundary: Boundary,
    memory: (NonNull<u8>, usize),
}

impl<T: Tool> Way<T> {
    fn new(tool: T, at_boundary: extern "C" fn(u64)) -> Self {
        let engine = engine(tool);
        let boundary = trampoline(at_boundary as *const () as usize, Some(engine.resume()));
        engine.host().boundary.store(boundary as *const () as usize, Ordering::Relaxed);
        Self { engine, boundary, memory: area(engine) }
    }

    fn run(&self, kernel: &Kernel) -> (f64, u64) {
        let (start, before) = self.memory;
        let bytes = self.engine.tool().reserve();
        // SAFETY: the memory is ours alone, and reads as zero again.
        unsafe {
            let all = bytes.before + AREA_BYTES + bytes.behind;
            assert_eq!(libc::madvise(start.as_ptr().cast(), all, libc::MADV_DONTNEED), 0);
        }
        // SAFETY: as above; this thread is attached to no other engine.
        let mut thread = unsafe { Thread::attach(self.engine, start.add(before)) }.expect("a thread");
        let work = (kernel.prepare)(self.boundary);
        let mut run = || {
            // SAFETY: the function takes one pointer to its work.
            time(|| unsafe { thread.call(kernel.run as *const () as usize, [(&raw const work) as u64, 0, 0, 0, 0, 0]) })
        };
        // Once for translating.
        run();
        run()
    }
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() -> std::io::Result<()> {
    let plain = Way::new(Plain, nothing);
    let tables = Box::leak(Box::new(Tables::new()));
    let tool = Way::new(Accesses::new(tables, &[], Nobody), end_segment);
    TOOL.store((&raw const *tool.engine).addr(), Ordering::Relaxed);
    let native = trampoline(nothing as *const () as usize, None);
    let rounds = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(7);
    let only = std::env::args().nth(2).unwrap_or_default();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{:<16} {:>10} {:>8} {:>8} {:>12} {:>12}", "", "native ms", "plain", "tool", "segments", "lines")?;
    for kernel in kernels::ALL.iter().filter(|kernel| kernel.name.contains(&only)) {
        let mut times = [const { Vec::new() }; 3];
        SEGMENTS.store(0, Ordering::Relaxed);
        LINES.store(0, Ordering::Relaxed);
        for _ in 0..rounds {
            let work: Work = (kernel.prepare)(native);
            (kernel.run)(&raw const work);
            let (first, expected) = time(|| (kernel.run)(&raw const work));
            let (second, result) = plain.run(kernel);
            let (third, with_tool) = tool.run(kernel);
            assert_eq!((result, with_tool), (expected, expected), "{}", kernel.name);
            for (list, time) in times.iter_mut().zip([first, second, third]) {
                list.push(time);
            }
        }
        let [native, plain, tool] = times.each_mut().map(|list| median(list));
        let of_run = |count: &AtomicU64| count.load(Ordering::Relaxed) / (2 * rounds as u64);
        writeln!(
            out,
            "{:<16} {:>10.2} {:>8.2} {:>8.2} {:>12} {:>12}",
            kernel.name,
            native * 1e3,
            plain / native,
            tool / native,
            of_run(&SEGMENTS),
            of_run(&LINES)
        )?;
    }
    let usage = tool.engine.usage();
    writeln!(out, "{} blocks, {} bytes each", usage.blocks, usage.code_bytes / usage.blocks.max(1))
}
