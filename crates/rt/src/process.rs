//! The life of processes and threads: start-up, creation, fork, end.
//!
//! A parent's and a child's clocks are tied at both ends: the child starts with
//! the timestamp of its creation, the joiner takes over the child's final clock.
//! The creation is recorded before it takes effect; were it the other way round,
//! a kill in between would leave a child's events without their cause.

mod cloning;
mod ending;
mod finishing;

use crate::environment::{self, alone, stacks};
use crate::limit;
use crate::link::{FromEnvironment, Link};
use crate::races;
use crate::record;
use crate::replay;
use crate::report;
use crate::runtime::{self, AttachError, Mode, mode_of_session::SessionMode};
use crate::thread::{self, Thread};
use crate::{arena, chunk, writer};
use core::sync::atomic::{AtomicBool, Ordering};
use relive_order::Kind;
use relive_sys::{barrier, dispatch, outside, syscall, tls};
use relive_trace::control::{cause, flag, turn as state};
use relive_trace::layout::{NONE, stop};

use cloning::starts_at;

pub use cloning::about_to_clone;
pub use ending::{ended, exiting, gone, has_done_all, leaves_image, stays_in_image, wait_for_all, wait_until_alone};
pub use finishing::thread_finished;

/// Joins the session that the environment names, if any. Once, before any other thread exists.
pub fn start(environment: FromEnvironment) {
    let Some(path) = environment.control else { return };
    match runtime::attach(path) {
        Ok(SessionMode::Record) => start_recording(environment.link),
        Ok(SessionMode::Replay) => start_replaying(environment.link),
        Err(why) => {
            let why = match why {
                AttachError::Gone => "the recorder is gone",
                AttachError::Version => "it was started by another version of relive",
                AttachError::Full => "too many processes record at once",
                AttachError::Emulated => "Valgrind carries it out, which knows no dispatch of system calls",
                // Without this image neither may the event be in the recording that began it.
                AttachError::Enough => {
                    return limit::end_before(environment.link.map_or(0, |link| link.clock));
                }
            };
            report::line(format_args!("process {} is not recorded: {why}", syscall::getpid()));
        }
    }
}

fn start_recording(link: Option<Link>) {
    let control = runtime::session();
    let index = match link {
        Some(_) => control.next_thread.fetch_add(1, Ordering::Relaxed),
        None => 0,
    };
    control.next_thread.fetch_max(1, Ordering::Relaxed);
    let link = link.unwrap_or(Link { parent: NONE, child_number: 0, clock: 0 });
    let Some(block) = thread::allocate(index, link.parent, link.child_number) else {
        return chunk::stop_recording(stop::NO_SPACE, 0);
    };
    runtime::set_mode(Mode::Record);
    // SAFETY: start-up: one thread, whose block this is.
    unsafe {
        chunk::start_file(index);
        thread::adopt(block);
        thread::announce(block, tls::thread_pointer());
        if writer::open_stream(&mut *block, link.clock) {
            tls::set::<{ tls::HEADER }>((*block).header as usize);
        }
    }
}

fn start_replaying(link: Option<Link>) {
    runtime::set_mode(Mode::Replay);
    let index = match link {
        None => 0,
        Some(link) => match heir_in_plan(link.parent, link.child_number, 0) {
            NONE => {
                // Whoever ends it first lets it tell of races, and it has none.
                outside::as_if_unhandled(dispatch::SIGSYS);
                report::hold()
            }
            index => index,
        },
    };
    runtime::set_process(runtime::plan().thread(index).process);
    let block = thread::allocate(index, NONE, 0).expect("memory for the first thread");
    // SAFETY: start-up: one thread, whose block this is.
    unsafe {
        thread::adopt(block);
        thread::announce(block, tls::thread_pointer());
        begin_replay(&mut *block, index);
        chunk::start_file(index);
        open_learning(&mut *block);
        enter_replay(&mut *block);
    }
}

fn open_learning(thread: &mut Thread) {
    if runtime::has_flag(flag::LEARN) {
        let start = runtime::plan().thread(thread.index).start_clock;
        writer::open_stream(thread, start);
    }
}

