//! The page of the documentation that is made from the tables.
//!
//! Apart from the tables so that these stay data; a test keeps
//! `docs/system-calls.md` equal to it.

use crate::requests::TIOCLINUX;
use crate::{
    Bytes, Call, Effect, FIRST_NUMBERS, LATER_NUMBERS, Output, Request, Resolved, Treatment, When, execute_outputs,
    find,
};
use core::fmt::{self, Display, Formatter};

const HEAD: &str = "\
# System calls, and what becomes of them

This page is made from the closed tables in `crates/calls/src`; to make it again after a change there, run

```
RELIVE_WRITE_DOCS=1 cargo test -p relive-calls
```

Each system call of x86-64 Linux has one treatment; a test compares names and numbers with the system's header. A call \
with a number that is not here (`uretprobe` and `uprobe`, which only the kernel's own trampolines call, and what newer \
kernels have) can't be recorded, and neither can a request that is missing from its list: what the kernel would write \
for it is not guessed.

Arguments are counted from zero. Where nothing else is said, memory is written if the call did not fail and the pointer \
is not null.

";

/// Displays as the markdown text of `docs/system-calls.md`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Document;

impl Display for Document {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(HEAD)?;
        treatments(f)?;
        effects(f)?;
        f.write_str("\n## Calls\n\n| number | call | treatment | memory written |\n|---:|---|---|---|\n")?;
        for number in FIRST_NUMBERS.chain(LATER_NUMBERS) {
            if let Some(call) = find(number) {
                call_row(f, number, call)?;
            }
        }
        for request in Request::ALL {
            list(f, request)?;
        }
        Ok(())
    }
}

/// Whether a call counts in a row.
type Is = fn(&Treatment) -> bool;

fn treatments(f: &mut Formatter<'_>) -> fmt::Result {
    f.write_str("| treatment | meaning | calls |\n|---|---|---:|\n")?;
    let rows: [(&str, &str, Is); 4] = [
        ("emulate", "result and written memory come from the trace; the kernel is not asked in a replay", |t| {
            matches!(t, Treatment::Emulate(_))
        }),
        ("execute", "really done in a replay too", |t| matches!(t, Treatment::Execute(_))),
        ("refuse", "not done at all: fails so that programs fall back, in both runs", |t| {
            matches!(t, Treatment::Refuse(_))
        }),
        ("by request", "depends on an argument: see the lists below", |t| matches!(t, Treatment::ByRequest(_))),
    ];
    for (name, meaning, is) in rows {
        let calls = FIRST_NUMBERS.chain(LATER_NUMBERS).filter_map(find);
        writeln!(f, "| {name} | {meaning} | {} |", calls.filter(|call| is(&call.treatment)).count())?;
    }
    Ok(())
}

fn effects(f: &mut Formatter<'_>) -> fmt::Result {
    f.write_str("\n| executed for | meaning |\n|---|---|\n")?;
    for effect in Effect::ALL {
        writeln!(f, "| {} | {} |", effect.name(), meaning(effect))?;
    }
    Ok(())
}

fn call_row(f: &mut Formatter<'_>, number: usize, call: &Call) -> fmt::Result {
    write!(f, "| {number} | `{}` | ", call.name)?;
    match call.treatment {
        Treatment::Emulate(outputs) => treated(f, Resolved::Emulate(outputs))?,
        Treatment::Execute(effect) => treated(f, Resolved::Execute(effect))?,
        Treatment::Refuse(errno) => treated(f, Resolved::Refuse(errno))?,
        Treatment::ByRequest(request) => write!(f, "by request in argument {}", request.argument())?,
    }
    f.write_str(" |")?;
    match call.treatment {
        Treatment::Emulate(outputs) => places(f, outputs)?,
        Treatment::Execute(_) => places(f, execute_outputs(number))?,
        Treatment::Refuse(_) | Treatment::ByRequest(_) => {}
    }
    f.write_str(" |\n")
}

fn list(f: &mut Formatter<'_>, request: Request) -> fmt::Result {
    write!(f, "\n## Requests of `{}`\n\n", call_of(request))?;
    f.write_str("| number | request | treatment | memory written |\n|---:|---|---|---|\n")?;
    for row in request.lists().iter().copied().flatten() {
        write!(f, "| {:#x} | `{}`", row.number, row.name)?;
        request_cells(f, row.resolved)?;
    }
    if let Some(rest) = request.rest() {
        f.write_str("| | every other")?;
        request_cells(f, rest)?;
    }
    if request == Request::Ioctl {
        writeln!(f, "| {TIOCLINUX:#x} | `TIOCLINUX` | emulate | argument 2: 1 byte if it holds 6 or 7 |")?;
    }
    Ok(())
}

fn request_cells(f: &mut Formatter<'_>, resolved: Resolved) -> fmt::Result {
    f.write_str(" | ")?;
    treated(f, resolved)?;
    f.write_str(" |")?;
    if let Resolved::Emulate(outputs) = resolved {
        places(f, outputs)?;
    }
    f.write_str(" |\n")
}

