//! What a command names: finds the program, and tells before it starts whether
//! the preloaded library will be there.

mod sanitized;

use object::read::elf::{FileHeader, ProgramHeader};
use object::{LittleEndian, elf};
use relive_sys::elf::is_go;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Scripts whose interpreter is a script are followed this far, as the kernel does.
const SCRIPT_DEPTH_MAX: usize = 5;
/// Enough of a file for its ELF header and program headers, or its `#!` line.
const HEAD_BYTES: u64 = 4096;

/// A program that can be recorded.
#[derive(Clone, Debug)]
pub struct Program {
    /// The file that is executed.
    pub path: PathBuf,
    /// Its ELF file: `path` itself, or the interpreter of a script.
    pub executable: PathBuf,
    /// The dynamic loader that the executable asks for.
    pub loader: PathBuf,
    /// `argv`, as given.
    pub command: Vec<OsString>,
}

/// Why a program can't be started or recorded.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// Nothing of this name.
    #[error("start {}: no such program{place}", name.display())]
    NotFound {
        /// As given.
        name: PathBuf,
        /// Where it was looked for, if the name does not say so.
        place: String,
    },
    /// It is there but can't be executed.
    #[error("start {}: {why}", path.display())]
    NotExecutable {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// It can be executed, but the library can't be loaded into it.
    #[error("record {}: {why}", path.display())]
    NotRecordable {
        /// The file.
        path: PathBuf,
        /// The reason and the remedy.
        why: &'static str,
    },
}

impl Program {
    /// Finds the program that `command` names, as the shell would.
    ///
    /// # Errors
    /// [`ProgramError`] if it can't be found, executed or recorded.
    pub fn find(command: &[OsString]) -> Result<Self, ProgramError> {
        Self::find_as(command, env::var_os("PATH").as_deref(), Path::new(""))
    }

    /// As [`Program::find`], by another search path and seen from the folder `from`.
    ///
    /// # Errors
    /// As [`Program::find`].
    pub fn find_as(command: &[OsString], search_path: Option<&OsStr>, from: &Path) -> Result<Self, ProgramError> {
        let Some(name) = command.first().filter(|name| !name.is_empty()) else {
            return Err(ProgramError::NotFound { name: PathBuf::new(), place: String::new() });
        };
        let path = if name.as_bytes().contains(&b'/') {
            check_executable(&from.join(name))?;
            PathBuf::from(name)
        } else {
            search(name, search_path.unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin")), from)?
        };
        let (executable, loader) = follow(&from.join(&path), from)?;
        refuse_thread_sanitizer(&executable)?;
        Ok(Self { path, executable, loader, command: command.to_vec() })
    }

    /// Whether it can be recorded together with its environment, too.
    ///
    /// # Errors
    /// [`ProgramError::NotRecordable`] for a Go program: its system calls come on stacks where the runtime has no room.
    pub fn check_environment(&self) -> Result<(), ProgramError> {
        let why = "it is a Go program, whose stacks have no room for what records its calls; record it without its environment";
        let (Ok(head), Ok(file)) = (read_head(&self.executable), File::open(&self.executable)) else { return Ok(()) };
        let is_go = is_go(&head, |into, at| file.read_at(into, at as u64).unwrap_or(0));
        if is_go { Err(ProgramError::NotRecordable { path: self.path.clone(), why }) } else { Ok(()) }
    }
}

fn search(name: &OsStr, folders: &OsStr, from: &Path) -> Result<PathBuf, ProgramError> {
    let mut refused = None;
    for folder in env::split_paths(folders) {
        let folder = if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder };
        let path = folder.join(name);
        match check_executable(&from.join(&path)) {
            Ok(()) => return Ok(path),
            Err(error @ ProgramError::NotExecutable { .. }) => refused = refused.or(Some(error)),
            Err(_) => {}
        }
    }
    let here = from.join(name).is_file();
    let meant = if here { format!("; of this folder is ./{}", name.display()) } else { String::new() };
    Err(refused.unwrap_or_else(|| ProgramError::NotFound { name: name.into(), place: format!(" in $PATH{meant}") }))
}

fn check_executable(path: &Path) -> Result<(), ProgramError> {
    let refuse = |why: String| ProgramError::NotExecutable { path: path.to_owned(), why };
    let metadata = fs::metadata(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            ProgramError::NotFound { name: path.to_owned(), place: String::new() }
        }
        _ => refuse(error.to_string()),
    })?;
    if !metadata.is_file() {
        return Err(refuse("not a regular file".to_owned()));
    }
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).map_err(|error| refuse(error.to_string()))
}

/// The ELF file behind `path` and its loader, following `#!` lines.
fn follow(path: &Path, from: &Path) -> Result<(PathBuf, PathBuf), ProgramError> {
    let mut current = path.to_owned();
    for _ in 0..SCRIPT_DEPTH_MAX {
        let refuse = |why: String| ProgramError::NotExecutable { path: current.clone(), why };
        let head = read_head(&current).map_err(|error| refuse(error.to_string()))?;
        let Some(line) = head.strip_prefix(b"#!") else {
            refuse_privileged(&current)?;
            let loader = loader_of(&current, &head)?;
            return Ok((current, loader));
        };
        let line = line.split(|&b| b == b'\n').next().unwrap_or_default();
        let interpreter = line.split(|b| b" \t".contains(b)).find(|word| !word.is_empty());
        let interpreter = interpreter.ok_or_else(|| refuse("its #! line names no interpreter".to_owned()))?;
        let interpreter = from.join(OsStr::from_bytes(interpreter));
        check_executable(&interpreter).map_err(|error| refuse(format!("its interpreter: {error}")))?;
        current = interpreter;
    }
    Err(ProgramError::NotExecutable { path: path.to_owned(), why: "too many interpreters in a row".to_owned() })
}

