//! The threads' own clocks.
//!
//! Each stands behind a lock of its own, whose favourite its thread is: others look at it
//! when they join the thread. What they need more often, to learn what all threads know,
//! each thread shows them from time to time. What it knew once it knows for good: a floor
//! below what was shown is low, never wrong.
//!
//! Apart from the objects, which only store what threads left.

use crate::clock::{Clock, Floor, Known};
use crate::epoch::{Epoch, THREADS_MAX};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use relive_sys::lock::{Favoured, FavouredGuard, Lock};

/// All threads, by their numbers.
#[derive(Debug)]
pub(super) struct Threads {
    seats: Box<[Seat]>,
    /// What those that run have shown of their clocks. A thread comes in when it is made, before its creator shows
    /// anything that it does not know.
    shown: Lock<BTreeMap<u32, Clock>>,
    /// How many run.
    running: AtomicUsize,
    /// Where [`Threads::are_known`] begins to look.
    unknown: AtomicUsize,
    /// Held while a thread is made, and while the clocks of all are looked at, for the same reason.
    making: Lock<()>,
}

/// On lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Seat(Favoured<Option<Thread>>);

#[derive(Debug)]
struct Thread {
    clock: Clock,
    has_ended: bool,
}

/// Why a thread could not be taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Numbers must be below [`THREADS_MAX`].
    TooMany,
    /// A thread of that number runs, or its end is not known to the creator of the new one.
    InUse,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::TooMany => write!(f, "more than {THREADS_MAX} threads"),
            Refusal::InUse => f.write_str("a thread of that number may still run"),
        }
    }
}

#[inline]
fn announced<'a>(number: u32, seat: &'a mut Option<FavouredGuard<'_, Option<Thread>>>) -> &'a mut Thread {
    let thread = seat.as_mut().and_then(|seat| seat.as_mut());
    thread.unwrap_or_else(|| panic!("thread {number} was not announced"))
}

impl Threads {
    /// Room for threads with numbers below `count`.
    pub(super) fn new(count: u32) -> Self {
        let count = count.min(THREADS_MAX);
        let seats = (0..count).map(|_| Seat(Favoured::new(None))).collect();
        let shown = Lock::new(BTreeMap::new());
        Self { seats, shown, running: AtomicUsize::new(0), unknown: AtomicUsize::new(0), making: Lock::new(()) }
    }

    /// There was no thread.
    pub(super) fn reset(&self) {
        self.seats.iter().for_each(|seat| *seat.0.lock() = None);
        self.shown.lock().clear();
        self.running.store(0, Relaxed);
    }

    /// A thread that nobody created.
    pub(super) fn start(&self, number: u32) -> Result<(), Refusal> {
        let _making = self.making.lock();
        self.add(number, None)
    }

    /// Adds a thread that begins with what its creator knows, whose segment ends.
    pub(super) fn create(&self, parent: u32, child: u32) -> Result<(), Refusal> {
        let _making = self.making.lock();
        self.add(child, Some(&self.clock(parent)))?;
        self.advance(parent);
        self.show(parent);
        Ok(())
    }

