//! Code that changes, and caches that get full.
//!
//! Apart from `threads`, where others run the code meanwhile.

use crate::process::{Code, Distance, Here, attach, call, calls_thrice, engine, engine_in, memory, returns, watching};
use crate::tools::Greedy;
use iced_x86::code_asm::*;
use relive_dbi::{Engine, Error, Inserter, Memory, Operand, Plain, Site, Tool, data_bytes, tool_word};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn changed_code_runs_as_it_is_after_a_flush() {
    let callee = Code::of_bytes(&[0xC3]);
    let caller = calls_thrice(callee);
    let engine = engine(Distance::Near, Plain);
    let mut thread = attach(engine);
    let range = callee.range();
    for value in [7, 1000, 3] {
        returns(callee, 0, value);
        assert_eq!(engine.flush(&range), usize::from(value != 7));
        for _ in 0..3 {
            assert_eq!(call(&mut thread, caller, [0; 6]), u64::from(value) * 3);
        }
    }
    assert_eq!(engine.flush(&(0..0)), 0);
    // The callee, the tail jump, and the caller from its beginning and from behind each call.
    assert_eq!(engine.flush(&(0..u64::MAX)), 6);
    returns(callee, 0, 5);
    assert_eq!(call(&mut thread, caller, [0; 6]), 15);
}

#[test]
fn a_flush_takes_blocks_that_reach_into_the_range_and_no_others() {
    let f = Code::of_bytes(&[0x90; 64]);
    returns(f, 10, 1);
    returns(f, 40, 2);
    let engine = engine(Distance::Near, Plain);
    let mut thread = attach(engine);
    let at = f.0 as u64;
    assert_eq!(call(&mut thread, f, [0; 6]), 1);
    assert_eq!(call(&mut thread, Code(f.0 + 40), [0; 6]), 2);
    assert_eq!(engine.flush(&(at + 16..at + 40)), 0);
    assert_eq!(engine.flush(&(at + 15..at + 16)), 1, "the return of the first block");
    assert_eq!(engine.flush(&(at + 15..at + 16)), 0, "it is gone already");
    assert_eq!(engine.flush(&(at + 44..at + 45)), 1);
    assert_eq!(call(&mut thread, f, [0; 6]), 1);
}

/// Counts instructions from some time on.
#[derive(Default)]
struct Later(AtomicBool);

impl Tool for Later {
    fn instrument(&self, _site: &Site<'_>, insert: &mut Inserter<'_, '_>) {
        if self.0.load(Ordering::Relaxed) {
            let register = insert.scratch().expect("one register");
            let code = insert.code();
            code.load(register, tool_word(0));
            code.lea(register, Operand::at(register, 1));
            code.store(tool_word(0), register);
            insert.give_back(register);
        }
    }
}

#[test]
fn a_tool_that_changes_its_mind_sees_what_was_translated_before() {
    let callee = Code::of_bytes(&[0xC3]);
    let caller = calls_thrice(callee);
    for engine in [engine(Distance::Near, Later::default()), watching(Distance::Far, Later::default(), callee)] {
        let mut thread = attach(engine);
        // The second version is put away when the first comes back.
        for value in [7, 9, 7] {
            returns(callee, 0, value);
            engine.flush(&callee.range());
            assert_eq!(call(&mut thread, caller, [0; 6]), u64::from(value) * 3);
        }
        assert_eq!(thread.tool_words()[0], 0);
        engine.tool().0.store(true, Ordering::Relaxed);
        assert_eq!(engine.turn(1, |start| start != callee.0 as u64), 5);
        assert_eq!(call(&mut thread, caller, [0; 6]), 21);
        let without_callee = thread.tool_words()[0];
        assert!(without_callee > 10, "{without_callee}");
        assert_eq!(engine.turn(2, |start| start == callee.0 as u64), 1);
        for value in [7, 9] {
            returns(callee, 0, value);
            engine.flush(&callee.range());
            let before = thread.tool_words()[0];
            assert_eq!(call(&mut thread, caller, [0; 6]), u64::from(value) * 3);
            assert_eq!(thread.tool_words()[0] - before, without_callee + 3 * 2);
        }
    }
}

