//! The index of a packed trace: where the files stood that its programs are made
//! of.
//!
//! Whoever packed a trace wrote it, and whoever unpacks it believes nothing: each
//! name stays in its folder, whatever links stand on the way.

use crate::manifest::{Text, owners_file};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use twox_hash::XxHash3_64;

/// Its name in the trace folder.
pub const INDEX: &str = "files.json";
/// No index is larger.
const BYTES_MAX: u64 = 64 << 20;
/// The kernel knows no longer path.
const PATH_MAX: usize = 4095;

/// The files of the recording machine that a packed trace holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Index {
    /// By their numbers.
    pub files: Vec<PackedFile>,
    /// Links that lead to them.
    pub links: Vec<PackedLink>,
    /// Folders that hold none of them, but that names lead through.
    pub folders: Vec<Text>,
    /// Checksum of everything above.
    checksum: String,
}

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackedFile {
    /// Its full paths, without links in them: more than one if it had more.
    pub paths: Vec<Text>,
    /// Bytes of it.
    pub bytes: u64,
    /// Its last change: seconds and nanoseconds. A recording knows libraries by it.
    pub changed: (u64, u32),
    /// Device and inode that it had. The loader tells libraries apart by them.
    pub identity: (u64, u64),
    /// XXH3 of it, 16 hexadecimal digits.
    pub checksum: String,
}

/// A link.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackedLink {
    /// Its full path, without other links in it.
    pub path: Text,
    /// What it leads to: up from its own folder, then down.
    pub target: Text,
}

/// Why an index is not followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsafe {
    /// No index, or a part of one.
    #[error("its index can't be read: {0}")]
    Unreadable(String),
    /// It contradicts its checksum.
    #[error("its index differs from its checksum")]
    Checksum,
    /// A name that could lead anywhere.
    #[error("its index has the name {0}, which is no plain full path")]
    Name(Text),
    /// A link that leads out.
    #[error("its index has the link {0}, which leads out of it")]
    Link(Text),
    /// Two things of one name, or one below a file or a link.
    #[error("its index has {0} twice, or something below it")]
    Twice(Text),
}

impl Index {
    /// Reads and checks an index.
    ///
    /// # Errors
    /// [`Unsafe`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Unsafe> {
        let index: Self = serde_json::from_slice(bytes).map_err(|error| Unsafe::Unreadable(error.to_string()))?;
        if index.checksum != index.compute_checksum() {
            return Err(Unsafe::Checksum);
        }
        index.check()?;
        Ok(index)
    }

    /// Reads the index of the trace in `folder`; `None` if it is no packed one.
    ///
    /// # Errors
    /// What the system says; `InvalidData` with [`Unsafe`] in it.
    pub fn read(folder: &Path) -> io::Result<Option<Self>> {
        match File::open(folder.join(INDEX)) {
            Ok(file) => Self::read_from(file).map(Some),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// As [`Index::read`], from anywhere.
    ///
    /// # Errors
    /// As [`Index::read`].
    pub fn read_from(from: impl Read) -> io::Result<Self> {
        let mut bytes = Vec::new();
        from.take(BYTES_MAX).read_to_end(&mut bytes)?;
        Self::parse(&bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// As text, its checksum computed.
    pub fn to_json(&mut self) -> String {
        self.checksum = self.compute_checksum();
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Writes it into `folder`.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&mut self, folder: &Path) -> io::Result<()> {
        owners_file(&folder.join(INDEX))?.write_all(self.to_json().as_bytes())
    }

    fn compute_checksum(&self) -> String {
        let bare = Self { checksum: String::new(), ..self.clone() };
        let json = serde_json::to_vec(&bare).unwrap_or_default();
        format!("{:016x}", XxHash3_64::oneshot(&json))
    }

    /// Whether nothing in it leads out of the folder that it is unpacked to. Whatever has a name has real folders above
    /// it only, so a link that first goes up and then only down stays within, and so does one that leads through it.
    fn check(&self) -> Result<(), Unsafe> {
        let plain = |path: &'_ Text| parts(path).ok_or_else(|| Unsafe::Name(path.clone())).map(|_| ());
        let files = || self.files.iter().flat_map(|file| &file.paths);
        let links = || self.links.iter().map(|link| &link.path);
        let mut leaves = BTreeSet::new();
        for path in files().chain(links()) {
            plain(path)?;
            if !leaves.insert(parts(path).unwrap_or_default()) {
                return Err(Unsafe::Twice(path.clone()));
            }
        }
        for path in &self.folders {
            plain(path)?;
        }
        let above = files().chain(links()).map(|path| (path, 1)).chain(self.folders.iter().map(|path| (path, 0)));
        for (path, own) in above {
            let parts = parts(path).unwrap_or_default();
            if (1..=parts.len() - own).any(|count| leaves.contains(&parts[..count])) {
                return Err(Unsafe::Twice(path.clone()));
            }
        }
        let leads_out = |link: &&PackedLink| {
            let depth = parts(&link.path).unwrap_or_default().len() - 1;
            !leads_within(depth, &link.target)
        };
        self.links.iter().find(leads_out).map_or(Ok(()), |link| Err(Unsafe::Link(link.path.clone())))
    }
}

/// The parts of a plain full path; `None` for any other.
fn parts(path: &Text) -> Option<Vec<&[u8]>> {
    let bytes = path.as_os_str().as_bytes();
    let parts: Vec<&[u8]> = bytes.strip_prefix(b"/")?.split(|&byte| byte == b'/').collect();
    let plain = parts.iter().all(|part| is_plain(part));
    (plain && bytes.len() <= PATH_MAX).then_some(parts)
}

fn is_plain(part: &[u8]) -> bool {
    !matches!(part, b"" | b"." | b"..") && !part.contains(&0) && OsStr::from_bytes(part).len() <= 255
}

/// Whether a target goes up by `depth` at most, and then down.
fn leads_within(depth: usize, target: &Text) -> bool {
    let bytes = target.as_os_str().as_bytes();
    let mut parts = bytes.split(|&byte| byte == b'/').peekable();
    let mut up = 0;
    while parts.next_if(|part| *part == b"..").is_some() {
        up += 1;
    }
    // The folder itself, or the root, has no part of its own behind.
    let here = bytes == b"." || (up > 0 && parts.peek().is_none());
    up <= depth && bytes.len() <= PATH_MAX && (here || parts.all(is_plain))
}
