//! The watch over slots and kernel states that no real process has to produce.

use super::{
    BIRTH_MAX, BLOCKED_MAX, DOZING, FUTEX, IN_VAIN_MAX, Kernel, OUTSIDE_MIN, Stuck, TICK, Verdict, WORKING, Watch,
};
use crate::processes::{SystemCall, ThreadState};
use crate::shared::{Setup, Shared};
use relive_trace::control::{TurnSlot, mode, turn};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

#[derive(Default)]
struct Scene {
    threads: RefCell<BTreeMap<u32, ThreadState>>,
    calls: RefCell<BTreeMap<u32, SystemCall>>,
}

impl Kernel for Scene {
    fn state(&self, _: u32, tid: u32) -> Option<ThreadState> {
        self.threads.borrow().get(&tid).copied()
    }

    fn call(&self, _: u32, tid: u32) -> Option<SystemCall> {
        self.calls.borrow().get(&tid).copied()
    }
}

struct Stage {
    shared: Shared,
    scene: Scene,
    watch: Watch,
    now: Instant,
}

impl Stage {
    /// Each thread: state, events, total.
    fn new(threads: &[(u32, u64, u64)], recorded: Duration) -> Self {
        let setup = Setup {
            mode: mode::REPLAY,
            flags: 0,
            folder: Path::new("/"),
            source: Path::new("/"),
            thread_count: threads.len() as u32,
            plan_bytes: 0,
            races: None,
            cpuid: &[],
        };
        let shared = Shared::new(&setup).unwrap();
        let scene = Scene::default();
        for (index, (slot, &(state, events, total))) in shared.turns().iter().zip(threads).enumerate() {
            let tid = index as u32 + 1;
            slot.state.store(state, Relaxed);
            slot.events.store(events, Relaxed);
            slot.awaited.next.store(if events < total { events + 1 } else { u64::MAX }, Relaxed);
            slot.tid.store(tid, Relaxed);
            scene.threads.borrow_mut().insert(tid, ThreadState { letter: 'S', ticks: 0 });
        }
        let now = Instant::now();
        let watch = Watch::new(threads.iter().map(|thread| thread.2).collect(), recorded, false, now);
        Self { shared, scene, watch, now }
    }

    fn slot(&self, index: usize) -> &TurnSlot {
        &self.shared.turns()[index]
    }

    fn waits(self, index: usize, other: u32, wants: u64) -> Self {
        self.slot(index).waits_for.store(other, Relaxed);
        self.slot(index).wants.store(wants, Relaxed);
        self
    }

    /// Looks for `time`; `each` runs before every look. The first verdict other than `Going`, and when.
    fn watch(&mut self, time: Duration, each: impl Fn(&Stage)) -> (Verdict, Duration) {
        let start = self.now;
        while self.now - start < time {
            each(self);
            let verdict = self.watch.look(self.shared.turns(), &self.scene, self.now);
            if verdict != Verdict::Going {
                return (verdict, self.now - start);
            }
            self.now += TICK;
        }
        (Verdict::Going, time)
    }

    fn burn(&self, tid: u32, ticks: u64) {
        let mut threads = self.scene.threads.borrow_mut();
        let state = threads.get_mut(&tid).unwrap();
        *state = ThreadState { letter: 'R', ticks: state.ticks + ticks };
    }
}

const LONG: Duration = Duration::from_secs(60);
const BRIEF: Duration = Duration::from_millis(10);
const LIMIT: Duration = Duration::from_secs(2);

#[test]
fn threads_that_wait_for_each_other_are_stuck_within_two_seconds() {
    let stage = Stage::new(&[(turn::WAITING, 1, 5), (turn::WAITING, 2, 5)], BRIEF);
    let (verdict, after) = stage.waits(0, 1, 9).waits(1, 0, 9).watch(LONG, |_| ());
    assert_eq!(verdict, Verdict::Stuck(Stuck::AllWait { thread: 0 }));
    assert!(after < LIMIT);
}

