//! Programs, libraries and scripts that come and go while they are recorded, or
//! afterwards: each image of a replay is the one of its time.
//!
//! Apart from `packed.rs` because here the machine is the recording's, and only
//! some files of it are others by the time of the replay.

#[path = "trial/timed.rs"]
mod timed;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use timed::{Ended, RELIVE, run};

const LIMIT: Duration = Duration::from_secs(100);
const PROGRAM: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
int answer(void);
int main(int count, char **arguments)
{
    void *late = count > 1 ? dlopen(arguments[1], RTLD_NOW) : NULL;
    int (*other)(void) = late ? (int (*)(void))dlsym(late, "answer") : answer;
    printf(VERSION " %d %d\n", answer(), other());
    return 0;
}
"#;
/// Each program and library runs as it is then; afterwards nothing of all this is there.
const SCRIPT: &str = "
cp /bin/echo conftest; ./conftest hi; rm conftest
cp one a; cp first.so libanswer.so; ./a; cp two a; ./a; cp second.so libanswer.so; ./a
cp first.so late.so; ./a ./late.so; cp third.so late.so; ./a ./late.so
printf '#!/bin/sh\\necho made\\n' > made; chmod +x made; ./made; rm made
./old; echo $$ $RANDOM; rm -r a *.so";

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn relive(arguments: &[&str]) -> Command {
    let mut command = Command::new(RELIVE);
    command.args(arguments);
    command
}

fn compile(folder: &Path, output: &str, source: &str, options: &[&str]) {
    let file = folder.join(format!("{output}.c"));
    fs::write(&file, source).expect("a source");
    let mut compiler = Command::new("cc");
    compiler.arg("-o").arg(folder.join(output)).arg(file).args(options).current_dir(folder);
    run(&mut compiler, LIMIT).expect_code(0);
}

/// Makes a file that can be executed.
fn script(path: &Path, content: &str) {
    fs::write(path, content).expect("a script");
    run(Command::new("chmod").arg("+x").arg(path), LIMIT).expect_code(0);
}

/// Records the shell's work in `folder`, the trace beside it.
fn record(folder: &Path, command: &[&str]) -> (PathBuf, Ended) {
    let trace = folder.with_extension("trace");
    let mut record = relive(&["record", "-q", "--environment", "-o", text(&trace), "--"]);
    let recorded = run(record.args(command).current_dir(folder).env("LD_LIBRARY_PATH", folder), LIMIT).expect_code(0);
    assert_eq!(recorded.stderr, "", "{}", recorded.line);
    (trace, recorded)
}

fn replays_as(trace: &Path, recorded: &Ended) {
    let replayed = run(&mut relive(&["replay", text(trace)]), LIMIT);
    assert_eq!(replayed.text(), recorded.text(), "{}\n{}", replayed.line, replayed.stderr);
    assert_eq!((replayed.code, replayed.stderr.as_str()), (0, ""), "{}", replayed.line);
}

/// Names of the copies in a trace.
fn kept(trace: &Path) -> Vec<String> {
    let entries = fs::read_dir(trace).expect("the trace").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("kept-")).collect()
}

#[test]
fn programs_that_were_made_changed_and_removed_meanwhile() {
    let scratch = tempfile::tempdir().expect("a folder");
    let folder = scratch.path().join("work");
    fs::create_dir(&folder).expect("a folder");
    for (name, number) in [("first", 1), ("second", 2), ("third", 3)] {
        let source = format!("int answer(void) {{ return {number}; }}\n");
        compile(&folder, &format!("{name}.so"), &source, &["-shared", "-fPIC", "-Wl,-soname,libanswer.so"]);
    }
    for name in ["one", "two"] {
        compile(&folder, name, PROGRAM, &[&format!("-DVERSION=\"{name}\""), "first.so"]);
    }
    script(&folder.join("old"), "#!/bin/sh\necho old\n");
    let (trace, recorded) = record(&folder, &["bash", "-c", SCRIPT]);
    let lines = recorded.text();
    assert!(lines.starts_with("hi\none 1 1\ntwo 1 1\ntwo 2 2\ntwo 2 1\ntwo 2 3\nmade\nold\n"), "{lines}");
    fs::remove_dir_all(&folder).expect("all of it is gone");
    replays_as(&trace, &recorded);
    let file = scratch.path().join("file.relive");
    run(&mut relive(&["pack", "-q", text(&trace), "-o", text(&file)]), LIMIT).expect_code(0);
    fs::remove_dir_all(&trace).expect("so is the trace");
    let unpacked = scratch.path().join("unpacked");
    run(&mut relive(&["unpack", "-q", text(&file), text(&unpacked)]), LIMIT).expect_code(0);
    replays_as(&unpacked, &recorded);
}