fn read_head(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path)?.take(HEAD_BYTES).read_to_end(&mut head)?;
    Ok(head)
}

/// The loader ignores preloaded libraries where the program gains privileges.
fn refuse_privileged(path: &Path) -> Result<(), ProgramError> {
    let refuse = |why| ProgramError::NotRecordable { path: path.to_owned(), why };
    let Ok(metadata) = fs::metadata(path) else { return Ok(()) };
    let other_user = metadata.mode() & 0o4000 != 0 && metadata.uid() != rustix::process::geteuid().as_raw();
    let other_group = metadata.mode() & 0o2000 != 0 && metadata.gid() != rustix::process::getegid().as_raw();
    let mut capabilities = [0u8; 64];
    if other_user || other_group {
        return Err(refuse("it is set-uid or set-gid and takes no preloaded library; record a copy without that bit"));
    }
    if rustix::fs::getxattr(path, c"security.capability", &mut capabilities[..]).is_ok() {
        return Err(refuse("it has file capabilities and takes no preloaded library; record a copy without them"));
    }
    Ok(())
}

/// It ends itself where anything is mapped that it does not know, as what records is.
fn refuse_thread_sanitizer(path: &Path) -> Result<(), ProgramError> {
    let (Ok(head), Ok(file)) = (read_head(path), File::open(path)) else { return Ok(()) };
    let why = "it is built with ThreadSanitizer, which has no room for what records it; build it without, and `relive races` \
               finds its races";
    if sanitized::by_threads(&file, &head) {
        Err(ProgramError::NotRecordable { path: path.to_owned(), why })
    } else {
        Ok(())
    }
}

fn loader_of(path: &Path, head: &[u8]) -> Result<PathBuf, ProgramError> {
    let foreign = |why| ProgramError::NotRecordable { path: path.to_owned(), why };
    if !head.starts_with(&elf::ELFMAG) {
        let why =
            "not an ELF program and without a #! line; if it is a script, name its interpreter: sh FILE".to_owned();
        return Err(ProgramError::NotExecutable { path: path.to_owned(), why });
    }
    let sixty_four = head.get(4) == Some(&elf::ELFCLASS64) && head.get(18..20) == Some(&elf::EM_X86_64.to_le_bytes());
    if !sixty_four {
        return Err(foreign("it is not a 64-bit x86 program; build it for x86-64"));
    }
    let header = elf::FileHeader64::<LittleEndian>::parse(head).map_err(|_| foreign("its ELF header is damaged"))?;
    let segments =
        header.program_headers(LittleEndian, head).map_err(|_| foreign("its program headers are damaged"))?;
    let loader = segments.iter().find_map(|segment| segment.interpreter(LittleEndian, head).ok().flatten());
    match loader {
        Some(loader) => Ok(PathBuf::from(OsStr::from_bytes(loader))),
        None => Err(foreign("it is statically linked, so its synchronisation can't be seen; link it dynamically")),
    }
}

#[cfg(test)]
mod tests {
    use super::{Program, ProgramError};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    fn executable(path: &Path, content: &[u8]) {
        fs::write(path, content).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn a_dynamic_program_is_found_with_its_loader() {
        let program = Program::find(&["true".into(), "x".into()]).unwrap();
        assert!(program.path.ends_with("true"), "{}", program.path.display());
        assert!(program.loader.to_string_lossy().contains("ld-linux"), "{}", program.loader.display());
        assert_eq!(program.command, ["true", "x"]);
    }

    #[test]
    fn a_script_stands_for_its_interpreter() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("script");
        executable(&script, b"#! /bin/sh -e\nexit 0\n");
        let program = Program::find(&[script.clone().into()]).unwrap();
        assert_eq!((program.path.as_path(), program.executable.as_path()), (script.as_path(), Path::new("/bin/sh")));
    }

    #[test]
    fn what_cannot_be_executed_is_told_from_what_is_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let text = folder.path().join("text");
        fs::write(&text, "hello").unwrap();
        let missing = folder.path().join("missing");
        assert!(matches!(Program::find(&[text.clone().into()]), Err(ProgramError::NotExecutable { .. })));
        assert!(matches!(Program::find(&[missing.into()]), Err(ProgramError::NotFound { .. })));
        assert!(matches!(Program::find(&["relive-no-such-program".into()]), Err(ProgramError::NotFound { .. })));
        executable(&text, b"hello");
        assert!(matches!(Program::find(&[text.into()]), Err(ProgramError::NotExecutable { .. })));
        assert!(matches!(Program::find(&[folder.path().into()]), Err(ProgramError::NotExecutable { .. })));
    }

    #[test]
    fn damaged_and_truncated_executables_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("damaged");
        let whole = fs::read("/bin/true").unwrap();
        for length in [4, 5, 19, 63, 64, 65, 200, 600] {
            executable(&path, &whole[..length]);
            let found = Program::find(&[path.clone().into()]);
            assert!(matches!(found, Err(ProgramError::NotRecordable { .. })), "{length}: {found:?}");
        }
    }
}
