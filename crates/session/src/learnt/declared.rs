//! Accesses that need not be learnt: a file's debug information says that they are atomic.
//!
//! Where an atomic variable is loaded or stored nothing but a plain instruction stands, which is
//! no event unless a race showed it to be one. But compilers tell from which functions each
//! piece of code was inlined (`relive_findings::names::atomic_code`), so that a program of C++ or
//! Rust replays from its first recording at the level of atomics on. Of what a compiler has merged
//! it is guessed: it counts if an atomic access of the same function has the same size, and lies as far from
//! what a register points to. To order one too many costs time alone. In C types tell (`names/typed.rs`).
//!
//! A program with much debug information takes seconds to look through, so what was found is kept
//! beside the runtime by the file's key. It may be lost.

use super::{Learnt, builds, lists};
use crate::binary;
use crate::launch::Runtime;
use crate::program::Program;
use iced_x86::{Code, Decoder, DecoderOptions, Register};
use object::{Object, ObjectSegment};
use relive_findings::names::{AtomicCode, DEBUG_ROOT, shared_code};
use relive_sys::atomics::Access;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// What is kept was found by other rules if this was another one.
const RULES: u32 = 4;

/// Where what was found is kept.
#[derive(Clone, Debug)]
pub struct Declared {
    folder: PathBuf,
    /// Our own files: what they do is no event.
    own: Vec<PathBuf>,
}

impl Declared {
    /// Beside the runtime.
    pub fn of(runtime: &Runtime) -> Self {
        let folder = runtime.library.parent().map(Path::to_owned).unwrap_or_default();
        Self { folder, own: vec![runtime.library.clone(), runtime.starter.clone()] }
    }

    /// Those in a program and the libraries that it begins with, by the keys of all these files.
    pub(crate) fn in_program(&self, program: &Program) -> Vec<(u64, Vec<u64>)> {
        let mut files = binary::listed(&program.loader, &program.executable);
        files.insert(program.executable.clone());
        files.iter().filter_map(|path| self.in_file(path)).collect()
    }

    /// Those in files in which something was learnt.
    pub fn in_files_of(&self, learnt: &Learnt) -> Learnt {
        let files = learnt.paths().filter_map(|path| self.in_file(path));
        files.flat_map(|(key, places)| places.into_iter().map(move |at| [key, at])).collect()
    }

    /// How many there are in a program.
    pub fn count_in(&self, program: &Path) -> usize {
        self.in_file(program).map_or(0, |(_, places)| places.len())
    }

    /// Those in a file that somebody has `open`, under `/proc`: its debug information may stand beside it.
    pub(crate) fn in_open_file(&self, open: &Path) -> Option<(u64, Vec<u64>)> {
        let named = fs::read_link(open).ok().filter(|named| builds::key_of(named) == builds::key_of(open));
        self.in_file(named.as_deref().unwrap_or(open))
    }

    /// The file's key, and where they are in it.
    fn in_file(&self, path: &Path) -> Option<(u64, Vec<u64>)> {
        let key = builds::key_of(path)?;
        if self.own.iter().any(|own| own == path) {
            return Some((key, Vec::new()));
        }
        let name = format!("atomics{RULES}-{key:016x}.json");
        let kept = fs::read(self.folder.join(&name)).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let places: Vec<u64> = kept.unwrap_or_else(|| {
            let Some(found) = in_file(path) else { return Vec::new() };
            // Without it the file is looked through again.
            let _ = lists::write(&self.folder.join(&name), &found);
            lists::newest(&self.folder, "atomics");
            found.into_iter().collect()
        });
        Some((key, places))
    }
}

/// How many there are in a file; `None` without debug information.
pub(crate) fn count(path: &Path) -> Option<u64> {
    Some(in_file(path)?.len() as u64)
}

fn in_file(path: &Path) -> Option<BTreeSet<u64>> {
    let (code, typed) = shared_code(path, &[PathBuf::from(DEBUG_ROOT)])?;
    Some(fs::read(path).map(|bytes| places(&bytes, &code, &typed)).unwrap_or_default())
}

/// The offsets of accesses in what is told of a file.
fn places(bytes: &[u8], told: &AtomicCode, typed: &BTreeSet<u64>) -> BTreeSet<u64> {
    let Ok(file) = object::File::parse(bytes) else { return BTreeSet::new() };
    let segments: BTreeMap<u64, (u64, u64)> =
        file.segments().map(|segment| (segment.address(), segment.file_range())).collect();
    let code_of = |range: &Range<u64>| {
        let (first, (from, size)) = segments.range(..=range.start).next_back()?;
        let begin = range.start - first;
        let end = begin.checked_add(range.end - range.start).filter(|end| end <= size)?;
        Some((from + begin, bytes.get((from + begin) as usize..(from + end) as usize)?))
    };
    let mut found = places_in(told, code_of);
    found.extend(typed.iter().filter_map(|at| Some(code_of(&(*at..*at + 1))?.0)));
    found
}

