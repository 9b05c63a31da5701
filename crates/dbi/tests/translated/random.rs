//! Random programs end with the same registers, flags and memory, whatever a tool
//! inserts.
//!
//! Apart from `branches`: those cases were thought of. All programs stand in one
//! place, one after the other, so each also runs where another was flushed.

use crate::process::{Code, Distance, Here, attach, call, engine, watching};
use crate::program::{Program, Step, differences, steps};
use crate::tools::{CountAccesses, EachEighth, Greedy};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use relive_dbi::{Engine, Plain, Tool};

/// Runs the program twice from each engine, and compares with `native`.
fn compare<T: Tool>(
    name: &str,
    engines: &[&'static Engine<Here, T>],
    program: &mut Program,
    flags: u64,
    native: &[u64],
) -> Result<(), TestCaseError> {
    for (number, engine) in engines.iter().enumerate() {
        if number != WATCHING {
            engine.flush(&program.code.range());
        }
        let mut thread = attach(engine);
        for round in 0..2 {
            let run = program.run(flags, |code: Code| call(&mut thread, code, [0; 6]));
            prop_assert_eq!(differences(&run, native), [], "{}, round {}", name, round);
        }
        prop_assert_eq!(&*engine.host().lost.lock().unwrap(), &[]);
    }
    Ok(())
}

/// The last of three engines sees by itself that the program is another.
const WATCHING: usize = 2;

fn three<T: Tool>(tool: fn() -> T, code: Code) -> [&'static Engine<Here, T>; 3] {
    let [near, far] = [Distance::Near, Distance::Far].map(|distance| engine(distance, tool()));
    [near, far, watching(Distance::Far, tool(), code)]
}

#[test]
fn programs_do_the_same() {
    let program = Program::new();
    let code = program.code;
    let (plain, count, greedy) = (three(|| Plain, code), three(|| CountAccesses, code), three(|| Greedy, code));
    let seldom = three(|| EachEighth, code);
    let program = std::cell::RefCell::new(program);
    let config = Config { cases: 300, failure_persistence: None, ..Config::default() };
    let arguments = (steps(1..120), 0u64..0x1000);
    let check = |(steps, flags): (Vec<Step>, u64)| {
        // Only the arithmetic flags; interrupts stay on.
        let flags = flags & 0x8D5 | 0x202;
        let mut program = program.borrow_mut();
        program.rewrite(&steps);
        let native = program.run(flags, |code| code.call([0; 6]));
        compare("plain", &plain, &mut program, flags, &native)?;
        compare("counting accesses", &count, &mut program, flags, &native)?;
        compare("each eighth", &seldom, &mut program, flags, &native)?;
        compare("greedy", &greedy, &mut program, flags, &native)
    };
    if let Err(why) = TestRunner::new(config).run(&arguments, check) {
        panic!("{why}");
    }
}
