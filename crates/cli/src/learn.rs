//! `relive record --learn`: records a program again and again, until nothing is left in it
//! that threads hand over by in a way that no recording orders.
//!
//! Apart from a single recording because it is made of recordings and of searches for races.
//!
//! What orders others is always taken in, and everything that races in a recording which does not replay. What races in
//! one that replays is taken in as long as it is little: a program that hands over by something which is not known yet
//! races in all its data. Some programs have new places to race at for longer than anybody waits; so it is enough, too,
//! if several recordings in a row replay. Where one does not, what it shows of its races ends there: the next one may
//! show more, and only after several that do not the search gives up.

use crate::message;
use crate::races::{self, Lesson};
use anyhow::{Result, bail};
use relive_session::learnt::Learnt;
use std::path::Path;

/// So many recordings are made at most: a program that does something new each time has no end.
const ROUNDS_MAX: usize = 24;
/// So many in a row must bring nothing new, and the last one replay: what threads do depends on who comes first.
const QUIET: usize = 2;
/// If so many do, no more is learnt, whether that replays or not.
const MUTE: usize = 6;
/// Or so many in a row must replay, several times each.
const REPLAYING: usize = 4;
/// No more is taken in of what only races in a recording that replays.
const RACING_MAX: usize = 256;

/// Searches the recording in `folder`, which ordered so many accesses, and makes another one by `again`, which tells how many
/// that orders, as long as that finds something.
pub(crate) fn until_ordered(
    learnt: &mut Learnt,
    folder: &Path,
    mut ordered: usize,
    quiet: bool,
    mut again: impl FnMut(&Learnt) -> Result<usize>,
) -> Result<()> {
    let again = |learnt: &Learnt, new| {
        if new > 0 && !quiet {
            let brought = match new {
                1 => "1 more access races or orders others".to_owned(),
                new => format!("{new} more accesses race or order others"),
            };
            message::say(format_args!("{brought}; recording again with {}", ordered + new));
        }
        ordered = again(learnt)?;
        Ok(())
    };
    match lessons(learnt, || races::learn(folder), again)? {
        Enough::Replays => {}
        Enough::Diverges if quiet => {}
        Enough::Diverges => message::say(format_args!(
            "what threads of this program do goes by more than the order of accesses: a replay of this recording \
             diverges, as far as it was tried"
        )),
        Enough::Never => bail!(
            "learn from {}: after {ROUNDS_MAX} recordings there are still new accesses that race; give the program \
             less to do",
            folder.display()
        ),
    }
    Ok(())
}

/// What was learnt in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Enough {
    /// All that it takes.
    Replays,
    /// Nothing that helps.
    Diverges,
    /// More each time.
    Never,
}

/// Takes in what `search` finds, and has a recording made by `again`, which is told how much was new, until it is enough.
fn lessons(
    learnt: &mut Learnt,
    mut search: impl FnMut() -> Result<Lesson>,
    mut again: impl FnMut(&Learnt, usize) -> Result<()>,
) -> Result<Enough> {
    let (mut still, mut replaying) = (0, 0);
    for round in 1..=ROUNDS_MAX {
        let Lesson { accesses, ordering, replays } = search()?;
        let taken = ordering || !replays || accesses.count() <= RACING_MAX;
        let new = if taken { learnt.take_in(&accesses) } else { 0 };
        still = if new == 0 { still + 1 } else { 0 };
        replaying = if replays { replaying + 1 } else { 0 };
        if still >= QUIET && replays || replaying == REPLAYING || round == ROUNDS_MAX && replays {
            return Ok(Enough::Replays);
        }
        if still == MUTE || round == ROUNDS_MAX && new == 0 {
            return Ok(Enough::Diverges);
        }
        if round < ROUNDS_MAX {
            again(learnt, new)?;
        }
    }
    Ok(Enough::Never)
}

#[cfg(test)]
mod tests {
    use super::{Enough, Lesson, MUTE, RACING_MAX, ROUNDS_MAX, lessons};
    use relive_session::learnt::Learnt;

    /// How many recordings there are with such lessons, by their number, what they leave, and whether that is enough.
    fn check(lesson: impl Fn(usize) -> Lesson) -> (usize, usize, Enough) {
        let (mut learnt, mut searched, mut recorded) = (Learnt::default(), 0, 1);
        let search = || {
            searched += 1;
            Ok(lesson(searched))
        };
        let again = |_: &_, _| {
            recorded += 1;
            Ok(())
        };
        let enough = lessons(&mut learnt, search, again).unwrap();
        (recorded, learnt.count(), enough)
    }

    fn lesson(accesses: std::ops::Range<usize>, ordering: bool, replays: bool) -> Lesson {
        Lesson { accesses: accesses.map(|place| [1, place as u64]).collect(), ordering, replays }
    }

    #[test]
    fn two_recordings_that_bring_nothing_new_are_enough_if_they_replay() {
        assert_eq!(check(|round| lesson(0..round.min(3), true, round > 4)), (5, 3, Enough::Replays));
        assert_eq!(check(|round| lesson(0..round.min(3), true, round > 6)), (7, 3, Enough::Replays));
        assert_eq!(check(|round| lesson(0..round.min(3), true, false)), (3 + MUTE, 3, Enough::Diverges));
    }

    #[test]
    fn so_are_four_that_replay_in_a_row() {
        assert_eq!(check(|round| lesson(0..round, true, round > 2 && round != 4)), (8, 8, Enough::Replays));
    }

    #[test]
    fn what_brings_something_new_each_time_has_an_end() {
        assert_eq!(check(|round| lesson(0..round, false, false)), (ROUNDS_MAX, ROUNDS_MAX, Enough::Never));
        let last = |round| lesson(0..round, false, round == ROUNDS_MAX);
        assert_eq!(check(last), (ROUNDS_MAX, ROUNDS_MAX, Enough::Replays));
    }

    #[test]
    fn much_that_only_races_is_learnt_where_it_does_not_replay() {
        let much = RACING_MAX + 1;
        assert_eq!(check(|_| lesson(0..much, false, true)), (2, 0, Enough::Replays));
        assert_eq!(check(|_| lesson(0..much - 1, false, true)), (3, much - 1, Enough::Replays));
        assert_eq!(check(|_| lesson(0..much, false, false)), (1 + MUTE, much, Enough::Diverges));
        assert_eq!(check(|_| lesson(0..much, true, true)), (3, much, Enough::Replays));
    }
}
