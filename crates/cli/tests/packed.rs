//! Packed traces: replayed where neither program nor libraries are, looked at with
//! gdb, and refused where something is wrong with them.

#[path = "environment/guest.rs"]
mod guest;
#[path = "packed/site.rs"]
mod site;
#[path = "trial/timed.rs"]
mod timed;

use insta::assert_snapshot;
use relive_trace::manifest::Manifest;
use site::{Site, jail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use timed::{Ended, RELIVE, run};

const LIMIT: Duration = Duration::from_secs(100);

fn relive(arguments: &[&str]) -> Command {
    let mut command = Command::new(RELIVE);
    command.args(arguments);
    command
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// What `relive` says to `arguments`, with `folder` as `FOLDER`.
fn said(arguments: &[&str], folder: &Path) -> String {
    let ended = run(relive(arguments).env("XDG_CACHE_HOME", folder.join("cache")), LIMIT).expect_code(125);
    ended.stderr.replace(text(folder), "FOLDER")
}

/// A recording in `scratch/trace`.
fn record(scratch: &Path, options: &[&str], command: &[&str]) -> Ended {
    let mut record = relive(&["record", "-q", "-o", text(&scratch.join("trace"))]);
    let recorded = run(record.args(options).arg("--").args(command).current_dir(scratch), LIMIT);
    assert_eq!(recorded.stderr, "", "{}", recorded.line);
    recorded
}

/// A recording of a process tree on a site that is gone afterwards, packed.
fn packed(scratch: &Path) -> (PathBuf, Ended) {
    let site = Site::build(&scratch.join("site"));
    let recorded = record(scratch, &["--environment"], &["sh", "-c", site.script()]).expect_code(35);
    let file = scratch.join("file.relive");
    let done = run(&mut relive(&["pack", text(&scratch.join("trace")), "-o", text(&file)]), LIMIT).expect_code(0);
    assert!(done.stderr.starts_with("relive: packed ") && done.stderr.lines().count() == 1, "{}", done.stderr);
    fs::remove_dir_all(scratch.join("site")).expect("the site is gone");
    fs::remove_dir_all(scratch.join("trace")).expect("the trace is gone");
    (file, recorded)
}

fn same(replayed: &Ended, recorded: &Ended) {
    assert_eq!(replayed.text(), recorded.text(), "{}\n{}", replayed.line, replayed.stderr);
    assert_eq!(replayed.code, recorded.code, "{}\n{}", replayed.line, replayed.stderr);
}

#[test]
fn a_packed_trace_replays_where_nothing_of_its_program_is() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (file, recorded) = packed(scratch.path());
    for length in [1, 1, 150] {
        let cache = scratch.path().join("c".repeat(length));
        let mut replay = relive(&["replay", text(&file)]);
        same(&run(replay.env("XDG_CACHE_HOME", cache).current_dir("/"), LIMIT), &recorded);
    }
    let unpacked = scratch.path().join("unpacked");
    run(&mut relive(&["unpack", text(&file), text(&unpacked)]), LIMIT).expect_code(0);
    same(&run(&mut relive(&["replay", text(&unpacked)]), LIMIT), &recorded);
    let again = scratch.path().join("again.relive");
    run(&mut relive(&["pack", text(&unpacked), "-o", text(&again)]), LIMIT).expect_code(0);
    same(&run(&mut relive(&["replay", text(&again)]), LIMIT), &recorded);
    if let Some(mut replay) = jail(&scratch.path().join("jail"), &file) {
        same(&run(&mut replay, LIMIT), &recorded);
    }
}

#[test]
fn reading_commands_take_a_packed_trace() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (file, _) = packed(scratch.path());
    for command in ["dump", "stats"] {
        let read = |arguments: &[&str]| {
            run(relive(arguments).env("XDG_CACHE_HOME", scratch.path()).env("RELIVE_TRACE_DIR", scratch.path()), LIMIT)
                .expect_code(0)
                .text()
        };
        let by_path = read(&[command, text(&file)]);
        assert!(by_path.contains("thread") && by_path == read(&[command, "file.relive"]), "{by_path}");
    }
}

