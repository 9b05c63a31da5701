//! Copies of files that the trace holds; see `relive_trace::kept`.
//!
//! A recording makes them when the starter or the loader opens a file that is
//! younger than the recording: by the time of a replay it may be another one, or
//! gone. A replay opens the copy that its image had. Which those are stands in the
//! session's memory, by the image's link; so do folders that the loader found and that
//! are gone: it goes by that later, too.

use crate::files::{field, from_launcher, whole};
use crate::leave::PATH_MAX;
use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::mem::offset_of;
use relive_sys::keep::{Content, keep};
use relive_sys::syscall::{self, Stat};
use relive_trace::control::{Control, FOLDER_BYTES_MAX, mode};
use relive_trace::handed::Wanted;
use relive_trace::kept::{ENTRY_WORDS, NAME_BYTES, hash, is_young, link, name};
use relive_trace::layout::NONE;
use relive_trace::opened::SEEN;

/// Files of one image, at most; others are opened where they were.
const ENTRIES: usize = 128;
/// Entries that are read at a time.
const AT_ONCE: usize = 64;

type Words = [u64; ENTRY_WORDS];

/// A copy that this image is to have, or a folder.
#[derive(Clone, Copy)]
struct Entry {
    hash: u64,
    /// Size, seconds and nanoseconds of its last change; [`SEEN`] for a folder.
    identity: [u64; 3],
    /// Device and inode in the recording, and now.
    recorded: [u64; 2],
    present: [u64; 2],
}

struct Kept {
    /// The trace's folder, with a zero behind it.
    folder: [u8; FOLDER_BYTES_MAX + 1],
    folder_bytes: usize,
    /// A recording keeps what changed since.
    since: [u64; 2],
    entries: [Entry; ENTRIES],
    count: usize,
}

/// One for the process, which has one thread as long as the starter takes part.
struct Only(UnsafeCell<Kept>);

// SAFETY: no second thread exists before the runtime takes over, and the handler of calls is not entered twice.
unsafe impl Sync for Only {}

static KEPT: Only = Only(UnsafeCell::new(Kept {
    folder: [0; FOLDER_BYTES_MAX + 1],
    folder_bytes: 0,
    since: [u64::MAX; 2],
    entries: [Entry { hash: 0, identity: [0; 3], recorded: [0; 2], present: [0; 2] }; ENTRIES],
    count: 0,
}));

fn kept() -> &'static mut Kept {
    // SAFETY: one thread, and no caller keeps the reference across a call of another function here.
    unsafe { &mut *KEPT.0.get() }
}

/// Asks the session what is to be kept, or was. `started_by` is the image's link as its environment has it.
pub(crate) fn start(control: u32, session_mode: u32, started_by: Option<&[u8]>) -> Option<()> {
    let kept = kept();
    let length = u32::from_le_bytes(field(control, offset_of!(Control, source_len))?) as usize;
    let folder = kept.folder.get_mut(..length).filter(|folder| folder.len() < FOLDER_BYTES_MAX)?;
    if syscall::read_at(control, folder, offset_of!(Control, source) as u64) != length as isize {
        return None;
    }
    kept.folder_bytes = length;
    let word = |at: usize| field(control, at).map(u64::from_le_bytes);
    if session_mode == mode::RECORD {
        let at = offset_of!(Control, keeps_since);
        kept.since = [word(at)?, word(at + size_of::<u64>())?];
        return Some(());
    }
    let own = match started_by {
        Some(text) => parse(text)?,
        None => link(NONE, 0),
    };
    let (offset, count) = (word(offset_of!(Control, kept_offset))?, word(offset_of!(Control, kept_count))?);
    let mut read = 0;
    while read < count {
        let mut block = [[[0u8; size_of::<u64>()]; ENTRY_WORDS]; AT_ONCE];
        let here = AT_ONCE.min((count - read) as usize);
        let bytes = block[..here].as_flattened_mut().as_flattened_mut();
        let at = offset + read * size_of::<Words>() as u64;
        if syscall::read_at(control, bytes, at) != bytes.len() as isize {
            return None;
        }
        for words in &block[..here] {
            let [image, hash, size, seconds, nanoseconds, device, inode] = words.map(u64::from_le_bytes);
            if image == own && kept.count < ENTRIES {
                let identity = [size, seconds, nanoseconds];
                kept.entries[kept.count] = Entry { hash, identity, recorded: [device, inode], present: [0; 2] };
                kept.count += 1;
            }
        }
        read += here as u64;
    }
    Some(())
}

