//! How the starter is told what to start: its command line, and the limit that
//! the size of the stack comes from.
//!
//! Apart from `launch` because gdb starts it, too.

use relive_sys::start::TOLD;
use relive_trace::manifest;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::process::Command;

/// What stands behind the options when a debugger starts the starter.
const DEBUGGER: &str = "g";
/// What ends the environment then.
const END: &str = "--";

/// How a program is laid out.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// The starter's file.
    pub starter: &'a Path,
    /// The name that the program is executed by.
    pub name: &'a OsStr,
    /// Its random bytes in hexadecimal.
    pub random: &'a str,
    /// The soft limit of its stack; `None` for none.
    pub stack: Option<u64>,
}

impl<'a> Start<'a> {
    /// As the manifest has it.
    pub fn recorded(starter: &'a Path, start: &'a manifest::Start) -> Self {
        Self { starter, name: start.name.as_os_str(), random: &start.random, stack: start.stack }
    }

    /// Random bytes and limit in one word.
    fn options(&self) -> String {
        format!("{}{}", self.random, self.stack.unwrap_or(u64::MAX))
    }

    /// The command that starts the file at `path` with these arguments.
    pub fn command(&self, path: &Path, arguments: &[OsString]) -> Command {
        let mut command = Command::new(self.starter);
        command.arg(self.options()).arg(path).arg(self.name).args(arguments);
        command
    }

    /// The words that a debugger puts in front of its own command line for the program, whose first word is dropped.
    pub fn wrapper(&self, environment: &[OsString], path: &Path, name: &OsStr) -> Vec<OsString> {
        let mut words = vec![self.starter.into(), format!("{}{DEBUGGER}", self.options()).into()];
        words.extend_from_slice(environment);
        words.extend([END.into(), path.into(), self.name.into(), name.into()]);
        words
    }
}

/// What a new recording's program is laid out by.
pub fn choose(path: &Path) -> manifest::Start {
    let half = || RandomState::new().hash_one(path);
    manifest::Start {
        name: path.into(),
        random: format!("{:016x}{:016x}", half(), half()),
        stack: getrlimit(Resource::Stack).current,
        told: told(&fs::read("/proc/self/auxv").unwrap_or_default()),
    }
}

/// What an auxiliary vector says of machine and user, which a replay says, too.
fn told(auxiliary: &[u8]) -> Vec<(u64, u64)> {
    let words = auxiliary.chunks_exact(size_of::<u64>()).map(|word| word.try_into().map_or(0, u64::from_ne_bytes));
    let words: Vec<u64> = words.collect();
    let entries = words.chunks_exact(2).map(|entry| (entry[0], entry[1]));
    entries.take_while(|&(kind, _)| kind != 0).filter(|(kind, _)| TOLD.contains(kind)).collect()
}

/// Gives children of this process another limit of their stacks while it lives.
pub(crate) struct Limit(Rlimit);

impl Limit {
    pub(crate) fn enter(wanted: Option<u64>) -> Self {
        let before = getrlimit(Resource::Stack);
        let current = match (wanted, before.maximum) {
            (Some(wanted), Some(maximum)) => Some(wanted.min(maximum)),
            (wanted, maximum) => wanted.or(maximum),
        };
        let _ = setrlimit(Resource::Stack, Rlimit { current, maximum: before.maximum });
        Self(before)
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        let _ = setrlimit(Resource::Stack, self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::{choose, told};
    use std::path::Path;

    #[test]
    fn of_an_auxiliary_vector_only_machine_and_user_are_kept() {
        let words: [u64; 10] = [6, 4096, 16, 7, 9, 0x5555, 51, 3376, 0, 0];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(told(&bytes), [(16, 7), (51, 3376)]);
        assert!(choose(Path::new("/p")).told.iter().any(|&(kind, _)| kind == 16), "every kernel has AT_HWCAP");
    }
}