    /// It may take over the number of one that ended, if the creator knows of that end: it is then as if that thread went
    /// on.
    fn add(&self, number: u32, creator: Option<&Clock>) -> Result<(), Refusal> {
        let Some(seat) = self.seats.get(number as usize) else { return Err(Refusal::TooMany) };
        let mut thread = seat.0.lock();
        let epoch = match &*thread {
            None => Epoch::new(number, 1),
            Some(former) => {
                let known = creator.is_some_and(|creator| creator.knows(former.clock.epoch));
                if !former.has_ended || !known {
                    return Err(Refusal::InUse);
                }
                former.clock.epoch.next()
            }
        };
        let first = Clock::new(epoch, Known::NOTHING);
        let others = creator.map_or(Known::NOTHING, |creator| first.both(creator));
        let clock = Clock::new(epoch, others);
        self.shown.lock().insert(number, clock.clone());
        *thread = Some(Thread { clock, has_ended: false });
        self.running.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Uses a thread that was announced, as any thread.
    fn with<R>(&self, number: u32, use_it: impl FnOnce(&mut Thread) -> R) -> R {
        use_it(announced(number, &mut self.seats.get(number as usize).map(|seat| seat.0.lock())))
    }

    /// Uses one that has not ended either, as that thread.
    #[inline]
    fn running<R>(&self, number: u32, use_it: impl FnOnce(&mut Thread) -> R) -> R {
        let mut seat = self.seats.get(number as usize).map(|seat| seat.0.lock_often());
        let thread = announced(number, &mut seat);
        assert!(!thread.has_ended, "thread {number} has ended");
        use_it(thread)
    }

    /// The clock of a running thread.
    #[inline]
    pub(super) fn clock(&self, number: u32) -> Clock {
        self.running(number, |thread| thread.clock.clone())
    }

    /// What a thread has left by now.
    pub(super) fn left(&self, number: u32) -> Clock {
        self.with(number, |thread| thread.clock.clone())
    }

    /// The segment ends because it was released; the clock of it.
    #[inline]
    pub(super) fn advance(&self, number: u32) -> Clock {
        self.running(number, |thread| {
            let ended = thread.clock.clone();
            thread.clock.epoch = ended.epoch.next();
            ended
        })
    }

    /// The thread learns of `clock`. If that is news, its segment ends; the clock of that.
    #[inline]
    pub(super) fn acquire(&self, number: u32, clock: &Clock) -> Option<Clock> {
        self.running(number, |thread| {
            let own = &mut thread.clock;
            if own.covers(clock) {
                return None;
            }
            let next = Clock::new(own.epoch.next(), own.both(clock));
            Some(core::mem::replace(own, next))
        })
    }

    /// Shows what a running thread knows.
    pub(super) fn show(&self, number: u32) {
        let clock = self.clock(number);
        self.shown.lock().insert(number, clock);
    }

    pub(super) fn end(&self, number: u32) {
        self.running(number, |thread| thread.has_ended = true);
        self.seats[number as usize].0.retire();
        self.shown.lock().remove(&number);
        self.running.fetch_sub(1, Relaxed);
    }

    pub(super) fn forget(&self, number: u32) {
        if let Some(Some(thread)) = self.seats.get(number as usize).map(|seat| seat.0.lock()).as_deref_mut()
            && thread.has_ended
        {
            thread.clock.others = Known::NOTHING;
        }
    }

    /// The clocks of all threads that run.
    pub(super) fn running_clocks(&self) -> Vec<Clock> {
        let _making = self.making.lock();
        let running = |seat: &Seat| seat.0.lock().as_ref().filter(|it| !it.has_ended).map(|it| it.clock.clone());
        self.seats.iter().filter_map(running).collect()
    }

    /// How many threads run.
    pub(super) fn count(&self) -> usize {
        self.running.load(Relaxed)
    }

    /// Whether all that any thread did is known in a segment with this clock, or done by it.
    ///
    /// Whoever joins a hundred thousand threads asks as often: the one that was not known the last time is looked at first.
    pub(super) fn are_known(&self, clock: &Clock) -> bool {
        let first = self.unknown.load(Relaxed);
        let (before, behind) = self.seats.split_at(first.min(self.seats.len()));
        let is_unknown = |seat: &Seat| seat.0.lock().as_ref().is_some_and(|thread| !clock.knows(thread.clock.epoch));
        let found = behind.iter().chain(before).position(is_unknown);
        if let Some(found) = found {
            self.unknown.store((first + found) % self.seats.len(), Relaxed);
        }
        found.is_none()
    }

    /// What all that run have shown.
    pub(super) fn floor(&self) -> Floor {
        let shown = self.shown.lock();
        // Of threads that one of them knows nothing of, nobody need be asked.
        let width = shown.values().map(Clock::width).min().unwrap_or(0);
        let lowest = |number| shown.values().map(|clock| clock.time_of(number)).min().unwrap_or(0);
        Floor((0..width).map(lowest).collect())
    }

    pub(super) fn sweep(&self, floor: &Floor) {
        for seat in &self.seats {
            if let Some(thread) = &mut *seat.0.lock()
                && thread.has_ended
                && floor.knows(thread.clock.epoch)
            {
                thread.clock.others = Known::NOTHING;
            }
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let share = |seat: &Seat| seat.0.lock().as_ref().map_or(0, |thread| thread.clock.share_bytes());
        let shown = self.shown.lock().len() * size_of::<(u32, Clock)>();
        size_of_val(&*self.seats) + self.seats.iter().map(share).sum::<usize>() + shown
    }
}
