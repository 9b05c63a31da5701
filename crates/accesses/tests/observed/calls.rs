//! Functions that are followed: each call is told once, when it returns, with what it
//! was given, whichever way it got to its `ret`.
//!
//! Apart from `segments`: what such a function touched is what the sink says.

use crate::observe::{Keep, Observed, engine};
use crate::process::{Code, Distance, words};
use iced_x86::code_asm::*;
use relive_accesses::{Followed, Returned};
use std::sync::atomic::Ordering;

const SUM: u64 = 0;
const TAIL_TO_SUM: u64 = 0x100;
const INNER: u64 = 0x200;
const CALLS_BACK: u64 = 0x300;
const TAIL: u64 = 0x400;
const UNFOLLOWED: u64 = 0x500;
const LIST: u64 = 0x600;
const LOOP: u64 = 0x700;

fn put(code: Code, offset: u64, write: impl FnOnce(&mut CodeAssembler)) {
    let mut assembler = CodeAssembler::new(64).unwrap();
    write(&mut assembler);
    code.put(offset as usize, &assembler.assemble(code.0 as u64 + offset).unwrap());
}

/// A library of such functions.
fn library() -> Code {
    let library = Code::new(|a, _| a.nop().unwrap());
    let at = |offset| library.0 as u64 + offset;
    put(library, SUM, |a| {
        a.lea(eax, ptr(rdi + rsi)).unwrap();
        a.ret().unwrap();
    });
    put(library, TAIL_TO_SUM, |a| a.jmp(at(SUM)).unwrap());
    put(library, INNER, |a| {
        a.sub(rsp, 8).unwrap();
        a.call(at(SUM)).unwrap();
        a.add(rsp, 8).unwrap();
        a.ret().unwrap();
    });
    put(library, CALLS_BACK, |a| {
        a.sub(rsp, 8).unwrap();
        a.call(rdi).unwrap();
        a.add(rsp, 8).unwrap();
        a.ret().unwrap();
    });
    put(library, TAIL, |a| {
        a.mov(rdi, 0u64).unwrap();
        a.jmp(at(UNFOLLOWED)).unwrap();
    });
    put(library, UNFOLLOWED, |a| {
        a.mov(eax, 3).unwrap();
        a.ret().unwrap();
    });
    put(library, LIST, |a| {
        a.add(qword_ptr(rsi), 8).unwrap();
        a.mov(rax, qword_ptr(rsi)).unwrap();
        a.ret().unwrap();
    });
    // The flags that it begins with are nobody's, and those behind it neither.
    put(library, LOOP, |a| {
        let mut top = a.create_label();
        a.xor(eax, eax).unwrap();
        a.set_label(&mut top).unwrap();
        a.add(rax, rsi).unwrap();
        a.dec(rdi).unwrap();
        a.jne(top).unwrap();
        a.ret().unwrap();
    });
    library
}

/// Calls rdx with the same rdi and rsi.
fn caller() -> Code {
    Code::new(|a, _| {
        a.sub(rsp, 8).unwrap();
        a.call(rdx).unwrap();
        a.add(rsp, 8).unwrap();
        a.ret().unwrap();
    })
}

fn observed(library: Code, distance: Distance) -> Observed {
    let followed = |offset, number, arguments, list| {
        (library.0 as u64 + offset, Followed { number, arguments, list, floating: number == 6 })
    };
    let functions = vec![
        followed(SUM, 1, 2, None),
        followed(TAIL_TO_SUM, 2, 1, None),
        followed(CALLS_BACK, 3, 1, None),
        followed(TAIL, 4, 6, None),
        followed(LIST, 5, 2, Some(1)),
        followed(LOOP, 6, 2, None),
    ];
    let sink = Keep { functions, library: library.range(), ..Keep::default() };
    Observed::new(engine(distance, None, sink))
}

/// The number, the first two arguments and the result of each call that was told.
fn told(observed: &Observed) -> Vec<(u32, [u64; 2], u64)> {
    let calls: Vec<Returned> = std::mem::take(&mut observed.engine.tool().sink().returned.lock().unwrap());
    calls.into_iter().map(|call| (call.number, [call.arguments[0], call.arguments[1]], call.result)).collect()
}

fn left(observed: &Observed) -> usize {
    observed.engine.tool().sink().left.load(Ordering::Relaxed)
}

