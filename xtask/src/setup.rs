//! `cargo xtask setup`: installs the Debian packages that the tests need, and with `--bench` those of the benchmarks.
//!
//! Apart because a developer may want the packages without the tests.

use crate::run::{self, Failure, Outcome};
use std::path::Path;
use std::process::Command;

/// What the tests need.
const TESTS: &str = "xtask/packages.txt";
/// What only benchmarks need.
const BENCH: &str = "xtask/packages_bench.txt";

/// `cargo xtask setup`, with its arguments.
pub(crate) fn command(args: &[String]) -> Outcome {
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => run(),
        ["--bench"] => bench(),
        _ => Err(Failure::Other("setup: the only argument is --bench".to_owned())),
    }
}

/// Installs what the tests need.
pub(crate) fn run() -> Outcome {
    install(TESTS)
}

/// Installs what the tests and the benchmarks need.
pub(crate) fn bench() -> Outcome {
    run()?;
    install(BENCH)
}

/// Installs what is missing of a list.
fn install(list: &str) -> Outcome {
    let listed = run::read(&run::root().join(list))?;
    let wanted = packages(&listed);
    let missing: Vec<&str> = wanted.into_iter().filter(|p| !installed(p)).collect();
    if missing.is_empty() {
        println!("setup: all packages of {list} are installed");
        return Ok(());
    }
    if !Path::new("/usr/bin/apt-get").exists() {
        return Err(Failure::Other(format!(
            "install {}: this is not a Debian system; install what corresponds to them and run again",
            missing.join(" ")
        )));
    }
    println!("setup: installing {}", missing.join(" "));
    run::step(as_root("apt-get").args(["update", "-qq"]))?;
    run::step(as_root("apt-get").args(["install", "-y", "-qq", "--no-install-recommends"]).args(missing))
}

fn packages(listed: &str) -> Vec<&str> {
    listed.lines().map(|line| line.split('#').next().unwrap_or_default().trim()).filter(|p| !p.is_empty()).collect()
}

fn installed(package: &str) -> bool {
    let mut query = Command::new("dpkg-query");
    query.args(["-W", "-f", "${Status}", package]);
    run::capture(&mut query).is_ok_and(|o| o.stdout.ends_with(b"ok installed"))
}

/// `program` with the rights to install: itself for root, through sudo otherwise.
fn as_root(program: &str) -> Command {
    let is_root = run::capture(Command::new("id").arg("-u")).is_ok_and(|o| o.stdout == b"0\n");
    let mut command = if is_root {
        Command::new(program)
    } else {
        let mut sudo = Command::new("sudo");
        sudo.arg("--preserve-env=DEBIAN_FRONTEND").arg(program);
        sudo
    };
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

#[cfg(test)]
mod tests {
    use super::packages;

    #[test]
    fn comments_and_blank_lines_are_no_packages() {
        assert_eq!(packages("# all\n\ngcc\n gdb # debugger\n"), ["gcc", "gdb"]);
    }
}
