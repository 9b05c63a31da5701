//! What ends a recording early, and what keeps it to oneself: limits of time and
//! size, calls that can't be recorded, hidden values, who may read the files.
//!
//! Apart from `record.rs` because here the trace is judged, and its replays.

#[path = "launching/desk.rs"]
mod desk;

use desk::{Desk, Run};
use relive_trace::manifest::{Manifest, Outcome, State};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Three threads count under one lock, and say so now and then.
const COUNTERS: &str = r#"
#include <pthread.h>
#include <stdio.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long sum;
static void *count(void *who) {
    for (int i = 0; i < 400000; i++) {
        pthread_mutex_lock(&lock);
        if (++sum % 5000 == 0) { printf("%ld by %ld\n", sum, (long)who); fflush(stdout); }
        pthread_mutex_unlock(&lock);
    }
    return who;
}
int main(void) {
    pthread_t threads[3];
    for (long i = 0; i < 3; i++) pthread_create(&threads[i], 0, count, (void *)i);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    printf("end %ld\n", sum);
    return 3;
}
"#;

/// Bytes of the trace's files, its manifest aside.
fn recorded_bytes(trace: &Path) -> u64 {
    let files = fs::read_dir(trace).unwrap().map(Result::unwrap);
    let recorded = files.filter(|file| file.file_name() != "manifest.json" && file.file_name() != "derived.order");
    recorded.map(|file| file.metadata().unwrap().len()).sum()
}

/// A replay of the latest trace shows the beginning of `recorded`, and says why no more.
fn replays_the_beginning(desk: &Desk, recorded: &Run) -> String {
    let replays = [desk.relive(["replay"]), desk.relive(["replay"])];
    for replayed in &replays {
        let beginning = recorded.stdout.starts_with(&replayed.stdout);
        assert!(beginning && replayed.stdout.len() < recorded.stdout.len(), "{replayed:?}");
        assert_eq!(replayed.status, recorded.status);
        assert_eq!(replayed.stderr, "relive: the recording ends here: it had reached its limit of time or size");
    }
    // The second goes by the order that the first learnt. Both reach the end of the recording, in every thread.
    assert_eq!(replays[0].stdout, replays[1].stdout);
    let manifest = Manifest::read(&desk.latest()).unwrap();
    assert_eq!(
        (manifest.state, manifest.outcome),
        (State::Complete, recorded.status.map(|c| Outcome::Exited(c as u8)))
    );
    let stats = desk.relive(["stats", "--json"]);
    assert!(stats.stdout.contains("stopped: limit"), "{}", stats.stdout);
    replays[0].stdout.clone()
}

