//! Names against a program that is compiled here: what a symbol table and a compiler say
//! must come back as functions, inlined frames and parts of variables.

mod program;
mod report;

use program::{BIAS, Program, run};
use relive_findings::names::{Frame, Symbols};
use relive_findings::raw::{RawModule, RawStack};
use std::path::PathBuf;

fn line(frame: &Frame) -> (&str, &str, u32, bool) {
    let file = frame.file.as_deref().unwrap_or("?").rsplit('/').next().unwrap_or("?");
    (frame.function.as_deref().unwrap_or("?"), file, frame.line.unwrap_or(0), frame.inlined)
}

#[test]
fn inlined_functions_are_frames_with_their_lines() {
    let program = Program::compile(&["-g"]);
    let (symbols, (work, size)) = (program.symbols(), program.symbol("work"));
    let all: Vec<Vec<Frame>> = (work..work + size).map(|address| symbols.frames(address, false)).collect();
    let deepest = all.iter().max_by_key(|frames| frames.len()).expect("frames");
    let lines: Vec<_> = deepest.iter().map(line).collect();
    assert_eq!(lines, [("add", "race.c", 7, true), ("twice", "race.c", 11, true), ("work", "race.c", 20, false)]);
    let declared: Vec<_> = deepest.iter().map(|frame| frame.declared).collect();
    assert_eq!(declared, [Some(6), Some(10), Some(19)]);
    assert!(deepest[0].column.is_some() && deepest[0].module.as_deref() == program.path.to_str());
    assert!(symbols.advice().is_empty(), "{:?}", symbols.advice());
}

#[test]
fn a_return_address_is_named_by_its_call() {
    let program = Program::compile(&["-g"]);
    let (main, size) = program.symbol("main");
    let symbols = program.symbols();
    // The first call returns to a line of its own; the address before it belongs to the call.
    let calls: Vec<u32> = (main + 1..main + size)
        .filter(|&address| symbols.frames(address, true)[0].line != symbols.frames(address, false)[0].line)
        .filter_map(|address| symbols.frames(address, true)[0].line)
        .collect();
    assert!(calls.contains(&36), "{calls:?}");
    let frames = symbols.stack(&RawStack::of_access(vec![main, main + size]));
    assert!(frames.iter().all(|frame| frame.function.as_deref() == Some("main")), "{frames:?}");
}

#[test]
fn data_has_the_names_of_its_parts() {
    let program = Program::compile(&["-g"]);
    let symbols = program.symbols();
    let name = |address| symbols.global(address).and_then(|global| global.name);
    let table = program.symbol("table").0;
    let parts = [
        (0, "table.first"),
        (8, "table.parts[0].tag"),
        (12, "table.parts[0].count"),
        (8 + 2 * 12 + 5, "table.parts[2].count"),
        (8 + 3 * 12 + 8, "table.parts[3].(low|high)"),
        (8 + 4 * 12 + 4, "table.grid[0][1]"),
        (8 + 4 * 12 + 20, "table.grid[1][2]"),
        (9, "table.parts[0]"),
    ];
    for (offset, expected) in parts {
        assert_eq!(name(table + offset).as_deref(), Some(expected), "{offset}");
    }
    assert_eq!(name(program.symbol("counter").0).as_deref(), Some("next::counter"));
    let total = symbols.global(program.symbol("total").0 + 3).expect("a variable");
    assert_eq!((total.name.as_deref(), total.size, total.atomic), (Some("total"), 4, false));
    assert_eq!(total.start, program.symbol("total").0);
    assert_eq!(total.declared, Some(("race.c".to_owned(), 4)));
    assert!(symbols.global(program.symbol("ready").0).is_some_and(|global| global.atomic));
    assert_eq!(symbols.global(BIAS - 1), None);
}

#[test]
fn values_have_the_types_of_their_parts() {
    let program = Program::compile(&["-g"]);
    let symbols = program.symbols();
    let base = |name: &str, offset: u64| symbols.global(program.symbol(name).0 + offset)?.base;
    let text = |name: &str, offset: u64, bits: u64| base(name, offset).map(|base| base.text(bits));
    assert_eq!(text("table", 12, 0xffff_ffff).as_deref(), Some("-1"));
    assert_eq!(text("table", 8, 97).as_deref(), Some("97 'a'"));
    assert_eq!(base("table", 14).map(|base| (base.size, base.before)), Some((4, 2)));
    assert_eq!(base("table", 8 + 8), None, "bit fields share their bytes");
}

