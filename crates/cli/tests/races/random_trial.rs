//! One random program recorded and searched for races, held against the oracle, and a
//! failing one made small.
//!
//! Apart from the tests because every one of them judges in the same way.

use crate::oracle::{Expected, Pair, Site, expected};
use crate::random_program::{Drawn, programs, text};
use crate::report::{Access, Frame, Report};
use crate::stage::build::Program;
use crate::stage::registry::{self, Guest};
use crate::stage::{Stage, relive, run};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A program runs for milliseconds; whatever takes this long hangs.
const LIMIT: Duration = Duration::from_secs(60);
/// Recordings in which a smaller program may fail again, because its failure may need a certain order.
const TRIES: usize = 4;
/// How long a failing program is made smaller.
const SHRINKING: Duration = Duration::from_secs(60);
/// Exit statuses of `relive races`.
const CLEAN: i32 = 0;
const RACES: i32 = 66;

/// Accesses of 1, 2, 4 and 8 bytes at each place of 16, to read and to write.
const SITES: usize = 2 * (16 + 15 + 13 + 9);
const SOURCE: &str = "races/random.c";
/// Not in the table because it does nothing without a program.
const GUEST: &str = r#"
name = "races_random"
source = "races/random.c"
args = []
"#;

/// The interpreter.
pub(crate) fn interpreter() -> Program {
    let mut guest: Guest = toml::from_str(GUEST).expect("an entry as in the registry");
    // Part of what is built, though nothing else tells that it changed.
    let header = std::fs::read(registry::folder().join("races/twins.h")).expect("the header");
    guest
        .flags
        .push(format!("-DTWINS={}", header.iter().fold(0u32, |sum, &byte| sum.rotate_left(5) ^ u32::from(byte))));
    guest.program().unwrap_or_else(|cause| panic!("{cause}"))
}

/// Its lines that access memory.
fn sites() -> &'static [Site] {
    static FOUND: OnceLock<Vec<Site>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let source = std::fs::read_to_string(registry::folder().join(SOURCE)).expect("the interpreter");
        let lines = source.lines().enumerate();
        let found: Vec<Site> = lines.filter_map(|(index, line)| site(index as u32 + 1, line.trim())).collect();
        assert_eq!(found.len(), SITES, "accesses of the interpreter");
        found
    })
}

/// `READ(size, offset)` or `WRITE(size, offset)`.
fn site(line: u32, text: &str) -> Option<Site> {
    let (name, rest) = text.split_once('(')?;
    let (size, offset) = rest.strip_suffix(')')?.split_once(", ")?;
    let write = match name {
        "READ" => false,
        "WRITE" => true,
        _ => return None,
    };
    Some(Site { line, write, offset: offset.parse().ok()?, size: size.parse().ok()? })
}

fn drawn(seed: u64) -> impl ValueTree<Value = Drawn> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    programs().new_tree(&mut runner).expect("nothing is rejected")
}

fn script(drawn: &Drawn) -> String {
    let lines: Vec<u32> = sites().iter().map(|site| site.line).collect();
    text(drawn, &lines)
}

fn stage() -> Stage {
    Stage { timeout: LIMIT, environment: true, ..Stage::default() }
}

/// What races in a run of the seed's program by itself.
pub(crate) fn expected_natively(interpreter: &Program, seed: u64) -> Result<Expected, String> {
    let text = script(&drawn(seed).current());
    let ended = interpreter.native(&[&text], &stage());
    if ended.status != Some(0) {
        return Err(format!("program {text}: {}\n{}", ended.status_text(), ended.stderr));
    }
    expected(&ended.text(), sites())
}

/// Checks the program of a seed; if it fails, says how, with the smallest program found that fails too.
pub(crate) fn check_seed(interpreter: &Program, seed: u64) -> Result<(), String> {
    let mut tree = drawn(seed);
    let whole = script(&tree.current());
    let Err(cause) = check(interpreter, &whole) else { return Ok(()) };
    let (small, cause) = smallest(interpreter, &mut tree).unwrap_or((whole.clone(), cause));
    Err(format!("seed {seed}, program {small}\n{cause}\nmade smaller from {whole}"))
}

/// Records it, looks for races, and asks the oracle about the same run.
fn check(interpreter: &Program, text: &str) -> Result<(), String> {
    let recording = interpreter.record(&[text], &stage());
    if recording.ended.status != Some(0) {
        return Err(format!("recorded run: {}\n{}", recording.ended.status_text(), recording.ended.stderr));
    }
    let logs = recording.ended.text();
    let expected = expected(&logs, sites())?;
    let mut command = relive();
    command.args(["races", "--format", "json"]).arg(recording.trace());
    let ended = run::run(command, &run::Limits { timeout: LIMIT, stop: None });
    let right = if expected.bytes.is_empty() { CLEAN } else { RACES };
    if ended.status != Some(right) {
        let is = ended.status_text();
        return Err(format!("relive races: {is} in place of {right}\n{}\n{logs}", ended.complaints()));
    }
    let report = Report::parse(&ended.stdout, false)?;
    report.agrees_with_itself()?;
    let faults = expected.faults(&pairs(&report)?);
    if faults.is_empty() { Ok(()) } else { Err(format!("{}\n{logs}", faults.join("\n"))) }
}

/// The lines that were reported, in pairs.
fn pairs(report: &Report) -> Result<BTreeSet<Pair>, String> {
    let line = |access: &Access| {
        let own = |frame: &&Frame| frame.file.as_deref().is_some_and(|file| file.ends_with(SOURCE));
        let found = access.stack.iter().find(own).and_then(|frame| frame.line);
        found.ok_or_else(|| format!("no side of a race is outside the interpreter, and this is: {access:?}"))
    };
    let pair = |[one, other]: [u32; 2]| (one.min(other), one.max(other));
    let sides = report.races.iter().map(|race| Ok(pair([line(&race.accesses[0])?, line(&race.accesses[1])?])));
    sides.collect()
}

fn smallest(interpreter: &Program, tree: &mut impl ValueTree<Value = Drawn>) -> Option<(String, String)> {
    let started = Instant::now();
    let mut found = None;
    let mut failed = true;
    while started.elapsed() < SHRINKING && if failed { tree.simplify() } else { tree.complicate() } {
        let text = script(&tree.current());
        let cause = (0..TRIES).find_map(|_| check(interpreter, &text).err());
        failed = cause.is_some();
        found = cause.map(|cause| (text, cause)).or(found);
    }
    found
}
