//! `relive races` as a command: how it is asked, what it prints beside the races, and
//! how it ends. Likewise `relive run`.
//!
//! Apart from `races.rs`, which holds what is found against a table.

#[path = "launching/desk.rs"]
mod desk;
#[path = "races_command/programs.rs"]
mod programs;

use desk::{Desk, Run};
use programs::{
    BLOCK, BOXES, FLAG, HANDED, HELD, ITEMS, LATE, LENT, LIBRARY, NAMED, NODES, OFTEN, READERS, TALLIED, WIDE,
};

/// The program of the README, whose count of calls is not under the lock.
const TALLY: &str = include_str!("../../../guests/demo/tally.c");
/// Nothing of it races.
const ORDERED: &str = include_str!("../../../guests/demo/race_to_print.c");

fn build_tally(desk: &Desk) -> std::path::PathBuf {
    let certain = TALLY.replace("total, calls)", "total, 2000L)");
    assert_ne!(certain, TALLY);
    desk.build("tally", &certain)
}

fn races(run: &Run) -> &str {
    assert_eq!(run.status, Some(66), "{run:?}");
    &run.stdout
}

#[test]
fn a_program_is_recorded_and_searched_in_one_command() {
    let desk = Desk::new();
    build_tally(&desk);
    let live = desk.relive(["races", "--live", "--", "./tally"]);
    assert!(live.stderr.contains("relive: recorded to DESK/traces/tally-1 "), "{}", live.stderr);
    let text = races(&live);
    assert!(text.strip_prefix(TALLIED).is_some_and(|text| text.starts_with("1 data race\n")), "{text}");
    // The recording is there for whatever comes next.
    let again = desk.relive(["races", "-q"]);
    assert!(races(&again).starts_with("1 data race\n"), "{}", again.stdout);
    assert_eq!(again.stderr, "");
    assert_eq!(desk.relive(["replay"]).stdout, TALLIED);
}

#[test]
fn a_recording_can_be_followed_by_the_search() {
    let desk = Desk::new();
    build_tally(&desk);
    desk.build("block", BLOCK);
    desk.build("ordered", ORDERED);
    let tally = desk.relive(["record", "-q", "--then", "races", "--", "./tally"]);
    assert_eq!((tally.status, &*tally.stdout), (Some(66), TALLIED));
    assert!(tally.stderr.starts_with("1 data race\n"), "{}", tally.stderr);
    let block = desk.relive(["record", "-q", "--then", "races", "--", "./block"]);
    assert_eq!(block.status, Some(3), "a failure of the program itself is told first");
    assert!(block.stderr.starts_with("1 data race\n"), "{}", block.stderr);
    let said = desk.relive(["record", "-q", "--then", "races", "--", "sh", "-c", "echo said >&2"]);
    assert_eq!((said.status, &*said.stderr), (Some(0), "said\nno data races"), "once, while it is recorded");
    let ordered = desk.relive(["record", "-q", "--then", "races", "--", "./ordered"]);
    assert_eq!((ordered.status, &*ordered.stderr), (Some(0), "no data races"));
}

#[test]
fn threads_and_blocks_are_told_with_where_they_were_made() {
    let desk = Desk::new();
    desk.build("block", BLOCK);
    desk.relive(["record", "-q", "--environment", "--", "./block"]);
    let found = desk.relive(["races", "-q"]);
    let text = races(&found);
    let told = text.replace("\n    ", " ").replace("\n  ", " ");
    for words in [
        "user() block.c:6 writes",
        "other() block.c:10 writes",
        "thread created by thread 0 at main() block.c:17",
        "thread created by thread 0 at main() block.c:18",
        "inside a heap block of 32 bytes allocated by thread 0 at make() block.c:13, called by main() block.c:16",
    ] {
        assert!(told.contains(words), "{words}\n{text}");
    }
    assert!(!told.contains("called by __libc") && !told.contains("_start()"), "what called main(): {text}");
}

