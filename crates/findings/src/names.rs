//! Names of addresses: functions with what was inlined into them, source lines, variables.
//!
//! Apart from the report because it knows modules and their files and nothing of races.
//! A module's debug information is read when an address of it is first asked for.

mod atomics;
mod base;
mod dwarf;
pub(crate) mod elf;
mod functions;
mod locals;
mod typed;
mod types;
mod typing;
mod variables;

use crate::raw::{RawModule, RawStack};
pub use atomics::{AtomicCode, Merged, Piece, is_atomic_operation};
pub use base::{Base, Meaning};
use elf::{Image, Symbol, Unread};
pub use functions::Functions;
use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use typing::Units;
use variables::{Variable, Where};

/// Where distributions put debug information that is not in the files themselves.
pub const DEBUG_ROOT: &str = "/usr/lib/debug";

/// What the debug information of the file at `path`, which may be under one of `roots`, tells of what threads share: by the
/// functions of which code is made, and by the types of what it accesses, the addresses of such accesses in the file's own terms.
/// `None` if there is none.
pub fn shared_code(path: &Path, roots: &[PathBuf]) -> Option<(AtomicCode, BTreeSet<u64>)> {
    let debug = elf::debug(path, roots)?;
    let entries = debug.entries();
    let bytes = std::fs::read(path).unwrap_or_default();
    Some((atomics::atomic_code(&entries), typed::accesses(&typing::typing(&entries, path, Units::C), &bytes)))
}

/// One frame of a stack; an inlined function has one of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The function's name, demangled.
    pub function: Option<String>,
    /// The source file.
    pub file: Option<String>,
    /// The line in it.
    pub line: Option<u32>,
    /// The column.
    pub column: Option<u32>,
    /// The line at which the function is declared.
    pub declared: Option<u32>,
    /// The module's path; `None` if no module holds the address.
    pub module: Option<String>,
    /// The address in the module's own terms, as `addr2line` takes it: of a call, one less than the address to
    /// which it returns. The address itself if there is no module.
    pub offset: u64,
    /// Where in its function that is, in bytes, if a symbol table says so.
    pub into: Option<u64>,
    /// The function is inlined into the next frame's.
    pub inlined: bool,
}

/// What stands at an address of a module that is data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Global {
    /// The name, with the part of the variable: `table[3].count`. `None` without a symbol.
    pub name: Option<String>,
    /// How many bytes of the name are the part.
    pub part: usize,
    /// The module's path.
    pub module: String,
    /// The address in the module's own terms.
    pub offset: u64,
    /// First address of the whole variable, as the program sees it, if there is a name.
    pub start: u64,
    /// Bytes of the whole variable.
    pub size: u64,
    /// Where it is declared.
    pub declared: Option<(String, u64)>,
    /// Its type, or that of the part, is an atomic one.
    pub atomic: bool,
    /// What it holds, or the part does, if that is a number or the like.
    pub base: Option<Base>,
}

/// A variable on a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Local {
    /// The name, with the part of the variable.
    pub name: String,
    /// How many bytes of the name are the part.
    pub part: usize,
    /// The function whose frame it lies in.
    pub function: String,
    /// Its first address.
    pub start: u64,
    /// Its size in bytes.
    pub size: u64,
    /// Where it is declared.
    pub declared: Option<(String, u64)>,
    /// Its type, or that of the part, is an atomic one.
    pub atomic: bool,
    /// What it holds, or the part does, if that is a number or the like.
    pub base: Option<Base>,
}

impl Global {
    /// The name of the whole variable.
    pub fn whole(&self) -> Option<&str> {
        self.name.as_deref().map(|name| without(name, self.part))
    }
}

impl Local {
    /// The name of the whole variable.
    pub fn whole(&self) -> &str {
        without(&self.name, self.part)
    }
}

fn without(name: &str, part: usize) -> &str {
    name.len().checked_sub(part).and_then(|end| name.get(..end)).unwrap_or(name)
}

