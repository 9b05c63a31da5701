//! One access with its stack and what its thread held, and why nothing orders the two.

use super::object::calls;
use super::page::{Page, Paint, cut, cut_front};
use super::words::{self, named, plural, thread};
use crate::names::Frame;
use crate::places::{function, module_offset, own};
use crate::raw::{AccessKind, RaceKind};
use crate::report::{Access, Lock, Race, Report, Sync};
use std::fmt;

/// So many frames of a stack are shown.
const FRAMES_MAX: usize = 16;
/// Names of functions take at most so many columns of a stack.
const NAME_MAX: usize = 48;

/// The access; what its thread is stands at the first one of a thread only (`again` for the second).
pub(super) fn write(page: &mut Page<'_>, report: &Report, race: &Race, access: &Access, again: bool) -> fmt::Result {
    page.hanging(2, 4, Paint::Bold, &what(report, race, access))?;
    if let Some(frame) = own(&access.stack)
        && let (Some(file), Some(line)) = (&frame.file, frame.line)
        && let Some(text) = page.source(file, line)
    {
        page.line(4, Paint::Source, &format!("{line} | {text}"))?;
    }
    stack(page, &access.stack)?;
    let locks: Vec<String> = access.locks.iter().map(lock).collect();
    let holding = if locks.is_empty() { "no lock".to_owned() } else { locks.join("; ") };
    page.hanging(4, 6, Paint::Plain, &format!("holds {holding}"))?;
    let Some(known) = report.thread(access.thread).filter(|_| !again) else { return Ok(()) };
    let Some(creator) = known.creator else { return Ok(()) };
    let created = format!("thread created by {}{}", thread(report, creator), calls(&known.created));
    page.hanging(4, 6, Paint::Plain, &created)
}

fn what(report: &Report, race: &Race, access: &Access) -> String {
    let sized = access.kind != AccessKind::Free && access.size > 0;
    let size = if sized { format!(" {}", plural(access.size, "byte")) } else { String::new() };
    let value = words::value(race, access).map(|value| format!(", {value}")).unwrap_or_default();
    let setting = words::setting(access.setting).map(|setting| format!(", {setting}")).unwrap_or_default();
    format!("{} {}{size}{value}{setting}", thread(report, access.thread), words::verb(access.kind))
}

fn stack(page: &mut Page<'_>, stack: &[Frame]) -> fmt::Result {
    let shown = &stack[..stack.len().min(FRAMES_MAX)];
    let widest = shown.iter().map(|frame| function(frame).chars().count()).max().unwrap_or(0).min(NAME_MAX);
    for (index, frame) in shown.iter().enumerate() {
        let name = cut(&function(frame), NAME_MAX);
        let room = page.width().saturating_sub(4 + 4 + widest + 2).max(20);
        let place = cut_front(&place(frame), room);
        page.line(4, Paint::Plain, &format!("{:<3} {name:<widest$}  {place}", format!("#{index}")))?;
    }
    match stack.len() - shown.len() {
        0 => Ok(()),
        more => page.line(4, Paint::Plain, &format!("and {more} more frames")),
    }
}

fn place(frame: &Frame) -> String {
    let place = match (&frame.file, frame.line, frame.column) {
        (Some(file), Some(line), Some(column)) => format!("{file}:{line}:{column}"),
        (Some(file), Some(line), None) => format!("{file}:{line}"),
        _ if frame.function.is_some() => module_offset(frame),
        _ => String::new(),
    };
    if frame.inlined { format!("{place} (inlined)") } else { place }
}

fn lock(lock: &Lock) -> String {
    let shared = if lock.shared { " for reading" } else { "" };
    let taken = calls(&lock.taken);
    let taken = if taken.is_empty() { taken } else { format!(", taken{taken}") };
    format!("{}{shared}{taken}", named(lock.name.as_deref(), lock.address))
}

/// Why the two are unordered, or what the order is where the race is none of order.
pub(super) fn write_order(page: &mut Page<'_>, report: &Report, race: &Race) -> fmt::Result {
    let [first, second] = &race.accesses;
    let title = match race.kind {
        RaceKind::UseAfterFree => "The block was free by then. Nearest synchronisation:".to_owned(),
        RaceKind::Data | RaceKind::Free => format!("Why unordered: {}", reason(first, second)),
    };
    page.hanging(2, 4, Paint::Plain, &title)?;
    for access in &race.accesses {
        let before = match &access.before {
            Some(before) => sync(before),
            None if access.event == 0 => "its start".to_owned(),
            None => format!("event {}", access.event),
        };
        let after = access.after.as_ref().map(|after| format!(", then {}", sync(after))).unwrap_or_default();
        let (who, does) = (thread(report, access.thread), words::verb(access.kind));
        page.hanging(4, 6, Paint::Plain, &format!("{who}: {before}, then it {does}{after}"))?;
    }
    Ok(())
}

fn reason(first: &Access, second: &Access) -> String {
    let common = first.locks.iter().find(|lock| second.locks.iter().any(|other| other.address == lock.address));
    let locks = match common {
        // Two that both hold it exclusively are ordered by it.
        Some(lock) => format!("both hold {}, but not both for writing,", named(lock.name.as_deref(), lock.address)),
        None if first.locks.is_empty() && second.locks.is_empty() => "neither holds a lock,".to_owned(),
        None => "they hold no lock in common,".to_owned(),
    };
    format!("{locks} and no synchronisation leads from one to the other.")
}

fn sync(sync: &Sync) -> String {
    let object = match (&sync.name, sync.object) {
        (None, 0) => String::new(),
        (name, address) => format!(" of {}", named(name.as_deref(), address)),
    };
    format!("{}{object} (event {})", sync.operation, sync.event)
}
