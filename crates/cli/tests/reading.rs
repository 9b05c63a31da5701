//! The reading commands on a trace made by hand: their text, their JSON, their errors.

#[path = "reading/specimen.rs"]
mod specimen;

use assert_cmd::Command;
use insta::assert_snapshot;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// A trace folder with one trace, `demo-1`.
struct Store {
    folder: tempfile::TempDir,
}

struct Outcome {
    stdout: String,
    stderr: String,
    code: i32,
}

impl Store {
    fn empty() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    fn with_specimen() -> Self {
        let store = Self::empty();
        specimen::write(&store.path("demo-1"));
        std::os::unix::fs::symlink("demo-1", store.path("latest")).expect("a link");
        store
    }

    /// What the folder of the specimen takes on disk: the manifest's length is not this test's concern.
    fn specimen_size(&self) -> String {
        let files = fs::read_dir(self.path("demo-1")).expect("the trace");
        let bytes: u64 = files.map(|file| file.and_then(|file| file.metadata()).expect("a file").len()).sum();
        assert!(bytes > 8192, "two data files have a page each");
        format!("{bytes} B")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    fn root(&self) -> PathBuf {
        fs::canonicalize(self.folder.path()).expect("the folder")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::cargo_bin("relive").expect("the binary");
        command.args(arguments).env("RELIVE_TRACE_DIR", self.root());
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
            command.env_remove(name);
        }
        command
    }

    /// Runs `relive`; the trace folder's path is replaced by `FOLDER`.
    fn run(&self, arguments: &[&str]) -> Outcome {
        let output = self.command(arguments).output().expect("relive starts");
        let root = self.root().to_string_lossy().into_owned();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8").replace(&root, "FOLDER");
        let code = output.status.code().expect("no signal");
        Outcome { stdout: text(output.stdout), stderr: text(output.stderr), code }
    }

    /// The text of a command that succeeds and complains of nothing.
    fn text(&self, arguments: &[&str]) -> String {
        let outcome = self.run(arguments);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{arguments:?}");
        outcome.stdout
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.text(arguments)).expect("JSON")
    }

    /// The error line of a command that fails with the tool's own status and prints nothing.
    fn error(&self, arguments: &[&str]) -> String {
        let outcome = self.run(arguments);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (125, ""), "{arguments:?}: {}", outcome.stderr);
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
        outcome.stderr
    }
}

#[test]
fn ls_lists() {
    let store = Store::with_specimen();
    let words: Vec<_> = store.text(&["ls"]).split_whitespace().map(str::to_owned).collect();
    assert_snapshot!(words.join(" ").replace(&store.specimen_size(), "SIZE"), @"NAME STARTED (UTC) STATUS SIZE COMMAND * demo-1 2026-03-06 08:34:56 exited 7 SIZE demo -n 'two words'");
    let listing = store.json(&["ls", "--json"]);
    assert_eq!(listing["traces"][0]["name"], "demo-1");
    assert_eq!(listing["traces"][0]["latest"], true);
    assert_eq!(listing["traces"][0]["started_ms"], 1_772_786_096_000_u64);
    assert_eq!(listing["traces"][0]["problem"], Value::Null);
}

#[test]
fn ls_shows_a_damaged_trace_with_what_is_wrong() {
    let store = Store::with_specimen();
    fs::write(store.path("demo-1/manifest.json"), "{\"format\": 1, ").expect("a damaged manifest");
    let trace = &store.json(&["ls", "--json"])["traces"][0];
    assert_eq!(trace["status"], "unreadable");
    assert!(trace["problem"].as_str().is_some_and(|problem| problem.contains("truncated")), "{trace}");
}

#[test]
fn ls_of_nothing_says_so() {
    let store = Store::empty();
    let outcome = store.run(&["ls"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, ""));
    assert_snapshot!(outcome.stderr, @"relive: no traces in FOLDER; `relive record` makes one");
    assert_eq!(store.json(&["ls", "--json"])["traces"], serde_json::json!([]));
}