/// The modules of a process.
pub struct Symbols {
    modules: Vec<Module>,
    roots: Vec<PathBuf>,
    relocated: Vec<(PathBuf, PathBuf)>,
    /// Frames by address and whether a call returns there: races share most of theirs.
    known: RefCell<BTreeMap<(u64, bool), Vec<Frame>>>,
}

struct Module {
    raw: RawModule,
    image: OnceCell<Result<Image, Unread>>,
    code: OnceCell<Code>,
    asked: Cell<bool>,
}

/// The code of a module, and what types say of it.
struct Code {
    typing: typing::Typing,
    bytes: Vec<u8>,
    /// Where instructions lead of which that was asked.
    known: RefCell<BTreeMap<u64, Option<typed::Reached>>>,
}

/// What types say of an access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Typed {
    /// It is one to an atomic variable.
    pub is_atomic: bool,
    /// The record's type, and the part of it: `node.next`.
    pub member: Option<String>,
    /// What that part holds, if it is a number or the like.
    pub base: Option<Base>,
}

impl Symbols {
    /// For the modules of one process. Debug information is looked for under `roots`; where a module's file is
    /// now elsewhere, `relocated` has its path then and its path now.
    pub fn new(modules: &[RawModule], roots: &[PathBuf], relocated: &[(PathBuf, PathBuf)]) -> Self {
        let module = |raw: &RawModule| {
            let (image, code, asked) = (OnceCell::new(), OnceCell::new(), Cell::new(false));
            Module { raw: raw.clone(), image, code, asked }
        };
        let modules = modules.iter().map(module).collect();
        Self { modules, roots: roots.to_vec(), relocated: relocated.to_vec(), known: RefCell::default() }
    }

    /// The frames of a stack, innermost first.
    pub fn stack(&self, stack: &RawStack) -> Vec<Frame> {
        let frames = stack.addresses.iter().enumerate();
        frames.flat_map(|(index, &address)| self.frames(address, !stack.exact.contains(&index))).collect()
    }

    /// What stands at `address`, or at the call that returns there: the innermost inlined function first. Never
    /// empty.
    pub fn frames(&self, address: u64, call: bool) -> Vec<Frame> {
        if let Some(known) = self.known.borrow().get(&(address, call)) {
            return known.clone();
        }
        let frames = self.look_up(address, call);
        self.known.borrow_mut().insert((address, call), frames.clone());
        frames
    }

    fn look_up(&self, address: u64, call: bool) -> Vec<Frame> {
        let probe = address.saturating_sub(call.into());
        let Some(module) = self.module(probe) else { return vec![Frame { offset: probe, ..Frame::default() }] };
        module.asked.set(true);
        let offset = probe.wrapping_sub(module.raw.bias);
        let unknown = Frame { module: Some(module.raw.path().to_owned()), offset, ..Frame::default() };
        let Some(image) = self.image(module) else { return vec![unknown] };
        let symbol = image.function(offset);
        let base = Frame { into: symbol.map(|symbol| offset - symbol.address), ..unknown };
        let mut frames = debug_frames(image, &base);
        if frames.is_empty() {
            frames.push(base);
        }
        if let (Some(last), Some(symbol)) = (frames.last_mut(), symbol) {
            last.function.get_or_insert_with(|| demangle(&symbol.name));
        }
        frames
    }

    /// What stands at `address` if it lies in a module.
    pub fn global(&self, address: u64) -> Option<Global> {
        let module = self.module(address)?;
        let offset = address.wrapping_sub(module.raw.bias);
        let found = Global { module: module.raw.path().to_owned(), offset, ..Global::default() };
        module.asked.set(true);
        let Some(image) = self.image(module) else { return Some(found) };
        let variable = image.debug.as_ref().and_then(|debug| variables::find(debug, Where::Fixed, offset));
        Some(named(found, image.object(offset), variable, module.raw.bias))
    }

