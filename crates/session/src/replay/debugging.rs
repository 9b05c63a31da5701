//! A replay under gdb: nobody is convicted, but divergences and the end of the recording are told.
//!
//! Where the replay can't go on by itself the program gets a signal, so that gdb
//! stops there: its threads stand still for good and can be looked at.

use super::ending::Run;
use super::{
    Arc, Instant, Outcome, Path, PathBuf, Pid, ReplayError, Replayer, Report, Rule, Series, Service, Shared, Signal,
    TICK, Watched, Woken, flag, kill_all, kill_process,
};
use crate::gdb::{self, Debugger};
use crate::signals::Held;
use crate::starter::Limit;
use std::sync::atomic::Ordering::Acquire;

/// What is to be told while gdb runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The replay went another way.
    Diverged(Box<Report>),
    /// Every recorded event has run; the process had been killed here.
    RecordingEnds(Option<Outcome>),
}

impl Replayer {
    /// Replays under gdb. Returns gdb's exit status.
    ///
    /// # Errors
    /// [`ReplayError`] if it could not be started.
    pub fn debug(&self, debugger: &Debugger<'_>, mut tell: impl FnMut(Note)) -> Result<Outcome, ReplayError> {
        let rule = Rule::choose_quietly(&self.recording, &self.folder);
        let held = Held::new()?;
        let shared = self.prepare(&rule, flag::DEBUGGER)?;
        let service = Service::start(Arc::clone(&shared), self.folder.clone(), Series::Learnt)?;
        let (control, arguments, environment): (PathBuf, _, _) = (shared.path(), self.arguments(), self.environment());
        let launch = self.launch(Path::new(&control), &arguments, &environment);
        let mut command = gdb::command(&launch, self.recording.manifest.program.path.as_path(), debugger);
        let _limit = launch.start.as_ref().map(|start| Limit::enter(start.stack));
        let start = |cause| ReplayError::Start { path: PathBuf::from("gdb"), cause };
        let watched = Watched::new(held.released(|| command.spawn()).map_err(start)?)?;
        let run =
            Run { replayer: self, shared: &shared, watched: &watched, held: &held, service: &service, rule: &rule };
        let mut watch = run.watch();
        let mut told = false;
        let outcome = loop {
            let alarm = (!told).then(|| service.alarm());
            let note = match watched.wait(&held, alarm, (!told).then_some(TICK))? {
                Woken::Ended(outcome) => break outcome,
                Woken::Alarm => Some(Note::Diverged(Box::new(run.scene().reported()))),
                Woken::Tick => run.is_at_end(&mut watch, Instant::now()).then(|| Note::RecordingEnds(run.recorded())),
            };
            if let Some(note) = note {
                tell(note);
                interrupt(&shared);
                told = true;
            }
        };
        kill_all(&shared);
        Ok(outcome)
    }
}

/// gdb stops all threads of a process that gets SIGINT, and the program never sees it.
fn interrupt(shared: &Shared) {
    let first = shared.turns().first().map_or(0, |slot| slot.pid.load(Acquire));
    if let Some(pid) = Pid::from_raw(first as i32) {
        let _ = kill_process(pid, Signal::INT);
    }
}
