//! Where the kernel has written, computed from arguments, result and memory.
//!
//! Apart from the tables because this is the meaning of the shapes, and from
//! `output.rs` because only this file reads a program's memory.
//!
//! # The rule of order
//!
//! A recording calls [`written`] after the kernel has written, and copies each
//! piece out. A replay calls it with memory as it was *before* the call, and
//! copies each piece in as soon as it is visited. Both must visit the same
//! pieces. So whatever the length of a piece depends on is
//!
//! - an argument or the result, which are the same in both runs, or
//! - memory that the kernel only reads (a vector of buffers, the pointers in a
//!   header), or
//! - memory that the call has written, and then the piece it stands in was
//!   visited before it is read: it has been copied in by then, or
//! - memory that the call has overwritten, as it was before: that is
//!   [`Before`], taken by [`before`] in both runs when memory was still alike.
//!
//! A header that changes is therefore always visited in front of what it
//! describes, and an output that states a length stands in its list in front of
//! the output that it measures.
//!
//! # What may be visited
//!
//! Pieces are what the kernel wrote or a little more (a pad, a field that it
//! left alone), never less. The kernel says nothing if it could not write the
//! remaining time of a [`Bytes::Timeout`], as when it is a constant: [`before`]
//! finds that out.

use crate::{Bytes, Output};

/// Reads the program's memory.
///
/// `u32` and `u64` are only called with addresses that are not null, for memory
/// that the kernel has just read or written successfully, or in a replay at
/// the place where it did so in the recording. The others are called before
/// the kernel has looked, and answer `None` where it would fail.
pub trait Memory {
    /// The 32 bits at `address`.
    fn u32(&self, address: usize) -> u32;
    /// The 64 bits at `address`.
    fn u64(&self, address: usize) -> u64;
    /// The 32 bits at `address`, which may point to nowhere.
    fn try_u32(&self, address: usize) -> Option<u32>;
    /// The 64 bits at `address`, which may point to nowhere.
    fn try_u64(&self, address: usize) -> Option<u64>;
    /// Writes what stands at `address` already. Whether it can be written to.
    fn try_put_back(&self, address: usize, words: [u64; 2]) -> bool;
}

/// What must be known from before the call, because the kernel overwrites it.
///
/// One word for each output of the list; [`Bytes::Messages`] uses all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Before([u64; Before::WORDS]);

impl Before {
    /// No list of outputs is longer.
    pub const WORDS: usize = 8;
}

/// The largest address of a socket, to which the kernel shortens a longer room.
const NAME_MAX: u32 = 128;
/// Messages of one `recvmmsg` whose rooms for names are kept: a byte each. Of a later one the name is taken to fit its
/// room; it does unless an address was cut short.
const NAMES_KEPT: usize = Before::WORDS * 8;
/// No vector of buffers or messages has more elements.
const VECTOR_MAX: usize = 1024;

/// Offsets in a `msghdr`, and its size in a vector of `mmsghdr`.
mod message {
    pub(super) const NAME: usize = 0;
    pub(super) const NAME_LENGTH: usize = 8;
    pub(super) const BUFFERS: usize = 16;
    pub(super) const BUFFERS_COUNT: usize = 24;
    pub(super) const CONTROL: usize = 32;
    /// The length of the control messages, and the flags behind it.
    pub(super) const CONTROL_LENGTH: usize = 40;
    pub(super) const CONTROL_LENGTH_AND_FLAGS: usize = 12;
    /// In a `mmsghdr`: the bytes received.
    pub(super) const RECEIVED: usize = 56;
    pub(super) const EACH: usize = 64;
}

/// Takes from memory what [`written`] needs and the kernel will overwrite. Touches only through the `try_` functions.
pub fn before(outputs: &[Output], arguments: &[usize; 6], memory: &impl Memory) -> Before {
    let mut words = [0; Before::WORDS];
    for (output, index) in outputs.iter().zip(0..Before::WORDS) {
        let pointer = argument(arguments, output.argument);
        let stated = |address: usize| (address != 0).then(|| memory.try_u32(address)).flatten().unwrap_or(0);
        match output.bytes {
            Bytes::Value { length } | Bytes::Address { length } | Bytes::Elements { length, .. } => {
                words[index] = u64::from(stated(argument(arguments, length)));
            }
            Bytes::Message if pointer != 0 => {
                words[index] = u64::from(stated(pointer.wrapping_add(message::NAME_LENGTH)).min(NAME_MAX));
            }
            Bytes::Messages { count } if pointer != 0 => {
                names(&mut words, pointer, argument(arguments, count) as u32 as usize, memory);
            }
            Bytes::Timeout if pointer != 0 => {
                let seconds = memory.try_u64(pointer);
                let fraction = memory.try_u64(pointer.wrapping_add(8));
                let told = seconds.zip(fraction).is_some_and(|(seconds, fraction)| {
                    seconds | fraction != 0 && memory.try_put_back(pointer, [seconds, fraction])
                });
                words[index] = u64::from(told);
            }
            _ => {}
        }
    }
    Before(words)
}

