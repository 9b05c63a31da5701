//! Programs that become another user: what they start then is recorded, although that
//! user can read neither the trace nor the recorder's own files.
//!
//! Apart from `environment.rs` because these tests need to be root, and rights of
//! files that others must not have.

#[path = "environment/guest.rs"]
mod guest;
#[path = "trial/timed.rs"]
mod timed;

use guest::guest;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use timed::{Ended, RELIVE, run};

const LIMIT: Duration = Duration::from_secs(100);

/// A folder that everybody may enter, with the program that everybody may run, and what only root may read: a file, and
/// the cache that the recorder's own files are in.
struct Place {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Place {
    fn new() -> Self {
        assert!(rustix::process::geteuid().is_root(), "run this test as root: its programs become other users");
        let folder = tempfile::tempdir().expect("a folder");
        let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).expect("its mode");
        set(folder.path(), 0o755);
        let program = guest(folder.path(), "other_user");
        set(&program, 0o755);
        let secret = folder.path().join("secret");
        fs::write(&secret, "secret").expect("a file");
        set(&secret, 0o600);
        let cache = folder.path().join("cache");
        fs::create_dir(&cache).expect("a folder");
        set(&cache, 0o700);
        Self { folder, program }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    fn relive(&self, arguments: &[&str]) -> Ended {
        run(Command::new(RELIVE).args(arguments).env("XDG_CACHE_HOME", self.path("cache")), LIMIT)
    }

    /// Records the program, started by `front`, in the way that `more` says.
    fn record(&self, how: &[&str], front: &[&str], more: &[&str]) -> Ended {
        let (trace, program, secret) = (self.path("trace"), self.path("other_user"), self.path("secret"));
        assert!(self.program.exists());
        let whole = [&["record", "-q"], how, &["-o", &trace, "--"], front, &[&program, &secret], more].concat();
        self.relive(&whole)
    }

