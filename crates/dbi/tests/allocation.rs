//! Translating allocates nothing: it may happen within the program's own allocator.
//!
//! A binary of its own for its global allocator, which counts: for each thread, because
//! the test's own harness has one that may allocate at any time.

use relive_dbi::{AREA_BYTES, Engine, Host, Memory, Plain, Thread, data_bytes, read_own_memory};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::NonNull;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: all of it is the system allocator's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        BYTES.set(BYTES.get() + layout.size());
        // SAFETY: forwarded.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: forwarded.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Here;

impl Host for Here {
    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        read_own_memory(address, into)
    }

    fn is_outside(&self, _address: u64) -> bool {
        false
    }
}

fn map(bytes: usize, protection: i32) -> NonNull<u8> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping, anywhere.
    let found = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    assert_ne!(found, libc::MAP_FAILED);
    NonNull::new(found.cast()).unwrap()
}

extern "C" fn work(out: *mut u8) -> u64 {
    // SAFETY: the caller gives 4096 bytes; the format fits into them.
    unsafe {
        let count =
            libc::snprintf(out.cast(), 4096, c"%d %.17g %-*s %#lx|".as_ptr(), 7, 0.1f64, 20, c"text".as_ptr(), 9u64);
        libc::memmove(out.add(100).cast(), out.cast(), count as usize);
        libc::memset(out.add(1000).cast(), 1, 2000);
        let mut end = std::ptr::null_mut();
        let value = libc::strtod(c"1.7976931348623157e308".as_ptr(), &raw mut end);
        libc::strlen(out.cast()) as u64 + value.to_bits() + libc::strtoul(out.cast(), &raw mut end, 0)
    }
}

#[test]
fn nothing_is_allocated_once_the_engine_is_made() {
    let (read, execute) = (libc::PROT_READ | libc::PROT_WRITE, libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC);
    let (code_bytes, mut out) = (8 << 20, [0u8; 4096]);
    let data_bytes = data_bytes(code_bytes);
    let memory = Memory { code: map(code_bytes, execute), code_bytes, data: map(data_bytes, read), data_bytes };
    let expected = work(out.as_mut_ptr());
    let before = BYTES.get();
    // SAFETY: the memory was just mapped for it.
    let engine = unsafe { Engine::new(memory, Here, Plain) }.expect("an engine");
    let tables = BYTES.get() - before;
    assert!((1..1 << 20).contains(&tables), "iced's tables take {tables} bytes");
    // SAFETY: the memory is new; this thread is attached to no other engine.
    let mut thread = unsafe { Thread::attach(&engine, map(AREA_BYTES, read)) }.expect("a thread");
    let count = COUNT.get();
    // SAFETY: the function takes a pointer to 4096 bytes.
    let found = unsafe { thread.call(work as *const () as usize, [out.as_mut_ptr() as u64, 0, 0, 0, 0, 0]) };
    assert_eq!(COUNT.get(), count);
    assert_eq!(found, expected);
    assert!(engine.usage().blocks > 200, "{:?}", engine.usage());
}
