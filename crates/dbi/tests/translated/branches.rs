//! Each kind of branch, and what must not change around it.
//!
//! Apart from whole functions: here a wrong encoding is one failing test.

use crate::process::{Code, Distance, attach, call, engine, run, words};
use iced_x86::code_asm::*;
use relive_dbi::Plain;
use std::sync::atomic::Ordering::Relaxed;

fn code(write: impl FnOnce(&mut CodeAssembler) -> Result<(), iced_x86::IcedError>) -> Code {
    Code::new(|a, _| write(a).expect("an instruction"))
}

#[test]
fn straight_code_and_a_return() {
    let f = code(|a| {
        a.lea(rax, rdi + rsi * 4 + 7)?;
        a.ret()
    });
    assert_eq!(run(f, [1, 2, 0, 0, 0, 0]), 16);
}

/// Sums 1 to n, by a loop with a branch of each length.
#[test]
fn conditional_branches_forward_and_back() {
    let f = code(|a| {
        let (mut top, mut done) = (a.create_label(), a.create_label());
        a.xor(eax, eax)?;
        a.set_label(&mut top)?;
        a.test(rdi, rdi)?;
        a.je(done)?;
        a.add(rax, rdi)?;
        a.dec(rdi)?;
        a.jmp(top)?;
        a.set_label(&mut done)?;
        a.ret()
    });
    assert_eq!(run(f, [100_000, 0, 0, 0, 0, 0]), 5_000_050_000);
}

#[test]
fn every_condition_goes_both_ways() {
    // For each of 16 conditions: the flags are rdi's, the bit is set if the branch is taken.
    let mut bytes = vec![0x31, 0xC0]; // xor eax, eax
    for condition in 0..16u8 {
        bytes.extend([0x57, 0x9D]); // push rdi; popfq
        let long = condition % 2 == 1;
        let skip: &[u8] = if long { &[0x0F, 0x80 | condition, 2, 0, 0, 0] } else { &[0x70 | condition, 2] };
        bytes.extend(skip);
        bytes.extend([0xEB, 5]); // jmp over the next
        bytes.extend([0x0D]); // or eax, imm32
        bytes.extend((1u32 << condition).to_le_bytes());
    }
    bytes.push(0xC3);
    let f = Code::of_bytes(&bytes);
    let mut seen = [0u64; 2];
    for flags in [0, 1, 4, 0x40, 0x80, 0x800, 0x880, 0x8C5] {
        let taken = run(f, [0x202 | flags, 0, 0, 0, 0, 0]);
        seen = [seen[0] | taken, seen[1] | !taken & 0xFFFF];
    }
    assert_eq!(seen, [0xFFFF, 0xFFFF]);
}

#[test]
fn counted_branches() {
    let f = code(|a| {
        let (mut top, mut equal, mut short) = (a.create_label(), a.create_label(), a.create_label());
        a.mov(rcx, rdi)?;
        a.xor(eax, eax)?;
        a.set_label(&mut top)?;
        a.add(rax, rcx)?;
        a.loop_(top)?;
        a.mov(rcx, rsi)?;
        a.set_label(&mut equal)?;
        a.inc(rax)?;
        a.cmp(rax, rdx)?;
        a.loopne(equal)?;
        a.mov(rcx, -1i64)?;
        a.set_label(&mut short)?;
        a.inc(ecx)?;
        a.db(&[0x67, 0xE3, 2])?; // jecxz over the jump
        a.jmp(short)?;
        a.shl(rax, 8)?;
        a.add(rax, rcx)?;
        a.ret()
    });
    assert_eq!(run(f, [1000, 50, 500_510, 0, 0, 0]), 500_510 << 8);
    assert_eq!(run(f, [3, 2, 100, 0, 0, 0]), 8 << 8);
}

#[test]
fn calls_leave_the_programs_own_return_address() {
    // The callee looks at its return address and returns how far into the caller that is.
    let f = Code::new(|a, _| {
        let (mut callee, mut start) = (a.create_label(), a.create_label());
        a.set_label(&mut start).unwrap();
        a.call(callee).unwrap();
        a.lea(rcx, ptr(start)).unwrap();
        a.sub(rax, rcx).unwrap();
        a.ret().unwrap();
        a.set_label(&mut callee).unwrap();
        a.mov(rax, ptr(rsp)).unwrap();
        a.ret().unwrap();
    });
    assert_eq!(run(f, [0; 6]), 5);
}

