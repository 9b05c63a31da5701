//! `malloc` and kin, where the environment is recorded: libc's functions are made
//! into jumps to the ones here.
//!
//! They are not exported, because a program whose environment is not recorded must
//! keep libc's heap at full speed, and one that brings its own must keep that.
//! What libc gave out before our constructor stays where it is: such blocks are
//! moved when they change size, and never freed.

use crate::module::{self, Module};
use crate::real::{self, errno, set_errno};
use core::ffi::{CStr, c_int};
use core::ptr::null_mut;
use relive_rt::environment::heap;
use relive_rt::report;
use relive_sys::image::Image;
use relive_sys::lookup::next_symbol;
use relive_sys::sites;

const ENOMEM: c_int = 12;
const EINVAL: c_int = 22;
const PAGE: usize = 4096;
/// Bits of the size in front of a block of libc's that are not the size.
const FLAGS: usize = 7;
/// Such a block is a mapping of its own.
const MAPPED: usize = 2;

const OWN: usize = 7;
const FURTHER: usize = 3;

/// The functions by the names that libc has for itself. An allocator may define them, too (tcmalloc, TBB's), as well as the
/// usual ones, and is asked for nothing then but by libc's own names: in half of an allocator nothing would be set up.
fn own_names() -> [(&'static CStr, usize); OWN] {
    [
        (c"__libc_malloc", fronts::malloc as *const () as usize),
        (c"__libc_free", fronts::free as *const () as usize),
        (c"__libc_calloc", fronts::calloc as *const () as usize),
        (c"__libc_realloc", fronts::realloc as *const () as usize),
        (c"__libc_memalign", fronts::memalign as *const () as usize),
        (c"__libc_valloc", fronts::valloc as *const () as usize),
        (c"__libc_pvalloc", fronts::pvalloc as *const () as usize),
    ]
}

/// Those without such a name.
fn further() -> [(&'static CStr, usize); FURTHER] {
    [
        (c"aligned_alloc", fronts::memalign as *const () as usize),
        (c"posix_memalign", fronts::posix_memalign as *const () as usize),
        (c"malloc_usable_size", fronts::malloc_usable_size as *const () as usize),
    ]
}

/// Functions of libc's heap lie no farther apart.
const NEAR: usize = 64 * 1024;

/// Takes libc's place.
pub(crate) fn take_over() {
    let libc = module::find(next_symbol(c"gnu_get_libc_version", None));
    let own = own_names();
    let first = libcs(libc, own[0].0);
    if own.iter().any(|(name, _)| libcs(libc, name) == 0) {
        return report::line(format_args!(
            "the heap of this C library is not known; its addresses may differ in a replay"
        ));
    }
    let all = own.into_iter().chain(further()).map(|(name, target)| (libcs(libc, name), target));
    let mut near = [(0, 0); OWN + FURTHER];
    let mut count = 0;
    for (place, function) in near.iter_mut().zip(all.filter(|&(found, _)| found.abs_diff(first) < NEAR)) {
        *place = function;
        count += 1;
    }
    // SAFETY: functions of libc's, all longer than the jump; at start-up nobody else runs them.
    unsafe { sites::divert(&near[..count]) };
}

/// The address of what libc defines by this name, or 0. Who else defines it comes before libc.
fn libcs(libc: Option<Module>, name: &CStr) -> usize {
    let found = next_symbol(name, None);
    let Some(libc) = libc.filter(|libc| !(libc.start..libc.end).contains(&found)) else { return found };
    // SAFETY: it is loaded, for as long as the process lives.
    unsafe { Image::at(libc.start) }.find(name.to_bytes()).unwrap_or(0)
}

/// What libc's functions are made to go to.
mod fronts {
    use relive_sys::front;

    front!(at_hand malloc, super::malloc_at_hand, super::malloc);
    front!(private calloc, super::calloc);
    front!(at_hand free, super::free_at_hand, super::free);
    front!(private realloc, super::realloc);
    front!(private memalign, super::memalign);
    front!(private valloc, super::valloc);
    front!(private pvalloc, super::pvalloc);
    front!(private posix_memalign, super::posix_memalign);
    front!(private malloc_usable_size, super::malloc_usable_size);
}

fn no_memory() -> *mut u8 {
    set_errno(ENOMEM);
    null_mut()
}

#[cold]
fn misuse(what: &str) -> ! {
    report::line(format_args!("{what}(): invalid pointer"));
    // SAFETY: ends the process.
    unsafe { real::abort() };
    unreachable!("abort does not return")
}

/// Null if the heap is to be asked.
unsafe extern "C" fn malloc_at_hand(size: usize, cache: &mut heap::Cache) -> *mut u8 {
    heap::allocate_at_hand(cache, size)
}

unsafe extern "C" fn malloc(size: usize) -> *mut u8 {
    heap::allocate(size).map_or_else(no_memory, |block| block.address)
}

unsafe extern "C" fn calloc(count: usize, size: usize) -> *mut u8 {
    let Some(block) = count.checked_mul(size).and_then(heap::allocate) else { return no_memory() };
    if !block.zero {
        // SAFETY: the block that was just given out is that large.
        unsafe { block.address.write_bytes(0, count * size) };
    }
    block.address
}

/// 0 if the heap is to be asked.
unsafe extern "C" fn free_at_hand(pointer: *mut u8, cache: &mut heap::Cache) -> usize {
    // SAFETY: the program's block, or null.
    usize::from(pointer.is_null() || unsafe { heap::free_at_hand(cache, pointer) })
}

/// What it returns stands in the same register in the other way.
unsafe extern "C" fn free(pointer: *mut u8) -> usize {
    // SAFETY: the program's block.
    if heap::owns(pointer) && unsafe { heap::free(pointer) }.is_err() {
        misuse("free");
    }
    1
}

unsafe extern "C" fn realloc(pointer: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: the program's block, or null.
    unsafe {
        if pointer.is_null() {
            return malloc(size);
        }
        if size == 0 {
            free(pointer);
            return null_mut();
        }
        if !heap::owns(pointer) {
            let new = malloc(size);
            if !new.is_null() {
                core::ptr::copy_nonoverlapping(pointer, new, size.min(libcs_size(pointer)));
            }
            return new;
        }
        match heap::reallocate(pointer, size) {
            Ok(Some(moved)) => moved,
            Ok(None) => no_memory(),
            Err(_) => misuse("realloc"),
        }
    }
}

/// How many bytes a block holds that libc gave out.
unsafe fn libcs_size(pointer: *const u8) -> usize {
    // SAFETY: in front of each of libc's blocks stands its size with that of what stands in front.
    let word = unsafe { pointer.cast::<usize>().sub(1).read() };
    let taken = if word & MAPPED == 0 { size_of::<usize>() } else { 2 * size_of::<usize>() };
    (word & !FLAGS) - taken
}

unsafe extern "C" fn memalign(align: usize, size: usize) -> *mut u8 {
    let Some(align) = align.checked_next_power_of_two() else {
        set_errno(EINVAL);
        return null_mut();
    };
    heap::allocate_aligned(size, align).map_or_else(no_memory, |block| block.address)
}

unsafe extern "C" fn valloc(size: usize) -> *mut u8 {
    // SAFETY: as for the function.
    unsafe { memalign(PAGE, size) }
}

unsafe extern "C" fn pvalloc(size: usize) -> *mut u8 {
    match size.checked_next_multiple_of(PAGE) {
        // SAFETY: as for the function.
        Some(size) => unsafe { memalign(PAGE, size) },
        None => no_memory(),
    }
}

unsafe extern "C" fn posix_memalign(result: *mut *mut u8, align: usize, size: usize) -> c_int {
    if !align.is_power_of_two() || align < size_of::<usize>() {
        return EINVAL;
    }
    let before = errno();
    let Some(block) = heap::allocate_aligned(size, align) else {
        set_errno(before);
        return ENOMEM;
    };
    // SAFETY: the program's place for it.
    unsafe { result.write(block.address) };
    0
}

unsafe extern "C" fn malloc_usable_size(pointer: *const u8) -> usize {
    // SAFETY: the program's block, or null.
    unsafe {
        if pointer.is_null() {
            0
        } else if heap::owns(pointer) {
            heap::usable(pointer).unwrap_or_else(|_| misuse("malloc_usable_size"))
        } else {
            libcs_size(pointer)
        }
    }
}
