//! From what a process could tell of places, snapshots of stacks and mappings of code, to
//! addresses of frames and whole modules.
//!
//! The process that replays has neither the time nor the memory to unwind: it copies its
//! registers and a part of its stack. Here are the files, whose call frame information says
//! how each caller is found (DWARF 5, section 6.4, as `.eh_frame` has it: System V ABI,
//! AMD64 supplement, section 4.2.4). Apart from `names` because no names are needed for it.
//!
//! What the files do not say is not guessed: a stack ends where nobody knows its next frame.

mod machine;
mod modules;
mod pieces;
mod signal;
mod tables;
mod unwind;

use crate::names::base_name;
use crate::raw::{RawModule, RawReport, RawStack};
use modules::Modules;
use std::path::PathBuf;

/// The same findings with whole modules, each once, and with addresses in place of snapshots. `relocated` is as in
/// [`crate::Options`]. Frames of our own library are left out, and objects in it are none; modules that are whole and stacks that have addresses stay what they are.
pub fn located(raw: &RawReport, relocated: &[(PathBuf, PathBuf)]) -> RawReport {
    let mut found = raw.clone();
    let modules = Modules::new(&raw.modules, relocated);
    for stack in stacks(&mut found) {
        if let Some(snapshot) = stack.snapshot.take() {
            *stack = without_ours(&unwind::unwind(&modules, &snapshot), &modules);
        }
    }
    for access in found.races.iter_mut().flat_map(|race| &mut race.accesses) {
        for sync in [&mut access.before, &mut access.after].into_iter().flatten() {
            // What stands for something that has no address in the program.
            if modules.find(sync.object).is_some_and(|module| is_ours(&module.raw)) {
                sync.object = 0;
            }
        }
    }
    found.modules = modules.into_raw();
    found.images = raw.images.iter().map(|image| located(image, relocated)).collect();
    found
}

/// Every stack of the findings.
fn stacks(raw: &mut RawReport) -> impl Iterator<Item = &mut RawStack> {
    let created = raw.threads.iter_mut().map(|thread| &mut thread.created);
    let of_races = raw.races.iter_mut().flat_map(|race| {
        let block = race.block.iter_mut();
        let origins = block.flat_map(|block| [Some(&mut block.allocated), block.freed.as_mut()]).flatten();
        let accesses = race.accesses.iter_mut().flat_map(|access| {
            let locks = access.locks.iter_mut().map(|lock| &mut lock.stack);
            std::iter::once(&mut access.stack).chain(locks)
        });
        accesses.chain(origins.map(|origin| &mut origin.stack))
    });
    created.chain(of_races)
}

/// A stack of the program's own frames. What our library did for the program happened at the program's call, and that
/// a thread begins in our library says nothing.
fn without_ours(stack: &RawStack, modules: &Modules) -> RawStack {
    let mut own = RawStack::default();
    for (index, &address) in stack.addresses.iter().enumerate() {
        if modules.find(address).is_some_and(|module| is_ours(&module.raw)) {
            continue;
        }
        if stack.exact.contains(&index) {
            own.exact.push(own.addresses.len());
        }
        own.addresses.push(address);
        own.slots.extend(stack.slots.get(index));
    }
    own
}

/// The module is the library that is loaded into every recorded and replayed process.
fn is_ours(module: &RawModule) -> bool {
    let name = base_name(&module.file);
    name.starts_with("preload-") || name.contains("librelive_preload")
}
