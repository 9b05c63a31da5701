//! What a write gave away, as a check value behind the record of the call.
//!
//! Apart from what a replay shows, because it is compared whatever is shown. What a
//! program writes follows from what is recorded, unless it goes by something that is
//! not: variables that it uses without a primitive. Such a replay may go through with
//! each call as recorded, and say something else; this finds it at the first word.
//!
//! One kind of write is told, and ends nothing: at a place of a file, as databases
//! keep their logs. They write whole blocks while other threads fill the end of the
//! last one, and write that once more: what it was in between nobody reads. A replay
//! takes nothing from the file but what is recorded, and goes on as it did.

use super::{descriptors, each_piece, writes, writes_at_a_place};
use crate::replay::calls::{self as replayed, Filler};
use crate::runtime;
use relive_order::BytesCheck;
use relive_trace::control::flag;

/// The check value of a call, which stands behind what it took in.
pub(in crate::environment) struct Check(Option<u32>);

impl Check {
    /// Address and length of the value, if the call has one.
    pub(in crate::environment) fn piece(&self) -> Option<[usize; 2]> {
        self.0.as_ref().map(|value| [core::ptr::from_ref(value).addr(), size_of::<u32>()])
    }

    /// The same for who walks pieces of memory.
    pub(in crate::environment) fn visit(&self, visit: &mut dyn FnMut(usize, usize)) {
        if let Some([address, length]) = self.piece() {
            visit(address, length);
        }
    }
}

/// The check value of what a call with this result gave away.
///
/// # Safety
/// The program's buffers must be readable.
#[inline(always)]
pub(in crate::environment) unsafe fn check(number: usize, arguments: &[usize; 6], result: isize) -> Check {
    if !writes(number) || result <= 0 {
        return Check(None);
    }
    // SAFETY: the caller's promise.
    Check(unsafe { value(number, arguments, result) })
}

#[inline(never)]
unsafe fn value(number: usize, arguments: &[usize; 6], result: isize) -> Option<u32> {
    // A replay finds other letters in hidden variables, and prints those.
    if runtime::session().redacted_len > 0 {
        return None;
    }
    let mut check = BytesCheck::new();
    // SAFETY: the caller's promise.
    unsafe {
        each_piece(number, arguments, result, &mut |address, length| {
            check.add(core::slice::from_raw_parts(address as *const u8, length));
        });
    }
    Some(check.finish())
}

/// Compares what the program gives away with the check value that is left of the recorded call, if that has one.
///
/// # Safety
/// The program's buffers must be readable.
pub(in crate::environment) unsafe fn compare(
    filler: &mut Filler,
    number: usize,
    arguments: &[usize; 6],
    result: isize,
) {
    if !writes(number) || result <= 0 {
        return;
    }
    let Some(recorded) = filler.word() else { return };
    // Whoever has added a print to a rebuilt program wants to see it, and whoever looks for races the one that this comes of.
    if runtime::has_flag(flag::REBUILT | flag::RACES | flag::RACES_WATCHED) {
        return;
    }
    // SAFETY: the caller's promise.
    let found = unsafe { value(number, arguments, result) };
    if let Some(found) = found.filter(|&found| found != recorded) {
        let passes = writes_at_a_place(number) && descriptors::shown_by(arguments[0]).is_none();
        replayed::gives_other_bytes(recorded, found, passes);
    }
}
