//! `cargo xtask soak`: ten minutes of memcached under load while it is recorded.
//!
//! Apart from the benchmarks because no speed is measured: what counts is that the
//! program's memory stays as it is however long it is recorded, and that the trace
//! is whole.

mod load;
mod samples;

use crate::run::{self, Failure, Outcome, child_of};
use load::Load;

pub(crate) use load::Connection;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use samples::{Sample, Samples};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: cargo xtask soak [--minutes N]

  --minutes N   how long memcached is kept busy [10], three at least
";

const MINUTES: u64 = 10;
/// With less, a third of the time behind the warm-up has hardly a sample.
const MINUTES_MIN: u64 = 3;
/// How often memory and trace are looked at.
const INTERVAL: Duration = Duration::from_secs(10);
/// How long the server may take to listen, and to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Records memcached under load, and judges its memory and the trace.
pub(crate) fn run(args: &[String]) -> Outcome {
    let minutes = minutes(args)?;
    println!("Building relive …");
    run::step(&mut run::cargo(&["build", "--quiet", "--release", "--package", "relive"]))?;
    let target = target_folder()?;
    let (relive, trace) = (target.join("release/relive"), target.join("soak"));
    if trace.exists() {
        std::fs::remove_dir_all(&trace).map_err(|cause| Failure::File { path: trace.clone(), cause })?;
    }
    let server = Server::start(&relive, &trace)?;
    println!("memcached is recorded for {minutes} minutes …");
    let samples = keep_busy(&server, &trace, minutes)?;
    server.end()?;
    samples.print();
    check_trace(&relive, &trace)?;
    samples.judge().map_err(Failure::Other)?;
    println!("memory is flat, the trace is valid: {}", trace.display());
    Ok(())
}

fn minutes(args: &[String]) -> Outcome<u64> {
    let wrong = || Failure::Other(format!("soak: wrong arguments\n{USAGE}"));
    match args {
        [] => Ok(MINUTES),
        [name, value] if name == "--minutes" => {
            value.parse().ok().filter(|&minutes| minutes >= MINUTES_MIN).ok_or_else(wrong)
        }
        _ => Err(wrong()),
    }
}

fn target_folder() -> Outcome<PathBuf> {
    let metadata =
        cargo_metadata::MetadataCommand::new().manifest_path(run::root().join("Cargo.toml")).no_deps().exec();
    metadata.map(|m| m.target_directory.into_std_path_buf()).map_err(|e| Failure::Other(format!("cargo metadata: {e}")))
}

/// Samples while the clients ask.
fn keep_busy(server: &Server, trace: &Path, minutes: u64) -> Outcome<Samples> {
    let load = Load::start(server.port);
    let (started, end) = (Instant::now(), Duration::from_secs(minutes * 60));
    let mut samples = Samples::default();
    while started.elapsed() < end {
        std::thread::sleep(INTERVAL);
        samples.push(Sample::take(started.elapsed(), load.requests(), server.memcached, trace)?);
    }
    load.end().map_err(|error| Failure::Other(format!("a client of memcached: {error}")))?;
    Ok(samples)
}

/// A recorded memcached.
struct Server {
    recorder: Child,
    memcached: u32,
    port: u16,
}

impl Server {
    fn start(relive: &Path, trace: &Path) -> Outcome<Self> {
        let other = |what: &str| Failure::Other(format!("soak: {what}"));
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.map_err(|error| other(&format!("find a free port: {error}")))?.port();
        let mut command = Command::new(relive);
        command.args(["record", "--environment", "-o"]).arg(trace).args(["--", "memcached", "-t", "4", "-U", "0"]);
        // As root it becomes another user, as it does where it is a service.
        command.args(["-u", "nobody", "-l", "127.0.0.1", "-p", &port.to_string()]).stdin(Stdio::null());
        let line = run::line_of(&command);
        let recorder = command.spawn().map_err(|cause| Failure::Start { line, cause })?;
        let mut server = Self { recorder, memcached: 0, port };
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if started.elapsed() > PATIENCE {
                let _ = server.recorder.kill();
                return Err(other("memcached does not listen"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        server.memcached = child_of(server.recorder.id()).ok_or_else(|| other("memcached is no child of relive"))?;
        Ok(server)
    }

    /// Ends the server as its service manager would.
    fn end(mut self) -> Outcome {
        kill(Pid::from_raw(self.memcached as i32), Signal::SIGTERM)
            .map_err(|error| Failure::Other(format!("end memcached: {error}")))?;
        let started = Instant::now();
        loop {
            match self.recorder.try_wait() {
                Ok(Some(status)) => return expect_success(status),
                Ok(None) if started.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(20)),
                _ => {
                    let _ = self.recorder.kill();
                    return Err(Failure::Other("soak: memcached does not end".to_owned()));
                }
            }
        }
    }
}

fn expect_success(status: ExitStatus) -> Outcome {
    let line = "relive record -- memcached".to_owned();
    if status.success() { Ok(()) } else { Err(Failure::Step { line, status }) }
}

/// Reads every byte of the trace: each file's checksum, each record. It must reach to the end of the program.
fn check_trace(relive: &Path, trace: &Path) -> Outcome {
    let stats = run::capture(Command::new(relive).args(["stats", "--json"]).arg(trace))?;
    let stats: serde_json::Value = serde_json::from_slice(&stats.stdout)
        .map_err(|_| Failure::Other(format!("the trace is not valid: {}", String::from_utf8_lossy(&stats.stderr))))?;
    let (cut, end) = (&stats["cut"], &stats["processes"][0]["end"]);
    println!("\ntrace: {} operations, {} bytes on disk, ended `{end}`", stats["operations"], stats["disk_bytes"]);
    if !cut.is_null() || end != "exited 0" {
        return Err(Failure::Other(format!("the trace does not reach to the end: cut {cut}, end {end}")));
    }
    Ok(())
}