#[test]
fn where_one_is_in_a_call_the_others_are_given_longer() {
    let waiting = [(turn::WAITING, 1, 5), (turn::WAITING, 2, 5)];
    let (_, all_wait) = Stage::new(&waiting, BRIEF).waits(0, 1, 9).waits(1, 0, 9).watch(LONG, |_| ());
    let in_a_call = [(turn::WAITING, 1, 5), (turn::BLOCKED, 2, 5)];
    let (verdict, one_is) = Stage::new(&in_a_call, BRIEF).waits(0, 1, 9).watch(LONG, |_| ());
    assert_eq!(verdict, Verdict::Stuck(Stuck::AllWait { thread: 0 }));
    assert!(all_wait < BLOCKED_MAX && one_is >= BLOCKED_MAX && one_is < LIMIT, "{all_wait:?}, {one_is:?}");
}

#[test]
fn a_program_may_take_its_time_to_start_on_a_busy_machine() {
    let (verdict, after) = Stage::new(&[(turn::UNBORN, 0, 5), (turn::UNBORN, 0, 2)], BRIEF).watch(LONG, |_| ());
    assert_eq!(verdict, Verdict::Stuck(Stuck::AllWait { thread: 0 }));
    assert!(after >= Duration::from_secs(10));
}

#[test]
fn a_thread_that_was_announced_and_never_comes_holds_nobody_up_for_good() {
    let threads = [(turn::WAITING, 1, 5), (turn::RUNNING, 0, 0)];
    let stage = Stage::new(&threads, BRIEF);
    stage.slot(1).tid.store(0, Relaxed);
    let (verdict, after) = stage.waits(0, 1, 9).watch(LONG, |_| ());
    assert_eq!(verdict, Verdict::Stuck(Stuck::AllWait { thread: 0 }));
    assert!(after >= BIRTH_MAX);
}

#[test]
fn progress_puts_the_verdict_off() {
    let mut stage = Stage::new(&[(turn::WAITING, 1, 500), (turn::WAITING, 2, 5)], BRIEF);
    let (verdict, _) = stage.watch(LONG / 2, |stage| {
        stage.slot(0).events.fetch_add(1, Relaxed);
    });
    assert_eq!(verdict, Verdict::Going);
}

#[test]
fn a_thread_that_gets_no_processor_is_never_convicted() {
    let mut stage = Stage::new(&[(turn::RUNNING, 1, 5), (turn::WAITING, 2, 5)], BRIEF).waits(1, 0, 9);
    assert_eq!(stage.watch(LONG, |stage| stage.burn(1, 0)).0, Verdict::Going);
    // Nor one that woke to look for what no slot tells.
    let all_wait = [(turn::WAITING, 1, 5), (turn::WAITING, 2, 5)];
    let mut stage = Stage::new(&all_wait, BRIEF).waits(0, 1, 9).waits(1, 0, 9);
    assert_eq!(stage.watch(LONG, |stage| stage.burn(1, 0)).0, Verdict::Going);
    let mut stage = Stage::new(&all_wait, BRIEF).waits(0, 1, 9).waits(1, 0, 9);
    assert_eq!(stage.watch(LONG, |_| ()).0, Verdict::Stuck(Stuck::AllWait { thread: 0 }));
}

#[test]
fn a_thread_that_burns_processor_time_outside_is_convicted_by_the_recordings_length() {
    let threads = [(turn::WAITING, 2, 5), (turn::RUNNING, 1, 5)];
    let (verdict, after) = Stage::new(&threads, BRIEF).waits(0, 1, 9).watch(LONG, |stage| stage.burn(2, 10));
    assert_eq!(verdict, Verdict::Stuck(Stuck::Spins { thread: 1 }));
    assert!(after < LIMIT);
    let recorded = Duration::from_secs(10);
    let (verdict, after) = Stage::new(&threads, recorded).waits(0, 1, 9).watch(LONG, |stage| stage.burn(2, 10));
    assert_eq!(verdict, Verdict::Stuck(Stuck::Spins { thread: 1 }));
    assert!(after >= 2 * recorded);
}

