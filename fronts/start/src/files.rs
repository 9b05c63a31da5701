//! The files that a program is made of, by name.
//!
//! A recording notes what the starter and the loader open, so that it can be
//! packed. A replay of a packed trace finds those files in the trace: their names
//! are looked up below the folder that stands for the recording machine's root,
//! and what is not there does not exist.
//!
//! Our own library is neither noted nor looked up there, and has a place of its
//! own: what the loader maps behind it must lie where it did, however large the
//! library is that this version of relive was built with.

use crate::kept;
use crate::leave::PATH_MAX;
use crate::scratch;
use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::mem::offset_of;
use relive_sys::handed;
use relive_sys::start::{Handover, OPENED, OPENED_BYTES, OWN, Opened};
use relive_sys::syscall::number::{FSTAT, MMAP, NEWFSTATAT, OPEN, OPENAT};
use relive_sys::syscall::{self, syscall6};
use relive_trace::control::{CONTROL_MAGIC, Control, ENV_CONTROL, ENV_LINK, FOLDER_BYTES_MAX, TOLD_MAX, flag, mode};
use relive_trace::handed::{Wanted, launcher_of, name};
use relive_trace::layout::FORMAT_VERSION;
use relive_trace::opened::{HEAD_BYTES, ROOT, SEEN};

const EACCES: isize = -13;
const GETCWD: usize = 79;
const NONE: usize = usize::MAX;
const MAP_FIXED_NOREPLACE: usize = 0x10_0000;

/// What is known once the session was looked at.
struct Files {
    /// What names are looked up below; empty for the machine's root.
    root: [u8; FOLDER_BYTES_MAX + ROOT.len()],
    root_bytes: usize,
    /// Our own library's path, up to the first of what the user preloads.
    library: &'static [u8],
    /// Its descriptor while the loader has it open.
    own: usize,
    /// The session's memory.
    control: &'static [u8],
    /// Where the list of packed files is in it, and how many there are.
    list: [u64; 2],
}

/// One for the process, which has one thread as long as the starter takes part.
struct Only(UnsafeCell<Files>);

// SAFETY: no second thread exists before the runtime takes over, and the handler of calls is not entered twice.
unsafe impl Sync for Only {}

static FILES: Only = Only(UnsafeCell::new(Files {
    root: [0; FOLDER_BYTES_MAX + ROOT.len()],
    root_bytes: 0,
    library: &[],
    own: NONE,
    control: b"\0",
    list: [0; 2],
}));

fn files() -> &'static mut Files {
    // SAFETY: one thread, and no caller keeps the reference across a call of another function here.
    unsafe { &mut *FILES.0.get() }
}

/// Room for a path below the root.
type Buffer = [u8; FOLDER_BYTES_MAX + ROOT.len() + PATH_MAX];
const BUFFER: Buffer = [0; FOLDER_BYTES_MAX + ROOT.len() + PATH_MAX];

/// Entries of an auxiliary vector, up to one of type 0.
pub(crate) type Told = [[u64; 2]; TOLD_MAX];

/// Asks the session what is to be done with files, and what the program is to be told of the machine: nothing, where
/// the kernel's own words are right.
pub(crate) fn start(handover: &mut Handover) -> Told {
    let mut told = [[0; 2]; TOLD_MAX];
    // SAFETY: the session's entries, which are strings that stay.
    let entries = || handover.session.iter().take_while(|e| !e.is_null()).map(|&e| unsafe { CStr::from_ptr(e) });
    let value =
        |name: &str| entries().find_map(|e| e.to_bytes_with_nul().strip_prefix(name.as_bytes())?.strip_prefix(b"="));
    if let Some(preloaded) = value("LD_PRELOAD") {
        files().library = preloaded.split(|&byte| matches!(byte, b':' | b' ' | 0)).next().unwrap_or(&[]);
    }
    files().control = value(ENV_CONTROL).unwrap_or(b"\0");
    if let Some(control) = open_control(files().control, syscall::O_RDONLY) {
        let session_mode = ask(control);
        if let Some(session_mode) = session_mode {
            let link = value(ENV_LINK).and_then(|text| text.strip_suffix(b"\0"));
            kept::start(control, session_mode, link);
        }
        match session_mode {
            Some(mode::RECORD) if scratch::map(OPENED, OPENED_BYTES, 0, 3) == OPENED as isize => {
                handover.opened = Opened { list: OPENED as *mut u8, bytes: HEAD_BYTES, room: OPENED_BYTES };
            }
            Some(mode::REPLAY) => {
                for (index, word) in told.as_flattened_mut().iter_mut().enumerate() {
                    let offset = offset_of!(Control, told) + index * size_of::<u64>();
                    *word = field(control, offset).map_or(0, u64::from_le_bytes);
                }
            }
            _ => {}
        }
        syscall::close(control);
    }
    told
}

