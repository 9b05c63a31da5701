//! Stacks from snapshots against programs that are compiled here: each tells its own
//! registers, stack and mappings in the words of the replayed process, and what the
//! compiler's unwinder says of the same place.

mod made_up;
mod program;

use program::{Program, Told};
use relive_findings::names::{Frame, Symbols};
use relive_findings::raw::{RawModule, RawRace, RawReport, RawStack, RawSync};
use relive_findings::{Options, Report, Style, locate};

/// Name, whether inlined into the next, and line of each frame of the program itself, up to `main`.
fn names(told: &Told, stack: &RawStack) -> Vec<(String, bool, u32)> {
    let frames = Symbols::new(&told.located.modules, &[], &[]).stack(stack);
    let own = |frame: &Frame| frame.module.as_deref() == told.program.to_str();
    let own = frames.iter().filter(|frame| own(frame));
    let named = own.map(|it| (it.function.clone().unwrap_or_default(), it.inlined, it.line.unwrap_or(0)));
    let mut named: Vec<_> = named.collect();
    named.truncate(named.iter().position(|name| name.0 == "main").map_or(named.len(), |at| at + 1));
    named
}

/// Each stack is the unwinder's, to the last frame, and its slots hold its addresses.
fn assert_agree(told: &Told) {
    for (index, (found, truth)) in told.stacks().enumerate() {
        assert_eq!(found.addresses, truth.addresses, "stack {index} of {}", told.program.display());
        assert_eq!(found.snapshot, None);
        told.assert_slots(index);
    }
}

#[test]
fn ordinary_frames_are_the_unwinders() {
    for flags in [&["-O2", "-fomit-frame-pointer"][..], &["-O0"], &["-O2", "-no-pie"], &["-O1", "-static-pie"]] {
        let told = Program::new("chain.c").flags(flags).tell();
        assert_agree(&told);
        assert!(told.stacks().count() >= 9, "{flags:?}");
        assert!(told.stacks().all(|(found, _)| found.exact == [0]), "{flags:?}");
    }
}

#[test]
fn frames_have_their_names_and_lines() {
    let told = Program::new("chain.c").flags(&["-O2", "-fomit-frame-pointer"]).tell();
    let stacks: Vec<_> = told.stacks().map(|(found, _)| names(&told, found)).collect();
    let is = |found: &[(String, bool, u32)], expected: &[(&str, bool, u32)]| {
        let found: Vec<_> = found.iter().map(|(name, inlined, line)| (name.as_str(), *inlined, *line)).collect();
        assert_eq!(found[1..], *expected);
    };
    let called = [("inner", true, 9), ("middle", false, 14), ("outer", false, 19), ("main", false, 59)];
    is(&stacks[0], &called);
    let sorted = [("sized", false, 25), ("aligned", false, 31), ("compare", false, 36), ("main", false, 60)];
    is(&stacks[2], &[&called[..3], &sorted].concat());
    let count = stacks.len();
    is(&stacks[count - 2], &[&called[..3], &[("worker", false, 40)]].concat());
    is(&stacks[count - 1], &[("last", false, 47), ("leave", false, 53), ("main", false, 64)]);
}

#[test]
fn cxx_frames_that_an_exception_leaves_are_the_unwinders() {
    for flags in [&["-O2", "-fomit-frame-pointer"][..], &["-O0"]] {
        let told = Program::new("throwing.cc").flags(flags).tell();
        assert_agree(&told);
        let names: Vec<Vec<String>> =
            told.stacks().map(|(found, _)| names(&told, found).into_iter().map(|name| name.0).collect()).collect();
        let member = ["Guard::~Guard()", "Derived::work(int)", "attempt(Base&, int)", "main"];
        assert_eq!(names[0][1..], member);
        assert_eq!(names[1][1..], member, "while the exception is on its way");
        assert_eq!(names[2][1..], member[2..], "where it is caught");
        assert!(names.len() > 4 && names[3].iter().any(|name| name.contains("sort")), "{names:?}");
    }
}

