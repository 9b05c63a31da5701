//! The shapes of what the kernel writes into a program's memory.
//!
//! Apart from `written.rs` because tables and documentation name shapes, and
//! only that file has to know what each means in bytes.

/// One place that the kernel writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    /// Which argument is the pointer; nothing is written through a null pointer.
    pub argument: u8,
    /// How much is written there.
    pub bytes: Bytes,
    /// With which results it is written.
    pub when: When,
}

/// With which results of the call an output is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The call did not fail.
    Success,
    /// The result is more than zero.
    Positive,
    /// Whatever the result.
    Always,
    /// Only when the call failed with this errno.
    Error(u16),
    /// The call did not fail, or failed with this errno.
    SuccessOr(u16),
    /// Every result but a failure with this errno.
    Unless(u16),
}

impl When {
    /// Whether an output is written that comes with `result`.
    pub const fn holds(self, result: isize) -> bool {
        match self {
            When::Success => result >= 0,
            When::Positive => result > 0,
            When::Always => true,
            When::Error(errno) => result == -(errno as isize),
            When::SuccessOr(errno) => result >= 0 || result == -(errno as isize),
            When::Unless(errno) => result != -(errno as isize),
        }
    }
}

/// How many bytes an [`Output`] has. Fields called like an argument hold its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// So many.
    Fixed(u32),
    /// So many if the argument has a bit of `mask` (`set`) or has none (not `set`).
    Flagged {
        /// The size.
        bytes: u32,
        /// The argument with the flags.
        argument: u8,
        /// Which flags.
        mask: u32,
        /// Whether they must be there or must be absent.
        set: bool,
    },
    /// As many as the result says.
    Result,
    /// As many as the result says, behind a head of so many.
    ResultAnd(u32),
    /// As many as the result says, but not more than the length argument: the result can be what there would have been.
    Capped {
        /// The argument with the room in bytes.
        length: u8,
    },
    /// As many as the result says if they fit, else none: a result beyond the room only answers how much is needed.
    Fitting {
        /// The argument with the room in bytes.
        length: u8,
    },
    /// The whole room, whatever the kernel had to say.
    Room {
        /// The argument with the room in bytes.
        length: u8,
    },
    /// All elements of an array that the program brought.
    Array {
        /// The argument with their number, 32 bits of it.
        count: u8,
        /// The size of one.
        each: u32,
    },
    /// As many elements as the result says, but not more than there is room for.
    Counted {
        /// The size of one.
        each: u32,
        /// The argument with the room in elements, 32 bits of it.
        most: u8,
    },
    /// The room that the word of 32 bits at the pointer in `length` stated before, or the size it states after, if less.
    /// The word itself is an output of its own that stands before this one.
    Value {
        /// The argument with the pointer to the word.
        length: u8,
    },
    /// The same, but the word belongs to it: without a buffer the kernel leaves the word alone.
    Address {
        /// The argument with the pointer to the word.
        length: u8,
    },
    /// As many elements as the word of 32 bits at the pointer in `length` states after, unless it was zero before. The
    /// word itself is an output of its own that stands before this one.
    Elements {
        /// The argument with the pointer to the word.
        length: u8,
        /// The size of one.
        each: u32,
    },
    /// As many as the result says, spread over the buffers of a vector of `iovec`.
    Buffers {
        /// The argument with the number of buffers.
        count: u8,
    },
    /// A `msghdr`: its changed fields, the sender's name, the data and the control messages.
    Message,
    /// As many `mmsghdr` as the result says, each with what belongs to a `msghdr`.
    Messages {
        /// The argument with the length of the vector, 32 bits of it.
        count: u8,
    },
    /// An `fd_set` in words of 64 bits.
    Descriptors {
        /// The argument with the number of bits.
        count: u8,
    },
    /// What is left of a time limit that was not zero and can be written to; 16 bytes, whatever the result.
    Timeout,
    /// One for each page of a range.
    Pages {
        /// The argument with the length of the range.
        length: u8,
    },
    /// A set of memory nodes in words of 64 bits.
    Nodes {
        /// The argument with one more than the number of bits.
        most: u8,
    },
    /// The sets of capabilities that the version in the header asks for.
    Capabilities {
        /// The argument with the pointer to the header.
        header: u8,
    },
    /// A structure whose first 32 bits say how long it is.
    Sized {
        /// The argument with the room in bytes.
        most: u8,
    },
    /// A `file_handle`.
    Handle,
    /// The value that an `xattr_args` points to.
    Attribute,
    /// An `ifconf` and the list that it points to.
    Interfaces,
    /// A `fiemap` and the extents behind it.
    Extents,
}

impl Bytes {
    /// Whether it is one piece, with a length that arguments and result give.
    pub(crate) const fn is_piece(self) -> bool {
        matches!(
            self,
            Self::Fixed(_)
                | Self::Flagged { .. }
                | Self::Result
                | Self::ResultAnd(_)
                | Self::Capped { .. }
                | Self::Fitting { .. }
                | Self::Room { .. }
                | Self::Array { .. }
                | Self::Counted { .. }
                | Self::Descriptors { .. }
                | Self::Pages { .. }
                | Self::Nodes { .. }
        )
    }
}