/// Opens the session's memory. A process that has become another user gets it from the launcher.
pub(crate) fn open_control(path: &[u8], flags: u32) -> Option<u32> {
    match syscall::open(path, flags) {
        EACCES => handed_over(path, Wanted::Control),
        opened => u32::try_from(opened).ok(),
    }
}

/// A file of the session, as the launcher hands it over.
pub(crate) fn from_launcher(wanted: Wanted) -> Option<u32> {
    handed_over(files().control, wanted)
}

/// The same of the session with this memory.
fn handed_over(control: &[u8], wanted: Wanted) -> Option<u32> {
    let launcher = launcher_of(control)?;
    handed::ask(&name(launcher), launcher, &wanted.to_bytes())
}

/// Reads the session's memory, of which a program that is about to start needs three words and a path.
fn ask(control: u32) -> Option<u32> {
    let magic: [u8; 8] = field(control, offset_of!(Control, magic))?;
    let version: [u8; 4] = field(control, offset_of!(Control, version))?;
    if u64::from_le_bytes(magic) != CONTROL_MAGIC || u32::from_le_bytes(version) != FORMAT_VERSION {
        return None;
    }
    let mode = u32::from_le_bytes(field(control, offset_of!(Control, mode))?);
    let flags = u32::from_le_bytes(field(control, offset_of!(Control, flags))?);
    if flags & flag::PACKED != 0 {
        let length = u32::from_le_bytes(field(control, offset_of!(Control, source_len))?) as usize;
        let files = files();
        for (value, at) in
            files.list.iter_mut().zip([offset_of!(Control, files_offset), offset_of!(Control, files_count)])
        {
            *value = u64::from_le_bytes(field(control, at)?);
        }
        let folder = files.root.get_mut(..length)?;
        if syscall::read_at(control, folder, offset_of!(Control, source) as u64) != length as isize {
            return None;
        }
        files.root_bytes = length + ROOT.len();
        files.root.get_mut(length..files.root_bytes)?.copy_from_slice(ROOT.as_bytes());
    }
    (flags & flag::ENVIRONMENT != 0).then_some(mode)
}

pub(crate) fn field<const BYTES: usize>(control: u32, offset: usize) -> Option<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    (syscall::read_at(control, &mut bytes, offset as u64) == BYTES as isize).then_some(bytes)
}

/// The path by which a file is really opened, ended by zero. Kernel's own files are the machine's in every case, and
/// what has no full path is looked for in a folder that is in the right place already.
///
/// A copy that the trace holds is the file in every case.
fn real<'a>(path: &'a CStr, buffer: &'a mut Buffer) -> &'a [u8] {
    if kept::copy_of(path, &mut buffer[..]).is_some() {
        let end = buffer.iter().position(|&byte| byte == 0).unwrap_or(0);
        return &buffer[..=end];
    }
    let (files, name) = (files(), path.to_bytes());
    let kernels = [&b"/proc/"[..], b"/dev/", b"/sys/"].iter().any(|folder| name.starts_with(folder));
    if files.root_bytes == 0 || !name.starts_with(b"/") || kernels || name == files.library || name.len() >= PATH_MAX {
        return path.to_bytes_with_nul();
    }
    let whole = &mut buffer[..=files.root_bytes + name.len()];
    whole[..files.root_bytes].copy_from_slice(&files.root[..files.root_bytes]);
    whole[files.root_bytes..].copy_from_slice(path.to_bytes_with_nul());
    whole
}

/// Opens a file for the starter itself.
pub(crate) fn open(path: &CStr, handover: &mut Handover) -> isize {
    let mut buffer = BUFFER;
    let fd = syscall::open(real(path, &mut buffer), syscall::O_RDONLY);
    if let Ok(fd) = u32::try_from(fd) {
        note(path, fd, handover);
    }
    fd
}

/// The path that a program knows an open file by, which was opened by this name.
pub(crate) fn known<'a>(name: &'a CStr, fd: u32, path: &'a mut [u8]) -> &'a [u8] {
    if kept::stands_for(name, fd) {
        return name.to_bytes();
    }
    let Some(path) = syscall::path_of(fd, path) else { return name.to_bytes() };
    let files = files();
    path.strip_prefix(&files.root[..files.root_bytes]).unwrap_or(path)
}

