//! A guest's replay under gdb: stopped, stepped, watched and looked into, and it
//! still does what was recorded.
//!
//! Apart because gdb's words are read here. What the guest had noted when it was
//! stopped must be the beginning of what it noted in the recording.

use super::Recording;
use super::registry::Guest;
use super::run::Ended;

/// A breakpoint that several threads hit, and a step.
const STOP: &[&str] = &[
    "set confirm off",
    "handle SIGUSR1 nostop noprint pass",
    "set print repeats unlimited",
    "set print null-stop on",
    "break worker",
    "run",
    "next",
    "delete",
];
/// A watchpoint on memory that all write. Not in a guest that forks: gdb (13) lets a child go with the watchpoint in its
/// debug registers, and doesn't keep its breakpoints in the parent either.
const WATCH: &[&str] = &["watch transcript.effects", "continue", "continue", "continue"];
/// Two looks at that memory, and on to the end.
const LOOK: &[&str] = &["print transcript.effects", "print transcript.first", "delete", "continue"];

/// Replays under gdb and compares.
pub(crate) fn check(guest: &Guest, recording: &Recording) -> Result<(), String> {
    let mut options = vec!["--gdb", "--gdb-batch"];
    let watch = if guest.gdb_watch { WATCH } else { &[] };
    for command in [STOP, watch, LOOK].concat() {
        options.extend(["--gdb-command", command]);
    }
    let debugged = recording.replay(&options);
    judge(guest, &recording.ended, &debugged)
        .map_err(|cause| format!("{} under gdb: {cause}\n{}{}", guest.name, debugged.text(), debugged.stderr))
}

fn judge(guest: &Guest, recorded: &Ended, debugged: &Ended) -> Result<(), String> {
    let text = debugged.text();
    let has = |words: &str| if text.contains(words) { Ok(()) } else { Err(format!("gdb never said `{words}`")) };
    has("Breakpoint 1, worker (")?;
    if guest.gdb_watch {
        has("hit Hardware watchpoint 2: transcript.effects")?;
    }
    match recorded.status {
        Some(0) => has("exited normally]")?,
        Some(status) => has(&format!("exited with code {status:02o}]"))?,
        None => return Err("the recording did not end".to_owned()),
    }
    let recorded = recorded.text();
    // Gdb writes to the same pipe, sometimes in the middle of its own line.
    if let Some(missing) = recorded.lines().find(|line| !text.contains(line)) {
        return Err(format!("the line `{missing}` of the recording is missing"));
    }
    let printed = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    let (effects, first) = (printed("$1 = "), printed("$2 = ").trim_matches('"'));
    if effects.parse() != Ok(first.len()) || (first.is_empty() && guest.gdb_watch) {
        return Err(format!("gdb printed `{first}` for {effects} effects"));
    }
    let whole = recorded.lines().next().and_then(|line| line.split(' ').next_back()).unwrap_or_default();
    if whole.starts_with(first) { Ok(()) } else { Err(format!("`{first}` does not begin `{whole}`")) }
}