/// The recorded thread that is `parent`'s child number `number`.
fn child_in_plan(parent: u32, number: u32, place: Option<usize>) -> u32 {
    runtime::plan().child(parent, number).unwrap_or_else(|| {
        report::diverge(report::Met {
            cause: cause::MORE_THREADS,
            thread: parent,
            did: Some(Kind::Create),
            event: runtime::turns()[parent as usize].events.load(Ordering::Relaxed),
            expected: number as u64,
            found: number as u64 + 1,
            place: place.unwrap_or(0),
            object: 0,
        })
    })
}

/// Prepares a thread's stream and makes it count for everybody's turns.
fn begin_replay(thread: &mut Thread, index: u32) {
    let control = runtime::session();
    thread.index = index;
    thread.replay.start(index);
    let slot = thread.replay.slot();
    slot.pid.store(runtime::pid(), Ordering::Relaxed);
    // Before the state says that it was born: a born thread whose next event lies at infinity counts as settled.
    thread.replay.publish();
    slot.state.store(state::RUNNING, Ordering::Release);
    control.born.fetch_max(index + 1, Ordering::AcqRel);
    control.births.fetch_add(1, Ordering::AcqRel);
}

/// In the thread itself: tells the launcher which kernel thread this is.
fn enter_replay(thread: &mut Thread) {
    thread.replay.slot().tid.store(thread.tid, Ordering::Relaxed);
    thread.replay.slot().pid.store(runtime::pid(), Ordering::Relaxed);
    alone::begin();
    replay::tell_if_due(&mut thread.replay);
}

/// What a new thread starts from, made by its parent.
pub type Child = *mut Thread;

/// What a creation is to the caller of [`before_create`].
#[derive(Clone, Copy, Debug)]
pub enum Creation {
    /// It can't be recorded.
    Unknown,
    /// It is to be made, with this block for the new thread; [`after_create`] follows.
    Child(Child),
    /// A replay: it failed in the recording with this error, whatever would come of it here.
    Fails(i32),
}

/// Before a thread is created: takes the event and prepares the child.
pub fn before_create(place: usize) -> Creation {
    let Some(thread) = thread::current_if_known() else { return Creation::Unknown };
    match runtime::mode() {
        Mode::Off => Creation::Unknown,
        Mode::Record => {
            let Some(child) = prepare_child(thread) else { return Creation::Unknown };
            let time = record::alone(Kind::Create);
            // SAFETY: the child's block and chunk, which nobody else knows yet.
            unsafe { starts_at(child, time) };
            thread.newborn = child;
            Creation::Child(child)
        }
        Mode::Replay => {
            replay::enter(Kind::Create, place);
            if replay::fails(Kind::Create) {
                replay::leave(Kind::Create, &[], false);
                return Creation::Fails(replay::calls::failure_behind_calls(Kind::Create).unwrap_or(0));
            }
            thread.replay.expect_child();
            let index = child_in_plan(thread.index, thread.children, Some(place));
            let Some(child) = thread::allocate(index, thread.index, thread.children) else { return Creation::Unknown };
            // SAFETY: a block that nobody else knows yet.
            unsafe {
                begin_replay(&mut *child, index);
                open_learning(&mut *child);
            }
            // As in the recording: what the creation itself does, mapping a stack for one, comes after the event.
            replay::leave(Kind::Create, &[], false);
            thread.newborn = child;
            Creation::Child(child)
        }
    }
}

fn prepare_child(thread: &mut Thread) -> Option<Child> {
    if !thread.spare.is_null() {
        let child = core::mem::replace(&mut thread.spare, core::ptr::null_mut());
        // Forks and other images since then have taken numbers.
        // SAFETY: the block and chunk of a thread that was never created.
        unsafe {
            (*child).child_number = thread.children;
            if !(*child).header.is_null() {
                (*(*child).header).child_number = thread.children;
            }
        }
        return Some(child);
    }
    let index = runtime::session().next_thread.fetch_add(1, Ordering::Relaxed);
    let child = thread::allocate(index, thread.index, thread.children)?;
    // SAFETY: a block that nobody else knows yet. Its start clock is set by the caller.
    unsafe { writer::open_stream(&mut *child, thread.clock_base() + 1) };
    Some(child)
}