/// Keeps the rooms for names of the first messages of a vector.
fn names(words: &mut [u64; Before::WORDS], vector: usize, count: usize, memory: &impl Memory) {
    for index in 0..count.min(NAMES_KEPT) {
        let header = vector.wrapping_add(index * message::EACH);
        let Some(room) = memory.try_u32(header.wrapping_add(message::NAME_LENGTH)) else { return };
        words[index / 8] |= u64::from(room.min(NAME_MAX)) << (index % 8 * 8);
    }
}

/// Calls `visit(address, length)` for each piece of memory that a call wrote, none of them empty, in an order that is
/// the same in every replay with the same arguments, result and [`Before`]. `result` is the kernel's: a negative errno
/// if the call failed.
///
/// A replay has to copy a piece in before it returns from `visit`: see the top of this file.
pub fn written(
    outputs: &[Output],
    arguments: &[usize; 6],
    before: &Before,
    result: isize,
    memory: &impl Memory,
    visit: &mut dyn FnMut(usize, usize),
) {
    let mut call = Returned { arguments, before, result, memory, visit };
    for (index, output) in outputs.iter().enumerate() {
        let pointer = argument(arguments, output.argument);
        if pointer != 0 && output.when.holds(result) {
            call.output(output.bytes, pointer, index);
        }
    }
}

/// Whether a call writes one piece at most, whose length its arguments and result give: then [`single`] says all.
pub const fn is_single(outputs: &[Output]) -> bool {
    match outputs {
        [] => true,
        [output] => output.bytes.is_piece(),
        _ => false,
    }
}

/// The address and the length of what such a call wrote; zeros if it wrote nothing.
pub fn single(outputs: &[Output], arguments: &[usize; 6], result: isize) -> [usize; 2] {
    let Some(output) = outputs.first().filter(|output| output.when.holds(result)) else { return [0; 2] };
    match argument(arguments, output.argument) {
        0 => [0; 2],
        pointer => [pointer, length(output.bytes, arguments, result)],
    }
}

/// The shapes that are one piece, with a length that arguments and result give.
fn length(bytes: Bytes, arguments: &[usize; 6], result: isize) -> usize {
    let argument = |index: u8| argument(arguments, index);
    let count = count(result);
    match bytes {
        Bytes::Fixed(bytes) => bytes as usize,
        Bytes::Flagged { bytes, argument: flags, mask, set } => {
            let has = argument(flags) as u32 & mask != 0;
            if has == set { bytes as usize } else { 0 }
        }
        Bytes::Result => count,
        Bytes::ResultAnd(head) => count.saturating_add(head as usize),
        Bytes::Capped { length } => count.min(argument(length)),
        Bytes::Fitting { length } if count <= argument(length) => count,
        Bytes::Room { length } => argument(length),
        Bytes::Array { count, each } => (argument(count) as u32 as usize).saturating_mul(each as usize),
        Bytes::Counted { each, most } => count.min(argument(most) as u32 as usize).saturating_mul(each as usize),
        Bytes::Descriptors { count } => (argument(count) as u32 as usize).div_ceil(64) * 8,
        Bytes::Pages { length } => argument(length).div_ceil(4096),
        Bytes::Nodes { most } => argument(most).saturating_sub(1).div_ceil(64) * 8,
        _ => 0,
    }
}

/// The result as a number of things; none if the call failed.
fn count(result: isize) -> usize {
    usize::try_from(result).unwrap_or(0)
}

/// An index beyond the arguments stands in no table; a null pointer is the harmless answer to it.
fn argument(arguments: &[usize; 6], index: u8) -> usize {
    arguments.get(usize::from(index)).copied().unwrap_or(0)
}

/// A call that has returned.
struct Returned<'a, M> {
    arguments: &'a [usize; 6],
    before: &'a Before,
    result: isize,
    memory: &'a M,
    visit: &'a mut dyn FnMut(usize, usize),
}

