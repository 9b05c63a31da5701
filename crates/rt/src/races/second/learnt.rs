//! Which instructions access what races, or what orders others: a recording at the level of
//! atomics may order them, see `environment/atomics.rs`.
//!
//! Where nobody wants to see the races but who makes the next recording, most of what races does so only
//! because nothing orders a few flags. A race makes its bytes a synchronisation variable there, and its second
//! thread knows from then on what the first one knew: as it would if that access was ordered. What races then
//! in spite of that is learnt at once; all else that raced in the first pass is told apart, should the former be known already.
//!
//! Apart because races are about two accesses, and this about each by itself.

use super::Second;
use super::lives::{Access, Lives};
use super::stacks::{RSP, pointer_of_program};
use crate::races::ledger::Ledger;
use crate::{runtime, translation};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Range;
use relive_race::{Touch, pieces};
use relive_sys::atomics::Access as Atomic;
use relive_sys::frames::File;
use relive_sys::{maps, syscall};
use relive_trace::accesses::key;
use relive_trace::control::flag;
use relive_trace::races::{LEARNT, word};

/// Bytes below the stack pointer that a function uses which calls no other.
const RED_ZONE: u64 = 128;
/// Where nobody wants to see the races, so many accesses of an instruction to an address are looked at for what they
/// race with, which may tell that the address is one of an atomic variable;
const AT_ADDRESS: u32 = 16;
/// so many of an instruction to any;
const ANYWHERE: u32 = 1024;
/// and one of so many behind those.
const LATER: u32 = 32;

/// Those of a process.
pub(super) struct Learnt {
    is_wanted: bool,
    lives: Lives,
    /// By lines: bytes that raced in the first pass.
    raced: BTreeMap<u64, u64>,
    noted: Noted,
    /// Where nobody wants to see the races.
    looks: Option<Looks>,
}

/// What is written down.
struct Noted {
    /// Addresses of instructions,
    known: BTreeSet<u64>,
    /// and of those that are told apart.
    raced: BTreeSet<u64>,
    /// Keys of files.
    files: BTreeSet<u64>,
    ledger: Ledger,
}

/// How often instructions came: by the instruction, and by that and an address.
#[derive(Default)]
struct Looks {
    anywhere: BTreeMap<u64, u32>,
    at_address: BTreeMap<(u64, u64), u32>,
}

impl Looks {
    /// Whether an access is to be looked at.
    fn wants(&mut self, ip: u64, address: u64) -> bool {
        let all = self.anywhere.entry(ip).or_default();
        *all = all.wrapping_add(1);
        if *all > ANYWHERE {
            return all.is_multiple_of(LATER);
        }
        let here = self.at_address.entry((ip, address)).or_default();
        *here += 1;
        *here <= AT_ADDRESS || all.is_multiple_of(LATER)
    }
}

impl Learnt {
    pub(super) fn new() -> Self {
        let is_wanted = runtime::has_flag(flag::ATOMICS);
        let looks = runtime::has_flag(flag::LEARNING).then(Looks::default);
        let noted = Noted {
            known: BTreeSet::new(),
            raced: BTreeSet::new(),
            files: BTreeSet::new(),
            ledger: Ledger::new(LEARNT),
        };
        Self { is_wanted, lives: Lives::default(), raced: BTreeMap::new(), noted, looks }
    }

    /// Whether nobody wants to see the races.
    pub(super) fn is_all(&self) -> bool {
        self.looks.is_some()
    }

    /// Whether it matters what an access races with.
    pub(super) fn wants_race(&mut self, ip: u64, range: &Range<u64>) -> bool {
        self.looks.as_mut().is_none_or(|looks| looks.wants(ip, range.start))
    }

    /// Bytes of a line raced in the first pass.
    pub(super) fn raced(&mut self, line: u64, bytes: u64) {
        if self.is_all() {
            *self.raced.entry(line).or_default() |= bytes;
        } else {
            self.races(line, bytes);
        }
    }

    /// Bytes of a line race: whatever accesses them is learnt, and has been.
    pub(super) fn races(&mut self, line: u64, bytes: u64) {
        if self.is_wanted {
            let Self { lives, noted, .. } = self;
            lives.count_always(line, bytes, &mut |instruction| noted.note(word::LEARNT, instruction));
        }
    }

    /// An access to bytes of which `watched` tells, by lines, the watched ones. The stack of its thread ends at
    /// `stack`, and is used down to `pointer`.
    fn access(&mut self, access: &Access, watched: impl Fn(u64) -> u64, stack: u64, pointer: u64) {
        if !self.is_wanted {
            return;
        }
        // Whoever writes below the stack pointer pushes, or has returned from all that was there.
        let pushes = access.range.end <= pointer && access.range.start >= stack;
        let used = if pushes { pointer } else { pointer.saturating_sub(RED_ZONE) };
        let Self { lives, raced, noted, .. } = self;
        if pieces(access.range.clone()).any(|(line, bytes)| raced.get(&line).is_some_and(|raced| raced & bytes != 0)) {
            noted.note(word::RACED, access.instruction);
        }
        lives.end(&(stack..used));
        lives.access(access, watched, &mut |instruction| noted.note(word::LEARNT, instruction));
    }