/// gdb tells which files the replayed process has mapped.
#[test]
fn gdb_finds_symbols_in_a_packed_trace_and_nothing_of_the_machine_is_mapped() {
    let scratch = tempfile::tempdir().expect("a folder");
    let site = Site::build(&scratch.path().join("site"));
    let recorded = record(scratch.path(), &["--environment"], &site.program()).expect_code(35);
    let file = scratch.path().join("file.relive");
    run(&mut relive(&["pack", text(&scratch.path().join("trace")), "-o", text(&file)]), LIMIT).expect_code(0);
    fs::remove_dir_all(scratch.path().join("site")).expect("the site is gone");
    let mut gdb = relive(&["replay", "--gdb", "--gdb-batch", text(&file)]);
    for command in ["set breakpoint pending on", "break plugged", "run", "backtrace", "info proc mappings", "continue"]
    {
        gdb.args(["--gdb-command", command]);
    }
    let cache = fs::canonicalize(scratch.path()).expect("a folder").join("cache");
    let ended = run(gdb.env("XDG_CACHE_HOME", &cache), LIMIT);
    let said = ended.text();
    for words in ["plugged (number=60)", "in main (count=", "packed_library.c"] {
        assert!(said.contains(words), "gdb never said `{words}`: {said}\n{}", ended.stderr);
    }
    let mapped = said.lines().filter(|line| line.trim_start().starts_with("0x"));
    let files: Vec<&str> =
        mapped.filter_map(|line| line.split_whitespace().find(|part| part.starts_with('/'))).collect();
    let strange = files.iter().find(|path| !path.starts_with(text(&cache)) && !path.starts_with("/memfd:"));
    assert!(files.len() > 10 && strange.is_none(), "{strange:?} of {files:?}");
    for line in recorded.text().lines() {
        assert!(said.contains(line), "`{line}` of the recording is missing: {said}\n{}", ended.stderr);
    }
}

#[test]
fn what_would_not_replay_is_not_packed() {
    let scratch = tempfile::tempdir().expect("a folder");
    let folder = scratch.path();
    let site = Site::build(&folder.join("site"));
    let (trace, file) = (folder.join("trace"), folder.join("file.relive"));
    let pack = || said(&["pack", text(&trace), "-o", text(&file)], folder);
    record(folder, &[], &["true"]);
    assert_snapshot!(pack(), @"relive: pack FOLDER/trace: it was recorded without --environment, so a replay reads this machine's files again; record with it");
    fs::remove_dir_all(&trace).expect("a trace");
    record(folder, &["--environment"], &site.program());
    let (library, plugin) = (folder.join("site/lib/libtwice.so"), folder.join("site/lib/plugin.so"));
    fs::File::options().append(true).open(&library).and_then(|file| file.set_len(40_000)).expect("a library");
    assert_snapshot!(pack(), @"relive: pack FOLDER/trace: FOLDER/site/bin/../lib/libtwice.so was rebuilt or replaced since the recording; restore it or record again");
    fs::remove_file(&library).expect("a library");
    assert_snapshot!(pack(), @"relive: pack FOLDER/trace: FOLDER/site/bin/../lib/libtwice.so: No such file or directory (os error 2); restore it or record again");
    fs::rename(plugin, library).expect("a library");
    fs::remove_file(trace.join("opened.list")).expect("a list");
    assert_snapshot!(pack(), @"relive: pack FOLDER/trace: which files it needs can't be told: its list of files: No such file or directory (os error 2); record again");
    fs::write(&file, "").expect("a file");
    assert_snapshot!(pack(), @"relive: write FOLDER/file.relive: it exists already; remove it or name another file with -o");
}

#[test]
fn a_damaged_packed_trace_is_refused_before_anything_is_unpacked() {
    let scratch = tempfile::tempdir().expect("a folder");
    let folder = scratch.path();
    record(folder, &["--environment"], &["true"]);
    let file = folder.join("file.relive");
    run(&mut relive(&["pack", text(&folder.join("trace")), "-o", text(&file)]), LIMIT).expect_code(0);
    let whole = fs::read(&file).expect("a packed trace");
    let replay = |bytes: &[u8]| {
        fs::write(&file, bytes).expect("a packed trace");
        let said = said(&["replay", text(&file)], folder);
        assert!(!folder.join("cache/relive/unpacked").exists(), "{said}");
        said.replace(&bytes.len().to_string(), "FOUND").replace(&whole.len().to_string(), "WHOLE")
    };
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    assert_snapshot!(replay(&whole[..whole.len() - 1]), @"relive: read FOLDER/file.relive: it has FOUND bytes instead of WHOLE; copy it again");
    assert_snapshot!(replay(&whole[..50]), @"relive: read FOLDER/file.relive: its head is damaged; name a file that `relive pack` made");
    assert_snapshot!(replay(&flipped(whole.len() / 2)), @"relive: read FOLDER/file.relive: its checksum differs from the one it was packed with; copy it again");
    assert_snapshot!(replay(&flipped(30)), @"relive: read FOLDER/file.relive: its head is damaged; name a file that `relive pack` made");
    assert_snapshot!(replay(b"something else"), @"relive: read FOLDER/file.relive: it is no packed trace; name a file that `relive pack` made");
}

