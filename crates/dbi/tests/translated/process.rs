//! The process of the tests: memory for code, cache and areas, and code made by iced's
//! assembler.
//!
//! Apart because every test starts here. Mappings are never given back: a test process
//! is short.

use iced_x86::code_asm::{CodeAssembler, eax, ebx, rbx, rcx};
use relive_dbi::{AREA_BYTES, After, Context, Engine, Error, Host, Memory, Plain, Thread, Tool, data_bytes};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// The kernel's indices of the general registers in a signal's frame, in the order of a [`Context`].
pub(crate) const INDEX: [i32; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

/// Where the cache is, seen from code made by [`Code::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distance {
    /// Displacements of 32 bits reach.
    Near,
    /// They do not.
    Far,
}

/// Code is put into the lowest two gigabytes, so that absolute displacements of 32 bits reach its data.
fn map(bytes: usize, executable: bool, low: bool) -> NonNull<u8> {
    let protection = libc::PROT_READ | libc::PROT_WRITE | if executable { libc::PROT_EXEC } else { 0 };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | if low { libc::MAP_32BIT } else { 0 };
    // SAFETY: a new mapping, anywhere.
    let found = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    assert_ne!(found, libc::MAP_FAILED, "memory for the test");
    NonNull::new(found.cast()).unwrap()
}

/// Zeroed words in low memory.
pub(crate) fn words(count: usize) -> &'static mut [u64] {
    let start = map(count * 8, false, true).cast::<u64>();
    // SAFETY: the mapping is new, zeroed, and never given back.
    unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), count) }
}

/// A function in low memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code(pub(crate) usize);

impl Code {
    /// Assembles a function; the closure is told where it will stand.
    pub(crate) fn new(write: impl FnOnce(&mut CodeAssembler, u64)) -> Self {
        let at = map(1 << 16, true, true);
        let code = Self(at.as_ptr().addr());
        code.again(write);
        code
    }

    /// A function of these bytes.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Self {
        let code = Self(map(1 << 16, true, true).as_ptr().addr());
        code.put(0, bytes);
        code
    }

    /// Overwrites it with another function, which stands in the same place.
    pub(crate) fn again(self, write: impl FnOnce(&mut CodeAssembler, u64)) {
        let mut assembler = CodeAssembler::new(64).unwrap();
        write(&mut assembler, self.0 as u64);
        self.put(0, &assembler.assemble(self.0 as u64).expect("the test's code"));
    }

    /// Where it can stand.
    pub(crate) fn range(self) -> std::ops::Range<u64> {
        self.0 as u64..self.0 as u64 + (1 << 16)
    }

    /// Overwrites part of it.
    pub(crate) fn put(self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= 1 << 16);
        // SAFETY: the function's mapping has that many bytes, and nobody runs there now.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), (self.0 as *mut u8).add(offset), bytes.len()) };
    }

    /// Calls it as it stands.
    pub(crate) fn call(self, arguments: [u64; 6]) -> u64 {
        // SAFETY: the test made a function by the C convention.
        let function: extern "C" fn(u64, u64, u64, u64, u64, u64) -> u64 = unsafe { std::mem::transmute(self.0) };
        let [first, second, third, fourth, fifth, sixth] = arguments;
        function(first, second, third, fourth, fifth, sixth)
    }
}

/// This process, with what it was told.
#[derive(Default)]
pub(crate) struct Here {
    pub(crate) native: Vec<usize>,
    pub(crate) events: Mutex<Vec<Context>>,
    pub(crate) after: Option<fn(&mut Context) -> After>,
    pub(crate) lost: Mutex<Vec<(u64, Error)>>,
    /// How often the engine had to look for an address, or to translate it.
    pub(crate) asked: AtomicUsize,
}