#[test]
fn a_stack_ends_where_it_is_cut() {
    let told = Program::new("deep.c").flags(&["-O1", "-fno-optimize-sibling-calls"]).tell();
    let stacks: Vec<_> = told.stacks().collect();
    assert_eq!(stacks.len(), 2);
    let counts: Vec<_> = stacks.iter().map(|(found, _)| found.addresses.len()).collect();
    assert!(counts[0] == 128 && (8..12).contains(&counts[1]), "{counts:?}");
    for (index, (found, truth)) in stacks.into_iter().enumerate() {
        assert_eq!(found.addresses, truth.addresses[..found.addresses.len()]);
        assert_eq!(found.slots.len(), found.addresses.len(), "the last slot is known, what stands there is not");
        told.assert_slots(index);
    }
}

#[test]
fn a_struck_function_is_the_caller_of_its_handler() {
    let told = Program::new("struck.c").flags(&["-O2"]).tell();
    let stacks: Vec<_> = told.stacks().collect();
    assert_eq!(stacks.len(), 3);
    for (found, truth) in &stacks[..2] {
        assert_eq!(found.addresses, truth.addresses);
        assert_eq!(found.exact, [0, 2, 3], "the instruction, the code that the handler returns to, the struck one");
    }
    let functions = |stack| names(&told, stack).into_iter().map(|name| name.0).collect::<Vec<_>>();
    assert_eq!(functions(stacks[0].0), ["take", "handler", "undefined", "strike", "main"]);
    assert_eq!(functions(stacks[1].0), ["take", "handler", "main"]);
    let (other, truth) = stacks[2];
    assert_eq!(other.addresses, truth.addresses[..4], "the thread's own stack was not kept");
    assert_eq!(functions(other), ["take", "handler", "undefined"]);
}

#[test]
fn a_handler_may_return_to_code_of_which_no_table_tells() {
    for flags in [&["-O2"][..], &["-O0"], &["-O2", "-static"]] {
        let told = Program::new("restored.c").flags(flags).tell();
        assert_agree(&told);
        let stacks: Vec<_> = told.stacks().collect();
        let functions = |stack| names(&told, stack).into_iter().map(|name| name.0).collect::<Vec<_>>();
        assert!(stacks.iter().all(|(found, _)| found.exact == [0, 2, 3]), "{flags:?}");
        assert_eq!(functions(stacks[0].0), ["take", "handler", "restorer", "undefined", "strike", "main"]);
        let own = functions(stacks[1].0);
        assert!(own.starts_with(&functions(stacks[0].0)[..3]) && own.ends_with(&["main".to_owned()]), "{own:?}");
    }
}

#[test]
fn what_creates_a_thread_has_its_callers() {
    let told = Program::new("cloning.c").flags(&["-O2"]).tell();
    let (found, _) = told.stacks().next().expect("a stack");
    let functions: Vec<_> = names(&told, found).into_iter().map(|name| name.0).collect();
    assert_eq!(functions, ["take", "handler", "ask", "asking", "main"]);
    told.assert_slots(0);
}

#[test]
fn a_system_call_that_became_a_jump_has_its_callers() {
    let told = Program::new("sites.c").flags(&["-O2"]).tell();
    let stacks: Vec<_> = told.stacks().collect();
    let functions = |stack| names(&told, stack).into_iter().map(|name| name.0).collect::<Vec<_>>();
    assert_eq!(stacks[0].0.addresses, stacks[0].1.addresses);
    assert_eq!(functions(stacks[0].0), ["take", "routine", "behind", "calling", "main"]);
    assert_eq!(functions(stacks[1].0), ["take", "routine", "calling", "main"], "the piece is left out");
    assert_eq!(stacks[1].0.addresses[4..], stacks[0].0.addresses[5..]);
    assert_eq!(functions(stacks[2].0), ["take", "routine"], "what lies elsewhere is not known");
    for index in 0..stacks.len() {
        told.assert_slots(index);
    }
}

#[test]
fn every_instruction_has_its_callers() {
    for flags in [&["-O2", "-Wl,-z,lazy"][..], &["-O0", "-Wl,-z,now"]] {
        let told = Program::new("steps.c").flags(flags).tell();
        assert_agree(&told);
        assert!(told.stacks().count() >= 500, "{}", told.stacks().count());
    }
}

