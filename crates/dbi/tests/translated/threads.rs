//! Several threads in one cache, while it grows and while parts of it are flushed.
//!
//! Apart from `flush`, whose cases one thread decides alone.

use crate::process::{Code, Distance, attach, call, engine, words};
use crate::tools::{CountAccesses, Greedy};
use iced_x86::code_asm::*;
use relive_dbi::Plain;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Each call goes through a table of small functions, chosen by a hash of the count: direct and indirect branches.
fn mixer(functions: usize) -> Code {
    let table = words(functions);
    for (n, slot) in table.iter_mut().enumerate() {
        let small = Code::new(|a, _| {
            let mut odd = a.create_label();
            a.test(dil, 1).unwrap();
            a.jne(odd).unwrap();
            a.lea(rax, rax + rdi * 2 + n as i32).unwrap();
            a.ret().unwrap();
            a.set_label(&mut odd).unwrap();
            a.imul_3(rax, rax, 5 + n as i32).unwrap();
            a.ret().unwrap();
        });
        *slot = small.0 as u64;
    }
    Code::new(|a, _| {
        let mut top = a.create_label();
        a.mov(rax, rsi).unwrap();
        a.mov(r8, table.as_ptr() as u64).unwrap();
        a.set_label(&mut top).unwrap();
        a.imul_3(rcx, rdi, 0x9E37).unwrap();
        a.shr(rcx, 4).unwrap();
        a.and(ecx, functions as i32 - 1).unwrap();
        a.call(qword_ptr(r8 + rcx * 8)).unwrap();
        a.dec(rdi).unwrap();
        a.jne(top).unwrap();
        a.ret().unwrap();
    })
}

#[test]
fn threads_share_a_cache_that_grows() {
    let f = mixer(256);
    let engine = engine(Distance::Far, CountAccesses);
    std::thread::scope(|scope| {
        for n in 0..4u64 {
            scope.spawn(move || {
                let mut thread = attach(engine);
                for round in 1..20 {
                    let arguments = [round * 500, n + round, 0, 0, 0, 0];
                    assert_eq!(call(&mut thread, f, arguments), f.call(arguments));
                }
                // Each thread counts for itself: two reads a step, one write.
                let [reads, writes, ..] = thread.tool_words();
                let steps: u64 = (1..20).map(|round| round * 500).sum();
                assert_eq!((reads, writes), (steps * 2 + 19, steps));
            });
        }
    });
    assert_eq!(*engine.host().lost.lock().unwrap(), []);
}

#[test]
fn flushes_under_running_threads() {
    const FLUSHED: usize = 100;
    let f = mixer(64);
    let engine = engine(Distance::Near, Plain);
    let (done, flushed) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (done, flushed) = (&done, &flushed);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2u64)
            .map(|n| {
                scope.spawn(move || {
                    let mut thread = attach(engine);
                    // A busy machine may let the flusher come late.
                    let enough = |round| round >= 60 && flushed.load(Ordering::Relaxed) > FLUSHED;
                    for round in (1..100_000).take_while(|&round| !enough(round)) {
                        let arguments = [3000, n * 7 + round, 0, 0, 0, 0];
                        assert_eq!(call(&mut thread, f, arguments), f.call(arguments));
                    }
                })
            })
            .collect();
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                // All of it only as often as the cache has room for.
                if engine.usage().code_bytes < 6 << 20 {
                    flushed.fetch_add(engine.flush(&(0..u64::MAX)), Ordering::Relaxed);
                }
                std::thread::yield_now();
            }
        });
        for worker in workers {
            worker.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(flushed.load(Ordering::Relaxed) > FLUSHED, "the code was flushed while it ran");
    assert_eq!(*engine.host().lost.lock().unwrap(), []);
}

#[test]
fn a_loop_that_keeps_registers_away_is_left_when_it_is_flushed() {
    let idle = [rcx, rdx, r8, r9, r10, r11];
    let f = Code::new(|a, _| {
        let mut top = a.create_label();
        a.xor(eax, eax).unwrap();
        for (register, value) in idle.into_iter().zip(1..) {
            a.mov(register, 1_u64 << (40 + value)).unwrap();
        }
        a.set_label(&mut top).unwrap();
        a.inc(rax).unwrap();
        a.mov(qword_ptr(rdi), rax).unwrap();
        a.cmp(qword_ptr(rsi), 0).unwrap();
        a.je(top).unwrap();
        for register in idle {
            a.add(rax, register).unwrap();
        }
        a.ret().unwrap();
    });
    let engine = engine(Distance::Near, Greedy);
    let (rounds, end) = (&AtomicUsize::new(0), &AtomicUsize::new(0));
    let found = std::thread::scope(|scope| {
        let worker = scope.spawn(move || {
            let mut thread = attach(engine);
            call(&mut thread, f, [rounds.as_ptr().addr() as u64, end.as_ptr().addr() as u64, 0, 0, 0, 0])
        });
        let wait = |what: &dyn Fn() -> bool| {
            while !what() {
                std::thread::yield_now();
            }
        };
        for _ in 0..50 {
            let before = rounds.load(Ordering::Relaxed);
            wait(&|| rounds.load(Ordering::Relaxed) > before + 10);
            let blocks = engine.usage().blocks;
            engine.flush(&(0..u64::MAX));
            // Who came out of it comes back to a new one.
            wait(&|| engine.usage().blocks > blocks);
        }
        end.store(1, Ordering::Relaxed);
        worker.join().unwrap()
    });
    let idle: u64 = (1..=6).map(|value| 1 << (40 + value)).sum();
    assert_eq!(found, rounds.load(Ordering::Relaxed) as u64 + idle);
}

#[test]
fn a_forked_child_goes_on_translating_by_itself() {
    let engine = engine(Distance::Far, Greedy);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Keeps the lock busy: each round is translated anew.
        let done = &done;
        scope.spawn(move || {
            let f = mixer(16);
            let mut thread = attach(engine);
            while !done.load(Ordering::Relaxed) && engine.usage().code_bytes < 6 << 20 {
                engine.flush(&(0..u64::MAX));
                call(&mut thread, f, [100, 1, 0, 0, 0, 0]);
            }
        });
        let f = mixer(128);
        let arguments = [20_000, 3, 0, 0, 0, 0];
        let expected = f.call(arguments);
        let mut thread = attach(engine);
        for _ in 0..20 {
            let mut child = 0;
            let fork = || {
                // SAFETY: the child runs code that needs no lock but the engine's, and ends.
                child = unsafe { libc::fork() };
                child == 0
            };
            if engine.around_fork(fork) {
                let right = call(&mut thread, f, arguments) == expected;
                // SAFETY: as it says.
                unsafe { libc::_exit(if right { 33 } else { 1 }) };
            }
            let mut status = 0;
            // SAFETY: the status is a local variable.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 33, "{status:#x}");
        }
        done.store(true, Ordering::Relaxed);
        assert_eq!(call(&mut thread, f, arguments), expected);
    });
}
