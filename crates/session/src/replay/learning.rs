//! By which rule a replay goes, and what becomes of the order that it learnt.

use super::{DerivedError, DerivedOrder, DirBuilder, DirBuilderExt, Path, PathBuf, Recording, flag, fs, io, processes};

/// Why what a replay learnt is not in the trace.
#[derive(Debug, thiserror::Error)]
pub enum NotLearnt {
    /// It found no space.
    #[error("no space left for it")]
    NoSpace,
    /// It can't be read or contradicts the recording.
    #[error(transparent)]
    Order(#[from] DerivedError),
    /// It can't be written.
    #[error("{0}")]
    Write(io::Error),
}

/// In front of the process id of the replay that learns.
const LEARNS: &str = "learn.";

/// By which rule a replay goes.
#[derive(Debug)]
pub enum Rule {
    /// By timestamps.
    Reference,
    /// By timestamps, and the order of each object is written into this folder.
    Learn(PathBuf),
    /// By the order that an earlier replay learnt.
    Derived(Box<DerivedOrder>),
}

impl Rule {
    /// The learnt order if there is one that fits; else a learning replay if the trace can be written, and no learnt
    /// order was refuted.
    pub fn choose(recording: &Recording, folder: &Path) -> Self {
        if DerivedOrder::is_refuted(folder, recording) {
            return Rule::Reference;
        }
        match DerivedOrder::read(folder, recording) {
            Ok(order) => Rule::Derived(Box::new(order)),
            Err(_) => Self::learn(folder),
        }
    }

    /// A learning replay, or if the trace can't be written one by timestamps.
    pub fn learn(folder: &Path) -> Self {
        processes::remove_left(folder, LEARNS);
        let learnt = folder.join(format!("{LEARNS}{}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&learnt) {
            Ok(()) => Rule::Learn(learnt),
            Err(_) => Rule::Reference,
        }
    }

    /// Like [`Rule::choose`], but never learns: a debugged run may end anywhere.
    pub(super) fn choose_quietly(recording: &Recording, folder: &Path) -> Self {
        DerivedOrder::read(folder, recording).map_or(Rule::Reference, |order| Rule::Derived(Box::new(order)))
    }

    /// It goes by a learnt order.
    pub fn is_derived(&self) -> bool {
        matches!(self, Rule::Derived(_))
    }

    pub(super) fn derived(&self) -> Option<&DerivedOrder> {
        match self {
            Rule::Derived(order) => Some(order),
            _ => None,
        }
    }

    pub(super) fn flag(&self) -> u32 {
        match self {
            Rule::Reference => 0,
            Rule::Learn(_) => flag::LEARN,
            Rule::Derived(_) => flag::DERIVED,
        }
    }

    /// Where the runtime writes.
    pub(super) fn folder<'a>(&'a self, trace: &'a Path) -> &'a Path {
        match self {
            Rule::Learn(folder) => folder,
            _ => trace,
        }
    }

    /// Puts what was learnt into the trace, unless some of it found no space.
    pub(super) fn keep(&self, recording: &Recording, trace: &Path, refused: bool) -> Result<(), NotLearnt> {
        let Rule::Learn(folder) = self else { return Ok(()) };
        if refused {
            return Err(NotLearnt::NoSpace);
        }
        let mut files = learnt_files(folder).map_err(NotLearnt::Write)?;
        files.sort_unstable();
        let order = DerivedOrder::from_learnt(recording, files.iter().map(PathBuf::as_path))?;
        order.write(trace).map_err(NotLearnt::Write)
    }

    pub(super) fn clean(&self) {
        if let Rule::Learn(folder) = self {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

fn learnt_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::Rule;
    use std::fs;

    #[test]
    fn what_a_killed_replay_left_is_removed_and_a_living_ones_work_is_not() {
        let trace = tempfile::tempdir().unwrap();
        let mut gone = std::process::Command::new("/bin/true").spawn().unwrap();
        gone.wait().unwrap();
        let stale = trace.path().join(format!("learn.{}", gone.id()));
        let other = trace.path().join("learn.1");
        fs::create_dir(&stale).unwrap();
        fs::create_dir(&other).unwrap();
        let rule = Rule::learn(trace.path());
        assert!(!stale.exists() && other.exists());
        assert!(rule.folder(trace.path()).is_dir());
        rule.clean();
        assert_eq!(fs::read_dir(trace.path()).unwrap().count(), 1);
    }
}