#[test]
fn of_wide_accesses_the_bytes_that_race_are_told() {
    let desk = Desk::new();
    desk.build("wide", WIDE);
    desk.relive(["record", "-q", "--environment", "--", "./wide"]);
    let found = desk.relive(["races", "-q"]);
    let text = races(&found);
    for words in [
        "writes 48 bytes, those that race: 02 03 04 01 02 03 04\n",
        "writes 16 bytes, those that race: 61 62 63 64 65 66 67\n",
        "bytes, those that race: 78\n",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    let json = desk.relive(["races", "-q", "--format", "json"]);
    assert!(races(&json).contains("\"racing_bytes\": \"02030401020304\""), "{}", json.stdout);
}

#[test]
fn a_race_that_made_the_replay_diverge_is_told_although_its_second_access_came_later() {
    let desk = Desk::new();
    desk.build("late", LATE);
    let recorded = desk.relive(["record", "-q", "--environment", "--", "./late"]);
    assert_eq!(recorded.stdout, "ready\n");
    let found = desk.relive(["races", "-q"]);
    let text = races(&found);
    assert!(text.starts_with("1 data race\n"), "{text}");
    for words in ["main() late.c:16 reads ready", "writer() late.c:9 writes it", "The replay left its recording here:"]
    {
        assert!(text.contains(words), "{words}\n{text}");
    }
}

/// What it would take to go wrong is not met by programs that unlock what they locked.
#[test]
fn threads_that_need_not_wait_lead_nowhere_else_although_others_unlock_their_mutex() {
    let desk = Desk::new();
    desk.build("handed", HANDED);
    assert_eq!(desk.relive(["record", "-q", "--environment", "--", "./handed"]).status, Some(0));
    let found = desk.relive(["races"]);
    assert_eq!(found.stderr, "relive: looking for races: first replay, which bytes race");
    assert_eq!((found.status, &*found.stdout), (Some(0), "no data races\n"));
}

#[test]
fn where_reads_that_were_noted_once_leave_it_open_the_replay_is_done_again() {
    let desk = Desk::new();
    desk.build("often", OFTEN);
    for (recording, again) in [(&["./often"][..], 0), (&["./often", "meanwhile"][..], 1)] {
        desk.relive([&["record", "-q", "--environment", "--"], recording].concat());
        let found = desk.relive(["races"]);
        assert_eq!((found.status, &*found.stdout), (Some(0), "no data races\n"));
        let told = found.stderr.matches("first replay again, with each read of what is written, too").count();
        assert_eq!(told, again, "{}", found.stderr);
    }
}

#[test]
fn values_locks_and_variables_of_stacks_are_told() {
    let desk = Desk::new();
    desk.build("held", HELD);
    desk.relive(["record", "-q", "--environment", "--", "./held"]);
    let found = desk.relive(["races", "-q"]);
    let text = races(&found);
    let told = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "writes 4 bytes, value 40 17 |",
        "holds locks[0], taken at enter() held.c:4, called by adder() held.c:8",
        "holds locks[1], taken at enter() held.c:4, called by setter() held.c:16",
        "local of main(), declared at held.c:24, on the stack of thread 0",
    ] {
        assert!(told.contains(words), "{words}\n{text}");
    }
    assert!(text.starts_with("1 data race\n") && told.contains("results.sum: 4 bytes at "), "{text}");
}

#[test]
fn callers_of_what_was_not_optimised_and_locks_that_are_no_mutexes_are_told() {
    let desk = Desk::new();
    desk.build_with("readers", READERS, &["-O0"]);
    desk.relive(["record", "-q", "--environment", "--", "./readers"]);
    let found = desk.relive(["races", "-q"]);
    let told = races(&found).split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["holds table for reading, taken at", "read-lock of table (event 1)"] {
        assert!(told.contains(words), "{words}\n{}", found.stdout);
    }
    assert_eq!(told.matches("#1 count()").count(), 2, "{}", found.stdout);
    assert_eq!(told.matches("#2 reader()").count(), 2, "{}", found.stdout);
}

#[test]
fn what_is_suppressed_is_counted_and_no_failure() {
    let desk = Desk::new();
    build_tally(&desk);
    desk.relive(["record", "-q", "--environment", "--", "./tally"]);
    std::fs::write(desk.path("known"), "# the count is only a hint\nrace_top:^count$\n").unwrap();
    let hidden = desk.relive(["races", "-q", "--suppressions", "known"]);
    assert_eq!((hidden.status, &*hidden.stdout), (Some(0), "no data races; 1 suppressed\n"));
    std::fs::write(desk.path("known"), "racing:count\n").unwrap();
    let wrong = desk.relive(["races", "-q", "--suppressions", "known"]);
    assert_eq!(wrong.status, Some(125));
    assert!(wrong.stderr.starts_with("relive: ") && wrong.stderr.contains("known:1"), "{}", wrong.stderr);
}

