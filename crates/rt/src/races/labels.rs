//! What the program calls its threads (`pthread_setname_np`, `PR_SET_NAME`).
//!
//! Apart from the passes because nothing is found by it: it is only told.

use alloc::collections::BTreeMap;
use relive_sys::lock::Lock;

/// The kernel's length, its zero included.
const LENGTH: usize = 16;

/// A name, with zeros behind it.
pub(super) type Name = [u8; LENGTH];

static LABELS: Lock<BTreeMap<u32, Name>> = Lock::new(BTreeMap::new());

/// Reads a name that ends with zero, or where the kernel cuts it.
///
/// # Safety
/// It must be readable up to there.
pub(super) unsafe fn read(name: usize) -> Name {
    let mut read = [0; LENGTH];
    for (at, byte) in read.iter_mut().take(LENGTH - 1).enumerate() {
        // SAFETY: the caller's promise: nothing before this byte was its end.
        *byte = unsafe { core::ptr::with_exposed_provenance::<u8>(name + at).read() };
        if *byte == 0 {
            break;
        }
    }
    read
}

/// The thread is called so from here on.
pub(super) fn set(thread: u32, name: Name) {
    LABELS.lock().insert(thread, name);
}

/// Gives `take` what a thread is called; nothing if the program did not say.
pub(super) fn with(thread: u32, take: impl FnOnce(&[u8])) {
    let name = LABELS.lock().get(&thread).copied().unwrap_or_default();
    take(name.split(|&byte| byte == 0).next().unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::{read, set, with};

    #[test]
    fn names_end_at_their_zero_or_where_the_kernel_cuts_them() {
        // SAFETY: names that end with zero, or are longer than the kernel's.
        let name = |name: &[u8]| unsafe { read(name.as_ptr().expose_provenance()) };
        assert_eq!(&name(b"io\0other"), b"io\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(&name(b"0123456789abcdefgh"), b"0123456789abcde\0");
        set(7, name(b"reader\0"));
        with(7, |name| assert_eq!(name, b"reader"));
        with(8, |name| assert_eq!(name, b""));
    }
}
