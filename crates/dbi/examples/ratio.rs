//! Prints what translated code costs compared with native code, for loops of several
//! kinds: plain, and with each memory access counted.
//!
//! An example and no test: times depend on the machine.

use iced_x86::code_asm::{CodeAssembler, eax, ptr, r8, r9, r10, r11, rax, rbx, rdi};
use relive_dbi::{
    AREA_BYTES, Engine, Host, Inserter, Memory, Plain, Site, Thread, Tool, data_bytes, read_own_memory, tool_word,
};
use std::hint::black_box;
use std::io::Write;
use std::ptr::NonNull;
use std::time::Instant;

struct Here;

impl Host for Here {
    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        read_own_memory(address, into)
    }

    fn is_outside(&self, _address: u64) -> bool {
        false
    }
}

/// Computes each address and counts it.
struct CountAccesses;

impl Tool for CountAccesses {
    fn instrument(&self, site: &Site<'_>, insert: &mut Inserter<'_, '_>) {
        for access in site.accesses() {
            if let Some(register) = insert.scratch()
                && insert.address(&access, register)
            {
                insert.code().store(tool_word(1), register);
                insert.clobber_flags();
                insert.code().add_to(tool_word(0), 1);
            }
        }
    }
}

fn map(bytes: usize, executable: bool) -> NonNull<u8> {
    let protection = libc::PROT_READ | libc::PROT_WRITE | if executable { libc::PROT_EXEC } else { 0 };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping, anywhere.
    let found = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    assert_ne!(found, libc::MAP_FAILED);
    NonNull::new(found.cast()).unwrap()
}

type Function = extern "C" fn(u64) -> u64;

fn assemble(write: impl FnOnce(&mut CodeAssembler) -> Result<(), iced_x86::IcedError>) -> Function {
    let at = map(1 << 16, true);
    let mut assembler = CodeAssembler::new(64).unwrap();
    write(&mut assembler).unwrap();
    let bytes = assembler.assemble(at.as_ptr() as u64).unwrap();
    // SAFETY: the mapping is larger, and its code a function by the C convention.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), at.as_ptr(), bytes.len());
        std::mem::transmute::<*mut u8, Function>(at.as_ptr())
    }
}

fn arithmetic() -> Function {
    assemble(|a| {
        let mut top = a.create_label();
        a.xor(eax, eax)?;
        a.set_label(&mut top)?;
        a.imul_3(rax, rax, 31)?;
        a.add(rax, rdi)?;
        a.dec(rdi)?;
        a.jne(top)?;
        a.ret()
    })
}

fn calls() -> Function {
    assemble(|a| {
        let (mut top, mut callee) = (a.create_label(), a.create_label());
        a.xor(eax, eax)?;
        a.set_label(&mut top)?;
        a.call(callee)?;
        a.dec(rdi)?;
        a.jne(top)?;
        a.ret()?;
        a.set_label(&mut callee)?;
        a.add(rax, rdi)?;
        a.ret()
    })
}

/// Calls one of four functions in turn, through a register.
fn indirect_calls() -> Function {
    assemble(|a| {
        let mut functions: Vec<_> = (0..4).map(|_| a.create_label()).collect();
        let mut top = a.create_label();
        a.push(rbx)?;
        a.xor(eax, eax)?;
        for (register, function) in [r8, r9, r10, r11].into_iter().zip(&functions) {
            a.lea(register, ptr(*function))?;
        }
        a.set_label(&mut top)?;
        for register in [r8, r9, r10, r11] {
            a.call(register)?;
        }
        a.sub(rdi, 4)?;
        a.ja(top)?;
        a.pop(rbx)?;
        a.ret()?;
        for (n, function) in functions.iter_mut().enumerate() {
            a.set_label(function)?;
            a.add(rax, n as i32)?;
            a.ret()?;
        }
        Ok(())
    })
}

/// One function, called from sixteen places in turn: its return has as many targets.
fn calls_from_many_places() -> Function {
    assemble(|a| {
        let (mut top, mut callee) = (a.create_label(), a.create_label());
        a.xor(eax, eax)?;
        a.set_label(&mut top)?;
        for _ in 0..16 {
            a.call(callee)?;
            a.add(rax, 1)?;
        }
        a.sub(rdi, 16)?;
        a.ja(top)?;
        a.ret()?;
        a.set_label(&mut callee)?;
        a.add(rax, rdi)?;
        a.ret()
    })
}

/// Recursive calls, whose returns no history tells apart.
extern "C" fn fibonacci(n: u64) -> u64 {
    #[inline(never)]
    fn step(n: u64) -> u64 {
        if n < 2 { n } else { black_box(step(n - 1)) + step(n - 2) }
    }
    step(u64::from(n.ilog2()) + 6)
}

extern "C" fn sum(n: u64) -> u64 {
    let numbers: Vec<u64> = (0..4096).collect();
    let mut sum = 0u64;
    for _ in 0..n / 4096 {
        sum = black_box(&numbers).iter().fold(sum, |sum, x| sum.wrapping_add(*x));
    }
    sum
}

