//! From the started program to the end of the replay, and what kind of end it was.

use super::{
    BTreeSet, Duration, End, Held, Instant, Outcome, Proc, Replayer, Report, Rule, Scene, Service, Shared, Signal,
    Stuck, TICK, Verdict, Watch, Watched, Woken, io, processes, processes_of,
};
use relive_trace::control::{IN_USE, TurnSlot, cause, claim, flag, turn};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::cell::OnceCell;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// How a replay ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As the recording did, by itself.
    AsRecorded(Outcome),
    /// It was stopped where the recording ends: the process had been killed (or its recorder, without an outcome).
    RecordingEnds(Option<Outcome>),
    /// Its one process can't be replayed alone: this one shares writable memory with others.
    Shares {
        /// It, or one that its memory comes from.
        process: u32,
    },
    /// It went another way.
    Diverged(Box<Report>),
    /// The user ended it with this signal.
    Interrupted(i32),
    /// What it shows can't be written any more, for this reason: mostly that nobody reads it (`EPIPE`).
    Unread(Errno),
}

/// After all that was recorded of a process that was killed from outside, what it still computes can't be told from what
/// it would have done later.
const AFTER_KILL: Duration = Duration::from_millis(300);
/// Everything has run, nothing moves, and yet the program does not end as it did.
const AFTER_EXIT: Duration = Duration::from_millis(900);
/// So many times longer than recorded a translated thread may compute.
const TRANSLATED: u32 = 8;
/// Likewise one whose accesses are looked at.
const SEARCHED: u32 = 25;
/// So long may other threads go on after a divergence while races are looked for.
const OTHERS_MAX: Duration = Duration::from_secs(10);
/// So long processes may tell of races before they end, more than they wait for their threads.
const TELLING_MAX: Duration = Duration::from_secs(10);
/// How often they are looked at, and at how many looks in a row nobody runs: they have stopped.
const LOOK: Duration = Duration::from_millis(20);
const STILL: u32 = 5;
/// How a program ends that writes to a pipe that nobody reads.
const UNREAD: Outcome = Outcome::Killed(13);
/// Signals that a program's own doing raises.
const OWN_SIGNALS: [i32; 10] = [4, 5, 6, 7, 8, 11, 13, 24, 25, 31];

pub(super) struct Run<'a> {
    pub(super) replayer: &'a Replayer,
    pub(super) shared: &'a Shared,
    pub(super) watched: &'a Watched,
    pub(super) held: &'a Held,
    pub(super) service: &'a Service,
    pub(super) rule: &'a Rule,
    pub(super) passed: OnceCell<Report>,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        replayer: &'a Replayer,
        shared: &'a Shared,
        watched: &'a Watched,
        held: &'a Held,
        service: &'a Service,
        rule: &'a Rule,
    ) -> Self {
        Self { replayer, shared, watched, held, service, rule, passed: OnceCell::new() }
    }
}