#[test]
fn what_compilers_leave_out_is_found_elsewhere_or_not_at_all() {
    const NOTHING: &[&str] = &["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
    let chain = ["middle", "outer", "main"];
    for flags in [&["-O1", "-g0", "-fno-omit-frame-pointer"][..], &["-O1", "-g", "-fomit-frame-pointer"]] {
        let told = Program::new("chain.c").flags(&[NOTHING, flags].concat()).tell();
        let (found, _) = told.stacks().next().expect("a stack");
        let found: Vec<_> = names(&told, found).into_iter().filter(|name| !name.1).map(|name| name.0).collect();
        assert_eq!(found[1..], chain, "{flags:?}");
        told.assert_slots(0);
    }
    let told = Program::new("bare.c").flags(&["-O1"]).tell();
    let (found, _) = told.stacks().next().expect("a stack");
    assert_eq!(names(&told, found).into_iter().map(|name| name.0).collect::<Vec<_>>(), ["take", "bare"]);
    assert_eq!(found.addresses.len(), 2, "nothing is guessed");
}

#[test]
fn what_our_library_does_happens_at_the_programs_call() {
    let library = Program::new("ours.c").flags(&["-O2", "-shared", "-fPIC"]).compile("preload-0123456789abcdef.so");
    let told = Program::new("user.c").flags(&["-O2", library.to_str().expect("a path")]).tell();
    let (found, truth) = told.stacks().next().expect("a stack");
    // take(), inside() and release() lie in the library, then clean() in the program, then each() in the library.
    assert_eq!(found.addresses, [&truth.addresses[3..4], &truth.addresses[5..]].concat());
    assert!(found.exact.is_empty());
    let own: Vec<_> = names(&told, found);
    assert_eq!(own, [("clean".to_owned(), false, 5), ("main".to_owned(), false, 9)]);
    let snapshot = told.raw.races[0].accesses[0].stack.snapshot.as_ref().expect("a snapshot");
    let standing: Vec<_> =
        found.slots.iter().map(|slot| snapshot.words[(slot - snapshot.registers[1]) as usize / 8]).collect();
    assert_eq!(standing, [&truth.addresses[4..5], &truth.addresses[6..]].concat());
}

#[test]
fn objects_in_our_library_are_none() {
    let module =
        |file: &str, start| RawModule { file: file.to_owned(), start, end: start + 0x1000, ..RawModule::default() };
    let sync = |object| Some(RawSync { object, ..RawSync::default() });
    let mut race = RawRace::default();
    (race.accesses[0].before, race.accesses[1].after) = (sync(0x1008), sync(0x2008));
    let modules = vec![module("[program]", 0x1000), module("/gone/librelive_preload.so", 0x2000)];
    let found = locate::located(&RawReport { modules, races: vec![race.clone()], ..RawReport::default() }, &[]);
    race.accesses[1].after = sync(0);
    assert_eq!(found.races, [race]);
}

#[test]
fn a_report_is_made_of_what_a_process_tells() {
    let told = Program::new("chain.c").flags(&["-O2"]).tell();
    let mut text = String::new();
    let report = Report::new(&told.raw, &Options::default());
    report.text(&mut text, Style { sources: false, ..Style::default() }).expect("a string takes everything");
    let frames: Vec<_> = text.lines().filter(|line| line.contains("chain.c:19")).collect();
    assert!(!frames.is_empty() && frames.iter().all(|line| line.contains("outer()")), "{text}");
    assert!(report.complete && report.races.len() == 2, "{text}");
}

#[test]
fn modules_are_whole_and_there_once() {
    let told = Program::new("chain.c").flags(&["-O2"]).tell();
    assert!(told.raw.modules.len() > 3 * told.located.modules.len());
    let is_own = |module: &&RawModule| module.file == told.program.to_string_lossy();
    let own: Vec<_> = told.located.modules.iter().filter(is_own).collect();
    let symbols = Symbols::new(&told.located.modules, &[], &[]);
    assert_eq!(own.len(), 1);
    let data = told.address_of("told_registers") + own[0].bias;
    assert_eq!(symbols.global(data).and_then(|global| global.name).as_deref(), Some("told_registers[0]"));
}
