//! `relive doctor` on small programs that synchronise in ways the recorder can't see.
//!
//! Compiled here, because what is looked at is what the compiler and linker of
//! this machine make; what they leave open is not compared.

use assert_cmd::Command;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

struct Workshop {
    folder: tempfile::TempDir,
}

impl Workshop {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    fn build(&self, compiler: &str, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let file = self.folder.path().join(format!("{name}.{}", if compiler == "g++" { "cpp" } else { "c" }));
        let program = self.folder.path().join(name);
        fs::write(&file, source).expect("a source file");
        let mut command = Command::new(compiler);
        command.arg("-O1").arg("-o").arg(&program).arg(&file).args(flags);
        command.assert().success();
        program
    }
}

/// Exit status and report.
fn doctor(program: &Path) -> (i32, Value) {
    let mut command = Command::cargo_bin("relive").expect("the binary");
    let output = command.args(["doctor", "--json"]).arg(program).output().expect("relive starts");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    (output.status.code().expect("no signal"), serde_json::from_slice(&output.stdout).expect("JSON"))
}

/// The verdicts about something, as level and text.
fn verdicts<'a>(report: &'a Value, about: &str) -> Vec<(&'a str, &'a str)> {
    let all = report["program"]["verdicts"].as_array().expect("verdicts");
    let text = |verdict: &'a Value, name: &str| verdict[name].as_str().expect("a string");
    all.iter().filter(|v| v["about"] == about).map(|v| (text(v, "level"), text(v, "text"))).collect()
}

const ATOMICS: &str = r"
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>
static int word;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
int main(void) {
    __atomic_fetch_add(&word, 2, __ATOMIC_SEQ_CST);
    __atomic_exchange_n(&word, 0, __ATOMIC_SEQ_CST);
    pthread_mutex_lock(&mutex);
    syscall(SYS_futex, &word, FUTEX_WAKE, 1, 0, 0, 0);
    syscall(SYS_getpid);
    pthread_mutex_unlock(&mutex);
    return 0;
}
";

#[test]
fn atomics_and_futexes_are_counted() {
    let workshop = Workshop::new();
    for (name, flags) in [("stub", &["-pthread"][..]), ("direct", &["-pthread", "-fno-plt", "-Wl,-z,now"])] {
        let (code, report) = doctor(&workshop.build("gcc", name, ATOMICS, flags));
        assert_eq!(code, 0, "{report}");
        let main = &report["program"]["modules"][0];
        assert_eq!((&main["code"]["locked"], &main["code"]["exchanges"]), (&1.into(), &1.into()), "{name}: {main}");
        assert_eq!(main["code"]["futexes"], 1, "{name}: {main}");
        let imports = main["imports"].as_array().expect("imports");
        let treatment = |name: &str| imports.iter().find(|i| i["name"] == name).map(|i| i["treatment"].clone());
        assert_eq!(treatment("pthread_mutex_lock"), Some("ordered".into()));
        assert_eq!(treatment("syscall"), Some("unordered".into()));
        assert_eq!(verdicts(&report, "futex").len(), 1, "{report}");
        let (level, text) = verdicts(&report, "atomics")[0];
        assert_eq!(level, "note");
        assert!(text.contains("--level atomics orders what they hand over; plain accesses"), "{text}");
    }
}

#[test]
fn a_static_program_cannot_be_recorded() {
    let workshop = Workshop::new();
    let program = workshop.build("gcc", "static", "int main(void) { return 0; }", &["-static"]);
    let (code, report) = doctor(&program);
    assert_eq!((code, &report["recordable"]), (1, &false.into()));
    let fatal = verdicts(&report, "not-recordable");
    assert!(fatal.len() == 1 && fatal[0].0 == "fatal" && fatal[0].1.contains("statically linked"), "{fatal:?}");
}

