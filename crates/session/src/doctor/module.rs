//! What one ELF file tells of its synchronisation.
//!
//! Apart from `code.rs`, which sees instructions, and from `search.rs`, which
//! finds files: here are symbols, sections and the dynamic table.

use super::code::{self, CodeCounts};
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use object::elf;
use object::read::elf::{Dyn, ElfFile64, ElfSymbol64};
use object::{
    LittleEndian, Object, ObjectSection, ObjectSegment, ObjectSymbol, ObjectSymbolTable, RelocationTarget, SectionKind,
    SegmentFlags,
};
use relive_symbols::{Symbol, Treatment};
use relive_sys::frames::Known;
use relive_sys::outside;
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What a module is to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The program itself.
    Program,
    /// A library.
    Library,
    /// The C++ runtime: what of its own synchronisation a program uses shows in the program's imports.
    Cxx,
    /// A part of glibc: its inner locks are what the table is about, so its code is not counted.
    Glibc,
}

/// A language whose runtime synchronises in its own way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Language {
    /// Go: threads by `clone`, futexes by hand.
    Go,
    /// Rust: threads by pthread, locks by futex.
    Rust,
}

/// One ELF file.
#[derive(Debug, Serialize)]
pub struct Module {
    /// Its path.
    pub path: String,
    /// What it is to the program.
    pub role: Role,
    /// The language that it was seen to be made with, where that matters.
    pub language: Option<Language>,
    /// Symbols of the closed table that it takes from other modules.
    #[serde(serialize_with = "with_treatment")]
    pub imports: Vec<&'static Symbol>,
    /// Symbols of the closed table that it defines for others although it is neither glibc nor libstdc++.
    #[serde(serialize_with = "names")]
    pub defines: Vec<&'static Symbol>,
    /// The C++ runtime is linked into it, so that its static guards call no symbol.
    pub guards_inside: bool,
    /// What its code does without a call.
    pub code: CodeCounts,
    /// Places that look like instructions which read the outside, in code that nothing describes.
    pub unsure: u32,
    /// Names of the libraries that it asks for.
    #[serde(skip)]
    pub(super) needed: Vec<String>,
    /// Search paths of its own, `$ORIGIN` put in: `DT_RPATH` if it has no `DT_RUNPATH`, then that.
    #[serde(skip)]
    pub(super) rpath: Vec<String>,
    #[serde(skip)]
    pub(super) runpath: Vec<String>,
}

fn names<S: Serializer>(symbols: &[&'static Symbol], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(symbols.iter().map(|symbol| symbol.name))
}

fn with_treatment<S: Serializer>(symbols: &[&'static Symbol], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(symbols.iter().map(|symbol| {
        let treatment = symbol.treatment.name();
        BTreeMap::from([
            ("name", symbol.name),
            ("treatment", treatment),
            ("family", symbol.family.name()),
            ("why", symbol.why),
        ])
    }))
}

type Elf<'a> = ElfFile64<'a, LittleEndian>;
type ElfSymbol<'a, 'b> = ElfSymbol64<'a, 'b, LittleEndian>;

/// Reads the ELF file `bytes` that lies at `path`.
pub(super) fn read(path: &Path, bytes: &[u8], role: Role) -> object::Result<Module> {
    let elf = Elf::parse(bytes)?;
    let origin = path.parent().map(|folder| folder.to_string_lossy().into_owned()).unwrap_or_default();
    let dynamic = Dynamic::read(&elf, bytes, &origin)?;
    let is_runtime = matches!(role, Role::Glibc | Role::Cxx);
    let table = |wanted: &dyn Fn(&ElfSymbol<'_, '_>) -> bool| {
        let found: BTreeSet<&str> =
            elf.dynamic_symbols().filter(|symbol| wanted(symbol)).filter_map(|symbol| symbol.name().ok()).collect();
        found.into_iter().filter_map(relive_symbols::find).collect::<Vec<_>>()
    };
    let defines = if is_runtime { Vec::new() } else { table(&|symbol| symbol.is_definition()) };
    let imports = if role == Role::Glibc { Vec::new() } else { table(&|symbol| symbol.is_undefined()) };
    let guards_inside = !is_runtime && has_guards(&elf, bytes, &dynamic.needed);
    let code = if role == Role::Glibc { CodeCounts::default() } else { count(&elf) };
    let unsure = if role == Role::Glibc { 0 } else { unsure(&elf, bytes) };
    Ok(Module {
        unsure,
        path: path.to_string_lossy().into_owned(),
        role,
        language: language(&elf),
        imports,
        defines: defines.into_iter().filter(|symbol| symbol.treatment != Treatment::PassThrough).collect(),
        guards_inside,
        code,
        needed: dynamic.needed,
        rpath: dynamic.rpath,
        runpath: dynamic.runpath,
    })
}

#[derive(Default)]
struct Dynamic {
    needed: Vec<String>,
    rpath: Vec<String>,
    runpath: Vec<String>,
}

impl Dynamic {
    fn read(elf: &Elf<'_>, bytes: &[u8], origin: &str) -> object::Result<Self> {
        let mut dynamic = Self::default();
        let endian = LittleEndian;
        let Some((entries, link)) = elf.elf_section_table().dynamic(endian, bytes)? else { return Ok(dynamic) };
        let strings = elf.elf_section_table().strings(endian, bytes, link)?;
        for entry in entries {
            let tag = entry.tag32(endian).unwrap_or(elf::DT_NULL);
            if !matches!(tag, elf::DT_NEEDED | elf::DT_RPATH | elf::DT_RUNPATH) {
                continue;
            }
            let text = String::from_utf8_lossy(entry.string(endian, strings)?).into_owned();
            let folders = || text.split(':').map(|f| f.replace("${ORIGIN}", origin).replace("$ORIGIN", origin));
            match tag {
                elf::DT_NEEDED => dynamic.needed.push(text),
                elf::DT_RPATH => dynamic.rpath.extend(folders()),
                _ => dynamic.runpath.extend(folders()),
            }
        }
        if !dynamic.runpath.is_empty() {
            dynamic.rpath.clear();
        }
        Ok(dynamic)
    }
}