#[test]
fn a_rule_for_one_variable_hides_no_other_of_the_same_lines() {
    let desk = Desk::new();
    desk.build("named", NAMED);
    desk.relive(["record", "-q", "--environment", "--", "./named"]);
    std::fs::write(desk.path("known"), "race:^cold$\nrace:^share$\n").unwrap();
    let text = desk.relive(["races", "-q", "--suppressions", "known"]);
    let text = races(&text);
    assert!(text.starts_with("1 data race") && text.contains("; 2 suppressed\n"), "{text}");
    assert!(text.contains("\n  colder: 2 bytes at ") && !text.contains("hid nothing"), "{text}");
}

#[test]
fn threads_thread_local_variables_and_values_are_told_as_the_program_calls_them() {
    let desk = Desk::new();
    desk.build("named", NAMED);
    desk.relive(["record", "-q", "--environment", "--", "./named"]);
    let found = desk.relive(["races", "-q"]);
    let text = races(&found);
    assert!(text.starts_with("3 data races"), "{text}");
    for words in [
        "thread 0.0 \"chief\" writes 2 bytes, value -7",
        "thread 0.1 \"helper\" writes 2 bytes, value -8",
        "share: 8 bytes at ",
        "thread-local variable of thread 0, declared at named.c:7",
        "thread 0.0 \"chief\" writes 8 bytes, value 1.5",
        "thread 0.1 \"helper\" writes 8 bytes, value 2.5",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    let json = desk.relive(["races", "-q", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(races(&json)).unwrap();
    let own = json["races"].as_array().unwrap().iter().find(|race| race["object"]["kind"] == "thread-local");
    let own = own.expect("the thread-local variable");
    assert_eq!((&own["object"]["name"], &own["object"]["thread"]), (&"share".into(), &"0".into()));
    let of = |label: &str| own["accesses"].as_array().unwrap().iter().find(|it| it["thread_label"] == label);
    let chief = of("chief").expect("the chief's access");
    assert_eq!((&chief["value"], &chief["value_text"]), (&"0x3ff8000000000000".into(), &"1.5".into()));
    assert!(of("helper").is_some(), "{own}");
    let sarif = desk.relive(["races", "-q", "--format", "sarif"]);
    assert!(races(&sarif).contains("thread 0.1 \\\"helper\\\" writes"), "{}", sarif.stdout);
}

#[test]
fn thread_local_variables_of_libraries_are_told_as_they_call_them() {
    let desk = Desk::new();
    let libraries = ["left", "right"].map(|name| {
        let file = format!("lib{name}.so");
        let library = desk.build_with(&file, &LIBRARY.replace("NAME", name), &["-shared", "-fPIC"]);
        library.to_str().expect("a path").to_owned()
    });
    desk.build_with("lent", LENT, &[&libraries[0], &libraries[1]]);
    desk.relive(["record", "-q", "--environment", "--", "./lent"]);
    let found = desk.relive(["races", "-q"]);
    let text = races(&found).replace("\n    ", " ");
    assert!(text.starts_with("2 data races"), "{text}");
    for name in ["left", "right"] {
        let variable = format!("\n  kept.{name}: 4 bytes at ");
        let declared = format!("thread-local variable of thread 0, declared at lib{name}.so.c:2");
        assert!(text.contains(&variable) && text.contains(&declared), "{text}");
    }
}

#[test]
fn without_symbols_places_are_named_and_atomics_are_not_told_apart() {
    let desk = Desk::new();
    let program = desk.build("named", NAMED);
    assert!(std::process::Command::new("strip").arg(&program).status().is_ok_and(|status| status.success()));
    desk.relive(["record", "-q", "--environment", "--", "./named"]);
    let found = desk.relive(["races", "-q"]);
    let text = races(&found);
    assert!(text.contains("; but without debug information, atomic loads and"), "{text}");
    let rules: Vec<&str> = text.lines().filter_map(|line| line.split("to suppress it: ").nth(1)).collect();
    assert!(!rules.is_empty() && rules.iter().all(|rule| rule.starts_with("race_top:^named+0x")), "{text}");
    let known = rules.join("\n");
    std::fs::write(desk.path("known"), known).unwrap();
    let hidden = desk.relive(["races", "-q", "--suppressions", "known"]);
    assert_eq!(hidden.status, Some(0), "{}", hidden.stdout);
}

#[test]
fn what_is_annotated_as_atomic_orders_what_it_guards() {
    let desk = Desk::new();
    desk.build("flag", FLAG);
    desk.relive(["record", "-q", "--environment", "--", "./flag"]);
    let plain = desk.relive(["races", "-q"]);
    assert!(races(&plain).starts_with("2 data races\n"), "{}", plain.stdout);
    for known in ["atomic:^ready$\n", "# both of its sides\natomic_in:^reader$\natomic_in:^writer$\n"] {
        std::fs::write(desk.path("known"), known).unwrap();
        let told = desk.relive(["races", "-q", "--annotations", "known"]);
        assert_eq!(told.status, Some(0), "{told:?}");
        assert!(told.stdout.starts_with("no data races"), "{}", told.stdout);
        assert!(!told.stdout.contains("data: 4 bytes"), "{}", told.stdout);
    }
    std::fs::write(desk.path("known"), "atomic:ready\nrace:data\n").unwrap();
    let wrong = desk.relive(["races", "-q", "--annotations", "known"]);
    assert_eq!(wrong.status, Some(125));
    assert!(wrong.stderr.contains("known:2: not an annotation"), "{}", wrong.stderr);
}

#[test]
fn members_of_blocks_are_named_and_their_values_are_of_their_types() {
    let desk = Desk::new();
    for level in ["-O0", "-O2"] {
        desk.build_with("items", ITEMS, &[level]);
        desk.relive(["record", "-q", "--environment", "--", "./items"]);
        let found = desk.relive(["races", "-q"]);
        let text = races(&found);
        for (member, size, value) in [("weight", 8, "1.5"), ("color", 4, "GREEN (5)"), ("tags[]", 2, "-7")] {
            assert!(text.contains(&format!("writes item.{member} in a heap block")), "{level}: {text}");
            assert!(text.contains(&format!("\n  item.{member}: {size} bytes at ")), "{level}: {text}");
            assert!(text.contains(&format!("writes {size} bytes, value {value}\n")), "{level}: {text}");
        }
        assert!(desk.relive(["races", "-q", "--format", "json"]).stdout.contains("\"name\": \"item.weight\""));
    }
    // As allocators of the program's own have it.
    let mapped = "mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)";
    let mapped = ITEMS.replace("calloc(1, sizeof(struct item))", mapped).replace("<stdlib.h>", "<sys/mman.h>");
    desk.build("items", &mapped);
    desk.relive(["record", "-q", "--environment", "--", "./items"]);
    let found = desk.relive(["races", "-q"]);
    let text = races(&found);
    assert!(text.contains("writes item.color at 0x") && text.contains("\n  item.color: 4 bytes at "), "{text}");
    assert!(text.contains("writes 4 bytes, value GREEN (5)\n"), "{text}");
}

#[test]
fn blocks_are_handed_over_by_members_that_are_atomic() {
    let desk = Desk::new();
    for level in ["-O0", "-O2"] {
        desk.build_with("boxes", BOXES, &[level]);
        desk.relive(["record", "-q", "--environment", "--", "./boxes"]);
        let told = desk.relive(["races", "-q"]);
        assert_eq!(told.status, Some(0), "{told:?}");
        assert!(
            told.stdout.starts_with("no data races\n\nUnordered atomic operations, which are no races: 1 pair."),
            "{told:?}"
        );
        // The same code of another type.
        let plain = [
            "atomic_int ready",
            "atomic_store_explicit",
            "atomic_load_explicit",
            "memory_order_release",
            "memory_order_acquire",
        ]
        .into_iter()
        .zip(["int ready", "__atomic_store_n", "__atomic_load_n", "__ATOMIC_RELEASE", "__ATOMIC_ACQUIRE"])
        .fold(BOXES.to_owned(), |source, (from, to)| source.replace(from, to));
        desk.build_with("boxes", &plain, &[level]);
        desk.relive(["record", "-q", "--environment", "--", "./boxes"]);
        assert_eq!(desk.relive(["races", "-q"]).status, Some(66), "nothing tells that it is atomic");
    }
}

#[test]
fn fields_of_blocks_and_lines_can_be_annotated() {
    let desk = Desk::new();
    desk.build("nodes", NODES);
    desk.relive(["record", "-q", "--environment", "--", "./nodes"]);
    let plain = desk.relive(["races", "-q"]);
    assert!(races(&plain).starts_with("2 data races\n"), "{}", plain.stdout);
    for known in ["atomic_heap:^make$+4,4\n", "atomic_at:nodes.c:9\natomic_at:nodes.c:18\n"] {
        std::fs::write(desk.path("known"), known).unwrap();
        let told = desk.relive(["races", "-q", "--annotations", "known"]);
        assert_eq!(told.status, Some(0), "{told:?}");
        assert!(told.stdout.starts_with("no data races\n"), "{}", told.stdout);
    }
    // Of other bytes, and of one side alone.
    std::fs::write(desk.path("known"), "atomic_heap:^make$+0,3\natomic_at:nodes.c:9\n").unwrap();
    let told = desk.relive(["races", "-q", "--annotations", "known"]);
    assert!(races(&told).starts_with("2 data races\n"), "{}", told.stdout);
    // Who says that a race does no harm says nothing of order.
    std::fs::write(desk.path("known"), "benign_at:nodes.c:9\n").unwrap();
    let told = desk.relive(["races", "-q", "--annotations", "known"]);
    assert!(races(&told).starts_with("1 data race; 1 suppressed\n"), "{}", told.stdout);
    assert!(told.stdout.contains("nodes.c:8 writes"), "{}", told.stdout);
}

#[test]
fn other_programs_get_json_and_sarif() {
    let desk = Desk::new();
    build_tally(&desk);
    desk.relive(["record", "-q", "--environment", "--", "./tally"]);
    let parsed = |format: &str| {
        let run = desk.relive(["races", "-q", "--format", format]);
        serde_json::from_str::<serde_json::Value>(races(&run)).expect("one JSON value")
    };
    let json = parsed("json");
    assert_eq!(json["races"][0]["accesses"][0]["stack"][0]["function"], "count");
    let sarif = parsed("sarif");
    assert_eq!(sarif["version"], "2.1.0");
    assert_eq!(sarif["runs"][0]["results"][0]["codeFlows"][0]["threadFlows"].as_array().unwrap().len(), 2);
}

#[test]
fn files_have_their_recorded_names_wherever_a_replay_finds_them() {
    let desk = Desk::new();
    build_tally(&desk);
    desk.relive(["record", "-q", "--environment", "-o", "old", "--", "./tally"]);
    // Of a program that is made while it is recorded, the trace has a copy.
    desk.relive([
        "record",
        "-q",
        "--environment",
        "-o",
        "young",
        "--",
        "sh",
        "-c",
        "mkdir sub && cp tally sub && exec sub/tally",
    ]);
    assert_eq!(desk.relive(["pack", "-q", "-o", "young.relive", "young"]).status, Some(0));
    let searched = |trace: &str| {
        let run = desk.relive(["races", "-q", "--format", "json", trace]);
        serde_json::from_str::<serde_json::Value>(races(&run)).expect("one JSON value")["races"][0].clone()
    };
    let old = searched("old");
    for (trace, program) in [("old", "tally"), ("young", "sub/tally"), ("young.relive", "sub/tally")] {
        let race = searched(trace);
        let module = |frame: usize| race["accesses"][0]["stack"][frame]["module"].as_str().expect("a module");
        let path = std::fs::canonicalize(desk.path("")).unwrap().join(program);
        assert_eq!(module(0), path.to_str().unwrap(), "{trace}");
        assert!(!module(2).starts_with(path.parent().unwrap().to_str().unwrap()), "libc of {trace}: {}", module(2));
        assert_eq!(race["fingerprint"], old["fingerprint"], "{trace}");
    }
    let text = desk.relive(["races", "-q", "young"]).stdout;
    assert!(text.contains(", global of tally, "), "{text}");
    assert!(!text.contains("libc-call of 0x"), "an inner state has no address: {text}");
}

#[test]
fn a_search_that_is_ended_leaves_nothing_behind() {
    let desk = Desk::new();
    desk.build("long", "int main(void) { for (volatile long i = 0; i < 1000000000; i++); return 0; }");
    desk.relive(["record", "-q", "--environment", "--", "./long"]);
    let ended = desk.shell(
        "mkdir tmp; export TMPDIR=\"$PWD/tmp\"
         \"$RELIVE\" races -q & searcher=$!
         until cat /proc/$searcher/task/*/children | grep -q .; do kill -0 $searcher || exit 1; done
         kill -TERM $searcher; wait $searcher; echo $?; ls tmp",
    );
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("143\n", ""));
}

#[test]
fn of_processes_that_outlive_the_first_all_is_told() {
    let desk = Desk::new();
    let left = desk.relive(["record", "-q", "--environment", "--", "sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!"]);
    let killed = desk.shell(&format!("kill {}", left.stdout));
    let found = desk.relive(["races", "-q"]);
    assert_eq!(
        (killed.status, found.status, &*found.stdout),
        (Some(0), Some(0), "no data races\n"),
        "{}",
        found.stderr
    );
}

#[test]
fn a_reader_that_goes_away_is_no_error_and_a_full_disk_is() {
    let desk = Desk::new();
    build_tally(&desk);
    desk.relive(["record", "-q", "--environment", "--", "./tally"]);
    let unread = desk.shell("{ \"$RELIVE\" races -q; echo $? >&2; } | true");
    assert_eq!((unread.status, unread.stderr.as_str()), (Some(0), "66"));
    let full = desk.shell("exec \"$RELIVE\" races -q > /dev/full");
    assert_eq!(full.status, Some(125));
    assert!(full.stderr.starts_with("relive: write to stdout: No space left"), "{}", full.stderr);
}

#[test]
fn what_cannot_be_searched_is_refused_with_the_remedy() {
    let desk = Desk::new();
    let program = build_tally(&desk);
    desk.relive(["record", "-q", "--", "./tally"]);
    let plain = desk.relive(["races"]);
    assert_eq!((plain.status, &*plain.stdout), (Some(125), ""));
    assert!(plain.stderr.ends_with("record it with --environment"), "{}", plain.stderr);
    desk.relive(["record", "-q", "--environment", "--", "./tally"]);
    std::fs::remove_file(&program).unwrap();
    desk.build("tally", ORDERED);
    let rebuilt = desk.relive(["races"]);
    assert_eq!(rebuilt.status, Some(125));
    assert!(rebuilt.stderr.contains("tally") && rebuilt.stderr.lines().count() == 1, "{}", rebuilt.stderr);
    for usage in
        [&["races", "--live"][..], &["races", "--", "./tally"], &["races", "--live", "tally-1", "--", "./tally"]]
    {
        let run = desk.relive(usage);
        assert_eq!(run.status, Some(125), "{usage:?}: {run:?}");
        assert!(run.stderr.contains("Usage: relive races"), "{}", run.stderr);
    }
}

#[test]
fn a_translated_run_is_the_programs_and_what_cannot_be_translated_says_so() {
    let desk = Desk::new();
    build_tally(&desk);
    desk.build_with("whole", TALLY, &["-static"]);
    let run = desk.relive(["run", "--dbi", "--", "./tally"]);
    assert_eq!((run.status, &*run.stdout, &*run.stderr), (Some(0), TALLIED, ""));
    let whole = desk.relive(["run", "--dbi", "--", "./whole"]);
    assert_eq!((whole.status, &*whole.stdout), (Some(125), ""));
    assert!(whole.stderr.contains("statically linked"), "{}", whole.stderr);
    // There is no room for the code cache and its tables.
    let small = desk.shell("ulimit -v 1000000; exec \"$RELIVE\" run --dbi -- ./tally");
    assert_eq!((small.status, &*small.stdout), (Some(0), TALLIED));
    assert!(small.stderr.starts_with("relive: the process runs natively: "), "{}", small.stderr);
    assert_eq!(desk.relive(["run", "--dbi", "--", "./nothing"]).status, Some(127));
}
