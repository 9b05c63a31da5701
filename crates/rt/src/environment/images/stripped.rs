//! The environment of an image that can't be recorded: the program's own, as it gave
//! it. What the session put there would make the loader complain of a library that it
//! can't open, and of what the image starts nothing could be recorded either.
//!
//! Apart from `preload/processes/environment.rs`, which puts it there, because what can
//! be recorded is known here only.

use super::desk::{self, each_pointer, read_text, text};
use crate::link::value_of;
use crate::path::join;
use core::ffi::CStr;
use relive_trace::control::{ENV_CONTROL, ENV_LINK};

const PRELOAD: &str = "LD_PRELOAD";

/// The list without the session's entries, in memory of its own; `None` if there is none.
pub(super) fn without_session(environment: usize) -> Option<usize> {
    let count = each_pointer(environment, |_, _| true)?;
    let (desk, words) = desk::borrow(count)?;
    let mut kept = 0;
    each_pointer(environment, |_, entry| {
        let known = read_text(entry, &mut desk.next).map(|()| text(&desk.next));
        let stays = match known {
            Some(known) if [ENV_CONTROL, ENV_LINK].iter().any(|name| value_of(known, name).is_some()) => None,
            Some(known) if value_of(known, PRELOAD).is_some() => others(known).map(|others| {
                // Shorter than what it is taken from.
                let _ = join(&mut desk.path, [PRELOAD.as_bytes(), b"=", others]);
                desk.path.as_ptr().addr()
            }),
            _ => Some(entry),
        };
        if let Some(entry) = stays {
            words[kept] = entry;
            kept += 1;
        }
        kept <= count
    });
    words[kept] = 0;
    Some(words.as_ptr().addr())
}

/// What is preloaded besides our library, which comes first.
fn others(entry: &CStr) -> Option<&[u8]> {
    let bytes = &entry.to_bytes()[PRELOAD.len() + 1..];
    let end = bytes.iter().position(|byte| b": ".contains(byte))?;
    Some(&bytes[end + 1..]).filter(|others| !others.is_empty())
}

#[cfg(test)]
mod tests {
    use super::without_session;
    use std::ffi::{CStr, c_char};

    #[test]
    fn the_program_keeps_what_it_gave() {
        crate::runtime::remember_pid();
        let stripped = |entries: &[&CStr]| {
            let list: Vec<*const c_char> =
                entries.iter().map(|entry| entry.as_ptr()).chain([std::ptr::null()]).collect();
            let mut at = without_session(list.as_ptr().addr()).unwrap() as *const *const c_char;
            let mut texts = Vec::new();
            // SAFETY: a list ended by null, of strings that stay until the next one is made.
            unsafe {
                while !(*at).is_null() {
                    texts.push(CStr::from_ptr(*at).to_owned());
                    at = at.add(1);
                }
            }
            texts
        };
        let session = [c"RELIVE_LINK=0.1.2", c"LD_PRELOAD=/l.so", c"RELIVE_CONTROL=/c", c"A=b", c"RELIVE_LINKED=1"];
        assert_eq!(stripped(&session), [c"A=b", c"RELIVE_LINKED=1"].map(ToOwned::to_owned));
        assert_eq!(
            stripped(&[c"LD_PRELOAD=/l.so:/m.so /n.so", c""]),
            [c"LD_PRELOAD=/m.so /n.so", c""].map(ToOwned::to_owned)
        );
        assert!(stripped(&[]).is_empty());
    }
}
