//! `cargo xtask setup`: installs the Debian packages that the tests need.
//!
//! Apart because a developer may want the packages without the tests.

use crate::run::{self, Failure, Outcome};
use std::path::Path;
use std::process::Command;

/// Installs what is missing of `packages.txt`.
pub(crate) fn run() -> Outcome {
    let listed = run::read(&run::root().join("xtask/packages.txt"))?;
    let wanted = packages(&listed);
    let missing: Vec<&str> = wanted.into_iter().filter(|p| !installed(p)).collect();
    if missing.is_empty() {
        println!("setup: all packages of xtask/packages.txt are installed");
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
