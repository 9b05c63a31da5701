//! Who takes part in a replay: everybody, or one process and those on the way to it.
//!
//! Apart from the replay because the end of it, the watch over it and the plan ask the
//! same.

use super::{End, Outcome, Path, Recording, ReplayError, manifest};
use crate::lineage;
use relive_trace::plan::part;
use relive_trace::recording::Process;

/// Processes that an error names.
const NAMED_MAX: usize = 20;

/// The part of each process image.
#[derive(Clone, Debug)]
pub(super) struct Cast {
    /// The image that the replay is for; `None` for all.
    only: Option<u32>,
    /// By image; empty where each does all that it did.
    parts: Vec<u32>,
}

impl Cast {
    pub(super) fn everybody() -> Self {
        Self { only: None, parts: Vec::new() }
    }

    /// The process `number` of the recording in `folder`, and what it becomes.
    pub(super) fn alone(recording: &Recording, folder: &Path, number: u32) -> Result<Self, ReplayError> {
        let folder = folder.to_owned();
        if recording.process(number).is_none() {
            return Err(ReplayError::NoProcess { there: there(recording, &folder), folder, number });
        }
        if !recording.manifest.environment_recorded {
            return Err(ReplayError::NotByItself { folder, number });
        }
        let mut parts = vec![part::ABSENT; recording.process_count() as usize];
        let mut set = |image: u32, part| parts[image as usize] = part;
        for image in lineage::ancestors(recording, number) {
            set(image, part::AHEAD);
        }
        for image in lineage::images_from(recording, number) {
            set(image, part::WHOLE);
        }
        set(number, part::ALONE);
        Ok(Self { only: Some(number), parts })
    }

    pub(super) fn only(&self) -> Option<u32> {
        self.only
    }

    /// For the plan.
    pub(super) fn parts(&self) -> &[u32] {
        &self.parts
    }

    /// Whether an image is started at all.
    pub(super) fn runs(&self, image: u32) -> bool {
        self.parts.get(image as usize).is_none_or(|&part| part != part::ABSENT)
    }

    /// Whether a process is to do all that it did.
    fn counts(&self, process: &Process) -> bool {
        self.parts.get(process.index as usize).is_none_or(|&part| matches!(part, part::WHOLE | part::ALONE))
    }

    /// The processes that are to do all that they did.
    pub(super) fn processes<'a>(&'a self, recording: &'a Recording) -> impl Iterator<Item = &'a Process> {
        recording.processes().filter(|process| self.counts(process))
    }

    /// How many events each thread has to come to, by its index.
    pub(super) fn totals(&self, recording: &Recording) -> Vec<u64> {
        let mut totals = vec![0; recording.thread_count() as usize];
        for thread in self.processes(recording).flat_map(|process| &process.threads) {
            totals[*thread as usize] = recording.thread(*thread).map_or(0, |thread| thread.events);
        }
        totals
    }

    /// Of each thread, by its index: whether it has to come to the end of its calls, too.
    pub(super) fn have_calls(&self, recording: &Recording) -> Vec<bool> {
        let mut have = vec![false; recording.thread_count() as usize];
        let counted = self.processes(recording).filter(|_| recording.manifest.environment_recorded);
        for thread in counted.flat_map(|process| &process.threads) {
            have[*thread as usize] = recording.thread(*thread).is_some_and(|thread| !thread.stream.is_empty());
        }
        have
    }

    /// How the process that the replay is for ended in the recording, if that is known.
    pub(super) fn recorded(&self, recording: &Recording) -> Option<Outcome> {
        let images = lineage::images_from(recording, self.only.unwrap_or(0));
        let last = recording.process(*images.last()?)?;
        let first_pid = recording.process(0).map(|first| first.pid);
        let outcome = recording.manifest.outcome.filter(|_| self.only.is_none() || Some(last.pid) == first_pid);
        match outcome {
            Some(manifest::Outcome::Exited(code)) => Some(Outcome::Exited(code.into())),
            Some(manifest::Outcome::Killed(signal)) => Some(Outcome::Killed(signal.into())),
            None if self.only.is_some() => lineage::outcome(recording, last),
            None => match recording.process(0)?.end {
                End::Exited { code, .. } => Some(Outcome::Exited((code & 0xFF) as i32)),
                _ => None,
            },
        }
    }
}

/// `0 (sh), 1 (sh, fork of 0)`.
fn there(recording: &Recording, folder: &Path) -> String {
    let members = lineage::members(recording, folder);
    let describe = |member: &lineage::Member| match member.origin {
        lineage::Origin::First => format!("{} ({})", member.index, member.name()),
        origin => format!("{} ({}, {origin})", member.index, member.name()),
    };
    let text = members.iter().take(NAMED_MAX).map(describe).collect::<Vec<_>>().join(", ");
    match members.len().checked_sub(NAMED_MAX) {
        Some(more @ 1..) => format!("{text} and {more} more, which `relive stats` lists"),
        _ => text,
    }
}
