//! What to measure: the arguments of `cargo xtask bench`.

use super::kernels;

/// How to call it.
pub(super) const USAGE: &str = "\
usage: cargo xtask bench [--quick] [--small] [--threads 2,4] [--runs N] [--only NAME] [--environment]

  --quick       3 runs, 2 threads: a first impression; the intervals mean little
  --small       the kernels' small sizes: tries the command itself
  --threads L   numbers of threads, separated by commas [2,4]
  --runs N      runs of each kernel in each mode [10]
  --only NAME   one kernel, and none of the other tables
  --environment what recording the environment costs, and nothing else

A whole run (45 minutes) is written to bench/, any other one to bench/ in the target
folder; what is measured so far stands there in so-far.md.
";

const RUNS: usize = 10;
const RUNS_QUICK: usize = 3;

/// What to measure.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// Fewer runs than results need.
    pub(super) quick: bool,
    /// Small sizes.
    pub(super) small: bool,
    /// Numbers of threads.
    pub(super) threads: Vec<usize>,
    /// Runs of each kernel in each mode.
    pub(super) runs: usize,
    /// One kernel instead of all.
    pub(super) only: Option<String>,
    /// Recordings of the environment instead of all else.
    pub(super) environment: bool,
}

impl Options {
    /// Reads the arguments; the error says what is wrong with them.
    pub(super) fn parse(args: &[String]) -> Result<Self, String> {
        let (mut threads, mut runs) = (None, None);
        let mut options =
            Self { quick: false, small: false, threads: vec![2, 4], runs: RUNS, only: None, environment: false };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} wants a value"));
            match arg.as_str() {
                "--quick" => options.quick = true,
                "--small" => options.small = true,
                "--threads" => {
                    threads = Some(value()?.split(',').map(|n| number(arg, n)).collect::<Result<Vec<_>, _>>()?);
                }
                "--environment" => options.environment = true,
                "--runs" => runs = Some(number(arg, value()?)?),
                "--only" => options.only = Some(known(value()?)?),
                _ => return Err(format!("unknown argument `{arg}`")),
            }
        }
        if options.quick {
            (options.threads, options.runs) = (vec![2], RUNS_QUICK);
        }
        options.threads = threads.unwrap_or(options.threads);
        options.runs = runs.unwrap_or(options.runs);
        Ok(options)
    }

    /// The kernels to run.
    pub(super) fn chosen(&self) -> Vec<&'static str> {
        kernels::NAMES.iter().copied().filter(|n| self.only.as_ref().is_none_or(|only| only == n)).collect()
    }

    /// Whether the figures may stand for the project.
    pub(super) fn is_whole(&self) -> bool {
        !self.quick && !self.small && self.only.is_none() && self.runs >= RUNS
    }
}

fn number(name: &str, text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| (1..=64).contains(n)).ok_or_else(|| format!("{name}: `{text}` is not from 1 to 64"))
}

fn known(name: &str) -> Result<String, String> {
    if kernels::NAMES.contains(&name) {
        return Ok(name.to_owned());
    }
    Err(format!("no kernel is called `{name}`; there are {}", kernels::NAMES.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::Options;

    fn parse(text: &str) -> Result<Options, String> {
        Options::parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_said_wins_over_quick() {
        let options = parse("--runs 5 --quick --threads 4,8").expect("valid");
        assert_eq!((options.runs, options.threads.as_slice()), (5, [4, 8].as_slice()));
        assert_eq!(parse("--quick").expect("valid").threads, [2]);
    }

    #[test]
    fn only_a_whole_run_is_whole() {
        assert!(parse("").expect("valid").is_whole());
        assert!(parse("--runs 12").expect("valid").is_whole());
        for part in ["--quick", "--small", "--runs 9", "--only fft"] {
            assert!(!parse(part).expect("valid").is_whole(), "{part}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for wrong in ["--runs", "--runs 0", "--threads 2,x", "--only nothing", "fast"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
