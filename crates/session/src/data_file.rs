//! Data files from outside: reserving space for them and cutting them to what was used.
//!
//! The launcher does both because the program can't: growing a file there may
//! raise `SIGXFSZ`, and cutting it under a live mapping would raise `SIGBUS`.

use crate::file_limit;
use relive_trace::bytes::read_file_header;
use relive_trace::layout::{self, FILE_HEADER_BYTES, FileHeader, WINDOW_BYTES, end, stop};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Which files a session writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Series {
    /// `p{process:05}.trace`, the recording.
    Recorded,
    /// `learn-p{process:05}.trace`, the order that a first replay learns.
    Learnt,
}

impl Series {
    /// The data file of an image.
    pub fn path(self, folder: &Path, process: u32) -> PathBuf {
        match self {
            Series::Recorded => folder.join(format!("p{process:05}.trace")),
            Series::Learnt => folder.join(format!("learn-p{process:05}.trace")),
        }
    }
}

/// Makes the data file of the first image, its first window reserved.
///
/// # Errors
/// What the system says; the file is not left behind then.
pub fn create_first(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
    for_owner(&file)?;
    reserve(&file, 0, WINDOW_BYTES).inspect_err(|_| {
        let _ = std::fs::remove_file(path);
    })
}

/// Makes sure that the first `wanted` bytes of the image's file are there on disk, not only in its length. An image
/// that had nothing yet gets its file.
///
/// # Errors
/// What the system says; `reserved` bytes stay as they are.
pub fn grow(path: &Path, reserved: u64, wanted: u64) -> io::Result<()> {
    let first = reserved == 0;
    let _limit = file_limit::ours();
    let file = OpenOptions::new().read(true).write(true).create(first).truncate(false).mode(0o600).open(path)?;
    if first {
        for_owner(&file)?;
    }
    reserve(&file, reserved, wanted)?;
    if !first {
        // Whoever fills a window touches all its pages. Those that were written before cost a tenth; and here another
        // core has the time. That the space is there was seen.
        write_zeros(&file, reserved, wanted)?;
    }
    Ok(())
}

/// Whatever the mask took away: the recorded process has to open the file by its name.
fn for_owner(file: &File) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(0o600))
}

fn reserve(file: &File, from: u64, to: u64) -> io::Result<()> {
    loop {
        return match rustix::fs::fallocate(file, FallocateFlags::empty(), from, to.saturating_sub(from)) {
            Err(Errno::INTR) => continue,
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(file, from, to),
            other => Ok(other?),
        };
    }
}

/// In the place of fallocate where a file system has none, too. Nothing was written behind `from` yet: the program may
/// touch it only later.
fn write_zeros(file: &File, from: u64, to: u64) -> io::Result<()> {
    let zeros = vec![0u8; 64 << 10];
    let mut at = from;
    while at < to {
        let part = zeros.len().min((to - at) as usize);
        file.write_all_at(&zeros[..part], at)?;
        at += part as u64;
    }
    Ok(())
}

/// Cuts the file behind its last chunk; no process may have it mapped. Returns the bytes left.
///
/// # Errors
/// What the system says.
pub fn cut(path: &Path) -> io::Result<u64> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let used = used_bytes(&file)?;
    file.set_len(used)?;
    Ok(used)
}

/// The largest timestamp in the file of a process that ended.
///
/// # Errors
/// What the system says.
pub fn latest_clock(path: &Path) -> io::Result<u64> {
    let file = File::open(path)?;
    Ok(layout::latest_clock(|at, head| file.read_exact_at(head, at).is_ok()))
}

