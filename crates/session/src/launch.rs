//! Starts a program with the library preloaded.
//!
//! Apart from what happens with it then, because recording and replay start it
//! in the same way: same loader, same address layout.

use crate::starter::{Limit, Start};
use nix::sys::personality::{self, Persona};
use relive_trace::control::{ENV_CONTROL, ENV_LINK};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The variable that names preloaded libraries.
pub const ENV_PRELOAD: &str = "LD_PRELOAD";

/// The files that a recorded program needs.
#[derive(Clone, Debug)]
pub struct Runtime {
    /// The library to preload.
    pub library: PathBuf,
    /// The starter.
    pub starter: PathBuf,
}

/// What to start.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// The file to execute.
    pub path: &'a Path,
    /// `argv`.
    pub command: &'a [OsString],
    /// The program's own environment, complete; `None` for ours.
    pub environment: Option<&'a [(OsString, OsString)]>,
    /// Its working folder; `None` for ours.
    pub folder: Option<&'a Path>,
    /// The library to preload.
    pub library: &'a Path,
    /// Path of the control memory.
    pub control: &'a Path,
    /// Read its standard output through a pipe.
    pub capture: bool,
    /// Nobody is to see its standard error.
    pub silent: bool,
    /// Let the starter choose its addresses, in this way; `None` for the kernel's.
    pub start: Option<Start<'a>>,
}

/// A started program.
#[derive(Debug)]
pub struct Started {
    /// The process.
    pub child: Child,
    /// Its addresses do not depend on chance.
    pub fixed_layout: bool,
}

impl Launch<'_> {
    /// Starts it.
    ///
    /// # Errors
    /// What the system says to fork and exec.
    pub fn start(&self) -> io::Result<Started> {
        let mut command = if let Some(start) = &self.start {
            start.command(self.path, self.command)
        } else {
            let mut command = Command::new(self.path);
            if let [name, arguments @ ..] = self.command {
                command.arg0(name).args(arguments);
            }
            command
        };
        let preloaded = match self.environment {
            Some(environment) => {
                command.env_clear().envs(environment.iter().map(|(name, value)| (name, value)));
                environment.iter().find(|(name, _)| name == ENV_PRELOAD).map(|(_, value)| value.clone())
            }
            None => std::env::var_os(ENV_PRELOAD),
        };
        command.env_remove(ENV_LINK);
        command.env(ENV_PRELOAD, self.preload_value(preloaded.as_deref())).env(ENV_CONTROL, self.control);
        if let Some(folder) = self.folder {
            command.current_dir(folder);
        }
        if self.capture {
            command.stdout(Stdio::piped());
        }
        if self.silent {
            command.stderr(Stdio::null());
        }
        if let Some(start) = &self.start {
            let _limit = Limit::enter(start.stack);
            return Ok(Started { child: command.spawn()?, fixed_layout: true });
        }
        let layout = FixedLayout::enter();
        let child = command.spawn()?;
        Ok(Started { child, fixed_layout: layout.is_fixed() })
    }

    /// The value of [`ENV_PRELOAD`], with what the user preloads.
    ///
    /// Where addresses are of our choice our library's name is as long on every machine: the loader keeps it in memory
    /// beside other things.
    pub fn preload_value(&self, existing: Option<&OsStr>) -> OsString {
        const LENGTH: usize = 255;
        if self.start.is_none() {
            return preload_value(self.library, existing);
        }
        let name = self.library.as_os_str();
        let mut long = OsString::from("/".repeat(LENGTH.saturating_sub(name.len())));
        long.push(name);
        preload_value(Path::new(&long), existing)
    }
}

/// Our library first: what the user preloads may call what we interpose.
pub(crate) fn preload_value(library: &Path, existing: Option<&OsStr>) -> OsString {
    let mut value = OsString::from(library);
    if let Some(existing) = existing.filter(|existing| !existing.is_empty()) {
        value.push(":");
        value.push(existing);
    }
    value
}

/// Our variables are no part of the program's environment: a recorded `relive` must not hand them on.
pub fn own_environment() -> Vec<(OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| name != ENV_CONTROL && name != ENV_LINK).collect()
}

/// The absolute form of `path` without following links: `argv[0]` lookups must still see the link.
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Switches randomisation off for children of this thread while it lives.
struct FixedLayout {
    before: Option<Persona>,
}

impl FixedLayout {
    fn enter() -> Self {
        let before = personality::get().ok();
        let fixed = before.and_then(|p| personality::set(p | Persona::ADDR_NO_RANDOMIZE).ok());
        Self { before: fixed.and(before) }
    }

    fn is_fixed(&self) -> bool {
        self.before.is_some()
    }
}

impl Drop for FixedLayout {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            let _ = personality::set(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Launch, preload_value};
    use std::ffi::OsStr;
    use std::io::Read;
    use std::path::Path;

    #[test]
    fn our_library_comes_before_the_users() {
        assert_eq!(preload_value(Path::new("/l.so"), None), "/l.so");
        assert_eq!(preload_value(Path::new("/l.so"), Some(OsStr::new(""))), "/l.so");
        assert_eq!(preload_value(Path::new("/l.so"), Some(OsStr::new("a:b"))), "/l.so:a:b");
    }

    #[test]
    fn the_program_gets_its_environment_and_folder_and_a_fixed_layout_if_allowed() {
        let script = "echo $0 $X $PWD $RELIVE_CONTROL; cat /proc/self/personality 2>/dev/null || echo unknown";
        let started = Launch {
            path: Path::new("/bin/sh"),
            command: &["name".into(), "-c".into(), script.into()],
            environment: Some(&[("X".into(), "y z".into())]),
            folder: Some(Path::new("/")),
            library: Path::new(""),
            control: Path::new("/c"),
            capture: true,
            silent: false,
            start: None,
        };
        let mut started = started.start().unwrap();
        let mut output = String::new();
        started.child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        assert!(started.child.wait().unwrap().success());
        let mut lines = output.lines();
        assert_eq!(lines.next(), Some("name y z / /c"));
        let persona = lines.next().and_then(|line| u32::from_str_radix(line, 16).ok());
        assert!(persona.is_none_or(|persona| !started.fixed_layout || persona & 0x0004_0000 != 0), "{persona:?}");
    }
}
