//! The tree of threads: who created whom, and when.

use super::MISSING_MAX;
use crate::error::Fault;
use crate::layout::NONE;
use crate::stream::ThreadStream;

/// The children of each thread by number. A parent has a smaller index than its children, so this is a tree.
pub(super) fn build(threads: &[Option<ThreadStream>]) -> Result<Vec<Vec<u32>>, Fault> {
    let mut children = vec![Vec::new(); threads.len()];
    let mut missing = 0;
    for thread in threads.iter().flatten() {
        match thread.parent {
            None if thread.index == 0 => {}
            Some(parent) if parent < thread.index && threads[parent as usize].is_some() => {
                adopt(threads, &mut children[parent as usize], thread, &mut missing)?;
            }
            _ => return Err(fault(thread)),
        }
    }
    for (parent, children) in threads.iter().zip(&children) {
        if let Some(parent) = parent.as_ref().filter(|_| !children.is_empty()) {
            check_births(threads, parent, children)?;
        }
    }
    Ok(children)
}

fn fault(thread: &ThreadStream) -> Fault {
    Fault::Tree { thread: thread.index, parent: thread.parent.unwrap_or(NONE), child_number: thread.child_number }
}

/// A chunk that was prepared for a thread whose creation failed.
fn is_phantom(thread: &ThreadStream) -> bool {
    thread.events == 0 && !thread.finished
}

fn adopt(
    threads: &[Option<ThreadStream>],
    siblings: &mut Vec<u32>,
    thread: &ThreadStream,
    missing: &mut u32,
) -> Result<(), Fault> {
    let number = thread.child_number as usize;
    if siblings.len() <= number {
        *missing = missing.saturating_add((number - siblings.len()) as u32);
        if *missing > MISSING_MAX {
            return Err(fault(thread));
        }
        siblings.resize(number + 1, NONE);
    }
    let other = threads.get(siblings[number] as usize).and_then(Option::as_ref);
    match other {
        Some(other) if is_phantom(thread) && !is_phantom(other) => {}
        Some(other) if !is_phantom(other) => return Err(fault(thread)),
        _ => siblings[number] = thread.index,
    }
    Ok(())
}

/// A child starts with the timestamp of one of its parent's events.
fn check_births(threads: &[Option<ThreadStream>], parent: &ThreadStream, children: &[u32]) -> Result<(), Fault> {
    let times = parent.index();
    for &child in children {
        let Some(child) = threads.get(child as usize).and_then(Option::as_ref) else { continue };
        if !is_phantom(child) && !times.has_time(child.start_clock) {
            return Err(fault(child));
        }
    }
    Ok(())
}