#[test]
fn a_recording_ends_after_its_time_and_the_program_does_not() {
    for environment in [&[][..], &["--environment"]] {
        let desk = Desk::new();
        let source = "#include <stdio.h>\n#include <unistd.h>\n#include <pthread.h>\n
            static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
            int main(void) { for (int i = 0; i < 12; i++) { pthread_mutex_lock(&lock); printf(\"%d\\n\", i); fflush(stdout);
            pthread_mutex_unlock(&lock); usleep(100000); } return 5; }";
        desk.build("ticks", source);
        let recorded = desk.relive([&["record", "--duration", "450ms"], environment, &["./ticks"]].concat());
        assert_eq!((recorded.status, recorded.stdout.lines().count()), (Some(5), 12));
        let said: Vec<_> = recorded.stderr.lines().collect();
        assert_eq!(said.len(), 2, "{said:?}");
        assert_eq!(
            said[0],
            "relive: recording stopped after 450ms; the program goes on, the trace is valid up to here"
        );
        assert!(said[1].ends_with(", not to the end)"), "{said:?}");
        let shown = replays_the_beginning(&desk, &recorded);
        // Nobody knows how slow this machine is just now, but not all of it came at once.
        assert!((1..12).contains(&shown.lines().count()), "{shown}");
    }
}

#[test]
fn a_recording_ends_at_its_size_and_the_program_does_not() {
    // The loader reads this, and what is read counts: where many packages are installed, much.
    let cache = fs::metadata("/etc/ld.so.cache").map_or(0, |cache| cache.len());
    for (environment, room) in [(&[][..], 64 << 10), (&["--environment"], (64 << 10) + cache)] {
        let desk = Desk::new();
        desk.build("counters", COUNTERS);
        let limit = room.to_string();
        let recorded = desk.relive([&["record", "--max-size", &limit], environment, &["./counters"]].concat());
        assert_eq!((recorded.status, recorded.stdout.lines().last()), (Some(3), Some("end 1200000")));
        let said: Vec<_> = recorded.stderr.lines().collect();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(
            said[0].starts_with("relive: recording stopped at a size of ") && said[0].contains("; the program goes on")
        );
        assert!(said[1].ends_with(", not to the end)"), "{said:?}");
        // Each thread may fill its chunk, and what has not come to the end goes on up to there.
        let bytes = recorded_bytes(&desk.latest());
        assert!((room / 2..room + (96 << 10)).contains(&bytes), "{bytes} of {room}");
        replays_the_beginning(&desk, &recorded);
    }
}

#[test]
fn what_a_program_reads_counts_and_processes_that_come_later_run_unrecorded() {
    let desk = Desk::new();
    fs::write(desk.path("large"), vec![b'x'; 3 << 20]).unwrap();
    let script = "echo begins; cat large | wc -c; cat large | wc -c; echo ends";
    let recorded = desk.relive(["record", "--environment", "--max-size", "2M", "sh", "-c", script]);
    assert_eq!(recorded.stdout, "begins\n3145728\n3145728\nends\n");
    assert!(recorded.stderr.starts_with("relive: recording stopped at a size of 2.0 MiB; the program goes on"));
    assert_eq!(recorded.stderr.lines().count(), 2, "{}", recorded.stderr);
    // What has not come to the end goes on up to there.
    assert!(recorded_bytes(&desk.latest()) <= (2 << 20) + (160 << 10));
    fs::remove_file(desk.path("large")).unwrap();
    assert_eq!(replays_the_beginning(&desk, &recorded), "begins\n");
}

#[test]
fn values_that_are_hidden_stand_nowhere_in_the_trace_and_keep_their_length() {
    for environment in ["", "--environment"] {
        let desk = Desk::new();
        let record = format!(
            "MY_TOKEN=hunter2-hunter2 PIN=8844991 OPEN=seen exec $RELIVE record {environment} --redact-env '*_TOK[DE]N' \
             --redact-env '*_TOK?N' --redact-env PIN sh -c 'echo $MY_TOKEN $PIN $OPEN; /bin/echo ${{#PIN}}'"
        );
        let recorded = desk.shell(&record);
        assert_eq!(recorded.stdout, "hunter2-hunter2 8844991 seen\n7\n");
        for file in fs::read_dir(desk.latest()).unwrap() {
            let bytes = fs::read(file.unwrap().path()).unwrap();
            let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
            assert!(!has("8844991") && !has("hunter2") && !bytes.is_empty());
        }
        let manifest = Manifest::read(&desk.latest()).unwrap();
        let value = |name: &str| manifest.environment.iter().find(|(n, _)| n.0 == name).unwrap().1.to_string();
        assert_eq!(
            (value("MY_TOKEN"), value("PIN"), value("OPEN")),
            ("x".repeat(15), "x".repeat(7), "seen".to_owned())
        );
        let replayed = desk.relive(["replay"]);
        assert_eq!(replayed.stdout, "xxxxxxxxxxxxxxx xxxxxxx seen\n7\n", "{replayed:?}");
    }
}

#[test]
fn values_that_are_hidden_are_not_read_from_proc_either() {
    let desk = Desk::new();
    let script = "tr '\\0' '\\n' < /proc/self/environ | grep TOKEN; cd /proc/self; grep -z TOKEN environ | tr -d '\\0'; \
                  OTHER_TOKEN=a1b2c3 cat /proc/thread-self/environ | tr '\\0' '\\n' | grep OTHER";
    let recorded = desk.shell(&format!(
        "MY_TOKEN=hunter2-hunter2 exec $RELIVE record -q --environment --redact-env '*_TOKEN' bash -c \"{script}\""
    ));
    let shown = format!("MY_TOKEN={0}\nMY_TOKEN={0}OTHER_TOKEN=xxxxxx\n", "x".repeat(15));
    assert_eq!((recorded.stdout.as_str(), recorded.stderr.as_str()), (shown.as_str(), ""));
    for file in fs::read_dir(desk.latest()).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(7).any(|window| window == b"hunter2"));
    }
    assert_eq!(desk.relive(["replay"]).stdout, shown);
    let refused = desk.relive(["record", "--redact-env", "TOKEN[", "true"]);
    assert!(refused.status == Some(125) && refused.stderr.contains("a set of letters has no end"), "{refused:?}");
}

