//! What was found in code that earlier sessions looked through, kept in a file beside
//! the runtime.
//!
//! A compiler's forty megabytes take longer to look through for a system call or an
//! `rdtsc` than a small file takes to compile. What is kept is named by the code's file
//! as it was: device, inode, size and both times of change; the places are looked at once
//! more before they are believed (`outside::searched`, `sites`).
//!
//! Apart from the shared memory because that lives as long as a session. Nothing depends
//! on the file: whatever is wrong with it, the code is looked through again.

use crate::launch::Runtime;
use crate::shared::Shared;
use relive_trace::control::{Control, flag};
use relive_trace::known::{Known, KnownCode};
use relive_trace::reader::checksum;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

const MAGIC: [u8; 8] = *b"RLVKNOW\x02";
/// Magic and checksum.
const HEAD_BYTES: usize = 16;
/// Which table, how many words, and the key.
const PIECE_BYTES: usize = 16;

/// The tables that have a file of their own, and its name.
type Tables = fn(&Control) -> Vec<&KnownCode>;
const ALWAYS: (&str, Tables) = ("known", |control| vec![&control.code, &control.instructions]);
/// Those of the level of atomics alone: there is more to know, and most sessions have no use for it.
const ATOMICS: (&str, Tables) = ("known-atomics", |control| vec![&control.indivisible]);

/// The files of a session.
#[derive(Debug)]
pub(crate) struct Kept {
    files: Vec<KeptFile>,
}

/// One of them, and how much of it the session began with.
#[derive(Debug)]
struct KeptFile {
    path: PathBuf,
    tables: Tables,
    pieces: usize,
}

impl Kept {
    /// Lays what the files hold into the memory of a session that has not begun.
    pub(crate) fn load(runtime: &Runtime, shared: &Shared) -> Self {
        let control = shared.control();
        let wanted = [Some(ALWAYS), (control.flags & flag::ATOMICS != 0).then_some(ATOMICS)];
        let load = |(name, tables): (&str, Tables)| {
            let path = path(runtime, name)?;
            let pieces = lay(&fs::read(&path).unwrap_or_default(), &tables(control));
            Some(KeptFile { path, tables, pieces })
        };
        Self { files: wanted.into_iter().flatten().filter_map(load).collect() }
    }

    /// Writes those files again for which the session found something.
    pub(crate) fn save(&self, shared: &Shared) {
        for file in &self.files {
            let all = in_order(&(file.tables)(shared.control()));
            if all.len() > file.pieces {
                // Without it the next session looks through the code again.
                let _ = replace(&file.path, &written(&all));
            }
        }
    }
}

/// Lays what a file holds into the tables, up to where what the session finds must have room; how many pieces.
fn lay(bytes: &[u8], tables: &[&KnownCode]) -> usize {
    read(bytes, |table, key, words| {
        tables.get(table).is_some_and(|known| !known.is_nearly_full() && known.lay(key, words.iter().copied()))
    })
}

/// All that is known, with its table's number: what the session used comes first, so that the rest finds no room when
/// the file is read, once there is too much of it.
fn in_order<'a>(tables: &[&'a KnownCode]) -> Vec<(usize, Known<'a>)> {
    let numbered = tables.iter().enumerate();
    let mut all: Vec<_> = numbered.flat_map(|(number, table)| table.all().map(move |known| (number, known))).collect();
    all.sort_by_key(|(_, known)| !known.is_used);
    all
}

/// Beside the starter, by the versions of both files.
fn path(runtime: &Runtime, name: &str) -> Option<PathBuf> {
    let version = |path: &Path| Some(path.file_name()?.to_str()?.split_once('-')?.1.split('.').next()?.to_owned());
    let name = format!("{name}-{}-{}", version(&runtime.starter)?, version(&runtime.library)?);
    Some(runtime.starter.with_file_name(name))
}

fn written(all: &[(usize, Known<'_>)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (table, known) in all {
        body.extend_from_slice(&(*table as u32).to_le_bytes());
        body.extend_from_slice(&(known.words.len() as u32).to_le_bytes());
        body.extend_from_slice(&known.key.to_le_bytes());
        body.extend(known.words.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()));
    }
    let sum = checksum(&body[..]).unwrap_or_default();
    [&MAGIC[..], &sum.to_le_bytes(), &body].concat()
}

