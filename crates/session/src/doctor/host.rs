//! Whether this machine lets a recording do what it wants to.
//!
//! Apart from looking at programs: these are attempts, each undone at once.

use nix::sys::personality::{self, Persona};
use rustix::fs::{Access, MemfdFlags};
use rustix::thread::MembarrierCommand;
use serde::Serialize;
use std::env;
use std::fs;
use std::path::Path;

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// As it should be.
    Fine,
    /// Recording works; something is slower or not there.
    Lacking,
    /// Recording doesn't work.
    Broken,
}

/// One check of the machine.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// What was checked: a stable word.
    pub name: &'static str,
    /// How it came out.
    pub state: State,
    /// What was found, in one line.
    pub found: String,
}

/// All checks of the machine; `traces` is the trace folder, if one is known.
pub fn check_host(traces: Option<&Path>) -> Vec<Check> {
    vec![
        kernel(),
        processors(),
        shared_memory(),
        processes(),
        membarrier(),
        addresses(),
        dispatch(),
        debugger(),
        folder(traces),
    ]
}

fn check(name: &'static str, state: State, found: impl Into<String>) -> Check {
    Check { name, state, found: found.into() }
}

fn kernel() -> Check {
    let system = rustix::system::uname();
    let (release, machine) = (system.release().to_string_lossy(), system.machine().to_string_lossy());
    // MADV_WIPEONFORK came with 4.14: a fork child would write into its parent's chunk without it.
    let state = if machine == "x86_64" && at_least(&release, (4, 14)) { State::Fine } else { State::Broken };
    let remedy = if state == State::Fine { "" } else { "; Linux 4.14 or later on x86-64 is needed" };
    check("kernel", state, format!("{} {release} {machine}{remedy}", system.sysname().to_string_lossy()))
}

/// A release such as `6.1.0-18-amd64` against a version; one that can't be read is taken for new.
fn at_least(release: &str, wanted: (u32, u32)) -> bool {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= wanted,
        _ => true,
    }
}

fn processors() -> Check {
    match std::thread::available_parallelism() {
        Ok(count) => check("processors", State::Fine, format!("{count} can be used")),
        Err(error) => check("processors", State::Lacking, format!("their number is unknown: {error}")),
    }
}

fn shared_memory() -> Check {
    match rustix::fs::memfd_create(c"relive-doctor", MemfdFlags::CLOEXEC) {
        Ok(_) => check("memfd", State::Fine, "memory can be shared with the program"),
        Err(error) => check("memfd", State::Broken, format!("memfd_create: {error}; allow this system call")),
    }
}

fn processes() -> Check {
    match fs::read_to_string("/proc/self/maps").and_then(|_| fs::read_dir("/proc/self/fd")) {
        Ok(_) => check("proc", State::Fine, "/proc is mounted"),
        Err(error) => check("proc", State::Broken, format!("/proc/self: {error}; mount proc")),
    }
}

fn membarrier() -> Check {
    let supported = rustix::thread::membarrier_query();
    let works = supported.contains_command(MembarrierCommand::GlobalExpedited)
        && rustix::thread::membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok();
    if works {
        check("membarrier", State::Fine, "replay needs no fences")
    } else {
        check("membarrier", State::Lacking, "not allowed: replay uses fences, which are slower")
    }
}

fn addresses() -> Check {
    let switched = personality::get().and_then(|before| {
        personality::set(before | Persona::ADDR_NO_RANDOMIZE)?;
        personality::set(before)
    });
    match switched {
        Ok(_) => check("addresses", State::Fine, "their randomisation can be switched off"),
        Err(error) => {
            let found = format!("personality: {error}; addresses differ between runs, which nothing depends on");
            check("addresses", State::Lacking, found)
        }
    }
}

fn dispatch() -> Check {
    if relive_sys::dispatch::is_supported() {
        check("dispatch", State::Fine, "system calls can be handed over: `relive record --environment` works")
    } else {
        let found = "no Syscall User Dispatch (Linux 5.11): `relive record --environment` does not work";
        check("dispatch", State::Lacking, found)
    }
}

fn debugger() -> Check {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path)
        .map(|folder| folder.join("gdb"))
        .find(|file| file.is_file() && rustix::fs::access(file, Access::EXEC_OK).is_ok());
    match found {
        Some(file) => check("gdb", State::Fine, file.to_string_lossy()),
        None => check("gdb", State::Lacking, "not found: `relive replay --gdb` needs it; install gdb"),
    }
}

fn folder(traces: Option<&Path>) -> Check {
    let Some(traces) = traces else {
        return check("traces", State::Lacking, "no folder is known for traces; set RELIVE_TRACE_DIR");
    };
    // The folder is made by the first recording: until then the one that is to hold it must be writable.
    let there = traces.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    match rustix::fs::access(there, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => check("traces", State::Fine, traces.to_string_lossy()),
        Err(error) => {
            check("traces", State::Lacking, format!("{}: {error}; set RELIVE_TRACE_DIR or use -o", there.display()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{State, at_least, check_host};
    use std::path::Path;

    #[test]
    fn releases_are_compared_by_number() {
        assert!(at_least("6.1.0-18-amd64", (4, 14)) && at_least("4.14", (4, 14)) && at_least("strange", (4, 14)));
        assert!(!at_least("4.9.0-rc1", (4, 14)) && !at_least("3.20", (4, 14)));
    }

    #[test]
    fn a_machine_that_runs_the_tests_can_record() {
        let folder = tempfile::tempdir().unwrap();
        let checks = check_host(Some(&folder.path().join("not/yet/there")));
        assert!(checks.iter().all(|check| check.state != State::Broken), "{checks:#?}");
        assert_eq!(checks.last().map(|check| check.state), Some(State::Fine));
        let nowhere = check_host(Some(Path::new("/proc/self/nowhere")));
        assert_eq!(nowhere.last().map(|check| check.name), Some("traces"));
    }
}
