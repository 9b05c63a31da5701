//! The clients: a mixed load on memcached until somebody says enough.
//!
//! Apart because it is the other side of the wire. The keys and the sizes of values
//! come round again, so what the server has to keep does not grow.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Connections at the same time.
const CLIENTS: u64 = 24;
/// Requests until a client comes back with a new connection.
const REQUESTS_A_CONNECTION: u64 = 2000;
const KEYS: u64 = 5000;
const VALUE_BYTES_MAX: u64 = 600;
/// Between two requests of a client: ten minutes shall be ten minutes of wear, not a full disk.
const PAUSE: Duration = Duration::from_millis(4);

/// Clients that ask.
pub(super) struct Load {
    state: Arc<State>,
    clients: Vec<JoinHandle<io::Result<()>>>,
}

#[derive(Default)]
struct State {
    requests: AtomicU64,
    enough: AtomicBool,
}

impl Load {
    /// Lets the clients begin.
    pub(super) fn start(port: u16) -> Self {
        let state = Arc::new(State::default());
        let client = |number| {
            let state = Arc::clone(&state);
            thread::spawn(move || ask(port, number, &state))
        };
        Self { clients: (0..CLIENTS).map(client).collect(), state }
    }

    /// Requests answered so far.
    pub(super) fn requests(&self) -> u64 {
        self.state.requests.load(Ordering::Relaxed)
    }

    /// Ends the clients; an error if one of them had ended before, or got a wrong answer.
    pub(super) fn end(self) -> io::Result<()> {
        self.state.enough.store(true, Ordering::Relaxed);
        self.clients.into_iter().try_for_each(|client| client.join().expect("a client does not panic"))
    }
}

fn ask(port: u16, client: u64, state: &State) -> io::Result<()> {
    let mut number = client << 32;
    while !state.enough.load(Ordering::Relaxed) {
        let mut connection = Connection::open(port)?;
        for _ in 0..REQUESTS_A_CONNECTION {
            if state.enough.load(Ordering::Relaxed) {
                break;
            }
            number += 1;
            // Weyl's sequence: every key and size comes, in no order.
            connection.request(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20)?;
            state.requests.fetch_add(1, Ordering::Relaxed);
            thread::sleep(PAUSE);
        }
    }
    Ok(())
}

/// A client's connection.
pub(crate) struct Connection {
    stream: TcpStream,
    answers: BufReader<TcpStream>,
}

impl Connection {
    pub(crate) fn open(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        Ok(Self { answers: BufReader::new(stream.try_clone()?), stream })
    }

    /// One request and its answer: of eight, two store, four ask, one counts and one deletes.
    pub(crate) fn request(&mut self, dice: u64) -> io::Result<()> {
        let key = dice / 8 % KEYS;
        match dice % 8 {
            0 | 1 => {
                let value = "v".repeat((dice / 64 % VALUE_BYTES_MAX) as usize + 1);
                self.send(&format!("set k{key} 0 0 {}\r\n{value}\r\n", value.len()))?;
                self.expect(&["STORED"])
            }
            2 => {
                self.send(&format!("delete k{key}\r\n"))?;
                self.expect(&["DELETED", "NOT_FOUND"])
            }
            3 => {
                let counter = key % 16;
                self.send(&format!("incr c{counter} 1\r\n"))?;
                if self.line()?.starts_with("NOT_FOUND") {
                    self.send(&format!("set c{counter} 0 0 1\r\n0\r\n"))?;
                    return self.expect(&["STORED"]);
                }
                Ok(())
            }
            _ => {
                self.send(&format!("get k{key}\r\n"))?;
                self.take_value()
            }
        }
    }

    fn send(&mut self, text: &str) -> io::Result<()> {
        self.stream.write_all(text.as_bytes())
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.answers.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line),
        }
    }

    fn expect(&mut self, wanted: &[&str]) -> io::Result<()> {
        let line = self.line()?;
        if wanted.contains(&line.trim_end()) { Ok(()) } else { Err(io::Error::other(format!("it answered {line:?}"))) }
    }

    fn take_value(&mut self) -> io::Result<()> {
        let line = self.line()?;
        if line == "END\r\n" {
            return Ok(());
        }
        let length = line.trim_end().rsplit(' ').next().and_then(|length| length.parse::<usize>().ok());
        let length = length.ok_or_else(|| io::Error::other(format!("it answered {line:?}")))?;
        let mut value = vec![0; length + 2];
        self.answers.read_exact(&mut value)?;
        self.expect(&["END"])
    }
}
