//! From addresses of the program to the text that people read.

use crate::program::{BIAS, Program};
use relive_findings::raw::{
    AccessKind, Certainty, NO_THREAD, RaceKind, RawAccess, RawRace, RawReport, RawStack, RawThread,
};
use relive_findings::{Options, Report, Style, Verdict};

/// The first address in `function` at which something of `depth` frames stands on `line`.
fn at(program: &Program, function: &str, depth: usize, line: u32) -> u64 {
    let (start, size) = program.symbol(function);
    let symbols = program.symbols();
    let stands = |address: &u64| {
        let frames = symbols.frames(*address, false);
        frames.len() == depth && frames[0].line == Some(line)
    };
    (start..start + size).find(stands).expect(function)
}

fn access(thread: u32, kind: AccessKind, addresses: &[u64]) -> RawAccess {
    let stack = RawStack::of_access(addresses.to_vec());
    RawAccess { thread, kind, size: 4, count_since_event: 1, stack, ..RawAccess::default() }
}

fn race(address: u64, first: u64, second: u64) -> RawRace {
    let accesses = [access(1, AccessKind::Write, &[first]), access(0, AccessKind::Read, &[second])];
    RawRace { address, bytes: 0xf, count: 1, accesses, ..RawRace::default() }
}

fn thread(number: u32, name: &str, creator: u32, created: Vec<u64>) -> RawThread {
    let created = RawStack::of_call(created);
    RawThread { number, name: name.to_owned(), creator, created, ..RawThread::default() }
}

fn raw(program: &Program) -> RawReport {
    let (total, ready) = (program.symbol("total").0, program.symbol("ready").0);
    let (count, main) = (program.symbol("table").0 + 8 + 2 * 12 + 4, program.symbol("main").0);
    let (add, next) = (at(program, "work", 3, 7), at(program, "next", 1, 16));
    RawReport {
        modules: vec![program.module()],
        threads: vec![thread(0, "0", NO_THREAD, Vec::new()), thread(1, "0.1", 0, vec![main + 5])],
        races: vec![
            race(ready, add, next),
            race(total, add, next),
            RawRace { certainty: Certainty::AfterFirst, ..race(count, next, next) },
            race(total, add, next),
        ],
        complete: true,
        ..RawReport::default()
    }
}

#[test]
fn addresses_become_a_story() {
    let program = Program::compile(&["-g"]);
    let report = Report::new(&raw(&program), &Options::default());
    assert_eq!(report.verdict(), Verdict::Races);
    let mut text = String::new();
    report.text(&mut text, Style::default()).expect("a string takes everything");
    let folder = program.folder.path().to_string_lossy().into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let has =
        |line: &str| assert!(lines.iter().any(|found| found.replace(&folder, "").trim() == line), "{line}\n{text}");
    has("2 data races: 1 certain, 1 after the first race");
    has("#1 data race: add() race.c:7 writes total, next() race.c:16 reads it, unordered");
    has("certain: the recording has no race before it; seen 2 times");
    has("7 | total += n;");
    has("#2 data race: next() race.c:16 writes table.parts[2].count, next() race.c:16 reads it, unordered");
    has("Unordered atomic operations, which are no races: 1 pair.");
    assert!(
        lines.iter().any(|line| line.trim().starts_with("thread created by thread 0 at main() race.c:3")),
        "{text}"
    );
    assert_eq!(report.atomics, [(program.symbol("ready").0, 0xf)]);
}

#[test]
fn fingerprints_do_not_know_the_address_or_the_folder() {
    let one = Program::compile(&["-g"]);
    let prints = |program: &Program, move_by: u64| {
        let mut raw = raw(program);
        for module in &mut raw.modules {
            (module.start, module.end, module.bias) = (module.start + move_by, module.end + move_by, BIAS + move_by);
        }
        for race in &mut raw.races {
            race.address += move_by;
            race.kind = RaceKind::Data;
            race.accesses.iter_mut().flat_map(|access| &mut access.stack.addresses).for_each(|it| *it += move_by);
        }
        let report = Report::new(&raw, &Options::default());
        report.races.into_iter().map(|race| race.fingerprint).collect::<Vec<_>>()
    };
    let here = prints(&one, 0);
    assert_eq!(prints(&one, 0x7000_0000), here);
    assert_eq!(prints(&Program::compile(&["-g", "-O1"]), 0), here, "another folder and other code");
}
