//! The environment that a new image is given: the program's, and what the
//! runtime needs to be there and to know who it is.
//!
//! Built in memory of its own: exec may be called where the program's heap is
//! locked. The memory is given back if the call returns.

use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicUsize, Ordering};
use relive_rt::link::Link;
use relive_sys::syscall;
use relive_trace::control::{ENV_CONTROL, ENV_LINK};

/// `char *const argv[]`.
pub(crate) type Strings = *const *const c_char;

const PRELOAD: &str = "LD_PRELOAD";
const KEPT_BYTES: usize = 4096;

/// `NAME=value` as this process was started with; the program may change its own copy.
struct Kept {
    bytes: core::cell::UnsafeCell<[u8; KEPT_BYTES]>,
    len: AtomicUsize,
}

// SAFETY: written once, before any other thread exists; read-only afterwards.
unsafe impl Sync for Kept {}

static KEPT_PRELOAD: Kept = Kept { bytes: core::cell::UnsafeCell::new([0; KEPT_BYTES]), len: AtomicUsize::new(0) };
static KEPT_CONTROL: Kept = Kept { bytes: core::cell::UnsafeCell::new([0; KEPT_BYTES]), len: AtomicUsize::new(0) };

/// Keeps what new images will need. With `ours_alone`, nothing of what the user preloads besides: the program still has
/// that in its environment, and hands it on itself.
///
/// # Safety
/// Once, at start-up; `environment` must be the process's.
pub(crate) unsafe fn remember(environment: Strings, ours_alone: bool) {
    for (name, kept) in [(PRELOAD, &KEPT_PRELOAD), (ENV_CONTROL, &KEPT_CONTROL)] {
        // SAFETY: the caller's promise.
        if let Some(entry) = unsafe { find(environment, name) } {
            let bytes = entry.to_bytes();
            let others = (ours_alone && name == PRELOAD).then(|| bytes.iter().position(|&b| b == b':')).flatten();
            let bytes = &bytes[..others.unwrap_or(bytes.len())];
            if bytes.len() < KEPT_BYTES {
                // SAFETY: start-up: nobody reads it yet; a zero stands behind it.
                unsafe { (&mut *kept.bytes.get())[..bytes.len()].copy_from_slice(bytes) };
                kept.len.store(bytes.len() + 1, Ordering::Release);
            }
        }
    }
}

impl Kept {
    fn entry(&self) -> Option<&CStr> {
        let len = self.len.load(Ordering::Acquire);
        // SAFETY: not written after start-up.
        CStr::from_bytes_with_nul(unsafe { &(&*self.bytes.get())[..len] }).ok()
    }
}

unsafe fn find<'a>(environment: Strings, name: &str) -> Option<&'a CStr> {
    let mut at = environment;
    // SAFETY: the caller's promise: null or a null-terminated array of strings.
    unsafe {
        while !at.is_null() && !(*at).is_null() {
            let entry = CStr::from_ptr(*at);
            if is(entry, name) {
                return Some(entry);
            }
            at = at.add(1);
        }
    }
    None
}

fn is(entry: &CStr, name: &str) -> bool {
    entry.to_bytes().strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'='))
}

/// An environment for a new image, in memory of its own.
#[derive(Debug)]
pub(crate) struct Environment {
    base: usize,
    len: usize,
}

impl Environment {
    /// The entries of `program`, with the session's. `None` if there is no session or no memory.
    ///
    /// # Safety
    /// `program` must be null or a null-terminated array of strings.
    pub(crate) unsafe fn build(program: Strings, link: Link) -> Option<Self> {
        let (preload, control) = (KEPT_PRELOAD.entry()?, KEPT_CONTROL.entry()?);
        let mut count = 0;
        // SAFETY: the caller's promise.
        let own = unsafe {
            while !program.is_null() && !(*program.add(count)).is_null() {
                count += 1;
            }
            find(program, PRELOAD)
        };
        let pointers = (count + 4) * size_of::<usize>();
        let len = pointers + 80 + KEPT_BYTES + own.map_or(0, CStr::count_bytes) + 2;
        let base = syscall::mmap(len, syscall::MAP_PRIVATE_ANONYMOUS, -1, 0);
        if base < 0 {
            return None;
        }
        let built = Self { base: base as usize, len };
        // SAFETY: the mapping has room for all pointers and texts, counted above; the caller's promise.
        unsafe {
            let text = (built.base + pointers) as *mut u8;
            let link_len = link.format(&mut *text.cast::<[u8; 80]>());
            debug_assert!(link_len <= 80, "a link fits its buffer");
            let joined = join_preload(text.add(80), preload, own);
            let list = built.base as *mut *const c_char;
            for (i, entry) in [text.cast(), joined, control.as_ptr()].into_iter().enumerate() {
                list.add(i).write(entry);
            }
            let mut at = 3;
            for i in 0..count {
                let entry = CStr::from_ptr(*program.add(i));
                if ![ENV_LINK, ENV_CONTROL, PRELOAD].iter().any(|name| is(entry, name)) {
                    list.add(at).write(entry.as_ptr());
                    at += 1;
                }
            }
            list.add(at).write(core::ptr::null());
        }
        Some(built)
    }

    pub(crate) fn strings(&self) -> Strings {
        self.base as Strings
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own.
        unsafe { syscall::munmap(self.base, self.len) };
    }
}

/// `LD_PRELOAD=` ours, then what the program asks for besides.
unsafe fn join_preload(out: *mut u8, ours: &CStr, program: Option<&CStr>) -> *const c_char {
    let ours = ours.to_bytes();
    let theirs = program.map_or(&[][..], |p| &p.to_bytes()[PRELOAD.len() + 1..]);
    let first = ours[PRELOAD.len() + 1..].split(|&b| b == b':' || b == b' ').next().unwrap_or(&[]);
    let has_ours = !first.is_empty() && theirs.windows(first.len()).any(|w| w == first);
    let mut at = 0;
    let mut push = |bytes: &[u8]| {
        // SAFETY: the caller made room for both texts and a separator.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), out.add(at), bytes.len()) };
        at += bytes.len();
    };
    if has_ours {
        push(PRELOAD.as_bytes());
        push(b"=");
    } else {
        push(ours);
        if !theirs.is_empty() {
            push(b":");
        }
    }
    push(theirs);
    push(&[0]);
    out.cast()
}
