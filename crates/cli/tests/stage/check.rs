//! One guest in one mode: what must hold.
//!
//! Apart because this is the judgement, free of how guests are built and run.

#[path = "../trial/runs.rs"]
mod runs;

use super::registry::{Guest, Promise};
use super::run::Ended;
use super::{Recording, Stage, TOOL_FAILED, build::Program, debugger, same};
use runs::runs;
use std::time::Duration;

/// Replays of each recording: the first learns, the others use what it learnt.
const REPLAYS: usize = 5;
/// Likewise of a recording with its environment.
const REPLAYS_WITH_ENVIRONMENT: usize = 3;
/// What the first replay leaves in the trace folder.
const LEARNT: &str = "derived.order";
/// Tries until two runs must have differed somewhere.
const TRIES: usize = 40;
/// Lessons after which a recording replays.
const LESSONS: usize = 5;

/// How a guest is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// By itself: it is right, and it varies where it says so.
    Native,
    /// Recorded: it is as right and varies as much.
    Record,
    /// Recorded, then replayed.
    Replay,
    /// Recorded, then replayed under gdb.
    Gdb,
    /// Recorded with its environment, then replayed.
    Environment,
    /// Recorded at the level of atomics, once what races was learnt, then replayed.
    Atomics,
    /// Recorded at the level of atomics as if for the first time, then replayed.
    Untaught,
    /// Translated: by itself, and replayed.
    Dbi,
}

impl Mode {
    /// Every mode.
    pub(crate) const ALL: &'static [Mode] = &[
        Mode::Native,
        Mode::Record,
        Mode::Replay,
        Mode::Gdb,
        Mode::Environment,
        Mode::Atomics,
        Mode::Untaught,
        Mode::Dbi,
    ];

    /// Whether this guest is run in this mode.
    pub(crate) fn suits(self, guest: &Guest) -> bool {
        match self {
            Mode::Gdb => guest.gdb,
            Mode::Environment => guest.environment,
            Mode::Atomics => guest.atomics,
            Mode::Untaught => guest.told,
            Mode::Replay => guest.plain,
            _ => true,
        }
    }

    /// What tests and the list of known failures call it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Mode::Native => "native",
            Mode::Record => "record",
            Mode::Replay => "replay",
            Mode::Gdb => "gdb",
            Mode::Environment => "environment",
            Mode::Atomics => "atomics",
            Mode::Untaught => "untaught",
            Mode::Dbi => "dbi",
        }
    }
}

/// Runs a guest with each of its argument lines.
pub(crate) fn check(guest: &Guest, mode: Mode) -> Result<(), String> {
    let program = guest.program()?;
    let environment = mode == Mode::Environment || mode == Mode::Dbi && guest.environment;
    let untaught = mode == Mode::Untaught;
    let atomics = mode == Mode::Atomics || untaught;
    let mut stage = Stage { stop: guest.stop.clone(), environment, atomics, untaught, ..Stage::default() };
    if let Some(seconds) = guest.timeout {
        stage.timeout = Duration::from_secs(seconds);
    }
    for line in &guest.args {
        let case = Case { guest, program: &program, arguments: line.split(' ').collect(), stage: &stage };
        let outcome = match mode {
            Mode::Native => case.several(|| case.native()),
            Mode::Record => {
                case.several(|| case.record().map(|recording| recording.ended)).and_then(|()| case.unchanged())
            }
            Mode::Replay => (0..runs()).try_for_each(|_| case.replays(REPLAYS)),
            Mode::Environment => case.replays(REPLAYS_WITH_ENVIRONMENT),
            Mode::Atomics => case.learns(),
            Mode::Untaught => (0..runs()).try_for_each(|_| case.is_told()),
            Mode::Dbi => case.translated(),
            // Without and with what the first replay learnt.
            Mode::Gdb => case.record().and_then(|recording| {
                debugger::check(guest, &recording)?;
                same(&recording.ended, &recording.replay(&[]))?;
                debugger::check(guest, &recording)
            }),
        };
        outcome.map_err(|cause| format!("{} {line}: {cause}", guest.name))?;
    }
    Ok(())
}

struct Case<'a> {
    guest: &'a Guest,
    program: &'a Program,
    arguments: Vec<&'a str>,
    stage: &'a Stage,
}

