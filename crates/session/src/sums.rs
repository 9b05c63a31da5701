//! The checksums of a recording's files, by as many threads as there are processors: the
//! program has ended, and its user waits.

use relive_trace::reader::checksum;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

/// A thread takes as long to start as half a megabyte to sum up.
const WORTH: u64 = 1 << 20;

/// The sum of each of the files, which have these lengths.
pub(crate) fn of(files: &[(PathBuf, u64)]) -> io::Result<Vec<u64>> {
    let next = AtomicUsize::new(0);
    let work = || -> io::Result<Vec<(usize, u64)>> {
        let taken = std::iter::from_fn(|| Some(next.fetch_add(1, Relaxed)).filter(|&number| number < files.len()));
        taken.map(|number| Ok((number, checksum(File::open(&files[number].0)?)?))).collect()
    };
    let worth: u64 = files.iter().map(|(_, bytes)| bytes).sum();
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let helpers = processors.min(files.len()).min((worth / WORTH) as usize).saturating_sub(1);
    let mut sums = thread::scope(|scope| -> io::Result<Vec<(usize, u64)>> {
        let others: Vec<_> = (0..helpers).map(|_| scope.spawn(work)).collect();
        let mut sums = work()?;
        for other in others {
            sums.extend(other.join().expect("it reads files")?);
        }
        Ok(sums)
    })?;
    sums.sort_unstable();
    Ok(sums.into_iter().map(|(_, sum)| sum).collect())
}

#[cfg(test)]
mod tests {
    use super::{checksum, of};

    #[test]
    fn each_file_has_its_own_sum() {
        let folder = tempfile::tempdir().unwrap();
        let files: Vec<_> = (0..9u8)
            .map(|number| {
                let content = vec![number; 400_000 * usize::from(number)];
                let path = folder.path().join(number.to_string());
                std::fs::write(&path, &content).unwrap();
                (path, content)
            })
            .collect();
        let expected: Vec<_> = files.iter().map(|(_, content)| checksum(&content[..]).unwrap()).collect();
        let mut given: Vec<_> = files.into_iter().map(|(path, content)| (path, content.len() as u64)).collect();
        assert_eq!(of(&given).unwrap(), expected);
        assert!(of(&[]).unwrap().is_empty());
        given[5].0.push("missing");
        assert!(of(&given).is_err());
    }
}
