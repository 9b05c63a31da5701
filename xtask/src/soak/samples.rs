//! What the soak sees of memory and trace, and when memory counts as flat.
//!
//! Apart from the run so that the judgement can be tried without ten minutes.

use crate::run::{self, Failure, Outcome};
use std::path::Path;
use std::time::Duration;

/// Until the server has what it keeps, and the recording its buffers.
const WARM_UP: Duration = Duration::from_secs(60);
/// The last third's median may lie so many MiB above the first third's: of the trace, pages of the part that is being
/// filled belong to the program, a MiB more or less.
const GROWTH_MAX: f64 = 1.0;
const MIB: f64 = (1 << 20) as f64;

/// One look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// Since the load began.
    at: Duration,
    requests: u64,
    /// Resident memory of the program in all, and of it what belongs to no file.
    resident: u64,
    private: u64,
    trace: u64,
}

/// All looks in order.
#[derive(Debug, Default)]
pub(super) struct Samples(Vec<Sample>);

impl Sample {
    /// Looks at the process and its trace.
    pub(super) fn take(at: Duration, requests: u64, pid: u32, trace: &Path) -> Outcome<Self> {
        let status = run::read(Path::new(&format!("/proc/{pid}/status")))?;
        let kib = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let value =
                line.and_then(|rest| rest.trim_start_matches(':').split_whitespace().next()?.parse::<u64>().ok());
            value.map(|kib| kib << 10).ok_or_else(|| Failure::Other(format!("process {pid} has no {name}: it is gone")))
        };
        Ok(Self { at, requests, resident: kib("VmRSS")?, private: kib("RssAnon")?, trace: bytes_in(trace)? })
    }
}

fn bytes_in(folder: &Path) -> Outcome<u64> {
    let failed = |cause| Failure::File { path: folder.to_owned(), cause };
    let files = std::fs::read_dir(folder).map_err(failed)?;
    files
        .map(|file| file.and_then(|file| file.metadata()).map(|metadata| metadata.len()))
        .sum::<std::io::Result<u64>>()
        .map_err(failed)
}

#[expect(clippy::cast_precision_loss, reason = "shown with one digit, compared by hundredths")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / MIB
}

impl Samples {
    pub(super) fn push(&mut self, sample: Sample) {
        self.0.push(sample);
    }

    /// One line a minute.
    pub(super) fn print(&self) {
        println!("\nminute   requests   RSS MiB   of it anonymous   trace MiB");
        for sample in self.0.iter().filter(|sample| sample.at.as_secs() % 60 < 10 && sample.at.as_secs() >= 60) {
            let (resident, private, trace) = (mib(sample.resident), mib(sample.private), mib(sample.trace));
            let minute = sample.at.as_secs() / 60;
            println!("{minute:6}   {:8}   {resident:7.1}   {private:15.1}   {trace:9.1}", sample.requests);
        }
    }

    /// Whether memory is flat: after the warm-up, the last third's median against the first third's.
    pub(super) fn judge(&self) -> Result<(), String> {
        let warm: Vec<&Sample> = self.0.iter().filter(|sample| sample.at >= WARM_UP).collect();
        let third = warm.len() / 3;
        if third == 0 {
            return Err("too few samples to judge".to_owned());
        }
        let median = |samples: &[&Sample]| {
            let mut values: Vec<u64> = samples.iter().map(|sample| sample.resident).collect();
            values.sort_unstable();
            mib(values[values.len() / 2])
        };
        let (first, last) = (median(&warm[..third]), median(&warm[warm.len() - third..]));
        let growth = last - first;
        println!("resident memory, medians: first third {first:.1} MiB, last third {last:.1} MiB ({growth:+.1} MiB)");
        if growth <= GROWTH_MAX { Ok(()) } else { Err(format!("memory grows: by {growth:.1} MiB in the time")) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Sample, Samples};

    fn samples(resident: impl Fn(u64) -> u64) -> Samples {
        let sample = |second| Sample {
            at: Duration::from_secs(second),
            requests: 0,
            resident: resident(second) << 10,
            private: 0,
            trace: 0,
        };
        Samples((1..=60).map(|number| sample(number * 10)).collect())
    }

    #[test]
    fn what_comes_in_the_first_minute_does_not_count_and_what_comes_later_does() {
        assert!(samples(|second| if second < 60 { 1000 } else { 90_000 }).judge().is_ok());
        assert!(samples(|second| 50_000 + second % 40).judge().is_ok());
        // Three MiB in ten minutes: a leak of five bytes a request.
        assert!(samples(|second| 50_000 + 5 * second).judge().is_err());
        assert!(Samples::default().judge().is_err());
    }
}