#[test]
fn a_limit_on_files_is_the_programs_and_not_ours() {
    let desk = Desk::new();
    for environment in ["", "--environment"] {
        let run = desk.shell(&format!(
            "ulimit -S -f 16; $RELIVE record -q {environment} sh -c 'ulimit -f; head -c 100000 /dev/zero > large; wc -c < large'"
        ));
        assert_eq!((run.status, run.stdout.as_str()), (Some(0), "16\n8192\n"), "{}", run.stderr);
        let replayed = desk.shell("ulimit -S -f 16; $RELIVE replay");
        assert_eq!((replayed.status, replayed.stdout.as_str()), (Some(0), "16\n8192\n"), "{}", replayed.stderr);
    }
}

#[test]
fn a_trace_is_its_owners_alone_whatever_the_mask() {
    for mask in ["0", "0777"] {
        let desk = Desk::new();
        fs::write(desk.path("large"), vec![b'x'; 1 << 20]).unwrap();
        let program = format!("sh -c 'umask {mask}; cat large large | wc -c'");
        let run = desk.shell(&format!(
            "umask {mask}; $RELIVE record --environment {program}; $RELIVE record --environment -o named {program}"
        ));
        assert_eq!(run.stdout, "2097152\n2097152\n", "{}", run.stderr);
        assert_eq!(desk.shell(&format!("umask {mask}; $RELIVE replay named")).stdout, "2097152\n");
        for trace in [desk.latest(), desk.path("named")] {
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
            assert_eq!(mode(&trace), 0o700);
            let files: Vec<_> = fs::read_dir(&trace).unwrap().map(|file| file.unwrap().path()).collect();
            assert!(files.iter().any(|path| path.extension().is_some_and(|extension| extension == "inputs")));
            for file in files {
                assert_eq!(mode(&file), 0o600, "{}", file.display());
            }
        }
    }
}

const REFUSED: &str = r#"
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
int main(int argc, char **argv) {
    unsigned result = 20;
    puts("before");
    fflush(stdout);
    if (argc > 1 && !strcmp(argv[1], "gate"))
        __asm__ volatile("int $0x80" : "+a"(result) : : "memory");
    else
        ioctl(0, 0xC0FFEE77, 0);
    // Nothing behind the call may be taken for it.
    close(77);
    puts("behind");
    return 3;
}
"#;

#[test]
fn a_call_that_cannot_be_recorded_ends_the_recording_and_its_replays() {
    let desk = Desk::new();
    desk.build("refused", REFUSED);
    for (how, said) in
        [("gate", "call 20 of 32 bits (int 0x80)"), ("ioctl", "system call 16 (ioctl, request 0xc0ffee77)")]
    {
        let recorded = desk.relive(["record", "-q", "--environment", "./refused", how]);
        assert_eq!((recorded.status, recorded.stdout.as_str()), (Some(3), "before\nbehind\n"));
        let expected = format!(
            "relive: recording stopped: {said} can't be recorded; the program goes on, the trace is valid up to here"
        );
        assert_eq!(recorded.stderr, expected);
        let replayed = desk.relive(["replay"]);
        assert_eq!((replayed.status, replayed.stdout.as_str()), (Some(3), "before\n"));
        assert_eq!(replayed.stderr, "relive: the recording ends here: the program did what can't be recorded");
    }
}