#[test]
fn static_guards_inside_a_program_are_named_even_if_stripped() {
    const GUARD: &str = r#"
        #include <cstdio>
        #include <string>
        struct Noisy { std::string text; Noisy() { std::puts("made"); } };
        Noisy &noisy() { static Noisy one; return one; }
        int main() { return static_cast<int>(noisy().text.size()); }
    "#;
    let workshop = Workshop::new();
    for (name, flags, inside) in [
        ("shared", &[][..], false),
        ("linked-in", &["-static-libstdc++", "-static-libgcc"], true),
        ("stripped", &["-static-libstdc++", "-static-libgcc", "-s"], true),
        ("shared-stripped", &["-s"], false),
    ] {
        let (code, report) = doctor(&workshop.build("g++", name, GUARD, flags));
        assert_eq!(code, 0);
        assert_eq!(!verdicts(&report, "guards").is_empty(), inside, "{name}: {report}");
    }
}

#[test]
fn a_program_that_shadows_a_symbol_is_warned_of() {
    const OWN: &str = r"
        #include <pthread.h>
        int pthread_mutex_lock(pthread_mutex_t *mutex) { (void)mutex; return 0; }
        int main(void) { pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; return pthread_mutex_lock(&m); }
    ";
    let (_, report) = doctor(&Workshop::new().build("gcc", "own", OWN, &["-rdynamic"]));
    let found = verdicts(&report, "defines");
    assert!(found.len() == 1 && found[0].0 == "warning" && found[0].1.contains("pthread_mutex_lock"), "{found:?}");
}

#[test]
fn libraries_of_libraries_are_found_by_their_run_path() {
    let workshop = Workshop::new();
    let folder = workshop.folder.path().to_string_lossy().into_owned();
    let inner = "#include <pthread.h>\npthread_barrier_t b; int inner(void) { return pthread_barrier_wait(&b); }";
    workshop.build("gcc", "libinner.so", inner, &["-shared", "-fPIC"]);
    let outer = "int inner(void); int outer(void) { return inner(); }";
    let path = format!("-L{folder}");
    workshop.build("gcc", "libouter.so", outer, &["-shared", "-fPIC", &path, "-linner", "-Wl,-rpath,$ORIGIN"]);
    let main = "int outer(void); int main(void) { return outer(); }";
    let flags = [&path, "-louter", "-Wl,-rpath,$ORIGIN", "-Wl,--allow-shlib-undefined"];
    let program = workshop.build("gcc", "main", main, &flags);
    let (_, report) = doctor(&program);
    let modules = report["program"]["modules"].as_array().expect("modules");
    let inner = modules.iter().find(|m| m["path"].as_str().is_some_and(|path| path.ends_with("libinner.so")));
    let inner = inner.unwrap_or_else(|| panic!("{report}"));
    assert_eq!(inner["imports"][0]["name"], "pthread_barrier_wait");
    assert_eq!(report["program"]["missing"], serde_json::json!([]));
    fs::remove_file(workshop.folder.path().join("libinner.so")).expect("removed");
    let (_, report) = doctor(&program);
    assert_eq!(report["program"]["missing"], serde_json::json!(["libinner.so"]));
    assert_eq!(verdicts(&report, "missing").len(), 1);
}

#[test]
fn a_program_for_another_processor_is_told_as_recording_it_would() {
    let workshop = Workshop::new();
    let program = workshop.build("gcc", "narrow", "int main(void) { return 0; }", &[]);
    let mut content = fs::read(&program).expect("the program");
    // The class of a 32-bit file.
    content[4] = 1;
    fs::write(&program, content).expect("the program");
    for command in ["doctor", "record"] {
        let mut relive = Command::cargo_bin("relive").expect("the binary");
        let output = relive.arg(command).arg(&program).output().expect("relive starts");
        let line = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(line.contains(": it is not a 64-bit x86 program; build it for x86-64"), "{line}");
        assert_eq!((output.status.code(), line.lines().count()), (Some(125), 1), "{line}");
    }
}

#[test]
fn what_is_no_program_gets_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = folder.path().join("text");
    fs::write(&text, "hello").expect("a file");
    for name in [text.as_path(), Path::new("relive-no-such-program")] {
        let mut command = Command::cargo_bin("relive").expect("the binary");
        let output = command.arg("doctor").arg(name).output().expect("relive starts");
        let line = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), line.lines().count()), (Some(125), 1), "{line}");
        assert!(output.stdout.is_empty());
    }
}
