//! A module's file: whether it is the one that ran, its symbols, and where its debug
//! information is.
//!
//! Apart from `dwarf` because a stripped file gets this far and no further.

use super::dwarf::Debug;
use object::read::elf::ProgramHeader;
use object::{Object, ObjectSection, ObjectSymbol, ReadCache, SymbolKind};
use std::borrow::Cow;
use std::fmt::Write;
use std::fs::File;
use std::path::{Path, PathBuf};

pub(crate) type Elf<'a> = object::File<'a, &'a ReadCache<File>>;

/// What is known of a module from its files.
pub(super) struct Image {
    functions: Table,
    data: Table,
    thread_locals: Table,
    /// Lines and inlined frames.
    pub(super) loader: Option<addr2line::Loader>,
    /// Variables and types.
    pub(super) debug: Option<Debug>,
    /// It has a symbol table besides that of the dynamic loader.
    pub(super) has_symbols: bool,
}

/// Why a module has no names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// There is no such file, or it is none that has symbols.
    Missing,
    /// It is not the file that ran.
    Changed,
}

/// A symbol of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Symbol {
    /// Its address in the file's own terms.
    pub(super) address: u64,
    /// Its size in bytes; never 0.
    pub(super) size: u64,
    /// Its name as a compiler wrote it.
    pub(super) name: String,
}

/// Symbols by address.
#[derive(Debug, Default)]
pub(super) struct Table(Vec<Symbol>);

impl Table {
    pub(super) fn new(mut symbols: Vec<Symbol>) -> Self {
        // Of several names at one place the shortest is the one that people wrote: the others are aliases
        // with underscores and versions.
        symbols.sort_by(|a, b| (a.address, a.name.len(), &a.name).cmp(&(b.address, b.name.len(), &b.name)));
        symbols.dedup_by_key(|symbol| symbol.address);
        // Hand-written assembly gives no sizes: such a function ends at the next one.
        for index in 0..symbols.len() {
            let next = symbols.get(index + 1).map_or(symbols[index].address + 1, |next| next.address);
            if symbols[index].size == 0 {
                symbols[index].size = next - symbols[index].address;
            }
        }
        Self(symbols)
    }

    pub(super) fn find(&self, address: u64) -> Option<&Symbol> {
        let before = self.0.partition_point(|symbol| symbol.address <= address);
        // A symbol can lie within a larger one: a few steps back find that, too.
        let near = self.0[..before].iter().rev().take(8);
        near.into_iter().find(|symbol| address - symbol.address < symbol.size)
    }
}

impl Image {
    /// Reads the file at `path`, and its debug information wherever that is: in the file, under one of `roots` by
    /// build id or path, or beside it.
    pub(super) fn open(path: &Path, build_id: &[u8], roots: &[PathBuf]) -> Result<Self, Unread> {
        let file = ReadCache::new(File::open(path).map_err(|_| Unread::Missing)?);
        let elf = Elf::parse(&file).map_err(|_| Unread::Missing)?;
        let own = elf.build_id().ok().flatten().unwrap_or_default();
        if !build_id.is_empty() && own != build_id {
            return Err(Unread::Changed);
        }
        let apart = (!has_debug(&elf)).then(|| apart(path, &elf, own, roots)).flatten();
        let debug_path = apart.clone().or_else(|| has_debug(&elf).then(|| path.to_owned()));
        let supplement = debug_path.as_deref().and_then(|path| supplement(path, roots));
        let loader = debug_path.as_ref().map(|path| addr2line::Loader::new_with_sup(path, supplement.as_ref()));
        let debug = debug_path.as_ref().and_then(|path| Debug::open(path, supplement.as_deref()));
        let mut found = symbols(&elf);
        if let Some(apart) = apart.and_then(|path| File::open(path).ok()) {
            let apart = ReadCache::new(apart);
            if let Ok(elf) = Elf::parse(&apart) {
                let more = symbols(&elf);
                found.functions.extend(more.functions);
                found.data.extend(more.data);
                found.thread_locals.extend(more.thread_locals);
                found.are_all |= more.are_all;
            }
        }
        let loader = loader.and_then(Result::ok);
        Ok(Self {
            functions: Table::new(found.functions),
            data: Table::new(found.data),
            thread_locals: Table::new(found.thread_locals),
            loader,
            debug,
            has_symbols: found.are_all,
        })
    }

    /// The function that holds `address`.
    pub(super) fn function(&self, address: u64) -> Option<&Symbol> {
        self.functions.find(address)
    }

    /// The thread-local object that holds this byte of the storage.
    pub(super) fn thread_local(&self, offset: u64) -> Option<&Symbol> {
        self.thread_locals.find(offset)
    }

    /// The object that holds `address`.
    pub(super) fn object(&self, address: u64) -> Option<&Symbol> {
        self.data.find(address)
    }
}

