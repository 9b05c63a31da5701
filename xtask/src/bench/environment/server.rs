//! memcached and redis under load: how long so many requests take.
//!
//! Apart from the other programs because they do not end by themselves, and what counts
//! is what their clients see.

use super::{Case, folder_bytes};
use crate::bench::Place;
use crate::bench::measure::run;
use crate::run::child_of;
use crate::soak::Connection;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Connections at the same time, each of which waits for its answer.
const CLIENTS: u64 = 4;
/// Requests of each.
const REQUESTS: u64 = 25_000;
const REQUESTS_SMALL: u64 = 500;
const PATIENCE: Duration = Duration::from_secs(60);

/// The names of their rows.
const MEMCACHED: &str = "memcached -t 4";
const REDIS: &str = "redis, with a log";

/// Their command lines; the port is still to come.
pub(super) fn cases(place: &Place) -> [Case; 2] {
    let log = log(place).display().to_string();
    // As root it becomes another user, as it does where it is a service.
    let memcached = ["memcached", "-t", "4", "-U", "0", "-u", "nobody", "-l", "127.0.0.1", "-p"];
    let redis = ["redis-server", "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--dir", &log, "--port"];
    let case =
        |name, words: &[&str]| Case { name, command: words.iter().map(|&word| word.to_owned()).collect(), field: None };
    [case(MEMCACHED, &memcached), case(REDIS, &redis)]
}

/// Where redis keeps its log.
fn log(place: &Place) -> PathBuf {
    place.scratch.join("log")
}

/// Whether this row is one of them.
pub(super) fn is(case: &Case) -> bool {
    [MEMCACHED, REDIS].contains(&case.name)
}

/// Seconds of the requests natively and recorded, and of the whole replay; bytes of the trace.
pub(super) fn round(place: &Place, case: &Case, small: bool) -> Result<([f64; 3], u64), String> {
    let requests = if small { REQUESTS_SMALL } else { REQUESTS };
    let mut native = Command::new(&case.command[0]);
    native.args(&case.command[1..]);
    let native = serve(place, case, native, requests)?;
    let mut record = place.relive(&["record", "--environment", "-q", "-o"]);
    record.arg(place.trace()).arg("--").args(&case.command);
    let recorded = serve(place, case, record, requests)?;
    let bytes = folder_bytes(&place.trace());
    let (_, replayed) = run(&mut place.replay())?;
    Ok(([native, recorded, replayed.wall], bytes))
}

/// Starts the server, asks it, and ends it as its service manager would.
fn serve(place: &Place, case: &Case, mut command: Command, requests: u64) -> Result<f64, String> {
    let program = &case.command[0];
    let what = |what: &str, cause: io::Error| format!("{what} {program}: {cause}");
    // What an earlier one left would be read first.
    let _ = fs::remove_dir_all(log(place));
    fs::create_dir_all(log(place)).map_err(|cause| what("make a folder for", cause))?;
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = free.map_err(|cause| what("find a port for", cause))?.port();
    command.arg(port.to_string()).stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.spawn().map_err(|cause| what("start", cause))?;
    let client: fn(u64, u16, u64) -> io::Result<()> = if case.name == REDIS { ask_redis } else { ask_memcached };
    let asked = listens(port).then(|| ask(port, requests, client));
    end(&mut child).map_err(|cause| what("end", cause))?;
    asked.ok_or_else(|| format!("{program} does not listen"))?.map_err(|cause| what("ask", cause))
}

fn listens(port: u16) -> bool {
    let begin = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if begin.elapsed() > PATIENCE {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

/// The time from the first request to the last answer.
fn ask(port: u16, requests: u64, client: fn(u64, u16, u64) -> io::Result<()>) -> io::Result<f64> {
    let begin = Instant::now();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(move || client(number, port, requests))).collect();
        clients.into_iter().try_for_each(|client| client.join().expect("a client does not panic"))
    })?;
    Ok(begin.elapsed().as_secs_f64())
}

/// Weyl's sequence: every key and size comes, in no order.
fn dice(client: u64, requests: u64) -> impl Iterator<Item = u64> {
    (client << 32..).map(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20).take(requests as usize)
}

fn ask_memcached(client: u64, port: u16, requests: u64) -> io::Result<()> {
    let mut connection = Connection::open(port)?;
    dice(client, requests).try_for_each(|dice| connection.request(dice))
}

/// Of eight requests two store, five ask, and one counts.
fn ask_redis(client: u64, port: u16, requests: u64) -> io::Result<()> {
    const KEYS: u64 = 10_000;
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    let mut answers = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    for dice in dice(client, requests) {
        let key = dice / 8 % KEYS;
        let request = match dice % 8 {
            0 | 1 => format!("SET k{key} {}\r\n", "v".repeat((dice / 64 % 100) as usize + 1)),
            2 => format!("INCR c{}\r\n", key % 16),
            _ => format!("GET k{key}\r\n"),
        };
        stream.write_all(request.as_bytes())?;
        line.clear();
        answers.read_line(&mut line)?;
        match line.as_bytes().first() {
            Some(b'+' | b':') => {}
            Some(b'$') if line.starts_with("$-1") => {}
            Some(b'$') => drop(answers.read_line(&mut line)?),
            _ => return Err(io::Error::other(format!("it answers {line:?} to {request:?}"))),
        }
    }
    Ok(())
}

/// Ends the server, which is the child or the child's child.
fn end(child: &mut Child) -> io::Result<()> {
    let server = child_of(child.id()).unwrap_or(child.id());
    kill(Pid::from_raw(server as i32), Signal::SIGTERM)?;
    child.wait().map(drop)
}
