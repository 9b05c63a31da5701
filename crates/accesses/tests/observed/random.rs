//! Random programs: exactly the oracle's bytes, and everything else as it was.
//!
//! Apart from `functions`: the programs have their own memory and stack, so that even
//! each byte of the stack is known.

use crate::observe::{Bytes, Observed, engines};
use crate::oracle;
use crate::process::Code;
use crate::program::{FLAGS_STEP, Program, Step, differences, steps};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

const TRAP: u64 = 0x100;

#[test]
fn random_programs_touch_what_the_oracle_says() {
    let engines = engines();
    let program = std::cell::RefCell::new(Program::new());
    let config = Config { cases: 100, failure_persistence: None, ..Config::default() };
    let check = |(steps, flags): (Vec<Step>, u64)| {
        let flags = flags & 0x8D5 | 0x202;
        // What looks at all flags sees the trap flag.
        let steps: Vec<_> = steps.into_iter().filter(|step| step.0 % 32 != FLAGS_STEP).collect();
        let mut program = program.borrow_mut();
        program.rewrite(&steps);
        let native = program.run(flags, |code| code.call([0; 6]));
        let (expected, count) = oracle::watch(|| {
            program.run(flags | TRAP, |code| code.call([0; 6]));
        });
        prop_assert!(count > 20);
        // The frame around the steps is not stepped through; its words are in front of the data.
        let (data, code) = (program.data(), program.code.range());
        let expected = expected.only(|byte| data.contains(&byte) || code.contains(&byte));
        for engine in &engines {
            engine.flush(&code);
            let mut observed = Observed::new(engine);
            for round in 0..2 {
                observed.take();
                let memory = program.run(flags, |code: Code| observed.call(code, [0; 6]));
                prop_assert_eq!(differences(&memory, &native), [], "round {}", round);
                let found = observed.take().only(|byte| data.contains(&byte) || code.contains(&byte));
                // What locked instructions touch is told once.
                let found = if round == 0 { found } else { Bytes { locked: expected.locked.clone(), ..found } };
                prop_assert_eq!(found.difference(&expected), "", "round {}", round);
            }
        }
        Ok(())
    };
    if let Err(why) = TestRunner::new(config).run(&(steps(1..120), 0u64..0x1000), check) {
        panic!("{why}");
    }
}
