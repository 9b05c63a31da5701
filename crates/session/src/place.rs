//! Where in the source a thread stands: addresses of a running process as file, line and function.

use crate::replay::Recorded;
use addr2line::Loader;
use relive_findings::names::Functions;
use relive_findings::places::short;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Words of a stack that are looked through for a caller in the program.
const STACK_WORDS: usize = 1024;
/// `e_type` of a program that is loaded at the addresses it names.
const FIXED_ADDRESSES: u16 = 2;

/// The mappings of a process, and the debug information of their files as far as it was needed.
#[derive(Default)]
pub struct Places {
    mappings: Vec<Mapping>,
    loaders: BTreeMap<PathBuf, Option<Loaded>>,
    memory: Option<File>,
    recorded: Recorded,
}

/// What a file says of its code.
struct Loaded {
    lines: Loader,
    functions: Functions,
    /// Whether its addresses are those of the process.
    fixed: bool,
}

#[derive(Clone, Debug)]
struct Mapping {
    start: u64,
    end: u64,
    executable: bool,
    path: PathBuf,
}

impl Places {
    /// Of the process `pid`; empty if it is gone.
    pub fn of(pid: u32) -> Self {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let mappings = maps.lines().filter_map(mapping).collect();
        Self {
            mappings,
            loaders: BTreeMap::new(),
            memory: File::open(format!("/proc/{pid}/mem")).ok(),
            recorded: Recorded::default(),
        }
    }

    /// With the names that files had in the recording.
    pub(crate) fn known_as(self, recorded: &Recorded) -> Self {
        Self { recorded: recorded.clone(), ..self }
    }

    /// The call before the return address `address`; `None` for 0.
    pub fn of_call(&mut self, address: u64) -> Option<String> {
        self.describe(address.checked_sub(1)?)
    }

    /// Whether the code there is the program's or a library's of its own, and no part of the C or C++ runtime.
    pub fn is_of_program(&self, address: u64) -> bool {
        self.find(address).is_some_and(|mapping| !is_system(&mapping.path))
    }

    /// The place of a thread at `counter` with stack pointer `stack`: its innermost frame in the program itself,
    /// found without unwinding as the first stack word that follows a call there.
    pub fn of_thread(&mut self, counter: u64, stack: u64) -> Option<String> {
        if self.find(counter).is_some_and(|mapping| !is_system(&mapping.path)) {
            return self.describe(counter);
        }
        let callers: Vec<u64> = self.words(stack).into_iter().filter(|&word| self.follows_call(word)).collect();
        let called = callers.first().and_then(|&caller| self.of_call(caller));
        // Translated code runs on another stack now and then; our own lines say nothing.
        called.or_else(|| self.describe(counter).filter(|_| self.find(counter).is_none_or(|it| !is_own(&it.path))))
    }

