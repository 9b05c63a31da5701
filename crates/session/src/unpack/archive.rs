//! The archive in a packed trace, member by member.
//!
//! Apart from the file around it so that it can be tried with any archive.

use super::is_member;
use crate::packed::{below, root};
use relive_trace::manifest::Text;
use relive_trace::packed::{CONTENTS, INDEX, Index, PackedFile};
use relive_trace::reader::checksum;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};
use tar::{Archive, Entry, EntryType};

/// Names of members have numbers; nobody has so many processes and libraries.
const MEMBERS_MAX: usize = 1 << 20;

/// What failed.
#[derive(Debug)]
pub(super) enum Failed {
    Strange(String),
    Writing(io::Error),
}

impl Failed {
    #[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
    fn from_archive(cause: io::Error) -> Self {
        Self::Strange(cause.to_string())
    }
}

/// Unpacks an archive of `bytes` bytes into an empty folder.
pub(super) fn unpack(from: impl Read, bytes: u64, folder: &Path, progress: &mut dyn FnMut(u64)) -> Result<(), Failed> {
    let mut archive = Archive::new(Counted { inner: from.take(bytes), progress, done: 0 });
    let mut unpacking = Unpacking { folder, index: None, contents: 0 };
    // Raw, so that no member can be a name of any length for the next one.
    let entries = archive.entries().map_err(Failed::from_archive)?.raw(true);
    for (number, entry) in entries.enumerate() {
        if number == MEMBERS_MAX {
            return Err(Failed::Strange("it has too many members".to_owned()));
        }
        unpacking.member(entry.map_err(Failed::from_archive)?)?;
    }
    // To its end, where the checksum of the compression stands.
    io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(Failed::from_archive)?;
    unpacking.finish()
}

/// An archive of which a part is unpacked.
struct Unpacking<'a> {
    folder: &'a Path,
    index: Option<Index>,
    /// Files of the recording machine so far.
    contents: usize,
}

impl Unpacking<'_> {
    fn member(&mut self, mut entry: Entry<'_, impl Read>) -> Result<(), Failed> {
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let odd = |what: &str| Err(Failed::Strange(format!("its member {name:?} {what}")));
        if entry.header().entry_type() != EntryType::Regular {
            return odd("is no plain file");
        }
        if name == INDEX {
            let index = Index::read_from(&mut entry).map_err(Failed::from_archive)?;
            if self.index.is_some() {
                return odd("is there twice");
            }
            self.index.insert(index).write(self.folder).map_err(Failed::Writing)
        } else if is_member(&name) {
            write(&mut entry, &self.folder.join(&name)).map(drop)
        } else if let Some(index) = &self.index
            && name == format!("{CONTENTS}/{:05}", self.contents)
            && let Some(file) = index.files.get(self.contents)
        {
            self.contents += 1;
            content(&mut entry, file, &root(self.folder)).and_then(|same| if same { Ok(()) } else { odd("is damaged") })
        } else {
            odd("is none that relive packs there")
        }
    }

    fn finish(self) -> Result<(), Failed> {
        let index = self.index.unwrap_or_default();
        if self.contents != index.files.len() {
            return Err(Failed::Strange("its index names files that are not in it".to_owned()));
        }
        let root = root(self.folder);
        let lay = || -> io::Result<()> {
            make_folder(&root)?;
            let above_links = index.links.iter().filter_map(|link| link.path.as_path().parent());
            for folder in index.folders.iter().map(Text::as_path).chain(above_links) {
                make_folder(&below(&root, folder))?;
            }
            // Last, so that no file was written and no folder made through one.
            index.links.iter().try_for_each(|link| symlink(link.target.as_path(), below(&root, link.path.as_path())))
        };
        lay().map_err(Failed::Writing)
    }
}

/// Writes a file of the recording machine under all its names. Whether it is what the index says.
fn content(from: &mut impl Read, file: &PackedFile, root: &Path) -> Result<bool, Failed> {
    let mut paths = file.paths.iter().map(|path| below(root, path.as_path()));
    let Some(first) = paths.next() else { return Ok(false) };
    let written = write(from, &first)?;
    let lay = || -> io::Result<bool> {
        let (seconds, nanoseconds) = file.changed;
        let Some(changed) = SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds.min(999_999_999)))
        else {
            return Ok(false);
        };
        written.set_modified(changed)?;
        for path in paths {
            path.parent().map_or(Ok(()), make_folder)?;
            fs::hard_link(&first, path)?;
        }
        let same = written.metadata()?.len() == file.bytes;
        Ok(same && format!("{:016x}", checksum(File::open(&first)?)?) == file.checksum)
    };
    lay().map_err(Failed::Writing)
}

