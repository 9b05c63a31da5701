//! The list of files that the images of a recording were started from: programs,
//! loaders, libraries, and whatever else a loader opened before the runtime took
//! over its calls.
//!
//! Apart from the data files because a replay does not need it: it is what tells
//! `pack` which files to take along. Each image appends one block when it starts:
//!
//! ```text
//! image: u32   bytes of entries: u32, or INCOMPLETE without entries
//! entry: size, seconds and nanoseconds of its last change, device, inode: u64 each   full path, ended by zero
//! ```

/// Its name in the trace folder, with the slash before it.
pub const OPENED: &str = "/opened.list";
/// Bytes of a block before its entries.
pub const HEAD_BYTES: usize = 8;
/// Stands for the number of bytes where a list had no room for all files.
pub const INCOMPLETE: u32 = u32::MAX;
/// Stands for size, times, device and inode of what was looked for, and found, without being opened.
pub const SEEN: [u64; 5] = [u64::MAX; 5];
/// Folder in a packed trace that stands for the root of the recording machine, with the slash before it.
pub const ROOT: &str = "/files";

/// First byte of what a recording keeps of a program or library that was mapped while it ran: size, seconds and
/// nanoseconds of its last change follow, and its path.
pub const NAMED: u8 = b'N';

#[cfg(feature = "std")]
pub use list::{Malformed, OpenedFile, by_image, parse};

#[cfg(feature = "std")]
mod list {
    use super::INCOMPLETE;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::PathBuf;

    /// A file as an image found it.
    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct OpenedFile {
        /// The name it was opened by.
        pub path: PathBuf,
        /// Its size, seconds and nanoseconds of its last change, device and inode, or [`super::SEEN`].
        pub identity: [u64; 5],
    }

    /// Why a list can't be used.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
    pub enum Malformed {
        /// An image opened more files than it had room to note.
        #[error("process image {0} opened more files than are noted")]
        Incomplete(u32),
        /// No list, or a part of one.
        #[error("it is damaged at byte {0}")]
        Damaged(usize),
    }

    /// Reads a list; images in it may repeat each other's files.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(list: &[u8]) -> Result<Vec<OpenedFile>, Malformed> {
        let mut all = Vec::new();
        for (image, files) in by_image(list)? {
            all.extend(files.ok_or(Malformed::Incomplete(image))?);
        }
        Ok(all)
    }

    /// The number of an image, and the files that it opened if all are known.
    pub(super) type OfImage = (u32, Option<Vec<OpenedFile>>);

    /// Reads a list: each image with its files, or none where it opened more than it had room to note.
    ///
    /// # Errors
    /// [`Malformed::Damaged`].
    pub fn by_image(list: &[u8]) -> Result<Vec<OfImage>, Malformed> {
        let mut images = Vec::new();
        let mut rest = list;
        while !rest.is_empty() {
            let damaged = Malformed::Damaged(list.len() - rest.len());
            let ([image, bytes], behind) = words(rest).ok_or(damaged)?;
            if bytes == INCOMPLETE {
                images.push((image, None));
                rest = behind;
                continue;
            }
            let mut files = Vec::new();
            let (mut entries, after) = behind.split_at_checked(bytes as usize).ok_or(damaged)?;
            while !entries.is_empty() {
                let damaged = Malformed::Damaged(list.len() - after.len() - entries.len());
                let (file, others) = entry(entries).ok_or(damaged)?;
                files.push(file);
                entries = others;
            }
            images.push((image, Some(files)));
            rest = after;
        }
        Ok(images)
    }

    fn words(bytes: &[u8]) -> Option<([u32; 2], &[u8])> {
        let (one, rest) = bytes.split_first_chunk()?;
        let (other, rest) = rest.split_first_chunk()?;
        Some(([*one, *other].map(u32::from_le_bytes), rest))
    }

    fn entry(bytes: &[u8]) -> Option<(OpenedFile, &[u8])> {
        let mut identity = [0; 5];
        let mut rest = bytes;
        for word in &mut identity {
            let (first, behind) = rest.split_first_chunk()?;
            (*word, rest) = (u64::from_le_bytes(*first), behind);
        }
        let end = rest.iter().position(|&byte| byte == 0)?;
        let path = PathBuf::from(OsStr::from_bytes(&rest[..end]));
        path.is_absolute().then(|| (OpenedFile { path, identity }, &rest[end + 1..]))
    }
}