/// Says in the file that its recording ended at `clock` because of a limit; if it ended before, it stays at that.
///
/// # Errors
/// What the system says.
pub fn mark_limit(path: &Path, clock: u64) -> io::Result<()> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut head = [0; size_of::<FileHeader>()];
    file.read_exact_at(&mut head, 0)?;
    // A process that died before its first event left no header.
    let Some(header) = read_file_header(&head) else { return Ok(()) };
    if header.end != end::STOPPED {
        file.write_all_at(&end::STOPPED.to_le_bytes(), offset_of!(FileHeader, end) as u64)?;
        file.write_all_at(&stop::LIMIT.to_le_bytes(), offset_of!(FileHeader, stop_reason) as u64)?;
    } else if header.stop_clock <= clock {
        return Ok(());
    }
    file.write_all_at(&clock.to_le_bytes(), offset_of!(FileHeader, stop_clock) as u64)
}

/// Puts a copy in the place of a file that a process still has mapped, so that the copy stands still.
///
/// # Errors
/// What the system says; the file stays then.
pub fn detach(path: &Path) -> io::Result<()> {
    let copy = path.with_extension("copy");
    let replaced = std::fs::copy(path, &copy).and_then(|_| std::fs::rename(&copy, path));
    replaced.inspect_err(|_| {
        let _ = std::fs::remove_file(&copy);
    })
}

/// The end of the last chunk. Windows fill in order, so only the last one with a chunk in it is walked.
fn used_bytes(file: &File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    for window in (0..length.div_ceil(WINDOW_BYTES)).rev() {
        let mut at = (window * WINDOW_BYTES).max(FILE_HEADER_BYTES);
        let start = at;
        while let Some(size) = chunk_size(file, at)? {
            at += size;
        }
        if at > start || window == 0 {
            return Ok(at.min(length));
        }
    }
    Ok(length)
}

fn chunk_size(file: &File, at: u64) -> io::Result<Option<u64>> {
    let mut head = [0u8; 8];
    match file.read_exact_at(&mut head, at) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    Ok(layout::chunk_size(&head))
}

#[cfg(test)]
mod tests {
    use super::{Series, create_first, cut, grow};
    use relive_trace::layout::{CHUNK_MAGIC, FILE_HEADER_BYTES, WINDOW_BYTES};
    use std::fs::{self, OpenOptions};
    use std::os::unix::fs::{FileExt, MetadataExt};
    use std::path::Path;

    fn put_chunk(path: &Path, at: u64, size: u32) {
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(&CHUNK_MAGIC.to_le_bytes(), at).unwrap();
        file.write_all_at(&size.to_le_bytes(), at + 4).unwrap();
    }

    #[test]
    fn reserved_space_is_on_disk_and_cut_to_the_last_chunk() {
        let folder = tempfile::tempdir().unwrap();
        let path = Series::Recorded.path(folder.path(), 7);
        assert!(path.ends_with("p00007.trace"));
        create_first(&path).unwrap();
        let blocks = |path: &Path| fs::metadata(path).unwrap().blocks() * 512;
        assert!(blocks(&path) >= WINDOW_BYTES);
        grow(&path, WINDOW_BYTES, 3 * WINDOW_BYTES).unwrap();
        assert!(blocks(&path) >= 3 * WINDOW_BYTES);
        put_chunk(&path, FILE_HEADER_BYTES, 256);
        put_chunk(&path, FILE_HEADER_BYTES + 256, 1024);
        assert_eq!(cut(&path).unwrap(), FILE_HEADER_BYTES + 1280);
        assert_eq!(fs::metadata(&path).unwrap().len(), FILE_HEADER_BYTES + 1280);
    }

    #[test]
    fn the_last_window_with_a_chunk_decides() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        create_first(&path).unwrap();
        grow(&path, WINDOW_BYTES, 3 * WINDOW_BYTES).unwrap();
        put_chunk(&path, FILE_HEADER_BYTES, 256);
        put_chunk(&path, WINDOW_BYTES, 16384);
        assert_eq!(cut(&path).unwrap(), WINDOW_BYTES + 16384);
    }

    #[test]
    fn an_empty_file_keeps_its_header_page() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        create_first(&path).unwrap();
        assert_eq!(cut(&path).unwrap(), FILE_HEADER_BYTES);
    }
}
