//! What a tool can have besides inserted code: routines, memory of its own, visits, and
//! notes about a block.
//!
//! Apart from `tools` for their length.

use crate::process::{Code, Distance, attach, call, engine, words};
use iced_x86::Mnemonic;
use iced_x86::code_asm::*;
use relive_dbi::{
    Assembler, Condition, Context, Gpr, Inserter, Operand, Reserve, RoutineWriter, Site, Survey, Tool, ToolMemory,
    Visit, tool_word,
};
use std::sync::Mutex;

/// In its words: how often an instruction ran, every how manieth makes a visit, and an address in its memory.
const COUNT: usize = 0;
const LEFT: usize = 1;
const PLACE: usize = 2;
/// Instructions between two visits.
const PERIOD: u64 = 5;

/// Counts instructions by a routine, which leaves for each fifth; each `cpuid` is visited before it runs.
#[derive(Default)]
struct Each {
    seen: Mutex<Vec<(Context, u64)>>,
    vectors: Mutex<Vec<[u8; 64]>>,
}

impl Tool for Each {
    fn survey(&self, survey: &mut Survey<'_>) {
        for index in 0..survey.count() {
            let note = survey.look(index, |site, _| site.ip() ^ 0xFFFF);
            survey.note(index, [note, index as u64, 0, 0]);
        }
    }

    fn instrument(&self, site: &Site<'_>, insert: &mut Inserter<'_, '_>) {
        assert_eq!(site.note()[0], site.ip() ^ 0xFFFF);
        if site.instruction().mnemonic() == Mnemonic::Cpuid {
            return insert.visit();
        }
        let (first, second) = (insert.scratch().expect("a register"), insert.scratch().expect("another"));
        insert.clobber_flags();
        insert.code().constant(first, 0xBAD);
        insert.code().test(tool_word(COUNT), 0);
        insert.aside(Condition::Equal, |aside| {
            aside.write(|code| code.constant(second, 0xBAD));
            aside.routine(0, second);
        });
    }

    fn routines(&self, w: &mut RoutineWriter<'_, '_>) {
        assert_eq!(w.begin(3), 0);
        let code: &mut Assembler<'_> = w.code();
        // The count is in the tool's memory, before and behind the area.
        code.load(Gpr::RCX, tool_word(PLACE));
        code.load(Gpr::RAX, Operand::at(Gpr::RCX, 0));
        code.lea(Gpr::RAX, Operand::at(Gpr::RAX, 1));
        code.store(Operand::at(Gpr::RCX, 0), Gpr::RAX);
        code.constant(Gpr::RDX, 0xBAD);
        code.add_to(tool_word(LEFT), -1);
        let leave = code.jump_if(Condition::Equal);
        w.back();
        w.code().bind(leave);
        w.leave();
    }

    fn reserve(&self) -> Reserve {
        Reserve { before: 4096, behind: 4096 }
    }

    fn attach(&self, memory: &mut ToolMemory<'_>) {
        memory.set_word(PLACE, memory.address() - 4096);
        memory.set_word(LEFT, PERIOD);
    }

    fn visit(&self, visit: &mut Visit<'_>) {
        let memory = visit.memory();
        memory.set_word(LEFT, PERIOD);
        let count = memory.load(-4096);
        let behind = relive_dbi::AREA_BYTES as isize + 4088;
        let visits = memory.load(behind);
        memory.store(behind, visits + 1);
        self.seen.lock().unwrap().push((*visit.context(), count));
        self.vectors.lock().unwrap().push(visit.vector(3));
    }
}

#[test]
fn routines_run_and_leave_with_the_programs_state_known() {
    let data = words(1);
    let f = Code::new(|a, _| {
        let mut top = a.create_label();
        a.vpcmpeqd(ymm3, ymm3, ymm3).unwrap();
        a.mov(rsi, 0x1111_2222_3333_4444u64).unwrap();
        a.mov(eax, 0).unwrap();
        a.set_label(&mut top).unwrap();
        a.lea(rax, rax + rdi).unwrap();
        a.mov(rdx, rsi).unwrap();
        a.mov(rcx, rax).unwrap();
        a.mov(qword_ptr(data.as_ptr() as i64), rcx).unwrap();
        a.dec(rdi).unwrap();
        a.jne(top).unwrap();
        a.add(rax, rdx).unwrap();
        a.ret().unwrap();
    });
    let expected = f.call([100, 0, 0, 0, 0, 0]);
    for distance in [Distance::Near, Distance::Far] {
        let engine = engine(distance, Each::default());
        let mut thread = attach(engine);
        for round in 1..=2u64 {
            assert_eq!(call(&mut thread, f, [100, 0, 0, 0, 0, 0]), expected);
            let (all, seen) = (round * (3 + 600 + 2), engine.tool().seen.lock().unwrap());
            assert_eq!(thread.tool_memory().load(-4096), all);
            assert_eq!(seen.len() as u64, all / PERIOD);
            for (n, (context, count)) in seen.iter().enumerate() {
                assert_eq!(*count, (n as u64 + 1) * PERIOD);
                assert!(f.range().contains(&context.ip), "{:x}", context.ip);
                // What the program still needs: rsi from its load on, rdi always.
                assert!(n % 121 == 0 || context.general[6] == 0x1111_2222_3333_4444);
                assert!(context.general[7] <= 100);
            }
        }
        assert_eq!(thread.tool_memory().load(relive_dbi::AREA_BYTES as isize + 4088), 2 * 605 / PERIOD);
        let vectors = engine.tool().vectors.lock().unwrap();
        assert!(vectors.iter().skip(1).all(|vector| vector[..32] == [0xFF; 32] && vector[32..] == [0; 32]));
    }
}

#[test]
fn an_instruction_can_be_visited_before_it_runs() {
    let f = Code::new(|a, _| {
        a.push(rbx).unwrap();
        a.mov(r8, 42u64).unwrap();
        a.xor(eax, eax).unwrap();
        a.xor(ecx, ecx).unwrap();
        a.cmp(r8, 43).unwrap();
        a.cpuid().unwrap();
        a.setb(al).unwrap();
        a.movzx(eax, al).unwrap();
        a.pop(rbx).unwrap();
        a.ret().unwrap();
    });
    let engine = engine(Distance::Far, Each::default());
    let mut thread = attach(engine);
    assert_eq!(call(&mut thread, f, [0; 6]), 1);
    let seen = engine.tool().seen.lock().unwrap();
    // One for the first five instructions, which comes before the sixth, and one for that.
    assert_eq!(seen.len(), 2);
    let (context, count) = seen[1];
    assert_eq!((context.general[8], context.general[0], context.flags & 1, count), (42, 0, 1, 5));
    assert_eq!(context.ip - f.0 as u64, 1 + 10 + 2 + 2 + 4);
}

#[test]
#[should_panic(expected = "what it has reserved")]
fn a_tool_reaches_only_its_own_memory() {
    let mut thread = attach(engine(Distance::Near, Each::default()));
    thread.tool_memory().load(-4104);
}
