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
use relive_trace::control::{KNOWN_CODE, KNOWN_WORDS};
use relive_trace::known::{KnownCode, KnownPiece};
use relive_trace::reader::checksum;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed};

const MAGIC: [u8; 8] = *b"RLVKNOW\x01";
/// Magic and checksum.
const HEAD_BYTES: usize = 16;
/// Which table, how many words, and the key.
const PIECE_BYTES: usize = 16;
const TABLES: usize = 2;
/// How much of a table is filled from the file: what a session finds must have room.
const LOADED_MAX: usize = KNOWN_CODE / 4 * 3;

/// The file, and how much of it a session began with.
#[derive(Debug)]
pub(crate) struct Kept {
    path: Option<PathBuf>,
    pieces: usize,
}

impl Kept {
    /// Lays what the file holds into the memory of a session that has not begun.
    pub(crate) fn load(runtime: &Runtime, shared: &Shared) -> Self {
        let path = path(runtime);
        let bytes = path.as_ref().and_then(|path| fs::read(path).ok()).unwrap_or_default();
        let pieces = lay(&bytes, tables(shared));
        Self { path, pieces }
    }

    /// Writes the file again if the session found something.
    pub(crate) fn save(&self, shared: &Shared) {
        let Some(path) = &self.path else { return };
        let all = in_order(tables(shared));
        if all.len() > self.pieces {
            // Without it the next session looks through the code again.
            let _ = replace(path, &written(&all));
        }
    }
}

/// Lays what a file holds into the tables; how many pieces.
fn lay(bytes: &[u8], tables: [&KnownCode; TABLES]) -> usize {
    let mut laid = [0; TABLES];
    read(bytes, |table, key, words| {
        let (Some(known), Some(laid)) = (tables.get(table), laid.get_mut(table)) else { return false };
        let has_room = *laid < LOADED_MAX && known.lay(key, words.iter().copied());
        *laid += usize::from(has_room);
        has_room
    })
}

/// All that is known, with its table's number: what the session used comes first, so that the rest finds no room when
/// the file is read, once there is too much of it.
fn in_order(tables: [&KnownCode; TABLES]) -> Vec<(usize, &KnownPiece)> {
    let numbered = tables.into_iter().enumerate();
    let all = numbered.flat_map(|(number, known)| used(known).map(move |piece| (number, piece)));
    let mut all: Vec<_> = all.filter(|(_, piece)| is_ready(piece)).collect();
    all.sort_by_key(|(_, piece)| piece.is_used.load(Relaxed) == 0);
    all
}

/// The rest of a table was never touched, and need not be now.
fn used(known: &KnownCode) -> impl Iterator<Item = &KnownPiece> {
    known.pieces.iter().take_while(|piece| piece.key.load(Acquire) != 0)
}

fn is_ready(piece: &KnownPiece) -> bool {
    piece.is_ready.load(Acquire) != 0
}

fn tables(shared: &Shared) -> [&KnownCode; TABLES] {
    let control = shared.control();
    [&control.code, &control.instructions]
}

/// Beside the starter, by the versions of both files.
fn path(runtime: &Runtime) -> Option<PathBuf> {
    let version = |path: &Path| Some(path.file_name()?.to_str()?.split_once('-')?.1.split('.').next()?.to_owned());
    let name = format!("known-{}-{}", version(&runtime.starter)?, version(&runtime.library)?);
    Some(runtime.starter.with_file_name(name))
}

fn written(pieces: &[(usize, &KnownPiece)]) -> Vec<u8> {
    let mut body = Vec::new();
    for &(table, piece) in pieces {
        let words = &piece.words[..(piece.count.load(Relaxed) as usize).min(KNOWN_WORDS)];
        body.extend_from_slice(&(table as u32).to_le_bytes());
        body.extend_from_slice(&(words.len() as u32).to_le_bytes());
        body.extend_from_slice(&piece.key.load(Relaxed).to_le_bytes());
        body.extend(words.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()));
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
        let words: Vec<u32> =
            words.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect();
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
    use super::{KNOWN_CODE, LOADED_MAX, in_order, lay, read, replace, written};
    use relive_trace::known::{KnownCode, KnownPiece};
    use std::sync::atomic::Ordering::Relaxed;
    use std::sync::atomic::{AtomicU32, AtomicU64};

    fn piece(key: u64, words: &[u32]) -> KnownPiece {
        KnownPiece {
            key: AtomicU64::new(key),
            is_ready: AtomicU32::new(1),
            count: AtomicU32::new(words.len() as u32),
            is_used: AtomicU32::new(0),
            words: std::array::from_fn(|at| AtomicU32::new(words.get(at).copied().unwrap_or(0))),
        }
    }

    /// Too large for a stack.
    fn known() -> Box<KnownCode> {
        Box::new(KnownCode {
            pieces: std::array::from_fn(|_| KnownPiece { is_ready: AtomicU32::new(0), ..piece(0, &[]) }),
        })
    }

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
        let pieces = [piece(7, &[1, 2, 3]), piece(u64::MAX, &[])];
        let bytes = written(&[(1, &pieces[0]), (0, &pieces[1])]);
        assert_eq!(taken(&bytes), [(1, 7, vec![1, 2, 3]), (0, u64::MAX, vec![])]);
        for at in 0..bytes.len() {
            assert_eq!(taken(&bytes[..at]), [], "cut to {at} bytes");
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            assert_eq!(taken(&damaged), [], "byte {at}");
        }
    }

    #[test]
    fn a_full_table_leaves_room_for_what_the_next_session_finds() {
        let (full, one, other) = (known(), known(), known());
        for key in 1..=KNOWN_CODE as u64 {
            full.remember(key, std::iter::empty());
        }
        assert_eq!(lay(&written(&in_order([&full, &other])), [&one, &other]), LOADED_MAX);
        one.remember(1000, std::iter::empty());
        assert_eq!(in_order([&one, &other])[0].1.key.load(Relaxed), 1000);
        assert_eq!(in_order([&one, &other]).len(), LOADED_MAX + 1);
    }

    #[test]
    fn what_a_session_used_comes_before_what_it_only_had() {
        let (one, other) = (known(), known());
        for key in 1..=3 {
            assert!(one.lay(key, [key as u32].into_iter()));
            assert!(other.lay(10 + key, std::iter::empty()));
        }
        one.remember(4, std::iter::empty());
        assert!(other.recall(12).is_some());
        let keys: Vec<_> =
            in_order([&one, &other]).iter().map(|&(table, piece)| (table, piece.key.load(Relaxed))).collect();
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