/// A new file with what is left of `from`.
fn write(from: &mut impl Read, path: &Path) -> Result<File, Failed> {
    path.parent().map_or(Ok(()), make_folder).map_err(Failed::Writing)?;
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = file.map_err(Failed::Writing)?;
    io::copy(from, &mut file).map_err(Failed::Writing)?;
    Ok(file)
}

fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Tells what is read.
struct Counted<'a, R> {
    inner: R,
    progress: &'a mut dyn FnMut(u64),
    done: u64,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        self.done += read as u64;
        (self.progress)(self.done);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::{Failed, unpack};
    use relive_trace::packed::{Index, PackedFile};
    use std::fs;

    /// An archive of members: kind, name, bytes that it claims, content.
    fn archive(members: &[(u8, &str, u64, &[u8])]) -> Vec<u8> {
        let mut archive = Vec::new();
        for &(kind, name, claimed, content) in members {
            let mut header = tar::Header::new_ustar();
            // Past the checks of the crate that writes them.
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(tar::EntryType::new(kind));
            header.set_size(claimed);
            header.set_cksum();
            archive.extend_from_slice(header.as_bytes());
            archive.extend_from_slice(content);
            archive.resize(archive.len().next_multiple_of(512), 0);
        }
        archive.resize(archive.len() + 1024, 0);
        archive
    }

    fn refused(members: &[(u8, &str, u64, &[u8])]) -> String {
        let (folder, bytes) = (tempfile::tempdir().unwrap(), archive(members));
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let said = match unpack(&bytes[..], bytes.len() as u64, &inner, &mut |_| ()) {
            Err(Failed::Strange(why)) => why,
            done => panic!("{done:?}"),
        };
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing beside the folder");
        said
    }

    fn index(paths: &[&str], content: &[u8]) -> String {
        let file = PackedFile {
            paths: paths.iter().map(Into::into).collect(),
            bytes: content.len() as u64,
            changed: (5, 6),
            identity: (7, 8),
            checksum: format!("{:016x}", relive_trace::reader::checksum(content).unwrap()),
        };
        let mut index = Index::default();
        index.files.push(file);
        index.to_json()
    }

    #[test]
    fn a_file_of_the_machine_gets_all_its_names_and_its_time() {
        let folder = tempfile::tempdir().unwrap();
        let json = index(&["/a/one", "/b/two"], b"content");
        let members =
            [(b'0', "files.json", json.len() as u64, json.as_bytes()), (b'0', "content/00000", 7, b"content")];
        let bytes = archive(&members);
        unpack(&bytes[..], bytes.len() as u64, folder.path(), &mut |_| ()).unwrap();
        let packed = crate::packed::Packed::open(folder.path()).unwrap().unwrap();
        assert_eq!(fs::read(packed.find("/b/two".as_ref())).unwrap(), b"content");
    }

    #[test]
    fn members_that_relive_never_packs_are_refused() {
        let odd = |name: &str| format!("its member {name:?} is none that relive packs there");
        for name in ["../evil", "/etc/passwd", "p1.trace", "content/00000", "learn.7", "p00000.trace/../../x"] {
            assert_eq!(refused(&[(b'0', name, 1, b"x")]), odd(name));
        }
        // Links, and names of any length for the next member.
        for kind in [b'1', b'2', b'5', b'L', b'x', b'S'] {
            assert_eq!(refused(&[(kind, "manifest.json", 1, b"x")]), "its member \"manifest.json\" is no plain file");
        }
    }

    #[test]
    fn claims_are_held_against_what_is_there() {
        let json = index(&["/a"], b"content");
        let head = (b'0', "files.json", json.len() as u64, json.as_bytes());
        assert_eq!(refused(&[head]), "its index names files that are not in it");
        assert_eq!(refused(&[head, (b'0', "content/00000", 7, b"changed")]), "its member \"content/00000\" is damaged");
        let huge = refused(&[(b'0', "p00000.inputs", 1 << 33, b"x")]);
        assert!(!huge.is_empty(), "{huge}");
        let evil = json.replace("/a", "/../a");
        assert!(refused(&[(b'0', "files.json", evil.len() as u64, evil.as_bytes())]).contains("index"));
    }
}
