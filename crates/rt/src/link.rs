//! How a new process image learns who started it: one environment variable.
//!
//! Apart because both the front that starts an image and the start-up of the
//! next one need it, and it is a format.

use core::ffi::CStr;
use relive_trace::control::{ENV_CONTROL, ENV_LINK, ENV_TRANSLATE};

/// Who started an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Index of the starting thread.
    pub parent: u32,
    /// How-manieth child of it the new image's first thread is.
    pub child_number: u32,
    /// Timestamp of the start.
    pub clock: u64,
}

impl Link {
    /// Reads `parent.number.clock`.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut parts = text.split(|&b| b == b'.').map(decimal);
        let link = Self {
            parent: u32::try_from(parts.next()??).ok()?,
            child_number: u32::try_from(parts.next()??).ok()?,
            clock: parts.next()??,
        };
        parts.next().is_none().then_some(link)
    }

    /// Writes `RELIVE_LINK=parent.number.clock` with a final zero; the bytes used, zero included.
    pub fn format(&self, out: &mut [u8; 80]) -> usize {
        let mut at = 0;
        let mut push = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        push(ENV_LINK.as_bytes());
        for (separator, value) in [(b'=', self.parent as u64), (b'.', self.child_number as u64), (b'.', self.clock)] {
            push(&[separator]);
            let mut digits = [0; 20];
            let mut v = value;
            let mut first = digits.len();
            while first == digits.len() || v > 0 {
                first -= 1;
                digits[first] = b'0' + (v % 10) as u8;
                v /= 10;
            }
            push(&digits[first..]);
        }
        push(&[0]);
        at
    }
}

fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |v, &b| {
        let digit = b.is_ascii_digit().then(|| (b - b'0') as u64)?;
        v.checked_mul(10)?.checked_add(digit)
    })
}

/// What the environment says about a session.
#[derive(Clone, Copy, Debug, Default)]
pub struct FromEnvironment {
    /// Path of the control memory.
    pub control: Option<&'static CStr>,
    /// Who started this image.
    pub link: Option<Link>,
    /// Whether the image runs translated.
    pub translate: bool,
}

/// Looks through an environment.
///
/// # Safety
/// `environment` must be null or a null-terminated array of strings that stay for good.
pub unsafe fn read(environment: *const *const core::ffi::c_char) -> FromEnvironment {
    let mut found = FromEnvironment::default();
    let mut at = environment;
    // SAFETY: the caller's promise.
    unsafe {
        while !at.is_null() && !(*at).is_null() {
            let entry = CStr::from_ptr(*at);
            if let Some(value) = value_of(entry, ENV_CONTROL) {
                found.control = Some(value);
            } else if let Some(value) = value_of(entry, ENV_LINK) {
                found.link = Link::parse(value.to_bytes());
            } else if value_of(entry, ENV_TRANSLATE).is_some() {
                found.translate = true;
            }
            at = at.add(1);
        }
    }
    found
}

/// The value of an entry of an environment, if it has this name.
pub fn value_of<'a>(entry: &'a CStr, name: &str) -> Option<&'a CStr> {
    let rest = entry.to_bytes_with_nul().strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
    CStr::from_bytes_with_nul(rest).ok()
}

#[cfg(test)]
mod tests {
    use super::Link;

    #[test]
    fn a_link_survives_the_environment() {
        let link = Link { parent: 0, child_number: 4_294_967_294, clock: u64::MAX };
        let mut out = [0; 80];
        let len = link.format(&mut out);
        let text = out[..len].strip_prefix(b"RELIVE_LINK=").unwrap().strip_suffix(b"\0").unwrap();
        assert_eq!(Link::parse(text), Some(link));
    }

    #[test]
    fn anything_else_is_no_link() {
        for text in ["", "1.2", "1.2.3.4", "1.x.3", "-1.2.3", "1.2.99999999999999999999999"] {
            assert_eq!(Link::parse(text.as_bytes()), None, "{text}");
        }
    }
}
