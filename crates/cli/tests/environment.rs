//! Recordings with their environment: replays with the inputs gone, another
//! environment and other limits print the same, and touch nothing.
//!
//! Apart from the guests because these are judged by what was changed between the
//! recording and the replay.

#[path = "environment/again.rs"]
mod again;
#[path = "trial/dice.rs"]
mod dice;
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
