//! Servers that nobody here wrote, recorded with their environment under load and
//! replayed without a network.
//!
//! Apart from the programs that end by themselves: a client of the test's own
//! decides what they are asked, and a signal when they end. Those that stand in
//! `servers_known_failures.tsv` need more order than is recorded: a replay of theirs
//! may end in a divergence report, never in another result, and not each of them.

#[path = "trial/timed.rs"]
mod timed;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use timed::{RELIVE, Running, TOOL_FAILED, long, run, start};

const LIMIT: Duration = Duration::from_secs(120);
const START: Duration = Duration::from_secs(30);
const REPLAYS: usize = 2;
/// Recordings of a known failure until all replays of one came to the end.
const KNOWN_FAILURE_RECORDINGS: usize = 6;
const KNOWN_FAILURES: &str = include_str!("servers_known_failures.tsv");
/// Connections at the same time.
const CLIENTS: usize = 4;

/// A port that nobody listens at.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}

fn connect(port: u16) -> TcpStream {
    TcpStream::connect(("127.0.0.1", port)).expect("a connection")
}

/// Tells the server, which is the recorder's child, to end.
fn terminate(recorder: &Running) {
    for pid in timed::children(recorder.pid()) {
        run(Command::new("kill").args(["-s", "TERM"]).arg(pid.to_string()), LIMIT).expect_code(0);
    }
}

/// Records `server`, which listens at `port`, while `clients` ask it; replays it with nobody there to ask. How many
/// replays ended in a divergence report.
fn once(server: &[&str], port: u16, folder: &Path, clients: &dyn Fn()) -> usize {
    let trace = folder.join("trace");
    let mut record = Command::new(RELIVE);
    record.args(["record", "--environment", "-o"]).arg(&trace).arg("--").args(server).current_dir(folder);
    let mut recorder = start(&mut record);
    let listens = recorder.wait_until(START, |_| TcpStream::connect(("127.0.0.1", port)).is_ok());
    assert!(listens, "{server:?} does not listen");
    clients();
    terminate(&recorder);
    let recorded = recorder.wait(LIMIT);
    assert!(!recorded.stderr.contains("stopped") && !recorded.stderr.contains("ends here"), "{}", recorded.stderr);
    let mut diverged = 0;
    for number in 1..=REPLAYS {
        let replayed = run(Command::new(RELIVE).arg("replay").arg(&trace).current_dir("/"), LIMIT);
        replayed.expect_clean_report();
        if replayed.code == TOOL_FAILED && replayed.stderr.contains(" diverged: ") {
            let known = KNOWN_FAILURES.lines().any(|line| line.split('\t').next() == Some(server[0]));
            assert!(known, "replay {number} of {server:?}\n{}", replayed.stderr);
            diverged += 1;
            continue;
        }
        assert_eq!(replayed.code, recorded.code, "replay {number} of {server:?}\n{}", replayed.stderr);
        assert_eq!(replayed.stdout, recorded.stdout, "replay {number} of {server:?}\n{}", replayed.stderr);
    }
    std::fs::remove_dir_all(&trace).expect("the trace");
    diverged
}

fn check(server: &[&str], port: u16, folder: &Path, clients: &dyn Fn()) {
    let came_through = (0..KNOWN_FAILURE_RECORDINGS).any(|_| once(server, port, folder, clients) == 0);
    assert!(came_through, "no replay of {server:?} came to its end");
}

/// One client of memcached: every third request stores, the others ask for what any client may have stored.
fn ask_memcached(port: u16, client: usize, requests: usize) {
    let mut stream = connect(port);
    stream.set_nodelay(true).expect("an option of the stream");
    let mut answers = BufReader::new(stream.try_clone().expect("the stream's other end"));
    let mut line = String::new();
    for request in 0..requests {
        let key = (request * 7 + client) % 500;
        if request % 3 == 0 {
            let value = format!("{client}-{request}").repeat(request % 20 + 1);
            let request = format!("set k{key} 0 0 {}\r\n{value}\r\n", value.len());
            stream.write_all(request.as_bytes()).expect("a request");
            line.clear();
            answers.read_line(&mut line).expect("an answer");
            assert_eq!(line, "STORED\r\n");
        } else {
            stream.write_all(format!("get k{key}\r\n").as_bytes()).expect("a request");
            line.clear();
            while !line.ends_with("END\r\n") {
                assert_ne!(answers.read_line(&mut line).expect("an answer"), 0);
            }
        }
    }
}

