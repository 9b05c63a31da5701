//! What a replay that looks for races and its launcher hand each other: names of files
//! in the session's folder for races, and the words in them.
//!
//! Apart from the control memory because these files outlive the processes.

pub mod told;

use core::ffi::CStr;

/// What the first pass found, a file a process image: `found-N`.
pub const FOUND: &str = "found";
/// What the second pass is to watch.
pub const WATCH: &str = "watch";
/// What the second pass found, a file a process image: `told-N`, as `relive-findings` reads it.
pub const TOLD: &str = "told";
/// Which instructions of the program the second pass has seen to access what races or orders, a file a process image: `learnt-N`.
/// A record is [`word::LEARNT`] or [`word::RACED`], the file's [`crate::accesses::key`], and the offset there; before the first one of a file
/// its path, in records of [`word::STANDS_AT`].
pub const LEARNT: &str = "learnt";

/// Functions of libc that access memory of their callers in ways that nobody tells the detector.
pub const UNTOLD_FUNCTIONS: &[&CStr] = &[
    c"strtok",
    c"strxfrm",
    c"wcsxfrm",
    c"wcscoll",
    c"wcstok",
    c"wcsspn",
    c"wcscspn",
    c"wcspbrk",
    c"wcstol",
    c"wcstoul",
    c"wcstoll",
    c"wcstoull",
    c"wcstod",
    c"wcsftime",
    c"strptime",
    c"mbstowcs",
    c"mbsrtowcs",
    c"mbsnrtowcs",
    c"mbrtowc",
    c"mbtowc",
    c"mbrlen",
    c"wcstombs",
    c"wcsrtombs",
    c"wcsnrtombs",
    c"wcrtomb",
    c"wctomb",
    c"iconv",
    c"swprintf",
    c"vswprintf",
    c"swscanf",
    c"vswscanf",
    c"strfmon",
    c"getsubopt",
    c"regcomp",
    c"regexec",
    c"fnmatch",
    c"glob",
    c"wordexp",
    c"inet_aton",
    c"inet_pton",
    c"inet_ntop",
    c"random_r",
    c"drand48_r",
    c"lrand48_r",
    c"hsearch_r",
    c"lsearch",
    c"lfind",
];

/// Words of [`FOUND`] and [`WATCH`]. A record is what, line (an address divided by 64), and the bytes of that line.
pub mod word {
    /// Words of a record.
    pub const COUNT: usize = 3;
    /// These bytes race.
    pub const RACING: u64 = 0;
    /// These bytes are a synchronisation variable, or the part of one in this line: a locked instruction touched them.
    /// Each record is one: neighbours are others.
    pub const VARIABLE: u64 = 1;
    /// What was not observed, in place of a line one of [`not_translated`], and how often.
    pub const NATIVE: u64 = 2;
    /// What was not observed, in place of a line iced's number of a mnemonic, and how often it was executed.
    pub const UNKNOWN: u64 = 3;

    /// How often a thread comes to the instruction at this address is to be counted, in place of a line the address;
    /// two of these at most.
    pub const COUNTED: u64 = 4;

    /// Segments as `RecPlay` counts them, each freed behind the last one that is unordered with it: how many there were,
    /// and how many were stored at a time.
    pub const EXACT: u64 = 5;
    /// The same, each freed when the clocks of all threads know it.
    pub const SNOOPED: u64 = 6;
    /// Added to these two: bytes of their sets of locations at a time, and pairs that were compared.
    pub const MORE: u64 = 2;

    /// What the instruction at this address accesses is meant as a synchronisation variable, in place of a line the
    /// address.
    pub const MEANT: u64 = 9;
    /// A process image began, in place of a line its number: what it did is known up to its end if [`ENDED`] says so.
    pub const BEGUN: u64 = 10;
    /// It told all that it had done, by the same number, and is about to end or to become another image.
    pub const ENDED: u64 = 11;

    /// An instruction accesses what races, or what orders others.
    pub const LEARNT: u64 = 12;

    /// An instruction accesses what races, but would not if what other records name were ordered.
    pub const RACED: u64 = 17;

    /// The file of a key is at a path of which the third word has the next eight bytes; those of the last one are filled
    /// up with zeros.
    pub const STANDS_AT: u64 = 16;

    /// A thread has read these bytes, and did not synchronise behind that any more.
    pub const OPEN: u64 = 13;

    /// Threads waited by the kernel at these bytes of a line, or were let go on: as [`VARIABLE`].
    pub const WAITED: u64 = 14;

    /// Whether the line races is not known: a thread's reads of it were not noted one by one.
    pub const UNSURE: u64 = 15;

    /// The process has read these bytes, which other processes see.
    pub const SEEN_READ: u64 = 18;
    /// It has written them.
    pub const SEEN_WRITTEN: u64 = 19;

    /// Why something was not observed.
    pub mod not_translated {
        /// A piece of code that can't be translated ran natively.
        pub const PIECE: u64 = 0;
        /// A thread was found outside of the translator.
        pub const THREAD: u64 = 1;
        /// A whole process ran natively.
        pub const PROCESS: u64 = 2;
        /// A function of libc was called of which not all that it accessed could be told.
        pub const UNCLEAR: u64 = 3;
        /// A function of libc did not return to its caller, or was interrupted by another one.
        pub const LEFT: u64 = 4;
        /// From here on: the function with this number in [`UNTOLD_FUNCTIONS`](super::super::UNTOLD_FUNCTIONS) was called.
        pub const FUNCTIONS: u64 = 16;
    }
}