#[test]
fn a_thread_that_sleeps_outside_is_convicted_unless_another_one_computes() {
    let mut stage = Stage::new(&[(turn::RUNNING, 1, 5), (turn::RUNNING, 1, 5)], BRIEF);
    assert_eq!(stage.watch(LONG, |stage| stage.burn(2, 0)).0, Verdict::Going);
    stage.scene.threads.borrow_mut().get_mut(&2).unwrap().letter = 'S';
    stage.slot(1).events.fetch_add(1, Relaxed);
    assert_eq!(stage.watch(LONG, |_| ()).0, Verdict::Stuck(Stuck::Sleeps { thread: 0 }));
}

#[test]
fn a_thread_that_ran_at_the_first_look_and_sleeps_from_then_on_is_convicted() {
    let mut stage = Stage::new(&[(turn::WAITING, 2, 5), (turn::RUNNING, 1, 5)], BRIEF).waits(0, 1, 9);
    assert_eq!(stage.watch(3 * TICK, |stage| stage.burn(2, 1)).0, Verdict::Going);
    stage.scene.threads.borrow_mut().get_mut(&2).unwrap().letter = 'S';
    let (verdict, after) = stage.watch(LONG, |_| ());
    assert_eq!(verdict, Verdict::Stuck(Stuck::Sleeps { thread: 1 }));
    assert!(after < LIMIT);
}

#[test]
fn a_thread_that_sleeps_and_works_by_turns_does_not_sleep() {
    let mut stage = Stage::new(&[(turn::WAITING, 2, 5), (turn::RUNNING, 1, 5)], Duration::from_secs(60)).waits(0, 1, 9);
    let wakes = |stage: &Stage| {
        let mut threads = stage.scene.threads.borrow_mut();
        threads.get_mut(&2).unwrap().ticks += 1;
    };
    assert_eq!(stage.watch(4 * LONG, wakes).0, Verdict::Going);
}

#[test]
fn a_thread_gone_with_events_left_is_missed_and_one_without_is_not() {
    let mut stage = Stage::new(&[(turn::RUNNING, 5, 5), (turn::WAITING, 1, 5)], BRIEF);
    stage.scene.threads.borrow_mut().remove(&2);
    assert_eq!(stage.watch(LONG, |_| ()).0, Verdict::Stuck(Stuck::Vanished { thread: 1 }));
    let mut stage = Stage::new(&[(turn::RUNNING, 5, 5), (turn::PARKED, 5, 5)], BRIEF);
    stage.scene.threads.borrow_mut().remove(&1);
    assert_eq!(stage.watch(LONG, |_| ()).0, Verdict::AtEnd);
}

#[test]
fn a_thread_that_could_go_on_but_gets_no_processor_acquits_all() {
    let mut stage = Stage::new(&[(turn::RUNNING, 1, 5), (turn::BLOCKED, 1, 5)], BRIEF);
    assert_eq!(stage.watch(LONG, |stage| stage.burn(2, 0)).0, Verdict::Going);
    let mut stage = Stage::new(&[(turn::WAITING, 1, 5), (turn::BLOCKED, 1, 5)], BRIEF).waits(0, 1, 9);
    assert_eq!(stage.watch(LONG, |stage| stage.burn(2, 0)).0, Verdict::Going);
    let mut stage = Stage::new(&[(turn::WAITING, 1, 5), (turn::ENDED, 5, 5)], BRIEF).waits(0, 1, 5);
    assert_eq!(stage.watch(LONG, |stage| stage.burn(1, 0)).0, Verdict::Going);
}

