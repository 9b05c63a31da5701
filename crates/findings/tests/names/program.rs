//! The program that the tests compile, where a made-up process has it.
//!
//! Lines of the source are named by the tests: they stay where they are.

use object::{Object, ObjectSymbol};
use relive_findings::names::Symbols;
use relive_findings::raw::RawModule;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = "\
struct part { char tag; int count; unsigned low : 3, high : 5; };
struct { long first; struct part parts[4]; int grid[2][3]; } table;
_Atomic int ready;
static volatile int total;

static inline __attribute__((always_inline)) void add(int n) {
    total += n;
}

static inline __attribute__((always_inline)) void twice(int n) {
    add(n * 2);
}

__attribute__((noinline)) int next(void) {
    static int counter;
    return counter += 3;
}

__attribute__((noinline)) void work(int n) {
    twice(n);
}

__attribute__((noinline)) void fill(volatile int *p) {
    *p = 1;
}

__attribute__((noinline)) int local(void) {
    volatile int values[4];
    fill(&values[0]);
    return values[2];
}

int main(void) {
    work(next());
    table.parts[2].count = ready;
    return local() == 5;
}

__thread struct part own[2] = { { 'a' } };
__thread long last;
";

/// Where the made-up process has the program.
pub(crate) const BIAS: u64 = 0x5555_5555_4000;

pub(crate) struct Program {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) path: PathBuf,
}

impl Program {
    pub(crate) fn compile(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let source = folder.path().join("race.c");
        std::fs::write(&source, SOURCE).expect("the source");
        let path = folder.path().join("race");
        run(
            "cc",
            &[&["-O2", "-pie", "-fPIE", "-Wl,--build-id=sha1"], flags].concat(),
            &[&source, Path::new("-o"), &path],
        );
        Self { folder, path }
    }

    pub(crate) fn build_id(&self) -> Vec<u8> {
        let data = std::fs::read(&self.path).expect("the program");
        let file = object::File::parse(&*data).expect("an ELF file");
        file.build_id().expect("notes").expect("a build id").to_vec()
    }

    pub(crate) fn module(&self) -> RawModule {
        let file = self.path.to_str().expect("a path").to_owned();
        let build_id = self.build_id();
        RawModule { file, start: BIAS, end: BIAS + 0x10_0000, bias: BIAS, storage: 32, build_id, recorded: None }
    }

    pub(crate) fn symbols(&self) -> Symbols {
        Symbols::new(&[self.module()], &[], &[])
    }

    /// Address and size of a symbol; read before anything is stripped.
    pub(crate) fn symbol(&self, prefix: &str) -> (u64, u64) {
        let data = std::fs::read(&self.path).expect("the program");
        let file = object::File::parse(&*data).expect("an ELF file");
        let named = |symbol: &object::Symbol<'_, '_>| {
            symbol
                .name()
                .is_ok_and(|name| name == prefix || name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.')))
        };
        let found = file.symbols().find(named).expect(prefix);
        (BIAS + found.address(), found.size())
    }
}

pub(crate) fn run(program: &str, flags: &[&str], paths: &[&Path]) {
    let status = Command::new(program).args(flags).args(paths).status().expect(program);
    assert!(status.success(), "{program} {flags:?}");
}
