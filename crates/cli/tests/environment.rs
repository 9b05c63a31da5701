//! Recordings with their environment: replays with the inputs gone, another
//! environment and other limits print the same, and touch nothing.
//!
//! Apart from the guests because these are judged by what was changed between the
//! recording and the replay.

#[path = "environment/again.rs"]
mod again;
#[path = "trial/dice.rs"]
mod dice;
#[path = "environment/guest.rs"]
mod guest;
#[path = "trial/text.rs"]
mod text;
#[path = "trial/timed.rs"]
mod timed;

use again::{LIMIT, check, check_struck, guest_with, words};
use guest::{guest, library};
use relive_trace::manifest::Manifest;
use std::path::Path;
use std::process::Command;
use timed::{RELIVE, run};

#[test]
fn a_program_finds_the_same_world_again() {
    check(true, guest_with("world", &["."]));
}

#[test]
fn threads_find_the_same_world_again() {
    check(true, guest_with("crowd", &["4", "200", "small"]));
}

#[test]
fn a_process_tree_finds_the_same_world_again() {
    check(true, guest_with("family", &["5"]));
}

#[test]
fn processes_forked_while_threads_map_memory() {
    check(true, guest_with("forks_mapping", &["2", "200"]));
}

#[test]
fn threads_that_take_away_the_lower_end_of_their_stacks() {
    check(true, guest_with("guarded_stacks", &["40"]));
}

#[test]
fn processes_that_share_files() {
    check(true, guest_with("shared_files", &["4", "300"]));
}

#[test]
fn threads_that_hand_over_by_descriptors() {
    for arguments in [&["pipe", "3", "50"], &["socket", "3", "50"], &["poll", "3", "50"], &["epoll", "8", "20"]] {
        check(true, guest_with("carried", arguments));
    }
}

#[test]
fn threads_that_hand_over_by_streams_and_by_calls_of_their_own() {
    for arguments in [
        &["stream", "3", "50"],
        &["unbuffered", "3", "50"],
        &["line", "3", "50"],
        &["syscall", "3", "50"],
        &["checked", "3", "50"],
        &["bare", "3", "50"],
    ] {
        check(true, guest_with("carried", arguments));
    }
}

#[test]
fn threads_that_ask_for_time_and_language_first() {
    for arguments in [
        &["4", "3", "localtime_r"],
        &["4", "3", "strftime"],
        &["4", "3", "mktime"],
        &["4", "3", "iconv"],
        &["4", "3", "newlocale"],
        &["4", "3", "mbrtowc"],
        &["4", "3", "strerror"],
    ] {
        check(false, guest_with("first_use", arguments));
    }
}

#[test]
fn threads_that_ask_for_names_first() {
    for arguments in [
        &["4", "3", "qsort"],
        &["4", "3", "getpwnam_r"],
        &["4", "3", "getgrgid_r"],
        &["4", "3", "getservbyname_r"],
        &["4", "3", "getaddrinfo"],
        &["4", "3", "getnameinfo"],
        &["4", "3", "gethostbyname2_r"],
        &["4", "3", "gethostbyaddr_r"],
        &["4", "3", "syslog"],
    ] {
        check(false, guest_with("first_use", arguments));
    }
}

#[test]
fn processes_that_share_segments() {
    check(true, guest_with("segments", &["4", "100"]));
}

#[test]
fn processes_that_take_turns_by_what_the_kernel_keeps() {
    for arguments in [&["4", "100", "down"], &["4", "100", "zero"], &["8", "1", "undo"], &["4", "100", "message"]] {
        check(false, guest_with("sets", arguments));
    }
}

#[test]
fn threads_that_take_turns_by_locks_and_names_of_files() {
    for way in ["flock", "tried", "raw", "ofd", "file", "folder"] {
        check(true, turns("threads", way));
    }
}

#[test]
fn threads_that_take_turns_by_signals_that_they_wait_for() {
    for way in ["sigwait", "queued", "signalfd"] {
        check(true, turns("threads", way));
    }
}

#[test]
fn processes_that_take_turns_by_locks_and_pipes() {
    for way in ["flock", "posix", "lockf", "file", "pipe"] {
        check(true, turns("processes", way));
    }
}

#[test]
fn processes_that_wake_each_other_by_signals() {
    for way in ["ring", "handled"] {
        check(false, turns("processes", way));
    }
}

fn turns(whose: &'static str, way: &'static str) -> impl Fn(&Path) -> Vec<String> {
    move |scratch| {
        let program = guest(scratch, "turns").to_str().expect("UTF-8").to_owned();
        std::iter::once(program).chain([whose, "3", "30", way].map(str::to_owned)).collect()
    }
}

