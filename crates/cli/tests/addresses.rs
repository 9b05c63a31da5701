//! Programs with a recorded environment lie at the same addresses however they
//! are started, start others as in a plain run, and can be looked at with gdb.
//!
//! Apart from `environment.rs` because here the surroundings change that a kernel
//! chooses addresses by, not the inputs.

#[path = "environment/guest.rs"]
mod guest;
#[path = "trial/timed.rs"]
mod timed;

use guest::guest;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use timed::{Ended, RELIVE, run};

const LIMIT: Duration = Duration::from_secs(100);

/// Surroundings of a start: limit of the stack in KiB, and bytes of environment added.
struct Surroundings {
    stack: &'static str,
    added: usize,
}

/// What most programs have, more of everything, and what makes the kernel lay memory out from the bottom up.
const SURROUNDINGS: [Surroundings; 4] = [
    Surroundings { stack: "8192", added: 0 },
    Surroundings { stack: "65536", added: 50_000 },
    Surroundings { stack: "unlimited", added: 77 },
    Surroundings { stack: "512", added: 3000 },
];

/// `relive` in these surroundings, where the kernel refuses to switch randomisation off; arguments still to be added.
fn relive_in(surroundings: &Surroundings, unpersonal: &Path) -> Command {
    let mut command = Command::new("sh");
    // A limit that may not be raised stays.
    command.args(["-c", "ulimit -s $0 2>/dev/null; exec \"$@\"", surroundings.stack]).arg(unpersonal).arg(RELIVE);
    command.env("LONGER", "x".repeat(surroundings.added));
    command
}

fn record(trace: &Path, command: &[&str]) -> Command {
    let mut record = Command::new(RELIVE);
    record.args(["record", "--environment", "-o"]).arg(trace).arg("--").args(command);
    record
}

fn is_complete(recorded: &Ended) {
    let said = recorded.stderr.lines().find(|line| line.contains("recording stopped") || line.contains("not recorded"));
    assert!(said.is_none(), "{}: {said:?}", recorded.line);
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn addresses_depend_on_nothing_but_the_program() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (program, unpersonal) = (guest(scratch.path(), "addresses"), guest(scratch.path(), "unpersonal"));
    let mut addresses: Option<Vec<String>> = None;
    for (number, surroundings) in SURROUNDINGS.iter().enumerate() {
        let trace = scratch.path().join("t".repeat(1 + 40 * number));
        let mut record = relive_in(surroundings, &unpersonal);
        record.args(["record", "--environment", "-o"]).arg(&trace).args([
            "--",
            "env",
            "-i",
            "A=b",
            text(&program),
            "x",
        ]);
        let recorded = run(&mut record, LIMIT).expect_code(7);
        is_complete(&recorded);
        for other in &SURROUNDINGS {
            let replayed = run(relive_in(other, &unpersonal).arg("replay").arg(&trace).current_dir("/"), LIMIT);
            assert_eq!(replayed.text(), recorded.text(), "{}\n{}", replayed.line, replayed.stderr);
            assert_eq!(replayed.code, recorded.code, "{}\n{}", replayed.line, replayed.stderr);
        }
        let at = recorded.text().lines().filter(|line| line.starts_with("at ")).map(str::to_owned).collect();
        assert_eq!(*addresses.get_or_insert_with(|| Vec::clone(&at)), at, "{}", recorded.line);
    }
}

/// A recording, in the folder that the guest fills, and the plain run before it.
fn start_everything(scratch: &Path) -> (PathBuf, Ended) {
    let (program, folder, trace) = (guest(scratch, "starts"), scratch.join("folder"), scratch.join("trace"));
    let command = [text(&program), text(&folder)];
    let fresh = || {
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).expect("a folder");
    };
    fresh();
    let plain = run(Command::new(command[0]).arg(command[1]), LIMIT);
    fresh();
    let recorded = run(&mut record(&trace, &command), LIMIT);
    is_complete(&recorded);
    assert_eq!(recorded.text(), plain.text(), "{}", recorded.stderr);
    assert_eq!(recorded.code, plain.code, "{}", recorded.stderr);
    (trace, recorded)
}

#[test]
fn programs_start_others_and_fail_to_as_in_a_plain_run() {
    let scratch = tempfile::tempdir().expect("a folder");
    let unpersonal = guest(scratch.path(), "unpersonal");
    let (trace, recorded) = start_everything(scratch.path());
    for surroundings in &SURROUNDINGS {
        let replayed = run(relive_in(surroundings, &unpersonal).arg("replay").arg(&trace).current_dir("/"), LIMIT);
        assert_eq!(replayed.text(), recorded.text(), "{}\n{}", replayed.line, replayed.stderr);
        assert_eq!(replayed.code, recorded.code, "{}\n{}", replayed.line, replayed.stderr);
    }
}