/// After the creation: `error` is 0 or why it failed.
///
/// # Safety
/// `child` must be what [`before_create`] returned for it.
pub unsafe fn after_create(child: Child, handle: usize, detached: bool, error: i32, place: usize) {
    let thread = thread::current();
    thread.newborn = core::ptr::null_mut();
    if runtime::mode() == Mode::Replay && error != 0 {
        replay::failed(Kind::Create, place, 0, i64::from(error));
    }
    if error != 0 {
        record::failure(Kind::Create, error);
        thread.spare = child;
        return;
    }
    thread.children += 1;
    // SAFETY: the child's block stays until it is joined, or has ended detached.
    unsafe {
        if detached {
            thread::detach(child);
        }
        // A thread that libc makes later announces itself.
        if handle != 0 {
            thread::announce(child, handle);
        }
    }
}

/// First thing in a new thread.
///
/// # Safety
/// `child` must be the block that [`before_create`] made for it.
pub unsafe fn thread_started(child: Child, handle: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        thread::announce(child, handle);
        thread::adopt(child);
        match runtime::mode() {
            Mode::Record => tls::set::<{ tls::HEADER }>((*child).header as usize),
            Mode::Replay => {
                enter_replay(&mut *child);
                races::started();
            }
            Mode::Off => {}
        }
    }
}

/// After a successful join of the thread with this block, found by its handle before the join.
///
/// # Safety
/// The thread must have ended; its block is freed.
pub unsafe fn joined(child: Child, place: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match runtime::mode() {
            Mode::Off => return,
            Mode::Record => {
                thread::current().join_clock((*child).clock_base());
                record::alone(Kind::Join);
            }
            Mode::Replay => {
                check_complete(&*child, place);
                replay::enter(Kind::Join, place);
                races::joined((*child).index);
                replay::leave(Kind::Join, &[], false);
            }
        }
        stacks::joined(&mut *child);
        thread::forget(child);
    }
}

fn check_complete(child: &Thread, place: usize) {
    let (done, total) = (child.replay.events(), child.replay.total());
    if done < total {
        report::diverge(report::Met {
            cause: cause::FEWER_EVENTS,
            thread: child.index,
            did: None,
            event: done,
            expected: total,
            found: done,
            place,
            object: 0,
        });
    }
}

/// The identity that a fork child takes.
#[derive(Clone, Copy, Debug)]
pub struct Heir {
    /// The thread that the child starts with.
    pub index: u32,
    child_number: u32,
    clock: u64,
}

/// Whether somebody has said already that the calling thread is about to fork, or need not.
pub fn fork_is_announced() -> bool {
    thread::current_if_known().is_none_or(|thread| thread.forking.is_some())
}

/// Before a fork: takes the event, and closes the thread's fast path until it is clear who is who.
pub fn before_fork(place: usize) {
    let Some(thread) = thread::current_if_known() else { return };
    let child_number = thread.children;
    let heir = match runtime::mode() {
        Mode::Off => return,
        Mode::Record => {
            let clock = record::alone(Kind::Fork);
            Heir { index: runtime::session().next_thread.fetch_add(1, Ordering::Relaxed), child_number, clock }
        }
        Mode::Replay => {
            replay::enter(Kind::Fork, place);
            thread.replay.expect_child();
            if replay::is_last() && runtime::plan().child(thread.index, child_number).is_none() {
                // The end of the recording came between the event and the child.
                replay::leave(Kind::Fork, &[], false);
                replay::enter(Kind::Fork, place);
            }
            let index = heir_in_plan(thread.index, child_number, place);
            if index != NONE && !alone::is_absent(index) {
                announce_heir(index);
            }
            replay::leave(Kind::Fork, &[], false);
            Heir { index, child_number, clock: 0 }
        }
    };
    thread.children += 1;
    thread.forking = Some(heir);
    tls::set::<{ tls::HEADER }>(0);
}

/// The recorded thread that a new process or image is, or [`NONE`] if it was killed before it could be recorded: its
/// parent ends it.
fn heir_in_plan(parent: u32, number: u32, place: usize) -> u32 {
    match runtime::plan().child(parent, number) {
        None if runtime::has_flag(flag::ENVIRONMENT) => NONE,
        _ => child_in_plan(parent, number, (place != 0).then_some(place)),
    }
}

