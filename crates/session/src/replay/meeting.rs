//! The way to one race under gdb: where its two threads have to be stopped.
//!
//! A replay under gdb runs natively, at full speed, up to the last event before each
//! access. There the thread calls a function of our library that does nothing, at which
//! gdb has a breakpoint; from there on gdb counts how often this thread comes to the
//! instruction. How often it has to, one more replay like the second of a search has
//! counted.
//!
//! The two are not ordered, so whichever comes first is the first: nobody is held back,
//! which could keep the other from coming there at all.

use super::known::{KnownRace, KnownRaces, Place, counter_of};
use super::races::Scratch;
use super::{Ending, ReplayError, Replayer};
use relive_findings::raw::{RawAccess, RawRace, RawReport};
use relive_trace::control::{STOPS, flag};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

/// Where gdb stops for a race, as a script of gdb's.
#[derive(Debug)]
pub struct Meeting {
    /// Thread and event, of each access.
    stops: [Stop; STOPS],
    /// The number that the race was printed with.
    number: usize,
    folder: Scratch,
}

/// Before an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stop {
    thread: u32,
    event: u64,
    instruction: u64,
    counted: u64,
    /// How often the thread comes to the counted instruction after the event: 0 if it is within the call that does it by
    /// then, or if the counted one stands behind it.
    count: u64,
}

/// The program's own signals are no reason to stop on the way; those that end most programs are.
const SIGNALS: &str = "handle all nostop noprint pass\nhandle SIGSEGV SIGBUS SIGFPE SIGABRT stop print\n";

/// Why a race can't be met.
#[derive(Debug, thiserror::Error)]
pub enum MeetError {
    /// There is no replay.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The user ended it.
    #[error("interrupted by signal {0}")]
    Interrupted(i32),
    /// It did not race this time.
    #[error("race {0} was not met again: what its threads do depends on races before it; mend those first")]
    NotMet(usize),
}

impl Replayer {
    /// Counts where the accesses of a race are.
    ///
    /// # Errors
    /// [`MeetError`].
    pub fn meet(mut self, known: &KnownRaces, race: &KnownRace) -> Result<Meeting, MeetError> {
        let folder = Scratch::new().map_err(ReplayError::Races)?;
        let instructions = race.places.map(|place| place.counted);
        folder.watch_and_count(&known.lines, &instructions).map_err(ReplayError::Races)?;
        let last = self.pass(flag::RACES_WATCHED, folder.path(), known.lines.bytes(), &mut |_| ())?;
        if let Ending::Interrupted(signal) = last.ending {
            return Err(MeetError::Interrupted(signal));
        }
        let mut found = RawReport::default();
        folder.told(&mut found, &self.recorded()).map_err(ReplayError::Races)?;
        let stops = found
            .all_images()
            .flat_map(|image| &image.races)
            .find_map(|raw| stops(raw, race))
            .ok_or(MeetError::NotMet(race.number))?;
        Ok(Meeting { stops, number: race.number, folder })
    }

    /// The process in which the race is, if it is another one than the program itself.
    pub fn process_of(&self, meeting: &Meeting) -> Option<u32> {
        let process = self.recording.process_of(meeting.stops[0].thread)?;
        let first = self.recording.process(0)?;
        (process.pid != first.pid).then_some(process.index)
    }
}

/// Where the accesses of a race are, if it is this one.
fn stops(raw: &RawRace, race: &KnownRace) -> Option<[Stop; STOPS]> {
    let [first, second] = &raw.accesses;
    let counters = [counter_of(first)?, counter_of(second)?];
    let known = race.places.map(|place| place.counter);
    let order = if counters == known {
        [0, 1]
    } else if counters == [known[1], known[0]] {
        [1, 0]
    } else {
        return None;
    };
    let stop = |access: &RawAccess, number: usize| {
        let Place { instruction, counted, .. } = race.places[number];
        // One that both have is counted once.
        let first = race.places.iter().position(|place| place.counted == counted).unwrap_or(number);
        let count = access.count_since_event >> (32 * first) & u64::from(u32::MAX);
        Stop { thread: access.thread, event: access.event, instruction, counted, count }
    };
    Some([stop(first, order[0]), stop(second, order[1])])
}

impl Meeting {
    /// Threads and events at which the runtime calls its functions.
    pub(crate) fn events(&self) -> [(u32, u64); STOPS] {
        self.stops.map(|stop| (stop.thread, stop.event))
    }

