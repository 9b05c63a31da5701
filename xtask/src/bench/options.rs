//! What to measure: the arguments of `cargo xtask bench`.

use super::{kernels, races};

/// How to call it.
pub(super) const USAGE: &str = "\
usage: cargo xtask bench [--quick] [--small] [--threads 2,4] [--runs N] [--only NAME]
                         [--environment | --races | --segments]

  --quick       3 runs, 2 threads: a first impression; the intervals mean little
  --small       the kernels' small sizes: tries the command itself
  --threads L   numbers of threads, separated by commas [2,4]
  --runs N      runs of each kernel in each mode [10]
  --only NAME   one kernel, and none of the other tables
  --environment what recording the environment costs, and nothing else
  --races       what the race detector costs and finds, beside other tools, and nothing else:
                2 threads unless --threads says otherwise; cargo xtask setup --bench installs them
  --segments    what a detector that stores segments would store and compare, and nothing else:
                small sizes, once each, written to bench/

A whole run (45 minutes; of --races 30 to 70) is written to bench/, any other one to bench/ in the target
folder; what is measured so far stands there in so-far.md.
";

const RUNS: usize = 10;
const RUNS_QUICK: usize = 3;

/// Of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// Recordings and replays.
    Kernels,
    /// Recordings of the environment.
    Environment,
    /// The race detector.
    Races,
    /// What a detector would store that keeps segments.
    Segments,
}

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
    /// Of what.
    pub(super) subject: Subject,
    /// The arguments, to be told with the figures.
    pub(super) given: String,
}

impl Options {
    /// Reads the arguments; the error says what is wrong with them.
    pub(super) fn parse(args: &[String]) -> Result<Self, String> {
        let (mut threads, mut runs) = (None, None);
        let mut options = Self {
            quick: false,
            small: false,
            threads: vec![2, 4],
            runs: RUNS,
            only: None,
            subject: Subject::Kernels,
            given: args.join(" "),
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} wants a value"));
            match arg.as_str() {
                "--quick" => options.quick = true,
                "--small" => options.small = true,
                "--threads" => {
                    threads = Some(value()?.split(',').map(|n| number(arg, n)).collect::<Result<Vec<_>, _>>()?);
                }
                "--environment" => options.subject = Subject::Environment,
                "--races" => options.subject = Subject::Races,
                "--segments" => options.subject = Subject::Segments,
                "--runs" => runs = Some(number(arg, value()?)?),
                "--only" => options.only = Some(value()?.clone()),
                _ => return Err(format!("unknown argument `{arg}`")),
            }
        }
        if options.quick {
            (options.threads, options.runs) = (vec![2], RUNS_QUICK);
        }
        if let Some(name) = &options.only {
            known(name, options.subject)?;
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

fn known(name: &str, subject: Subject) -> Result<(), String> {
    let of_races = matches!(subject, Subject::Races | Subject::Segments);
    let names: Vec<&str> = if of_races { races::names().collect() } else { kernels::NAMES.to_vec() };
    if names.contains(&name) {
        return Ok(());
    }
    Err(format!("no kernel is called `{name}`; there are {}", names.join(", ")))
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
    fn the_kernels_depend_on_what_is_measured() {
        assert!(parse("--only hash").is_err());
        assert!(parse("--only hash --races").is_ok_and(|options| options.given == "--only hash --races"));
    }

    #[test]
    fn nonsense_is_refused() {
        for wrong in ["--runs", "--runs 0", "--threads 2,x", "--only nothing", "--only nothing --races", "fast"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
