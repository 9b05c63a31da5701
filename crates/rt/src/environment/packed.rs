//! The files that images are started from: a recording leaves a list of them, and
//! a replay of a packed trace finds them in the trace.
//!
//! Apart from the calls because here files of the machine are named that no call
//! of the program's opens: its libraries, once they are mapped, and what the
//! starter and the loader opened before us.

use crate::handed;
use crate::path::Path;
use crate::report;
use crate::runtime::{self, Mode};
use core::ffi::CStr;
use relive_sys::keep::{self, Content};
use relive_sys::start::Opened;
use relive_sys::syscall::{self, Stat};
use relive_trace::control::{FOLDER_BYTES_MAX, flag};
use relive_trace::handed::Wanted;
use relive_trace::kept;
use relive_trace::opened::{HEAD_BYTES, INCOMPLETE, ROOT};

const PATH_MAX: usize = 4096;

/// Appends what the starter and the loader opened to the trace's list.
#[inline(never)] // Its buffers would weigh on the stack of whoever starts.
pub(super) fn keep_opened(opened: &Opened) {
    const O_APPEND: u32 = 0o2000;
    if opened.list.is_null() || runtime::mode() != Mode::Record {
        return;
    }
    let complete = opened.room > 0;
    let bytes = if complete { opened.bytes } else { HEAD_BYTES };
    let counted = if complete { (bytes - HEAD_BYTES) as u32 } else { INCOMPLETE };
    let head = [runtime::process(), counted].map(u32::to_le_bytes);
    // SAFETY: what the starter laid there, with room for the head in front; nobody else uses it any more.
    let block = unsafe { core::slice::from_raw_parts_mut(opened.list, bytes) };
    block[..HEAD_BYTES].copy_from_slice(head.as_flattened());
    let fd = handed::open(Path::opened().as_bytes(), syscall::O_WRITE_NEW | O_APPEND, Wanted::Opened);
    let written = u32::try_from(fd).is_ok_and(|fd| {
        syscall::set_owners_mode(fd);
        // Writing beyond the program's limit on file size would send it SIGXFSZ. In one piece: others append, too.
        let fits = syscall::file_size(fd).is_some_and(|had| had + bytes as u64 <= syscall::file_limit()[0]);
        let done = fits && syscall::write(fd, block) == bytes as isize;
        syscall::close(fd);
        done
    });
    if !written {
        report::line(format_args!("the trace can't be packed: which files the program is made of could not be noted"));
    }
}

/// Keeps a copy of a file that is mapped while the program is recorded, if it is younger than the recording. One that
/// can't be kept is missed by a replay that does not find it.
#[inline(never)] // Its buffers would weigh on the stack of every call.
pub(super) fn keep(path: &[u8], fd: u32, stat: &Stat) {
    let control = runtime::session();
    if stat.is_regular()
        && kept::is_young(stat.status_changed, control.keeps_since)
        && let Ok(folder) = CStr::from_bytes_until_nul(&control.source)
    {
        let path = kept::hash([path, b""]);
        let name = kept::name(path, [stat.size, stat.changed[0], stat.changed[1]]);
        // Who has become another user may not write to the trace.
        if !keep::keep(folder, &name, Content::Whole(fd, stat.size))
            && let Some(copied) = handed::get(Wanted::Kept { descriptor: fd, path })
        {
            syscall::close(copied);
        }
    }
}

/// Opens the copy that the trace holds of a file with this full path, size and time of its last change.
pub(super) fn open_kept(path: &[u8], identity: [u64; 3]) -> Option<u32> {
    let control = runtime::session();
    if !runtime::has_flag(flag::KEPT) {
        return None;
    }
    let name = kept::name(kept::hash([path, b""]), identity);
    let mut whole = [0; FOLDER_BYTES_MAX + kept::NAME_BYTES + 2];
    let mut at = 0;
    for part in [&control.source[..control.source_len as usize], b"/", &name] {
        whole[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    u32::try_from(syscall::open(&whole[..=at], syscall::O_RDONLY)).ok()
}

/// Opens a file that the recording had mapped by this full path, which ends in a zero.
pub(super) fn open(path: &[u8]) -> isize {
    let control = runtime::session();
    if !runtime::has_flag(flag::PACKED) {
        return syscall::open(path, syscall::O_RDONLY);
    }
    let mut whole = [0; FOLDER_BYTES_MAX + ROOT.len() + PATH_MAX + 1];
    let mut at = 0;
    for part in [&control.source[..control.source_len as usize], ROOT.as_bytes(), path] {
        whole[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    syscall::open(&whole[..at], syscall::O_RDONLY)
}
