//! What a tool sees and inserts.
//!
//! Apart because these are the examples to write a tool by.

use crate::process::{Code, Distance, Here, attach, call, engine, engine_in, memory, words};
use iced_x86::code_asm::*;
use relive_dbi::{
    Access, AccessKind, After, Condition, Context, Engine, Error, Flow, Inserter, Operand, Refusal, Site, Tool,
    Treatment, tool_word,
};
use std::sync::Mutex;

/// Counts reads in word 0 and writes in word 1; word 2 gets the sum of their addresses.
pub(crate) struct CountAccesses;

impl Tool for CountAccesses {
    fn instrument(&self, site: &Site<'_>, insert: &mut Inserter<'_, '_>) {
        for access in site.accesses() {
            let Some(register) = insert.scratch() else { continue };
            if !insert.address(&access, register) {
                continue;
            }
            insert.clobber_flags();
            let code = insert.code();
            let word = usize::from(access.kind != AccessKind::Read);
            code.add_to(tool_word(word), 1);
            // Word 2 plus the address, by way of word 3.
            code.store(tool_word(3), register);
            code.load(register, tool_word(2));
            code.not(register);
            code.not(register);
            code.store(tool_word(4), register);
            code.load(register, tool_word(3));
            code.compare(register, tool_word(5));
            let same = code.jump_if(Condition::Equal);
            code.store(tool_word(5), register);
            code.add_to(tool_word(6), 1);
            code.bind(same);
        }
    }
}

/// Takes all the registers that there are and fills them with rubbish, flags too.
pub(crate) struct Greedy;

impl Tool for Greedy {
    fn instrument(&self, _site: &Site<'_>, insert: &mut Inserter<'_, '_>) {
        let mut count = 0;
        if count == 0 {
            insert.clobber_flags();
        }
        while let Some(register) = insert.scratch() {
            insert.code().constant(register, 0xDEAD_0000_0000_BEEF ^ count);
            count += 1;
        }
        insert.code().add_to(tool_word(0), 1);
        assert!(count >= 4);
    }
}

/// Counts instructions in word 0, and each eighth in word 1 by code that stands aside, long enough that in large blocks
/// not all of it has room there.
pub(crate) struct EachEighth;

impl Tool for EachEighth {
    fn instrument(&self, _site: &Site<'_>, insert: &mut Inserter<'_, '_>) {
        let register = insert.scratch().expect("one register");
        insert.clobber_flags();
        let code = insert.code();
        code.add_to(tool_word(0), 1);
        code.test(tool_word(0), 7);
        insert.seldom(Condition::Equal, |code| {
            code.load(register, tool_word(1));
            for _ in 0..20 {
                code.lea(register, Operand::at(register, 0x1000));
            }
            code.lea(register, Operand::at(register, 1 - 20 * 0x1000));
            code.store(tool_word(1), register);
        });
    }
}

/// Counts instructions, without flags.
struct CountInstructions;

impl Tool for CountInstructions {
    fn instrument(&self, _site: &Site<'_>, insert: &mut Inserter<'_, '_>) {
        let register = insert.scratch().expect("one register");
        let code = insert.code();
        code.load(register, tool_word(0));
        code.lea(register, Operand::at(register, 1));
        code.store(tool_word(0), register);
    }
}

fn loop_of(body: impl FnOnce(&mut CodeAssembler)) -> Code {
    Code::new(|a, _| {
        let mut top = a.create_label();
        a.set_label(&mut top).unwrap();
        body(a);
        a.dec(rdi).unwrap();
        a.jne(top).unwrap();
        a.ret().unwrap();
    })
}

#[test]
fn instructions_are_counted_exactly() {
    let f = loop_of(|a| a.lea(rax, rdi + 1).unwrap());
    let mut thread = attach(engine(Distance::Near, CountInstructions));
    assert_eq!(call(&mut thread, f, [1000, 0, 0, 0, 0, 0]), 2);
    assert_eq!(thread.tool_words()[0], 3000 + 1);
}

/// Inserts so many bytes before each instruction.
struct Padding(usize);