#[test]
fn a_thread_local_variable_is_found_by_the_thread_pointer() {
    for (flags, path) in [(&["-g"][..], "own[1].count"), (&[][..], "own+0x10")] {
        let program = Program::compile(flags);
        let symbols = program.symbols();
        let pointer = 0x7f00_0000_1000;
        let found = |below: u64| symbols.thread_local(pointer, pointer - below);
        // own, then last, with no room between: the last one ends at the thread pointer.
        let last = found(8).expect("a variable");
        assert_eq!((last.name.as_deref(), last.start, last.size), (Some("last"), pointer - 8, 8));
        let own = found(8 + 24 - 16).expect("a variable");
        assert_eq!((own.name.as_deref(), own.start), (Some(path), pointer - 32));
        assert_eq!((symbols.storage(), found(0), found(33)), (32, None, None));
    }
}

#[test]
fn a_local_variable_is_found_by_its_frame() {
    let program = Program::compile(&["-g", "-fno-stack-protector"]);
    let (local, size) = program.symbol("local");
    let symbols = program.symbols();
    let slot = 0x7fff_ffff_e000;
    let found = |address| {
        let stack = RawStack { slots: vec![slot], ..RawStack::of_access(vec![local + size - 1]) };
        symbols.local(&stack, address)
    };
    let near: Vec<_> = (slot - 64..slot).filter_map(|address| Some((address, found(address)?))).collect();
    assert_eq!(near.len(), 16, "each byte of four numbers");
    let (first, local) = &near[0];
    assert_eq!((local.name.as_str(), local.function.as_str(), local.start), ("values[0]", "local", *first));
    assert_eq!((near[8].1.name.as_str(), near[8].1.size), ("values[2]", 16));
    assert_eq!(found(slot + 8), None, "the caller's frame");
}

#[test]
fn symbols_are_enough_for_functions_and_whole_variables() {
    let program = Program::compile(&[]);
    let symbols = program.symbols();
    let (work, _) = program.symbol("work");
    let frames = symbols.frames(work + 1, false);
    assert_eq!((frames.len(), line(&frames[0]), frames[0].into), (1, ("work", "?", 0, false), Some(1)));
    let table = program.symbol("table").0;
    assert_eq!(symbols.global(table + 0x18).and_then(|global| global.name).as_deref(), Some("table+0x18"));
    let advice = symbols.advice();
    assert!(
        advice.len() == 1 && advice[0].contains("has no debug information") && advice[0].contains("-g"),
        "{advice:?}"
    );
}

#[test]
fn a_stripped_program_gets_its_names_from_a_file_by_build_id() {
    let program = Program::compile(&["-g"]);
    let (work, _) = program.symbol("work");
    let total = program.symbol("total").0;
    let id = program.build_id();
    let name = id.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
    let root = program.folder.path().join("debug");
    let folder = root.join(".build-id").join(&name[..2]);
    std::fs::create_dir_all(&folder).expect("a folder");
    let apart = folder.join(format!("{}.debug", &name[2..]));
    run("objcopy", &["--only-keep-debug"], &[&program.path, &apart]);
    run("strip", &[], &[&program.path]);

    let symbols = program.symbols();
    assert_eq!(symbols.frames(work, false)[0].function, None);
    assert_eq!(symbols.frames(work, false)[0].offset, work - BIAS);
    let advice = symbols.advice();
    assert!(advice.len() == 1 && advice[0].contains("is stripped") && advice[0].contains(&name), "{advice:?}");

    let symbols = Symbols::new(&[program.module()], &[root], &[]);
    assert_eq!(symbols.frames(work, false).last().and_then(|frame| frame.function.as_deref()), Some("work"));
    assert_eq!(symbols.global(total).and_then(|global| global.name).as_deref(), Some("total"));
    assert!(symbols.advice().is_empty());
}

#[test]
fn another_build_or_no_file_gives_no_names() {
    let program = Program::compile(&["-g"]);
    let work = program.symbol("work").0;
    let other = RawModule { build_id: vec![1; 20], ..program.module() };
    let symbols = Symbols::new(&[other], &[], &[]);
    assert_eq!(symbols.frames(work, false)[0].function, None);
    assert!(symbols.advice()[0].contains("is not the file that ran"));

    let gone = RawModule { file: "/nowhere/race".to_owned(), ..program.module() };
    let symbols = Symbols::new(std::slice::from_ref(&gone), &[], &[]);
    assert_eq!(symbols.frames(work, false)[0].function, None);
    assert!(symbols.advice()[0].contains("/nowhere/race is gone"));

    let moved = [(PathBuf::from("/nowhere/race"), program.path.clone())];
    let symbols = Symbols::new(&[gone], &[], &moved);
    assert_eq!(symbols.frames(work, false).last().and_then(|frame| frame.function.as_deref()), Some("work"));
}

#[test]
fn an_address_outside_of_every_module_stays_an_address() {
    let frames = Symbols::new(&[], &[], &[]).frames(0x1234, true);
    assert_eq!(frames, [Frame { offset: 0x1233, ..Frame::default() }]);
}