#[test]
fn deep_recursion_and_a_return_that_drops_arguments() {
    let f = code(|a| {
        let (mut sum, mut done) = (a.create_label(), a.create_label());
        a.push(rdi)?;
        a.call(sum)?;
        a.ret()?;
        a.set_label(&mut sum)?;
        a.mov(rax, ptr(rsp + 8))?;
        a.test(rax, rax)?;
        a.je(done)?;
        a.lea(rcx, rax - 1)?;
        a.push(rcx)?;
        a.call(sum)?;
        a.add(rax, ptr(rsp + 8))?;
        a.set_label(&mut done)?;
        a.ret_1(8)
    });
    assert_eq!(run(f, [2000, 0, 0, 0, 0, 0]), 2_001_000);
}

#[test]
fn indirect_calls_by_every_kind_of_operand() {
    let table = words(16);
    let triple = code(|a| {
        a.lea(rax, rdi + rdi * 2)?;
        a.ret()
    });
    table[3] = triple.0 as u64;
    let address = table.as_ptr().addr() as i64;
    let f = code(|a| {
        let (mut slot, mut over) = (a.create_label(), a.create_label());
        a.push(rbx)?;
        a.push(r12)?;
        a.push(rbp)?;
        a.xor(ebx, ebx)?;
        for register in [rax, rcx, rdx, rsi, r8, r12, rbp] {
            a.mov(register, triple.0 as u64)?;
            a.call(register)?;
            a.add(rbx, rax)?;
        }
        a.mov(rcx, 3i64)?;
        a.mov(r12, address)?;
        a.call(qword_ptr(r12 + rcx * 8))?;
        a.add(rbx, rax)?;
        a.call(qword_ptr(address + 24))?;
        a.add(rbx, rax)?;
        a.mov(rcx, address)?;
        a.call(qword_ptr(rcx + 24))?;
        a.add(rbx, rax)?;
        // Relative to rsp: the operand is read before the return address is pushed.
        a.push(triple.0 as i32)?;
        a.push(0)?;
        a.call(qword_ptr(rsp + 8))?;
        a.add(rbx, rax)?;
        a.add(rsp, 16)?;
        a.call(qword_ptr(slot))?;
        a.add(rbx, rax)?;
        a.jmp(over)?;
        a.set_label(&mut slot)?;
        a.dq(&[triple.0 as u64])?;
        a.set_label(&mut over)?;
        a.mov(rax, rbx)?;
        a.pop(rbp)?;
        a.pop(r12)?;
        a.pop(rbx)?;
        a.ret()
    });
    assert_eq!(run(f, [5, 0, 0, 0, 0, 0]), 15 * 12);
}

#[test]
fn jump_tables() {
    let table = words(8);
    let f = Code::new(|a, at| {
        let mut cases: Vec<_> = (0..8).map(|_| a.create_label()).collect();
        let (mut top, mut done) = (a.create_label(), a.create_label());
        a.mov(rax, 1u64).unwrap();
        a.set_label(&mut top).unwrap();
        a.mov(rcx, rdi).unwrap();
        a.and(ecx, 7).unwrap();
        a.jmp(qword_ptr(rcx * 8 + table.as_ptr().addr() as i64)).unwrap();
        for (n, case) in cases.iter_mut().enumerate() {
            a.set_label(case).unwrap();
            a.imul_3(rax, rax, 3 + n as i32).unwrap();
            a.shr(rdi, 3).unwrap();
            a.test(rdi, rdi).unwrap();
            a.je(done).unwrap();
            a.jmp(top).unwrap();
        }
        a.set_label(&mut done).unwrap();
        a.ret().unwrap();
        let result = a.assemble_options(at, iced_x86::BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS).unwrap();
        for (slot, case) in table.iter_mut().zip(&cases) {
            *slot = result.label_ip(case).unwrap();
        }
    });
    for n in [0, 0o1_234_567, 0o76_543_210, u64::MAX] {
        run(f, [n, 0, 0, 0, 0, 0]);
    }
    assert_eq!(run(f, [0o21, 0, 0, 0, 0, 0]), 4 * 5);
}