impl Tool for Padding {
    fn instrument(&self, _site: &Site<'_>, insert: &mut Inserter<'_, '_>) {
        (0..self.0).for_each(|_| insert.code().bytes(&[0x90]));
    }
}

#[test]
fn a_block_that_a_tool_makes_too_large_is_cut_into_shorter_ones() {
    let f = loop_of(|a| {
        for _ in 0..50 {
            a.lea(rax, rdi + 1).unwrap();
        }
    });
    for (padding, blocks) in [(10, 2..5), (3000, 4..20), (40_000, 50..200)] {
        let engine = engine(Distance::Near, Padding(padding));
        let mut thread = attach(engine);
        assert_eq!(call(&mut thread, f, [30, 0, 0, 0, 0, 0]), 2);
        assert!(blocks.contains(&engine.usage().blocks), "{padding}: {:?}", engine.usage());
        assert_eq!((engine.usage().emptied, &*engine.host().lost.lock().unwrap()), (0, &vec![]));
    }
    let engine = engine(Distance::Near, Padding(70_000));
    assert_eq!(call(&mut attach(engine), f, [30, 0, 0, 0, 0, 0]), 2, "natively");
    assert_eq!(engine.host().lost.lock().unwrap()[..], [(f.0 as u64, Error::CodeFull)]);
}

#[test]
fn what_is_seldom_needed_runs_when_it_is() {
    let f = loop_of(|a| {
        for _ in 0..50 {
            a.lea(rax, rdi + 1).unwrap();
        }
    });
    let mut thread = attach(engine(Distance::Near, EachEighth));
    assert_eq!(call(&mut thread, f, [1000, 0, 0, 0, 0, 0]), 2);
    assert_eq!(thread.tool_words()[..2], [52_001, 52_001 / 8]);
}

#[test]
fn accesses_are_counted_with_the_implicit_ones() {
    let data = words(8);
    let f = loop_of(|a| {
        a.push(rsi).unwrap();
        a.pop(rcx).unwrap();
        a.add(qword_ptr(rsi), 1).unwrap();
        a.mov(rax, qword_ptr(rsi + 8)).unwrap();
        a.lea(rax, qword_ptr(rsi + 16)).unwrap();
        a.nop_1(dword_ptr(rsi)).unwrap();
    });
    let mut thread = attach(engine(Distance::Near, CountAccesses));
    call(&mut thread, f, [10, data.as_mut_ptr() as u64, 0, 0, 0, 0]);
    // Reads: pop, mov, and the return at the end; writes: push, add.
    assert_eq!(thread.tool_words()[..2], [21, 20]);
    assert_eq!(data[0], 10);
}

type Seen = (u64, AccessKind, usize, bool, bool, bool);

/// Keeps what it is told.
#[derive(Default)]
struct Look {
    seen: Mutex<Vec<Seen>>,
    locked: Mutex<Vec<u64>>,
    flows: Mutex<Vec<Flow>>,
}

impl Tool for Look {
    fn instrument(&self, site: &Site<'_>, insert: &mut Inserter<'_, '_>) {
        let told = |a: Access<'_>| (site.ip(), a.kind, a.bytes, a.conditional, a.repeated, a.scattered);
        self.seen.lock().unwrap().extend(site.accesses().map(told));
        self.flows.lock().unwrap().push(site.flow());
        if site.is_locked() {
            self.locked.lock().unwrap().push(site.ip());
        }
        for access in site.accesses() {
            let register = insert.scratch().expect("a register");
            assert_eq!(insert.address(&access, register), !access.scattered);
            if !access.scattered {
                insert.code().store(tool_word(0), register);
            }
        }
    }
}

/// Translates one instruction and a return, and says what the tool saw of the instruction, and its address.
fn look(write: impl FnOnce(&mut CodeAssembler), mut arguments: [u64; 6]) -> (Vec<Seen>, usize, u64) {
    let f = Code::new(|a, _| {
        write(a);
        a.jmp(rdx).unwrap();
    });
    let end = Code::of_bytes(&[0xC3]);
    let host = Here { native: vec![end.0], ..Here::default() };
    let engine = engine_in(memory(1 << 20, Distance::Far), host, Look::default());
    let mut thread = attach(engine);
    arguments[2] = end.0 as u64;
    call(&mut thread, f, arguments);
    let seen = engine.tool().seen.lock().unwrap().clone();
    let locked = engine.tool().locked.lock().unwrap().len();
    (seen, locked, thread.tool_words()[0])
}

