//! What a signal handler finds: at every single instruction of the cache.
//!
//! The trap flag makes the processor stop behind each instruction. A native run gives
//! the sequence of the program's states; a translated run, with each state recovered
//! from the cache's, must give the same one. With a tool that leaves rubbish in
//! registers that hold nothing, the proof is another: from any place on, the program
//! can go on natively with what was recovered, and ends as it should.

use crate::process::{Code, Distance, Here, INDEX, attach, call, engine};
use crate::program::{FLAGS_STEP, Program, Step, differences, steps};
use crate::tools::{CountAccesses, EachEighth, Greedy};
use proptest::test_runner::{Config, TestRunner};
use relive_dbi::{Context, Engine, Plain, Tool};
use std::cell::Cell;

const TRAP: u64 = 0x100;
/// The processor sets it while it reports a trap.
const RESUME: u64 = 0x1_0000;

/// Makes the cache's state the program's; `false` if it is none of the cache's.
type Recover = Box<dyn Fn(&mut Context) -> bool>;

/// What the handler does on this thread.
struct Stepping {
    /// Recovers the program's state. `None` in a native run.
    recover: Option<Recover>,
    states: Vec<Context>,
    /// After so many traps the program goes on natively.
    escape: Option<usize>,
    traps: usize,
    /// Traps in the cache at which nothing could be recovered.
    unknown: usize,
    cache: Box<dyn Fn(u64) -> bool>,
}

thread_local! {
    static STEPPING: Cell<*mut Stepping> = const { Cell::new(std::ptr::null_mut()) };
}

extern "C" fn on_trap(_signal: i32, _info: *mut libc::siginfo_t, context: *mut libc::ucontext_t) {
    // SAFETY: the kernel gives a context; the stepping is this thread's, and this handler does not interrupt itself.
    let (registers, stepping) = unsafe { (&mut (*context).uc_mcontext.gregs, &mut *STEPPING.get()) };
    let mut found = Context {
        general: INDEX.map(|index| registers[index as usize] as u64),
        flags: registers[libc::REG_EFL as usize] as u64 & !RESUME,
        ip: registers[libc::REG_RIP as usize] as u64,
    };
    stepping.traps += 1;
    if stepping.escape.is_some_and(|escape| stepping.traps < escape) {
        return;
    }
    if let Some(recover) = &stepping.recover {
        let inside = (stepping.cache)(found.ip);
        if !recover(&mut found) {
            stepping.unknown += usize::from(inside);
            return;
        }
    }
    if stepping.escape.is_some() {
        stepping.escape = Some(usize::MAX);
        for (index, value) in INDEX.into_iter().zip(found.general) {
            registers[index as usize] = value as i64;
        }
        registers[libc::REG_EFL as usize] = (found.flags & !TRAP) as i64;
        registers[libc::REG_RIP as usize] = found.ip as i64;
    }
    if stepping.states.len() < stepping.states.capacity() {
        stepping.states.push(found);
    }
}

fn install() {
    let stack = Box::leak(vec![0u8; 1 << 16].into_boxed_slice());
    // SAFETY: the stack is never given back; the handler has the signature that SA_SIGINFO asks for.
    unsafe {
        let stack = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: stack.len() };
        assert_eq!(libc::sigaltstack(&raw const stack, std::ptr::null_mut()), 0);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_trap as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut()), 0);
    }
}

/// Runs with traps; the memory at the end, and what the handler saw.
fn step(
    program: &mut Program,
    recover: Option<Recover>,
    cache: Box<dyn Fn(u64) -> bool>,
    escape: Option<usize>,
    run: impl FnOnce(Code) -> u64,
) -> (Vec<u64>, Stepping) {
    let states = Vec::with_capacity(100_000);
    let mut stepping = Stepping { recover, states, escape, traps: 0, unknown: 0, cache };
    STEPPING.set(&raw mut stepping);
    let memory = program.run(0x202 | TRAP, run);
    STEPPING.set(std::ptr::null_mut());
    (memory, stepping)
}

fn step_translated<T: Tool + 'static>(
    program: &mut Program,
    engine: &'static Engine<Here, T>,
    escape: Option<usize>,
) -> (Vec<u64>, Stepping) {
    let mut thread = attach(engine);
    // All blocks are there before the first trap.
    program.run(0x202, |code| call(&mut thread, code, [0; 6]));
    // SAFETY: the handler runs on the thread that is attached.
    let recover = Box::new(move |context: &mut Context| unsafe { engine.recover(context) });
    let cache = Box::new(move |pc| engine.contains(pc));
    step(program, Some(recover), cache, escape, |code| call(&mut thread, code, [0; 6]))
}