    /// Memory was given out: what accessed it before says nothing.
    pub(super) fn fresh(&mut self, range: &Range<u64>) {
        self.lives.end(range);
    }
}

impl Second {
    /// An access of a thread, to a variable if it is `meant` so.
    pub(super) fn learn(&mut self, me: u32, access: &crate::races::Access, meant: bool) {
        let pointer = pointer_of_program(access.general[RSP]);
        self.has_stack(me, pointer);
        let stack = self.threads.get(&me).map(|past| &past.stack).filter(|stack| stack.contains(&pointer));
        let stack = stack.map_or(pointer, |stack| stack.start);
        let indivisible = meant || access.touch == Touch::Locked;
        let access = Access { thread: me, instruction: access.ip, range: access.range.clone(), indivisible };
        let Self { learnt, detail, .. } = self;
        learnt.access(&access, |line| detail.watched(line), stack, pointer);
    }
}

/// Whether this is an instruction by which calls find functions of other files. Which threads come to the loader's stubs hangs on
/// who has called a function first; as events those would make a replay diverge that they are to keep.
fn is_of_linkage(code: &[u8]) -> bool {
    const BOUND: u8 = 0xF2;
    // push [rip + …] and jmp [rip + …]
    matches!(code.strip_prefix(&[BOUND]).unwrap_or(code), [0xFF, 0x35 | 0x25, ..])
}

/// Where the file of this key is.
fn stands_at(key: u64, path: &[u8]) -> Vec<u64> {
    let path = path.strip_suffix(b"\0").unwrap_or(path);
    let eight = |bytes: &[u8]| {
        let mut word = [0; size_of::<u64>()];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    path.chunks(size_of::<u64>()).flat_map(|bytes| [word::STANDS_AT, key, eight(bytes)]).collect()
}

impl Noted {
    /// Writes down where in its file an instruction stands.
    fn note(&mut self, what: u64, ip: u64) {
        let Self { known, raced, files, ledger } = self;
        let is_new = if what == word::LEARNT { known.insert(ip) } else { raced.insert(ip) };
        if is_new && !translation::is_of_runtime(ip) {
            write(what, ip, files, ledger);
        }
    }
}

fn write(what: u64, ip: u64, files: &mut BTreeSet<u64>, ledger: &Ledger) {
    maps::each_file_of_code(|range, offset, path| {
        if !range.contains(&(ip as usize)) {
            return;
        }
        let Ok(fd) = u32::try_from(syscall::open(path, syscall::O_RDONLY)) else { return };
        let file = File::open(fd);
        let at = ip as usize - range.start + offset;
        let bytes = file.bytes();
        let code = bytes.get(at..).unwrap_or_default();
        // The former are ordered as they are.
        if Atomic::indivisible_at(code).is_none() && !is_of_linkage(code) {
            let key = key(bytes.len() as u64, bytes);
            let mut words = if files.insert(key) { stands_at(key, path) } else { Vec::new() };
            words.extend([what, key, at as u64]);
            ledger.append(&words);
        }
        drop(file);
        syscall::close(fd);
    });
}

#[cfg(test)]
mod tests {
    use super::{ANYWHERE, AT_ADDRESS, LATER, Looks, is_of_linkage};

    #[test]
    fn what_stubs_of_the_loader_read_is_not_learnt() {
        assert!(is_of_linkage(&[0xFF, 0x35, 0xCA, 0x2F, 0, 0]) && is_of_linkage(&[0xFF, 0x25, 0xCC, 0x2F, 0, 0]));
        assert!(is_of_linkage(&[0xF2, 0xFF, 0x25, 0x92, 0x2F, 0, 0]));
        assert!(!is_of_linkage(&[0xFF, 0x05, 0, 0, 0, 0]) && !is_of_linkage(&[0x8B, 0x05, 0, 0, 0, 0]));
    }

    #[test]
    fn an_instruction_is_looked_at_less_the_more_often_it_comes() {
        let mut looks = Looks::default();
        let mut at = |ip, address, times: u32| (0..times).filter(|_| looks.wants(ip, address)).count() as u32;
        assert_eq!(at(1, 64, AT_ADDRESS), AT_ADDRESS);
        assert_eq!(at(1, 64, LATER * 4), 4, "there no more, but now and then");
        assert_eq!(at(1, 72, AT_ADDRESS), AT_ADDRESS, "at another address as before");
        assert_eq!(at(2, 64, AT_ADDRESS), AT_ADDRESS, "and another instruction");
        let new: u32 = (0..2 * ANYWHERE).map(|n| at(3, u64::from(n), 1)).sum();
        assert_eq!(new, ANYWHERE + ANYWHERE / LATER, "one that comes to ever new addresses");
    }
}