/// The debug information of the file at `path`, found as for an [`Image`].
pub(super) fn debug(path: &Path, roots: &[PathBuf]) -> Option<Debug> {
    let found = with_elf(path, |elf| {
        if has_debug(elf) {
            return Some(path.to_owned());
        }
        apart(path, elf, elf.build_id().ok().flatten().unwrap_or_default(), roots)
    })??;
    Debug::open(&found, supplement(&found, roots).as_deref())
}

/// How many bytes of thread-local variables the file at `path` has.
pub(super) fn storage_bytes(path: &Path) -> Option<u64> {
    with_elf(path, |elf| {
        let object::File::Elf64(elf) = elf else { return None };
        let endian = elf.endian();
        let found = elf.elf_program_headers().iter().find(|header| header.p_type(endian) == object::elf::PT_TLS)?;
        Some(found.p_memsz(endian))
    })?
}

fn has_debug(elf: &Elf<'_>) -> bool {
    elf.section_by_name(".debug_info").is_some_and(|section| section.size() > 0)
}

/// The symbols of one file.
#[derive(Default)]
pub(super) struct Symbols {
    pub(super) functions: Vec<Symbol>,
    data: Vec<Symbol>,
    thread_locals: Vec<Symbol>,
    /// There are more than the dynamic loader needs.
    are_all: bool,
}

pub(super) fn symbols(elf: &Elf<'_>) -> Symbols {
    let mut symbols = Symbols { are_all: elf.symbols().next().is_some(), ..Symbols::default() };
    let all = elf.symbols().chain(elf.dynamic_symbols());
    // Thread-local ones are no definitions to the reader of the file.
    for symbol in all.filter(|one| one.is_definition() || one.kind() == SymbolKind::Tls && !one.is_undefined()) {
        let Some(name) = symbol.name().ok().filter(|name| !name.is_empty()) else { continue };
        let name = name.split('@').next().unwrap_or(name).to_owned();
        let found = Symbol { address: symbol.address(), size: symbol.size(), name };
        match symbol.kind() {
            SymbolKind::Text => symbols.functions.push(found),
            SymbolKind::Data if found.size > 0 => symbols.data.push(found),
            SymbolKind::Tls if found.size > 0 => symbols.thread_locals.push(found),
            _ => {}
        }
    }
    symbols
}

/// The file that holds what `strip` or `objcopy --only-keep-debug` took away.
fn apart(path: &Path, elf: &Elf<'_>, build_id: &[u8], roots: &[PathBuf]) -> Option<PathBuf> {
    let by_id = roots.iter().filter_map(|root| Some(root.join(by_build_id(build_id)?)));
    let link = elf.gnu_debuglink().ok().flatten().map(|(name, _)| String::from_utf8_lossy(name).into_owned());
    let folder = path.parent().unwrap_or(Path::new("/"));
    let beside = link.into_iter().flat_map(|name| {
        let under = roots.iter().map(|root| root.join(folder.strip_prefix("/").unwrap_or(folder)).join(&name));
        [folder.join(".debug").join(&name), folder.join(&name)].into_iter().chain(under).collect::<Vec<_>>()
    });
    by_id.chain(beside).find(|candidate| candidate != path && is_of(candidate, build_id))
}

/// The part of debug information that several files share (made by `dwz`).
fn supplement(path: &Path, roots: &[PathBuf]) -> Option<PathBuf> {
    let file = ReadCache::new(File::open(path).ok()?);
    let (name, build_id) = Elf::parse(&file).ok()?.gnu_debugaltlink().ok()??;
    let by_id = roots.iter().filter_map(|root| Some(root.join(by_build_id(build_id)?)));
    let beside = path.parent().map(|folder| folder.join(String::from_utf8_lossy(name).as_ref()));
    by_id.chain(beside).find(|candidate| is_of(candidate, build_id))
}

fn is_of(path: &Path, build_id: &[u8]) -> bool {
    let Ok(file) = File::open(path).map(ReadCache::new) else { return false };
    Elf::parse(&file).is_ok_and(|elf| elf.build_id().ok().flatten().unwrap_or_default() == build_id)
}

fn by_build_id(build_id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = build_id.split_first().filter(|(_, rest)| !rest.is_empty())?;
    Some(PathBuf::from(format!(".build-id/{first:02x}/{}.debug", hex(rest))))
}

/// Bytes as `readelf` writes them.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A section's bytes, unpacked; none if the file lacks it.
pub(crate) fn section(elf: &Elf<'_>, name: &str) -> Vec<u8> {
    let data = elf.section_by_name(name).and_then(|section| section.uncompressed_data().ok());
    data.map(Cow::into_owned).unwrap_or_default()
}

/// Opens `path` for [`section`].
pub(crate) fn with_elf<T>(path: &Path, read: impl FnOnce(&Elf<'_>) -> T) -> Option<T> {
    let file = ReadCache::new(File::open(path).ok()?);
    let elf = Elf::parse(&file).ok()?;
    Some(read(&elf))
}
