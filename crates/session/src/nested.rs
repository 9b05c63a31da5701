//! Whether relive itself runs below a recording or a replay.
//!
//! Apart because both would need the same place in a process: its preloaded library and
//! the kernel's way to hand system calls over.

use std::fs;
use std::path::Path;

/// Whether a library like `own`, ours, is mapped into this process.
pub fn is_recorded(own: &str) -> bool {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.lines().any(|line| names_like(line, own))
}

/// Another build's has another number in its name.
fn names_like(line: &str, own: &str) -> bool {
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let name = Path::new(line.trim_end_matches(" (deleted)")).file_name().and_then(|name| name.to_str());
    let parts = |name: &str| {
        let (start, rest) = name.split_once('-')?;
        let (number, end) = rest.split_once('.')?;
        is_digits(number).then(|| (start.to_owned(), number.len(), end.to_owned()))
    };
    parts(own).is_some_and(|own| name.and_then(parts) == Some(own))
}

#[cfg(test)]
mod tests {
    use super::{is_recorded, names_like};

    #[test]
    fn a_library_of_another_build_is_ours_too() {
        let own = "preload-24a0b06bc569eda4.so";
        let line = |path: &str| format!("7f00-7f10 r-xp 00001000 08:01 1234           {path}");
        assert!(names_like(&line("/c/relive/preload-04a0b06bc569eda5.so"), own));
        assert!(names_like(&line("/c/relive/preload-04a0b06bc569eda5.so (deleted)"), own));
        assert!(!names_like(&line("/lib/preload-x.so"), own) && !names_like(&line("/lib/libc.so.6"), own));
        assert!(!names_like(&line(""), own) && !is_recorded(own));
    }
}
