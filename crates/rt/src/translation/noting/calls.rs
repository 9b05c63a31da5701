//! Functions of libc that are looked at as a whole, when they return: those that read
//! more than they are asked for, a vector at a time, and those that copy byte by byte.
//!
//! What a function accessed follows from its arguments, its result and what stands in
//! memory then. Which functions there are is looked up once; that one of them begins at
//! an address is asked when the address is translated.

mod formats;
mod numbers;
mod shapes;
mod table;

use crate::races;
use alloc::vec::Vec;
use core::cell::Cell;
use core::ffi::CStr;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use relive_accesses::{Followed, Kind, Returned};
use relive_dbi::read_own_memory;
use relive_sys::lock::Lock;
use relive_sys::lookup::next_symbol;
use relive_sys::maps;
use relive_sys::signal::is_own_code;
use relive_trace::races::UNTOLD_FUNCTIONS;
use shapes::{Done, Memory};
use table::ROWS;

const PAGE: u64 = 4096;

struct Known {
    /// Where libc's code is.
    library: Range<u64>,
    /// Addresses, and of which function: a row's number, or behind these one of [`UNTOLD_FUNCTIONS`].
    functions: Vec<(u64, u32)>,
}

static KNOWN: Lock<Known> = Lock::new(Known { library: 0..0, functions: Vec::new() });

/// Calls of which only a part could be told.
static UNCLEAR: AtomicU64 = AtomicU64::new(0);
/// Calls that did not return as they were expected to.
static LEFT: AtomicU64 = AtomicU64::new(0);
/// Calls of each of [`UNTOLD_FUNCTIONS`].
static UNTOLD_CALLS: [AtomicU64; UNTOLD_FUNCTIONS.len()] = [const { AtomicU64::new(0) }; UNTOLD_FUNCTIONS.len()];

/// The functions that are told as a whole.
pub(super) fn names() -> impl Iterator<Item = &'static CStr> {
    ROWS.iter().flat_map(|row| row.names.iter().copied())
}

/// Looks the functions up, once, before anything is translated.
pub(super) fn look_up() {
    let mut known = KNOWN.lock();
    let exit = next_symbol(c"exit", None);
    maps::each_file_of_code(|range, _, _| {
        if range.contains(&exit) {
            known.library = range.start as u64..range.end as u64;
        }
    });
    let rows = ROWS.iter().zip(0..).flat_map(|(row, number)| row.names.iter().map(move |&name| (name, number)));
    let untold = UNTOLD_FUNCTIONS.iter().copied().zip(ROWS.len() as u32..);
    let found = rows.chain(untold).map(|(name, number)| (next_symbol(name, None) as u64, number));
    // A program may bring its own, whose code is looked at.
    let mut found: Vec<_> = found.filter(|(address, _)| known.library.contains(address)).collect();
    found.sort_unstable();
    found.dedup();
    // What is said to do two things is not known.
    let is_one = |at: usize| found.iter().filter(|(address, _)| *address == found[at].0).count() == 1;
    known.functions = (0..found.len()).filter(|&at| is_one(at)).map(|at| found[at]).collect();
}

/// The function that begins there.
pub(super) fn followed(ip: u64) -> Option<Followed> {
    let known = KNOWN.lock();
    let at = known.functions.binary_search_by_key(&ip, |function| function.0).ok()?;
    let number = known.functions[at].1;
    let row = ROWS.get(number as usize);
    Some(Followed {
        number,
        arguments: row.map_or(0, |row| row.arguments),
        list: row.and_then(table::Row::list),
        // Those of which nothing is known may do anything.
        floating: row.is_none_or(|row| row.floating),
    })
}

/// Where libc's code is.
pub(super) fn library() -> Range<u64> {
    KNOWN.lock().library.clone()
}

/// One more, unless there is no other thread that it could race with.
fn count(counted: &AtomicU64) {
    if !races::has_one_thread() {
        counted.fetch_add(1, Ordering::Relaxed);
    }
}

/// A call returns.
pub(super) fn returned(call: &Returned, touch: &mut dyn FnMut(Range<u64>, Kind)) {
    let memory = Own(Cell::new([0; 2]));
    let by_fronts = memory.number(call.stack, 8).is_none_or(|caller| is_own_code(caller as usize));
    let Some(row) = ROWS.get(call.number as usize) else {
        return UNTOLD_CALLS.get(call.number as usize - ROWS.len()).into_iter().for_each(count);
    };
    let mut done = Done { call, unit: row.unit, memory: &memory, touch };
    if by_fronts && !row.by_fronts || !done.is_meant(row.means) {
        return;
    }
    // Each is told, whatever is known of the others.
    let unclear = row.effects.iter().filter(|&&effect| done.tell(effect).is_err()).count();
    if unclear > 0 {
        count(&UNCLEAR);
    }
}

/// A call was left otherwise.
pub(super) fn left() {
    count(&LEFT);
}

/// Calls that could not be told: in part, because they were left, and of each of [`UNTOLD_FUNCTIONS`].
pub(super) fn not_told() -> (u64, u64, impl Iterator<Item = u64>) {
    let counted = |count: &AtomicU64| count.load(Ordering::Relaxed);
    (counted(&UNCLEAR), counted(&LEFT), UNTOLD_CALLS.iter().map(counted))
}

/// This process's memory, and two of its pages that can be read.
struct Own(Cell<[u64; 2]>);

impl Own {
    fn vouch_for(&self, page: u64) {
        let [_, last] = self.0.get();
        self.0.set([last, page]);
    }
}

impl Memory for Own {
    fn byte(&self, address: u64) -> Option<u8> {
        // Whoever goes on into another page begins there.
        if address.is_multiple_of(PAGE) && !self.0.get().contains(&(address / PAGE)) {
            if read_own_memory(address, &mut [0]) == 0 {
                return None;
            }
            self.vouch_for(address / PAGE);
        }
        // SAFETY: by the trait's contract the function read this byte, or the one before it; that is on the same page
        // unless the kernel has just read this one. A program that unmaps it meanwhile does so under its own function.
        Some(unsafe { core::ptr::with_exposed_provenance::<u8>(address as usize).read_volatile() })
    }

    fn begins(&self, address: u64) {
        if address >= PAGE {
            self.vouch_for(address / PAGE);
        }
    }
}

#[cfg(test)]
mod made_up;

#[cfg(test)]
mod tests {
    use super::{ROWS, followed, library, look_up, next_symbol};

    #[test]
    fn each_function_of_the_table_is_found_as_its_row() {
        look_up();
        assert!(!library().is_empty());
        for (row, number) in ROWS.iter().zip(0..) {
            for name in row.names {
                // The processor's own choice among several, for some.
                let address = next_symbol(name, None) as u64;
                assert_eq!(followed(address).map(|function| function.number), Some(number), "{name:?}");
            }
        }
        assert_eq!(followed(library().start), None);
    }
}