#[test]
fn accesses_have_kind_size_and_address() {
    use AccessKind::{Read, ReadWrite, Write};
    let data = words(64);
    let at = data.as_mut_ptr() as u64;
    let arguments = [at, 3, 0, 0, 0, 0];
    let one = |write: &dyn Fn(&mut CodeAssembler)| {
        let (seen, locked, address) = look(write, arguments);
        assert_eq!(seen.len(), 1, "{seen:?}");
        let (_, kind, bytes, conditional, repeated, scattered) = seen[0];
        assert!(!repeated && !scattered);
        (kind, bytes, conditional, locked, address.wrapping_sub(at))
    };
    assert_eq!(one(&|a| a.mov(ax, word_ptr(rdi + rsi * 4 + 2)).unwrap()), (Read, 2, false, 0, 14));
    assert_eq!(one(&|a| a.mov(byte_ptr(edi + 5), al).unwrap()), (Write, 1, false, 0, 5));
    assert_eq!(one(&|a| a.add(dword_ptr(rdi), 1).unwrap()), (ReadWrite, 4, false, 0, 0));
    assert_eq!(one(&|a| a.lock().inc(qword_ptr(rdi)).unwrap()), (ReadWrite, 8, false, 1, 0));
    assert_eq!(one(&|a| a.xchg(qword_ptr(rdi + 8), rax).unwrap()), (ReadWrite, 8, false, 1, 8));
    assert_eq!(one(&|a| a.vmovdqu(ymm0, ymmword_ptr(rdi)).unwrap()), (Read, 32, false, 0, 0));
    assert_eq!(one(&|a| a.cmovb(rax, qword_ptr(rdi)).unwrap()), (Read, 8, false, 0, 0));
    assert_eq!(one(&|a| a.mov(rax, qword_ptr(at as i64 + 16)).unwrap()), (Read, 8, false, 0, 16));
    let (_, _, base) = look(|a| a.mov(rax, qword_ptr(0).fs()).unwrap(), arguments);
    let (_, _, address) = look(|a| a.mov(rax, qword_ptr(rsi + 13).fs()).unwrap(), arguments);
    assert_eq!(address - base, 16);
    let gather = |a: &mut CodeAssembler| {
        a.vpxor(xmm2, xmm2, xmm2).unwrap();
        a.db(&[0xC4, 0xE2, 0x69, 0x90, 0x04, 0x8F]).unwrap(); // vpgatherdd xmm0, [rdi + xmm1*4], xmm2
    };
    let (seen, _, _) = look(gather, arguments);
    assert!(!seen.is_empty() && seen.iter().all(|s| s.5), "{seen:?}");
    let string = |a: &mut CodeAssembler| {
        a.mov(ecx, 0).unwrap();
        a.rep().movsb().unwrap();
    };
    let (seen, _, _) = look(string, arguments);
    let kinds: Vec<_> = seen.iter().map(|s| (s.1, s.3, s.4)).collect();
    assert_eq!(kinds.len(), 2);
    assert!(kinds.contains(&(Read, true, true)) && kinds.contains(&(Write, true, true)), "{kinds:?}");
}

/// Wants to see system calls and `cpuid`.
struct Events;

impl Tool for Events {
    fn treatment(&self, site: &Site<'_>) -> Treatment {
        let wanted = site.is_system_call() || site.instruction().mnemonic() == iced_x86::Mnemonic::Cpuid;
        if wanted { Treatment::Event } else { Treatment::Copy }
    }
}