#[test]
fn timers_that_call_in_threads_of_their_own() {
    check(true, guest_with("timers", &["3", "5"]));
}

#[test]
fn a_program_that_was_killed_shows_all_that_it_wrote() {
    check(false, guest_with("killed", &["3"]));
}

#[test]
fn processes_that_write_in_turns() {
    const KILLED: &str = "timeout -s KILL 0.5 sh -c 'n=0; while :; do n=$((n + 1)); \
        [ $((n % 10000)) = 0 ] && echo $n; done'; echo $?";
    // By pipes, which order nothing in a replay, and by waiting for a process whose child the same signal ends.
    const TURNS: &str = "mkfifo p q; (for i in {1..40}; do read x; echo b$i; echo >&3; done <p 3>q) & \
        for i in {1..40}; do echo a$i; echo >&3; read x <&4; done 3>p 4<q; wait; date +%N";
    check(true, words(&["bash", "-c", TURNS]));
    check(false, words(&["sh", "-c", KILLED]));
}

#[test]
fn semaphores_are_told_of_once() {
    const TEXT: &str = "import multiprocessing as m\np = m.Pool(2)\nprint(p.map(abs, [-1, -2]))\np.close()\np.join()";
    let folder = tempfile::tempdir().expect("a folder");
    for (trace, quiet, times) in [("t", None, 1), ("u", Some("--quiet"), 0)] {
        let mut record = Command::new(RELIVE);
        record.args(["record", "--environment", "-o", trace]).args(quiet);
        record.args(["/usr/bin/python3", "-c", TEXT]).current_dir(folder.path());
        let recorded = run(&mut record, LIMIT).expect_code(0);
        assert_eq!(recorded.stderr.matches("shared memory").count(), times, "{}", recorded.stderr);
    }
}

#[test]
fn requests_that_libc_has_threads_for() {
    check(true, guest_with("requests", &["3", "3"]));
}

#[test]
fn a_segment_that_was_there_before() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (program, trace) = (guest(scratch.path(), "segment_left"), scratch.path().join("trace"));
    run(Command::new(&program).arg("make"), LIMIT).expect_code(0);
    let mut record = Command::new(RELIVE);
    let recorded = run(record.args(["record", "--environment", "-o"]).arg(&trace).args([&program]).arg("read"), LIMIT);
    run(Command::new(&program).arg("remove"), LIMIT).expect_code(0);
    let recorded = recorded.expect_code(0);
    assert!(recorded.stderr.contains("was there before"), "{}", recorded.stderr);
    for _ in 0..2 {
        let replayed = run(Command::new(RELIVE).arg("replay").arg(&trace), LIMIT).expect_code(0);
        assert_eq!(replayed.text(), recorded.text());
    }
}

#[test]
fn python_maps_a_file_to_write_to_it() {
    const TEXT: &str = "import mmap, os\n\
        f = open('large', 'r+b'); m = mmap.mmap(f.fileno(), 0); print(m[:30], os.urandom(3))\n\
        m[:3] = b'xyz'; m.flush(); print(m[:30], open('large', 'rb').read(30))";
    check(true, words(&["/usr/bin/python3", "-c", TEXT]));
}

#[test]
fn instructions_tell_the_same_of_the_outside_again() {
    check(true, guest_with("outside", &["0"]));
    check(true, guest_with("outside", &["4"]));
}

#[test]
fn instructions_are_found_where_nobody_says_where_functions_begin() {
    check(true, |scratch| {
        let program = guest::guest_with(scratch, "outside", &["-s", "-Wl,--no-eh-frame-hdr"]);
        vec![program.to_str().expect("UTF-8").to_owned(), "2".to_owned()]
    });
}

#[test]
fn code_that_a_program_makes_is_told_the_same_time_again() {
    for arguments in [&["anonymous", "0"], &["protected", "3"], &["shared", "2"], &["file", "2"], &["stack", "2"]] {
        check(true, guest_with("generated", arguments));
    }
}

#[test]
fn faults_are_met_where_instructions_stand_that_run_elsewhere() {
    check(true, guest_with("neighbours", &["3"]));
}