#[test]
fn what_was_unpacked_and_changed_since_is_not_used() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (file, recorded) = packed(scratch.path());
    let cache = fs::canonicalize(scratch.path()).expect("a folder").join("cache");
    let replay = || run(relive(&["replay", text(&file)]).env("XDG_CACHE_HOME", &cache), LIMIT);
    // What a killed process left is neither used nor kept.
    let mut gone = Command::new("true").spawn().expect("a process");
    gone.wait().expect("its end");
    let unpacked = cache.join("relive/unpacked");
    let left = unpacked.join(format!(".unpack.{}.x", gone.id()));
    fs::create_dir_all(&left).expect("a folder");
    same(&replay(), &recorded);
    assert!(!left.exists());
    let folder = fs::read_dir(&unpacked).expect("a cache").next().expect("a trace").expect("a trace").path();
    let library = folder.join("files").join(scratch.path().strip_prefix("/").expect("full")).join("site/lib/plugin.so");
    fs::write(&library, "x").expect("a library");
    let refused =
        replay().expect_code(125).stderr.replace(text(&folder), "TRACE").replace(text(scratch.path()), "FOLDER");
    assert_snapshot!(refused, @"relive: read FOLDER/site/lib/plugin.so packed in TRACE: it was changed or removed; remove the folder and unpack it again");
}

#[test]
fn a_recording_of_a_better_processor_is_refused_unless_wanted() {
    let scratch = tempfile::tempdir().expect("a folder");
    let folder = scratch.path();
    let trace = folder.join("trace");
    for (options, refused) in [(&["--environment"][..], true), (&[], false)] {
        record(folder, options, &["true"]);
        let mut manifest = Manifest::read(&trace).expect("a manifest");
        manifest.host.processor = "Better".to_owned();
        manifest.host.features.extend(["avx512_of_tomorrow", "nicer_sleep", "apx_f"].map(str::to_owned));
        manifest.write(&trace).expect("a manifest");
        if refused {
            let said = said(&["replay", text(&trace)], folder);
            let here = relive_session::binary::host().processor;
            assert_snapshot!(said.replace(&format!("({here})"), "(HERE)"), @"relive: replay FOLDER/trace: this processor (HERE) lacks avx512_of_tomorrow, apx_f, which the recording's (Better) had; replay it on a processor with them, or try --allow-processor");
            run(&mut relive(&["replay", "--allow-processor", text(&trace)]), LIMIT).expect_code(0);
        } else {
            run(&mut relive(&["replay", text(&trace)]), LIMIT).expect_code(0);
        }
        fs::remove_dir_all(&trace).expect("a trace");
    }
}

#[test]
fn a_replay_is_told_of_the_machine_what_the_recording_was() {
    const AT_MINSIGSTKSZ: u64 = 51;
    let scratch = tempfile::tempdir().expect("a folder");
    let (trace, site) = (scratch.path().join("trace"), Site::build(&scratch.path().join("site")));
    // What the program prints of it is not held against the recording where variables are hidden.
    let options = ["--environment", "--redact-env", "NONE"];
    let recorded = record(scratch.path(), &options, &site.program()).expect_code(35);
    let mut manifest = Manifest::read(&trace).expect("a manifest");
    let told = &mut manifest.start.as_mut().expect("a start").told;
    let entry = told.iter_mut().find(|(kind, _)| *kind == AT_MINSIGSTKSZ).expect("a kernel that says it");
    let (here, there) = (entry.1, entry.1 ^ 1);
    entry.1 = there;
    manifest.write(&trace).expect("a manifest");
    let replayed = run(&mut relive(&["replay", text(&trace)]), LIMIT).expect_code(35);
    assert_eq!(replayed.text(), recorded.text().replace(&format!("as {here} "), &format!("as {there} ")));
}