    fn words(&self, stack: u64) -> Vec<u64> {
        let mut bytes = vec![0; STACK_WORDS * 8];
        let read = self.memory.as_ref().and_then(|memory| memory.read_at(&mut bytes, stack).ok()).unwrap_or(0);
        bytes[..read].chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default())).collect()
    }

    /// A near call (`E8` or `FF /2`) ends right before `address`, in code of the program.
    fn follows_call(&self, address: u64) -> bool {
        let in_program = self.find(address).is_some_and(|mapping| mapping.executable && !is_system(&mapping.path));
        let mut before = [0u8; 7];
        let read = |memory: &File| memory.read_exact_at(&mut before, address.saturating_sub(7)).is_ok();
        if !in_program || !self.memory.as_ref().is_some_and(read) {
            return false;
        }
        let indirect = |length: usize| before[7 - length] == 0xFF && before[8 - length] & 0x38 == 0x10;
        before[2] == 0xE8 || [2, 3, 6, 7].into_iter().any(indirect)
    }

    fn find(&self, address: u64) -> Option<&Mapping> {
        self.mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))
    }

    fn describe(&mut self, address: u64) -> Option<String> {
        let path = self.find(address)?.path.clone();
        let base = self.mappings.iter().filter(|mapping| mapping.path == path).map(|mapping| mapping.start).min()?;
        let loader = self.loaders.entry(path.clone()).or_insert_with(|| load(&path));
        let named = self.recorded.path(&path).unwrap_or_else(|| path.clone());
        let name = named.file_name().unwrap_or(named.as_os_str()).to_string_lossy().into_owned();
        let unknown = format!("{name}+{:#x}", address - base);
        let Some(loaded) = loader else { return Some(unknown) };
        let probe = if loaded.fixed { address } else { address - base };
        let function = function(loaded, probe);
        let location = loaded.lines.find_location(probe).ok().flatten();
        let line = location.and_then(|place| Some(format!("{}:{}", place.file?, place.line?)));
        Some(match (line, function) {
            (Some(line), Some(function)) => format!("{line} ({function})"),
            (Some(line), None) => line,
            (None, Some(function)) => format!("{function} in {name}"),
            (None, None) => unknown,
        })
    }
}

fn function(loaded: &Loaded, probe: u64) -> Option<String> {
    let inner = loaded.lines.find_frames(probe).ok().and_then(|mut frames| frames.next().ok().flatten());
    let named = inner.and_then(|frame| Some(frame.function?.demangle().ok()?.into_owned()));
    let symbol = || Some(addr2line::demangle_auto(loaded.functions.at(probe)?.into(), None).into_owned());
    let name = named.or_else(symbol)?;
    // Parameters and template arguments of C++ fill more lines than a report has.
    let short = short(&name);
    Some(short.strip_suffix("()").unwrap_or(&short).to_owned())
}

fn load(path: &Path) -> Option<Loaded> {
    let mut head = [0u8; 18];
    File::open(path).and_then(|mut file| file.read_exact(&mut head)).ok()?;
    let fixed = u16::from_le_bytes([head[16], head[17]]) == FIXED_ADDRESSES;
    Some(Loaded { lines: Loader::new(path).ok()?, functions: Functions::open(path)?, fixed })
}

/// libc, the loader and our own library: a frame there says less than its caller.
fn is_system(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let system = ["libc.so", "libc-", "ld-linux", "libpthread", "libstdc++", "libgcc_s"];
    !path.is_absolute() || is_own(path) || system.iter().any(|prefix| name.starts_with(prefix))
}

fn is_own(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    ["preload-", "librelive"].iter().any(|prefix| name.starts_with(prefix))
}

/// From a line like `7f00-7f10 r-xp 00001000 08:01 1234   /lib/libc.so.6`.
fn mapping(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let executable = fields.next()?.contains('x');
    let path = PathBuf::from(fields.nth(3)?.trim_start());
    let hex = |text| u64::from_str_radix(text, 16).ok();
    Some(Mapping { start: hex(start)?, end: hex(end)?, executable, path })
}

#[cfg(test)]
mod tests {
    use super::{Places, mapping};
    use std::path::Path;

    #[inline(never)]
    fn somewhere() -> u64 {
        somewhere as *const () as u64
    }

    #[test]
    fn an_address_of_this_program_has_a_file_and_a_function() {
        let mut places = Places::of(std::process::id());
        let place = places.of_call(somewhere() + 4).unwrap();
        assert!(place.contains("place.rs:") && place.contains("somewhere"), "{place}");
        assert_eq!(places.of_call(0), None);
        assert_eq!(places.of_call(1), None);
    }

    #[test]
    fn maps_are_read_with_blanks_in_their_paths() {
        let found = mapping("7f00-7f10 r-xp 00001000 08:01 1234                       /a b/l.so").unwrap();
        assert_eq!((found.start, found.end, found.executable), (0x7f00, 0x7f10, true));
        assert_eq!(found.path, Path::new("/a b/l.so"));
    }
}
