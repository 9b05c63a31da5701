//! What lies on the stack below a program's own frames: our code leaves nothing there that a replay has otherwise.
//!
//! Apart from the other environments because these programs look where none should.

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
fn each_operation_leaves_the_same() {
    let printed = check(true, guest_with("leftovers", &[]));
    // What the processor leaves out of one depends on when the kernel turned to other threads.
    assert!(printed.ends_with("headers 0\n"), "{printed}");
}

/// Its collector keeps what a stack seems to point to, and says how much that is.
#[test]
fn a_collector_that_looks_through_stacks() {
    const TEXT: &str = "class A; def initialize(x) @x = x end end; a = (1..3000).map { |i| A.new(i.to_s * 7) }\n\
        3.times { GC.start; a = a.select.with_index { |_, i| i % 3 > 0 } }; p ObjectSpace.count_objects, a.size\n\
        p Time.now.to_f";
    check(true, words(&["ruby", "-e", TEXT]));
}
