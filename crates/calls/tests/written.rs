//! Every shape, recorded from one memory and replayed into another.

use relive_calls::{
    FIRST_NUMBERS, LATER_NUMBERS, Memory, Output, Resolved, before, execute_outputs, find, resolve, written,
};
use std::cell::RefCell;

/// Where the memory of a pretended process begins; below it nothing is mapped.
const BASE: usize = 0x10000;
const LENGTH: usize = 0x4000;
/// What lies there can't be written to.
const CONSTANTS: usize = BASE + 0x3000;

/// Bytes at addresses.
type Write = (usize, Vec<u8>);

struct Process(RefCell<Vec<u8>>);

impl Process {
    fn new(contents: &[Write]) -> Process {
        let process = Process(RefCell::new(vec![0xaa; LENGTH]));
        process.write_all(contents);
        process
    }

    fn write_all(&self, writes: &[Write]) {
        for (address, bytes) in writes {
            self.write(*address, bytes);
        }
    }

    fn write(&self, address: usize, bytes: &[u8]) {
        self.0.borrow_mut()[address - BASE..][..bytes.len()].copy_from_slice(bytes);
    }

    fn read(&self, address: usize, length: usize) -> Option<Vec<u8>> {
        Some(self.0.borrow().get(address.checked_sub(BASE)?..)?.get(..length)?.to_vec())
    }
}

impl Memory for Process {
    fn u32(&self, address: usize) -> u32 {
        self.try_u32(address).expect("the kernel has been here")
    }
    fn u64(&self, address: usize) -> u64 {
        self.try_u64(address).expect("the kernel has been here")
    }
    fn try_u32(&self, address: usize) -> Option<u32> {
        self.read(address, 4).map(|bytes| u32::from_ne_bytes(bytes.try_into().expect("four")))
    }
    fn try_u64(&self, address: usize) -> Option<u64> {
        self.read(address, 8).map(|bytes| u64::from_ne_bytes(bytes.try_into().expect("eight")))
    }
    fn try_put_back(&self, address: usize, words: [u64; 2]) -> bool {
        assert_eq!((self.try_u64(address), self.try_u64(address + 8)), (Some(words[0]), Some(words[1])));
        address < CONSTANTS
    }
}

fn number(name: &str) -> usize {
    let mut all = FIRST_NUMBERS.chain(LATER_NUMBERS);
    all.find(|number| find(*number).is_some_and(|call| call.name == name)).unwrap_or_else(|| panic!("no call {name}"))
}

fn outputs(name: &str, arguments: &[usize; 6], memory: &Process) -> &'static [Output] {
    match resolve(number(name), arguments, memory).expect("a known call") {
        Resolved::Emulate(outputs) => outputs,
        Resolved::Execute(_) => execute_outputs(number(name)),
        Resolved::Refuse(errno) => panic!("{name} is refused with {errno}"),
    }
}

/// Lets a pretended kernel do `name`: it finds `program` in memory, writes `kernel` and answers `result`. Exactly
/// `pieces` must be visited, and a replay that copies them in where it visits them must end with the same memory.
fn check(
    name: &str,
    arguments: [usize; 6],
    program: &[Write],
    kernel: &[Write],
    result: isize,
    pieces: &[(usize, usize)],
) {
    let process = Process::new(program);
    let outputs = outputs(name, &arguments, &process);
    let known = before(outputs, &arguments, &process);
    process.write_all(kernel);
    let mut recorded = Vec::new();
    written(outputs, &arguments, &known, result, &process, &mut |address, length| {
        recorded.push((address, process.read(address, length).expect("mapped memory")));
    });
    let places: Vec<_> = recorded.iter().map(|(address, bytes)| (*address, bytes.len())).collect();
    assert_eq!(places, pieces, "{name}");

    let replayed = Process::new(program);
    assert_eq!(before(outputs, &arguments, &replayed), known, "{name}");
    let mut rest = recorded.into_iter();
    written(outputs, &arguments, &known, result, &replayed, &mut |address, length| {
        let (place, bytes) = rest.next().expect("as many pieces as were recorded");
        assert_eq!((address, length), (place, bytes.len()), "{name}");
        replayed.write(address, &bytes);
    });
    assert!(rest.next().is_none(), "{name}");
    assert!(process.0 == replayed.0, "{name}: the replayed memory differs");
}