impl Run<'_> {
    pub(super) fn to_the_end(&self) -> io::Result<Ending> {
        let mut watch = self.watch();
        loop {
            let ending = match self.watched.wait(self.held, Some(self.service.alarm()), Some(TICK))? {
                Woken::Ended(outcome) => return Ok(self.after_first(outcome, &mut watch)),
                Woken::Alarm => {
                    if self.replayer.instrument.races.is_some() {
                        self.let_others_go_on();
                    }
                    Some(self.reported())
                }
                Woken::Tick if self.unread().is_some() => self.unread(),
                Woken::Tick if self.held.end().is_some() => return Ok(self.interrupted()),
                Woken::Tick => self.look(&mut watch),
            };
            if let Some(ending) = ending {
                if self.replayer.instrument.races.is_some() {
                    self.let_them_tell();
                }
                self.watched.kill();
                return Ok(ending);
            }
        }
    }

    /// The user wants an end, which the program's own handler of that signal would not be.
    fn interrupted(&self) -> Ending {
        self.watched.kill();
        Ending::Interrupted(self.held.end().expect("a signal came"))
    }

    /// Until every other thread waits, too: the race for which one diverged may have its second access still to come.
    fn let_others_go_on(&self) {
        let end = Instant::now() + OTHERS_MAX;
        let mut still = 0;
        while still < STILL && Instant::now() < end {
            std::thread::sleep(LOOK);
            still = if self.any_runs() { 0 } else { still + 1 };
        }
    }

    /// Ends every process of the replay by the signal behind which it tells what it did last, as far as that can be.
    fn let_them_tell(&self) {
        let pids = processes_of(self.shared);
        for &pid in &pids {
            processes::signal(pid, Signal::SYS);
        }
        let end = Instant::now() + TELLING_MAX;
        while pids.iter().any(|&pid| processes::alive(pid)) && Instant::now() < end {
            std::thread::sleep(TICK / 10);
        }
    }

    fn any_runs(&self) -> bool {
        let used = self.shared.turns().iter().filter(|slot| slot.tid.load(Acquire) != 0);
        let state = |slot: &TurnSlot| processes::thread_state(slot.pid.load(Acquire), slot.tid.load(Acquire));
        used.filter_map(state).any(|state| state.letter == 'R')
    }

    pub(super) fn watch(&self) -> Watch {
        let totals = self.replayer.cast.totals(self.replayer.recording());
        let slower = match &self.replayer.instrument {
            instrument if instrument.races.is_some() => SEARCHED,
            instrument if instrument.flags & flag::TRANSLATED != 0 => TRANSLATED,
            _ => 1,
        };
        let have_calls = self.replayer.cast.have_calls(self.replayer.recording());
        let watch = Watch::new(totals, self.replayer.duration() * slower, self.rule.is_derived(), Instant::now());
        let instrument = &self.replayer.instrument;
        watch.with_calls(have_calls).watching(instrument.watched).expecting(instrument.in_vain)
    }

    /// What the watch finds now. At the recording's end it finds something only if what would come then is not in the recording.
    pub(super) fn verdict(&self, watch: &mut Watch) -> Verdict {
        match watch.look(self.shared.turns(), &Proc, Instant::now()) {
            Verdict::AtEnd if !self.cut_short() => Verdict::Going,
            verdict => verdict,
        }
    }

    /// The first process ended; others of the recording may still have to.
    fn after_first(&self, outcome: Outcome, watch: &mut Watch) -> Ending {
        let is_left_out = self.shared.control().left_out.load(Acquire) == self.watched.pid();
        let outcome = self.recorded().filter(|_| is_left_out).unwrap_or(outcome);
        if let (Some(signal), true) = (self.held.last(), Some(outcome) != self.recorded()) {
            return Ending::Interrupted(signal);
        }
        if outcome == UNREAD && Some(outcome) != self.recorded() && is_pipe_broken() {
            return Ending::Unread(Errno::PIPE);
        }
        if let Some(unread) = self.unread() {
            return unread;
        }
        let alarmed = || self.shared.control().divergence.claimed.load(Acquire) == claim::COMPLETE;
        while self.others_live() && !alarmed() {
            if let Some(unread) = self.unread() {
                return unread;
            }
            if let Some(signal) = self.held.last().and(self.held.end()) {
                return Ending::Interrupted(signal);
            }
            let Some(ending) = self.look(watch) else {
                std::thread::sleep(TICK / 10);
                continue;
            };
            // Those that outlive the first process, as agents do, end here.
            if self.replayer.instrument.races.is_some() {
                self.let_them_tell();
            }
            match ending {
                Ending::RecordingEnds(_) => break,
                ending => return ending,
            }
        }
        if alarmed() {
            return self.reported();
        }
        self.compare(outcome, watch)
    }

    fn unread(&self) -> Option<Ending> {
        let error = self.shared.control().unread.load(Relaxed);
        (error != 0).then(|| Ending::Unread(Errno::from_raw_os_error(error.cast_signed())))
    }

    fn compare(&self, outcome: Outcome, watch: &Watch) -> Ending {
        match self.recorded() {
            Some(recorded) if recorded != outcome => diverged(self.scene().ended(recorded, outcome)),
            Some(Outcome::Killed(_)) => Ending::AsRecorded(outcome),
            _ if watch.complete(self.shared.turns()) => Ending::AsRecorded(outcome),
            _ => {
                let totals = self.replayer.cast.totals(self.replayer.recording());
                self.scene().incomplete(&totals).map_or(Ending::AsRecorded(outcome), diverged)
            }
        }
    }

    fn look(&self, watch: &mut Watch) -> Option<Ending> {
        self.hear();
        let now = Instant::now();
        let turns = self.shared.turns();
        let verdict = watch.look(turns, &Proc, now);
        let complete = watch.complete(turns) && watch.calls_complete(turns, &Proc);
        let still = watch.standstill(now);
        let here = || Some(Ending::RecordingEnds(self.recorded()));
        match verdict {
            Verdict::AtEnd if self.cut_short() => here(),
            Verdict::AtEnd if still >= AFTER_EXIT => Some(diverged(self.scene().stuck(self.going_on()))),
            Verdict::Stuck(_) if (complete && self.cut_short()) || self.lacks_processes() => here(),
            Verdict::Stuck(stuck) => Some(diverged(self.scene().stuck(stuck))),
            Verdict::Going if complete && self.killed_from_outside() && self.has_done_enough(watch, now) => here(),
            Verdict::Going if complete && self.is_cut() && self.rests(watch, now) => here(),
            // Threads that go on without any operation, a little at a time, neither rest nor spin.
            Verdict::Going if complete && self.is_cut() && still >= watch.patience_outside() => here(),
            Verdict::Going | Verdict::AtEnd => None,
        }
    }

    /// Whether a program that was killed has come as far as it had.
    ///
    /// Without its environment nothing says how far that was: one that goes on without an operation gets the time that the
    /// recording took.
    fn has_done_enough(&self, watch: &mut Watch, now: Instant) -> bool {
        let still = watch.standstill(now) >= AFTER_KILL;
        if self.replayer.recording().manifest.environment_recorded {
            return still;
        }
        let rests = self.rests(watch, now);
        still && (rests || watch.elapsed(now) >= self.replayer.duration())
    }

    /// Whether for a while nobody has run, nor written anything.
    fn rests(&self, watch: &mut Watch, now: Instant) -> bool {
        let pids: BTreeSet<u32> = self.shared.turns().iter().map(|slot| slot.pid.load(Acquire)).collect();
        let written = pids.into_iter().filter(|&pid| pid != 0).map(processes::bytes_written).sum();
        watch.idle(self.any_runs(), written, now) >= AFTER_KILL
    }

    /// Everything recorded has run, but the program does not end.
    fn going_on(&self) -> Stuck {
        let parked = self.shared.turns().iter().position(|slot| slot.state.load(Acquire) == turn::PARKED);
        parked.map_or(Stuck::AllWait { thread: 0 }, |thread| Stuck::GoesOn { thread: thread as u32 })
    }

    /// The recording of some process ends before the process did.
    fn cut_short(&self) -> bool {
        !matches!(self.recorded(), Some(Outcome::Exited(_)))
            || self.is_cut()
            || self.replayer.cast.processes(self.replayer.recording()).any(|process| process.end == End::Live)
    }

    /// Of some process there was no space for even its beginning: whoever waits for what it did waits for good.
    fn lacks_processes(&self) -> bool {
        let recording = self.replayer.recording();
        recording.manifest.files.iter().any(|file| recording.process(file.process).is_none())
    }

    fn is_cut(&self) -> bool {
        self.replayer.recording().cut().is_some()
    }

    fn killed_from_outside(&self) -> bool {
        match self.recorded() {
            Some(Outcome::Killed(signal)) => !OWN_SIGNALS.contains(&signal),
            Some(Outcome::Exited(_)) => false,
            None => true,
        }
    }

    /// Processes of the session that still live, the first one aside, which was waited for.
    fn others_live(&self) -> bool {
        let used = self.shared.control().processes.iter().filter(|slot| slot.state.load(Acquire) == IN_USE);
        used.map(|slot| slot.pid.load(Acquire)).any(|pid| pid != self.watched.pid() && processes::alive(pid))
            || self.somebody_is_born()
    }

    /// A process of the recording was made, and has not come to say who it is.
    fn somebody_is_born(&self) -> bool {
        let (recording, turns) = (self.replayer.recording(), self.shared.turns());
        let mut first =
            self.replayer.cast.processes(recording).filter_map(|process| turns.get(process.main_thread as usize));
        first.any(|slot| slot.state.load(Acquire) == turn::RUNNING && slot.tid.load(Acquire) == 0)
    }

    /// How the process that the replay is for ended in the recording, if that is known.
    pub(super) fn recorded(&self) -> Option<Outcome> {
        self.replayer.cast.recorded(self.replayer.recording())
    }

    /// What a process said before it stopped.
    fn reported(&self) -> Ending {
        let met = &self.shared.control().divergence;
        let process = self.replayer.recording().process_of(met.thread.load(Acquire));
        match process.filter(|_| met.cause.load(Acquire) == cause::SHARED) {
            Some(process) => Ending::Shares { process: process.index },
            None => diverged(self.scene().reported(met)),
        }
    }

    pub(super) fn scene(&self) -> Scene<'_> {
        Scene::new(self.replayer.recording(), self.shared, self.rule.is_derived(), self.replayer.recorded())
    }
}

/// Whether our output is a pipe that nobody reads. Without a recorded environment the program writes there itself.
fn is_pipe_broken() -> bool {
    let output = io::stdout();
    let mut looked = [PollFd::new(&output, PollFlags::OUT)];
    poll(&mut looked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok() && looked[0].revents().contains(PollFlags::ERR)
}

fn diverged(report: Report) -> Ending {
    Ending::Diverged(Box::new(report))
}
