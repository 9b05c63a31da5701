//! What a signal handler finds while the tool's code runs: at every single instruction
//! of the cache, in checks, in rare parts and in routines.
//!
//! From any place on, the program can go on natively with what is recovered there, and
//! ends as it should.

use crate::observe::{Keep, Observed, engine, engines};
use crate::process::{Code, Distance, Here};
use crate::program::{FLAGS_STEP, Program, Step, differences, steps};
use iced_x86::code_asm::{dword_ptr, ptr, rax, rdi, rsi, rsp};
use proptest::test_runner::{Config, TestRunner};
use relive_accesses::Followed;
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
    /// Traps outside of the cache do not count.
    inside: bool,
    traps: usize,
    /// Traps in the cache at which nothing could be recovered.
    unknown: usize,
}

impl Stepping {
    fn new<T: Tool>(engine: &'static Engine<Here, T>, escape: usize, inside: bool) -> Self {
        // SAFETY: the handler runs on the thread that is attached.
        let recover = Box::new(move |context: &mut Context| unsafe { engine.recover(context) });
        let contains = Box::new(move |pc| engine.contains(pc));
        Self { recover, contains, escape, escaped: false, inside, traps: 0, unknown: 0 }
    }
}

thread_local! {
    static STEPPING: Cell<*mut Stepping> = const { Cell::new(std::ptr::null_mut()) };
}

extern "C" fn on_trap(_signal: i32, _info: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
    // SAFETY: the kernel gives a context; the stepping is this thread's, and this handler does not interrupt itself.
    let (registers, stepping) = unsafe { (&mut (*context).uc_mcontext.gregs, &mut *STEPPING.get()) };
    let inside = (stepping.contains)(registers[libc::REG_RIP as usize] as u64);
    stepping.traps += usize::from(inside || !stepping.inside);
    if stepping.escaped || stepping.traps < stepping.escape {
        return;
    }
    let mut found = Context {
        general: crate::process::INDEX.map(|index| registers[index as usize] as u64),
        flags: registers[libc::REG_EFL as usize] as u64,
        ip: registers[libc::REG_RIP as usize] as u64,
    };
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
    let mut stepping = Stepping::new(engine, escape, false);
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

#[test]
fn it_can_go_on_natively_where_a_function_is_followed() {
    let _traps = crate::oracle::handle(on_trap);
    let function = Code::new(|a, _| {
        a.lea(rax, ptr(rdi + rsi)).unwrap();
        a.ret().unwrap();
    });
    // With traps from before the call to behind it.
    let caller = Code::new(|a, _| {
        a.sub(rsp, 8).unwrap();
        a.pushfq().unwrap();
        a.or(dword_ptr(rsp), TRAP as i32).unwrap();
        a.popfq().unwrap();
        a.nop().unwrap();
        a.call(function.0 as u64).unwrap();
        a.pushfq().unwrap();
        a.and(dword_ptr(rsp), !(TRAP as i32)).unwrap();
        a.popfq().unwrap();
        a.add(rsp, 8).unwrap();
        a.ret().unwrap();
    });
    let followed = Followed { number: 7, arguments: 6, list: None, floating: false };
    let functions = vec![(function.0 as u64, followed)];
    let sink = Keep { functions, library: function.range(), ..Keep::default() };
    let engine = engine(Distance::Near, None, sink);
    let mut observed = Observed::new(engine);
    let mut call = |escape| {
        let mut stepping = Stepping::new(engine, escape, true);
        STEPPING.set(&raw mut stepping);
        let result = observed.call(caller, [40, 2, 0, 0, 0, 0]);
        STEPPING.set(std::ptr::null_mut());
        assert_eq!((result, stepping.unknown), (42, 0), "escaped at trap {escape}");
        stepping
    };
    call(usize::MAX);
    let traps = call(usize::MAX).traps;
    let told = || engine.tool().sink().returned.lock().unwrap().len();
    assert_eq!(told(), 2, "it was followed");
    let escapes = (1..traps).filter(|&place| call(place).escaped).count();
    assert!(escapes > 30 && told() > 2, "{escapes}, {}", told());
}
