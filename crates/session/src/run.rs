//! Runs a program translated, neither recorded nor replayed.
//!
//! Apart from `launch`, which starts programs that belong to a session.

use crate::launch::{ENV_PRELOAD, Runtime, preload_value};
use crate::program::Program;
use relive_trace::control::{ENV_CONTROL, ENV_LINK, ENV_TRANSLATE};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Becomes the program, which runs under the translator with a tool that inserts nothing, and so do the programs that it
/// starts with its environment. Returns only what went wrong.
pub fn become_translated(program: &Program, runtime: &Runtime) -> io::Error {
    let mut command = Command::new(&program.path);
    if let [name, arguments @ ..] = &program.command[..] {
        command.arg0(name).args(arguments);
    }
    let preloaded = preload_value(&runtime.library, std::env::var_os(ENV_PRELOAD).as_deref());
    command.env_remove(ENV_CONTROL).env_remove(ENV_LINK);
    command.env(ENV_PRELOAD, preloaded).env(ENV_TRANSLATE, "1").exec()
}
