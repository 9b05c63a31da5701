//! Where the loader would look for a library.
//!
//! Apart because it mirrors `ld.so`: search paths of the module that asks, the
//! environment, the configured folders, the default ones. The loader itself is
//! not asked, since that starts a program that may not be trusted.

use super::module::Module;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

const CONFIGURATION: &str = "/etc/ld.so.conf";
/// Folders that a loader looks through without being told.
const DEFAULTS: [&str; 6] =
    ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"];
/// Included configuration files may include others: this deep, and no further.
const INCLUDE_DEPTH_MAX: usize = 4;

pub(super) struct Search {
    environment: Vec<PathBuf>,
    configured: Vec<PathBuf>,
}

impl Search {
    pub(super) fn from_environment() -> Self {
        let environment = env::var_os("LD_LIBRARY_PATH");
        let environment = environment.iter().flat_map(env::split_paths).filter(|path| !path.as_os_str().is_empty());
        let mut configured = Vec::new();
        read_configuration(Path::new(CONFIGURATION), INCLUDE_DEPTH_MAX, &mut configured);
        configured.extend(DEFAULTS.map(PathBuf::from));
        Self { environment: environment.collect(), configured }
    }

    /// The files that `name`, asked for by `by`, can mean, first the one that the loader tries first.
    pub(super) fn candidates(&mut self, name: &str, by: &Module) -> Vec<PathBuf> {
        if name.contains('/') {
            return vec![PathBuf::from(name)];
        }
        let own = |folders: &[String]| folders.iter().map(PathBuf::from).collect::<Vec<_>>();
        let folders = own(&by.rpath).into_iter();
        let folders = folders.chain(self.environment.iter().cloned()).chain(own(&by.runpath));
        folders
            .chain(self.configured.iter().cloned())
            .map(|folder| folder.join(name))
            .filter(|path| path.is_file())
            .collect()
    }
}

fn read_configuration(path: &Path, depth: usize, folders: &mut Vec<PathBuf>) {
    let Ok(text) = fs::read_to_string(path) else { return };
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(pattern) = line.strip_prefix("include").filter(|rest| rest.starts_with([' ', '\t'])) {
            if depth > 0 {
                for file in included(pattern.trim()) {
                    read_configuration(&file, depth - 1, folders);
                }
            }
        } else if line.starts_with('/') {
            folders.push(PathBuf::from(line));
        }
    }
}

/// The files that an `include` line means: `FOLDER/*.SUFFIX`, or one file.
fn included(pattern: &str) -> Vec<PathBuf> {
    let path = Path::new(pattern);
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Vec::new();
    };
    let Some((before, after)) = name.split_once('*') else { return vec![path.to_owned()] };
    let fits =
        |name: &str| name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after);
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(fits))
        .map(|entry| entry.path())
        .collect();
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::{INCLUDE_DEPTH_MAX, read_configuration};
    use std::fs;
    use std::path::PathBuf;

    #[test]
    fn included_files_are_read_in_order_and_a_circle_ends() {
        let folder = tempfile::tempdir().unwrap();
        let main = folder.path().join("ld.so.conf");
        let parts = folder.path().display();
        fs::write(&main, format!("include {parts}/*.part\n/last # a comment\n")).unwrap();
        fs::write(folder.path().join("b.part"), "/b\n").unwrap();
        fs::write(folder.path().join("a.part"), "# nothing\n/a\n").unwrap();
        fs::write(folder.path().join("other"), "/never\n").unwrap();
        let mut folders = Vec::new();
        read_configuration(&main, INCLUDE_DEPTH_MAX, &mut folders);
        assert_eq!(folders, ["/a", "/b", "/last"].map(PathBuf::from));
        fs::write(&main, format!("include {}\n", main.display())).unwrap();
        read_configuration(&main, INCLUDE_DEPTH_MAX, &mut folders);
    }
}