#[test]
fn the_red_zone_survives_every_branch() {
    let f = code(|a| {
        let (mut behind, mut over, mut target) = (a.create_label(), a.create_label(), a.create_label());
        for n in 1..=16 {
            a.mov(qword_ptr(rsp - 8 * n), n)?;
        }
        a.lea(rax, ptr(behind))?;
        a.jmp(rax)?;
        a.set_label(&mut behind)?;
        a.lea(r8, ptr(target))?;
        a.mov(qword_ptr(rsp - 128), r8)?;
        a.jmp(qword_ptr(rsp - 128))?;
        a.set_label(&mut target)?;
        a.mov(ecx, 1)?;
        a.loop_(over)?;
        a.cmp(ecx, 0)?;
        a.je(over)?;
        a.ud2()?;
        a.set_label(&mut over)?;
        a.xor(eax, eax)?;
        for n in 1..=15 {
            a.imul_3(rax, rax, 31)?;
            a.add(rax, qword_ptr(rsp - 8 * n))?;
        }
        a.ret()
    });
    run(f, [0; 6]);
}

#[test]
fn flags_and_registers_pass_through_indirect_branches() {
    let seen = words(20);
    let base = seen.as_ptr().addr() as i64;
    let f = code(|a| {
        let (mut callee, mut back) = (a.create_label(), a.create_label());
        a.push(rbx)?;
        a.lea(rbx, ptr(callee))?;
        for (n, register) in [rax, rcx, rdx, rsi, r8, r9, r10, r11].into_iter().enumerate() {
            a.mov(register, 0x1111_1111_1111_1111u64 * (n as u64 + 1))?;
        }
        a.push(rdi)?;
        a.popfq()?;
        a.call(rbx)?;
        a.set_label(&mut back)?;
        a.mov(qword_ptr(base + 72), rdx)?;
        a.pushfq()?;
        a.pop(qword_ptr(base + 64))?;
        a.pop(rbx)?;
        a.ret()?;
        a.set_label(&mut callee)?;
        for (n, register) in [rax, rcx, rdx, rsi, r8, r9, r10, r11].into_iter().enumerate() {
            a.mov(qword_ptr(base + 8 * n as i64), register)?;
        }
        a.ret()
    });
    for flags in [0x202, 0x246, 0xAD7, 0x287] {
        seen.fill(0);
        run(f, [flags, 0, 0, 0, 0, 0]);
        let expected: Vec<u64> = (1..=8).map(|n| 0x1111_1111_1111_1111 * n).collect();
        assert_eq!(seen[..8], expected);
        assert_eq!((seen[8], seen[9]), (flags, 0x3333_3333_3333_3333));
    }
}

#[test]
fn addresses_relative_to_rip() {
    let f = code(|a| {
        let (mut word, mut code) = (a.create_label(), a.create_label());
        a.jmp(code)?;
        a.set_label(&mut word)?;
        a.dq(&[40])?;
        a.dq(&[7])?;
        a.set_label(&mut code)?;
        a.add(qword_ptr(word), rdi)?;
        a.mov(rax, qword_ptr(word))?;
        a.lea(rdx, ptr(word))?;
        a.cmp(rdx, qword_ptr(word))?;
        a.imul_3(rcx, qword_ptr(word), 3)?;
        a.add(rax, rcx)?;
        a.sub(qword_ptr(word), rdi)?;
        a.movq(xmm0, qword_ptr(word))?;
        a.vpaddq(xmm0, xmm0, xmmword_ptr(word))?;
        a.vmovq(rcx, xmm0)?;
        a.add(rax, rcx)?;
        a.xchg(qword_ptr(word), rax)?;
        a.xchg(qword_ptr(word), rax)?;
        a.mov(byte_ptr(word), 40)?;
        a.lea(ecx, ptr(word))?;
        a.add(rax, rcx)?;
        a.ret()
    });
    let found = run(f, [2, 0, 0, 0, 0, 0]);
    assert_eq!(found, 42 + 126 + 80 + f.0 as u64 + 2);
}

#[test]
fn an_exchange_with_every_low_register_in_use() {
    // cmpxchg16b uses rax, rbx, rcx and rdx; the address has to go to another register, which keeps its value.
    let f = code(|a| {
        let (mut word, mut code) = (a.create_label(), a.create_label());
        a.jmp(code)?;
        for _ in 0..14 {
            a.nop()?;
        }
        a.set_label(&mut word)?;
        a.dq(&[1, 2])?;
        a.set_label(&mut code)?;
        a.push(rbx)?;
        a.mov(rax, 1u64)?;
        a.mov(rdx, 2u64)?;
        a.mov(rbx, rdi)?;
        a.mov(rcx, 4u64)?;
        a.cmpxchg16b(xmmword_ptr(word))?;
        a.setz(al)?;
        a.movzx(eax, al)?;
        a.imul_3(rsi, rsi, 10)?;
        a.add(rax, rsi)?;
        a.add(rax, qword_ptr(word))?;
        a.mov(qword_ptr(word), 1)?;
        a.lea(rbx, ptr(word))?;
        a.mov(qword_ptr(rbx + 8), 2)?;
        a.pop(rbx)?;
        a.ret()
    });
    assert_eq!(f.0 % 16, 0);
    assert_eq!(run(f, [300, 7, 0, 0, 0, 0]), 371);
}

