//! Time that passes: sleeps, and waits for descriptors that end by their timeout.
//!
//! Programs wait so for what other threads do meanwhile, and look at a plain variable then, as in
//! `while (!ready) usleep(1000)`. No operation orders that. So the recording tells with such a call how
//! far each other thread of the process was at its end, and a replay lets them come as far before it goes on.
//!
//! The thread's own clock stood still meanwhile, and by timestamps the others would wait for its next
//! event: so it joins the clocks of all, as if it had met each of them. Nor does a replay let others come
//! much further than they were: by timestamps they wait for the end of the call as for an event right behind the
//! joined clock.
//!
//! When exactly another thread stores what a loop waits for, between two of its events, nothing tells. So replays do not
//! count sleeps (`replay::calls::sleep`); and a wait that ended by its timeout, or a look at the clock behind another one, is made
//! once more if the program makes it, and left out if it does not.
//!
//! Who spins until another thread has stored something, and looks at the clock meanwhile, has a clock that stands still, too: by
//! timestamps the other one would wait for its next event. That event joins all clocks (`note_look`).
//!
//! A replay does not insist that others come: where nobody who is behind runs, or comes any further, it goes on.
//! A loop that sleeps more often than it did may expect them where they can't be yet.

use crate::object::pack;
use crate::record::attention;
use crate::replay::calls::{self as replayed, Filler};
use crate::replay::lapse::{self, OTHERS_MAX};
use crate::runtime;
use crate::thread::{self, Thread};
use relive_sys::syscall::number::{EPOLL_PWAIT, EPOLL_WAIT, POLL};
use relive_trace::control::flag;

/// In a process with more threads nobody is asked how far it is.
const THREADS_MAX: usize = 1000;

/// Whether a call that has returned nothing has let time pass. The arguments are those that it was made with.
#[inline]
pub(super) fn is_one(number: usize, arguments: &[usize; 6]) -> bool {
    match number {
        POLL => arguments[2] as i32 != 0,
        EPOLL_WAIT | EPOLL_PWAIT => arguments[3] as i32 != 0,
        _ => replayed::lets_time_pass(number),
    }
}

/// What stands with such a call.
#[derive(Debug)]
pub(super) struct Told {
    words: [u64; OTHERS_MAX + 1],
    count: usize,
}

impl Told {
    /// Address and length.
    pub(super) fn piece(&self) -> [usize; 2] {
        [self.words.as_ptr().addr(), self.count * size_of::<u64>()]
    }
}

/// The end of such a call in a recording. Told is of those whose clocks are ahead: by timestamps the others have come as far as
/// the thread's last event. In a process with very many threads nothing is: to ask all would take longer than such a wait may.
pub(super) fn end(thread: &mut Thread) -> Told {
    let mut told = Told { words: [0; OTHERS_MAX + 1], count: 0 };
    let (mut clocks, mut visited) = ([0; OTHERS_MAX], 0);
    // What it joined without an event may come from other processes, and holds up nobody here.
    let own = thread.clock();
    let mut latest = own;
    thread::each(|other| {
        visited += 1;
        // The clock last: told events that it does not know of would wait for this call's end.
        let events = other.events();
        let clock = other.clock();
        latest = latest.max(clock);
        if other.index != thread.index && clock > own {
            // If there are more, those that are furthest ahead.
            let place = if told.count < OTHERS_MAX {
                told.count += 1;
                Some(told.count - 1)
            } else {
                (0..OTHERS_MAX).min_by_key(|&place| clocks[place]).filter(|&place| clocks[place] < clock)
            };
            if let Some(place) = place {
                (clocks[place], told.words[place]) = (clock, pack(other.index, events));
            }
        }
        visited <= THREADS_MAX
    });
    let clock = if (2..=THREADS_MAX).contains(&visited) { latest } else { 0 };
    thread.join_clock(clock);
    told.words[told.count] = lapse::last_word(told.count, clock);
    told.count += 1;
    told
}

/// The thread has made a call, or an instruction, that may tell the time. Who looks so often between two events may do nothing but
/// wait for another thread; its clock, which stands still meanwhile, joins all at the next event.
pub(super) fn note_look(thread: &mut Thread, number: usize) {
    const OFTEN: u32 = 4;
    if !replayed::tells_time(number) {
        return;
    }
    let events = thread.events();
    thread.looks = if thread.looks.0 == events { (events, thread.looks.1 + 1) } else { (events, 1) };
    if thread.looks.1 == OFTEN {
        attention::raise(attention::LOOKED);
    }
}

/// The end of such a call in a replay, which counts it; `filler` comes to what stands with it.
pub(super) fn end_again(filler: &mut Filler) {
    if runtime::has_flag(flag::LAPSES) {
        filler.skip(filler.left());
        lapse::end_counted();
    }
}
