//! Where libraries have their thread-local variables: so far below each thread's pointer.
//!
//! glibc lays those of the program and of all libraries that are there from the start into
//! one piece, in an order that follows from what was asked for when; only the loader knows
//! it. Libraries that are loaded later have theirs in blocks of the heap.
//!
//! Apart from the list of modules because the loader is asked at the start: at the end its
//! lock may be held, or the loader gone.

use alloc::vec::Vec;
use core::ffi::{c_int, c_void};
use core::ops::Range;
use relive_sys::lock::Lock;
use relive_sys::lookup::next_symbol;

/// A segment of code, and how far below a thread's pointer the variables of its library begin.
type Known = (Range<u64>, u64);

/// What the loader said. No fork finds it held: whoever looks here holds the second pass's lock, as whoever forks does.
static KNOWN: Lock<Vec<Known>> = Lock::new(Vec::new());

/// `struct dl_phdr_info`.
#[repr(C)]
struct Image {
    bias: u64,
    name: *const u8,
    headers: *const Header,
    count: u16,
    added: u64,
    removed: u64,
    module: u64,
    /// The calling thread's.
    storage: u64,
}

/// `Elf64_Phdr`.
#[repr(C)]
struct Header {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical: u64,
    in_file: u64,
    in_memory: u64,
    align: u64,
}

const LOAD: u32 = 1;
const EXECUTE: u32 = 1;

type Visit = unsafe extern "C" fn(*const Image, usize, *mut c_void) -> c_int;

/// Asks the loader. In the first thread, at start-up.
pub(super) fn look_up(pointer: u64) {
    let iterate = next_symbol(c"dl_iterate_phdr", None);
    if iterate == 0 {
        return;
    }
    let mut found: (u64, Vec<Known>) = (pointer, Vec::new());
    // SAFETY: the loader's own function, past its front: nothing is ordered yet, and no other thread is there.
    unsafe {
        let iterate: unsafe extern "C" fn(Visit, *mut c_void) -> c_int = core::mem::transmute(iterate);
        iterate(visit, (&raw mut found).cast());
    }
    *KNOWN.lock() = found.1;
}

unsafe extern "C" fn visit(image: *const Image, bytes: usize, found: *mut c_void) -> c_int {
    if bytes < size_of::<Image>() {
        return 0;
    }
    // SAFETY: the loader's, as large as it says, with its headers; and what `look_up` gave it.
    unsafe {
        let ((pointer, known), image) = (&mut *found.cast::<(u64, Vec<Known>)>(), &*image);
        let headers = core::slice::from_raw_parts(image.headers, image.count.into());
        let below = pointer.checked_sub(image.storage).filter(|&below| image.storage != 0 && below > 0);
        let code = headers.iter().filter(|header| header.kind == LOAD && header.flags & EXECUTE != 0);
        let placed = |header: &Header| {
            let start = image.bias.wrapping_add(header.address);
            start..start.wrapping_add(header.in_memory)
        };
        known.extend(below.into_iter().flat_map(|below| code.clone().map(move |header| (placed(header), below))));
    }
    0
}

/// How far below each thread's pointer the thread-local variables of the library begin of whose code some is mapped there; 0
/// if it has none, or elsewhere. Of code that is mapped in several pieces, each says the same.
pub(super) fn of_code(mapped: &Range<u64>) -> u64 {
    let known = KNOWN.lock();
    let of = known.iter().find(|(code, _)| code.start < mapped.end && mapped.start < code.end);
    of.map_or(0, |&(_, below)| below)
}
