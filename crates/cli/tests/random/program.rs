//! What a random program is made of, and how one is drawn.
//!
//! Apart from its text because any tree drawn or shrunk here is a program: the
//! rules that keep it from deadlock are applied when it is written down.

use proptest::collection::vec;
use proptest::prelude::{BoxedStrategy, Just, Strategy, any, prop_oneof};

/// Threads within threads, processes within threads.
const DEPTH: u32 = 3;

/// What can be held. The order is the rank: one waits only for what ranks above all that one holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Object {
    Mutex(u8),
    OfGroup,
    /// In memory that all processes share; the second is robust.
    OfAll(u8),
    Read(u8),
    Write(u8),
    Semaphore(u8),
    Spin(u8),
    Stream,
}

/// How one asks for it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    Wait,
    Try,
    /// Microseconds; an odd number picks the call that names its clock.
    Timed(u16),
}

/// An operation.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Hold {
        object: Object,
        how: How,
        body: Vec<Op>,
    },
    Repeat {
        times: u8,
        body: Vec<Op>,
    },
    /// `variant` is by which call.
    Thread {
        detached: bool,
        variant: u8,
        body: Vec<Op>,
    },
    /// A thread that is cancelled once the body was run, if it has not ended after so many rounds.
    Cancelled {
        rounds: u8,
        body: Vec<Op>,
    },
    /// Each member's operations before, between and behind its meetings.
    Group {
        by_hand: bool,
        members: Vec<[Vec<Op>; 3]>,
    },
    Process {
        made: Made,
        body: Vec<Op>,
    },
    Take {
        condition: u8,
    },
    Give {
        condition: u8,
        inside: bool,
    },
    WaitOnce {
        condition: u8,
        micros: u16,
    },
    Notify {
        condition: u8,
        all: bool,
    },
    TakeToken,
    GiveToken,
    Value(u8),
    Once(u8),
    Static(u8),
    Key(u8),
    Random,
    Print,
    Sleep(u8),
    Spin(u8),
    UnlockNotHeld(u8),
    Join,
    TryJoin(u16),
    EndHolding,
    Quit,
}

/// How a process begins and ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Made {
    ForkedAndExits,
    ForkedAndLeaves,
    Spawned,
}

/// A program: what its main thread does.
pub(crate) fn program() -> BoxedStrategy<Vec<Op>> {
    ops(DEPTH, 1..8)
}

fn ops(depth: u32, size: std::ops::Range<usize>) -> BoxedStrategy<Vec<Op>> {
    vec(op(depth), size).boxed()
}

fn op(depth: u32) -> BoxedStrategy<Op> {
    if depth == 0 {
        return prop_oneof![2 => simple(), 3 => hold(0)].boxed();
    }
    let deeper = || ops(depth - 1, 1..6);
    let repeated = (2..6u8, deeper()).prop_map(|(times, body)| Op::Repeat { times, body });
    let thread = (prop_oneof![3 => Just(false), 1 => Just(true)], 0..3u8, ops(depth - 1, 2..7));
    let thread = thread.prop_map(|(detached, variant, body)| Op::Thread { detached, variant, body });
    let cancelled = (0..8u8, deeper()).prop_map(|(rounds, body)| Op::Cancelled { rounds, body });
    let segments = (ops(depth - 1, 0..3), ops(depth - 1, 0..3), ops(depth - 1, 0..3));
    let member = segments.prop_map(|(before, between, behind)| [before, between, behind]);
    let group = (any::<bool>(), vec(member, 2..5)).prop_map(|(by_hand, members)| Op::Group { by_hand, members });
    let made = prop_oneof![3 => Just(Made::ForkedAndLeaves), 3 => Just(Made::ForkedAndExits), 1 => Just(Made::Spawned)];
    let process = (made, deeper()).prop_map(|(made, body)| Op::Process { made, body });
    prop_oneof![
        12 => simple(),
        12 => hold(depth - 1),
        8 => repeated,
        12 => thread,
        4 => group,
        1 => cancelled,
        2 => process,
    ]
    .boxed()
}

fn hold(depth: u32) -> BoxedStrategy<Op> {
    let how = prop_oneof![4 => Just(How::Wait), 1 => Just(How::Try), 1 => micros().prop_map(How::Timed)];
    let body = if depth == 0 { vec(simple(), 0..3).boxed() } else { ops(depth - 1, 0..4) };
    (object(), how, body).prop_map(|(object, how, body)| Op::Hold { object, how, body }).boxed()
}

fn object() -> impl Strategy<Value = Object> {
    prop_oneof![
        8 => (0..8u8).prop_map(Object::Mutex),
        1 => Just(Object::OfGroup),
        2 => (0..2u8).prop_map(Object::OfAll),
        2 => (0..2u8).prop_map(Object::Read),
        1 => (0..2u8).prop_map(Object::Write),
        2 => (0..2u8).prop_map(Object::Semaphore),
        1 => (0..2u8).prop_map(Object::Spin),
        1 => Just(Object::Stream),
    ]
}

fn micros() -> impl Strategy<Value = u16> {
    prop_oneof![0..40u16, 0..400u16]
}

fn simple() -> BoxedStrategy<Op> {
    let on_objects = prop_oneof![
        2 => (0..2u8).prop_map(|condition| Op::Take { condition }),
        2 => (0..2u8, any::<bool>()).prop_map(|(condition, inside)| Op::Give { condition, inside }),
        2 => (1..3u8, micros()).prop_map(|(condition, micros)| Op::WaitOnce { condition, micros }),
        2 => (any::<bool>(), 0..3u8).prop_map(|(all, condition)| Op::Notify { condition, all }),
        1 => Just(Op::TakeToken),
        1 => Just(Op::GiveToken),
        1 => (0..2u8).prop_map(Op::Value),
        2 => (0..3u8).prop_map(Op::Once),
        2 => (0..3u8).prop_map(Op::Static),
        2 => (0..2u8).prop_map(Op::Key),
        1 => (1..3u8).prop_map(Op::UnlockNotHeld),
    ];
    let others = prop_oneof![
        10 => Just(Op::Random),
        10 => Just(Op::Print),
        5 => any::<u8>().prop_map(Op::Sleep),
        5 => any::<u8>().prop_map(Op::Spin),
        5 => Just(Op::Join),
        5 => micros().prop_map(Op::TryJoin),
        5 => Just(Op::EndHolding),
        1 => Just(Op::Quit),
    ];
    prop_oneof![2 => on_objects, 1 => others].boxed()
}
