//! The environment that a new image is given: the program's, and what the
//! runtime needs to be there and to know who it is.
//!
//! Built in memory of its own: exec may be called where the program's heap is
//! locked. The memory is given back if the call returns.

use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicUsize, Ordering};
use relive_rt::environment::{Obstacle, library};
use relive_rt::link::{Link, value_of};
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

/// The entry of this name.
///
/// # Safety
/// `environment` must be null or a null-terminated array of strings.
pub(super) unsafe fn find<'a>(environment: Strings, name: &str) -> Option<&'a CStr> {
    let mut at = environment;
    // SAFETY: the caller's promise: null or a null-terminated array of strings.
    unsafe {
        while !at.is_null() && !(*at).is_null() {
            let entry = CStr::from_ptr(*at);
            if value_of(entry, name).is_some() {
                return Some(entry);
            }
            at = at.add(1);
        }
    }
    None
}

/// Whether the loader of a new image would find our library; where a starter is, that sees to it.
///
/// # Errors
/// Why it would not.
#[inline(never)] // Its buffer would weigh on the stack of whoever starts a program.
pub(crate) fn can_preload() -> Result<(), Obstacle> {
    let name = KEPT_PRELOAD.entry().map_or(&[][..], library_in);
    if name.is_empty() {
        return Ok(());
    }
    let mut path = [0; KEPT_BYTES];
    path[..name.len()].copy_from_slice(name);
    CStr::from_bytes_until_nul(&path).map_or(Ok(()), library)
}

/// An environment for a new image, in memory of its own.
#[derive(Debug)]
pub(crate) struct Environment {
    base: usize,
    len: usize,
}

impl Environment {
    /// The entries of `program`, with the session's for an image that is recorded, and without them for any other. `None`
    /// if there is no session or no memory.
    ///
    /// # Safety
    /// `program` must be null or a null-terminated array of strings.
    pub(crate) unsafe fn build(program: Strings, link: Option<Link>) -> Option<Self> {
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
            let list = built.base as *mut *const c_char;
            let mut at = 0;
            let mut push = |entry| {
                list.add(at).write(entry);
                at += 1;
            };
            if let Some(link) = link {
                let link_len = link.format(&mut *text.cast::<[u8; 80]>());
                debug_assert!(link_len <= 80, "a link fits its buffer");
                [text.cast(), join_preload(text.add(80), preload, own), control.as_ptr()]
                    .into_iter()
                    .for_each(&mut push);
            } else if let Some(others) = own.and_then(|own| others(preload, own)) {
                push(join(text, [PRELOAD.as_bytes(), b"=", others]));
            }
            for i in 0..count {
                let entry = CStr::from_ptr(*program.add(i));
                if ![ENV_LINK, ENV_CONTROL, PRELOAD].iter().any(|name| value_of(entry, name).is_some()) {
                    push(entry.as_ptr());
                }
            }
            push(core::ptr::null());
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
    let theirs = program.map_or(&[][..], |p| &p.to_bytes()[PRELOAD.len() + 1..]);
    let first = library_in(ours);
    let has_ours = !first.is_empty() && theirs.windows(first.len()).any(|w| w == first);
    // SAFETY: the caller made room for both texts and a separator.
    unsafe {
        match (has_ours, theirs) {
            (true, _) => join(out, [PRELOAD.as_bytes(), b"=", theirs]),
            (false, []) => join(out, [ours.to_bytes(), b"", b""]),
            (false, _) => join(out, [ours.to_bytes(), b":", theirs]),
        }
    }
}

/// Our library, which comes first in the variable that this process was started with.
fn library_in(ours: &CStr) -> &[u8] {
    let bytes = ours.to_bytes().get(PRELOAD.len() + 1..).unwrap_or(&[]);
    bytes.split(|byte| b": ".contains(byte)).next().unwrap_or(&[])
}

/// What the program preloads besides our library, if that comes first in its variable; `None` for nothing.
fn others<'a>(ours: &CStr, program: &'a CStr) -> Option<&'a [u8]> {
    let theirs = &program.to_bytes()[PRELOAD.len() + 1..];
    let rest = match theirs.strip_prefix(library_in(ours)) {
        Some([]) => return None,
        Some([b':' | b' ', rest @ ..]) => rest,
        _ => theirs,
    };
    Some(rest).filter(|rest| !rest.is_empty())
}

/// # Safety
/// There must be room for the parts and a zero.
unsafe fn join(out: *mut u8, parts: [&[u8]; 3]) -> *const c_char {
    let mut at = 0;
    for part in parts.into_iter().chain([&[0][..]]) {
        // SAFETY: the caller's promise.
        unsafe { core::ptr::copy_nonoverlapping(part.as_ptr(), out.add(at), part.len()) };
        at += part.len();
    }
    out.cast()
}
