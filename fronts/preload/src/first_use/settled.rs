//! First uses that libc makes within functions which have no order of their own, or
//! are called too often for one: they are made early, where there is an order.
//!
//! The tables by which wide characters are converted and the file of libc's own
//! messages belong to a locale, and are read when the first character is converted or
//! the first message asked for. `qsort` asks for the size of memory once.

use crate::real::real as declare;
use core::ffi::{c_char, c_int};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, Ordering};
use relive_rt::environment;

type Entry = [usize; 4];

mod real {
    use super::{Entry, declare};
    use core::ffi::{c_char, c_int};

    declare! {
        use_locale = c"uselocale", fn(locale: usize) -> usize;
        convert = c"mbrtowc", fn(wide: *mut i32, text: *const c_char, bytes: usize, state: *mut u64) -> usize;
        message = c"dcgettext", fn(domain: *const c_char, message: *const c_char, category: c_int) -> usize;
        sort = c"qsort", fn(start: *mut u64, count: usize, size: usize, order: extern "C" fn(usize, usize) -> c_int);
        protocol = c"getprotobynumber_r",
            fn(number: c_int, entry: *mut Entry, room: *mut c_char, size: usize, found: *mut usize) -> c_int;
        time_zone = c"tzset", fn();
    }
}

/// `LC_GLOBAL_LOCALE`.
const OF_ALL: usize = usize::MAX;

/// Has converted a character, and looked for libc's messages, in the calling thread's locale.
fn own_locale() {
    const LC_MESSAGES: c_int = 5;
    let errno = crate::real::errno();
    let (mut wide, mut state) = (0, 0);
    // SAFETY: memory of ours, constant texts.
    unsafe {
        real::convert(&raw mut wide, c"a".as_ptr(), 1, &raw mut state);
        real::message(c"libc".as_ptr(), c"Success".as_ptr(), LC_MESSAGES);
    }
    crate::real::set_errno(errno);
}

/// The locale that was just made, or 0.
pub(super) fn a_locale(locale: usize) {
    if locale == 0 {
        return;
    }
    // SAFETY: a locale that exists; the thread's own comes back at once.
    unsafe {
        let own = real::use_locale(locale);
        own_locale();
        real::use_locale(own);
    }
}

/// The locale of all threads, which was just set.
pub(super) fn the_locale() {
    a_locale(OF_ALL);
}

extern "C" fn equal(_: usize, _: usize) -> c_int {
    0
}

/// Before the process has a second thread: whatever the locale is, its tables are there.
pub(crate) fn settle_before_threads() {
    /// Less is sorted without a question for the size of memory.
    const SORTED: usize = 1024 / size_of::<u64>();
    static DONE: AtomicBool = AtomicBool::new(false);
    if !environment::is_on() || DONE.swap(true, Ordering::Relaxed) {
        return;
    }
    let mut numbers = [0; SORTED];
    // SAFETY: memory of ours.
    unsafe { real::sort(numbers.as_mut_ptr(), SORTED, size_of::<u64>(), equal) };
    own_locale();
    the_locale();
}

/// Whose modules answer for which tables. One that is hardly ever asked for says it as well as any other.
pub(super) fn names() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.swap(true, Ordering::Relaxed) {
        return;
    }
    let (mut entry, mut found) = (Entry::default(), 0);
    let mut room = MaybeUninit::<[c_char; 1024]>::uninit();
    let errno = crate::real::errno();
    // SAFETY: memory of ours.
    unsafe {
        real::protocol(0, &raw mut entry, room.as_mut_ptr().cast(), size_of_val(&room), &raw mut found);
    }
    crate::real::set_errno(errno);
}

/// The time zone, which a line of the log is stamped by.
pub(super) fn time_zone() {
    let errno = crate::real::errno();
    // SAFETY: no argument.
    unsafe { real::time_zone() };
    crate::real::set_errno(errno);
}
