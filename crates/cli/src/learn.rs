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
const ROUNDS_MAX: usize = 12;

/// Searches the recording in `folder`, and makes another one by `again` as long as that finds something.
pub(crate) fn until_ordered(
    learnt: &mut Learnt,
    folder: &Path,
    quiet: bool,
    mut again: impl FnMut(&Learnt) -> Result<()>,
) -> Result<()> {
    for _ in 1..ROUNDS_MAX {
        let found = races::learn(folder)?;
        let new = learnt.add(found);
        if new == 0 {
            return Ok(());
        }
        if !quiet {
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