/// The same, with what finds the code at some addresses and its offset.
fn places_in<'c>(told: &AtomicCode, code_of: impl Fn(&Range<u64>) -> Option<(u64, &'c [u8])>) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    let mut shapes: BTreeSet<(u64, Shape)> = BTreeSet::new();
    for piece in &told.pieces {
        let Some((from, code)) = code_of(&piece.range) else { continue };
        for (at, shape) in accesses(code, piece.inlined) {
            found.insert(from + at);
            shapes.insert((piece.range.start + at, shape));
        }
    }
    for merged in &told.merged {
        let Some((from, code)) = code_of(&merged.range) else { continue };
        let alike = |shape: Shape| {
            let of_function = shapes.range((merged.function.start, Shape::default())..);
            of_function.take_while(|(at, _)| *at < merged.function.end).any(|(_, other)| *other == shape)
        };
        found.extend(accesses(code, true).filter(|(_, shape)| alike(*shape)).map(|(at, _)| from + at));
    }
    found
}

/// How many bytes an access has, and how far they lie from what a register points to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    bytes: usize,
    distance: u64,
}

/// The offsets of those in a piece of code, which is `inlined` or a function that has variables of its own.
fn accesses(code: &[u8], inlined: bool) -> impl Iterator<Item = (u64, Shape)> {
    const BITS: u32 = 64;
    let instructions = Decoder::with_ip(BITS, code, 0, DecoderOptions::NONE).into_iter();
    let mut has_frame = false;
    instructions
        .filter(move |instruction| {
            has_frame |=
                !inlined && instruction.code() == Code::Push_r64 && instruction.op0_register() == Register::RBP;
            let own = match instruction.memory_base() {
                Register::RSP => !inlined,
                Register::RBP => has_frame,
                _ => false,
            };
            let code = &code[instruction.ip() as usize..];
            !own && Access::at(code).is_some() && Access::indivisible_at(code).is_none()
        })
        .map(|found| {
            let shape = Shape { bytes: found.memory_size().size(), distance: found.memory_displacement64() };
            (found.ip(), shape)
        })
}

#[cfg(test)]
mod tests {
    use super::{Declared, accesses, places_in};
    use relive_findings::names::{AtomicCode, Merged, Piece};
    use std::fs;
    use std::ops::Range;
    use std::os::fd::AsRawFd;

    #[test]
    fn accesses_are_those_to_what_is_not_the_functions_own() {
        // push rbp; mov rbp, rsp; mov [rbp - 8], rdi; mov rax, [rbp - 8]; mov eax, [rax]; mfence; pop rbp; ret
        let whole = b"\x55\x48\x89\xE5\x48\x89\x7D\xF8\x48\x8B\x45\xF8\x8B\x00\x0F\xAE\xF0\x5D\xC3";
        let check = |code: &[u8], inlined, found: &[u64]| {
            assert_eq!(accesses(code, inlined).map(|(at, _)| at).collect::<Vec<_>>(), found, "{code:x?}");
        };
        check(whole, false, &[12]);
        // lock xadd [rdi], eax; mov eax, [rsp + 8]; lea rax, [rdi]; mov [rbp + 4], ecx
        let piece = b"\xF0\x0F\xC1\x07\x8B\x44\x24\x08\x48\x8D\x07\x89\x4D\x04";
        check(piece, true, &[4, 11]);
        check(piece, false, &[11]);
    }

    #[test]
    fn what_was_merged_counts_if_an_atomic_access_of_its_function_is_like_it() {
        // mov eax, [r13 + 16]; mov ecx, [rsi + 16]; mov rcx, [rsi + 16]; mov ecx, [rsi + 8]
        let code = b"\x41\x8B\x45\x10\x8B\x4E\x10\x48\x8B\x4E\x10\x8B\x4E\x08";
        let code_of = |range: &Range<u64>| {
            let within = range.start as usize - 0x1000..range.end as usize - 0x1000;
            Some((range.start - 0x1000, code.get(within)?))
        };
        let check = |function: Range<u64>, found: &[u64]| {
            let pieces = vec![Piece { range: 0x1000..0x1004, inlined: true }];
            let merged = vec![Merged { range: 0x1004..0x100E, function }];
            assert_eq!(places_in(&AtomicCode { pieces, merged }, code_of).into_iter().collect::<Vec<_>>(), found);
        };
        check(0x1000..0x100E, &[0, 4]);
        check(0x1004..0x100E, &[0]);
    }

    #[test]
    fn what_was_found_in_a_file_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let declared = Declared { folder: folder.path().to_owned(), own: Vec::new() };
        let own = std::env::current_exe().unwrap();
        let (key, found) = declared.in_file(&own).unwrap();
        assert!(!found.is_empty());
        let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        let [kept] = &names[..] else { panic!("{names:?}") };
        let open = fs::File::open(&own).unwrap();
        let open = format!("/proc/self/fd/{}", open.as_raw_fd());
        assert_eq!(declared.in_open_file(open.as_ref()), Some((key, found.clone())));
        fs::write(kept, "[4711]").unwrap();
        assert_eq!(declared.in_file(&own), Some((key, vec![4711])));
        fs::write(kept, "damaged").unwrap();
        assert_eq!(declared.in_file(&own), Some((key, found)));
        assert_eq!(declared.in_file(&folder.path().join("none")), None);
    }
}
