//! Findings as a sequence of 64-bit words, as the replayed process writes them into
//! memory that it shares with its launcher.
//!
//! Apart from [`crate::raw`] because the writer has no `std` and no time: it writes one
//! record after the other, word by word, and never goes back. So nothing here is nested.
//! A record is
//!
//! ```text
//! tag, number of words that follow, words …
//! ```
//!
//! and belongs to what stands before it. The writer writes a record's words and its
//! length first and its tag last; the memory is zero before, so a tag of 0 ends what was
//! written whole, even if the process died in the middle. All words are little endian. A
//! number that does not apply is 0, a thread that does not apply is [`NO_THREAD`].
//!
//! | tag | record | words | belongs to |
//! |---|---|---|---|
//! | 1 | `HEADER` | [`MAGIC`], [`VERSION`] | is first, once |
//! | 2 | `MODULE` | start, end, bias, how far below a thread pointer its thread-local variables begin (0: not known); then one `TEXT`: the file. Perhaps of its code alone, see below | |
//! | 3 | `BUILD_ID` | bytes (at most [`BUILD_ID_MAX`]), then the bytes, eight to a word, first byte lowest | `MODULE` |
//! | 4 | `THREAD` | number, creator, start of its stack, end of its stack, its thread pointer (`pthread_self()`); then a `TEXT`: its name, perhaps a second: its label; perhaps a `STACK`: its creation | |
//! | 5 | `RACE` | address, bytes, kind, certainty, count; then exactly two `ACCESS` | |
//! | 6 | `ACCESS` | thread, event, count since event, kind, address, size, value known (0 or 1), value, setting; then its `STACK` | `RACE` |
//! | 7 | `LOCK` | address, shared (0 or 1); perhaps a `STACK`: where it was taken | `ACCESS` |
//! | 8 | `SYNC` | side (0 before the access, 1 after it), event, object; then a `TEXT`: the operation | `ACCESS` |
//! | 9 | `BLOCK` | start, size; perhaps an `ORIGIN` for its allocation, then one for its end | `RACE`, at any place in it |
//! | 10 | `ORIGIN` | thread; perhaps a `STACK` | `BLOCK` |
//! | 11 | `STACK` | addresses, innermost first | `THREAD`, `ACCESS`, `LOCK`, `ORIGIN` |
//! | 12 | `SLOTS` | for each frame of that stack where the address to which it returns (the next one of the `STACK`) stands; at most as many | the same, behind its `STACK` |
//! | 13 | `TEXT` | bytes, then the bytes as in `BUILD_ID`; UTF-8, what is not is replaced | `MODULE`, `THREAD`, `SYNC`, `UNOBSERVED`, `DIVERGED` |
//! | 14 | `UNOBSERVED` | count; then a `TEXT` | |
//! | 15 | `DIVERGED` | thread, event; then a `TEXT` | once at most |
//! | 16 | `END` | nothing | is last |
//! | 17 | `SNAPSHOT` | rip, rsp, rbp, rbx, r12, r13, r14, r15, then what stands from rsp upwards, at most [`STACK_WORDS_MAX`] words | what a `STACK` belongs to, in place of it |
//! | 18 | `CONTENT` | bytes (at most 64), then the bytes as in `BUILD_ID`: of those that race the first ones side by side, as the access read or wrote them, if it is longer than a value | `ACCESS`, once at most |
//! | 19 | `MORE` | number of a `RACE` before it, from 0 on; line (an address divided by 64), and the bytes of it that accesses of the same two instructions race for | |
//!
//! Kind of a race: 0 data, 1 with free, 2 use after free. Certainty: 0 certain, 1 after
//! the first, 2 possible atomic. Kind of an access: 0 read, 1 write, 2 atomic read,
//! 3 atomic write, 4 free. Setting: 0 ordinary, 1 constructor, 2 exit, 256 + n the
//! handler of signal n.
//!
//! A writer that can't unwind writes `SNAPSHOT`s; one that knows mappings of code alone
//! writes those as `MODULE`s, with the first address less where in the file it begins as
//! the bias, and as often as it likes. [`crate::locate`] makes stacks and whole modules of
//! them. Of an access, rip is the instruction; elsewhere, and where our own library made the
//! access for the program, it lies in that library, whose frames are left out.
//!
//! "Belongs to" means the last record of that kind, with nothing between them but what
//! belongs to the same one; [`read`] refuses everything else by a typed error that names
//! the word. Findings that end without `END` are what a process wrote before it died:
//! a race whose second access is missing is left out.
//!
//! [`NO_THREAD`]: crate::raw::NO_THREAD

mod reader;
#[cfg(test)]
mod tests;

pub use reader::read;
pub use relive_trace::races::told::{MAGIC, STACK_WORDS_MAX, VERSION};

/// Most bytes of a `CONTENT`.
pub const CONTENT_MAX: u64 = 64;
/// Most bytes of a build id.
pub const BUILD_ID_MAX: u64 = 64;

/// The tags of records.
pub mod tag {
    pub use relive_trace::races::told::tag::*;

    macro_rules! tags {
        ($($name:ident, $fixed:expr;)*) => {
            /// The name of a tag.
            pub const fn name(tag: u64) -> Option<&'static str> {
                match tag { $($name => Some(stringify!($name)),)* _ => None }
            }

            /// How many words a record of this tag has, if that is always the same.
            pub(super) const fn words(tag: u64) -> Option<usize> {
                match tag { $($name => $fixed,)* _ => None }
            }
        };
    }
    tags! {
        HEADER, Some(2);
        MODULE, Some(4);
        BUILD_ID, None;
        THREAD, Some(5);
        RACE, Some(5);
        ACCESS, Some(9);
        LOCK, Some(2);
        SYNC, Some(3);
        BLOCK, Some(2);
        ORIGIN, Some(1);
        STACK, None;
        SLOTS, None;
        TEXT, None;
        UNOBSERVED, Some(1);
        DIVERGED, Some(2);
        END, Some(0);
        SNAPSHOT, None;
        CONTENT, None;
        MORE, Some(3);
    }
}

/// Why findings can't be read: a fault of the writer, or memory that something else wrote to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("findings at word {at}: {problem}")]
pub struct WireError {
    /// The word at which the record begins.
    pub at: usize,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The first record is none of ours.
    #[error("these are no findings")]
    NotFindings,
    /// Another version wrote them.
    #[error("version {0}, this reader knows {VERSION}")]
    Version(u64),
    /// No record is called so.
    #[error("tag {0} is not known")]
    UnknownTag(u64),
    /// It ends behind the memory.
    #[error("{} of {words} words does not fit", tag::name(*tag).unwrap_or("a record"))]
    Cut {
        /// Its tag.
        tag: u64,
        /// How many words it claims.
        words: u64,
    },
    /// It has another length than such records have.
    #[error("{} of {words} words", tag::name(*tag).unwrap_or("a record"))]
    Length {
        /// Its tag.
        tag: u64,
        /// How many words it has.
        words: u64,
    },
    /// Nothing before it can have such a record.
    #[error("{} where none can stand", tag::name(*.0).unwrap_or("a record"))]
    Misplaced(u64),
    /// A number that has no meaning there.
    #[error("{what} can't be {value}")]
    Value {
        /// What the number stands for.
        what: &'static str,
        /// What it is.
        value: u64,
    },
    /// A race is followed by something else before it has two accesses.
    #[error("a race with {0} accesses")]
    Accesses(usize),
}