/// The child's clock is in place before the fork counts as run.
fn announce_heir(index: u32) {
    let mut place_holder = replay::Replay::idle();
    place_holder.start(index);
    place_holder.publish();
    place_holder.slot().state.store(state::RUNNING, Ordering::Release);
    let control = runtime::session();
    control.born.fetch_max(index + 1, Ordering::AcqRel);
    control.births.fetch_add(1, Ordering::AcqRel);
}

/// The same for the image that the calling thread is about to start, in a replay: what it does to memory of several
/// processes may come before the next that others do.
pub fn announce_image() {
    let thread = thread::current();
    let image = runtime::plan().child(thread.index, thread.children);
    if let Some(index) = image.filter(|&index| !alone::is_absent(index)) {
        thread.replay.expect_child();
        announce_heir(index);
    }
}

/// Whether a recorded image came of the attempt to start one that `thread` makes, in a replay: itself, or what it started.
pub fn has_recorded_image(thread: &Thread) -> bool {
    let number = thread.children.checked_sub(1);
    number.and_then(|number| runtime::plan().child(thread.index, number)).is_some()
}

/// The kernel is about to make the child. It comes after what the fork has done so far: in a replay its first event
/// would be waited for otherwise, before it exists.
pub fn about_to_fork() {
    if let Some(thread) = thread::current_if_known() {
        let clock = thread.clock();
        if let Some(heir) = &mut thread.forking {
            heir.clock = heir.clock.max(clock);
        }
    }
}

/// After a fork, on both sides. `error` is 0 or why it failed.
pub fn after_fork(error: i32, place: usize) {
    let Some(thread) = thread::current_if_known() else { return };
    settle_fork(thread);
    if thread.forking.take().is_none() {
        return;
    }
    if runtime::mode() == Mode::Record {
        record::open();
        if error != 0 {
            record::failure(Kind::Fork, error);
        }
    } else if runtime::mode() == Mode::Replay {
        let recorded = replay::failure_of_last(Kind::Fork).unwrap_or(0);
        if recorded != error {
            replay::failed(Kind::Fork, place, recorded as i64, error as i64);
        }
    }
}

static FORKED: AtomicBool = AtomicBool::new(false);

/// Whether this process came from a fork without an exec since.
pub fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// If the calling thread is a fork child that still has its parent's identity, gives it its own.
/// Called by whatever touches the gate first: fork handlers of other libraries run before ours.
#[inline]
pub fn settle_fork(thread: &mut Thread) {
    if let Some(heir) = thread.forking {
        settle(thread, heir);
    }
}

#[cold]
#[inline(never)]
fn settle(thread: &mut Thread, heir: Heir) {
    if syscall::getpid() == runtime::pid() {
        return;
    }
    if heir.index == NONE && runtime::mode() == Mode::Replay {
        report::hold_unknown();
    }
    thread.tally = Default::default();
    thread.forking = None;
    let parent = core::mem::replace(&mut thread.index, heir.index);
    (thread.parent, thread.child_number, thread.children) = (parent, heir.child_number, 0);
    (thread.header, thread.stored, thread.joined, thread.spare) = (core::ptr::null_mut(), 0, 0, core::ptr::null_mut());
    tls::set::<{ tls::ATTENTION }>(0);
    let recorded = (runtime::mode() == Mode::Replay).then(|| runtime::plan().thread(heir.index).process);
    FORKED.store(true, Ordering::Relaxed);
    barrier::register();
    if runtime::enter_process(recorded).is_err() {
        runtime::set_mode(Mode::Off);
        return report::line(format_args!(
            "process {} is not recorded: too many processes record at once",
            syscall::getpid()
        ));
    }
    let handle = core::mem::replace(&mut thread.handle, 0);
    // SAFETY: a fork child has one thread, this one.
    unsafe {
        arena::reset_after_fork();
        environment::reset_after_fork();
        thread::reset_after_fork();
        chunk::start_file(heir.index);
        thread::adopt(thread);
        thread::announce(thread, handle);
    }
    match runtime::mode() {
        Mode::Record => {
            if writer::open_stream(thread, heir.clock) {
                tls::set::<{ tls::HEADER }>(thread.header as usize);
            }
        }
        Mode::Replay => {
            replay::turn::reset_after_fork();
            begin_replay(thread, heir.index);
            open_learning(thread);
            enter_replay(thread);
            races::forked();
        }
        Mode::Off => {}
    }
}