impl Case<'_> {
    /// Runs until enough was run and, where it must vary, until it did.
    fn several(&self, one: impl Fn() -> Result<Ended, String>) -> Result<(), String> {
        let first = one()?;
        let mut varied = false;
        for run in 1.. {
            let enough = run >= runs();
            if enough && (varied || !self.guest.varies) {
                return Ok(());
            }
            if enough && run >= TRIES {
                break;
            }
            let next = one()?;
            varied |= next.stdout != first.stdout || next.status != first.status;
            if varied && !self.guest.varies {
                return Err(format!("two runs differ\n{}\n{}", first.text(), next.text()));
            }
        }
        Err(format!("{TRIES} runs did not differ: it shows no order\n{}", first.text()))
    }

    /// A program that always prints the same prints it recorded, too.
    fn unchanged(&self) -> Result<(), String> {
        if self.guest.varies {
            return Ok(());
        }
        let (native, recorded) = (self.native()?, self.record()?.ended);
        if native.stdout == recorded.stdout && native.status == recorded.status {
            return Ok(());
        }
        Err(format!("recorded it is another program\n{}\n{}", native.text(), recorded.text()))
    }

    /// Translated it is as right as natively, and all of it was; a translated replay is as good as any.
    fn translated(&self) -> Result<(), String> {
        let ended = self.program.translated(&self.arguments, self.stage);
        self.expected(&ended).map_err(|cause| format!("translated run: {cause}"))?;
        if let Some(line) = ended.stderr.lines().find(|line| line.starts_with("relive: ")) {
            return Err(format!("not all of it was translated: {line}"));
        }
        if !self.guest.varies && ended.stdout != self.native()?.stdout {
            return Err(format!("translated it is another program\n{}", ended.text()));
        }
        if self.guest.replay != Promise::Same {
            return Ok(());
        }
        let recording = self.record()?;
        self.as_recorded(&recording, &recording.replay(&["--dbi"]))
    }

    fn native(&self) -> Result<Ended, String> {
        let ended = self.program.native(&self.arguments, self.stage);
        self.expected(&ended).map(|()| ended)
    }

    fn record(&self) -> Result<Recording, String> {
        let recording = self.program.record(&self.arguments, self.stage);
        self.expected(&recording.ended).map_err(|cause| format!("recorded run: {cause}"))?;
        match (complaint(&recording.ended), &self.guest.says) {
            (None, None) => Ok(recording),
            (Some(line), Some(words)) if line.contains(words.as_str()) => Ok(recording),
            (Some(line), _) => Err(format!("the recording is not whole: {line}")),
            (None, Some(words)) => Err(format!("the recorder never said `{words}`\n{}", recording.ended.stderr)),
        }
    }

    fn expected(&self, ended: &Ended) -> Result<(), String> {
        if ended.status.is_some_and(|status| self.guest.status.contains(&status)) {
            return Ok(());
        }
        let expected = &self.guest.status;
        Err(format!("{}, expected one of {expected:?}\n{}{}", ended.status_text(), ended.text(), ended.complaints()))
    }

    /// Debug information tells all accesses that are atomic: each replay is as the recording, whatever the guest promises else.
    fn is_told(&self) -> Result<(), String> {
        let recording = self.record()?;
        (0..REPLAYS_WITH_ENVIRONMENT).try_for_each(|_| self.as_recorded(&recording, &recording.replay(&[])))
    }

    /// What races is learnt, and recordings replay then. One in which threads did what they never did before may diverge,
    /// in each replay or in some; but none gives another result.
    fn learns(&self) -> Result<(), String> {
        for _ in 0..LESSONS {
            let ended = self.program.learn(&self.arguments, self.stage);
            self.expected(&ended).map_err(|cause| format!("while it was learnt: {cause}"))?;
            let recording = self.record()?;
            let replayed: Vec<Ended> = (0..REPLAYS_WITH_ENVIRONMENT).map(|_| recording.replay(&[])).collect();
            replayed
                .iter()
                .filter(|replayed| !reported(replayed))
                .try_for_each(|it| self.as_recorded(&recording, it))?;
            if !replayed.iter().any(reported) {
                return Ok(());
            }
        }
        Err(format!("{LESSONS} recordings diverged, whatever was learnt before"))
    }

    fn replays(&self, count: usize) -> Result<(), String> {
        let recording = self.record()?;
        for number in 1..=count {
            let replayed = recording.replay(&[]);
            if self.guest.replay == Promise::MayDiverge && reported(&replayed) {
                // Its other replays would take the watch's patience each, and say the same.
                return Ok(());
            }
            if let Err(cause) = self.as_recorded(&recording, &replayed) {
                let place = if std::env::var_os("RELIVE_TEST_KEEP").is_some() {
                    format!(" (trace kept in {})", recording.keep().display())
                } else {
                    String::new()
                };
                return Err(format!("replay {number}{place}: {cause}"));
            }
        }
        Ok(())
    }

    /// The replay did the same, said why it stopped where the recording was killed, and left what it learnt.
    fn as_recorded(&self, recording: &Recording, replayed: &Ended) -> Result<(), String> {
        if self.guest.replay == Promise::Beginning {
            return beginning(&recording.ended, replayed);
        }
        same(&recording.ended, replayed)?;
        // It met the same end itself, or was stopped behind the last event.
        let said = ["as recorded", "the recording ends here"].iter().any(|words| replayed.stderr.contains(words));
        if recording.ended.status > Some(128) && !said {
            return Err(format!("the replay did not say why it ended\n{}", replayed.complaints()));
        }
        let learns = self.guest.replay == Promise::Same;
        if learns && !recording.trace().join(LEARNT).exists() && !(self.stage.environment && recording.was_struck()) {
            return Err(format!("the first replay left no {LEARNT}\n{}", replayed.complaints()));
        }
        Ok(())
    }
}

/// The replay stopped where the recording did, and said so.
fn beginning(recorded: &Ended, replayed: &Ended) -> Result<(), String> {
    let stopped = replayed.stderr.contains("relive: the recording ends here");
    if stopped && replayed.status == recorded.status && recorded.stdout.starts_with(&replayed.stdout) {
        return Ok(());
    }
    Err(format!(
        "{} is not how the recording begins\n{}{}",
        replayed.status_text(),
        replayed.text(),
        replayed.complaints()
    ))
}

/// What the recorder says beside where it put the trace: then something was not recorded.
fn complaint(recorded: &Ended) -> Option<&str> {
    let harmless = |line: &str| {
        line.starts_with("relive: recorded to ")
            || line.contains(" is shared memory: ")
            || line.contains(" by futex calls of their own, ")
    };
    recorded.stderr.lines().find(|line| line.starts_with("relive: ") && !harmless(line))
}

/// A divergence report: the tool's own exit status, and its word about it.
fn reported(replayed: &Ended) -> bool {
    replayed.status == Some(TOOL_FAILED) && replayed.stderr.lines().any(|line| line.starts_with("relive: "))
}