#[test]
fn a_script_that_is_gone_afterwards() {
    let scratch = tempfile::tempdir().expect("a folder");
    let folder = scratch.path().join("work");
    fs::create_dir(&folder).expect("a folder");
    script(&folder.join("own"), "#!/bin/bash -u\necho $0 $# $RANDOM\n");
    for (name, command) in [("alone", &["./own", "x"][..]), ("child", &["bash", "-c", "./own x y; echo end"])] {
        let (trace, recorded) = record(&folder, command);
        let gone = folder.join("own");
        fs::rename(&gone, scratch.path().join("away")).expect("it is gone");
        replays_as(&trace, &recorded);
        fs::rename(scratch.path().join("away"), gone).expect("it is back");
        fs::rename(&trace, scratch.path().join(name)).expect("room for the next");
    }
}

#[test]
fn what_was_there_before_is_not_copied_and_missed_by_name() {
    let scratch = tempfile::tempdir().expect("a folder");
    let folder = scratch.path().join("work");
    fs::create_dir(&folder).expect("a folder");
    fs::copy("/bin/echo", folder.join("tool")).expect("a program");
    // So long the times of files are behind the clock, at most.
    std::thread::sleep(Duration::from_millis(30));
    let (trace, recorded) = record(&folder, &["sh", "-c", "./tool hi; /bin/echo end; cat /dev/null"]);
    assert_eq!(kept(&trace), Vec::<String>::new());
    replays_as(&trace, &recorded);
    let said = |code| {
        let replayed = run(&mut relive(&["replay", text(&trace)]), LIMIT).expect_code(code);
        replayed.stderr.replace(text(scratch.path()), "FOLDER")
    };
    fs::copy("/bin/cat", folder.join("tool")).expect("another program");
    let rebuilt = "FOLDER/work/tool was rebuilt or replaced since; restore it, or try --allow-rebuilt";
    assert_eq!(said(125), format!("relive: replay FOLDER/work.trace: {rebuilt}\n"));
    fs::remove_file(folder.join("tool")).expect("it is gone");
    let missing = "FOLDER/work/tool is not there any more; restore it";
    assert_eq!(said(125), format!("relive: replay FOLDER/work.trace: {missing}\n"));
}

/// Self-extracting programs, such as those of `PyInstaller`, start themselves again with such a folder of libraries. The loader looks
/// into it in vain first, and whether it was there decides where it looks later.
#[test]
fn a_folder_of_libraries_that_is_gone_was_there() {
    const USES: &str = "#include <dlfcn.h>\n#include <stdio.h>\nint answer(void);\n\
        int main(void) {\n\
            printf(\"%d %d\\n\", answer(), dlopen(\"librt.so.1\", RTLD_NOW) != 0);\n\
            return 0;\n\
        }\n";
    let scratch = tempfile::tempdir().expect("a folder");
    let folder = scratch.path().join("work");
    let libraries = folder.join("libraries");
    fs::create_dir_all(&libraries).expect("a folder");
    compile(&libraries, "libmine.so", "int answer(void) { return 42; }\n", &["-shared", "-fPIC"]);
    compile(&folder, "uses", USES, &["-Wl,--no-as-needed", "-lm", "-Llibraries", "-lmine"]);
    let line = "mkdir new; cp libraries/* new; LD_LIBRARY_PATH=$PWD/new ./uses; rm -r new";
    let (trace, recorded) = record(&folder, &["sh", "-c", line]);
    assert_eq!(recorded.text(), "42 1\n");
    replays_as(&trace, &recorded);
}