#[test]
fn images_started_by_one_another_lie_where_they_did() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (program, unpersonal) = (guest(scratch.path(), "addresses"), guest(scratch.path(), "unpersonal"));
    let trace = scratch.path().join("trace");
    let script = scratch.path().join("script");
    std::fs::write(&script, format!("#!/bin/sh\n{0} one | cat\nsh -c 'exec {0} two'\n", program.display())).unwrap();
    let command =
        format!("sh {0}; for i in 1 2; do {1} $i | sort; done; date +%N", script.display(), program.display());
    let recorded = run(&mut record(&trace, &["bash", "-c", &command]), LIMIT).expect_code(0);
    is_complete(&recorded);
    for surroundings in &SURROUNDINGS {
        let mut replay = relive_in(surroundings, &unpersonal);
        let replayed = run(replay.arg("replay").arg(&trace), LIMIT);
        assert_eq!(replayed.text(), recorded.text(), "{}\n{}", replayed.line, replayed.stderr);
    }
}

/// What gdb says to these commands on a replay.
/// `races` tells addresses apart by their lower 36 bits first, and what shares those is slow.
#[test]
fn the_heap_is_clear_of_a_program_that_lies_low() {
    const CODE: &str = "#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n\
        static char low[1 << 20];\n\
        int main(void) {\n\
            uintptr_t least = UINTPTR_MAX, most = 0;\n\
            for (size_t bytes = 16; bytes < 200 << 20; bytes *= 2) {\n\
                uintptr_t at = (uintptr_t)malloc(bytes);\n\
                least = at < least ? at : least, most = at + bytes > most ? at + bytes : most;\n\
            }\n\
            printf(\"%zu %zu %zu\\n\", (size_t)low, (size_t)least, (size_t)most);\n\
        }\n";
    const WINDOW: u64 = 1 << 36;
    const LOW: u64 = 2 << 30;
    let scratch = tempfile::tempdir().expect("a folder");
    let (program, trace) = (compiled(scratch.path(), "low", CODE, &["-no-pie"]), scratch.path().join("trace"));
    let recorded = run(&mut record(&trace, &[text(&program)]), LIMIT).expect_code(0);
    let numbers: Vec<u64> = recorded.text().split_whitespace().map(|word| word.parse().expect("a number")).collect();
    let [low, least, most] = numbers[..] else { panic!("{numbers:?}") };
    assert!(low < LOW && least % WINDOW >= LOW && least % WINDOW < most % WINDOW, "{numbers:x?}");
}

/// Compiles `code` with these arguments besides; the program, or library.
fn compiled(scratch: &Path, name: &str, code: &str, arguments: &[&str]) -> PathBuf {
    let (source, made) = (scratch.join(format!("{name}.c")), scratch.join(name));
    std::fs::write(&source, code).expect("a source");
    run(Command::new("cc").arg("-O1").arg("-o").args([&made, &source]).args(arguments), LIMIT).expect_code(0);
    made
}

/// GNU Common Lisp, with which maxima is built, has one table for its pages from the first of the program to the break.
#[test]
fn the_break_is_right_behind_a_program_that_lies_low() {
    const CODE: &str = "#define _DEFAULT_SOURCE\n#include <stdio.h>\n#include <unistd.h>\n\
        extern char end[];\n\
        int main(void) {\n\
            char *start = sbrk(0), *more = sbrk(1 << 20);\n\
            more[(1 << 20) - 1] = 1;\n\
            printf(\"%ld %d %p\\n\", start - end, more == start, sbrk(0));\n\
        }\n";
    let scratch = tempfile::tempdir().expect("a folder");
    let (program, trace) = (compiled(scratch.path(), "low", CODE, &["-no-pie"]), scratch.path().join("trace"));
    let recorded = run(&mut record(&trace, &[text(&program)]), LIMIT).expect_code(0);
    let said = recorded.text();
    let words: Vec<&str> = said.split_whitespace().collect();
    let [behind, "1", _] = words[..] else { panic!("{words:?}") };
    assert!((0..4096).contains(&behind.parse().expect("a number")), "{words:?}");
    let replayed = run(Command::new(RELIVE).arg("replay").arg(&trace), LIMIT).expect_code(0);
    assert_eq!(replayed.text(), said);
}

