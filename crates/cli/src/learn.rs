//! `relive record --learn`: records a program again and again, until nothing is left in it
//! that threads hand over by in a way that no recording orders.
//!
//! Apart from a single recording because it is made of recordings and of searches for races.

use crate::message;
use crate::races;
use anyhow::{Result, bail};
use relive_session::learnt::Learnt;
use std::path::Path;

/// So many recordings are made at most: a program that does something new each time has no end.
const ROUNDS_MAX: usize = 24;
/// So many in a row must bring nothing new: what threads do depends on who comes first.
const QUIET: usize = 2;

/// Searches the recording in `folder`, and makes another one by `again` as long as that finds something.
pub(crate) fn until_ordered(
    learnt: &mut Learnt,
    folder: &Path,
    quiet: bool,
    mut again: impl FnMut(&Learnt) -> Result<()>,
) -> Result<()> {
    let mut still = 0;
    for _ in 1..ROUNDS_MAX {
        let new = learnt.add(races::learn(folder)?);
        still = if new == 0 { still + 1 } else { 0 };
        if still == QUIET {
            return Ok(());
        }
        if new > 0 && !quiet {
            message::say(format_args!(
                "{new} more accesses race or order others; recording again with {}",
                learnt.count()
            ));
        }
        again(learnt)?;
    }
    if learnt.add(races::learn(folder)?) > 0 {
        bail!(
            "learn from {}: after {ROUNDS_MAX} recordings there are still new accesses that race; give the program \
               less to do",
            folder.display()
        );
    }
    Ok(())
}