/// Random programs, each made to stand in `program`.
///
/// Those that do not `see_flags` have no step that looks at the whole flags register, where the trap flag is.
fn programs(cases: u32, count: std::ops::Range<usize>, see_flags: bool, mut check: impl FnMut(&mut Program)) {
    install();
    let program = std::cell::RefCell::new((Program::new(), &mut check));
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let run = |steps: Vec<Step>| {
        let (program, check) = &mut *program.borrow_mut();
        let steps: Vec<_> = steps.into_iter().filter(|step| see_flags || step.0 % 32 != FLAGS_STEP).collect();
        program.rewrite(&steps);
        check(program);
        Ok(())
    };
    if let Err(why) = TestRunner::new(config).run(&steps(count), run) {
        panic!("{why}");
    }
}

#[test]
fn every_state_of_the_program_is_seen_in_its_order() {
    let engines = [Distance::Near, Distance::Far, Distance::Near].map(|distance| engine(distance, Plain));
    programs(40, 5..60, true, |program| {
        let (memory, mut native) = step(program, None, Box::new(|_| false), None, |code| code.call([0; 6]));
        native.states.dedup();
        assert!(native.states.len() > 20);
        let [exact, _, watching] = engines;
        watching.watch(&program.code.range());
        for engine in engines {
            engine.flush(&program.code.range());
            let (translated_memory, mut translated) = step_translated(program, engine, None);
            assert_eq!(differences(&translated_memory, &memory), []);
            assert_eq!(translated.unknown, 0);
            translated.states.dedup();
            if !std::ptr::eq(engine, exact) {
                // Far operands go through registers that hold nothing, and what compares code takes such, and flags.
                for states in [&mut native.states, &mut translated.states] {
                    for state in states.iter_mut() {
                        state.general = [state.general[4]; 16];
                        state.flags &= !0x8D5;
                    }
                    states.dedup();
                }
            }
            // What stands behind the first `popf` (a register that comes back, a no-operation that moves a branch) lets
            // the trap be seen an instruction early.
            let early = translated.states.iter().position(|state| *state == native.states[0]).unwrap_or(0);
            translated.states.drain(..early.min(1));
            let mut pairs = translated.states.iter().zip(&native.states);
            if let Some(at) = pairs.position(|(found, expected)| found != expected) {
                let around = at.saturating_sub(1)..(at + 2).min(native.states.len());
                panic!(
                    "state {at}: {:x?} instead of {:x?}",
                    translated.states.get(around.clone()),
                    &native.states[around]
                );
            }
            assert_eq!(translated.states.len(), native.states.len());
        }
    });
}

fn escape_anywhere<T: Tool + 'static>(tool: impl Fn() -> T) {
    let engines = [Distance::Near, Distance::Far, Distance::Near].map(|distance| engine(distance, tool()));
    let mut escapes = 0;
    programs(3, 5..25, false, |program| {
        engines[2].watch(&program.code.range());
        let native = program.run(0x202, |code| code.call([0; 6]));
        for engine in engines {
            engine.flush(&program.code.range());
            let (_, whole) = step_translated(program, engine, None);
            assert_eq!(whole.unknown, 0);
            // Some dozens of places in each program, the first ones all.
            let places = (1..20).chain((20..whole.traps).step_by(1 + whole.traps / 50));
            for place in places.take_while(|&place| place < whole.traps) {
                let (memory, stepping) = step_translated(program, engine, Some(place));
                escapes += usize::from(stepping.escape == Some(usize::MAX));
                // The frame of the program keeps the flags, which have the trap flag if the run was translated up to there.
                let mut wrong = differences(&memory, &native);
                wrong.retain(|(_, found, expected)| found ^ expected != TRAP);
                assert_eq!(wrong, [], "escaped at trap {place} of {}", whole.traps);
            }
        }
    });
    assert!(escapes > 150, "{escapes}");
}

#[test]
fn the_program_can_go_on_natively_from_anywhere() {
    escape_anywhere(|| Plain);
}

#[test]
fn it_can_go_on_from_within_what_tools_insert() {
    escape_anywhere(|| CountAccesses);
    escape_anywhere(|| EachEighth);
    escape_anywhere(|| Greedy);
}