/// With the C++ runtime linked in, the guard functions are local: in the symbol table if there is one. A stripped
/// module still has the name of the exception that only they throw.
fn has_guards(elf: &Elf<'_>, bytes: &[u8], needed: &[String]) -> bool {
    let defined = |symbol: ElfSymbol<'_, '_>| symbol.is_definition() && symbol.name() == Ok("__cxa_guard_acquire");
    if elf.symbols().any(defined) || elf.dynamic_symbols().any(defined) {
        return true;
    }
    let has_symbols = elf.symbols().next().is_some();
    let has_library = needed.iter().any(|name| name.starts_with("libstdc++.so.") || name.starts_with("libc++abi.so."));
    !has_symbols && !has_library && contains(bytes, b"recursive_init_error")
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

fn language(elf: &Elf<'_>) -> Option<Language> {
    if elf.section_by_name(".go.buildinfo").is_some() || elf.section_by_name(".note.go.buildid").is_some() {
        return Some(Language::Go);
    }
    let comment = elf.section_by_name(".comment")?;
    let comment = comment.data().ok()?;
    contains(comment, b"rustc version").then_some(Language::Rust)
}

/// So much looks like an instruction that reads the outside, and stands where nothing says that it is code.
fn unsure(elf: &Elf<'_>, bytes: &[u8]) -> u32 {
    const EXECUTABLE: u32 = 1;
    let mut known = Known::in_bytes(bytes);
    let executable = |segment: &_| matches!(ObjectSegment::flags(segment), SegmentFlags::Elf { p_flags } if p_flags & EXECUTABLE != 0);
    let ranges = elf.segments().filter(executable).map(|segment| segment.file_range());
    let codes =
        ranges.filter_map(|(at, length)| Some((at as usize, bytes.get(at as usize..)?.get(..length as usize)?)));
    codes.map(|(at, code)| outside::find(code, at, &mut known, |_, _, _| {}).unsure).sum()
}

fn count(elf: &Elf<'_>) -> CodeCounts {
    let slots = slots_of_syscall(elf);
    let mut stubs: BTreeMap<u64, bool> = BTreeMap::new();
    let mut calls_syscall = |instruction: &Instruction| match instruction.op0_kind() {
        OpKind::Memory => slots.contains(&instruction.memory_displacement64()),
        OpKind::NearBranch64 => {
            let target = instruction.near_branch_target();
            *stubs.entry(target).or_insert_with(|| stub_leads_to(elf, target, &slots))
        }
        _ => false,
    };
    let mut counts = CodeCounts::default();
    for section in elf.sections().filter(|section| section.kind() == SectionKind::Text) {
        if let Ok(code) = section.data() {
            counts += code::count(code, section.address(), &mut calls_syscall);
        }
    }
    counts
}

/// Addresses of the words that the loader fills with the address of the function `syscall`.
fn slots_of_syscall(elf: &Elf<'_>) -> BTreeSet<u64> {
    let Some(symbols) = elf.dynamic_symbol_table() else { return BTreeSet::new() };
    let relocations = elf.dynamic_relocations().into_iter().flatten();
    relocations
        .filter(|(_, relocation)| {
            let RelocationTarget::Symbol(index) = relocation.target() else { return false };
            symbols.symbol_by_index(index).is_ok_and(|symbol| symbol.name() == Ok("syscall"))
        })
        .map(|(slot, _)| slot)
        .collect()
}

/// A stub of the procedure linkage table is one jump through a slot, behind an `endbr64` at most.
fn stub_leads_to(elf: &Elf<'_>, target: u64, slots: &BTreeSet<u64>) -> bool {
    const STUB_BYTES: u64 = 16;
    let stub = elf.segments().find_map(|segment| segment.data_range(target, STUB_BYTES).ok().flatten());
    let Some(stub) = stub else { return false };
    let mut decoder = Decoder::with_ip(64, stub, target, DecoderOptions::NONE);
    let first = decoder.decode();
    let jump = if first.mnemonic() == Mnemonic::Endbr64 { decoder.decode() } else { first };
    jump.mnemonic() == Mnemonic::Jmp
        && jump.op0_kind() == OpKind::Memory
        && jump.memory_base() == Register::RIP
        && slots.contains(&jump.memory_displacement64())
}

#[cfg(test)]
mod tests {
    use super::{Role, read};
    use std::fs;
    use std::path::Path;

    /// Headers and tables are at both ends of the file: they get most of the damage.
    #[test]
    fn a_damaged_file_is_an_error_or_read_but_never_a_panic() {
        let path = Path::new("/bin/true");
        let whole = fs::read(path).unwrap();
        assert!(read(path, &whole, Role::Program).is_ok());
        let ends = (0..64).chain(64..whole.len().min(1024)).chain(whole.len().saturating_sub(2048)..whole.len());
        for at in ends.step_by(7) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xFF;
            let _ = read(path, &damaged, Role::Program);
        }
        for length in (0..whole.len()).step_by(257) {
            let _ = read(path, &whole[..length], Role::Program);
        }
    }
}