#[test]
fn a_tool_that_turns_back_finds_what_it_had_translated() {
    let callee = Code::of_bytes(&[0xC3]);
    let caller = calls_thrice(callee);
    for engine in [engine(Distance::Near, Later::default()), watching(Distance::Far, Later::default(), callee)] {
        let mut thread = attach(engine);
        let turn = |view: u8| {
            engine.tool().0.store(view == 1, Ordering::Relaxed);
            engine.turn(view, |_| true)
        };
        returns(callee, 0, 7);
        let (mut counted, mut blocks) = (Vec::new(), 0);
        for round in 0..4 {
            for view in [0, 1] {
                let resting = turn(view);
                assert_eq!(resting, if round == 0 && view == 0 { 0 } else { 6 });
                assert_eq!(call(&mut thread, caller, [0; 6]), 21);
                counted.push(thread.tool_words()[0]);
            }
            if round == 0 {
                blocks = engine.usage().blocks;
            }
        }
        assert_eq!(engine.usage().blocks, blocks, "nothing was translated twice in one view");
        let each = counted[1];
        assert_eq!(counted, [0, each, each, 2 * each, 2 * each, 3 * each, 3 * each, 4 * each]);
        // Code that changes while what was made of it rests.
        turn(0);
        returns(callee, 0, 9);
        engine.flush(&callee.range());
        assert_eq!(call(&mut thread, caller, [0; 6]), 27);
        turn(1);
        assert_eq!(call(&mut thread, caller, [0; 6]), 27);
        assert_eq!(thread.tool_words()[0], 5 * each);
    }
}

/// A function of many blocks, each with a number in it.
fn long(blocks: u32) -> Code {
    Code::new(|a, _| {
        a.xor(eax, eax).unwrap();
        for n in 0..blocks {
            let mut next = a.create_label();
            a.jmp(next).unwrap();
            a.int3().unwrap();
            a.set_label(&mut next).unwrap();
            a.imul_3(eax, eax, 3).unwrap();
            a.xor(eax, n as i32).unwrap();
        }
        a.ret().unwrap();
    })
}

#[test]
fn a_thread_alone_empties_a_full_cache_and_goes_on() {
    let small = memory(256 << 10, Distance::Far);
    let engine = engine_in(small, Here::default(), Greedy);
    let mut thread = attach(engine);
    let f = long(4000);
    let expected = f.call([0; 6]);
    for _ in 0..3 {
        assert_eq!(call(&mut thread, f, [0; 6]), expected);
    }
    let usage = engine.usage();
    assert!(usage.emptied > 0 && usage.code_bytes <= 256 << 10, "{usage:?}");
    assert_eq!(*engine.host().lost.lock().unwrap(), []);
}

#[test]
fn with_others_in_the_cache_a_full_one_is_told_and_the_program_goes_on_natively() {
    let engine = engine_in(memory(256 << 10, Distance::Far), Here::default(), Greedy);
    let f = long(4000);
    let expected = f.call([0; 6]);
    std::thread::scope(|scope| {
        // The other thread stays until this end of the channel is gone.
        let (stay, gone) = std::sync::mpsc::channel::<()>();
        let (attached, is_attached) = std::sync::mpsc::channel();
        scope.spawn(move || {
            let thread = attach(engine);
            attached.send(()).unwrap();
            assert!(gone.recv().is_err());
            drop(thread);
        });
        is_attached.recv().unwrap();
        let mut thread = attach(engine);
        assert_eq!(call(&mut thread, f, [0; 6]), expected);
        let lost = engine.host().lost.lock().unwrap().clone();
        assert_eq!(lost.len(), 1);
        assert_eq!(lost[0].1, Error::CodeFull);
        assert!(f.range().contains(&lost[0].0));
        assert_eq!(engine.usage().emptied, 0);
        drop(stay);
    });
}

#[test]
fn memory_of_the_wrong_size_is_refused() {
    let good = memory(256 << 10, Distance::Far);
    let wrong = [
        Memory { code_bytes: (256 << 10) - 1, ..good },
        Memory { data_bytes: good.data_bytes - 1, ..good },
        Memory { code_bytes: (1 << 30) + 1, data_bytes: data_bytes((1 << 30) + 1), ..good },
        Memory { data: NonNull::dangling(), data_bytes: 0, ..good },
    ];
    for memory in wrong {
        // SAFETY: none of them is used.
        let refused = unsafe { Engine::new(memory, Here::default(), Plain) };
        assert_eq!(refused.err(), Some(Error::Memory));
    }
}

#[test]
fn nobody_is_told_of_code_that_is_not_there_before_it_is_reached() {
    // The block ends where its memory does: the jump behind it is never taken.
    let f = Code::of_bytes(&[0x90; 1 << 10]);
    let end = (1 << 16) - 6;
    returns(f, end, 9);
    let engine = engine(Distance::Near, Plain);
    let mut thread = attach(engine);
    assert_eq!(call(&mut thread, Code(f.0 + end), [0; 6]), 9);
    assert_eq!(*engine.host().lost.lock().unwrap(), []);
}
