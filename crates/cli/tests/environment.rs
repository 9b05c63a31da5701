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

use again::{check, guest_with, words};

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