    /// The thread-local variable that stands at `address` for the thread with this thread pointer, of the program or of a
    /// library that was there from the start.
    pub fn thread_local(&self, pointer: u64, address: u64) -> Option<Global> {
        let below = pointer.checked_sub(address)?;
        // The nearest that begins below it.
        let holders = self.modules.iter().filter(|module| module.raw.storage >= below);
        let module = holders.min_by_key(|module| module.raw.storage)?;
        let start = pointer.checked_sub(module.raw.storage)?;
        let bytes = elf::storage_bytes(now(&module.raw.file, &self.relocated))?;
        let offset = address.checked_sub(start).filter(|&offset| offset < bytes)?;
        let found = Global { module: module.raw.path().to_owned(), offset, ..Global::default() };
        module.asked.set(true);
        let image = self.image(module)?;
        let variable = image.debug.as_ref().and_then(|debug| variables::find(debug, Where::ThreadLocal, offset));
        Some(named(found, image.thread_local(offset), variable, start)).filter(|found| found.name.is_some())
    }

    /// So many bytes below a thread pointer are thread-local variables of what is there from the start.
    pub fn storage(&self) -> u64 {
        self.modules.iter().map(|module| module.raw.storage).max().unwrap_or(0)
    }

    /// The variable at `address` if it lies in one of the frames of `stack`, whose slots must be known.
    pub fn local(&self, stack: &RawStack, address: u64) -> Option<Local> {
        let index = stack.slots.iter().position(|&slot| slot > address)?;
        let counter = stack.addresses.get(index)?.checked_sub(u64::from(!stack.exact.contains(&index)))?;
        let frame = stack.slots[index].checked_add(8)?;
        let module = self.module(counter)?;
        let debug = self.image(module)?.debug.as_ref()?;
        let (function, found) = locals::find(debug, counter.wrapping_sub(module.raw.bias), frame, address)?;
        let variables::Variable { name, path, address: start, size, declared, atomic, base } = found;
        let part = path.len();
        Some(Local { name: name + &path, part, function, start, size, declared, atomic, base })
    }

    /// What the types say of what the instruction at `counter` accesses, whose `size` bytes lie wherever they do: of byte `within`.
    pub fn by_type(&self, counter: u64, size: u64, within: u64) -> Option<Typed> {
        let module = self.module(counter)?;
        let debug = self.image(module)?.debug.as_ref()?;
        let code = module.code.get_or_init(|| {
            let path = now(&module.raw.file, &self.relocated);
            let bytes = std::fs::read(path).unwrap_or_default();
            Code { typing: typing::typing(&debug.entries(), path, Units::All), bytes, known: RefCell::default() }
        });
        let counter = counter.wrapping_sub(module.raw.bias);
        let find = || typed::reached(&code.typing, &code.bytes, counter, size);
        let reached = (*code.known.borrow_mut().entry(counter).or_insert_with(find))?;
        let entries = debug.entries();
        let (supplementary, place) = code.typing.types.place(reached.of)?;
        let of = entries.placed(supplementary, place)?;
        let (path, base) = variables::part(&entries, of, reached.at + within);
        // Which element of an array it is, code does not tell.
        let member = code.typing.types.name(reached.of).map(|of| of.to_owned() + &path.replace("[0]", "[]"));
        Some(Typed { is_atomic: reached.is_atomic, member, base })
    }

    /// What to do about the modules that were asked for and had no lines, one line each.
    pub fn advice(&self) -> Vec<String> {
        let asked = self.modules.iter().filter(|module| module.asked.get());
        let mut advice: Vec<String> = asked.filter_map(advise).collect();
        advice.sort();
        advice.dedup();
        advice
    }

    fn module(&self, address: u64) -> Option<&Module> {
        self.modules.iter().find(|module| (module.raw.start..module.raw.end).contains(&address))
    }

    fn image<'a>(&self, module: &'a Module) -> Option<&'a Image> {
        let read = || Image::open(now(&module.raw.file, &self.relocated), &module.raw.build_id, &self.roots);
        module.image.get_or_init(read).as_ref().ok()
    }
}

