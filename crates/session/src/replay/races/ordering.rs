//! Which accesses a later recording should order: those by which threads hand over what
//! they have done, and which are no calls of a library.
//!
//! Apart from the search because most of what races does so only where those are not
//! ordered. To order all of that would make later recordings slow, and change nothing.

use super::{Hunt, Lines, Pass, Scratch};
use crate::learnt::Learnt;
use crate::replay::{Ending, ReplayError, Replayer};
use relive_findings::Options;
use relive_findings::raw::RawReport;
use relive_trace::manifest::{Accesses, Level};
use std::collections::BTreeMap;
use std::io;

/// What a replay does in which nobody looks for races.
#[derive(Clone, Copy, Debug)]
pub(super) enum Alone {
    /// Nobody has looked.
    Unknown,
    /// It does what was recorded, or did so before.
    AsRecorded,
    /// It does not; and a thread waits in vain there, if one does.
    Diverges { in_vain: Option<(u32, u64)> },
    /// The user ended it by this signal.
    Interrupted(i32),
}

impl Replayer {
    /// The accesses by which threads hand over, if some of them are not ordered in the recording. Of a replay that went no further
    /// because one waits in vain, those by which it does.
    pub(super) fn ordering(
        &mut self,
        folder: &Scratch,
        lines: &Lines,
        before: &RawReport,
        options: &Options,
        tell: &mut dyn FnMut(Pass),
    ) -> Result<Option<Hunt>, ReplayError> {
        let mut watched = Lines { racing: BTreeMap::new(), ..lines.clone() };
        if self.instrument.in_vain.is_some() && !watched.open.is_empty() {
            watched.variables.clear();
            watched.waited.clear();
        }
        if watched.bytes() == 0 {
            return Ok(None);
        }
        let bytes = watched.bytes();
        let (found, last) = self.watched(folder, &mut watched, before, options, bytes, tell)?;
        let learnt = folder.learnt(self.known_unless(false), &self.recorded()).map_err(ReplayError::Races)?;
        let interrupted = if let Ending::Interrupted(signal) = last.ending { Some(signal) } else { None };
        let is_new = Learnt::from_manifest(&self.recording.manifest.accesses).take_in(&learnt) > 0;
        Ok((is_new || interrupted.is_some()).then_some(Hunt {
            found,
            interrupted,
            learnt,
            ordering: true,
            replays: false,
            watched,
        }))
    }

    /// The accesses that the recording orders, unless it replays, and so needs no more than what does not follow from them.
    pub(super) fn known_unless(&self, replays: bool) -> Option<&[Accesses]> {
        (!replays).then_some(&self.recording.manifest.accesses)
    }

    /// What so many replays do in which nobody looks for races, up to one that diverges: that a thread waits in vain it shows
    /// within seconds; one in which a thread may be slow for other reasons takes minutes.
    pub(super) fn alone(&self, times: usize, tell: &mut dyn FnMut(Pass)) -> Result<Alone, ReplayError> {
        let rule = self.first_rule();
        if self.recording.manifest.level != Level::Atomics {
            return Ok(Alone::Unknown);
        }
        if rule.is_derived() {
            return Ok(Alone::AsRecorded);
        }
        tell(Pass::Plain);
        for _ in 0..times {
            match self.run(&rule, Some(&mut io::sink()))?.ending {
                Ending::Diverged(report) => return Ok(Alone::Diverges { in_vain: report.in_vain }),
                Ending::Interrupted(signal) => return Ok(Alone::Interrupted(signal)),
                _ => {}
            }
        }
        Ok(Alone::AsRecorded)
    }
}
