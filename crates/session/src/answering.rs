//! Answers recorded processes that ask which accesses in a file of code are atomic, by its
//! debug information (`learnt/declared.rs`).
//!
//! Apart from the service because an answer may take seconds, and whoever asks for room in its data
//! file must not wait for that: each is found by a thread of its own.

use crate::learnt::Declared;
use crate::processes;
use crate::shared::Shared;
use relive_trace::declared::{DeclaredAccesses, state};
use relive_trace::manifest::{Accesses, Manifest};
use rustix::thread::futex;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// Held by who tells of a file: who asked before, and did not wait to the end, may be told at the same time.
static ADDING: Mutex<()> = Mutex::new(());

/// Has a thread answer, if somebody asks; frees what somebody who died has taken. What it tells goes into the manifest in
/// `folder` at once: who kills us keeps a recording that replays. Who ends the recording waits for the thread, or it might
/// write an old manifest over the last one.
pub(crate) fn answer(shared: &Arc<Shared>, declared: Option<&Declared>, folder: &Path) -> Option<JoinHandle<()>> {
    let asked = &shared.control().declared;
    let (now, pid) = (asked.state.load(Acquire), asked.pid.load(Acquire));
    if now == state::ASKED {
        asked.state.compare_exchange(state::ASKED, state::LOOKING, AcqRel, Relaxed).ok()?;
        let (own, declared, folder) = (Arc::clone(shared), declared.cloned(), folder.to_owned());
        let look = move || {
            let asked = &own.control().declared;
            if let Some(declared) = declared {
                tell(asked, &declared, pid, &folder);
            }
            done(asked);
        };
        let looks = thread::Builder::new().name("relive-told".to_owned()).spawn(look);
        return looks.inspect_err(|_| done(asked)).ok();
    }
    if matches!(now, state::TAKEN | state::ANSWERED) && pid != 0 && !processes::alive(pid) {
        let _ = asked.state.compare_exchange(now, state::FREE, AcqRel, Relaxed);
        let _ = futex::wake(&asked.state, futex::Flags::empty(), i32::MAX as u32);
    }
    None
}

fn done(asked: &DeclaredAccesses) {
    let _ = asked.state.compare_exchange(state::LOOKING, state::ANSWERED, AcqRel, Relaxed);
    let _ = futex::wake(&asked.state, futex::Flags::empty(), i32::MAX as u32);
}

fn tell(asked: &DeclaredAccesses, declared: &Declared, pid: u32, folder: &Path) {
    let descriptor = asked.descriptor.load(Relaxed);
    let open = PathBuf::from(format!("/proc/{pid}/fd/{descriptor}"));
    let Some((key, places)) = declared.in_open_file(&open) else { return };
    let _alone = ADDING.lock().unwrap_or_else(PoisonError::into_inner);
    let taken = asked.add(key, places.iter().copied());
    if taken > 0
        && let Ok(mut manifest) = Manifest::read(folder)
    {
        manifest.accesses.push(Accesses { file: format!("{key:016x}"), places: places[..taken].to_vec() });
        // The end of the recording says it once more.
        let _ = manifest.write(folder);
    }
}