    /// How often gdb will have to look, at most.
    pub fn passes(&self) -> u64 {
        self.stops.iter().map(|stop| stop.count).sum()
    }

    /// Writes gdb's commands, that end with `start`.
    ///
    /// # Errors
    /// [`ReplayError`] if there is no room for them.
    pub(crate) fn script(&self, start: &str) -> Result<PathBuf, ReplayError> {
        let path = self.folder.path().join("gdb");
        fs::write(&path, self.commands(start)).map_err(ReplayError::Races)?;
        Ok(path)
    }

    fn commands(&self, start: &str) -> String {
        const FUNCTIONS: [&str; STOPS] = ["relive_at_first_access", "relive_at_second_access"];
        let mut text = format!("{SIGNALS}set breakpoint pending on\nset $relive_met = 0\n");
        for (stop, function) in self.stops.iter().zip(FUNCTIONS) {
            let _ = writeln!(text, "tbreak {function}\ncommands\nsilent\n{}end", self.behind_event(stop));
        }
        text.push_str("set breakpoint pending auto\n");
        text.push_str(start);
        text.push('\n');
        text
    }

    /// What gdb does when the thread has completed the event.
    fn behind_event(&self, stop: &Stop) -> String {
        let &Stop { instruction, counted, count, .. } = stop;
        let here = self.words();
        match count {
            0 if counted == instruction => here,
            0 => format!("{}continue\n", stop_at(instruction, 1, &here)),
            _ if counted == instruction => format!("{}continue\n", stop_at(instruction, count, &here)),
            _ => {
                let last = format!("silent\n{}continue\n", stop_at(instruction, 1, &here));
                format!("{}continue\n", stop_at(counted, count, &last))
            }
        }
    }

    /// What gdb says when it is there.
    fn words(&self) -> String {
        let number = self.number;
        format!(
            "set $relive_met = $relive_met + 1\nif $relive_met == 1\n\
             echo relive: right before the first access of race {number}; continue leads to the second\\n\n\
             else\necho relive: right before the second access of race {number}\\n\nend\n"
        )
    }
}

/// Commands for a breakpoint of the present thread alone, that stops it at pass `count` and runs `then`.
fn stop_at(address: u64, count: u64, then: &str) -> String {
    let ignored = if count > 1 { format!("ignore $bpnum {}\n", count - 1) } else { String::new() };
    format!("eval \"tbreak *{address:#x} thread %d\", $_thread\n{ignored}commands $bpnum\n{then}end\n")
}

#[cfg(test)]
mod tests {
    use super::{Stop, stops};
    use crate::replay::known::{KnownRace, Place};
    use relive_findings::raw::{RawAccess, RawRace, RawStack};

    fn access(thread: u32, counter: u64, counts: [u64; 2]) -> RawAccess {
        let stack = RawStack::of_access(vec![counter]);
        RawAccess { thread, event: 7, count_since_event: counts[0] | counts[1] << 32, stack, ..RawAccess::default() }
    }

    fn known(places: [(u64, u64); 2]) -> KnownRace {
        let places = places.map(|(counter, instruction)| Place { counter, instruction, counted: instruction });
        KnownRace { number: 1, fingerprint: String::new(), places }
    }

    #[test]
    fn each_access_gets_the_count_of_its_own_instruction() {
        let raw = |accesses| RawRace { accesses, ..RawRace::default() };
        let race = known([(0x10, 0x10), (0x25, 0x20)]);
        let stop = |thread, instruction, count| Stop { thread, event: 7, instruction, counted: instruction, count };
        let same = raw([access(1, 0x10, [3, 9]), access(2, 0x25, [4, 5])]);
        assert_eq!(stops(&same, &race), Some([stop(1, 0x10, 3), stop(2, 0x20, 5)]));
        let turned = raw([access(2, 0x25, [4, 5]), access(1, 0x10, [3, 9])]);
        assert_eq!(stops(&turned, &race), Some([stop(2, 0x20, 5), stop(1, 0x10, 3)]));
        let other = raw([access(1, 0x10, [3, 9]), access(2, 0x10, [4, 5])]);
        assert_eq!(stops(&other, &race), None);
        let alike = known([(0x10, 0x10), (0x10, 0x10)]);
        assert_eq!(stops(&other, &alike), Some([stop(1, 0x10, 3), stop(2, 0x10, 4)]));
    }
}
