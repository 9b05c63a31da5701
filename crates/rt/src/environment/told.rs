//! How much the kernel wrote, of calls whose arguments do not say it.
//!
//! Apart because it concerns two kinds of calls that have nothing else in common.

use super::{descriptors, system_v};
use relive_sys::syscall::number::SEMCTL;

/// The argument in whose place something else says how much the kernel wrote, which then stands before what it wrote.
pub(super) fn argument(number: usize, arguments: &[usize; 6]) -> Option<usize> {
    if descriptors::depends_on_table(number, arguments) {
        return Some(0);
    }
    system_v::asks_for_all(number, arguments).then_some(1)
}

/// What stands there in a recording.
pub(super) fn instead(number: usize, arguments: &[usize; 6]) -> usize {
    if number == SEMCTL {
        return system_v::set_size(arguments[0]);
    }
    (arguments[0] as u32 as usize).min(descriptors::table_size())
}
