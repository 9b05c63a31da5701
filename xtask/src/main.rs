//! Developer commands: `cargo xtask demo | test | setup | tidy | bench | soak`.
//!
//! Apart from the product: nothing here ships, and nothing that ships depends
//! on it. Each command is a module; this file only chooses one.
#![forbid(unsafe_code)]
// A developer's command talks to its developer.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod demo;
mod run;
mod setup;
mod soak;
mod test;
mod tidy;

use std::error::Error;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  demo     build everything, record the bundled example, replay it five times
  test     install what the tests need, then check and test the whole project
  setup    only install what the tests need (Debian packages of xtask/packages.txt); setup --bench also
           what benchmarks compare with (xtask/packages_bench.txt)
  tidy     only check the project's own rules
  bench    measure what recording and replaying cost; bench --help says more
  soak     record memcached under load for ten minutes: memory stays flat, the trace is valid
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match command(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprint!("{USAGE}");
            ExitCode::from(2)
        }
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the command that `args` name; whether there is one.
fn command(args: &[String]) -> Result<bool, Box<dyn Error>> {
    let Some((name, rest)) = args.split_first() else { return Ok(false) };
    match name.as_str() {
        "demo" => demo::run()?,
        "test" => test::run()?,
        "setup" => setup::command(rest)?,
        "tidy" => tidy::run()?,
        "bench" => bench::run(rest)?,
        "soak" => soak::run(rest)?,
        _ => return Ok(false),
    }
    Ok(true)
}
