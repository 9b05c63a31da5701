//! Collects files of this machine by the names that they were opened by, so that
//! those names lead to them again below another root.
//!
//! Apart because it follows links as the kernel does: a name keeps its links, for
//! what a program learns of its own place must be the same.

use relive_trace::manifest::Text;
use relive_trace::packed::PackedLink;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// A file to take along.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Content {
    /// Where it is.
    pub(super) source: PathBuf,
    /// Its full paths, without links in them.
    pub(super) paths: Vec<PathBuf>,
    /// Device and inode.
    pub(super) identity: (u64, u64),
}

/// Files, and what leads to them.
#[derive(Debug, Default)]
pub(super) struct Collection {
    pub(super) contents: Vec<Content>,
    pub(super) links: BTreeSet<PackedLink>,
    pub(super) folders: BTreeSet<PathBuf>,
    /// By device and inode.
    known: BTreeMap<(u64, u64), usize>,
}

impl Collection {
    /// Adds the file that `name` leads to, and all links on the way. Returns its size, and seconds and nanoseconds of its
    /// last change. Its device and inode were those `noted`, if they are known: a mount may have another number by now.
    pub(super) fn add(&mut self, name: &Path, noted: Option<(u64, u64)>) -> io::Result<[u64; 3]> {
        let path = self.walk(name)?;
        let metadata = fs::metadata(&path)?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let identity = (metadata.dev(), metadata.ino());
        let number = *self.known.entry(identity).or_insert(self.contents.len());
        if number == self.contents.len() {
            self.contents.push(Content { source: path.clone(), paths: Vec::new(), identity });
        }
        let content = &mut self.contents[number];
        content.identity = noted.unwrap_or(content.identity);
        if !content.paths.contains(&path) {
            content.paths.push(path);
        }
        Ok([metadata.len(), metadata.mtime() as u64, metadata.mtime_nsec() as u64])
    }

    /// Adds the links beside a file that lead to it: a debugger is told by the process under which of them it was opened.
    pub(super) fn add_links_to(&mut self, path: &Path) {
        let Some(folder) = path.parent() else { return };
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            if is_link && fs::canonicalize(entry.path()).is_ok_and(|real| real == path) {
                // One that is gone by now is not missed.
                let _ = self.walk(&entry.path());
            }
        }
    }

    /// Adds a folder, if it is there and one.
    pub(super) fn add_folder(&mut self, name: &Path) {
        if let Ok(path) = self.walk(name)
            && path.is_dir()
        {
            self.keep(path);
        }
    }

    /// The path without links that `name` leads to. Where it goes through a folder and out again, that folder must exist.
    fn walk(&mut self, name: &Path) -> io::Result<PathBuf> {
        let mut here = PathBuf::from("/");
        let mut left: VecDeque<OsString> = name.components().map(|part| part.as_os_str().to_owned()).collect();
        while let Some(part) = left.pop_front() {
            match Path::new(&part).components().next() {
                Some(Component::ParentDir) => {
                    self.keep(here.clone());
                    here.pop();
                }
                Some(Component::Normal(part)) => {
                    let next = here.join(part);
                    if fs::symlink_metadata(&next)?.is_symlink() {
                        let real = fs::canonicalize(&next)?;
                        let target = Text::from(relative(&here, &real));
                        self.links.insert(PackedLink { path: Text::from(next), target });
                        here = real;
                    } else {
                        here = next;
                    }
                }
                _ => {}
            }
        }
        Ok(here)
    }

    /// The root is there anyway.
    fn keep(&mut self, folder: PathBuf) {
        if folder != Path::new("/") {
            self.folders.insert(folder);
        }
    }
}

/// The way from a folder to a path, both full and without links.
fn relative(folder: &Path, path: &Path) -> PathBuf {
    let shared = folder.components().zip(path.components()).take_while(|(one, other)| one == other).count();
    let up = folder.components().skip(shared).map(|_| Component::ParentDir);
    let way: PathBuf = up.chain(path.components().skip(shared)).collect();
    if way.as_os_str().is_empty() { PathBuf::from(".") } else { way }
}

#[cfg(test)]
mod tests {
    use super::{Collection, relative};
    use relive_trace::manifest::Text;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::{Path, PathBuf};

    fn check_relative(folder: &str, path: &str, way: &str) {
        assert_eq!(relative(Path::new(folder), Path::new(path)), PathBuf::from(way));
    }

    #[test]
    fn links_become_ways_within_the_root() {
        check_relative("/", "/usr/lib", "usr/lib");
        check_relative("/a/b", "/a/c/d", "../c/d");
        check_relative("/a/b", "/a", "..");
        check_relative("/a", "/a", ".");
        check_relative("/a", "/", "..");
    }

    #[test]
    fn a_name_keeps_its_links_and_the_folders_that_it_leaves_again() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir_all(root.join("real/deep")).unwrap();
        fs::create_dir(root.join("real/other")).unwrap();
        fs::write(root.join("real/file"), "x").unwrap();
        fs::hard_link(root.join("real/file"), root.join("real/second")).unwrap();
        symlink("real/deep", root.join("way")).unwrap();
        symlink("file", root.join("real/alias")).unwrap();
        symlink(root.join("real/file"), root.join("real/other/link")).unwrap();
        let mut collection = Collection::default();
        for name in ["way/../other/link", "real/file", "real/second"] {
            assert_eq!(collection.add(&root.join(name), Some((1, 2))).unwrap()[0], 1);
        }
        collection.add_links_to(&root.join("real/file"));
        assert_eq!(collection.links.len(), 3);
        assert!(collection.add(&root.join("real"), None).is_err() && collection.add(&root.join("none"), None).is_err());
        let paths = [root.join("real/file"), root.join("real/second")];
        assert_eq!((collection.contents.len(), &collection.contents[0].paths[..]), (1, &paths[..]));
        let links: Vec<_> = collection.links.iter().map(|link| (link.path.as_path(), &link.target)).collect();
        let (way, link, alias) = (root.join("way"), root.join("real/other/link"), root.join("real/alias"));
        let ways = ["file", "../file", "real/deep"].map(Text::from);
        assert_eq!(links, [(&*alias, &ways[0]), (&*link, &ways[1]), (&*way, &ways[2])]);
        assert_eq!(collection.folders.into_iter().collect::<Vec<_>>(), [root.join("real/deep")]);
    }
}