#[test]
fn a_pause_of_the_whole_session_convicts_nobody() {
    let mut stage = Stage::new(&[(turn::WAITING, 1, 5), (turn::WAITING, 2, 5)], BRIEF).waits(0, 1, 9).waits(1, 0, 9);
    assert_eq!(stage.watch(2 * TICK, |_| ()).0, Verdict::Going);
    stage.now += LONG;
    assert_eq!(stage.watch(2 * TICK, |_| ()).0, Verdict::Going);
    assert_eq!(stage.watch(LONG, |_| ()).0, Verdict::Stuck(Stuck::AllWait { thread: 0 }));
}

#[test]
fn a_thread_that_ended_early_is_named_and_not_the_one_that_waits_for_it() {
    let stage = Stage::new(&[(turn::WAITING, 1, 5), (turn::ENDED, 2, 5)], BRIEF);
    let (verdict, after) = stage.waits(0, 1, 9).watch(LONG, |_| ());
    assert_eq!(verdict, Verdict::Stuck(Stuck::Vanished { thread: 1 }));
    assert!(after < LIMIT);
}

#[test]
fn the_end_is_where_all_events_have_run_and_nobody_runs_on() {
    let threads = [(turn::PARKED, 5, 5), (turn::BLOCKED, 3, 3), (turn::ENDED, 2, 2), (turn::UNBORN, 0, 0)];
    assert_eq!(Stage::new(&threads, BRIEF).watch(LONG, |_| ()).0, Verdict::AtEnd);
}

#[test]
fn parked_threads_with_an_unborn_one_missing_are_stuck() {
    let threads = [(turn::PARKED, 5, 5), (turn::UNBORN, 0, 3)];
    let (verdict, _) = Stage::new(&threads, BRIEF).watch(LONG, |_| ());
    assert_eq!(verdict, Verdict::Stuck(Stuck::AllWait { thread: 1 }));
}

#[test]
fn calls_count_as_progress_and_have_to_come_to_their_end() {
    let mut stage = Stage::new(&[(turn::RUNNING, 5, 5), (turn::RUNNING, 0, 0)], BRIEF);
    stage.watch.have_calls[0] = true;
    stage.slot(0).calls.fetch_add(1, Relaxed);
    assert_eq!(stage.watch(LONG, |stage| stage.burn(1, 0)).0, Verdict::Going);
    assert!(stage.watch.standstill(stage.now) >= LONG / 2);
    stage.slot(0).calls.fetch_add(1, Relaxed);
    assert_eq!(stage.watch(TICK, |_| ()).0, Verdict::Going);
    assert!(stage.watch.standstill(stage.now) <= 2 * TICK);
    let ends = |stage: &Stage| stage.watch.calls_complete(stage.shared.turns(), &stage.scene);
    assert!(!ends(&stage));
    stage.slot(0).is_done.store(1, Relaxed);
    assert!(ends(&stage));
    stage.slot(0).is_done.store(0, Relaxed);
    stage.scene.threads.borrow_mut().remove(&1);
    assert!(ends(&stage), "who is gone needs none");
}

#[test]
fn who_runs_or_writes_is_not_idle() {
    let mut stage = Stage::new(&[(turn::RUNNING, 5, 5)], BRIEF);
    let start = stage.now;
    stage.watch(LONG, |stage| stage.burn(1, 0));
    let (first, later, last) = (start + LONG / 4, start + LONG / 2, start + LONG);
    assert_eq!(stage.watch.idle(true, 0, first), Duration::ZERO);
    assert_eq!(stage.watch.idle(false, 0, later), LONG / 4);
    assert_eq!(stage.watch.idle(false, 7, later), Duration::ZERO);
    assert_eq!(stage.watch.idle(false, 7, last), LONG / 2);
}