/// `found` with the name of a variable, or else of a symbol. What the file says of addresses is `base` less than the truth.
fn named(found: Global, symbol: Option<&Symbol>, variable: Option<Variable>, base: u64) -> Global {
    let qualified = symbol.map(|symbol| demangle(&symbol.name)).filter(|name| name.contains("::"));
    if let Some(Variable { name, path, address, size, declared, atomic, base: holds }) = variable {
        let name = qualified.filter(|name| !name.contains('(')).unwrap_or(name) + &path;
        let start = address.wrapping_add(base);
        return Global { name: Some(name), part: path.len(), start, size, declared, atomic, base: holds, ..found };
    }
    let Some(symbol) = symbol else { return found };
    let into = found.offset - symbol.address;
    let path = if into == 0 { String::new() } else { format!("+{into:#x}") };
    let name = qualified.unwrap_or_else(|| symbol.name.clone()) + &path;
    let start = symbol.address.wrapping_add(base);
    Global { name: Some(name), part: path.len(), start, size: symbol.size, ..found }
}

/// The frames that lines and inlined functions of the debug information make of `base`.
fn debug_frames(image: &Image, base: &Frame) -> Vec<Frame> {
    let mut frames: Vec<Frame> = Vec::new();
    let Some(mut found) = image.loader.as_ref().and_then(|loader| loader.find_frames(base.offset).ok()) else {
        return frames;
    };
    let entries = image.debug.as_ref().map(|debug| (debug.entries(), debug.unit_of(base.offset)));
    while let Ok(Some(frame)) = found.next() {
        let function = frame.function.and_then(|name| name.demangle().ok().map(Cow::into_owned));
        let declared = entries.as_ref().and_then(|(entries, unit)| {
            let entry = entries.at((*unit)?, frame.dw_die_offset?)?;
            let (_, line) = entries.inherited(&entry, gimli::DW_AT_decl_line)?;
            u32::try_from(line.udata_value()?).ok()
        });
        let place = frame.location.as_ref();
        if let Some(outer) = frames.last_mut() {
            outer.inlined = true;
        }
        frames.push(Frame {
            function,
            declared,
            file: place.and_then(|place| place.file).map(str::to_owned),
            line: place.and_then(|place| place.line).filter(|&line| line > 0),
            column: place.and_then(|place| place.column).filter(|&column| column > 0),
            ..base.clone()
        });
    }
    frames
}

/// What to do about a module that has no lines.
fn advise(module: &Module) -> Option<String> {
    let RawModule { build_id, .. } = &module.raw;
    let file = module.raw.path();
    if !file.starts_with('/') {
        return None;
    }
    let name = base_name(file);
    let id = if build_id.is_empty() { String::new() } else { format!(" (build id {})", elf::hex(build_id)) };
    match module.image.get()? {
        Err(Unread::Missing) => Some(format!("{file} is gone: its functions have no names")),
        Err(Unread::Changed) => Some(format!("{file} is not the file that ran{id}: its functions have no names")),
        Ok(Image { loader: Some(_), .. }) => None,
        Ok(image) => {
            let (what, lacks) =
                if image.has_symbols { ("has no", "lines") } else { ("is stripped of its", "names and lines") };
            let how = if name.starts_with("libc.so") || name.starts_with("ld-linux") {
                "install libc6-dbg".to_owned()
            } else {
                format!("install the debug symbols of its package{id}, or build it with -g")
            };
            Some(format!("{file} {what} debug information, so {lacks} are missing: {how}"))
        }
    }
}

fn demangle(name: &str) -> String {
    addr2line::demangle_auto(name.into(), None).into_owned()
}

/// Where a module's file is now.
pub(crate) fn now<'a>(file: &'a str, relocated: &'a [(PathBuf, PathBuf)]) -> &'a Path {
    let path = Path::new(file);
    relocated.iter().find(|(then, _)| then == path).map_or(path, |(_, now)| now)
}

/// The last part of a path.
pub fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