impl Host for Here {
    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        relive_dbi::read_own_memory(address, into)
    }

    fn is_outside(&self, address: u64) -> bool {
        self.asked.fetch_add(1, Relaxed);
        self.native.contains(&(address as usize))
    }

    fn event(&self, context: &mut Context) -> After {
        self.events.lock().unwrap().push(*context);
        self.after.map_or(After::Execute, |after| after(context))
    }

    fn lost(&self, ip: u64, why: Error) {
        self.lost.lock().unwrap().push((ip, why));
    }
}

/// Memory for an engine with so many bytes of cache.
pub(crate) fn memory(code_bytes: usize, distance: Distance) -> Memory {
    let code = map(code_bytes, true, distance == Distance::Near);
    let data_bytes = data_bytes(code_bytes);
    Memory { code, code_bytes, data: map(data_bytes, false, false), data_bytes }
}

/// An engine that lives as long as the process.
pub(crate) fn engine_in<T: Tool>(memory: Memory, host: Here, tool: T) -> &'static Engine<Here, T> {
    // SAFETY: the memory was just mapped for it.
    Box::leak(Box::new(unsafe { Engine::new(memory, host, tool) }.expect("an engine")))
}

pub(crate) fn engine<T: Tool>(distance: Distance, tool: T) -> &'static Engine<Here, T> {
    engine_in(memory(8 << 20, distance), Here::default(), tool)
}

pub(crate) fn attach<T: Tool>(engine: &'static Engine<Here, T>) -> Thread<'static, Here, T> {
    let reserve = engine.tool().reserve();
    let memory = map(reserve.before + AREA_BYTES + reserve.behind, false, false);
    // SAFETY: the memory is new and nobody else's; a test attaches its thread to one engine at a time.
    unsafe { Thread::attach(engine, memory.add(reserve.before)) }.expect("a thread")
}

/// An engine for code of `code`'s place, which may change without a word.
pub(crate) fn watching<T: Tool>(distance: Distance, tool: T, code: Code) -> &'static Engine<Here, T> {
    let engine = engine(distance, tool);
    engine.watch(&code.range());
    engine
}

/// Calls a function translated.
pub(crate) fn call<T: Tool>(thread: &mut Thread<'static, Here, T>, code: Code, arguments: [u64; 6]) -> u64 {
    // SAFETY: the test made a function by the C convention.
    unsafe { thread.call(code.0, arguments) }
}

/// Runs a function natively, and translated from near and from far, twice each: the second time all blocks are there.
/// Returns its result, which must be the same each time.
pub(crate) fn run(code: Code, arguments: [u64; 6]) -> u64 {
    let expected = code.call(arguments);
    for distance in [Distance::Near, Distance::Far] {
        let engine = engine(distance, Plain);
        let mut thread = attach(engine);
        for round in 0..2 {
            assert_eq!(call(&mut thread, code, arguments), expected, "{distance:?}, round {round}");
        }
        assert!(engine.usage().blocks > 0, "nothing was translated");
        assert_eq!(*engine.host().lost.lock().unwrap(), [], "something was not translated");
    }
    expected
}

/// Writes `mov eax, value; ret` at an offset of the code.
pub(crate) fn returns(code: Code, offset: usize, value: u32) {
    let [a, b, c, d] = value.to_le_bytes();
    code.put(offset, &[0xB8, a, b, c, d, 0xC3]);
}

/// Adds up what `callee` returns when it is reached directly, through a register, and by a tail jump: three kinds of joints.
pub(crate) fn calls_thrice(callee: Code) -> Code {
    let tail = Code::new(|a, _| a.jmp(callee.0 as u64).unwrap());
    Code::new(|a, _| {
        a.push(rbx).unwrap();
        a.call(callee.0 as u64).unwrap();
        a.mov(ebx, eax).unwrap();
        a.mov(rcx, callee.0 as u64).unwrap();
        a.call(rcx).unwrap();
        a.add(ebx, eax).unwrap();
        a.call(tail.0 as u64).unwrap();
        a.add(eax, ebx).unwrap();
        a.pop(rbx).unwrap();
        a.ret().unwrap();
    })
}
