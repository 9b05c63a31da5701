//! What a signal handler finds while the tool's code runs: at every single instruction
//! of the cache, in checks, in rare parts and in routines.
//!
//! From any place on, the program can go on natively with what is recovered there, and
//! ends as it should.

use crate::observe::{Observed, engines};
use crate::process::Here;
use crate::program::{FLAGS_STEP, Program, Step, differences, steps};
use proptest::test_runner::{Config, TestRunner};
use relive_dbi::{Context, Engine, Tool};
use std::cell::Cell;

const TRAP: u64 = 0x100;

/// What the handler does on this thread.
struct Stepping {
    recover: Box<dyn Fn(&mut Context) -> bool>,
    contains: Box<dyn Fn(u64) -> bool>,
    /// After so many traps the program goes on natively.
    escape: usize,
    escaped: bool,
    traps: usize,
    /// Traps in the cache at which nothing could be recovered.
    unknown: usize,
}

thread_local! {
    static STEPPING: Cell<*mut Stepping> = const { Cell::new(std::ptr::null_mut()) };
}

extern "C" fn on_trap(_signal: i32, _info: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
    // SAFETY: the kernel gives a context; the stepping is this thread's, and this handler does not interrupt itself.
    let (registers, stepping) = unsafe { (&mut (*context).uc_mcontext.gregs, &mut *STEPPING.get()) };
    stepping.traps += 1;
    if stepping.escaped || stepping.traps < stepping.escape {
        return;
    }
    let mut found = Context {
        general: crate::process::INDEX.map(|index| registers[index as usize] as u64),
        flags: registers[libc::REG_EFL as usize] as u64,
        ip: registers[libc::REG_RIP as usize] as u64,
    };
    let inside = (stepping.contains)(found.ip);
    if !(stepping.recover)(&mut found) {
        stepping.unknown += usize::from(inside);
        return;
    }
    stepping.escaped = true;
    for (index, value) in crate::process::INDEX.into_iter().zip(found.general) {
        registers[index as usize] = value as i64;
    }
    registers[libc::REG_EFL as usize] = (found.flags & !TRAP) as i64;
    registers[libc::REG_RIP as usize] = found.ip as i64;
}

/// Runs with traps, and goes on natively at trap `escape`.
fn step<T: Tool>(
    program: &mut Program,
    engine: &'static Engine<Here, T>,
    observed: &mut impl FnMut(crate::process::Code) -> u64,
    escape: usize,
) -> (Vec<u64>, Stepping) {
    // SAFETY: the handler runs on the thread that is attached.
    let recover = Box::new(move |context: &mut Context| unsafe { engine.recover(context) });
    let contains = Box::new(move |pc| engine.contains(pc));
    let mut stepping = Stepping { recover, contains, escape, escaped: false, traps: 0, unknown: 0 };
    STEPPING.set(&raw mut stepping);
    let memory = program.run(0x202 | TRAP, observed);
    STEPPING.set(std::ptr::null_mut());
    (memory, stepping)
}

#[test]
fn the_program_can_go_on_natively_from_within_checks_and_routines() {
    let _traps = crate::oracle::handle(on_trap);
    let engines = engines();
    let mut escapes = 0;
    let config = Config { cases: 2, failure_persistence: None, ..Config::default() };
    let program = std::cell::RefCell::new((Program::new(), &mut escapes));
    let check = |steps: Vec<Step>| {
        let (program, escapes) = &mut *program.borrow_mut();
        let steps: Vec<_> = steps.into_iter().filter(|step| step.0 % 32 != FLAGS_STEP).collect();
        program.rewrite(&steps);
        let native = program.run(0x202, |code| code.call([0; 6]));
        for engine in &engines {
            engine.flush(&program.code.range());
            let mut observed = Observed::new(engine);
            // All blocks are there before the first trap.
            program.run(0x202, |code| observed.call(code, [0; 6]));
            observed.take();
            let mut run = |code| observed.call(code, [0; 6]);
            let (_, whole) = step(program, engine, &mut run, usize::MAX);
            let places = (1..15).chain((15..whole.traps).step_by(1 + whole.traps / 20));
            for place in places.take_while(|&place| place < whole.traps) {
                // Nothing is noted yet: each check leads to a rare part.
                observed.take();
                let mut run = |code| observed.call(code, [0; 6]);
                let (memory, stepping) = step(program, engine, &mut run, place);
                assert_eq!(stepping.unknown, 0);
                **escapes += usize::from(stepping.escaped);
                // The frame of the program keeps the flags, which have the trap flag if the run was translated up to there.
                let mut wrong = differences(&memory, &native);
                wrong.retain(|(_, found, expected)| found ^ expected != TRAP);
                assert_eq!(wrong, [], "escaped at trap {place} of {}", whole.traps);
            }
        }
        Ok(())
    };
    if let Err(why) = TestRunner::new(config).run(&steps(5..15), check) {
        panic!("{why}");
    }
    assert!(escapes > 100, "{escapes}");
}