/// A replay has other limits than the recording had, and the program's own are not set in it.
#[test]
fn a_break_that_a_limit_holds_stays_where_it_is() {
    const CODE: &str = "#define _DEFAULT_SOURCE\n#include <stdio.h>\n#include <sys/resource.h>\n#include <unistd.h>\n\
        int main(void) {\n\
            void *start = sbrk(0);\n\
            setrlimit(RLIMIT_DATA, &(struct rlimit){ 1 << 24, 1 << 24 });\n\
            int failed = sbrk(1 << 28) == (void *)-1, stayed = sbrk(0) == start;\n\
            printf(\"%d %d %d\\n\", failed, stayed, sbrk(4096) == start);\n\
        }\n";
    let scratch = tempfile::tempdir().expect("a folder");
    let (program, trace) = (compiled(scratch.path(), "limited", CODE, &[]), scratch.path().join("trace"));
    let recorded = run(&mut record(&trace, &[text(&program)]), LIMIT).expect_code(0);
    assert_eq!(recorded.text(), "1 1 1\n");
    let replayed = run(Command::new(RELIVE).arg("replay").arg(&trace), LIMIT).expect_code(0);
    assert_eq!(replayed.text(), "1 1 1\n");
}

/// tcmalloc's and TBB's have them; what they give out by other names is set up by the first `malloc`.
#[test]
fn an_allocator_that_has_libcs_own_names_is_not_taken_for_libc() {
    const ALLOCATOR: &str = "#include <stddef.h>\n#include <stdlib.h>\n#include <string.h>\n\
        static char memory[16 << 20];\n\
        static size_t used;\n\
        static int is_set_up;\n\
        static void *take(size_t align, size_t bytes) {\n\
            size_t at = (used + sizeof(size_t) + align - 1) / align * align;\n\
            memcpy(memory + at - sizeof bytes, &bytes, sizeof bytes);\n\
            used = at + bytes;\n\
            return memory + at;\n\
        }\n\
        void *malloc(size_t bytes) { is_set_up = 1; return take(16, bytes); }\n\
        void free(void *block) { (void)block; }\n\
        void *calloc(size_t count, size_t bytes) { return take(16, count * bytes); }\n\
        void *memalign(size_t align, size_t bytes) { return take(align, bytes); }\n\
        void *valloc(size_t bytes) { return take(4096, bytes); }\n\
        void *realloc(void *block, size_t bytes) {\n\
            size_t held = 0;\n\
            if (block)\n\
                memcpy(&held, (char *)block - sizeof held, sizeof held);\n\
            return memcpy(malloc(bytes), block ? block : \"\", held < bytes ? held : bytes);\n\
        }\n\
        #define LIKE(name) __attribute__((alias(#name)))\n\
        void *__libc_malloc(size_t) LIKE(malloc);\n\
        void __libc_free(void *) LIKE(free);\n\
        void *__libc_calloc(size_t, size_t) LIKE(calloc);\n\
        void *__libc_realloc(void *, size_t) LIKE(realloc);\n\
        void *__libc_memalign(size_t, size_t) LIKE(memalign);\n\
        void *__libc_valloc(size_t) LIKE(valloc);\n\
        void *__libc_pvalloc(size_t) LIKE(valloc);\n\
        void *further(size_t bytes) { return is_set_up ? take(16, bytes) : NULL; }\n\
        int is_own(void *block) { return (char *)block >= memory && (char *)block < memory + sizeof memory; }\n";
    const CODE: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
        void *further(size_t);\n\
        int is_own(void *);\n\
        int main(void) {\n\
            char *first = realloc(malloc(10), 30), *copy = strdup(\"copied\");\n\
            printf(\"%d %d %d %p\\n\", is_own(first), is_own(copy), is_own(further(10)), (void *)copy);\n\
        }\n";
    let scratch = tempfile::tempdir().expect("a folder");
    let library = compiled(scratch.path(), "libbrought.so", ALLOCATOR, &["-shared", "-fPIC", "-fno-builtin"]);
    let with = [text(&library), "-Wl,-rpath", &format!("-Wl,{}", text(scratch.path()))];
    let (program, trace) = (compiled(scratch.path(), "program", CODE, &with), scratch.path().join("trace"));
    let recorded = run(&mut record(&trace, &[text(&program)]), LIMIT).expect_code(0);
    assert!(recorded.text().starts_with("1 1 1 "), "{}", recorded.text());
    let replayed = run(Command::new(RELIVE).arg("replay").arg(&trace), LIMIT).expect_code(0);
    assert_eq!(replayed.text(), recorded.text());
}

fn debugged(trace: &Path, commands: &[&str]) -> Ended {
    let mut gdb = Command::new(RELIVE);
    gdb.args(["replay", "--gdb", "--gdb-batch"]);
    for command in commands {
        gdb.args(["--gdb-command", command]);
    }
    run(gdb.arg(trace).current_dir("/").env("LONGER", "x".repeat(500)), LIMIT)
}

#[test]
fn gdb_stops_steps_and_looks_into_a_recorded_environment() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (program, trace) = (guest(scratch.path(), "crowd"), scratch.path().join("trace"));
    let input = scratch.path().join("input");
    std::fs::write(&input, "one two\nthree four\n").unwrap();
    let recorded = run(&mut record(&trace, &[text(&program), "3", "20", text(&input)]), LIMIT);
    is_complete(&recorded);
    std::fs::remove_file(&input).unwrap();
    let ended = debugged(
        &trace,
        &["break main", "run", "backtrace", "info sharedlibrary", "next", "stepi", "info auxv", "delete", "continue"],
    );
    let said = ended.text();
    for words in ["Breakpoint 1, main (", "#0  main (", "ld-linux", "libc.so.6", "AT_ENTRY"] {
        assert!(said.contains(words), "gdb never said `{words}`: {said}\n{}", ended.stderr);
    }
    assert!(!said.contains("SIGTRAP") && !said.contains("SIGSYS,"), "{said}");
    for line in recorded.text().lines() {
        assert!(said.contains(line), "`{line}` of the recording is missing: {said}");
    }
}

#[test]
fn gdb_sees_the_addresses_of_the_recording() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (program, trace) = (guest(scratch.path(), "addresses"), scratch.path().join("trace"));
    let recorded = run(&mut record(&trace, &[text(&program), "a b"]), LIMIT).expect_code(7);
    is_complete(&recorded);
    let ended =
        debugged(&trace, &["break breaks", "run", "print &data", "print main", "up", "print &local", "continue"]);
    let (said, first) = (ended.text(), recorded.text());
    let words: Vec<&str> = first.lines().next().unwrap_or_default().split(' ').collect();
    let [_, _, code, _, data, _, _, _, stack] = words[..] else { panic!("{first}") };
    for address in [code, data, stack] {
        let printed = said.lines().filter(|line| line.starts_with('$')).any(|line| line.contains(address));
        assert!(printed, "{address} is not what gdb shows: {said}\n{}", ended.stderr);
    }
    for line in first.lines() {
        assert!(said.contains(line), "`{line}` of the recording is missing: {said}\n{}", ended.stderr);
    }
}