#[test]
fn stats_counts() {
    let store = Store::with_specimen();
    assert_snapshot!(store.text(&["stats", "demo-1"]).replace(&store.specimen_size(), "SIZE"), @"
    trace       FOLDER/demo-1
    command     demo -n 'two words'
    status      exited 7
    operations  309
    bytes       293 (0.948 an operation)
    on disk     SIZE
    contention  1.0 %
    on          2 operations of mutex
    on          307 operations of threads that did not end
    failed      3 attempts of lock
    failed      1000 attempts of sem-wait

    THREAD  PROCESS  OPERATIONS  BYTES  CONTENTION  RESULTS  FAILED
    0             0           6     72      33.3 %        0       0
    0.0           0           2     73      50.0 %        1       3
    0.1           0         300     80       0.0 %        0    1000
    0.2           1           1     68       0.0 %        0       0

    PROCESS   PID  FROM        THREADS  OPERATIONS  BYTES  END       PROGRAM
          0  1000  start             3         308    225  exited 7  /opt/demo
          1  1001  child of 0        1           1     68  live
    ");
}

#[test]
fn stats_as_json_has_the_promised_members() {
    let stats = Store::with_specimen().json(&["stats", "--json"]);
    let threads = stats["threads"].as_array().expect("threads");
    let sum = |name: &str| threads.iter().map(|thread| thread[name].as_u64().expect("a number")).sum::<u64>();
    assert_eq!(stats["operations"], sum("events"));
    assert_eq!(stats["bytes"], sum("bytes"));
    let ratio = stats["bytes"].as_f64().expect("bytes") / stats["operations"].as_f64().expect("operations");
    assert!((stats["bytes_per_operation"].as_f64().expect("a ratio") - ratio).abs() < 1e-9);
    assert_eq!(stats["failures"], serde_json::json!({ "lock": 3, "sem-wait": 1000 }));
    assert_eq!(threads[1]["name"], "0.0");
    assert_eq!(threads[1]["finished"], true);
    assert_eq!(stats["processes"][1]["end"], "live");
}

#[test]
fn dump_prints_every_record() {
    assert_snapshot!(Store::with_specimen().text(&["dump"]), @r#"
    process 0 pid=1000 from="start" threads=3 end="exited 7" program="/opt/demo"
    process 1 pid=1001 from="child of 0" threads=1 end="live"
    0 thread index=0 process=0 events=6 start_clock=0 end_clock=30 finished=false
    0 3 8 pair extra=4
    0 5 9 won key=0x40 attempt=0
    0 5 30 pair extra=20
    0.0 thread index=1 process=0 events=2 start_clock=1 end_clock=5 finished=true
    0.0 0 1 value value=-5
    0.0 0 4 pair extra=2
    0.0 2 5 run kind=lock result=16 count=3
    0.1 thread index=2 process=0 events=300 start_clock=2 end_clock=302 finished=false
    0.1 7 9 run kind=sem-wait result=11 count=1000
    0.1 256 258 hash hash=0ee84800
    0.1 257 259 cancelled calls=2
    0.2 thread index=3 process=1 events=1 start_clock=3 end_clock=4 finished=false
    0.2 0 3 signal number=15 calls=1
    "#);
}

#[test]
fn dump_filters_by_thread_event_and_kind() {
    let store = Store::with_specimen();
    assert_snapshot!(store.text(&["dump", "--thread", "0", "--from", "4", "--kind", "pair"]), @r#"
    process 0 pid=1000 from="start" threads=3 end="exited 7" program="/opt/demo"
    process 1 pid=1001 from="child of 0" threads=1 end="live"
    0 thread index=0 process=0 events=6 start_clock=0 end_clock=30 finished=false
    0 5 30 pair extra=20
    "#);
    assert_snapshot!(store.text(&["dump", "--kind", "run", "--kind", "signal", "--to", "6"]), @r#"
    process 0 pid=1000 from="start" threads=3 end="exited 7" program="/opt/demo"
    process 1 pid=1001 from="child of 0" threads=1 end="live"
    0 thread index=0 process=0 events=6 start_clock=0 end_clock=30 finished=false
    0.0 thread index=1 process=0 events=2 start_clock=1 end_clock=5 finished=true
    0.0 2 5 run kind=lock result=16 count=3
    0.1 thread index=2 process=0 events=300 start_clock=2 end_clock=302 finished=false
    0.2 thread index=3 process=1 events=1 start_clock=3 end_clock=4 finished=false
    0.2 0 3 signal number=15 calls=1
    "#);
    let error = store.error(&["dump", "--thread", "0.9"]);
    assert_snapshot!(error, @"relive: dump thread 0.9: no such thread; `relive stats --all` lists them");
}

#[test]
fn dump_as_json_says_the_same() {
    let store = Store::with_specimen();
    let dump = store.json(&["dump", "--json"]);
    let records = dump["records"].as_array().expect("records");
    let lines = store.text(&["dump"]);
    let kinds = ["pair", "hash", "value", "run", "won", "signal", "cancelled"];
    let is_record = |line: &&str| line.split(' ').nth(3).is_some_and(|word| kinds.contains(&word));
    assert_eq!(records.len(), lines.lines().filter(is_record).count());
    assert_eq!(records[0], serde_json::json!({ "thread": "0", "event": 3, "clock": 8, "record": "pair", "extra": 4 }));
    assert_eq!(dump["threads"][2]["name"], "0.1");
}

#[test]
fn a_reader_that_stops_early_is_no_error() {
    let store = Store::with_specimen();
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("relive"))
        .args(["dump", "demo-1"])
        .env("RELIVE_TRACE_DIR", store.root())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("relive starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("relive ends");
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn rm_removes_what_is_named_and_says_what_it_could_not() {
    let store = Store::with_specimen();
    specimen::write(&store.path("demo-2"));
    specimen::write(&store.path("demo-3"));
    let outcome = store.run(&["rm", "demo-9", "latest", "demo-1", "demo-2"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (125, ""));
    assert_snapshot!(outcome.stderr, @"relive: open trace demo-9: no such trace; `relive ls` lists them");
    let names = |store: &Store| {
        let listing = store.json(&["ls", "--json"]);
        listing["traces"].as_array().expect("traces").iter().map(|t| t["name"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(&store), ["\"demo-3\""]);
    store.text(&["rm", "--all"]);
    assert!(names(&store).is_empty());
    store.text(&["rm", "--all"]);
    assert!(!store.error(&["rm", "demo-3"]).is_empty());
}

#[test]
fn what_is_not_a_sound_trace_gets_one_line() {
    let store = Store::with_specimen();
    fs::create_dir(store.path("other")).expect("a folder");
    fs::write(store.path("file"), "x").expect("a file");
    assert_snapshot!(store.error(&["stats", "nothing"]), @"relive: open trace nothing: no such trace; `relive ls` lists them");
    assert_snapshot!(store.error(&["stats", &store.path("other").to_string_lossy()]), @"relive: open trace FOLDER/other: a folder without p00000.trace; name the folder that `relive record` made");
    assert_snapshot!(store.error(&["dump", &store.path("file").to_string_lossy()]), @"relive: open trace FOLDER/file: a file, not a folder; name the folder that `relive record` made");
    let data = store.path("demo-1/p00000.trace");
    let good = fs::read(&data).expect("the data file");
    fs::write(&data, &good[..good.len() - 1]).expect("a cut file");
    assert_snapshot!(store.error(&["dump"]), @"relive: read FOLDER/demo-1/p00000.trace at byte 4863: truncated; restore the file or record again");
    let mut bad = good.clone();
    bad[8] = 99;
    fs::write(&data, &bad).expect("a file of another version");
    assert_snapshot!(store.error(&["stats"]), @"relive: read FOLDER/demo-1/p00000.trace: corrupt: its checksum differs from the recorded one; restore the file or record again");
    let empty = Store::empty();
    assert_snapshot!(empty.error(&["stats"]), @"relive: open the latest trace: there is none in FOLDER; make one with `relive record`");
}

#[test]
fn colours_obey_no_color_and_stay_out_of_pipes() {
    let store = Store::with_specimen();
    let escapes = |variables: &[(&str, &str)]| {
        let mut command = store.command(&["stats"]);
        command.envs(variables.iter().copied());
        command.output().expect("relive starts").stdout.contains(&0x1B)
    };
    assert!(!escapes(&[]), "a pipe is no terminal");
    assert!(escapes(&[("CLICOLOR_FORCE", "1")]), "forced");
    assert!(!escapes(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]), "NO_COLOR is stronger");
}

#[test]
fn every_command_is_in_the_completions_and_the_manual() {
    let store = Store::empty();
    let commands = ["record", "replay", "stats", "dump", "ls", "rm", "doctor", "completions", "man"];
    for shell in ["bash", "zsh", "fish"] {
        let script = store.text(&["completions", shell]);
        for command in commands {
            assert!(script.contains(command), "{command} is not in the completions for {shell}");
        }
    }
    let page = store.text(&["man"]);
    assert!(page.starts_with(".ie") && page.contains(".TH relive 1"), "{page}");
    store.text(&["man", "--output", &store.path("pages").to_string_lossy()]);
    for command in commands {
        assert!(page.contains(&format!("relive\\-{command}(1)")), "{command} is not in the manual");
        let own = fs::read_to_string(store.path(&format!("pages/relive-{command}.1"))).expect("a page");
        assert!(own.contains(".SH SYNOPSIS"), "{own}");
        assert!(store.text(&["man", command]).contains(".SH SYNOPSIS"));
    }
    assert!(store.error(&["man", "nothing"]).contains("no such command"));
}

#[test]
fn the_page_of_the_command_line_is_current() {
    let store = Store::empty();
    let mut page = "# Command line\n\nMade from the definitions in `crates/cli/src/args.rs`; to make it again, run\n\n\
        ```\nRELIVE_WRITE_DOCS=1 cargo test -p relive --test reading\n```\n"
        .to_owned();
    for command in [
        "",
        "record",
        "replay",
        "races",
        "run",
        "stats",
        "dump",
        "pack",
        "unpack",
        "ls",
        "rm",
        "doctor",
        "completions",
        "man",
    ] {
        let arguments: Vec<&str> = [command, "--help"].into_iter().filter(|word| !word.is_empty()).collect();
        let help = store.command(&arguments).env("COLUMNS", "100").output().expect("relive starts").stdout;
        let help = String::from_utf8(help).expect("UTF-8");
        let lines: Vec<_> = help.lines().map(str::trim_end).collect();
        let title = ["relive", command].join(" ");
        page.extend(["\n## ", title.trim_end(), "\n\n```\n", &lines.join("\n"), "\n```\n"]);
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    if std::env::var_os("RELIVE_WRITE_DOCS").is_some() {
        fs::write(&path, &page).expect("docs/cli.md can be written");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == page, "docs/cli.md is stale: run RELIVE_WRITE_DOCS=1 cargo test -p relive --test reading");
}
