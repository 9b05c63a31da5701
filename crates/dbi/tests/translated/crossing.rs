//! What the program has must survive a visit to the dispatcher, and `enter` and
//! `resume` must cross the border with all of it.
//!
//! Apart from `branches`: here each test comes to a place for the first time, and what
//! our own compiled code does in between is in the way.

use crate::process::{Code, Distance, Here, attach, call, engine, engine_in, memory, run, words};
use iced_x86::code_asm::*;
use relive_dbi::{After, Context, Plain, Site, Thread, Tool, Treatment};

/// `call [rcx]`, which nobody has looked up yet.
fn visit(a: &mut CodeAssembler, callee: Code) {
    a.mov(rcx, callee.0 as u64).unwrap();
    a.call(rcx).unwrap();
}

#[test]
fn the_direction_flag_survives() {
    let callee = Code::of_bytes(&[0xC3]);
    let f = Code::new(|a, _| {
        a.std().unwrap();
        visit(a, callee);
        a.pushfq().unwrap();
        a.pop(rax).unwrap();
        a.cld().unwrap();
        a.and(eax, 0x400).unwrap();
        a.ret().unwrap();
    });
    assert_eq!(run(f, [0; 6]), 0x400);
}

#[test]
fn the_rounding_mode_survives() {
    let (callee, slot) = (Code::of_bytes(&[0xC3]), words(2));
    let at = slot.as_ptr().addr() as i64;
    slot[0] = 0x7F80;
    let f = Code::new(|a, _| {
        a.stmxcsr(dword_ptr(at + 8)).unwrap();
        a.ldmxcsr(dword_ptr(at)).unwrap();
        visit(a, callee);
        a.stmxcsr(dword_ptr(at + 12)).unwrap();
        a.ldmxcsr(dword_ptr(at + 8)).unwrap();
        a.mov(eax, dword_ptr(at + 12)).unwrap();
        a.ret().unwrap();
    });
    assert_eq!(run(f, [0; 6]), 0x7F80);
}

/// Has the host look at each `cpuid`.
struct EachCpuid;

impl Tool for EachCpuid {
    fn treatment(&self, site: &Site<'_>) -> Treatment {
        let wanted = site.instruction().mnemonic() == iced_x86::Mnemonic::Cpuid;
        if wanted { Treatment::Event } else { Treatment::Copy }
    }
}

/// Overwrites all vector registers that compiled code may use.
fn clobber(_context: &mut Context) -> After {
    let mut bytes = [1u8; 4096];
    for n in 1..64 {
        let (low, high) = bytes.split_at_mut(n * 64);
        high[..64].copy_from_slice(&low[low.len() - 64..]);
    }
    if is_x86_feature_detected!("avx") {
        // SAFETY: the processor has AVX; the registers are declared.
        unsafe { std::arch::asm!("vzeroall", out("ymm0") _, out("ymm1") _, out("ymm7") _, out("ymm15") _) };
    }
    assert_eq!(std::hint::black_box(bytes)[4095], 1);
    After::Skip
}

#[test]
fn vector_registers_survive_a_host_that_uses_them() {
    let slots = words(64);
    let at = slots.as_ptr().addr() as i64;
    let (avx, avx512) = (is_x86_feature_detected!("avx2"), is_x86_feature_detected!("avx512bw"));
    let f = Code::new(|a, _| {
        a.push(rbx).unwrap();
        a.movq(xmm15, rdi).unwrap();
        if avx {
            a.vpbroadcastq(ymm7, xmm15).unwrap();
        }
        if avx512 {
            a.vpbroadcastq(zmm29, rsi).unwrap();
            a.kmovq(k5, rdi).unwrap();
        }
        a.cpuid().unwrap();
        a.movq(qword_ptr(at), xmm15).unwrap();
        if avx {
            a.vmovdqu(ymmword_ptr(at + 64), ymm7).unwrap();
        }
        if avx512 {
            a.vmovdqu64(zmmword_ptr(at + 128), zmm29).unwrap();
            a.kmovq(qword_ptr(at + 192), k5).unwrap();
        }
        a.vzeroupper().unwrap();
        a.pop(rbx).unwrap();
        a.ret().unwrap();
    });
    let host = Here { after: Some(clobber), ..Here::default() };
    let engine = engine_in(memory(1 << 20, Distance::Far), host, EachCpuid);
    let mut thread = attach(engine);
    call(&mut thread, f, [0x1234_5678_9ABC, 77, 0, 0, 0, 0]);
    assert_eq!(slots[0], 0x1234_5678_9ABC);
    assert_eq!(slots[8..12], [if avx { 0x1234_5678_9ABC } else { 0 }; 4]);
    assert_eq!(slots[16..24], [if avx512 { 77 } else { 0 }; 8]);
    assert_eq!(slots[24], if avx512 { 0x1234_5678_9ABC } else { 0 });
    assert_eq!(engine.host().events.lock().unwrap().len(), 1);
}

