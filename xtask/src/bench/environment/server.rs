//! memcached under load: how long so many requests take.
//!
//! Apart from the other programs because it does not end by itself, and what counts is
//! what its clients see.

use super::{Case, folder_bytes};
use crate::bench::Place;
use crate::bench::measure::run;
use crate::run::child_of;
use crate::soak::Connection;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Connections at the same time, each of which waits for its answer.
const CLIENTS: u64 = 4;
/// Requests of each.
const REQUESTS: u64 = 25_000;
const REQUESTS_SMALL: u64 = 500;
const PATIENCE: Duration = Duration::from_secs(60);

/// The name of the row.
pub(super) const NAME: &str = "memcached -t 4";

/// Its command line; the port is still to come.
pub(super) fn case() -> Case {
    // As root it becomes another user, as it does where it is a service.
    let words = ["memcached", "-t", "4", "-U", "0", "-u", "nobody", "-l", "127.0.0.1", "-p"];
    Case { name: NAME, command: words.map(str::to_owned).to_vec(), field: None }
}

/// Seconds of the requests natively and recorded, and of the whole replay; bytes of the trace.
pub(super) fn round(place: &Place, case: &Case, small: bool) -> Result<([f64; 3], u64), String> {
    let requests = if small { REQUESTS_SMALL } else { REQUESTS };
    let mut native = Command::new(&case.command[0]);
    native.args(&case.command[1..]);
    let native = serve(native, requests)?;
    let mut record = place.relive(&["record", "--environment", "-q", "-o"]);
    record.arg(place.trace()).arg("--").args(&case.command);
    let recorded = serve(record, requests)?;
    let bytes = folder_bytes(&place.trace());
    let (_, replayed) = run(&mut place.replay())?;
    Ok(([native, recorded, replayed.wall], bytes))
}

/// Starts the server, asks it, and ends it as its service manager would.
fn serve(mut command: Command, requests: u64) -> Result<f64, String> {
    let what = |what: &str, cause: std::io::Error| format!("{what} memcached: {cause}");
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = free.map_err(|cause| what("find a port for", cause))?.port();
    command.arg(port.to_string()).stdin(Stdio::null());
    let mut child = command.spawn().map_err(|cause| what("start", cause))?;
    let asked = listens(port).then(|| ask(port, requests));
    end(&mut child)?;
    asked.ok_or("memcached does not listen")?.map_err(|cause| what("ask", cause))
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
fn ask(port: u16, requests: u64) -> std::io::Result<f64> {
    let client = |number: u64| {
        let mut connection = Connection::open(port)?;
        // Weyl's sequence: every key and size comes, in no order.
        let mut dice = (number << 32..).map(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20);
        dice.by_ref().take(requests as usize).try_for_each(|dice| connection.request(dice))
    };
    let begin = Instant::now();
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(move || client(number))).collect();
        clients.into_iter().try_for_each(|client| client.join().expect("a client does not panic"))
    })?;
    Ok(begin.elapsed().as_secs_f64())
}

/// Ends memcached, which is the child or the child's child.
fn end(child: &mut Child) -> Result<(), String> {
    let server = child_of(child.id()).unwrap_or(child.id());
    kill(Pid::from_raw(server as i32), Signal::SIGTERM).map_err(|error| format!("end memcached: {error}"))?;
    child.wait().map(drop).map_err(|cause| format!("wait for memcached: {cause}"))
}
