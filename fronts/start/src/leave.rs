//! What is left for the runtime: see `relive_sys::start::Handover`.

use crate::arguments::{OPTION_DIGITS, Passed};
use crate::files::{self, Told};
use crate::scratch::need;
use core::ffi::{CStr, c_char};
use relive_sys::start::{AREA, Break, HANDOVER, Handover, Opened};
use relive_trace::control::{ENV_CONTROL, ENV_LINK};

const PAGE: usize = 4096;
const PRELOAD: &str = "LD_PRELOAD";
/// The kernel knows no longer path.
pub(crate) const PATH_MAX: usize = 4096;

/// Whether an entry of the environment is the session's. Its length differs between recording and replay.
pub(crate) fn is_session(entry: &CStr) -> bool {
    [PRELOAD, ENV_CONTROL, ENV_LINK].into_iter().any(|name| is(entry, name))
}

/// Whether the loader has to see an entry.
pub(crate) fn is_preload(entry: &CStr) -> bool {
    is(entry, PRELOAD)
}

fn is(entry: &CStr, name: &str) -> bool {
    entry.to_bytes().strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'='))
}

/// Lays the handover out, but for the file.
pub(crate) fn lay(passed: &Passed) -> (&'static mut Handover, Told) {
    // SAFETY: strings of the environment.
    let texts = || passed.environment.iter().map(|&entry| unsafe { CStr::from_ptr(entry) });
    let session = || texts().filter(|entry| is_session(entry));
    let kept = || session().chain([passed.starter, passed.options]);
    let bytes: usize = kept().map(|text| text.to_bytes_with_nul().len()).sum();
    need(HANDOVER, (size_of::<Handover>() + PATH_MAX + bytes).next_multiple_of(PAGE), 0);
    let none = core::ptr::null::<c_char>();
    let mut next = HANDOVER + size_of::<Handover>() + PATH_MAX;
    let mut keep = |text: &CStr| {
        let (at, text) = (next as *mut u8, text.to_bytes_with_nul());
        next += text.len();
        // SAFETY: the mapping has room for all of them, counted above.
        unsafe { core::ptr::copy_nonoverlapping(text.as_ptr(), at, text.len()) };
        at.cast::<c_char>().cast_const()
    };
    let mut list = [none; 4];
    for (place, entry) in list[..3].iter_mut().zip(session()) {
        *place = keep(entry);
    }
    let options = keep(passed.options);
    // Limit and debugger are this program's alone, not those that it starts.
    // SAFETY: the copy has so many digits and a zero at least.
    unsafe { options.cast_mut().add(OPTION_DIGITS).write(0) };
    let handover = Handover {
        session: list,
        starter: keep(passed.starter),
        options,
        file: file_name(),
        stack: passed.stack,
        lowest: AREA.end,
        end_of_data: Break::FAR,
        opened: Opened::NONE,
        places: None,
    };
    // SAFETY: the mapping begins with room for it.
    unsafe {
        let place = HANDOVER as *mut Handover;
        place.write(handover);
        let told = files::start(&mut *place);
        (&mut *place, told)
    }
}

/// The path of the file that runs.
pub(crate) fn file() -> &'static CStr {
    // SAFETY: room for it that is zero at its end.
    unsafe { CStr::from_ptr(file_name()) }
}

/// Where it is kept.
fn file_name() -> *const c_char {
    (HANDOVER + size_of::<Handover>()) as *const c_char
}

/// Keeps the path of the file that runs.
pub(crate) fn keep_file(path: &[u8]) {
    let length = path.len().min(PATH_MAX - 1);
    // SAFETY: room of this size, zeroed.
    unsafe { core::ptr::copy_nonoverlapping(path.as_ptr(), file_name().cast_mut().cast(), length) };
}