/// Thread and number of a link `parent.number.clock`.
fn parse(text: &[u8]) -> Option<u64> {
    let mut parts = text.split(|&byte| byte == b'.').map(|digits| {
        let decimal = |value: u32, &digit: &u8| value.checked_mul(10)?.checked_add((digit as char).to_digit(10)?);
        digits.iter().try_fold(0, decimal)
    });
    Some(link(parts.next()??, parts.next()??))
}

/// The file was opened in a recording: a young one is kept.
pub(crate) fn opened(path: &CStr, fd: u32, stat: &Stat) {
    if stat.is_regular() && is_young(stat.status_changed, kept().since) {
        copy(path, fd, stat, Content::Whole(fd, stat.size));
    }
}

/// A script was opened in a recording, which begins with these bytes: nothing else of it is wanted here, and what reads
/// the rest has it from the recording.
pub(crate) fn script(path: &CStr, fd: u32, head: &[u8]) {
    if kept().since != [u64::MAX; 2]
        && let Some(stat) = syscall::file_stat(fd)
    {
        copy(path, fd, &stat, Content::Bytes(head));
    }
}

/// Who is another user than the recorder may not write to the trace: the launcher makes its copy. One that can't be made is missed by
/// the replay, which says so if the file is not there then.
fn copy(path: &CStr, fd: u32, stat: &Stat, content: Content<'_>) {
    let mut folder = [0; PATH_MAX];
    let path = hash(whole(path, &mut folder));
    if let Ok(trace) = CStr::from_bytes_until_nul(&kept().folder) {
        let name = name(path, [stat.size, stat.changed[0], stat.changed[1]]);
        if !keep(trace, &name, content)
            && let Some(copied) = from_launcher(Wanted::Kept { descriptor: fd, path })
        {
            syscall::close(copied);
        }
    }
}

fn find(path: &CStr, is_folder: bool) -> Option<&'static mut Entry> {
    if kept().count == 0 {
        return None;
    }
    let mut folder = [0; PATH_MAX];
    let path = hash(whole(path, &mut folder));
    let count = kept().count;
    let mut entries = kept().entries[..count].iter_mut();
    entries.find(|entry| entry.hash == path && (entry.identity == SEEN[..3]) == is_folder)
}

/// Whether the loader found a folder of this name, which is gone.
pub(crate) fn had_folder(path: &CStr) -> bool {
    find(path, true).is_some()
}

/// The path of the copy that stands for a file, ended by zero, if there is one.
pub(crate) fn copy_of<'a>(path: &CStr, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let name = find(path, false).map(|entry| name(entry.hash, entry.identity))?;
    let kept = kept();
    let front = kept.folder_bytes + 1;
    let buffer = buffer.get_mut(..front + NAME_BYTES + 1)?;
    buffer[..front - 1].copy_from_slice(&kept.folder[..front - 1]);
    buffer[front - 1] = b'/';
    buffer[front..front + NAME_BYTES].copy_from_slice(&name);
    buffer[front + NAME_BYTES] = 0;
    Some(buffer)
}

/// Whether a copy stands for the file. What was opened for it is remembered.
pub(crate) fn stands_for(path: &CStr, fd: u32) -> bool {
    let found = find(path, false);
    let stands = found.is_some();
    if let Some((entry, identity)) = found.zip(syscall::file_identity(fd)) {
        entry.present = identity;
    }
    stands
}

/// Device and inode that the recording had for the file that has these now, if a copy stands for it.
pub(crate) fn recorded(present: [u64; 2]) -> Option<[u64; 2]> {
    let kept = kept();
    kept.entries[..kept.count].iter().find(|entry| entry.present == present).map(|entry| entry.recorded)
}
