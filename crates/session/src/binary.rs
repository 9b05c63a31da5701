//! What identifies the program and its libraries, and the machine they ran on.

use object::{Object, ReadCache};
use relive_trace::manifest::{Binary, Host, Text};
use relive_trace::reader::checksum;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Seek};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Describes a program or library by its build-id, which tells one build from another, and its content, which may have been
/// changed since.
///
/// # Errors
/// What the system says to reading it.
pub fn describe(path: &Path) -> io::Result<Binary> {
    let file = File::open(path)?;
    let bytes = file.metadata()?.len();
    let build_id = build_id(&file);
    (&file).rewind()?;
    let checksum = Some(format!("{:016x}", checksum(&file)?));
    Ok(Binary { path: Text::from(path), build_id, bytes, checksum })
}

/// Whether the file at its path is still the recorded one.
pub fn unchanged(recorded: &Binary) -> bool {
    is_same(recorded, recorded.path.as_path())
}

/// Whether the file at `path` is the recorded one.
pub fn is_same(recorded: &Binary, path: &Path) -> bool {
    describe(path).is_ok_and(|found| {
        // An older recording has no checksum beside a build-id.
        let same_content = recorded.checksum.is_none() || found.checksum == recorded.checksum;
        found.build_id == recorded.build_id && found.bytes == recorded.bytes && same_content
    })
}

fn build_id(file: &File) -> Option<String> {
    let cache = ReadCache::new(file);
    let parsed = object::File::parse(&cache).ok()?;
    let id = parsed.build_id().ok().flatten()?;
    let digits = id.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from_digit(digit.into(), 16)).collect()
}

/// The libraries that the loader would load for `executable` in this environment, and the loader itself.
pub fn libraries(loader: &Path, executable: &Path) -> Vec<Binary> {
    listed(loader, executable).iter().filter_map(|path| describe(path).ok()).collect()
}

/// Where those are, each once.
///
/// The loader is asked because only it knows all its rules; what the program opens later by itself is not listed.
pub(crate) fn listed(loader: &Path, executable: &Path) -> BTreeSet<PathBuf> {
    let listing =
        Command::new(loader).arg("--list").arg(executable).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let mut paths = BTreeSet::from([loader.to_owned()]);
    for line in listing.map(|output| output.stdout).unwrap_or_default().split(|&b| b == b'\n') {
        paths.extend(listed_path(line));
    }
    paths
}

/// From a line like `libc.so.6 => /lib/libc.so.6 (0x…)`.
fn listed_path(line: &[u8]) -> Option<PathBuf> {
    let arrow = line.windows(4).position(|four| four == b" => ")?;
    let rest = &line[arrow + 4..];
    let end = rest.windows(2).rposition(|two| two == b" (")?;
    let path = PathBuf::from(OsString::from_vec(rest[..end].to_vec()));
    path.is_absolute().then_some(path)
}

/// This machine.
pub fn host() -> Host {
    let names = rustix::system::uname();
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = text.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
    };
    let mut features: Vec<String> = field("flags").split_ascii_whitespace().map(str::to_owned).collect();
    features.sort_unstable();
    Host {
        name: names.nodename().to_string_lossy().into_owned(),
        kernel: names.release().to_string_lossy().into_owned(),
        processor: field("model name"),
        processors: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
        features,
    }
}

#[cfg(test)]
mod tests {
    use super::{describe, host, libraries, listed_path, unchanged};
    use crate::program::Program;
    use std::fs;
    use std::path::Path;

    #[test]
    fn a_changed_file_without_build_id_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        fs::write(&path, "one").unwrap();
        let recorded = describe(&path).unwrap();
        assert!(recorded.build_id.is_none() && recorded.checksum.is_some());
        assert!(unchanged(&recorded));
        fs::write(&path, "two").unwrap();
        assert!(!unchanged(&recorded));
        fs::remove_file(&path).unwrap();
        assert!(!unchanged(&recorded));
    }

    #[test]
    fn a_file_patched_in_place_is_noticed_although_its_build_id_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let mut bytes = fs::read("/bin/true").unwrap();
        fs::write(&path, &bytes).unwrap();
        let recorded = describe(&path).unwrap();
        assert!(recorded.build_id.is_some() && unchanged(&recorded));
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert_eq!(describe(&path).unwrap().build_id, recorded.build_id);
        assert!(!unchanged(&recorded));
    }

    #[test]
    fn the_loader_names_libc() {
        let program = Program::find(&["true".into()]).unwrap();
        let found = libraries(&program.loader, &program.executable);
        assert!(found.iter().any(|library| library.path.to_string().contains("libc.so")), "{found:?}");
        assert!(found.iter().all(|library| library.build_id.is_some() || library.checksum.is_some()));
        assert!(!host().kernel.is_empty());
    }

    #[test]
    fn paths_with_blanks_are_read_from_the_loaders_list() {
        assert_eq!(listed_path(b"\tl.so => /a b (c)/l.so (0x7f)").as_deref(), Some(Path::new("/a b (c)/l.so")));
        assert_eq!(listed_path(b"\tlinux-vdso.so.1 (0x7f)"), None);
        assert_eq!(listed_path(b"\tl.so => not found"), None);
    }
}
