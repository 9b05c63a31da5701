//! Finds the functions that the preloaded library stands in front of.
//!
//! `dlsym(RTLD_NEXT, …)` is right for most, but for symbols with several
//! versions it returns the oldest: `pthread_cond_wait` of 2.2.5 works on another
//! layout. So a version is named where it matters.

use core::ffi::{CStr, c_char, c_void};

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

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
        dlsym(RTLD_NEXT, name.as_ptr()) as usize
    }
}