#[test]
fn strings_with_counts() {
    let buffer = words(64);
    let f = code(|a| {
        a.mov(rcx, rsi)?;
        a.mov(rax, 0x0101_0101_0101_0101u64)?;
        a.mov(rdx, rdi)?;
        a.rep().stosq()?;
        a.mov(rsi, rdx)?;
        a.lea(rdi, rdx + 17)?;
        a.mov(ecx, 100)?;
        a.rep().movsb()?;
        a.mov(rdi, rdx)?;
        a.mov(ecx, 200)?;
        a.xor(eax, eax)?;
        a.repne().scasb()?;
        a.lea(rax, rcx + rdi)?;
        a.xor(ecx, ecx)?;
        a.rep().stosb()?;
        a.sub(rax, rdx)?;
        a.ret()
    });
    let at = buffer.as_ptr().addr() as u64;
    assert_eq!(run(f, [at, 20, 0, 0, 0, 0]), 200);
}

#[test]
fn system_calls_leave_what_the_processor_leaves() {
    let f = code(|a| {
        let mut next = a.create_label();
        a.mov(eax, 39)?;
        a.syscall()?;
        a.set_label(&mut next)?;
        a.lea(rdx, ptr(next))?;
        a.sub(rcx, rdx)?;
        a.shl(rcx, 40)?;
        a.add(rax, rcx)?;
        a.ret()
    });
    assert_eq!(run(f, [0; 6]), u64::from(std::process::id()));
}

#[test]
fn blocks_of_more_instructions_than_one_can_have() {
    let f = code(|a| {
        a.mov(rax, rdi)?;
        for n in 0..500 {
            a.add(rax, n)?;
        }
        a.ret()
    });
    assert_eq!(run(f, [1, 0, 0, 0, 0, 0]), 1 + 500 * 499 / 2);
}

/// More targets than one place of the table has slots.
#[test]
fn targets_that_meet_are_found_without_the_engine() {
    const COUNT: u64 = 20;
    let targets = words(COUNT as usize);
    for (number, target) in (1u8..).zip(&mut *targets) {
        let page = Code::of_bytes(&[]);
        let offset = 0x8000usize.wrapping_sub(page.0) % 0x1_0000;
        // mov eax, number; ret
        page.put(offset, &[0xB8, number, 0, 0, 0, 0xC3]);
        *target = (page.0 + offset) as u64;
    }
    let f = code(|a| {
        let (mut outer, mut inner) = (a.create_label(), a.create_label());
        [rbx, r12, r13, r14, r15].into_iter().try_for_each(|register| a.push(register))?;
        a.mov(r12, rdi)?;
        a.mov(r13, rsi)?;
        a.mov(r14, rdx)?;
        a.xor(r15d, r15d)?;
        a.set_label(&mut outer)?;
        a.xor(ebx, ebx)?;
        a.set_label(&mut inner)?;
        a.call(qword_ptr(r12 + rbx * 8))?;
        a.add(r15, rax)?;
        a.inc(rbx)?;
        a.cmp(rbx, r13)?;
        a.jb(inner)?;
        a.dec(r14)?;
        a.jne(outer)?;
        a.mov(rax, r15)?;
        [r15, r14, r13, r12, rbx].into_iter().try_for_each(|register| a.pop(register))?;
        a.ret()
    });
    let engine = engine(Distance::Near, Plain);
    let mut thread = attach(engine);
    let mut times = |rounds| {
        let before = engine.host().asked.load(Relaxed);
        let sum = call(&mut thread, f, [targets.as_ptr().addr() as u64, COUNT, rounds, 0, 0, 0]);
        assert_eq!(sum, rounds * COUNT * (COUNT + 1) / 2);
        engine.host().asked.load(Relaxed) - before
    };
    let first = times(2);
    let (few, many) = (times(1), times(1000));
    assert!(first > COUNT as usize && many == few, "{first} {few} {many}");
}