#[test]
fn a_thread_that_waited_in_vain_before_is_convicted_soon() {
    let look = |stage: &Stage| {
        stage.burn(2, 10);
        stage.slot(1).looked.fetch_add(1, Relaxed);
    };
    let stage = |events| {
        let mut stage = Stage::new(&[(turn::WAITING, 2, 5), (turn::RUNNING, 1, 5)], BRIEF).waits(0, 1, 9);
        stage.watch = stage.watch.expecting(Some((1, events)));
        stage
    };
    let (verdict, after) = stage(1).watch(LONG, look);
    assert_eq!(verdict, Verdict::Stuck(Stuck::Spins { thread: 1 }));
    assert!(after >= IN_VAIN_MAX && after < IN_VAIN_MAX * 2, "{after:?}");
    assert!(stage(2).watch(LONG, look).1 >= OUTSIDE_MIN * WORKING, "it is not there yet");
}

#[test]
fn a_thread_for_which_the_detector_works_is_convicted_much_later() {
    let threads = [(turn::WAITING, 2, 5), (turn::RUNNING, 1, 5)];
    let look = |stage: &Stage| {
        stage.burn(2, 10);
        stage.slot(1).looked.fetch_add(1, Relaxed);
    };
    let (verdict, after) = Stage::new(&threads, BRIEF).waits(0, 1, 9).watch(LONG, look);
    assert_eq!(verdict, Verdict::Stuck(Stuck::Spins { thread: 1 }));
    assert!(after >= OUTSIDE_MIN * WORKING && after < LONG, "{after:?}");
    let mut many = Stage::new(&threads, BRIEF).waits(0, 1, 9);
    many.watch = many.watch.watching(1_000_000);
    assert_eq!(many.watch(OUTSIDE_MIN * (WORKING + 10), look).0, Verdict::Going);
}

#[test]
fn a_thread_that_sleeps_between_what_the_detector_looks_at_is_convicted_soon() {
    let threads = [(turn::WAITING, 2, 5), (turn::RUNNING, 1, 5)];
    let look = |letter: char| {
        move |stage: &Stage| {
            stage.burn(2, 1);
            stage.scene.threads.borrow_mut().get_mut(&2).unwrap().letter = letter;
            stage.slot(1).looked.fetch_add(1, Relaxed);
        }
    };
    let (verdict, after) = Stage::new(&threads, BRIEF).waits(0, 1, 9).watch(LONG, look('S'));
    assert_eq!(verdict, Verdict::Stuck(Stuck::Spins { thread: 1 }));
    assert!(after >= OUTSIDE_MIN && after < OUTSIDE_MIN * 2, "{after:?}");
    // One that gets no more of a busy machine is ready to go on.
    let (verdict, _) = Stage::new(&threads, BRIEF).waits(0, 1, 9).watch(OUTSIDE_MIN * 15, look('R'));
    assert_eq!(verdict, Verdict::Going);
}

const POLL: i64 = 7;

#[test]
fn a_thread_that_dozes_in_its_loop_is_convicted_soon_and_one_in_another_call_is_not() {
    let threads = [(turn::WAITING, 2, 5), (turn::RUNNING, 1, 5)];
    let stage = |call| {
        let stage = Stage::new(&threads, BRIEF).waits(0, 1, 9);
        stage.scene.calls.borrow_mut().insert(2, SystemCall { number: call, first: 0, stack: 0, place: 0 });
        stage
    };
    // Little by little, and mostly asleep.
    let step = Cell::new(0);
    let doze = |stage: &Stage| {
        step.set(step.get() + 1);
        stage.burn(2, u64::from(step.get() % 5 == 0));
        stage.scene.threads.borrow_mut().get_mut(&2).unwrap().letter = 'S';
    };
    let (verdict, after) = stage(FUTEX).watch(LONG, doze);
    assert_eq!(verdict, Verdict::Stuck(Stuck::Spins { thread: 1 }));
    assert!(after >= OUTSIDE_MIN * DOZING && after < OUTSIDE_MIN * (DOZING + 1), "{after:?}");
    assert_eq!(stage(POLL).watch(OUTSIDE_MIN * (DOZING + 1), doze).0, Verdict::Going);
}