#[test]
fn a_program_has_the_processor_of_the_recording() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (program, trace) = (guest(scratch.path(), "outside"), scratch.path().join("trace"));
    // A replay that finds another processor prints something else, which is not held against it where variables are hidden.
    let mut record = Command::new(RELIVE);
    record.args(["record", "--environment", "--redact-env", "NONE", "-o"]);
    let recorded = run(record.arg(&trace).arg(&program), LIMIT).expect_code(0);
    // Another recording would have had another processor: here what says which kind it is.
    let mut manifest = Manifest::read(&trace).expect("a manifest");
    let kind = manifest.cpuid.iter_mut().find(|leaf| leaf.starts_with("1 ffffffff ")).expect("leaf 1");
    let mut words: Vec<&str> = kind.split(' ').collect();
    // Of the same length: what a program prints goes through buffers.
    let other = "a".repeat(words[2].len());
    words[2] = &other;
    let line = words.join(" ");
    *kind = line;
    manifest.write(&trace).expect("the trace is ours");
    let replayed = run(Command::new(RELIVE).arg("replay").arg(&trace), LIMIT).expect_code(0);
    let (before, now) = (recorded.text(), replayed.text());
    for (before, now) in before.lines().zip(now.lines()) {
        assert_eq!(
            now.starts_with("cpuid 1 ") && now.contains(&format!(": {other} ")),
            before != now,
            "{before} became {now}"
        );
    }
    assert!(now.contains(&format!("cpuid 1 0: {other} ")), "{now}");
}

fn raw_calls(threads: &'static str) -> impl Fn(&Path) -> Vec<String> {
    move |scratch| {
        let (program, library) = (guest(scratch, "raw_calls"), library(scratch, "raw_calls"));
        [program, library]
            .map(|path| path.to_str().expect("UTF-8").to_owned())
            .into_iter()
            .chain([threads.to_owned()])
            .collect()
    }
}

#[test]
fn a_library_that_is_opened_late_calls_by_jumps() {
    for threads in ["0", "4"] {
        let said = check(true, raw_calls(threads));
        assert!(said.contains("sites e9 e9\n"), "{said}");
    }
}

#[test]
fn cat_of_files_that_are_gone() {
    check(false, words(&["cat", "small", "large"]));
}

#[test]
fn ls_of_a_folder_that_is_gone() {
    check(true, words(&["ls", "-lai", "--time-style=full-iso", "."]));
}

#[test]
fn sort_of_a_file_that_is_gone() {
    check(false, words(&["sort", "--parallel=1", "large"]));
}

#[test]
fn a_shell_that_asks_for_the_time() {
    check(true, words(&["sh", "-c", "date +%N; echo $$; cat small | tr a-z A-Z; wc -c < large"]));
    // `sort` has locks behind what it writes, to a pipe here and to a file in a replay.
    check(true, words(&["sh", "-c", "sort -r large | tr a-z A-Z | tail -2; (date +%N; exit 5) | cat"]));
}

#[test]
fn output_by_names_of_descriptors() {
    const TEXT: &str = "exec >> /dev/stdout 5>&1; echo a >> /dev/stdout; cat small >> /dev/fd/1; \
        echo b | tee -a /proc/self/fd/5; echo c > /dev/null; date +%N >> /proc/thread-self/fd/1; \
        dd if=small of=/dev/stdout oflag=append conv=notrunc status=none";
    let said = check(true, words(&["bash", "-c", TEXT]));
    assert!(said.starts_with("a\none two\n") && said.contains("b\nb\n") && said.ends_with("four\n"), "{said}");
}

#[test]
fn processes_that_others_end() {
    // By a pipe that nobody reads, by a time limit, by a shell before they did anything, and by themselves.
    const TEXT: &str = "ulimit -c 0; yes | head -1; timeout 0.2 sleep 9; echo $?; sleep 9 & kill $!; wait $!; echo $?; \
        (sleep 0.1; echo a; sleep 9; echo b) & p=$!; sleep 0.4; kill $p; wait; (kill -SEGV $BASHPID); echo $?; date +%N; \
        set -m; sleep 9 & kill -STOP %1; kill -CONT %1; kill -KILL %1; wait $!; echo $?";
    check(true, words(&["bash", "-c", TEXT]));
}

#[test]
fn compressors_with_threads() {
    for command in [
        &["pigz", "-p", "4", "-c", "large"][..],
        &["xz", "-T4", "--block-size=100KiB", "-c", "-k", "large"],
        &["zstd", "-q", "-T4", "-B100000", "-c", "large"],
        &["pbzip2", "-p4", "-1", "-c", "-k", "large"],
        &["lbzip2", "-n", "4", "-1", "-c", "-k", "large"],
        &["plzip", "-n", "4", "-1", "-B", "100KiB", "-c", "large"],
    ] {
        check(false, words(command));
    }
}

#[test]
fn python_hashes_addresses_and_starts_programs() {
    const TEXT: &str = "import os, random, subprocess, time\n\
        print(id(object()), hash('a'), random.random(), time.time_ns(), os.urandom(4))\n\
        print(open('small').read(), subprocess.run(['wc', '-l', 'large'], capture_output=True).stdout)";
    check(true, words(&["/usr/bin/python3", "-c", TEXT]));
}

