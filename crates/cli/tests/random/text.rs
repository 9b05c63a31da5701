//! A random program as the text that the interpreter runs.
//!
//! Apart because here a tree becomes a program that always ends: what would break
//! the interpreter's rules is written as something else or left out, so that every
//! step of shrinking is a program too.

use super::program::{How, Made, Object, Op};
use std::fmt::Write;

/// Threads alive at most, so that a small machine runs a case in milliseconds.
const MOST_THREADS: u32 = 24;

/// The text of a program.
pub(crate) fn text(program: &[Op]) -> String {
    let mut writer = Writer { text: String::new(), threads: 0 };
    writer.ops(program, &Place { may_quit: !has_processes(program), ..Place::default() });
    writer.text
}

/// Where an operation stands.
#[derive(Clone, Debug, Default)]
struct Place {
    /// What is surely or perhaps held here.
    held: Vec<Object>,
    in_group: bool,
    /// In a thread whose creator holds something: nobody could feed it.
    hungry: bool,
    origin: Origin,
    /// How often this is run.
    times: u32,
    processes_deep: u32,
    /// No process may outlive this one: what it does would be recorded only as long as others are.
    may_quit: bool,
    /// The end of this list is the end of a thread, and may be that of the program.
    end: End,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    #[default]
    Process,
    Thread,
    Body,
}

/// How the process came to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Origin {
    #[default]
    Image,
    /// Its copies of libc's locks may be locked for good.
    Fork,
}

struct Writer {
    text: String,
    threads: u32,
}

impl Place {
    fn inside(&self, object: Object) -> Place {
        let mut inner = Place { end: End::Body, ..self.clone() };
        inner.held.push(object);
        inner
    }

    fn is_free(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether one may wait for an object here.
    fn may_wait(&self, object: Object) -> bool {
        self.held.iter().all(|held| rank(*held) < rank(object))
    }

    fn times(&self) -> u32 {
        self.times.max(1)
    }
}

fn has_processes(ops: &[Op]) -> bool {
    ops.iter().any(|op| match op {
        Op::Process { .. } => true,
        Op::Hold { body, .. } | Op::Repeat { body, .. } | Op::Thread { body, .. } | Op::Cancelled { body, .. } => {
            has_processes(body)
        }
        Op::Group { members, .. } => members.iter().flatten().any(|segment| has_processes(segment)),
        _ => false,
    })
}

/// Reading and writing one lock rank alike.
fn rank(object: Object) -> (u8, u8) {
    match object {
        Object::Mutex(which) => (0, which),
        Object::OfGroup => (1, 0),
        Object::OfAll(which) => (2, which),
        Object::Read(which) | Object::Write(which) => (3, which),
        Object::Semaphore(which) => (4, which),
        Object::Spin(which) => (5, which),
        Object::Stream => (6, 0),
    }
}

impl Writer {
    fn ops(&mut self, ops: &[Op], place: &Place) {
        for op in ops {
            self.op(op, place);
        }
        // Who dies with a mutex held does nothing afterwards.
        if ops.iter().any(|op| matches!(op, Op::EndHolding)) {
            match place.end {
                End::Thread => self.text.push_str("e0"),
                End::Process if place.origin == Origin::Fork => self.text.push_str("e1"),
                _ => {}
            }
        }
    }

    fn op(&mut self, op: &Op, place: &Place) {
        match op {
            Op::Hold { object, how, body } => self.hold(*object, *how, body, place),
            Op::Repeat { times, body } => {
                // Threads of a loop in a loop would be too many; tokens are counted by the interpreter.
                let inner = Place { times: place.times() * u32::from(*times), end: End::Body, ..place.clone() };
                if inner.times <= 24 {
                    self.braces(format_args!("I{times}"), body, &inner);
                }
            }
            Op::Thread { detached, variant, body } => self.thread(*detached, *variant, body, place),
            // A fork child may have copied a loader in the middle of loading the unwinder.
            Op::Cancelled { rounds, body }
                if place.is_free() && place.origin == Origin::Image && self.room(place, 1) =>
            {
                let inner = Place { end: End::Body, ..place.clone() };
                self.braces(format_args!("c{rounds}"), body, &inner);
            }
            Op::Cancelled { .. } => {}
            Op::Group { by_hand, members } => self.group(*by_hand, members, place),
            Op::Process { made, body } => self.process(*made, body, place),
            _ => self.simple(op, place),
        }
    }