    fn replays_as(&self, recorded: &Ended) {
        for _ in 0..2 {
            let replayed = self.relive(&["replay", &self.path("trace")]);
            assert_eq!(replayed.text(), recorded.text(), "{}\n{}", replayed.line, replayed.stderr);
            assert_eq!((replayed.code, replayed.stderr.as_str()), (recorded.code, ""), "{}", replayed.line);
        }
    }
}

const ENVIRONMENT: &[&str] = &["--environment"];
const OTHER: &[&str] = &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

#[test]
fn what_another_user_starts_is_recorded_however_it_is_started() {
    let place = Place::new();
    let recorded = place.record(ENVIRONMENT, &[], &[]).expect_code(7);
    assert_eq!(recorded.stderr, "", "{}", recorded.line);
    let text = recorded.text();
    for what in ["fork", "fork of a fork", "execve", "shell", "shell_exec", "raw", "execveat", "posix_spawn", "system"]
    {
        let told = format!("{what}: user 65534 group 65534 secret Permission denied drawn ");
        assert!(text.lines().any(|line| line.starts_with(&told) && line.ends_with("preload unset")), "{what}\n{text}");
    }
    // A replay is root, and has other random bytes, wherever something was not recorded.
    place.replays_as(&recorded);
    let packed = place.path("packed");
    let said = place.relive(&["pack", &place.path("trace"), "-o", &packed]).expect_code(0);
    assert!(!said.stderr.contains("not recorded"), "{}", said.stderr);
}

#[test]
fn a_program_that_is_only_started_by_another_user_is_recorded() {
    let place = Place::new();
    let recorded = place.record(ENVIRONMENT, OTHER, &["started"]).expect_code(7);
    assert_eq!(recorded.stderr, "", "{}", recorded.line);
    assert!(recorded.text().starts_with("started: user 65534"), "{}", recorded.text());
    place.replays_as(&recorded);
}

/// What the recorder said, without the number of the process.
fn said(recorded: &Ended) -> Vec<String> {
    let lines = recorded.stderr.lines().map(|line| {
        let (front, rest) = line.split_once("process ").unwrap_or(("", line));
        format!("{front}{}", rest.trim_start_matches(|c: char| c.is_ascii_digit()))
    });
    lines.collect()
}

#[test]
fn what_cannot_be_recorded_is_said_and_the_replay_of_the_rest_comes_to_its_end() {
    let place = Place::new();
    let program = place.path("other_user");
    let cases: [(&[&str], String); 2] = [
        // There the recorder has no name.
        (
            &["unshare", "-n", "setpriv", "--reuid=65534", "--clear-groups"],
            "user 65534 can't open the recorder's files".to_owned(),
        ),
        (
            &["setpriv", "--euid=65534", "--clear-groups"],
            "real and effective user or group differ, so preloading is switched off".to_owned(),
        ),
    ];
    for (front, why) in cases {
        let recorded = place.record(ENVIRONMENT, front, &["alone"]).expect_code(7);
        assert_eq!(said(&recorded), [format!("relive: : {program} is not recorded: {why}")], "{}", recorded.line);
        assert!(recorded.text().ends_with("preload unset\n"), "{}", recorded.text());
        let replayed = place.relive(&["replay", &place.path("trace")]).expect_code(7);
        // It is not run with the rights of whoever replays.
        assert_eq!(said(&replayed), [format!("relive: : {program} was not recorded and is not started")]);
        assert_eq!(replayed.text(), "", "{}", replayed.line);
        fs::remove_dir_all(place.path("trace")).expect("the trace");
    }
}

#[test]
fn who_waits_for_what_is_not_recorded_goes_on() {
    let place = Place::new();
    let (program, secret) = (place.path("other_user"), place.path("secret"));
    let script = "setpriv --euid=65534 --clear-groups $0 $1 child; echo $? $(head -c 1000 /dev/urandom | cksum)";
    let trace = place.path("trace");
    let record = ["record", "-q", "--environment", "-o", &trace, "--", "sh", "-c", script, &program, &secret];
    let recorded = place.relive(&record).expect_code(0);
    let (text, first) = (recorded.text(), "child: user 65534 group 0 secret Permission denied");
    let (child, rest) = text.split_once('\n').expect("two lines");
    assert!(child.starts_with(first) && rest.starts_with("7 "), "{text}");
    let replayed = place.relive(&["replay", &trace]).expect_code(0);
    assert_eq!(said(&replayed), [format!("relive: : {program} was not recorded and is not started")]);
    assert_eq!(replayed.text(), rest);
    // There the end of a process is told before it comes.
    let searched = place.relive(&["races", "-q", &trace]).expect_code(0);
    assert!(!searched.text().contains("left its recording"), "{}", searched.text());
}

#[test]
fn without_the_environment_forks_are_recorded_and_programs_are_not() {
    let place = Place::new();
    let recorded = place.record(&[], &[], &[]).expect_code(7);
    let line = "relive: : the program that it starts is not recorded: user 65534 can't open the recorder's files";
    // The calls by their numbers pass us by.
    assert_eq!(said(&recorded), [line; 5], "{}", recorded.line);
    // In this way a recorded program sees the variable, and no other does.
    let seen = |line: &&str| line.ends_with("preload set");
    let text = recorded.text();
    let seen: Vec<_> = text.lines().filter(seen).filter_map(|line| line.split(':').next()).collect();
    assert_eq!(seen, ["before", "after", "fork", "fork of a fork"], "{text}");
    let replayed = place.relive(&["replay", &place.path("trace")]).expect_code(7);
    assert_eq!(replayed.stderr, "", "{}", replayed.line);
    assert_eq!(replayed.text().lines().count(), recorded.text().lines().count(), "{}", replayed.text());
}

/// Varnish compiles its configuration into a library so, which another user loads, and removes it at its end.
#[test]
fn what_is_made_for_another_user_and_removed_is_kept() {
    const MADE: &str = "#include <stdio.h>\nint main(void) { puts(\"a made program\"); return 3; }\n";
    const LIBRARY: &str = "int answer(void) { return 42; }\n";
    const LOADS: &str = "#include <dlfcn.h>\n#include <stdio.h>\n#include <unistd.h>\n\
        int main(int argc, char **argv) {\n\
            if (argc != 2 || setuid(65534) != 0) return 1;\n\
            void *library = dlopen(argv[1], RTLD_NOW);\n\
            int (*answer)(void) = library ? (int (*)(void))dlsym(library, \"answer\") : 0;\n\
            if (!answer) return 2;\n\
            printf(\"%d\\n\", answer());\n\
            return 0;\n\
        }\n";
    let place = Place::new();
    for (name, text) in [("made.c", MADE), ("answer.c", LIBRARY), ("loads.c", LOADS)] {
        fs::write(place.path(name), text).expect("a source");
    }
    let script = format!(
        "cd {}; cc -o made made.c; cc -shared -fPIC -o answer.so answer.c; cc -o loads loads.c\n\
         echo '#!/bin/sh\necho a script' > script; chmod 755 made answer.so script\n\
         {other} ./made; echo $?; {other} ./script; ./loads ./answer.so; rm made answer.so loads script",
        place.folder.path().display(),
        other = OTHER.join(" ")
    );
    let trace = place.path("trace");
    let record = ["record", "-q", "--environment", "-o", &trace, "--", "sh", "-c", &script];
    let recorded = place.relive(&record).expect_code(0);
    assert_eq!(recorded.text(), "a made program\n3\na script\n42\n");
    place.replays_as(&recorded);
}