impl<M: Memory> Returned<'_, M> {
    /// `pointer` is not null and the output is written with this result.
    fn output(&mut self, bytes: Bytes, pointer: usize, index: usize) {
        match bytes {
            bytes if bytes.is_piece() => self.piece(pointer, length(bytes, self.arguments, self.result)),
            Bytes::Value { length } => self.value(pointer, length, index, 1),
            Bytes::Address { length } => {
                self.piece(self.argument(length), 4);
                self.value(pointer, length, index, 1);
            }
            Bytes::Elements { length, each } => self.value(pointer, length, index, each as usize),
            Bytes::Buffers { count } => self.spread(pointer, self.argument(count), self.count()),
            Bytes::Message => self.message(pointer, self.count(), self.word(index) as u32),
            Bytes::Messages { .. } => self.messages(pointer),
            Bytes::Timeout if self.word(index) != 0 => self.piece(pointer, 16),
            Bytes::Capabilities { header } => self.capabilities(pointer, self.argument(header)),
            Bytes::Sized { most } => {
                self.piece(pointer, 4);
                let length = (self.memory.u32(pointer) as usize).min(self.argument(most));
                self.piece(pointer.wrapping_add(4), length.saturating_sub(4));
            }
            Bytes::Handle => self.handle(pointer),
            Bytes::Attribute => {
                let room = self.memory.u32(pointer.wrapping_add(8)) as usize;
                let value = self.memory.u64(pointer) as usize;
                self.piece(value, if self.count() <= room { self.count() } else { 0 });
            }
            Bytes::Interfaces => {
                self.piece(pointer, 4);
                let length = self.memory.u32(pointer) as usize;
                self.piece(self.memory.u64(pointer.wrapping_add(8)) as usize, length);
            }
            Bytes::Extents => self.extents(pointer),
            _ => {}
        }
    }

    fn piece(&mut self, address: usize, length: usize) {
        if address != 0 && length != 0 {
            (self.visit)(address, length);
        }
    }

    fn argument(&self, index: u8) -> usize {
        argument(self.arguments, index)
    }

    fn count(&self) -> usize {
        count(self.result)
    }

    fn word(&self, index: usize) -> u64 {
        self.before.0.get(index).copied().unwrap_or(0)
    }

    /// What a word states about the buffer at `pointer`. For single bytes the kernel writes no more than fits; for
    /// larger elements it fails if they don't, and a room of none only asks for their number.
    fn value(&mut self, pointer: usize, length: u8, index: usize, each: usize) {
        let word = self.argument(length);
        if word == 0 {
            return;
        }
        let room = self.word(index) as usize;
        let stated = self.memory.u32(word) as usize;
        self.piece(pointer, stated.min(room).saturating_mul(each));
    }

    /// `total` bytes over the buffers of a vector.
    fn spread(&mut self, vector: usize, buffers: usize, total: usize) {
        let mut rest = total;
        for index in 0..buffers.min(VECTOR_MAX) {
            if rest == 0 || vector == 0 {
                return;
            }
            let buffer = vector.wrapping_add(index * 16);
            let address = self.memory.u64(buffer) as usize;
            let length = rest.min(self.memory.u64(buffer.wrapping_add(8)) as usize);
            self.piece(address, length);
            rest -= length;
        }
    }

    /// `room` is how long the name could have been.
    fn message(&mut self, header: usize, received: usize, room: u32) {
        self.piece(header.wrapping_add(message::NAME_LENGTH), 4);
        self.piece(header.wrapping_add(message::CONTROL_LENGTH), message::CONTROL_LENGTH_AND_FLAGS);
        let memory = self.memory;
        let field = |offset: usize| memory.u64(header.wrapping_add(offset)) as usize;
        let name_length = memory.u32(header.wrapping_add(message::NAME_LENGTH)).min(room);
        self.piece(field(message::NAME), name_length as usize);
        self.spread(field(message::BUFFERS), field(message::BUFFERS_COUNT), received);
        // The kernel states what it used of the room, so this needs no value from before.
        self.piece(field(message::CONTROL), field(message::CONTROL_LENGTH));
    }

    fn messages(&mut self, vector: usize) {
        for index in 0..self.count().min(VECTOR_MAX) {
            let header = vector.wrapping_add(index * message::EACH);
            let received = header.wrapping_add(message::RECEIVED);
            self.piece(received, 4);
            let room = match self.before.0.get(index / 8) {
                Some(word) => (word >> (index % 8 * 8)) as u32 & 0xff,
                None => NAME_MAX,
            };
            self.message(header, self.memory.u32(received) as usize, room);
        }
    }

    /// Version 1 has one set of three words, the others two.
    fn capabilities(&mut self, pointer: usize, header: usize) {
        const VERSION_1: u32 = 0x1998_0330;
        if header != 0 {
            let sets = if self.memory.u32(header) == VERSION_1 { 1 } else { 2 };
            self.piece(pointer, sets * 12);
        }
    }

    /// The head is written also when the handle did not fit: it says how much room is needed.
    fn handle(&mut self, pointer: usize) {
        const LONGEST: u32 = 128;
        self.piece(pointer, 8);
        if self.result >= 0 {
            let length = self.memory.u32(pointer).min(LONGEST);
            self.piece(pointer.wrapping_add(8), length as usize);
        }
    }

    /// The head is written also when the flags were not understood: it says which ones.
    fn extents(&mut self, pointer: usize) {
        const HEAD: usize = 32;
        const MAPPED: usize = 20;
        const ROOM: usize = 24;
        const EACH: usize = 56;
        self.piece(pointer, HEAD);
        if self.result >= 0 {
            let mapped = self.memory.u32(pointer.wrapping_add(MAPPED));
            let room = self.memory.u32(pointer.wrapping_add(ROOM));
            self.piece(pointer.wrapping_add(HEAD), (mapped.min(room) as usize).saturating_mul(EACH));
        }
    }
}
