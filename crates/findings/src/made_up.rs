//! A report that no replay made, for tests of what is made from reports.

use crate::names::{Frame, Global};
use crate::raw::{AccessKind, Certainty, RaceKind, RawUnobserved, RawUnplaced, Setting};
use crate::report::{Access, Block, Lock, Object, Origin, Race, Report, Sync, Thread};

/// `function(declared_line)` at `file:line` of the program.
pub(crate) fn frame(function: &str, declared: u32, line: u32) -> Frame {
    Frame {
        function: Some(function.to_owned()),
        file: Some("/src/race.c".to_owned()),
        line: Some(line),
        column: Some(5),
        declared: Some(declared),
        module: Some("/opt/bin/race".to_owned()),
        offset: 0x1100 + u64::from(line),
        into: Some(4),
        inlined: false,
    }
}

fn libc(function: &str) -> Frame {
    let (module, function) = (Some("/lib/x86_64-linux-gnu/libc.so.6".to_owned()), Some(function.to_owned()));
    Frame { function, module, offset: 0x891f4, into: Some(0x10), ..Frame::default() }
}

fn sync(event: u64, operation: &str, name: &str) -> Sync {
    let name = (!name.is_empty()).then(|| name.to_owned());
    Sync { event, operation: operation.to_owned(), object: 0x5555_5555_8080, name }
}

/// A certain race of a writer with a lock and a reader with none.
pub(crate) fn race() -> Race {
    let add = Frame { inlined: true, ..frame("add", 6, 7) };
    let writer = Access {
        thread: 1,
        event: 12,
        counter: 0x5555_5555_5107,
        count_since_event: 3,
        kind: AccessKind::Write,
        address: 0x5555_5555_8010,
        size: 4,
        value: Some(42),
        stack: vec![add, frame("worker", 19, 31), libc("start_thread")],
        locks: vec![Lock {
            address: 0x5555_5555_8080,
            name: Some("lock_a".to_owned()),
            shared: false,
            taken: vec![libc("pthread_mutex_lock"), frame("worker", 19, 30)],
        }],
        before: Some(sync(12, "lock", "lock_a")),
        after: Some(sync(13, "unlock", "lock_a")),
        ..Access::default()
    };
    let reader = Access {
        thread: 2,
        event: 0,
        counter: 0x5555_5555_5128,
        count_since_event: 1,
        kind: AccessKind::Read,
        address: 0x5555_5555_8010,
        size: 4,
        value: Some(0),
        stack: vec![frame("reader", 38, 40), libc("start_thread")],
        after: Some(sync(1, "semaphore post", "")),
        ..Access::default()
    };
    Race {
        number: 1,
        kind: RaceKind::Data,
        certainty: Certainty::Certain,
        address: 0x5555_5555_8010,
        bytes: 0xf,
        lines: [(0x5555_5555_8010 / 64, 0xf << 0x10)].into(),
        object: Object::Global(Global {
            name: Some("total".to_owned()),
            part: 0,
            module: "/opt/bin/race".to_owned(),
            offset: 0x4010,
            start: 0x5555_5555_8010,
            size: 4,
            declared: Some(("race.c".to_owned(), 4)),
            atomic: false,
            base: None,
        }),
        count: 12,
        accesses: [writer, reader],
        suppression: Some("race_top:^add$".to_owned()),
        ..Race::default()
    }
}

/// A race of a reader with the end of its block, after another race.
fn free() -> Race {
    let user = Access {
        thread: 1,
        event: 14,
        counter: 0x5555_5555_5140,
        count_since_event: 1,
        kind: AccessKind::Read,
        address: 0x3000_0000_1048,
        size: 32,
        content: vec![0x61, 0x62, 0, 0, 0, 0, 0, 0xff],
        stack: vec![libc("memcpy"), frame("worker", 19, 34), libc("start_thread")],
        before: Some(sync(14, "unlock", "lock_a")),
        ..Access::default()
    };
    let freer = Access {
        thread: 0,
        event: 9,
        counter: 0x5555_5555_5150,
        kind: AccessKind::Free,
        address: 0x3000_0000_1040,
        size: 64,
        setting: Setting::Exit,
        stack: vec![libc("free"), frame("clean", 50, 52), frame("main", 60, 70)],
        before: Some(sync(9, "join", "")),
        ..Access::default()
    };
    let origin = |stack| Origin { thread: Some(0), stack };
    Race {
        number: 2,
        kind: RaceKind::Free,
        certainty: Certainty::AfterFirst,
        address: 0x3000_0000_1048,
        bytes: 0xff,
        lines: [(0x3000_0000_1048 / 64, 0xff << 8)].into(),
        object: Object::Heap(Block {
            start: 0x3000_0000_1040,
            size: 64,
            allocated: origin(vec![libc("malloc"), frame("make", 44, 45), frame("main", 60, 62)]),
            freed: Some(origin(vec![libc("free"), frame("clean", 50, 52)])),
        }),
        member: Some("node.next".to_owned()),
        count: 1,
        accesses: [user, freer],
        suppression: Some("race:^worker$".to_owned()),
        ..Race::default()
    }
}

/// A certain race, one after it, a possible one and a suppressed one.
pub(crate) fn report() -> Report {
    let mut possible = race();
    possible.certainty = Certainty::PossibleAtomic;
    possible.number = 3;
    for access in &mut possible.accesses {
        access.stack[0].line = Some(99);
    }
    let mut suppressed = race();
    suppressed.number = 4;
    suppressed.suppressed = Some("race:reader".to_owned());
    let mut races = vec![race(), free(), possible, suppressed];
    for race in &mut races {
        race.fingerprint = crate::fingerprint::of(race);
    }
    let thread = |number: u32, name: &str, label: &str, line: u32| Thread {
        number,
        name: name.to_owned(),
        label: label.to_owned(),
        creator: (number > 0).then_some(0),
        created: if number > 0 { vec![libc("pthread_create"), frame("main", 60, line)] } else { Vec::new() },
    };
    Report {
        races,
        atomics: Vec::new(),
        atomic_instructions: Vec::new(),
        atomic_pairs: 1,
        threads: vec![thread(0, "0", "", 0), thread(1, "0.1", "worker", 65), thread(2, "0.2", "", 66)],
        unobserved: vec![RawUnobserved {
            what: "instructions that can't be decoded in libodd.so".to_owned(),
            count: 2,
        }],
        diverged: None,
        unplaced: RawUnplaced::default(),
        segments: None,
        complete: true,
        advice: vec!["/opt/libodd.so has no debug information: install it".to_owned()],
        unused: vec!["race:nothing (my.supp:3)".to_owned()],
    }
}

/// JSON without indentation, broken between its parts.
pub(crate) fn folded(json: &str) -> String {
    let mut text = String::new();
    let mut width = 0;
    for part in json.lines().map(str::trim) {
        if width + part.len() > 100 {
            text.push('\n');
            width = 0;
        }
        text.push_str(part);
        width += part.len();
    }
    text
}