#[test]
fn gdb_goes_through_a_program_that_starts_others() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (trace, recorded) = start_everything(scratch.path());
    let ended = debugged(&trace, &["break all_fail", "run", "backtrace 1", "delete", "continue"]);
    let said = ended.text();
    assert!(said.contains("Breakpoint 1, all_fail ("), "{said}\n{}", ended.stderr);
    let missing = recorded.text().lines().find(|line| !said.contains(line)).map(str::to_owned);
    assert_eq!(missing, None, "{said}\n{}", ended.stderr);
}

#[test]
fn gdb_sees_the_interpreter_of_a_script() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (program, trace) = (guest(scratch.path(), "starts"), scratch.path().join("trace"));
    let script = scratch.path().join("script");
    std::fs::write(&script, format!("#!{} report\n", program.display())).unwrap();
    run(Command::new("chmod").arg("+x").arg(&script), LIMIT).expect_code(0);
    let recorded = run(&mut record(&trace, &[text(&script), "a", "b"]), LIMIT).expect_code(35);
    let ended = debugged(&trace, &["break report", "run", "print arguments[4]", "continue"]);
    let said = ended.text();
    assert!(said.contains("Breakpoint 1, report (") && said.contains("\"b\""), "{said}\n{}", ended.stderr);
    for line in recorded.text().lines() {
        assert!(said.contains(line), "`{line}` of the recording is missing: {said}\n{}", ended.stderr);
    }
}

#[test]
fn what_the_user_preloads_is_all_that_a_program_sees() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (preloaded, trace) = ("/lib/x86_64-linux-gnu/libm.so.6", scratch.path().join("trace"));
    let command = "sh -c 'env | grep -c -e ^RELIVE_CONTROL -e ^RELIVE_LINK; env | grep LD_PRELOAD'; unset LD_PRELOAD; env | grep -c LD_PRELOAD";
    let mut record = record(&trace, &["sh", "-c", command]);
    let recorded = run(record.env("LD_PRELOAD", preloaded), LIMIT).expect_code(1);
    assert_eq!(recorded.text(), format!("0\nLD_PRELOAD={preloaded}\n0\n"));
    let replayed = run(Command::new(RELIVE).arg("replay").arg(&trace), LIMIT).expect_code(1);
    assert_eq!(replayed.text(), recorded.text());
}

#[test]
fn a_static_program_is_refused_as_ever() {
    let scratch = tempfile::tempdir().expect("a folder");
    let source = scratch.path().join("main.c");
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let program = scratch.path().join("program");
    run(Command::new("cc").arg("-static").arg("-o").arg(&program).arg(source), LIMIT).expect_code(0);
    let refused = run(&mut record(&scratch.path().join("trace"), &[text(&program)]), LIMIT).expect_code(125);
    assert!(refused.stderr.contains("statically linked"), "{}", refused.stderr);
    let missing = run(&mut record(&scratch.path().join("other"), &["/no/such/program"]), LIMIT).expect_code(127);
    assert!(missing.stderr.contains("no such program"), "{}", missing.stderr);
}
