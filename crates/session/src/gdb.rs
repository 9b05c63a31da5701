//! gdb on a replay: only the program gets the library and the recorded environment.

use crate::launch::{ENV_PRELOAD, Launch};
use crate::replay::Meeting;
use relive_trace::control::ENV_CONTROL;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::Command;

/// The signals by which the program's system calls, and instructions that read the outside, come to the runtime, where
/// those are recorded.
const OUR_SIGNALS: &str = "handle SIGSYS SIGILL nostop noprint pass";

/// How gdb is to be run.
#[derive(Clone, Copy, Debug)]
pub struct Debugger<'a> {
    /// A race that it is to lead to.
    pub meeting: Option<&'a Meeting>,
    /// Commands that it runs at its start, or when it is there.
    pub commands: &'a [String],
    /// It ends after them.
    pub batch: bool,
}

/// The command that starts gdb on the program of `launch`.
///
/// gdb starts the program through a shell and a wrapper, here `env` or the starter: so neither gdb nor the shell is
/// preloaded, and arguments with blanks stay whole. gdb counts the images until the program's: the starter stands for
/// `env`, and a trap of its own, when everything is in its place, for the program.
///
/// The libraries' names in the process are those of the recording; in a packed trace they stand below `root`.
///
/// The starter follows scripts by itself, so that gdb can be given the `executable` that has the symbols.
pub fn command(
    launch: &Launch<'_>,
    executable: &Path,
    root: Option<&Path>,
    script: Option<&Path>,
    debugger: &Debugger<'_>,
) -> Command {
    let mut gdb = Command::new("gdb");
    gdb.arg("-q");
    if let Some(root) = root {
        // Our own library has its place on this machine.
        let own = launch.library.parent().unwrap_or(Path::new("/"));
        gdb.arg("-ex").arg(set("sysroot", root)).arg("-ex").arg(set("solib-search-path", own));
    }
    gdb.arg("-ex").arg(wrapper(launch)).args(["-ex", OUR_SIGNALS]);
    // The shell is ours to choose: the user's may read files that change the environment.
    gdb.env("SHELL", "/bin/sh");
    add_commands(&mut gdb, script, debugger);
    let program = if launch.start.is_some() { executable } else { launch.path };
    gdb.arg("--args").arg(program).args(launch.command.iter().skip(1));
    if let Some(folder) = launch.folder {
        gdb.current_dir(folder);
    }
    gdb
}

fn set(name: &str, value: &Path) -> OsString {
    let mut line = OsString::from(format!("set {name} "));
    line.push(value);
    line
}

/// The command that attaches gdb to the process `pid`, which runs `program`: the kernel would name the starter.
pub fn attach(pid: u32, program: Option<&Path>, script: Option<&Path>, debugger: &Debugger<'_>) -> Command {
    let mut gdb = Command::new("gdb");
    gdb.arg("-q");
    if let Some(program) = program {
        gdb.arg(program);
    }
    gdb.arg("-p").arg(pid.to_string()).args(["-ex", OUR_SIGNALS]);
    add_commands(&mut gdb, script, debugger);
    gdb
}

/// Those of `script` come before the user's.
fn add_commands(gdb: &mut Command, script: Option<&Path>, debugger: &Debugger<'_>) {
    if let Some(script) = script {
        gdb.arg("-x").arg(script);
    }
    for command in debugger.commands {
        gdb.arg("-ex").arg(command);
    }
    if debugger.batch {
        gdb.arg("-batch");
    }
}

fn wrapper(launch: &Launch<'_>) -> OsString {
    let entry = |name: &OsStr, value: &OsStr| {
        let mut entry = name.to_owned();
        entry.push("=");
        entry.push(value);
        entry
    };
    let environment = launch.environment.unwrap_or_default();
    let preloaded = environment.iter().find(|(name, _)| name == ENV_PRELOAD).map(|(_, value)| value.as_os_str());
    let own = environment.iter().filter(|(name, _)| name != ENV_PRELOAD);
    let mut entries: Vec<OsString> = own.map(|(name, value)| entry(name, value)).collect();
    entries.push(entry(OsStr::new(ENV_PRELOAD), &launch.preload_value(preloaded)));
    entries.push(entry(OsStr::new(ENV_CONTROL), launch.control.as_os_str()));
    let words = if let Some(start) = &launch.start {
        let name = launch.command.first().map_or(launch.path.as_os_str(), OsString::as_os_str);
        start.wrapper(&entries, launch.path, name)
    } else {
        entries.splice(..0, ["env".into(), "-i".into()]);
        entries
    };
    let mut line = b"set exec-wrapper".to_vec();
    for word in words {
        line.push(b' ');
        quote(word.as_bytes(), &mut line);
    }
    OsString::from_vec(line)
}

/// For a shell: in single quotes, where only the quote itself needs care.
fn quote(text: &[u8], line: &mut Vec<u8>) {
    line.push(b'\'');
    for &byte in text {
        match byte {
            b'\'' => line.extend_from_slice(b"'\\''"),
            byte => line.push(byte),
        }
    }
    line.push(b'\'');
}

#[cfg(test)]
mod tests {
    use super::{Debugger, OUR_SIGNALS, command};
    use crate::launch::Launch;
    use std::path::Path;

    #[test]
    fn the_program_alone_is_preloaded_and_its_environment_quoted() {
        let environment = [("A".into(), "it's $x".into()), ("LD_PRELOAD".into(), "/m.so".into())];
        let launch = Launch {
            path: Path::new("/p"),
            command: &["p".into(), "a b".into()],
            environment: Some(&environment),
            folder: None,
            library: Path::new("/l.so"),
            control: Path::new("/c"),
            capture: false,
            silent: false,
            start: None,
        };
        let debugger = Debugger { meeting: None, commands: &["run".to_owned()], batch: true };
        let gdb = command(&launch, Path::new("/e"), None, None, &debugger);
        let arguments: Vec<_> = gdb.get_args().map(|argument| argument.to_str().unwrap()).collect();
        let wrapper = r"set exec-wrapper 'env' '-i' 'A=it'\''s $x' 'LD_PRELOAD=/l.so:/m.so' 'RELIVE_CONTROL=/c'";
        assert_eq!(
            arguments,
            ["-q", "-ex", wrapper, "-ex", OUR_SIGNALS, "-ex", "run", "-batch", "--args", "/p", "a b"]
        );
        assert!(gdb.get_envs().all(|(name, _)| name != "LD_PRELOAD"));
    }
}
