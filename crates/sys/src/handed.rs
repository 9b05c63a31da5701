//! Asks another process for a descriptor, by a socket with an abstract name: for
//! that one needs no right to any file, and no descriptor that somebody might close.
//!
//! Apart from the calls themselves because the kernel's structures for descriptors
//! that are passed on are used here alone.

use crate::syscall::number::{CONNECT, GETSOCKOPT, RECVMSG, SENDTO, SOCKET};
use crate::syscall::{self, syscall6};

const EINTR: isize = -4;
const SOL_SOCKET: i32 = 1;
const SCM_RIGHTS: i32 = 1;

/// `struct sockaddr_un`.
#[repr(C)]
struct Address {
    family: u16,
    path: [u8; 108],
}

/// `struct iovec`.
#[repr(C)]
struct Piece {
    base: usize,
    length: usize,
}

/// `struct cmsghdr` with one descriptor behind it.
#[repr(C, align(8))]
struct Passed {
    length: usize,
    level: i32,
    kind: i32,
    descriptor: i32,
}

/// `struct msghdr`.
#[repr(C)]
struct Message {
    name: usize,
    name_length: u32,
    pieces: usize,
    piece_count: usize,
    control: usize,
    control_length: usize,
    flags: i32,
}

/// Sends a request to the process `owner`, which listens by `name`. The descriptor that it answers with, close-on-exec;
/// `None` if it gives none, or somebody else listens there.
pub fn ask(name: &[u8], owner: u32, request: &[u8]) -> Option<u32> {
    const AF_UNIX: usize = 1;
    const SOCK_STREAM_CLOEXEC: usize = 1 | 0o2_000_000;
    // SAFETY: no pointers.
    let socket = unsafe { syscall6(SOCKET, AF_UNIX, SOCK_STREAM_CLOEXEC, 0, 0, 0, 0) };
    let socket = u32::try_from(socket).ok()?;
    let sent = connect(socket, name) && listener(socket) == Some(owner) && send(socket, request);
    let got = if sent { receive(socket) } else { None };
    syscall::close(socket);
    got
}

/// The call, however often a signal interrupts it.
fn repeated(call: impl Fn() -> isize) -> isize {
    loop {
        let result = call();
        if result != EINTR {
            return result;
        }
    }
}

fn connect(socket: u32, name: &[u8]) -> bool {
    let mut address = Address { family: 1, path: [0; 108] };
    let Some(place) = address.path.get_mut(1..=name.len()) else { return false };
    place.copy_from_slice(name);
    // Family, and the zero that an abstract name begins with.
    let length = size_of::<u16>() + 1 + name.len();
    // SAFETY: an address of this length.
    repeated(|| unsafe { syscall6(CONNECT, socket as usize, (&raw const address).addr(), length, 0, 0, 0) }) == 0
}

/// One whose other end is closed must not bring a signal.
fn send(socket: u32, request: &[u8]) -> bool {
    const MSG_NOSIGNAL: usize = 0x4000;
    let (from, length) = (request.as_ptr().addr(), request.len());
    // SAFETY: as many readable bytes as stated.
    repeated(|| unsafe { syscall6(SENDTO, socket as usize, from, length, MSG_NOSIGNAL, 0, 0) }) == length as isize
}

/// The process that has begun to listen.
fn listener(socket: u32) -> Option<u32> {
    const SO_PEERCRED: usize = 17;
    let (mut identity, mut length) = ([0u32; 3], size_of::<[u32; 3]>() as u32);
    let (into, room) = ((&raw mut identity).addr(), (&raw mut length).addr());
    // SAFETY: as many writable bytes as stated, and the word that says so.
    let result = unsafe { syscall6(GETSOCKOPT, socket as usize, SOL_SOCKET as usize, SO_PEERCRED, into, room, 0) };
    (result == 0).then_some(identity[0])
}

fn receive(socket: u32) -> Option<u32> {
    const MSG_CMSG_CLOEXEC: usize = 0x4000_0000;
    let mut byte = 0u8;
    let piece = Piece { base: (&raw mut byte).addr(), length: 1 };
    let mut passed = Passed { length: 0, level: 0, kind: 0, descriptor: -1 };
    let mut message = Message {
        name: 0,
        name_length: 0,
        pieces: (&raw const piece).addr(),
        piece_count: 1,
        control: (&raw mut passed).addr(),
        control_length: size_of::<Passed>(),
        flags: 0,
    };
    let into = (&raw mut message).addr();
    // SAFETY: a message with room for one byte and one descriptor, all of it local.
    let got = repeated(|| unsafe { syscall6(RECVMSG, socket as usize, into, MSG_CMSG_CLOEXEC, 0, 0, 0) });
    let has_one = got == 1 && passed.level == SOL_SOCKET && passed.kind == SCM_RIGHTS;
    has_one.then(|| u32::try_from(passed.descriptor).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::ask;
    use std::io::Read;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    #[test]
    fn nothing_is_got_from_nobody_and_nothing_is_asked_of_a_stranger() {
        let (own, name) = (std::process::id(), format!("relive-test-{}", std::process::id()));
        assert_eq!(ask(name.as_bytes(), own, b"?"), None);
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        assert_eq!(ask(name.as_bytes(), own + 1, b"?"), None);
        let mut heard = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut heard).unwrap();
        assert!(heard.is_empty(), "{heard:?}");
        let answering = std::thread::spawn(move || {
            let mut heard = [0; 3];
            listener.accept().unwrap().0.read_exact(&mut heard).unwrap();
            heard
        });
        assert_eq!(ask(name.as_bytes(), own, b"abc"), None, "it is closed without an answer");
        assert_eq!(&answering.join().unwrap(), b"abc");
    }
}