extern "C" fn sieve(n: u64) -> u64 {
    let mut composite = vec![false; n as usize / 8];
    let mut count = 0;
    for i in 2..composite.len() {
        if !composite[i] {
            count += 1;
            (i * i..composite.len()).step_by(i).for_each(|j| composite[j] = true);
        }
    }
    count
}

extern "C" fn sort(n: u64) -> u64 {
    extern "C" fn compare(a: *const libc::c_void, b: *const libc::c_void) -> libc::c_int {
        // SAFETY: qsort gives pointers to elements.
        unsafe { (*a.cast::<u32>()).cmp(&*b.cast::<u32>()) as libc::c_int }
    }
    let mut x = 1u32;
    let mut numbers: Vec<u32> = (0..n / 100)
        .map(|_| {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            x
        })
        .collect();
    // SAFETY: the elements are of four bytes, and the comparison reads them as such.
    unsafe { libc::qsort(numbers.as_mut_ptr().cast(), numbers.len(), 4, Some(compare)) };
    u64::from(numbers[numbers.len() / 2])
}

extern "C" fn format(n: u64) -> u64 {
    (0..n / 200).map(|i| format!("{i:x} {:.3}", i as u32 as f64 / 7.0).len() as u64).sum()
}

extern "C" fn tree(n: u64) -> u64 {
    let mut map = std::collections::BTreeMap::new();
    for i in 0..n / 100 {
        map.insert(i.wrapping_mul(0x9E37_79B9_7F4A_7C15), i);
    }
    map.values().step_by(3).sum()
}

/// The shortest of several runs, in seconds.
fn time(mut run: impl FnMut() -> u64) -> (f64, u64) {
    let mut result = 0;
    let best = (0..7).map(|_| {
        let start = Instant::now();
        result = run();
        start.elapsed().as_secs_f64()
    });
    let best = best.fold(f64::INFINITY, f64::min);
    (best, result)
}

fn engine<T: Tool>(tool: T) -> Engine<Here, T> {
    let code_bytes = 16 << 20;
    let data_bytes = data_bytes(code_bytes);
    let memory = Memory { code: map(code_bytes, true), code_bytes, data: map(data_bytes, false), data_bytes };
    // SAFETY: all memory was just mapped.
    unsafe { Engine::new(memory, Here, tool) }.expect("an engine")
}

/// What it takes to translate a block: the microseconds of a first run without those of a second one, and the bytes.
fn first_run(tool: impl Tool) -> (f64, usize) {
    let engine = engine(tool);
    // SAFETY: the memory was just mapped, and the thread is attached to no other engine.
    let mut thread = unsafe { Thread::attach(&engine, map(AREA_BYTES, false)) }.expect("a thread");
    let mut run = || {
        let start = Instant::now();
        // SAFETY: the function takes one number.
        unsafe { thread.call(format as *const () as usize, [20_000, 0, 0, 0, 0, 0]) };
        start.elapsed().as_secs_f64()
    };
    let (first, second) = (run(), run());
    let usage = engine.usage();
    ((first - second) * 1e6 / usage.blocks as u32 as f64, usage.code_bytes / usage.blocks)
}

fn translated<T: Tool>(tool: T, function: Function, n: u64) -> (f64, u64) {
    let engine = engine(tool);
    // SAFETY: as above.
    let mut thread = unsafe { Thread::attach(&engine, map(AREA_BYTES, false)) }.expect("a thread");
    // SAFETY: the function takes one number.
    time(|| unsafe { thread.call(function as usize, [n, 0, 0, 0, 0, 0]) })
}

fn main() -> std::io::Result<()> {
    let cases: [(&str, Function); 10] = [
        ("arithmetic", arithmetic()),
        ("calls", calls()),
        ("16 call sites", calls_from_many_places()),
        ("recursion", fibonacci),
        ("indirect calls", indirect_calls()),
        ("sum of an array", sum),
        ("sieve", sieve),
        ("qsort", sort),
        ("formatting", format),
        ("tree", tree),
    ];
    let n = 20_000_000;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{:<16} {:>10} {:>8} {:>8}", "", "native ms", "plain", "counted")?;
    for (name, function) in cases {
        let (native, expected) = time(|| function(n));
        let (plain, first) = translated(Plain, function, n);
        let (counted, second) = translated(CountAccesses, function, n);
        assert_eq!((first, second), (expected, expected), "{name}");
        let ratio = |time: f64| time / native;
        writeln!(out, "{name:<16} {:>10.2} {:>8.2} {:>8.2}", native * 1e3, ratio(plain), ratio(counted))?;
    }
    for (name, (time, bytes)) in [("plain", first_run(Plain)), ("counted", first_run(CountAccesses))] {
        writeln!(out, "a block, {name}: {time:.1} µs to translate, {bytes} bytes")?;
    }
    Ok(())
}
