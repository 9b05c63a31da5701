//! The words for what a report knows: kinds, threads, certainty, the line that names a race.

use crate::names::{Frame, Global};
use crate::places::{describe, own};
use crate::raw::{AccessKind, Certainty, RaceKind, Setting};
use crate::report::{Access, Object, Race, Report};

/// The race in one line: what, where and who.
pub fn headline(race: &Race) -> String {
    let [first, second] = &race.accesses;
    let object = object(race);
    let (first_at, second_at) = (place(&first.stack), place(&second.stack));
    let (does, then) = (verb(first.kind), verb(second.kind));
    match race.kind {
        RaceKind::Data => format!("data race: {first_at} {does} {object}, {second_at} {then} it, unordered"),
        RaceKind::Free => format!("race with free: {first_at} {does} {object}, {second_at} {then} it, unordered"),
        RaceKind::UseAfterFree => format!("use after free: {first_at} {does} {object}, {second_at} {then} it later"),
    }
}

fn place(stack: &[Frame]) -> String {
    own(stack).map_or_else(|| "an unknown place".to_owned(), describe)
}

/// What the access does to "it".
pub(super) const fn verb(kind: AccessKind) -> &'static str {
    match kind {
        AccessKind::Read => "reads",
        AccessKind::Write => "writes",
        AccessKind::AtomicRead => "reads atomically",
        AccessKind::AtomicWrite => "writes atomically",
        AccessKind::Free => "frees",
    }
}

/// The racing data in a few words.
fn object(race: &Race) -> String {
    match &race.object {
        Object::Heap(_) => match &race.member {
            Some(member) => format!("{member} in a heap block"),
            None => "a heap block".to_owned(),
        },
        Object::Stack { local: Some(local), .. } => format!("{} of {}()", local.name, local.function),
        Object::Global(Global { name: Some(name), .. })
        | Object::ThreadLocal { variable: Some(Global { name: Some(name), .. }), .. } => name.clone(),
        _ => match &race.member {
            Some(member) => format!("{member} at {:#x}", race.address),
            None => format!("{} at {:#x}", plural(race.size(), "byte"), race.address),
        },
    }
}

/// How sure a race is.
pub(super) fn certainty(race: &Race) -> String {
    let class = match race.certainty {
        Certainty::Certain => "certain: the recording has no race before it",
        Certainty::AfterFirst => "after the first race: it may be a consequence of that one",
        Certainty::PossibleAtomic => return "possible: atomic accesses are plain moves as well".to_owned(),
    };
    let doubt = race.doubt.map(|doubt| format!("; but {doubt}")).unwrap_or_default();
    format!("{class}{doubt}")
}

/// `thread 0.1 "worker"`.
pub(super) fn thread(report: &Report, number: u32) -> String {
    match report.thread(number) {
        None => format!("thread number {number}"),
        Some(thread) if thread.label.is_empty() => format!("thread {}", thread.name),
        Some(thread) => format!("thread {} \"{}\"", thread.name, thread.label),
    }
}

/// What the thread was in the middle of, if it is worth a word.
pub(super) fn setting(setting: Setting) -> Option<String> {
    match setting {
        Setting::Ordinary => None,
        Setting::Constructor => Some("in a constructor".to_owned()),
        Setting::Exit => Some("while the process exits".to_owned()),
        Setting::Signal(number) => Some(format!("in the handler of signal {number}")),
    }
}

/// So many bytes of a long access are shown.
const BYTES_SHOWN: usize = 8;

/// The value of an access, as its type says; without one, small numbers as people write them, others as addresses. Of a
/// long one its bytes that race.
pub(super) fn value(race: &Race, access: &Access) -> Option<String> {
    if access.value.is_none() && !access.content.is_empty() {
        let shown = digits(&access.content[..access.content.len().min(BYTES_SHOWN)], " ");
        let more = if access.content.len() > BYTES_SHOWN { " …" } else { "" };
        return Some(format!("those that race:{shown}{more}"));
    }
    let value = access.value?;
    let plain = || if value < 1_000_000 { format!("{value}") } else { format!("{value:#x}") };
    Some(format!("value {}", race.value(access).unwrap_or_else(plain)))
}

/// Two digits for each byte, with something before them.
pub(crate) fn digits(bytes: &[u8], before: &str) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{before}{byte:02x}"))
}

/// `1 byte`, `2 bytes`.
pub(super) fn plural(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// An object of synchronisation: its name, or its address.
pub(super) fn named(name: Option<&str>, address: u64) -> String {
    name.map_or_else(|| format!("{address:#x}"), str::to_owned)
}
