//! Finds the functions that the preloaded library stands in front of.
//!
//! `dlsym(RTLD_NEXT, …)` is right for most, but for symbols with several
//! versions it returns the oldest: `pthread_cond_wait` of 2.2.5 works on another
//! layout. So a version is named where it matters. `dlsym` itself is one of the functions
//! that we stand in front of: libc's is found by its version, and `dlvsym` is left alone.

use crate::signal::is_own_code;
use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};

unsafe extern "C" {
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

type LookUp = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

const RTLD_NEXT: *mut c_void = -1isize as *mut c_void;

/// The address of the next definition of `name` after the calling library, or 0.
/// With a version, that version's; the default one if it doesn't exist.
pub fn next_symbol(name: &CStr, version: Option<&CStr>) -> usize {
    // SAFETY: both strings are terminated. dlsym allocates only to report an error in detail; that error is
    // asked for by nobody here.
    unsafe {
        if let Some(version) = version {
            let found = dlvsym(RTLD_NEXT, name.as_ptr(), version.as_ptr());
            if !found.is_null() {
                return found as usize;
            }
        }
        look_up()(RTLD_NEXT, name.as_ptr()) as usize
    }
}

/// The calling library's own `name`, if the program has that by default, and `found` is the next definition of it: what the own one
/// stands in front of. There must be a next definition.
pub fn in_front_of(found: usize, name: &CStr) -> Option<usize> {
    const RTLD_DEFAULT: *mut c_void = core::ptr::null_mut();
    // SAFETY: a terminated string.
    let default = unsafe { look_up()(RTLD_DEFAULT, name.as_ptr()) } as usize;
    (is_own_code(default) && next_symbol(name, None) == found).then_some(default)
}

/// The address of `name` in an open library, or 0.
///
/// # Safety
/// `library` is a handle of `dlopen`'s.
pub unsafe fn symbol_in(library: *mut c_void, name: &CStr) -> usize {
    // SAFETY: the caller's promise; a terminated string.
    unsafe { look_up()(library, name.as_ptr()) as usize }
}

/// libc's `dlsym`.
fn look_up() -> LookUp {
    /// Where it is its own, and where it was another library's before.
    const VERSIONS: [&CStr; 2] = [c"GLIBC_2.34", c"GLIBC_2.2.5"];
    static KNOWN: AtomicUsize = AtomicUsize::new(0);
    let mut known = KNOWN.load(Ordering::Relaxed);
    if known == 0 {
        // SAFETY: terminated strings.
        let mut found =
            VERSIONS.iter().map(|version| unsafe { dlvsym(RTLD_NEXT, c"dlsym".as_ptr(), version.as_ptr()) });
        known = found.find(|address| !address.is_null()).map_or(0, |address| address as usize);
        KNOWN.store(known, Ordering::Relaxed);
    }
    assert!(known != 0, "the C library has no dlsym");
    // SAFETY: it is that function.
    unsafe { core::mem::transmute::<usize, LookUp>(known) }
}
