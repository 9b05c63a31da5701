//! What threads find when they have let time pass, a replay brings about.
//!
//! Apart from the other environment tests because nothing but time orders these guests:
//! each replay may have to make a thread wait, or look once more.

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

use again::{check, check_at_once, check_mostly};
use std::path::Path;

/// The guest with these arguments.
fn with<const N: usize>(name: &'static str, arguments: [&'static str; N]) -> impl Fn(&Path) -> Vec<String> {
    move |scratch| {
        let program = guest::guest(scratch, name).to_str().expect("UTF-8").to_owned();
        std::iter::once(program).chain(arguments.map(str::to_owned)).collect()
    }
}

#[test]
fn a_thread_that_sleeps_and_looks() {
    check_mostly(true, with("lapses", ["10", "often", "sleep"]));
}

#[test]
fn others_are_held_back_by_the_learnt_order_too() {
    for mode in ["often", "futex", "child"] {
        check_at_once(with("lapses", ["10", mode, "sleep"]));
    }
}

#[test]
fn a_thread_that_waits_until_a_timeout_and_looks() {
    for way in ["poll", "ppoll", "select", "epoll"] {
        check_mostly(true, with("lapses", ["10", "often", way]));
    }
}

#[test]
fn a_thread_that_lets_time_pass_until_it_sees_something() {
    for way in ["sleep", "poll", "ppoll", "select", "epoll"] {
        check(false, with("lapses", ["30", "until", way]));
    }
}

#[test]
fn a_thread_that_waits_in_the_kernel_behind_a_lapse() {
    for way in ["sleep", "poll", "ppoll", "select", "epoll"] {
        check_mostly(false, with("lapses", ["10", "futex", way]));
        check_mostly(false, with("lapses", ["10", "child", way]));
    }
}

#[test]
fn a_thread_that_looks_without_any_call_behind_a_lapse() {
    for way in ["sleep", "poll"] {
        check_mostly(false, with("lapses", ["10", "spin", way]));
    }
}

#[test]
fn a_thread_that_looks_at_the_clock_until_it_sees_something() {
    for way in ["sleep", "yield", "spin", "counter", "poll"] {
        check_mostly(true, with("deadlines", ["10", way]));
    }
}
