//! From what a process could tell of places, snapshots of stacks and mappings of code, to
//! addresses of frames and whole modules.
//!
//! The process that replays has neither the time nor the memory to unwind: it copies its
//! registers and a part of its stack. Here are the files, whose call frame information says
//! how each caller is found (DWARF 5, section 6.4, as `.eh_frame` has it: System V ABI,
//! AMD64 supplement, section 4.2.4). Apart from `names` because no names are needed for it.
//!
//! What the files do not say is not guessed: a stack ends where nobody knows its next frame.

mod frames;
mod machine;
mod modules;
mod pieces;
mod signal;
mod tables;
mod unwind;

use crate::names::base_name;
use crate::raw::{RawModule, RawReport, RawStack, Snapshot};
pub(crate) use frames::Frames;
use machine::{Origin, Registers};
use modules::Modules;
use std::ops::Range;
use std::path::PathBuf;
use tables::Tables;

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

/// A frame that waits for another one, which it has called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Where it goes on.
    pub address: u64,
    /// Its stack pointer then.
    pub stack: u64,
    /// Of rbx, rbp, r12, r13, r14 and r15 those of which it is known where they are: the value, and its place on the
    /// stack, if it is not in the register still.
    pub registers: [Option<(u64, Option<u64>)>; 6],
}

/// Unwinds the stacks of processes that have the same modules, whose files it reads once.
pub struct Unwinder {
    raw: Vec<RawModule>,
    modules: Modules,
}

impl Unwinder {
    /// For these modules, as a process tells them.
    pub fn new(raw: Vec<RawModule>) -> Self {
        let modules = Modules::new(&raw, &[]);
        Self { raw, modules }
    }

    /// Whether it is for these modules.
    pub fn is_for(&self, raw: &[RawModule]) -> bool {
        self.raw == raw
    }

    /// Of the file whose code is at `place`: the pieces of code that call frame information says are one function each, or
    /// a part of one, by their addresses.
    pub fn functions(&self, place: u64) -> Vec<Range<u64>> {
        let Some(module) = self.modules.with_code(place) else { return Vec::new() };
        let placed = |address: u64| address.wrapping_add(module.raw.bias);
        let all = module.tables().into_iter().flat_map(Tables::functions);
        all.map(|range| placed(range.start)..placed(range.end)).collect()
    }

    /// The callers of a snapshot's innermost frame, outwards, as far as they are known.
    pub fn waiting(&self, snapshot: &Snapshot) -> Vec<Waiting> {
        const KEPT: [u16; 6] = [Registers::RBX, Registers::RBP, 12, 13, 14, 15];
        let mut all = Vec::new();
        unwind::unwind_to(&self.modules, snapshot, &mut |registers| {
            let known = |number| match (registers.get(number)?, registers.origin(number)?) {
                (value, Origin::Register) => Some((value, None)),
                (value, Origin::Slot(slot)) => Some((value, Some(slot))),
            };
            if let (Some(address), Some(stack)) = (registers.get(Registers::RIP), registers.get(Registers::RSP)) {
                all.push(Waiting { address, stack, registers: KEPT.map(known) });
            }
        });
        all
    }
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