fn u32s(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn u64s(words: &[usize]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn some(length: usize) -> Vec<u8> {
    (1..=length).map(|byte| byte as u8).collect()
}

const A: usize = BASE + 0x100;
const B: usize = BASE + 0x400;
const C: usize = BASE + 0x800;
const D: usize = BASE + 0xc00;

#[test]
fn fixed() {
    check("fstat", [3, A, 0, 0, 0, 0], &[], &[(A, some(144))], 0, &[(A, 144)]);
    check("fstat", [3, A, 0, 0, 0, 0], &[], &[], -9, &[]);
    check("gettimeofday", [0, B, 0, 0, 0, 0], &[], &[(B, some(8))], 0, &[(B, 8)]);
    check("nanosleep", [A, B, 0, 0, 0, 0], &[], &[(B, some(16))], -4, &[(B, 16)]);
    check("nanosleep", [A, B, 0, 0, 0, 0], &[], &[], 0, &[]);
}

#[test]
fn fixed_where_the_result_decides() {
    check("wait4", [0, A, 0, B, 0, 0], &[], &[(A, some(4)), (B, some(144))], 77, &[(A, 4), (B, 144)]);
    check("wait4", [0, A, 1, B, 0, 0], &[], &[], 0, &[]);
    check("waitid", [0, 0, A, 4, 0, 0], &[], &[(A, vec![0; 12]), (A + 16, vec![0; 12])], -10, &[(A, 28)]);
    check("waitid", [0, 0, A, 4, 0, 0], &[], &[], -14, &[]);
    check("sched_setattr", [0, A, 0, 0, 0, 0], &[], &[(A, u32s(&[56]))], -7, &[(A, 4)]);
}

#[test]
fn flagged() {
    check("clock_nanosleep", [1, 0, A, B, 0, 0], &[], &[(B, some(16))], -4, &[(B, 16)]);
    check("clock_nanosleep", [1, 1, A, B, 0, 0], &[], &[], -4, &[]);
}

#[test]
fn result_lengths() {
    check("read", [3, A, 100, 0, 0, 0], &[], &[(A, some(60))], 60, &[(A, 60)]);
    check("read", [3, A, 100, 0, 0, 0], &[], &[], 0, &[]);
    check("read", [3, 1, 100, 0, 0, 0], &[], &[], -14, &[]);
    check("msgrcv", [3, A, 100, 0, 0, 0], &[], &[(A, some(68))], 60, &[(A, 68)]);
    check("msgrcv", [3, A, 100, 0, 0, 0], &[], &[(A, some(8))], 0, &[(A, 8)]);
}

#[test]
fn capped_fitting_and_whole_room() {
    // MSG_TRUNC: the datagram had 500 bytes.
    check("recvfrom", [3, A, 100, 0x20, 0, 0], &[], &[(A, some(100))], 500, &[(A, 100)]);
    check("getxattr", [0, 0, A, 20, 0, 0], &[], &[(A, some(7))], 7, &[(A, 7)]);
    check("getxattr", [0, 0, A, 0, 0, 0], &[], &[], 7, &[]);
    check("file_getattr", [0, 0, A, 32, 0, 0], &[], &[(A, some(32))], 0, &[(A, 32)]);
}

#[test]
fn arrays_and_counted_elements() {
    check("poll", [A, 3, 9, 0, 0, 0], &[], &[(A + 6, some(2)), (A + 22, some(2))], 2, &[(A, 24)]);
    check("poll", [A, 3, 9, 0, 0, 0], &[], &[(A + 6, vec![0; 2])], -4, &[(A, 24)]);
    check("poll", [A, 3, 9, 0, 0, 0], &[], &[], -12, &[]);
    check("epoll_wait", [5, A, 8, 0, 0, 0], &[], &[(A, some(24))], 2, &[(A, 24)]);
    check("getgroups", [10, A, 0, 0, 0, 0], &[], &[(A, some(12))], 3, &[(A, 12)]);
    check("getgroups", [0, A, 0, 0, 0, 0], &[], &[], 3, &[]);
}

#[test]
fn addresses_with_a_length_that_changes() {
    let room = |bytes: u32| [(B, u32s(&[bytes]))];
    let (accept, own) = ([3, A, B, 0, 0, 0], [3, A, B, 0, 0, 0]);
    check("accept", accept, &room(128), &[(A, some(16)), (B, u32s(&[16]))], 4, &[(B, 4), (A, 16)]);
    // The address did not fit: the length says how long it is.
    check("accept", accept, &room(8), &[(A, some(8)), (B, u32s(&[28]))], 4, &[(B, 4), (A, 8)]);
    check("accept", accept, &room(16), &[(B, u32s(&[0]))], 4, &[(B, 4)]);
    // Without a buffer the word is not touched, wherever its pointer points.
    check("accept", [3, 0, 1, 0, 0, 0], &[], &[], 4, &[]);
    check("recvfrom", [3, C, 10, 0, 0, 8], &[], &[(C, some(3))], 3, &[(C, 3)]);
    check("getsockname", own, &room(128), &[(A, some(16)), (B, u32s(&[16]))], 0, &[(B, 4), (A, 16)]);
    check("getsockname", [3, A, 8, 0, 0, 0], &[], &[], -14, &[]);
}

#[test]
fn options_of_sockets() {
    let room = |bytes: u32| [(B, u32s(&[bytes]))];
    check("getsockopt", [3, 1, 4, A, B, 0], &room(16), &[(A, some(4)), (B, u32s(&[4]))], 0, &[(B, 4), (A, 4)]);
    check("getsockopt", [3, 1, 59, A, B, 0], &room(4), &[(B, u32s(&[40]))], -34, &[(B, 4)]);
    // SO_GET_FILTER: three instructions of eight bytes.
    check("getsockopt", [3, 1, 26, A, B, 0], &room(9), &[(A, some(24)), (B, u32s(&[3]))], 0, &[(B, 4), (A, 24)]);
    check("getsockopt", [3, 1, 26, A, B, 0], &room(0), &[(B, u32s(&[3]))], 0, &[(B, 4)]);
}

#[test]
fn buffers() {
    let vector = [(A, u64s(&[B, 10, 0, 0, C, 100]))];
    check("readv", [3, A, 3, 0, 0, 0], &vector, &[(B, some(10)), (C, some(5))], 15, &[(B, 10), (C, 5)]);
    check("readv", [3, A, 3, 0, 0, 0], &vector, &[(B, some(7))], 7, &[(B, 7)]);
    check("readv", [3, A, 3, 0, 0, 0], &vector, &[], 0, &[]);
}

/// A `msghdr` with room for a name of so many bytes at `B`, one buffer of 10 at `C` whose vector follows at `vector`,
/// and 64 bytes of control messages at `D`.
fn header(name: u32, vector: usize) -> Vec<u8> {
    let mut header = u64s(&[B]);
    header.extend(u32s(&[name, 0]));
    header.extend(u64s(&[vector, 1, D, 64]));
    header.extend(u32s(&[0, 0]));
    header
}

#[test]
fn message() {
    let vector = A + 0x80;
    let program = [(A, header(8, vector)), (vector, u64s(&[C, 10]))];
    // A name that was cut, more data than fits (MSG_TRUNC), 24 of the 64 bytes for control messages.
    let kernel = [
        (A + 8, u32s(&[28])),
        (A + 40, u64s(&[24])),
        (A + 48, u32s(&[0x20])),
        (B, some(8)),
        (C, some(10)),
        (D, some(24)),
    ];
    let pieces = [(A + 8, 4), (A + 40, 12), (B, 8), (C, 10), (D, 24)];
    check("recvmsg", [3, A, 0, 0, 0, 0], &program, &kernel, 50, &pieces);
    check("recvmsg", [3, A, 0, 0, 0, 0], &program, &[], -11, &[]);
}

#[test]
fn messages() {
    let vector = A + 0x200;
    let second = A + 64;
    let mut bare = u64s(&[0, 0, vector + 16, 1, 0, 0]);
    bare.extend(u32s(&[0, 0, 0, 0]));
    let program = [(A, header(16, vector)), (second, bare), (vector, u64s(&[C, 10, D + 64, 10]))];
    let kernel = [
        (A + 8, u32s(&[28])),
        (A + 40, u64s(&[8])),
        (A + 56, u32s(&[6])),
        (B, some(16)),
        (C, some(6)),
        (D, some(8)),
        (second + 48, u32s(&[0x40])),
        (second + 56, u32s(&[3])),
        (D + 64, some(3)),
        (BASE, some(16)),
    ];
    let first = [(A + 56, 4), (A + 8, 4), (A + 40, 12), (B, 16), (C, 6), (D, 8)];
    let other = [(second + 56, 4), (second + 8, 4), (second + 40, 12), (D + 64, 3), (BASE, 16)];
    let pieces: Vec<_> = first.into_iter().chain(other).collect();
    check("recvmmsg", [3, A, 2, 0, BASE, 0], &program, &kernel, 2, &pieces);
    check("recvmmsg", [3, A, 2, 0, BASE, 0], &program, &[], -11, &[]);
}

#[test]
fn sets_of_descriptors_and_what_is_left_of_the_time() {
    let limit = [(C, u64s(&[5, 0]))];
    let left = (C, u64s(&[4, 9]));
    let kernel = [(A, some(16)), (B, some(16)), left.clone()];
    check("select", [65, A, B, 0, C, 0], &limit, &kernel, 1, &[(A, 16), (B, 16), (C, 16)]);
    // The time is written whatever happened, the sets are not.
    check("pselect6", [64, A, 0, 0, C, 0], &limit, std::slice::from_ref(&left), -4, &[(C, 16)]);
    check("ppoll", [0, 0, C, 0, 0, 0], &limit, &[left], 0, &[(C, 16)]);
    check("ppoll", [0, 0, C, 0, 0, 0], &[(C, u64s(&[0, 0]))], &[], 0, &[]);
    check("ppoll", [0, 0, 8, 0, 0, 0], &[], &[], -14, &[]);
    // A constant limit stays what it was.
    check("ppoll", [0, 0, CONSTANTS, 0, 0, 0], &[(CONSTANTS, u64s(&[5, 0]))], &[], 0, &[]);
}

#[test]
fn pages_and_nodes() {
    check("mincore", [0, 4097, A, 0, 0, 0], &[], &[(A, some(2))], 0, &[(A, 2)]);
    check("get_mempolicy", [A, B, 65, 0, 0, 0], &[], &[(A, some(4)), (B, some(8))], 0, &[(A, 4), (B, 8)]);
    check("get_mempolicy", [A, B, 1024, 0, 0, 0], &[], &[(B, some(128))], 0, &[(A, 4), (B, 128)]);
    check("get_mempolicy", [A, 0, 0, 0, 0, 0], &[], &[(A, some(4))], 0, &[(A, 4)]);
}

#[test]
fn capabilities() {
    let version = |version: u32| [(A, u32s(&[version, 0]))];
    check("capget", [A, B, 0, 0, 0, 0], &version(0x1998_0330), &[(B, some(12))], 0, &[(A, 4), (B, 12)]);
    check("capget", [A, B, 0, 0, 0, 0], &version(0x2008_0522), &[(B, some(24))], 0, &[(A, 4), (B, 24)]);
    check("capget", [A, B, 0, 0, 0, 0], &version(7), &[(A, u32s(&[0x2008_0522]))], -22, &[(A, 4)]);
}

#[test]
fn structures_that_say_how_long_they_are() {
    let mounted = [(A, u32s(&[48])), (A + 4, some(44))];
    check("statmount", [0, A, 100, 0, 0, 0], &[], &mounted, 0, &[(A, 4), (A + 4, 44)]);
    check("sched_getattr", [0, A, 100, 0, 0, 0], &[], &[(A, some(100))], 0, &[(A, 100)]);
    let handle = [(A, u32s(&[12, 1])), (A + 8, some(12)), (B, some(4))];
    let call = [3, 0, A, B, 0, 0];
    let room = |bytes: u32| [(A, u32s(&[bytes]))];
    check("name_to_handle_at", call, &room(128), &handle, 0, &[(A, 8), (A + 8, 12), (B, 4)]);
    check("name_to_handle_at", call, &room(0), &[(A, u32s(&[12, 1])), (B, some(4))], -75, &[(A, 8), (B, 4)]);
    let unique = [3, 0, A, B, 1, 0];
    check("name_to_handle_at", unique, &room(0), &[(A, u32s(&[12, 1])), (B, some(8))], -75, &[(A, 8), (B, 8)]);
}

#[test]
fn values_that_a_structure_points_to() {
    let program = [(A, [u64s(&[B]), u32s(&[20, 0])].concat())];
    check("getxattrat", [3, 0, 0, 0, A, 16], &program, &[(B, some(9))], 9, &[(B, 9)]);
    let asks = [(A, [u64s(&[B]), u32s(&[0, 0])].concat())];
    check("getxattrat", [3, 0, 0, 0, A, 16], &asks, &[], 9, &[]);
}

#[test]
fn lists_of_interfaces_and_extents() {
    let program = [(A, [u32s(&[400, 0]), u64s(&[B])].concat())];
    let kernel = [(A, u32s(&[80])), (B, some(80))];
    check("ioctl", [3, 0x8912, A, 0, 0, 0], &program, &kernel, 0, &[(A, 4), (B, 80)]);
    let map = [(A, vec![0; 24]), (A + 24, u32s(&[4, 0]))];
    let found = [(A + 20, u32s(&[2])), (A + 32, some(112))];
    check("ioctl", [3, 0xc020_660b, A, 0, 0, 0], &map, &found, 0, &[(A, 32), (A + 32, 112)]);
    check("ioctl", [3, 0xc020_660b, A, 0, 0, 0], &map, &[(A + 16, u32s(&[1]))], -53, &[(A, 32)]);
}

/// Memory in which every address can be read and nothing makes sense.
struct Noise(u64);

impl Memory for Noise {
    fn u32(&self, address: usize) -> u32 {
        self.u64(address) as u32
    }
    fn u64(&self, address: usize) -> u64 {
        mix(self.0 ^ address as u64)
    }
    fn try_u32(&self, address: usize) -> Option<u32> {
        self.try_u64(address).map(|word| word as u32)
    }
    fn try_u64(&self, address: usize) -> Option<u64> {
        let word = self.u64(address);
        (!word.is_multiple_of(5)).then_some(word)
    }
    fn try_put_back(&self, address: usize, _: [u64; 2]) -> bool {
        address.is_multiple_of(2)
    }
}

/// Numbers of all sizes, the largest and zero among them.
fn mix(seed: u64) -> u64 {
    let mut word = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^= word >> 31;
    match word % 7 {
        0 => 0,
        1 => u64::MAX,
        2 => word,
        _ => word >> (word % 64),
    }
}

#[test]
fn nothing_that_a_program_passes_is_a_panic() {
    for number in FIRST_NUMBERS.chain(LATER_NUMBERS) {
        for seed in 0..200 {
            let noise = Noise(mix(seed << 12 | number as u64));
            let arguments = std::array::from_fn(|index| noise.u64(usize::MAX - index) as usize);
            let result = noise.u64(17) as isize;
            let lists = match resolve(number, &arguments, &noise) {
                Ok(Resolved::Emulate(outputs)) => [outputs, execute_outputs(number)],
                _ => [execute_outputs(number); 2],
            };
            for outputs in lists {
                let known = before(outputs, &arguments, &noise);
                written(outputs, &arguments, &known, result, &noise, &mut |address, length| {
                    assert!(address != 0 && length != 0, "{number}");
                });
            }
        }
    }
}