#[test]
fn signals_strike_a_computing_thread_where_they_did() {
    for arguments in [
        &["registers", "real", "6000"][..],
        &["stack", "real", "8000"],
        &["fractions", "prof", "6000"],
        &["heap", "virtual", "12000"],
        &["global", "other", "16000"],
        &["stack", "jump", "8000"],
        &["copies", "real", "20000"],
        &["calls", "real", "12000"],
    ] {
        check_struck(&[], "strikes", arguments);
    }
}

#[test]
fn signals_strike_threads_that_compute_together_where_they_did() {
    for arguments in [
        &["registers", "own", "3", "10000"][..],
        &["short", "kill", "3", "20000"],
        &["memory", "prof", "3", "30000"],
        &["memory", "fork", "4", "20000"],
        &["memory", "forks", "3", "30000"],
    ] {
        check_struck(&[], "strikes_threads", arguments);
    }
}

#[test]
fn signals_strike_translated_threads_where_they_did() {
    check_struck(&["--dbi"], "strikes", &["registers", "real", "2500"]);
    check_struck(&["--dbi"], "strikes_threads", &["memory", "prof", "3", "7000"]);
}

#[test]
fn signals_strike_threads_in_libraries_and_among_faults_where_they_did() {
    for arguments in [
        &["library", "own", "3", "12000"][..],
        &["faults", "prof", "3", "12000"],
        // What the handler of a fault does is the same each time: only the number tells what strikes it apart.
        &["handlers", "prof", "2", "3000"],
        &["mixed", "own", "4", "8000"],
        &["mixed", "fork", "4", "12000"],
    ] {
        check_struck(&[], "strikes_threads", arguments);
    }
}

#[test]
fn signals_strike_threads_that_begin_and_end() {
    for arguments in [&["300"][..], &["300", "nested"]] {
        check(true, guest_with("dying", arguments));
    }
}

#[test]
fn an_alarm_strikes_python_where_it_did() {
    const TEXT: &str = "import signal\n\
        n = 0\n\
        def h(*a): print('alarm', n)\n\
        signal.signal(signal.SIGALRM, h)\n\
        signal.setitimer(signal.ITIMER_REAL, .05, .05)\n\
        while n < 3000000: n += 1\n\
        signal.setitimer(signal.ITIMER_REAL, 0)\n\
        print(n)";
    check(true, words(&["/usr/bin/python3", "-c", TEXT]));
}

#[test]
fn perl_counts_words() {
    const TEXT: &str =
        "$n{$_}++ for map { split } <>; print join(' ', map { \"$_ $n{$_}\" } (keys %n)[0..9]), \" $$ @{[{}]}\\n\"";
    check(true, words(&["perl", "-e", TEXT, "small", "large"]));
}

#[test]
fn find_tar_and_a_compressor() {
    check(false, words(&["find", "/usr/include/x86_64-linux-gnu", "-name", "*.h", "-size", "+20k"]));
    check(
        true,
        words(&[
            "sh",
            "-c",
            "tar -c small large | zstd -q -T2 | tee packed | wc -c; date +%N; zstd -d < packed | tar -t",
        ]),
    );
}

#[test]
fn gcc_compiles_and_links() {
    const TEXT: &str =
        "printf 'int main(void){return 7;}' > p.c && gcc -O1 -v -o p p.c 2>&1 | grep -c /tmp/cc; md5sum < p; echo $$";
    check(true, words(&["sh", "-c", TEXT]));
}

#[test]
fn git_on_a_repository() {
    let identity = "-c user.name=a -c user.email=b";
    let command = format!("git init -q . && git add small large && git {identity} commit -q -m one && git log --stat");
    check(true, move |_| ["sh", "-c", &command].map(str::to_owned).to_vec());
}

#[test]
fn sqlite_keeps_a_table() {
    const TEXT: &str =
        "create table t(a); insert into t select random() from (values(1),(2),(3)); select * from t order by a;";
    check(true, words(&["sqlite3", "file", TEXT]));
}

#[test]
fn memory_does_not_grow_with_the_trace() {
    /// Twenty MiB of small reads, which stand in the stream; the pages of it that the program still has are few.
    const TEXT: &str = "def resident():\n \
        return int(open('/proc/self/status').read().split('RssFile:')[1].split()[0])\n\
        dice = open('/dev/urandom', 'rb', buffering=0)\nbefore = resident()\nfor _ in range(42000): last = dice.read(500)\n\
        print(resident() - before, last.hex())";
    const GROWTH_MAX_KIB: i64 = 5 << 10;
    let printed = check(true, words(&["/usr/bin/python3", "-c", TEXT]));
    let grown = printed.split(' ').next().and_then(|kib| kib.parse().ok()).expect("a number");
    assert!((-GROWTH_MAX_KIB..GROWTH_MAX_KIB).contains(&grown), "by {grown} KiB");
}