/// Both take the loader's lock: what the program looks up, and what our library does for a function's first call. A replay's main
/// thread holds it, because no input comes late any more, and waits for the other one's memory.
#[test]
fn who_looks_something_up_waits_for_no_library_that_waits_for_it() {
    const LOOKS: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
static int looks;
static void *work(void *unused) {
    for (volatile int round = 0; round < 100000000; round++) {}
    void *found = looks ? dlsym(RTLD_DEFAULT, "printf") : unused;
    pthread_setname_np(pthread_self(), "worker");
    void *memory = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    Dl_info info;
    return looks && (!found || !dladdr(found, &info) || strcmp(info.dli_sname, "printf")) ? unused : memory;
}
int main(int count, char **arguments) {
    pthread_t thread;
    char letter;
    void *result;
    looks = count > 1;
    (void)arguments;
    pthread_create(&thread, 0, work, 0);
    read(0, &letter, 1);
    void *library = dlopen("librt.so.1", RTLD_NOW);
    pthread_join(thread, &result);
    printf("%d %d\n", library != 0, result != 0);
    return 0;
}
"#;
    let scratch = tempfile::tempdir().expect("a folder");
    let folder = scratch.path().join("work");
    fs::create_dir(&folder).expect("a folder");
    compile(&folder, "looks", LOOKS, &["-pthread"]);
    for arguments in ["", "too"] {
        let (trace, recorded) = record(&folder, &["sh", "-c", &format!("(sleep 1; echo) | ./looks {arguments}")]);
        assert_eq!(recorded.text(), "1 1\n");
        (0..2).for_each(|_| replays_as(&trace, &recorded));
        fs::remove_dir_all(trace).expect("the trace");
    }
}

#[test]
fn what_the_loader_has_to_say_is_there_behind_the_first_thread() {
    const ASKS: &str = "#include <dlfcn.h>\n#include <pthread.h>\n#include <stdio.h>\n\
        static void *work(void *unused) { return unused; }\n\
        int main(void) {\n\
            pthread_t thread;\n\
            dlsym(RTLD_DEFAULT, \"nothing_of_this_name\");\n\
            pthread_create(&thread, 0, work, 0);\n\
            pthread_join(thread, 0);\n\
            puts(dlerror());\n\
            return 0;\n\
        }\n";
    let scratch = tempfile::tempdir().expect("a folder");
    let folder = scratch.path().join("work");
    fs::create_dir(&folder).expect("a folder");
    compile(&folder, "asks", ASKS, &["-pthread"]);
    let (trace, recorded) = record(&folder, &["./asks"]);
    assert_eq!(recorded.text(), "./asks: undefined symbol: nothing_of_this_name\n");
    replays_as(&trace, &recorded);
}

/// Who asks libc itself is given ours: libc's would wait for the thread, which waits for it, within a replay.
#[test]
fn a_fork_that_was_found_in_libc_holds_no_stream_up() {
    const FORKS: &str = r#"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static void *opens(void *unused) {
    for (int round = 0; round < 50; round++) {
        FILE *stream = fopen("/dev/null", "r");
        if (!stream || fclose(stream)) return opens;
    }
    return unused;
}
int main(void) {
    pthread_t thread;
    void *result;
    void *library = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    int (*forks)(void) = (int (*)(void))dlsym(library, "fork");
    int status, sum = 0;
    pthread_create(&thread, 0, opens, 0);
    for (int round = 0; round < 5; round++) {
        int child = forks();
        if (child == 0) _exit(3);
        waitpid(child, &status, 0);
        sum += WEXITSTATUS(status);
    }
    pthread_join(thread, &result);
    printf("%d %d\n", sum, result == 0);
    return 0;
}
"#;
    let scratch = tempfile::tempdir().expect("a folder");
    let folder = scratch.path().join("work");
    fs::create_dir(&folder).expect("a folder");
    compile(&folder, "forks", FORKS, &["-pthread"]);
    let (trace, recorded) = record(&folder, &["./forks"]);
    assert_eq!(recorded.text(), "15 1\n");
    replays_as(&trace, &recorded);
}