/// The call that a list belongs to.
fn call_of(request: Request) -> &'static str {
    let belongs = |call: &&Call| call.treatment == Treatment::ByRequest(request);
    FIRST_NUMBERS.chain(LATER_NUMBERS).filter_map(find).find(belongs).map_or("", |call| call.name)
}

fn treated(f: &mut Formatter<'_>, resolved: Resolved) -> fmt::Result {
    match resolved {
        Resolved::Emulate(_) => f.write_str("emulate"),
        Resolved::Execute(effect) => write!(f, "execute: {}", effect.name()),
        Resolved::Refuse(errno) => write!(f, "refuse: {}", Errno(errno)),
    }
}

fn places(f: &mut Formatter<'_>, outputs: &[Output]) -> fmt::Result {
    let mut separator = " ";
    for output in outputs {
        write!(f, "{separator}argument {}: ", output.argument)?;
        shape(f, output.bytes)?;
        match output.when {
            When::Success => {}
            When::Positive => f.write_str(" (if the result is more than 0)")?,
            When::Always => f.write_str(" (whatever the result)")?,
            When::Error(errno) => write!(f, " (only with {})", Errno(errno))?,
            When::SuccessOr(errno) => write!(f, " (also with {})", Errno(errno))?,
            When::Unless(errno) => write!(f, " (with every failure but {})", Errno(errno))?,
        }
        separator = "; ";
    }
    Ok(())
}

fn shape(f: &mut Formatter<'_>, bytes: Bytes) -> fmt::Result {
    match bytes {
        Bytes::Fixed(1) => f.write_str("1 byte"),
        Bytes::Fixed(bytes) => write!(f, "{bytes} bytes"),
        Bytes::Flagged { bytes, argument, mask, set: true } => {
            write!(f, "{bytes} bytes if argument {argument} has {mask:#x}")
        }
        Bytes::Flagged { bytes, argument, mask, set: false } => {
            write!(f, "{bytes} bytes if argument {argument} lacks {mask:#x}")
        }
        Bytes::Result => f.write_str("result bytes"),
        Bytes::ResultAnd(head) => write!(f, "{head} and result bytes"),
        Bytes::Capped { length } => write!(f, "result bytes, at most argument {length}"),
        Bytes::Fitting { length } => write!(f, "result bytes if not more than argument {length}"),
        Bytes::Room { length } => write!(f, "argument {length} bytes"),
        Bytes::Array { count, each } => write!(f, "argument {count} times {each} bytes"),
        Bytes::Counted { each, most } => write!(f, "result times {each} bytes, at most argument {most} times"),
        Bytes::Value { length } => write!(f, "as many bytes as argument {length} points to"),
        Bytes::Address { length } => write!(f, "as many bytes as argument {length} points to, and these 4"),
        Bytes::Elements { length, each } => write!(f, "{each} times as many bytes as argument {length} points to"),
        Bytes::Buffers { count } => write!(f, "result bytes over a vector of argument {count} buffers"),
        Bytes::Message => f.write_str("the message's header, name, data and control messages"),
        Bytes::Messages { .. } => f.write_str("result messages: headers, names, data and control messages"),
        Bytes::Descriptors { count } => write!(f, "argument {count} bits in words of 8 bytes"),
        Bytes::Timeout => f.write_str("16 bytes unless they were zero or a constant"),
        Bytes::Pages { length } => write!(f, "a byte for each page of argument {length} bytes"),
        Bytes::Nodes { most } => write!(f, "one bit less than argument {most} in words of 8 bytes"),
        Bytes::Capabilities { header } => write!(f, "12 or 24 bytes by the version at argument {header}"),
        Bytes::Sized { most } => write!(f, "as many bytes as its first 4 say, at most argument {most}"),
        Bytes::Handle => f.write_str("8 bytes and as many as the first 4 say"),
        Bytes::Attribute => f.write_str("result bytes where it points to, if they fit"),
        Bytes::Interfaces => f.write_str("the length, and so many bytes where it points to"),
        Bytes::Extents => f.write_str("32 bytes and 56 for each extent"),
    }
}

/// Displays as the name of an error, for those in the tables.
struct Errno(u16);

impl Display for Errno {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            1 => "EPERM",
            4 => "EINTR",
            7 => "E2BIG",
            14 => "EFAULT",
            19 => "ENODEV",
            22 => "EINVAL",
            34 => "ERANGE",
            38 => "ENOSYS",
            53 => "EBADR",
            75 => "EOVERFLOW",
            92 => "ENOPROTOOPT",
            95 => "EOPNOTSUPP",
            other => return write!(f, "error {other}"),
        };
        f.write_str(name)
    }
}

const fn meaning(effect: Effect) -> &'static str {
    match effect {
        Effect::Memory => "the address space, what its pages hold or how far they may grow",
        Effect::ThreadState => "a register or an address that the kernel keeps for the thread",
        Effect::Processes => "a new thread or process",
        Effect::Exec => "another program in the place of this one",
        Effect::Exit => "the end of the thread or of the process",
        Effect::Wait => "collects a child that has ended",
        Effect::Signals => "dispositions, masks, timers that send signals, sending and waiting for them",
        Effect::Futex => "sleeps for and wakes other threads by a word in memory",
        Effect::Schedule => "gives up the processor or orders memory between processors",
    }
}