#[test]
fn a_call_is_told_when_it_returns() {
    let (library, caller) = (library(), caller());
    let at = |offset| library.0 as u64 + offset;
    for distance in [Distance::Near, Distance::Far] {
        let mut observed = observed(library, distance);
        for _ in 0..3 {
            assert_eq!(observed.call(caller, [40, 2, at(SUM), 0, 0, 0]), 42);
            assert_eq!(told(&observed), [(1, [40, 2], 42)]);
            assert_eq!(observed.call(caller, [5, 7, at(LOOP), 0, 0, 0]), 35);
            assert_eq!(told(&observed), [(6, [5, 7], 35)]);
            // Whoever wants all of its arguments, which it overwrites.
            assert_eq!(observed.call(caller, [9, 8, at(TAIL), 0, 0, 0]), 3);
            assert_eq!(told(&observed), [(4, [9, 8], 3)]);
            assert_eq!(observed.call(caller, [1, 2, at(TAIL_TO_SUM), 0, 0, 0]), 3);
            assert_eq!(told(&observed), [(1, [1, 2], 3)], "the one that it leads to");
        }
        assert_eq!(left(&observed), 0);
    }
}

#[test]
fn what_the_library_calls_itself_is_not_told() {
    let (library, caller) = (library(), caller());
    let mut observed = observed(library, Distance::Near);
    for _ in 0..3 {
        assert_eq!(observed.call(caller, [40, 2, library.0 as u64 + INNER, 0, 0, 0]), 42);
        assert_eq!(observed.call(caller, [0, 0, library.0 as u64 + UNFOLLOWED, 0, 0, 0]), 3);
    }
    assert_eq!((told(&observed), left(&observed)), (vec![], 0));
}

#[test]
fn a_call_that_another_one_interrupts_is_counted() {
    let (library, caller) = (library(), caller());
    let sum = library.0 as u64 + SUM;
    let callback = Code::new(|a, _| {
        a.sub(rsp, 8).unwrap();
        a.mov(edi, 20).unwrap();
        a.mov(esi, 3).unwrap();
        a.mov(rax, sum).unwrap();
        a.call(rax).unwrap();
        a.add(rsp, 8).unwrap();
        a.ret().unwrap();
    });
    let mut observed = observed(library, Distance::Near);
    let calls_back = library.0 as u64 + CALLS_BACK;
    assert_eq!(observed.call(caller, [callback.0 as u64, 0, calls_back, 0, 0, 0]), 23);
    assert_eq!((told(&observed), left(&observed)), (vec![(1, [20, 3], 23)], 1));
}

#[test]
fn a_list_is_told_as_it_was() {
    let list = words(3);
    let place = list.as_ptr() as u64;
    let mut observed = observed(library(), Distance::Near);
    let function = observed.engine.tool().sink().library.start + LIST;
    (list[0], list[1]) = (0x30_0000_0010, 77);
    assert_eq!(observed.call(caller(), [1, place, function, 0, 0, 0]), 0x30_0000_0018);
    let calls = observed.engine.tool().sink().returned.lock().unwrap();
    assert_eq!(calls.iter().map(|call| call.list).collect::<Vec<_>>(), [[0x30_0000_0010, 77]]);
}

#[test]
fn what_it_touched_is_the_segments() {
    let data = words(64);
    let start = data.as_ptr() as u64;
    let (library, caller) = (library(), caller());
    let mut observed = observed(library, Distance::Near);
    let range = start..start + 512;
    // The sink says that as many bytes are written as the second argument, and one is read behind them.
    let bytes = observed.touched(caller, [start + 60, 7, library.0 as u64 + SUM, 0, 0, 0], &range);
    assert_eq!(bytes.written.into_iter().collect::<Vec<_>>(), (start + 60..start + 67).collect::<Vec<_>>());
    assert_eq!(bytes.read.into_iter().collect::<Vec<_>>(), [start + 67]);
}

#[test]
fn nothing_is_followed_while_there_is_one_thread() {
    let (library, caller) = (library(), caller());
    let mut observed = observed(library, Distance::Near);
    observed.engine.tool().sink().alone.store(true, Ordering::Relaxed);
    assert_eq!(observed.call(caller, [40, 2, library.0 as u64 + SUM, 0, 0, 0]), 42);
    assert_eq!(told(&observed), []);
}
