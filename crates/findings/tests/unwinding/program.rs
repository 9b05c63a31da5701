//! Compiles the programs, runs them, and reads what they tell.

use object::{Object, ObjectSymbol};
use relive_findings::locate;
use relive_findings::raw::{RawReport, RawStack, Snapshot};
use relive_findings::wire;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program before it is compiled.
pub(crate) struct Program {
    folder: tempfile::TempDir,
    source: PathBuf,
    flags: Vec<String>,
}

/// What a program told of itself.
pub(crate) struct Told {
    _folder: tempfile::TempDir,
    pub(crate) program: PathBuf,
    pub(crate) raw: RawReport,
    pub(crate) located: RawReport,
}

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/unwinding").join(name)
}

impl Program {
    pub(crate) fn new(name: &str) -> Self {
        Self { folder: tempfile::tempdir().expect("a folder"), source: here(name), flags: Vec::new() }
    }

    pub(crate) fn flags(mut self, flags: &[&str]) -> Self {
        self.flags.extend(flags.iter().map(|&flag| flag.to_owned()));
        self
    }

    /// Compiles it into a file of this name in a folder that stays.
    pub(crate) fn compile(self, name: &str) -> Compiled {
        let path = self.folder.path().join(name);
        self.compile_to(&path);
        Compiled { _folder: self.folder, path }
    }

    fn compile_to(&self, path: &Path) {
        let compiler = if self.source.extension().is_some_and(|it| it == "cc") { "c++" } else { "cc" };
        let before = ["-g", "-w", "-pthread", "-fno-lto"];
        let status = Command::new(compiler)
            .args(before)
            .arg(&self.source)
            .args(&self.flags)
            .arg("-o")
            .arg(path)
            .status()
            .expect(compiler);
        assert!(status.success(), "{} {:?}", self.source.display(), self.flags);
    }

    /// Compiles and runs it.
    pub(crate) fn tell(self) -> Told {
        let program = self.folder.path().join("program");
        self.compile_to(&program);
        let output = Command::new(&program).output().expect("a program");
        assert!(output.status.success(), "{} {}", output.status, String::from_utf8_lossy(&output.stderr));
        let (words, rest) = output.stdout.as_chunks::<8>();
        assert!(rest.is_empty());
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let raw = wire::read(&words).expect("findings");
        assert!(raw.complete);
        let located = locate::located(&raw, &[]);
        Told { _folder: self.folder, program, raw, located }
    }
}

/// A compiled file.
pub(crate) struct Compiled {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Compiled {
    pub(crate) fn to_str(&self) -> Option<&str> {
        self.path.to_str()
    }
}

impl Told {
    /// What was found of each snapshot, and what the unwinder said.
    pub(crate) fn stacks(&self) -> impl Iterator<Item = (&RawStack, &RawStack)> {
        self.located.races.iter().map(|race| (&race.accesses[0].stack, &race.accesses[1].stack))
    }

    /// The slots of a stack are known for every frame that has a caller, lie ever further out, and hold the
    /// addresses.
    pub(crate) fn assert_slots(&self, index: usize) {
        let stack = &self.located.races[index].accesses[0].stack;
        let snapshot = self.raw.races[index].accesses[0].stack.snapshot.as_ref().expect("a snapshot");
        let callers = stack.addresses.get(1..).unwrap_or_default();
        assert!(stack.slots.len() >= callers.len(), "stack {index}");
        let word = |slot: u64| {
            let Snapshot { registers, words } = snapshot;
            words.get(usize::try_from((slot - registers[1]) / 8).expect("a stack")).copied()
        };
        for (&slot, &caller) in stack.slots.iter().zip(callers) {
            assert_eq!(word(slot), Some(caller), "stack {index}");
        }
        assert!(stack.slots.is_sorted_by(|a, b| a < b), "stack {index}: {:x?}", stack.slots);
    }

    /// Of a symbol, in the file's terms.
    pub(crate) fn address_of(&self, name: &str) -> u64 {
        let data = std::fs::read(&self.program).expect("the program");
        let file = object::File::parse(&*data).expect("an ELF file");
        let found = file.symbols().find(|symbol| symbol.name() == Ok(name)).expect(name);
        found.address()
    }
}
