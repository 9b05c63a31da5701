//! Instructions that run in other places than they stand: a handler that the program
//! has for their faults finds the thread where they stand, and whatever place it goes on at
//! is found again.
//!
//! Apart from faults because the way back is a call, of any handler.

use super::{atomics, memory};
use crate::replay::strike;
use relive_sys::atomics::copy_of as copy_of_atomic;
use relive_sys::outside::jumps;
use relive_sys::signal::{Context, Info};

/// A fault of the program's is about to be handled.
pub(super) fn put_right(info: &mut Info, context: &mut Context) {
    let place = context.place();
    let copied = jumps::original(place).or_else(|| atomics::stopped(place)).or_else(|| strike::original(context));
    let Some(original) = copied else { return };
    context.set_place(original);
    // Of some faults the address is that of the instruction.
    if info.code > 0 && info.address() == place {
        info.set_address(original);
    }
}

/// The handler whose frame has its context at `frame` is about to return.
pub(super) fn put_back(frame: usize) {
    let mut bytes = [0; size_of::<usize>()];
    let at = Context::address_of_place(frame);
    if !memory::read(at, &mut bytes) {
        return;
    }
    let place = usize::from_le_bytes(bytes);
    if let Some(copy) = jumps::copy_of(place).or_else(|| copy_of_atomic(place)).or_else(|| strike::copy_of(place)) {
        memory::write(at, &copy.to_le_bytes());
    }
}
