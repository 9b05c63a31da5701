//! Code that changes without a word: another version of it, the very next instruction,
//! under a thread that runs it.
//!
//! Apart from `flush`, whose changes the engine is told of.

use crate::process::{Code, Distance, attach, call, calls_thrice, engine, returns, watching};
use crate::tools::{CountAccesses, Greedy};
use iced_x86::code_asm::*;
use relive_dbi::{Plain, Tool};
use std::sync::atomic::{AtomicU32, Ordering};

fn rewritten<T: Tool + 'static>(tool: T) {
    let callee = Code::of_bytes(&[0xC3]);
    let caller = calls_thrice(callee);
    let engine = watching(Distance::Far, tool, callee);
    let mut thread = attach(engine);
    for value in 0..500 {
        returns(callee, 0, value);
        for _ in 0..2 {
            assert_eq!(call(&mut thread, caller, [0; 6]), u64::from(value) * 3);
        }
    }
}

#[test]
fn each_version_of_a_function_runs() {
    rewritten(Plain);
    rewritten(CountAccesses);
    rewritten(Greedy);
}

#[test]
fn a_version_that_comes_back_is_not_translated_again() {
    let f = Code::of_bytes(&[0xC3]);
    let engine = watching(Distance::Near, Plain, f);
    let mut thread = attach(engine);
    call(&mut thread, f, [0; 6]);
    let before = engine.usage().blocks;
    for value in (0..5).cycle().take(400) {
        returns(f, 0, value);
        assert_eq!(call(&mut thread, f, [0; 6]), u64::from(value));
    }
    assert_eq!(engine.usage().blocks, before + 5);
    // Of many versions the oldest are forgotten, and still right.
    for value in (0..40).cycle().take(400) {
        returns(f, 0, value);
        assert_eq!(call(&mut thread, f, [0; 6]), u64::from(value));
    }
    assert!(engine.usage().blocks > before + 40);
}

#[test]
fn the_next_instruction_may_be_written() {
    // Straight on, without a branch: the byte is the low one of what is loaded next.
    let f = Code::new(|a, _| {
        let mut next = a.create_label();
        a.lea(rcx, ptr(next)).unwrap();
        a.mov(byte_ptr(rcx + 1), dil).unwrap();
        a.set_label(&mut next).unwrap();
        a.mov(eax, 0x100).unwrap();
        a.ret().unwrap();
    });
    let engine = watching(Distance::Far, Plain, f);
    let mut thread = attach(engine);
    for value in 0..100u64 {
        assert_eq!(call(&mut thread, f, [value, 0, 0, 0, 0, 0]), 0x100 + value);
    }
}

#[test]
fn what_a_loop_writes_runs_behind_it() {
    // The loop decodes the function behind it in place; that is in the same block as its branch back.
    let plain = [0xB8, 0x39, 0x30, 0, 0, 0xC3];
    let write = |code: Code| {
        code.again(|a, at| {
            let (mut top, mut text) = (a.create_label(), a.create_label());
            a.mov(ecx, plain.len() as i32).unwrap();
            a.set_label(&mut top).unwrap();
            a.lea(rdx, ptr(text)).unwrap();
            a.xor(byte_ptr(rdx + rcx - 1), 0x5A).unwrap();
            a.dec(ecx).unwrap();
            a.jne(top).unwrap();
            a.set_label(&mut text).unwrap();
            a.db(&plain.map(|byte| byte ^ 0x5A)).unwrap();
            assert_eq!(at, code.0 as u64);
        });
    };
    let f = Code::of_bytes(&[0xC3]);
    let engine = watching(Distance::Far, Plain, f);
    let mut thread = attach(engine);
    for _ in 0..20 {
        write(f);
        assert_eq!(call(&mut thread, f, [0; 6]), 12345);
    }
}

#[test]
fn a_thread_sees_what_another_writes_where_it_runs() {
    let f = Code::new(|a, _| {
        let mut top = a.create_label();
        // The constant stands in one word, as who changes code under others has it.
        a.nops_with_size(3).unwrap();
        a.set_label(&mut top).unwrap();
        a.mov(eax, 0).unwrap();
        a.cmp(eax, edi).unwrap();
        a.jne(top).unwrap();
        a.ret().unwrap();
    });
    let engine = watching(Distance::Far, Plain, f);
    // SAFETY: within the function's memory, and aligned.
    let constant = unsafe { AtomicU32::from_ptr((f.0 + 4) as *mut u32) };
    let reached = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut thread = attach(engine);
                for value in 1..200 {
                    assert_eq!(call(&mut thread, f, [u64::from(value), 0, 0, 0, 0, 0]), u64::from(value));
                    reached.fetch_add(1, Ordering::AcqRel);
                    while reached.load(Ordering::Acquire) < value * 2 {
                        std::thread::yield_now();
                    }
                }
            });
        }
        for value in 1..200 {
            constant.store(value, Ordering::Release);
            while reached.load(Ordering::Acquire) < value * 2 {
                std::thread::yield_now();
            }
        }
    });
}

#[test]
fn a_program_that_checks_alignment_is_alone_with_that() {
    const CHECKED: u64 = 0x4_0000;
    let callee = Code::of_bytes(&[0x90, 0x90, 0x90, 0xC3]);
    let f = Code::new(|a, _| {
        a.pushfq().unwrap();
        a.or(qword_ptr(rsp), CHECKED as i32).unwrap();
        a.popfq().unwrap();
        a.call(callee.0 as u64 + 1).unwrap();
        a.pushfq().unwrap();
        a.pop(rax).unwrap();
        a.push(rax).unwrap();
        a.and(qword_ptr(rsp), !(CHECKED as i32)).unwrap();
        a.popfq().unwrap();
        a.and(eax, CHECKED as i32).unwrap();
        a.ret().unwrap();
    });
    for engine in
        [engine(Distance::Far, Plain), watching(Distance::Far, Plain, f), watching(Distance::Near, Plain, callee)]
    {
        let mut thread = attach(engine);
        for _ in 0..2 {
            assert_eq!(call(&mut thread, f, [0; 6]), CHECKED);
        }
    }
}
