//! Programs that failed once, each named after what it found.
//!
//! Apart from the random cases because they are always tried, and more often: a
//! failure may need a certain order of the recorded run.

use crate::trial;

/// Recordings of each.
const RECORDINGS: usize = 6;

fn stays_right(text: &str) {
    let interpreter = trial::interpreter();
    for _ in 0..RECORDINGS {
        if let Err(cause) = trial::check(&interpreter, text) {
            panic!("program {text}\n{cause}");
        }
    }
}

/// Readers of one lock share a timestamp: the learnt order may have one wait for the other.
#[test]
fn readers_with_equal_timestamps() {
    stays_right("T0{I2{I3{R0{N2}}}C0}I2{I2{R0{}}}");
}

/// Who takes over the mutex of a thread that was joined comes after that thread's destructors.
#[test]
fn dead_owner_that_was_joined() {
    stays_right("I2{T0{T0{K0e0}C0}}");
}

/// Destructors of a detached thread that the end of the process stopped: the thread had left its start routine.
#[test]
fn destructors_cut_off_by_the_end() {
    stays_right("I6{d0{K0K1}}I2{L6{}}");
}

/// A thread of a fork child on the stack of one that ran destructors in its parent: glibc leaves it that one's data.
#[test]
fn data_of_a_stack_that_is_used_again() {
    stays_right("T0{K0K1}T0{K0K1}T0{K0K1}X0{T0{K0}T0{K0}T0{K0}}T0{K0K1}T0{K0K1}X0{T0{K0}T0{K0}T0{K0}}");
}