    fn braces(&mut self, head: std::fmt::Arguments<'_>, body: &[Op], inner: &Place) {
        self.write(head);
        self.text.push('{');
        self.ops(body, inner);
        self.text.push('}');
    }

    fn write(&mut self, what: std::fmt::Arguments<'_>) {
        self.text.write_fmt(what).expect("a string takes everything");
    }

    /// Whether so many more threads may be created here.
    fn room(&mut self, place: &Place, threads: u32) -> bool {
        let more = threads * place.times();
        if self.threads + more > MOST_THREADS {
            return false;
        }
        self.threads += more;
        true
    }

    fn hold(&mut self, object: Object, how: How, body: &[Op], place: &Place) {
        let object = if object == Object::OfGroup && !place.in_group { Object::Mutex(0) } else { object };
        // A recursive mutex lets its holder in again; an error-checking one and the writer's rwlock say no.
        let again = match object {
            Object::Mutex(1 | 2) => place.held.contains(&object),
            Object::Read(which) | Object::Write(which) => place.held.contains(&Object::Write(which)),
            _ => false,
        };
        let how = if place.may_wait(object) || again { how } else { How::Try };
        let inner = place.inside(object);
        match (object, how) {
            (Object::Mutex(which), How::Wait) => self.braces(format_args!("L{which}"), body, &inner),
            (Object::Mutex(which), How::Try) => self.braces(format_args!("l{which}"), body, &inner),
            (Object::Mutex(which), How::Timed(micros)) => self.braces(format_args!("t{which},{micros}"), body, &inner),
            (Object::OfAll(which), How::Wait) => self.braces(format_args!("Z{which}"), body, &inner),
            (Object::OfAll(which), _) => self.braces(format_args!("Y{which}"), body, &inner),
            (Object::Read(which), How::Wait) => self.braces(format_args!("R{which}"), body, &inner),
            (Object::Read(which), How::Try) => self.braces(format_args!("r{which}"), body, &inner),
            (Object::Read(which), How::Timed(micros)) => self.braces(format_args!("U{which},{micros}"), body, &inner),
            (Object::Write(which), How::Wait) => self.braces(format_args!("W{which}"), body, &inner),
            (Object::Write(which), How::Try) => self.braces(format_args!("w{which}"), body, &inner),
            (Object::Write(which), How::Timed(micros)) => self.braces(format_args!("V{which},{micros}"), body, &inner),
            (Object::Semaphore(which), How::Wait) => self.braces(format_args!("S{which}"), body, &inner),
            (Object::Semaphore(which), How::Try) => self.braces(format_args!("s{which}"), body, &inner),
            (Object::Semaphore(which), How::Timed(micros)) => {
                self.braces(format_args!("z{which},{micros}"), body, &inner);
            }
            (Object::Spin(which), How::Try) => self.braces(format_args!("p{which}"), body, &inner),
            (Object::Spin(which), _) => self.braces(format_args!("P{which}"), body, &inner),
            (Object::OfGroup, _) if place.may_wait(object) => self.braces(format_args!("h"), body, &inner),
            (Object::Stream, _) if place.may_wait(object) => self.braces(format_args!("f"), body, &inner),
            (Object::OfGroup | Object::Stream, _) => {}
        }
    }

    fn process(&mut self, made: Made, body: &[Op], place: &Place) {
        // What an image that a fork child started would print mixes with others' lines.
        let spawned = matches!(made, Made::Spawned);
        if !place.is_free()
            || place.processes_deep >= 2
            || (spawned && place.origin == Origin::Fork)
            || !self.room(place, 1)
        {
            return;
        }
        let inner = Place {
            origin: if spawned { Origin::Image } else { Origin::Fork },
            processes_deep: place.processes_deep + 1,
            may_quit: !has_processes(body),
            ..Place::default()
        };
        match made {
            Made::ForkedAndLeaves => self.braces(format_args!("X0"), body, &inner),
            Made::ForkedAndExits => self.braces(format_args!("X1"), body, &inner),
            Made::Spawned => self.braces(format_args!("A"), body, &inner),
        }
    }

