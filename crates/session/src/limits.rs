//! How long and how large a recording may get, and what happens when it is.
//!
//! Apart because the launcher ends such a recording although its program goes on:
//! it says up to which timestamp the trace holds, and the recorded processes add
//! nothing more once they see it.

use crate::data_file::{self, Series};
use crate::processes;
use crate::shared::Shared;
use relive_trace::control::{Control, IN_USE, mode};
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::time::{Duration, Instant};

/// The most that a recording may become.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// How long the program is recorded.
    pub duration: Option<Duration>,
    /// Bytes of the trace.
    pub bytes: Option<u64>,
}

/// Nobody needs less, and the launcher does not look whether the program has begun all the time.
const SHORTEST: Duration = Duration::from_millis(1);

/// Which limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// [`Limits::duration`].
    Duration,
    /// [`Limits::bytes`].
    Bytes,
}

/// The process images that record and live.
pub(crate) fn recording_now(shared: &Shared) -> impl Iterator<Item = u32> {
    let used = shared.control().processes.iter().filter(|slot| slot.state.load(Acquire) == IN_USE);
    used.filter(|slot| processes::alive(slot.pid.load(Acquire))).map(|slot| slot.process.load(Acquire))
}

/// Tells the processes to come how large the trace may get.
pub(crate) fn start(control: &Control, limits: &Limits) {
    control.allowed.store(limits.bytes.unwrap_or(u64::MAX), Release);
}

/// Ends the recording at what all processes have done by now, unless it has ended.
pub(crate) fn reach(shared: &Shared, folder: &Path) {
    let control = shared.control();
    let files = 0..control.next_process.load(Acquire).max(1);
    let clocks = files.filter_map(|process| data_file::latest_clock(&Series::Recorded.path(folder, process)).ok());
    let latest = clocks.max().unwrap_or(0).max(control.latest.load(Acquire));
    let _ = control.cut.compare_exchange(u64::MAX, latest, AcqRel, Acquire);
    let _ = control.mode.compare_exchange(mode::RECORD, mode::ENOUGH, AcqRel, Acquire);
}

/// Says in the data file of an image that ended how far it belongs to the recording, if that reached a limit before:
/// while the image was `living`, or at a timestamp that it passed.
pub(crate) fn mark(control: &Control, path: &Path, living: bool) -> io::Result<()> {
    let cut = control.cut.load(Acquire);
    if is_reached(control) && (living || data_file::latest_clock(path)? > cut) {
        data_file::mark_limit(path, cut)?;
    }
    Ok(())
}

/// Whether a limit was reached.
pub(crate) fn is_reached(control: &Control) -> bool {
    control.mode.load(Acquire) == mode::ENOUGH
}

/// The time until the recording is long enough; `None` if it may go on for ever or has ended.
pub(crate) fn time_left(limits: &Limits, start: Instant, reached: Option<Limit>) -> Option<Duration> {
    let duration = limits.duration.filter(|_| reached.is_none())?;
    Some(duration.max(SHORTEST).saturating_sub(start.elapsed()))
}
