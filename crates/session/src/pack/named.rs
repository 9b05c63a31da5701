//! What a recording says about files that were opened while it ran: libraries
//! that were mapped later, and programs that were started without being recorded.
//!
//! Apart because these stand in the threads' streams, among all other calls.

use relive_sys::syscall::number::{EXECVE, MMAP};
use relive_trace::opened::NAMED;
use relive_trace::record::{Decoder, Place, Record};
use relive_trace::recording::{Recording, inputs_name};
use relive_trace::stream::ThreadStream;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Tag and identity in front of a name.
const BEFORE_NAME: usize = 1 + 3 * size_of::<u64>();
/// No name is longer; what is has contents.
const PATH_MAX: usize = 4096;

/// Path of a library, its size, and seconds and nanoseconds of its last change.
type Library = (PathBuf, [u64; 3]);

/// The libraries that were mapped while the recording ran.
pub(crate) fn libraries(folder: &Path, recording: &Recording) -> Result<Vec<Library>, String> {
    let mut found = Vec::new();
    for thread in recording.threads() {
        let process = recording.process_of(thread.index).map_or(0, |process| process.index);
        let inputs = folder.join(inputs_name(process));
        of_thread(thread, &inputs, &mut found).ok_or_else(|| format!("{} can't be read", inputs.display()))?;
    }
    Ok(found)
}

fn of_thread(thread: &ThreadStream, inputs: &Path, found: &mut Vec<Library>) -> Option<()> {
    let mut decoder = Decoder::new(&thread.stream);
    let mut file = None;
    while let Ok(Some((_, record))) = decoder.next_record() {
        let Record::Call { number, result: 1.., bytes, place } = record else { continue };
        let bytes = bytes as usize;
        if usize::from(number) != MMAP || bytes <= BEFORE_NAME || bytes > BEFORE_NAME + PATH_MAX {
            continue;
        }
        match place {
            Place::Stream => found.extend(library(decoder.payload())),
            Place::Inputs(offset) => {
                let mut content = vec![0; bytes];
                let file = file.get_or_insert(File::open(inputs).ok()?);
                file.read_exact_at(&mut content, offset).ok()?;
                found.extend(library(&content));
            }
        }
    }
    Some(())
}

fn library(content: &[u8]) -> Option<Library> {
    let rest = content.strip_prefix(&[NAMED])?;
    let (words, name) = rest.split_at_checked(BEFORE_NAME - 1)?;
    let mut identity = [0; 3];
    for (value, word) in identity.iter_mut().zip(words.chunks_exact(size_of::<u64>())) {
        *value = u64::from_le_bytes(word.try_into().ok()?);
    }
    Some((PathBuf::from(OsStr::from_bytes(name)), identity))
}

/// How often a program was started that is not recorded, and of which something recorded may have come: the attempt names
/// no file, nothing says that it failed, and the thread has children.
pub(super) fn unrecorded(recording: &Recording) -> u64 {
    let mut count = 0;
    for thread in recording.threads().filter(|thread| !recording.children(thread.index).is_empty()) {
        let mut attempted = false;
        for entry in thread.entries() {
            if let Record::Call { number, bytes, .. } = entry.record {
                attempted = usize::from(number) == EXECVE && bytes == 0 && !attempted;
            }
        }
        count += u64::from(attempted);
    }
    count
}