/// Gives each piece to `lay`; how many it took. Nothing of a file that is damaged.
fn read(bytes: &[u8], mut lay: impl FnMut(usize, u64, &[u32]) -> bool) -> usize {
    let Some((head, mut body)) = bytes.split_at_checked(HEAD_BYTES) else { return 0 };
    let sum = checksum(body).unwrap_or_default();
    if head[..MAGIC.len()] != MAGIC || head[MAGIC.len()..] != sum.to_le_bytes() {
        return 0;
    }
    let mut taken = 0;
    while let Some((head, rest)) = body.split_at_checked(PIECE_BYTES) {
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let key = u64::from(number(8)) | u64::from(number(12)) << 32;
        let Some((words, rest)) = rest.split_at_checked((number(4) as usize).saturating_mul(4)) else { break };
        let words: Vec<u32> = words.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        taken += usize::from(lay(number(0) as usize, key, &words));
        body = rest;
    }
    taken
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension(std::process::id().to_string());
    let write =
        || OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?.write_all(bytes);
    let done = write().and_then(|()| fs::rename(&fresh, path));
    if done.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::{HEAD_BYTES, PIECE_BYTES, in_order, lay, read, replace, written};
    use relive_trace::control::KNOWN_CODE;
    use relive_trace::known::KnownCode;
    use std::iter;

    fn taken(bytes: &[u8]) -> Vec<(usize, u64, Vec<u32>)> {
        let mut all = Vec::new();
        let count = read(bytes, |table, key, words| {
            all.push((table, key, words.to_vec()));
            true
        });
        assert_eq!(count, all.len());
        all
    }

    #[test]
    fn what_was_written_is_read_and_nothing_of_what_is_damaged() {
        static ONE: KnownCode = KnownCode::nothing();
        static OTHER: KnownCode = KnownCode::nothing();
        OTHER.remember(7, [1, 2, 3].into_iter());
        ONE.remember(u64::MAX, iter::empty());
        let bytes = written(&in_order(&[&ONE, &OTHER]));
        assert_eq!(bytes.len(), HEAD_BYTES + 2 * PIECE_BYTES + 12);
        assert_eq!(taken(&bytes), [(0, u64::MAX, vec![]), (1, 7, vec![1, 2, 3])]);
        for at in 0..bytes.len() {
            assert_eq!(taken(&bytes[..at]), [], "cut to {at} bytes");
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            assert_eq!(taken(&damaged), [], "byte {at}");
        }
    }

    #[test]
    fn a_full_table_leaves_room_for_what_the_next_session_finds() {
        static FULL: KnownCode = KnownCode::nothing();
        static ONE: KnownCode = KnownCode::nothing();
        static OTHER: KnownCode = KnownCode::nothing();
        for key in 1..=KNOWN_CODE as u64 {
            FULL.remember(key, iter::empty());
        }
        let laid = lay(&written(&in_order(&[&FULL, &OTHER])), &[&ONE, &OTHER]);
        assert_eq!((laid, ONE.is_nearly_full()), (KNOWN_CODE / 4 * 3, true));
        ONE.remember(1000, iter::empty());
        assert_eq!(in_order(&[&ONE, &OTHER])[0].1.key, 1000);
        assert_eq!(in_order(&[&ONE, &OTHER]).len(), laid + 1);
    }

    #[test]
    fn what_a_session_used_comes_before_what_it_only_had() {
        static ONE: KnownCode = KnownCode::nothing();
        static OTHER: KnownCode = KnownCode::nothing();
        for key in 1..=3 {
            assert!(ONE.lay(key, [key as u32].into_iter()));
            assert!(OTHER.lay(10 + key, iter::empty()));
        }
        ONE.remember(4, iter::empty());
        assert!(OTHER.recall(12).is_some());
        let keys: Vec<_> = in_order(&[&ONE, &OTHER]).iter().map(|&(table, known)| (table, known.key)).collect();
        assert_eq!(keys, [(0, 4), (1, 12), (0, 1), (0, 2), (0, 3), (1, 11), (1, 13)]);
    }

    #[test]
    fn the_file_is_replaced_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("known-1-2");
        for bytes in [&[1u8; 10][..], &[2; 3]] {
            replace(&path, bytes).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), bytes);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
