//! What lies at the racing bytes, in words.

use super::page::{Page, Paint};
use super::words::{plural, thread};
use crate::names::{Frame, base_name};
use crate::places::{describe, is_system};
use crate::report::{Block, Object, Origin, Race, Report};
use std::fmt;

/// So many calls of an allocation are named.
const CALLS_MAX: usize = 3;

pub(super) fn write(page: &mut Page<'_>, report: &Report, race: &Race) -> fmt::Result {
    let bytes = format!("{} at {:#x}", plural(race.size(), "byte"), race.address);
    let text = match &race.object {
        Object::Unknown => format!("{}{bytes}, in no module, heap block or stack that is known", member(race)),
        Object::Global(global) => {
            let module = base_name(&global.module);
            let declared = declared(global.declared.as_ref());
            match &global.name {
                Some(name) => format!("{name}: {bytes}, global of {module}{declared}"),
                None => format!("{bytes}, {module}+{:#x}", global.offset),
            }
        }
        Object::Stack { thread: owner, local } => {
            let owner = thread(report, *owner);
            match local {
                Some(local) => {
                    let declared = declared(local.declared.as_ref());
                    format!("{}: {bytes}, local of {}(){declared}, on the stack of {owner}", local.name, local.function)
                }
                None => format!("{bytes}, on the stack of {owner}"),
            }
        }
        Object::ThreadLocal { thread: owner, variable } => {
            let owner = thread(report, *owner);
            match variable.as_ref().and_then(|variable| Some((variable, variable.name.as_ref()?))) {
                Some((variable, name)) => {
                    let declared = declared(variable.declared.as_ref());
                    format!("{name}: {bytes}, thread-local variable of {owner}{declared}")
                }
                None => format!("{bytes}, thread-local storage of {owner}"),
            }
        }
        Object::Heap(block) => return heap(page, report, race, block),
    };
    page.hanging(2, 4, Paint::Plain, &text)
}

fn member(race: &Race) -> String {
    race.member.as_ref().map(|member| format!("{member}: ")).unwrap_or_default()
}

fn declared(place: Option<&(String, u64)>) -> String {
    place.map(|(file, line)| format!(", declared at {}:{line}", base_name(file))).unwrap_or_default()
}

fn heap(page: &mut Page<'_>, report: &Report, race: &Race, block: &Block) -> fmt::Result {
    let into = race.address.wrapping_sub(block.start);
    let where_in = if into == 0 { "at the start of".to_owned() } else { format!("{} inside", plural(into, "byte")) };
    let bytes = format!("{}{} at {:#x}", member(race), plural(race.size(), "byte"), race.address);
    let of = plural(block.size, "byte");
    page.hanging(2, 4, Paint::Plain, &format!("{bytes}, {where_in} a heap block of {of}"))?;
    page.hanging(4, 6, Paint::Plain, &format!("allocated{}", origin(report, &block.allocated)))?;
    match &block.freed {
        Some(freed) => page.hanging(4, 6, Paint::Plain, &format!("freed{}", origin(report, freed))),
        None => Ok(()),
    }
}

fn origin(report: &Report, origin: &Origin) -> String {
    let who = origin.thread.map(|number| format!(" by {}", thread(report, number))).unwrap_or_default();
    format!("{who}{}", calls(&origin.stack))
}

/// ` at f() a.c:1, called by g() a.c:2`; the allocator's own frames are left out, and libc's that called `main`.
pub(super) fn calls(stack: &[Frame]) -> String {
    let skip = stack.iter().position(|frame| !is_system(frame)).unwrap_or(0);
    // `_start` is linked into the program, from libc's own files.
    let of_program = |frame: &Frame| !is_system(frame) && frame.function.as_deref() != Some("_start");
    let end = stack.iter().rposition(of_program).map_or(stack.len(), |last| last + 1);
    let shown: Vec<String> = stack[skip.min(end)..end].iter().take(CALLS_MAX).map(describe).collect();
    if shown.is_empty() { String::new() } else { format!(" at {}", shown.join(", called by ")) }
}