#[test]
fn memcached_with_four_threads_under_a_mixed_load() {
    let folder = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let requests = if long() { 200_000 } else { 20_000 } / CLIENTS;
    // As root it becomes another user, who may not open the trace.
    let text = port.to_string();
    let server = ["memcached", "-u", "nobody", "-p", &text, "-U", "0", "-t", "4", "-l", "127.0.0.1"];
    check(&server, port, folder.path(), &|| {
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                scope.spawn(move || ask_memcached(port, client, requests));
            }
        });
    });
}

/// One client of redis: it sets, counts, fills a list and a hash, and now and then has a large value freed by a
/// background thread and the log of all changes written anew by a child.
fn ask_redis(port: u16, client: usize, requests: usize) {
    let mut stream = connect(port);
    stream.set_nodelay(true).expect("an option of the stream");
    let mut answers = BufReader::new(stream.try_clone().expect("the stream's other end"));
    let mut line = String::new();
    let mut ask = |words: &[&str]| {
        let head = format!("*{}\r\n", words.len());
        let request = words.iter().fold(head, |request, word| request + &format!("${}\r\n{word}\r\n", word.len()));
        stream.write_all(request.as_bytes()).expect("a request");
        line.clear();
        answers.read_line(&mut line).expect("an answer");
        assert!(line.starts_with(['+', ':']), "{words:?}: {line}");
    };
    for request in 0..requests {
        let (key, value) = (format!("k{}", request % 50), format!("{client}-{request}").repeat(request % 9 + 1));
        match request % 5 {
            0 => ask(&["SET", &key, &value]),
            1 => ask(&["INCR", &format!("count{client}")]),
            2 => ask(&["RPUSH", &format!("list{}", client % 2), &value]),
            3 => ask(&["HSET", "hash", &key, &value]),
            _ if request % 500 == 499 => ask(&["UNLINK", "list0", "hash"]),
            _ => ask(&["APPEND", &key, "more"]),
        }
    }
}

#[test]
fn redis_with_its_background_threads_and_a_log_of_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path();
    let port = free_port();
    let text = port.to_string();
    let requests = if long() { 200_000 } else { 20_000 } / CLIENTS;
    let server =
        ["redis-server", "--port", &text, "--bind", "127.0.0.1", "--appendonly", "yes", "--appendfsync", "everysec"];
    check(&server, port, here, &|| {
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                scope.spawn(move || ask_redis(port, client, requests));
            }
        });
        for gone in ["appendonlydir", "dump.rdb"].map(|name| here.join(name)) {
            let _ = std::fs::remove_dir_all(&gone);
            let _ = std::fs::remove_file(&gone);
        }
    });
}

const NGINX: &str = "daemon off; worker_processes 2; error_log FOLDER/error.log; pid FOLDER/pid;
events { worker_connections 64; }
http {
    access_log FOLDER/access.log;
    client_body_temp_path FOLDER/t1; proxy_temp_path FOLDER/t2; fastcgi_temp_path FOLDER/t3;
    uwsgi_temp_path FOLDER/t4; scgi_temp_path FOLDER/t5;
    server { listen 127.0.0.1:PORT; root FOLDER; location /now { return 200 \"$msec $pid\"; } }
}
";

fn ask_nginx(port: u16, path: &str, wanted: usize) {
    let mut stream = connect(port);
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").expect("a request");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    assert!(answer.starts_with(b"HTTP/1.1 200") && answer.len() > wanted, "{}", String::from_utf8_lossy(&answer));
}

#[test]
fn nginx_with_two_workers() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path();
    // As root its workers become another user.
    std::fs::set_permissions(here, PermissionsExt::from_mode(0o755)).expect("a folder of our own");
    let port = free_port();
    std::fs::write(here.join("large"), vec![b'x'; 300_000]).expect("a file to serve");
    let settings = NGINX.replace("FOLDER", here.to_str().expect("UTF-8")).replace("PORT", &port.to_string());
    std::fs::write(here.join("settings"), settings).expect("the settings");
    let settings = here.join("settings");
    let server = ["nginx", "-p", here.to_str().expect("UTF-8"), "-c", settings.to_str().expect("UTF-8")];
    check(&server, port, here, &|| {
        for _ in 0..40 {
            ask_nginx(port, "/now", 0);
            ask_nginx(port, "/large", 300_000);
        }
        for gone in ["large", "settings"] {
            std::fs::remove_file(here.join(gone)).expect("a file of ours");
        }
    });
}