fn with_events(after: fn(&mut Context) -> After, f: Code) -> (u64, &'static Engine<Here, Events>) {
    let host = Here { after: Some(after), ..Here::default() };
    let engine = engine_in(memory(1 << 20, Distance::Far), host, Events);
    let mut thread = attach(engine);
    let first = call(&mut thread, f, [5, 6, 7, 8, 9, 10]);
    assert_eq!(call(&mut thread, f, [5, 6, 7, 8, 9, 10]), first);
    (first, engine)
}

fn system_call() -> Code {
    Code::new(|a, _| {
        a.movq(xmm9, rsi).unwrap();
        a.mov(eax, 39).unwrap();
        a.cmp(eax, 40).unwrap();
        a.syscall().unwrap();
        a.adc(rax, rdi).unwrap();
        a.movq(rcx, xmm9).unwrap();
        a.imul_3(rcx, rcx, 1000).unwrap();
        a.add(rax, rcx).unwrap();
        a.ret().unwrap();
    })
}

#[test]
fn an_instruction_can_be_handed_over_and_executed() {
    let (found, engine) = with_events(|_| After::Execute, system_call());
    assert_eq!(found, u64::from(std::process::id()) + 5 + 1 + 6000);
    let events = engine.host().events.lock().unwrap();
    assert_eq!(events.len(), 2);
    assert_eq!((events[0].general[0], events[0].general[7], events[0].flags & 1), (39, 5, 1));
    assert_eq!(events[0].general[..4], events[1].general[..4]);
}

#[test]
fn an_instruction_can_be_done_by_the_host() {
    let done = |context: &mut Context| {
        context.general[0] = 100;
        After::Skip
    };
    assert_eq!(with_events(done, system_call()).0, 100 + 5 + 1 + 6000);
}

#[test]
fn the_host_can_send_the_program_elsewhere() {
    let away = |context: &mut Context| {
        // Over the `syscall` and the `adc` of three bytes.
        context.ip += 2 + 3;
        context.general[0] = 1;
        After::Resume
    };
    assert_eq!(with_events(away, system_call()).0, 6001);
}

#[test]
fn what_is_outside_runs_natively_and_comes_back_by_resume() {
    // The native function sees all registers and the program's return address, and ends with a jump to `resume`.
    let slot = words(1);
    let native = Code::new(|a, _| {
        a.lea(rax, rdi + rcx).unwrap();
        a.jmp(qword_ptr(slot.as_ptr() as i64)).unwrap();
    });
    for indirect in [false, true] {
        let f = Code::new(|a, _| {
            a.mov(rcx, 100u64).unwrap();
            a.mov(r11, native.0 as u64).unwrap();
            a.cmp(rcx, 101).unwrap();
            if indirect {
                a.call(r11).unwrap();
            } else {
                a.call(native.0 as u64).unwrap();
            }
            a.adc(rax, rcx).unwrap();
            a.ret().unwrap();
        });
        let host = Here { native: vec![native.0], ..Here::default() };
        let engine = engine_in(memory(1 << 20, Distance::Far), host, CountInstructions);
        slot[0] = engine.resume();
        let mut thread = attach(engine);
        for round in 1..=3 {
            assert_eq!(call(&mut thread, f, [5, 0, 0, 0, 0, 0]), 206);
            assert_eq!(thread.tool_words()[0], 6 * round, "the native instructions are not counted");
        }
    }
}

#[test]
fn what_cannot_be_translated_goes_on_natively_and_is_told() {
    let f = Code::new(|a, _| {
        a.lea(rax, rdi + 1).unwrap();
        a.mov(rcx, qword_ptr(0).gs()).unwrap();
        a.add(rax, 1).unwrap();
        a.ret().unwrap();
    });
    let engine = engine(Distance::Far, CountInstructions);
    let mut thread = attach(engine);
    assert_eq!(call(&mut thread, f, [5, 0, 0, 0, 0, 0]), 7);
    let lost = engine.host().lost.lock().unwrap();
    assert_eq!(lost.len(), 1);
    assert!(matches!(lost[0], (ip, Error::Refused { ip: at, why: Refusal::ThreadArea }) if ip == at), "{lost:?}");
    assert_eq!(lost[0].0, f.0 as u64 + 4);
    assert_eq!(thread.tool_words()[0], 1);
}
