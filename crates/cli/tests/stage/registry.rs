//! The list of guests, read from `guests/registry.toml`.
//!
//! Apart because it is a format that people edit: everything that can be wrong
//! with an entry is found here, with the guest's name.

use rustix::process::Signal;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// One guest: a program and what is expected of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a line of the registry")]
pub(crate) struct Guest {
    /// What tests call it.
    pub(crate) name: String,
    /// Relative to the guests' folder.
    pub(crate) source: String,
    /// Compiler and linker flags behind the usual ones.
    #[serde(default)]
    pub(crate) flags: Vec<String>,
    /// Sources of shared libraries that are put next to the program.
    #[serde(default)]
    pub(crate) plugins: Vec<String>,
    /// Sources of other programs that are put next to it.
    #[serde(default)]
    pub(crate) programs: Vec<String>,
    /// Argument lines, split at blanks.
    pub(crate) args: Vec<String>,
    /// Whether runs with the same arguments print different things.
    #[serde(default = "yes")]
    pub(crate) varies: bool,
    /// Exit statuses that are right; 128+S for signal S.
    #[serde(default = "success")]
    pub(crate) status: Vec<i32>,
    /// A signal to send.
    pub(crate) stop: Option<Stop>,
    /// What a replay must show.
    #[serde(default)]
    pub(crate) replay: Promise,
    /// What the recorder must say because it can't record this; the recording then ends there, or the call failed.
    pub(crate) says: Option<String>,
    /// Whether it is also replayed under gdb: it has a function `worker` and a global `transcript`.
    #[serde(default)]
    pub(crate) gdb: bool,
    /// Also recorded with its environment. Not those whose threads end while others begin, or use the heap: which stack
    /// and which heap libc gives a thread is not recorded yet.
    #[serde(default)]
    pub(crate) environment: bool,
    /// Whether it is replayed without its environment. Not those that hand over by atomics alone: nothing compares there what
    /// they print.
    #[serde(default = "yes")]
    pub(crate) plain: bool,
    /// Also recorded at the level of atomics, where each of its replays is as the recording.
    #[serde(default)]
    pub(crate) atomics: bool,
    /// Also recorded there with nothing learnt: debug information tells all that it hands over by.
    #[serde(default)]
    pub(crate) told: bool,
    /// Whether gdb watches `transcript` in it.
    #[serde(default = "yes")]
    pub(crate) gdb_watch: bool,
    /// Seconds that one command may take.
    pub(crate) timeout: Option<u64>,
    /// The known traps that this guest steps into.
    #[serde(default)]
    pub(crate) facts: Vec<String>,
    /// Paths that must exist.
    #[serde(default)]
    pub(crate) needs: Vec<PathBuf>,
}

/// What a replay must show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Promise {
    /// The recorded execution.
    #[default]
    Same,
    /// Its beginning: the recording ends before the program.
    Beginning,
    /// The recorded execution, or a divergence report.
    MayDiverge,
}

/// When to send a guest a signal.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stop {
    /// Once it printed this.
    pub(crate) after: String,
    /// The signal.
    pub(crate) signal: StopSignal,
}

/// The signals that a guest can be sent.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum StopSignal {
    /// As Ctrl-C does.
    Int,
    /// As `kill` does.
    Term,
}

impl From<StopSignal> for Signal {
    fn from(signal: StopSignal) -> Signal {
        match signal {
            StopSignal::Int => Signal::INT,
            StopSignal::Term => Signal::TERM,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Registry {
    /// Folders whose programs belong to other tests.
    elsewhere: Vec<PathBuf>,
    guest: Vec<Guest>,
}

fn yes() -> bool {
    true
}

fn success() -> Vec<i32> {
    vec![0]
}

/// The folder of the guests.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests").canonicalize().expect("the folder of the guests")
}

fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(|| {
        let path = folder().join("registry.toml");
        let text = std::fs::read_to_string(&path).expect("the registry of guests");
        toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    })
}

/// Every guest, in the registry's order.
pub(crate) fn guests() -> &'static [Guest] {
    &registry().guest
}

/// The guest of that name.
pub(crate) fn find(name: &str) -> &'static Guest {
    guests().iter().find(|guest| guest.name == name).unwrap_or_else(|| panic!("no guest is called {name}"))
}

/// What is wrong with the registry as a whole, one line each.
pub(crate) fn complaints() -> Vec<String> {
    let mut found = Vec::new();
    let guests = guests();
    for (index, guest) in guests.iter().enumerate() {
        let name = &guest.name;
        if guests[..index].iter().any(|earlier| earlier.name == *name) {
            found.push(format!("{name} is registered twice"));
        }
        if guest.args.is_empty() || guest.status.is_empty() {
            found.push(format!("{name} needs at least one argument line and one exit status"));
        }
        for source in guest.sources().filter(|source| !folder().join(source).is_file()) {
            found.push(format!("{name} names {source}, which is no file"));
        }
    }
    for source in sources_on_disk() {
        if !guests.iter().any(|guest| guest.sources().any(|own| own == source)) {
            found.push(format!("{source} belongs to no guest"));
        }
    }
    found
}

impl Guest {
    /// Every source file, the program's first.
    pub(crate) fn sources(&self) -> impl Iterator<Item = &str> {
        let others = self.plugins.iter().chain(&self.programs);
        std::iter::once(self.source.as_str()).chain(others.map(String::as_str))
    }
}

fn sources_on_disk() -> Vec<String> {
    let folder = folder();
    let mut found = Vec::new();
    let mut open = vec![folder.clone()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).expect("a folder of guests") {
            let path = entry.expect("an entry").path();
            let kind = path.extension().and_then(|kind| kind.to_str());
            if path.is_dir() {
                let own = path.strip_prefix(&folder).expect("below it");
                if !registry().elsewhere.iter().any(|other| other == own) {
                    open.push(path);
                }
            } else if matches!(kind, Some("c" | "cpp" | "rs")) {
                let relative = path.strip_prefix(&folder).expect("below it").to_string_lossy().into_owned();
                found.push(relative);
            }
        }
    }
    found.sort();
    found
}
