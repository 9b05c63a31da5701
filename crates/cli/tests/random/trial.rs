//! One program recorded and replayed, and a failing one made small.
//!
//! Apart from the tests because regressions are judged in the same way.

use super::program::{self, Op};
use super::text::text;
use crate::stage::build::Program;
use crate::stage::registry::Guest;
use crate::stage::{Recording, Stage, same};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::time::{Duration, Instant};

/// A program runs for milliseconds; whatever takes this long hangs.
const LIMIT: Duration = Duration::from_secs(30);
/// Recordings in which a smaller program may fail again, because its failure may need a certain order.
const TRIES: usize = 8;
/// How long a failing program is made smaller.
const SHRINKING: Duration = Duration::from_secs(90);
/// Exit statuses of the interpreter, by what it logged.
const STATUSES: std::ops::Range<i32> = 0..3;

/// Not in the registry because it does nothing without a program.
const GUEST: &str = r#"
name = "random"
source = "random/interpreter.c"
flags = ["-lstdc++"]
args = []
"#;

/// The interpreter.
pub(crate) fn interpreter() -> Program {
    let guest: Guest = toml::from_str(GUEST).expect("an entry as in the registry");
    guest.program().unwrap_or_else(|cause| panic!("{cause}"))
}

/// Limits for one command.
pub(crate) fn stage() -> Stage {
    Stage { timeout: LIMIT, ..Stage::default() }
}

/// The program that is drawn from a seed.
pub(crate) fn drawn(seed: u64) -> impl ValueTree<Value = Vec<Op>> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    program::program().new_tree(&mut runner).expect("nothing is rejected")
}

/// Runs a program by itself: it ends, with one of its statuses.
pub(crate) fn native(program: &Program, text: &str) -> Result<(), String> {
    let ended = program.native(&[text], &stage());
    if ended.status.is_some_and(|status| STATUSES.contains(&status)) {
        return Ok(());
    }
    Err(format!("the program by itself: {}\n{}", ended.status_text(), ended.stderr))
}

/// Records a program: as by itself, and wholly.
pub(crate) fn record(program: &Program, text: &str) -> Result<Recording, String> {
    let recording = program.record(&[text], &stage());
    let ended = &recording.ended;
    if !ended.status.is_some_and(|status| STATUSES.contains(&status)) {
        let alone = native(program, text).err().unwrap_or_else(|| "by itself it ends well".to_owned());
        return Err(format!("recorded run: {}\n{}{alone}", ended.status_text(), ended.stderr));
    }
    let other = ended.stderr.lines().find(|line| !line.starts_with("relive: recorded to "));
    match other {
        Some(line) => Err(format!("recorded run: {line}")),
        None => Ok(recording),
    }
}

/// Records a program and replays it: by timestamps, which learns, and then by what was learnt.
pub(crate) fn check(program: &Program, text: &str) -> Result<(), String> {
    let recording = record(program, text)?;
    for rule in ["by timestamps", "by the learnt order"] {
        let replayed = recording.replay(&[]);
        // A replay that says something went wrong somewhere, even if it got right in the end.
        let said = replayed.stderr.contains("relive: ").then(|| replayed.stderr.clone());
        if let Err(cause) = same(&recording.ended, &replayed).and(said.map_or(Ok(()), Err)) {
            let kept = std::env::var_os("RELIVE_TEST_KEEP").map(|_| recording.keep());
            let kept = kept.map_or(String::new(), |trace| format!("\ntrace kept in {}", trace.display()));
            return Err(format!("replay {rule}: {cause}{kept}"));
        }
    }
    Ok(())
}

/// Checks the program of a seed; if it fails, says how, with the smallest program found that fails too.
pub(crate) fn check_seed(program: &Program, seed: u64) -> Result<(), String> {
    let mut tree = drawn(seed);
    let whole = text(&tree.current());
    let Err(cause) = check(program, &whole) else { return Ok(()) };
    let (small, cause) = smallest(program, &mut tree).unwrap_or((whole.clone(), cause));
    Err(format!("seed {seed}, program {small}\n{cause}\nmade smaller from {whole}"))
}

fn smallest(program: &Program, tree: &mut impl ValueTree<Value = Vec<Op>>) -> Option<(String, String)> {
    let started = Instant::now();
    let mut found = None;
    let mut failed = true;
    while started.elapsed() < SHRINKING && if failed { tree.simplify() } else { tree.complicate() } {
        let text = text(&tree.current());
        let cause = (0..TRIES).find_map(|_| check(program, &text).err());
        failed = cause.is_some();
        found = cause.map(|cause| (text, cause)).or(found);
    }
    found
}