struct Entry {
    thread: Thread<'static, Here, Plain>,
    context: Context,
}

extern "C" fn enter(entry: *mut Entry) -> ! {
    // SAFETY: the test's entry is alive, and its code ends by leaving to `back`.
    unsafe { (*entry).thread.enter(&(*entry).context) }
}

#[test]
fn a_context_is_entered_with_all_its_registers_and_left_natively() {
    let (slot, stack, seen) = (words(1), words(64), words(20));
    let saved = slot.as_ptr() as i64;
    let callee_saved = [rbx, rbp, r12, r13, r14, r15];
    // Keeps the test's stack, and goes into `enter`, which does not return.
    let start = Code::new(|a, _| {
        for register in callee_saved {
            a.push(register).unwrap();
        }
        a.mov(qword_ptr(saved), rsp).unwrap();
        a.sub(rsp, 8).unwrap();
        a.mov(rax, enter as *const () as u64).unwrap();
        a.call(rax).unwrap();
    });
    // Native: back on the test's stack.
    let back = Code::new(|a, _| {
        a.mov(rsp, qword_ptr(saved)).unwrap();
        for register in callee_saved.into_iter().rev() {
            a.pop(register).unwrap();
        }
        a.ret().unwrap();
    });
    let registers = [rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15];
    let body = Code::new(|a, _| {
        for (n, register) in registers.into_iter().enumerate() {
            a.mov(qword_ptr(seen.as_ptr() as i64 + 8 * n as i64), register).unwrap();
        }
        a.pushfq().unwrap();
        a.pop(qword_ptr(seen.as_ptr() as i64 + 128)).unwrap();
        a.ret().unwrap();
    });
    let host = Here { native: vec![back.0], ..Here::default() };
    let engine = engine_in(memory(1 << 20, Distance::Far), host, Plain);
    let mut general: [u64; 16] = std::array::from_fn(|n| 0x0101_0101_0101_0101 * (n as u64 + 1));
    stack[40] = back.0 as u64;
    general[4] = (&raw const stack[40]) as u64;
    let context = Context { general, flags: 0xAD7, ip: body.0 as u64 };
    let mut entry = Entry { thread: attach(engine), context };
    assert_eq!(start.call([&raw mut entry as u64, 0, 0, 0, 0, 0]), general[0]);
    assert_eq!(seen[..16], general);
    assert_eq!(seen[16], 0xAD7);
    assert_eq!(*engine.host().lost.lock().unwrap(), []);
}

#[test]
fn a_jump_to_nowhere_faults() {
    // The last address that there is has the key of a slot that was never used; null is the usual one.
    for target in [u64::MAX, 0] {
        let engine = engine(Distance::Far, Plain);
        let mut thread = attach(engine);
        let hop = Code::new(|a, _| a.jmp(rsi).unwrap());
        // SAFETY: the child runs the test's code alone and is killed by it.
        let child = unsafe { libc::fork() };
        if child == 0 {
            call(&mut thread, hop, [1, target, 0, 0, 0, 0]);
            std::process::exit(0);
        }
        let mut status = 0;
        // SAFETY: the status is a local variable.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV, "{status:#x}");
    }
}
