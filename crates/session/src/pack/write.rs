//! Writes the packed file: archive, compression, and the head that sums it up.
//!
//! Apart because here alone the file is half written; it gets its name when it is
//! whole.

use super::{Member, PackError};
use relive_trace::packed::{CONTENTS, HEAD_BYTES, Head, INDEX, Index};
use relive_trace::reader::checksum;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;

/// Fast enough for a recording of gigabytes, and within a few percent of what slower levels make of one.
const LEVEL: i32 = 6;
/// More threads than that only take memory.
const THREADS_MAX: usize = 8;

/// What failed.
pub(super) enum Failed {
    Reading(PathBuf, io::Error),
    Writing(io::Error),
    /// It is not as long as it was.
    Changed(PathBuf),
}

impl Failed {
    pub(super) fn said_of(self, folder: &Path, to: &Path) -> PackError {
        match self {
            Self::Reading(path, cause) => PackError::Missing { folder: folder.to_owned(), path, cause },
            Self::Writing(cause) => PackError::Write { path: to.to_owned(), cause },
            Self::Changed(path) => PackError::Changed { folder: folder.to_owned(), path },
        }
    }
}

/// The name in the archive of the file with this number.
pub(super) fn content_name(number: usize) -> String {
    format!("{CONTENTS}/{number:05}")
}

/// Writes the file under another name first. Returns its length.
pub(super) fn write(
    to: &Path,
    index: &mut Index,
    members: &[Member],
    progress: &mut dyn FnMut(u64),
) -> Result<u64, Failed> {
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let fresh = to.with_file_name(format!(".{name}.{}", std::process::id()));
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).mode(0o600).open(&fresh);
    let written = file.map_err(Failed::Writing).and_then(|mut file| {
        let bytes = write_file(&mut file, index, members, progress)?;
        // Not over a file that is there: `link` refuses what `rename` would replace. Not every file system has links.
        let named = match fs::hard_link(&fresh, to) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => fs::rename(&fresh, to),
            named => named,
        };
        named.map_err(Failed::Writing)?;
        Ok(bytes)
    });
    let _ = fs::remove_file(&fresh);
    written
}

fn write_file(
    file: &mut File,
    index: &mut Index,
    members: &[Member],
    progress: &mut dyn FnMut(u64),
) -> Result<u64, Failed> {
    let write = Failed::Writing;
    file.write_all(&[0; HEAD_BYTES]).map_err(write)?;
    let unpacked = write_body(file, index, members, progress)?;
    file.seek(SeekFrom::Start(HEAD_BYTES as u64)).map_err(write)?;
    let sum = checksum(&mut *file).map_err(write)?;
    let packed = file.stream_position().map_err(write)? - HEAD_BYTES as u64;
    file.rewind().map_err(write)?;
    file.write_all(&Head { packed, unpacked, checksum: sum }.to_bytes()).map_err(write)?;
    Ok(packed + HEAD_BYTES as u64)
}

fn write_body(
    file: &mut File,
    index: &mut Index,
    members: &[Member],
    progress: &mut dyn FnMut(u64),
) -> Result<u64, Failed> {
    let write = Failed::Writing;
    let mut encoder = zstd::Encoder::new(BufWriter::new(file), LEVEL).map_err(write)?;
    encoder.include_checksum(true).map_err(write)?;
    let threads = thread::available_parallelism().map_or(1, |count| count.get().min(THREADS_MAX));
    encoder.multithread(threads as u32).map_err(write)?;
    let mut archive = tar::Builder::new(Counted { inner: encoder, bytes: 0 });
    let json = index.to_json();
    append(&mut archive, INDEX, json.len() as u64, json.as_bytes()).map_err(write)?;
    for member in members {
        let reading = |cause| Failed::Reading(member.source.clone(), cause);
        let source = File::open(&member.source).map_err(reading)?;
        let mut source = Watched { inner: source.take(member.bytes), bytes: 0, progress };
        append(&mut archive, &member.name, member.bytes, &mut source).map_err(write)?;
        if source.bytes != member.bytes {
            return Err(Failed::Changed(member.source.clone()));
        }
    }
    let counted = archive.into_inner().map_err(write)?;
    let bytes = counted.bytes;
    counted.inner.finish().and_then(|mut file| file.flush()).map_err(write)?;
    Ok(bytes)
}

fn append(archive: &mut tar::Builder<impl Write>, name: &str, bytes: u64, content: impl Read) -> io::Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::Regular);
    header.set_mode(0o600);
    header.set_size(bytes);
    archive.append_data(&mut header, name, content)
}

/// Counts what is written.
struct Counted<W> {
    inner: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Tells what is read.
struct Watched<'a, R> {
    inner: R,
    bytes: u64,
    progress: &'a mut dyn FnMut(u64),
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        self.bytes += read as u64;
        (self.progress)(read as u64);
        Ok(read)
    }
}