    fn thread(&mut self, detached: bool, variant: u8, body: &[Op], place: &Place) {
        // What a spin lock's holder does keeps a core busy.
        let spins = place.held.iter().any(|held| matches!(held, Object::Spin(_) | Object::Stream));
        if spins || !self.room(place, 1) {
            return;
        }
        // What other threads of a child do between its `exit` and its end has no place in time before what its
        // parent does next: a child ends with no thread running.
        let detached = detached && place.processes_deep == 0;
        let inner = Place {
            hungry: !place.is_free(),
            origin: place.origin,
            processes_deep: place.processes_deep,
            may_quit: place.may_quit,
            times: place.times,
            end: End::Thread,
            ..Place::default()
        };
        self.braces(format_args!("{}{variant}", if detached { 'd' } else { 'T' }), body, &inner);
    }

    fn group(&mut self, by_hand: bool, members: &[[Vec<Op>; 3]], place: &Place) {
        if !place.is_free() || members.is_empty() || !self.room(place, members.len() as u32) {
            return;
        }
        let segment = Place {
            in_group: true,
            origin: place.origin,
            processes_deep: place.processes_deep,
            may_quit: place.may_quit,
            times: place.times,
            end: End::Body,
            ..Place::default()
        };
        let last = Place { end: End::Thread, ..segment.clone() };
        self.text.push('B');
        for [before, between, behind] in members {
            self.text.push('{');
            self.ops(before, &segment);
            self.text.push('b');
            self.ops(between, &segment);
            self.text.push(if by_hand { 'a' } else { 'b' });
            self.ops(behind, &last);
            self.text.push('}');
        }
        self.text.push(';');
    }

    fn simple(&mut self, op: &Op, place: &Place) {
        let free = place.is_free();
        let fed = free && !place.hungry;
        let spins = place.held.iter().any(|held| matches!(held, Object::Spin(_) | Object::Stream));
        match *op {
            Op::Take { condition } if fed => self.write(format_args!("C{condition}")),
            Op::Give { condition, inside } if place.may_wait(Object::Mutex(condition)) => {
                self.write(format_args!("{}{condition}", if inside { 'D' } else { 'E' }));
            }
            // The mutex is free while it waits, the others that are held are not: a short time only.
            Op::WaitOnce { condition, micros } if place.may_wait(Object::Mutex(condition)) => {
                self.write(format_args!("k{condition},{micros}"));
            }
            Op::Notify { condition, all: true } => self.write(format_args!("n{condition}")),
            Op::Notify { all: false, .. } => self.text.push_str("N2"),
            Op::TakeToken if fed => self.text.push('g'),
            Op::GiveToken => self.text.push('G'),
            Op::Value(which) => self.write(format_args!("v{which}")),
            Op::Once(which) if place.may_wait(Object::Spin(0)) => self.write(format_args!("O{which}")),
            Op::Static(which) if place.may_wait(Object::Spin(0)) => self.write(format_args!("H{which}")),
            Op::Key(which) => self.write(format_args!("K{which}")),
            // A fork child may have copied the locked lock of rand.
            Op::Random if place.origin == Origin::Image => self.text.push('q'),
            Op::Print => self.text.push('o'),
            Op::Sleep(micros) if !spins => self.write(format_args!("x0,{micros}")),
            Op::Spin(rounds) => self.write(format_args!("y{}", rounds / 4)),
            Op::UnlockNotHeld(which) if !place.held.contains(&Object::Mutex(which)) => {
                self.write(format_args!("m{which}"));
            }
            Op::Quit if free && place.may_quit && place.processes_deep == 0 => self.text.push('!'),
            Op::Join if free => self.text.push('J'),
            Op::TryJoin(micros) if free => self.write(format_args!("j0,{micros}")),
            _ => {}
        }
    }
}

#[test]
fn one_waits_only_for_what_ranks_higher() {
    let inner = Op::Hold { object: Object::Mutex(3), how: How::Wait, body: vec![Op::TakeToken, Op::Join] };
    let same = Op::Hold { object: Object::Mutex(5), how: How::Wait, body: vec![] };
    let outer = Op::Hold { object: Object::Mutex(5), how: How::Wait, body: vec![inner, same] };
    assert_eq!(text(&[outer]), "L5{l3{}l5{}}");
}
