//! A client that nobody here wrote, recorded while it asks a server on this machine
//! and replayed without one.
//!
//! Apart from `environment.rs` because what is taken away before the replay is the
//! other end of a connection; apart from `servers.rs` because here the client is
//! recorded.

#[path = "trial/dice.rs"]
mod dice;
#[path = "trial/text.rs"]
mod text;
#[path = "trial/timed.rs"]
mod timed;

use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use timed::{Ended, RELIVE, Running, run, start};

const LIMIT: Duration = Duration::from_secs(60);
const START: Duration = Duration::from_secs(30);
const REPLAYS: usize = 3;
/// In an argument: the port that the server listens at.
const PORT: &str = "PORT";

/// A web server for the files of a folder, and the port that it chose.
fn serve(folder: &Path) -> (Running, String) {
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-u", "-m", "http.server", "0", "--bind", "127.0.0.1"]).current_dir(folder);
    let mut server = start(&mut command);
    let said = |server: &Running| String::from_utf8_lossy(&server.stdout_so_far()).into_owned();
    assert!(server.wait_until(START, |server| said(server).contains(" port ")), "the server does not listen");
    let said = said(&server);
    let port = said.split(" port ").nth(1).and_then(|rest| rest.split(' ').next()).expect("its port");
    (server, port.to_owned())
}

/// What a recorded client left in its folder, as the server and the inputs are gone.
struct Asked {
    recorded: Ended,
    /// `copy`, if it made that.
    copy: Option<Vec<u8>>,
}

/// Records curl with these arguments beside a server of `page`, which is `up` or not, and replays it without both.
fn check(arguments: &[&str], page: &[u8], up: bool, status: i32) -> Asked {
    let scratch = tempfile::tempdir().expect("a folder");
    let (here, served, trace) =
        (scratch.path().join("here"), scratch.path().join("served"), scratch.path().join("trace"));
    for folder in [&here, &served] {
        std::fs::create_dir(folder).expect("a folder");
    }
    std::fs::write(served.join("page"), page).expect("the page");
    let (mut server, port) = serve(&served);
    if !up {
        server.kill_group();
        let gone = server.wait_until(START, |_| TcpStream::connect(format!("127.0.0.1:{port}")).is_err());
        assert!(gone, "the server still listens");
    }
    let arguments: Vec<String> = arguments.iter().map(|word| word.replace(PORT, &port)).collect();
    let mut record = Command::new(RELIVE);
    record.args(["record", "--environment", "-q", "-o"]).arg(&trace).args(["--", "curl"]).args(arguments);
    // No settings of the user's, and no proxy.
    record.env("HOME", &here).env("no_proxy", "*").current_dir(&here);
    let recorded = run(&mut record, LIMIT).expect_code(status);
    assert!(!recorded.stderr.contains("relive: "), "{}", recorded.stderr);
    server.kill_group();
    let copy = std::fs::read(here.join("copy")).ok();
    for folder in [&here, &served] {
        std::fs::remove_dir_all(folder).expect("a folder of ours");
    }
    for number in 1..=REPLAYS {
        let replayed = run(Command::new(RELIVE).arg("replay").arg(&trace).current_dir("/"), LIMIT);
        let what = |ended: &Ended| (ended.code, ended.stdout.clone(), ended.stderr.clone());
        assert!(what(&replayed) == what(&recorded), "replay {number}: {replayed:?}\nrecorded: {recorded:?}");
        assert!(!here.exists(), "replay {number} made {}", here.display());
    }
    Asked { recorded, copy }
}

#[test]
fn curl_shows_a_page_that_is_gone() {
    let page = text::text(300_000, 7);
    let asked = check(&["-sS", "http://127.0.0.1:PORT/page"], &page, true, 0);
    assert!(asked.recorded.stdout == page);
}

#[test]
fn curl_finds_the_server_by_its_name() {
    // Names are looked up by a thread of its own; it prints the times that it took, too.
    let told = "%{time_namelookup} %{time_total} %{local_port} %{size_download}\n";
    let asked = check(&["-sS", "-4", "-w", told, "http://localhost:PORT/page"], b"a page\n", true, 0);
    assert!(asked.recorded.text().starts_with("a page\n") && asked.recorded.text().ends_with(" 7\n"));
}

#[test]
fn curl_writes_a_file_once() {
    let page = text::text(300_000, 8);
    let arguments = ["-sS", "-o", "copy", "-w", "%{http_code} %{time_total}\n", "http://127.0.0.1:PORT/page"];
    let asked = check(&arguments, &page, true, 0);
    assert!(asked.copy == Some(page) && asked.recorded.text().starts_with("200 "));
}

#[test]
fn curl_is_refused() {
    /// What curl returns for a connection that it can't make.
    const NOT_CONNECTED: i32 = 7;
    let asked = check(&["-sS", "http://127.0.0.1:PORT/page"], b"", false, NOT_CONNECTED);
    assert!(asked.recorded.stderr.contains("Failed to connect"), "{}", asked.recorded.stderr);
}

#[test]
fn curl_asks_for_what_is_not_there() {
    /// What curl returns for a status of 400 and more, if it is told to fail then.
    const REFUSED: i32 = 22;
    let asked = check(&["-sS", "--fail", "http://127.0.0.1:PORT/other"], b"", true, REFUSED);
    assert!(asked.recorded.stderr.contains("404"), "{}", asked.recorded.stderr);
}