/// A call of the loader's that names a file, by its argument `index`.
///
/// # Safety
/// As for the call itself.
pub(crate) unsafe fn by_name(number: usize, index: usize, arguments: [usize; 6], handover: &mut Handover) -> isize {
    let mut given = arguments;
    let mut buffer = BUFFER;
    // SAFETY: the caller's promise: a string.
    unsafe {
        let path = CStr::from_ptr(arguments[index] as *const _);
        if !path.is_empty() {
            given[index] = real(path, &mut buffer).as_ptr().addr();
        }
        let [first, second, third, fourth, fifth, sixth] = given;
        let mut result = syscall6(number, first, second, third, fourth, fifth, sixth);
        if result == EACCES && matches!(number, OPEN | OPENAT) && path.to_bytes() == files().library {
            result = from_launcher(Wanted::Library).map_or(EACCES, |fd| fd as isize);
        }
        if result < 0 && number == NEWFSTATAT && kept::had_folder(path) {
            result = syscall6(number, first, c"/".as_ptr().addr(), third, 0, 0, 0);
        }
        match (number, u32::try_from(result)) {
            (OPEN | OPENAT, Ok(fd)) => {
                note(path, fd, handover);
                if path.to_bytes() == files().library {
                    files().own = fd as usize;
                }
            }
            (NEWFSTATAT, Ok(0)) if path.is_empty() => as_recorded(first, third),
            // The loader remembers which of the folders that it looks in are there, and goes by it later.
            (_, Ok(_)) if !path.is_empty() => note_as(path, SEEN, handover),
            _ => {}
        }
        result
    }
}

/// `fstat` of the loader's.
///
/// # Safety
/// As for the call itself.
pub(crate) unsafe fn by_descriptor(arguments: [usize; 6]) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        let result = syscall6(FSTAT, arguments[0], arguments[1], 0, 0, 0, 0);
        if result == 0 {
            as_recorded(arguments[0], arguments[1]);
        }
        result
    }
}

/// Gives a packed file the device and inode of the recording: those of libraries that are opened later are answered from
/// there, and the loader takes two libraries for one if these are the same. Our own library gets what no file has: it is
/// younger than the recording, and may have an inode that was another library's then.
///
/// # Safety
/// A `struct stat` of `fd` that the kernel has just written must lie there.
unsafe fn as_recorded(fd: usize, stat: usize) {
    // SAFETY: the caller's promise; it begins with device and inode.
    let identity = unsafe { &mut *(stat as *mut [u64; 2]) };
    let (control, list) = (files().control, files().list);
    if fd == files().own {
        *identity = [u64::MAX; 2];
        return;
    }
    if let Some(recorded) = kept::recorded(*identity) {
        *identity = recorded;
        return;
    }
    if list[1] == 0 {
        return;
    }
    let Some(control) = open_control(control, syscall::O_RDONLY) else { return };
    for index in 0..list[1] {
        let entry: Option<[u8; 32]> = field(control, (list[0] + index * 32) as usize);
        let word = |at: usize| entry.and_then(|entry| entry[at..].first_chunk().map(|word| u64::from_le_bytes(*word)));
        if [word(0), word(8)] == [Some(identity[0]), Some(identity[1])] {
            *identity = [word(16), word(24)].map(Option::unwrap_or_default);
            break;
        }
    }
    syscall::close(control);
}

fn note(path: &CStr, fd: u32, handover: &mut Handover) {
    kept::stands_for(path, fd);
    if !handover.opened.list.is_null()
        && path.to_bytes() != files().library
        && let Some(stat) = syscall::file_stat(fd)
    {
        kept::opened(path, fd, &stat);
        let [device, inode] = stat.identity;
        note_as(path, [stat.size, stat.changed[0], stat.changed[1], device, inode], handover);
    }
}

fn note_as(path: &CStr, identity: [u64; 5], handover: &mut Handover) {
    let name = path.to_bytes();
    if handover.opened.list.is_null() || name == files().library {
        return;
    }
    let mut folder = [0; PATH_MAX];
    // SAFETY: the list lies where it was mapped with this room.
    unsafe { handover.opened.note(identity, whole(path, &mut folder)) };
}

/// The full path of a name, in two parts: the folder that it is seen from, if it matters, and the name.
pub(crate) fn whole<'a>(path: &'a CStr, folder: &'a mut [u8; PATH_MAX]) -> [&'a [u8]; 2] {
    let name = path.to_bytes();
    let mut front = 0;
    if !name.starts_with(b"/") {
        // SAFETY: as many writable bytes as stated.
        let length = unsafe { syscall6(GETCWD, folder.as_mut_ptr().addr(), PATH_MAX - 1, 0, 0, 0, 0) };
        // With a zero at its end, which gives way to a slash.
        front = usize::try_from(length).unwrap_or(0);
        if front > 0 {
            folder[front - 1] = b'/';
        }
    }
    [&folder[..front], name]
}

/// Where our own library is to be mapped as a whole; `None` for every other mapping.
pub(crate) fn own_place(arguments: &[usize; 6]) -> Option<isize> {
    let [_, length, protection, flags, fd, offset] = *arguments;
    if fd != files().own || length > OWN.len() {
        return None;
    }
    files().own = NONE;
    // SAFETY: a new mapping in a range that is kept free for it.
    Some(unsafe { syscall6(MMAP, OWN.start, length, protection, flags | MAP_FIXED_NOREPLACE, fd, offset) })
}
