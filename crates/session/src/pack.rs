//! Packs a trace: one compressed file with everything that a replay needs.
//!
//! Which files of this machine those are stands in the trace; they go in only if
//! they are still the ones that were recorded. See `relive_trace::packed` for the
//! file itself.

mod collect;
pub(crate) mod named;
mod write;

use crate::kept::Kept;
use crate::packed::{self, PackedError};
use crate::unpack::{LIST, is_member};
use collect::Collection;
use relive_trace::error::ReadError;
use relive_trace::manifest::Manifest;
use relive_trace::opened::{self, OPENED, SEEN};
use relive_trace::packed::{Index, PackedFile};
use relive_trace::reader::checksum;
use relive_trace::recording::Recording;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A trace that was packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Bytes of trace and files.
    pub before: u64,
    /// Bytes of the packed file.
    pub after: u64,
    /// Programs, libraries and other files of this machine in it.
    pub files: usize,
    /// Starts of programs that were not recorded, which a replay may start for real: for what they started in turn.
    pub unrecorded: u64,
}

/// Why a trace can't be packed.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// The trace can't be read or trusted.
    #[error(transparent)]
    Trace(#[from] ReadError),
    /// It was unpacked, and something is missing since.
    #[error(transparent)]
    Packed(#[from] PackedError),
    /// A replay of it needs more than can be packed.
    #[error("pack {}: {why}", folder.display())]
    NotSelfContained {
        /// The trace.
        folder: PathBuf,
        /// Why, and the remedy.
        why: &'static str,
    },
    /// Nobody knows which files belong to it.
    #[error("pack {}: which files it needs can't be told: {cause}; record again", folder.display())]
    Unknown {
        /// The trace.
        folder: PathBuf,
        /// Why.
        cause: String,
    },
    /// A file is another one now.
    #[error("pack {}: {} was rebuilt or replaced since the recording; restore it or record again", folder.display(), path.display())]
    Changed {
        /// The trace.
        folder: PathBuf,
        /// The file.
        path: PathBuf,
    },
    /// A file can't be read any more.
    #[error("pack {}: {}: {cause}; restore it or record again", folder.display(), path.display())]
    Missing {
        /// The trace.
        folder: PathBuf,
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// The packed file can't be written.
    #[error("write {}: {cause}; name another file with -o", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
}

/// What goes in: a name in the archive, and where it is read.
#[derive(Debug)]
struct Member {
    name: String,
    source: PathBuf,
    bytes: u64,
}

/// Packs the trace in `folder` into the file `to`, which must not exist. `progress` hears of bytes done, and of all.
///
/// # Errors
/// [`PackError`].
pub fn pack(folder: &Path, to: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Done, PackError> {
    let recording = Recording::open(folder)?;
    check_level(folder, &recording.manifest)?;
    let (mut index, sources) = match packed::Packed::open(folder)? {
        Some(_) => again(folder)?,
        None => of_this_machine(folder, &recording)?,
    };
    let mut members = trace_members(folder)?;
    for (number, (file, source)) in index.files.iter().zip(sources).enumerate() {
        members.push(Member { name: write::content_name(number), source, bytes: file.bytes });
    }
    let before = members.iter().map(|member| member.bytes).sum();
    let mut done = 0;
    let after = write::write(to, &mut index, &members, &mut |bytes| {
        done += bytes;
        progress(done, before);
    })
    .map_err(|failed| failed.said_of(folder, to))?;
    Ok(Done { before, after, files: index.files.len(), unrecorded: named::unrecorded(&recording) })
}

fn check_level(folder: &Path, manifest: &Manifest) -> Result<(), PackError> {
    let refuse = |why| Err(PackError::NotSelfContained { folder: folder.to_owned(), why });
    if !manifest.environment_recorded {
        return refuse(
            "it was recorded without --environment, so a replay reads this machine's files again; record with it",
        );
    }
    if manifest.start.is_none() {
        return refuse(
            "the kernel laid its program out, and would not find it in a packed trace; record where files in the cache \
             folder may be executed",
        );
    }
    Ok(())
}

/// The trace's own files.
fn trace_members(folder: &Path) -> Result<Vec<Member>, PackError> {
    let fail = |cause| PackError::Missing { folder: folder.to_owned(), path: folder.to_owned(), cause };
    let mut members = Vec::new();
    // Without copies the list has done its work.
    let keeps = !Kept::of(folder).is_empty();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_member(&name) && (keeps || name != LIST) {
            let bytes = entry.metadata().map_err(fail)?.len();
            members.push(Member { name, source: entry.path(), bytes });
        }
    }
    members.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(members)
}

/// A trace that was unpacked goes in as it came out.
fn again(folder: &Path) -> Result<(Index, Vec<PathBuf>), PackError> {
    let unreadable = |cause| PackError::Missing { folder: folder.to_owned(), path: folder.to_owned(), cause };
    let index = Index::read(folder).map_err(unreadable)?.unwrap_or_default();
    let root = packed::root(folder);
    let source =
        |file: &PackedFile| file.paths.first().map_or(root.clone(), |path| packed::below(&root, path.as_path()));
    let sources = index.files.iter().map(source).collect();
    Ok((index, sources))
}

fn of_this_machine(folder: &Path, recording: &Recording) -> Result<(Index, Vec<PathBuf>), PackError> {
    let unknown = |cause: String| PackError::Unknown { folder: folder.to_owned(), cause };
    let list = fs::read(packed::below(folder, Path::new(OPENED)));
    let list = list.map_err(|cause| unknown(format!("its list of files: {cause}")))?;
    let mut noted = opened::parse(&list).map_err(|cause| unknown(cause.to_string()))?;
    noted.sort_unstable();
    noted.dedup();
    let mut later = named::libraries(folder, recording).map_err(unknown)?;
    later.sort_unstable();
    later.dedup();
    let kept = Kept::of(folder);
    let mut collection = Collection::default();
    let missing = |path: &Path| {
        let (folder, path) = (folder.to_owned(), path.to_owned());
        move |cause| PackError::Missing { folder, path, cause }
    };
    let changed = |path: &Path| PackError::Changed { folder: folder.to_owned(), path: path.to_owned() };
    for file in &noted {
        let [size, seconds, nanoseconds, device, inode] = file.identity;
        if kept.has(&file.path, [size, seconds, nanoseconds]) {
            continue;
        }
        if file.identity == SEEN {
            collection.add_folder(&file.path);
            continue;
        }
        let found = collection.add(&file.path, Some((device, inode))).map_err(missing(&file.path))?;
        if found != [size, seconds, nanoseconds] {
            return Err(changed(&file.path));
        }
    }
    let manifest = &recording.manifest;
    for file in std::iter::once(&manifest.program).chain(&manifest.libraries) {
        let path = file.path.as_path();
        collection.add(path, None).map_err(missing(path))?;
        if !crate::binary::unchanged(file) {
            return Err(changed(path));
        }
    }
    for (path, identity) in later.iter().filter(|(path, identity)| !kept.has(path, *identity)) {
        if collection.add(path, None).map_err(missing(path))? != *identity {
            return Err(changed(path));
        }
        collection.add_links_to(path);
    }
    collection.add_folder(manifest.folder.as_path());
    describe(collection).map_err(|(path, cause)| missing(&path)(cause))
}

/// Sums the files up.
fn describe(collection: Collection) -> Result<(Index, Vec<PathBuf>), (PathBuf, io::Error)> {
    let (mut index, mut sources) = (Index::default(), Vec::new());
    for content in collection.contents {
        let summed = File::open(&content.source).and_then(|file| Ok((file.metadata()?, checksum(file)?)));
        let (metadata, sum) = summed.map_err(|cause| (content.source.clone(), cause))?;
        index.files.push(PackedFile {
            paths: content.paths.into_iter().map(Into::into).collect(),
            bytes: metadata.len(),
            changed: (metadata.mtime() as u64, metadata.mtime_nsec() as u32),
            identity: content.identity,
            checksum: format!("{sum:016x}"),
        });
        sources.push(content.source);
    }
    index.links = collection.links.into_iter().collect();
    index.folders = collection.folders.into_iter().map(Into::into).collect();
    Ok((index, sources))
}
