//! Segments: taking them, full logs, memory that shares a place in the shadow, and
//! what the host adds.
//!
//! Apart from the instructions: here it matters when something is noted, and where.

use crate::observe::{Bytes, Keep, Observed, engine, engine_of, tool};
use crate::process::{Code, Distance, words};
use iced_x86::code_asm::*;
use relive_accesses::{Bits, Kind};
use relive_dbi::Context;
use std::sync::atomic::Ordering;

/// Writes rsi to `count` words from rdi on, `step` bytes apart.
fn writer() -> Code {
    Code::new(|a, _| {
        let mut top = a.create_label();
        a.set_label(&mut top).unwrap();
        a.mov(qword_ptr(rdi), rsi).unwrap();
        a.add(rdi, rcx).unwrap();
        a.dec(rdx).unwrap();
        a.jne(top).unwrap();
        a.ret().unwrap();
    })
}

/// Reads a word at rdi.
fn reader() -> Code {
    Code::new(|a, _| {
        a.mov(rax, qword_ptr(rdi)).unwrap();
        a.ret().unwrap();
    })
}

fn new() -> Observed {
    Observed::new(engine(Distance::Near, None, Keep::default()))
}

fn bytes(range: std::ops::Range<u64>) -> std::collections::BTreeSet<u64> {
    range.collect()
}

#[test]
fn each_segment_has_its_own_accesses() {
    let data = words(64).as_mut_ptr() as u64;
    let mut observed = new();
    let (write, read) = (writer(), reader());
    for _ in 0..3 {
        observed.call(write, [data, 7, 1, 64, 0, 0]);
        observed.call(read, [data, 0, 0, 0, 0, 0]);
        observed.call(read, [data + 4, 0, 0, 0, 0, 0]);
        let found = observed.take();
        assert_eq!((found.written, found.read), (bytes(data..data + 8), bytes(data + 8..data + 12)));
        observed.call(read, [data, 0, 0, 0, 0, 0]);
        let found = observed.take();
        assert_eq!((found.written, found.read), (bytes(0..0), bytes(data..data + 8)));
        assert_eq!(observed.take(), Bytes::default());
    }
}

/// What is new of the line of `data`, of which its first eight bytes are kept.
fn news(observed: &mut Observed, data: u64) -> Bytes {
    let mut found = Bytes::default();
    observed.segment(|segment| segment.recall([(data / 64, 0xFF)].into_iter(), |line| found.add_line(line)));
    found
}

#[test]
fn of_a_line_that_is_kept_only_what_is_new_is_told() {
    let data = words(64).as_mut_ptr() as u64;
    let (write, read) = (writer(), reader());
    let nothing = Bytes::default();
    for bits in [Bits::Extract, Bits::Shift, Bits::Plain] {
        let mut observed = Observed::new(engine(Distance::Near, Some(bits), Keep::default()));
        observed.segment(|segment| segment.keep(data / 64, 0xFF));
        observed.call(read, [data, 0, 0, 0, 0, 0]);
        assert_eq!((news(&mut observed, data), observed.take()), (nothing.clone(), nothing.clone()));
        observed.call(read, [data + 4, 0, 0, 0, 0, 0]);
        assert_eq!(news(&mut observed, data).read, bytes(data + 8..data + 12));
        assert_eq!(observed.take(), nothing);
        observed.call(write, [data + 6, 7, 1, 64, 0, 0]);
        let found = news(&mut observed, data);
        assert_eq!((found.written, found.read), (bytes(data + 6..data + 14), bytes(0..0)));
        // It is as others from here on.
        assert_eq!(observed.take(), nothing);
        observed.call(read, [data, 0, 0, 0, 0, 0]);
        assert_eq!(observed.take().read, bytes(data..data + 8));
        observed.segment(|segment| {
            segment.keep(data / 64, 0xFF);
            segment.let_go(data / 64);
        });
        observed.call(read, [data, 0, 0, 0, 0, 0]);
        assert_eq!(observed.take().read, bytes(data..data + 8));
    }
}

#[test]
fn of_a_thread_that_is_alone_only_locked_instructions_are_seen() {
    let data = words(64).as_mut_ptr() as u64;
    let f = Code::new(|a, _| {
        a.mov(qword_ptr(rdi), rsi).unwrap();
        a.mov(rax, qword_ptr(rdi + 8)).unwrap();
        a.lock().inc(qword_ptr(rdi + 16)).unwrap();
        a.xchg(qword_ptr(rdi + 24), rsi).unwrap();
        a.movzx(ecx, byte_ptr(rdi + 32)).unwrap();
        a.ret().unwrap();
    });
    let alone = Keep { alone: true.into(), ..Keep::default() };
    let mut observed = Observed::new(engine(Distance::Near, None, alone));
    observed.call(f, [data, 7, 0, 0, 0, 0]);
    let locked = observed.take();
    assert_eq!((&locked.read, &locked.written), (&bytes(0..0), &bytes(0..0)));
    assert!(!locked.locked.is_empty());
    observed.engine.tool().sink().alone.store(false, Ordering::Relaxed);
    assert!(observed.engine.turn(1, |_| true) > 0);
    observed.call(f, [data + 64, 7, 0, 0, 0, 0]);
    let all = observed.take();
    assert_eq!(all.written, bytes(data + 64..data + 72));
    assert_eq!(all.read, bytes(data + 72..data + 80).into_iter().chain([data + 96]).collect());
    assert_eq!(all.locked.len(), locked.locked.len());
}

#[test]
fn lines_come_in_the_order_of_first_touches() {
    let data = words(64).as_mut_ptr() as u64;
    let mut observed = new();
    for line in [3, 0, 5, 3, 1] {
        observed.call(writer(), [data + line * 64, 1, 1, 0, 0, 0]);
    }
    let mut found = Vec::new();
    observed.segment(|segment| segment.take(|line| found.push(line.number - data / 64)));
    assert_eq!(found, [3, 0, 5, 1]);
}

#[test]
fn a_full_log_is_taken_on_the_way_and_nothing_is_lost() {
    const LINES: u64 = 1000;
    let data = words(LINES as usize * 8).as_mut_ptr() as u64;
    for room in [1, 3, 10, 64, 999] {
        let engine = engine_of(Distance::Near, tool(Keep::default()).with_log_of(room));
        let mut observed = Observed::new(engine);
        // Each access crosses into the next line.
        observed.call(writer(), [data + 60, 1, LINES - 1, 64, 0, 0]);
        observed.segment(|segment| segment.touch(&Context::default(), data, LINES * 64, Kind::Read));
        let mut found = Bytes::default();
        let early = std::mem::take(&mut *engine.tool().sink().early.lock().unwrap());
        assert!(early.0 as u64 >= LINES / room.max(3), "{} times with room for {room}", early.0);
        early.1.into_iter().for_each(|line| found.add_line(line));
        observed.segment(|segment| segment.take(|line| found.add_line(line)));
        let found = found.settled();
        let written: Vec<u64> = (0..LINES - 1).flat_map(|n| data + 60 + n * 64..data + 68 + n * 64).collect();
        assert_eq!(found.written.iter().copied().collect::<Vec<_>>(), written);
        assert_eq!(found.read.len(), LINES as usize * 64 - written.len());
    }
}

#[test]
fn what_locked_instructions_touch_is_never_lost_either() {
    let engine = engine(Distance::Near, None, Keep::default());
    let mut observed = Observed::new(engine);
    // More words than the log has room for.
    let count = 150_000;
    let data = words(count as usize).as_mut_ptr() as u64;
    let f = Code::new(|a, _| {
        let mut top = a.create_label();
        a.set_label(&mut top).unwrap();
        a.lock().inc(qword_ptr(rdi)).unwrap();
        a.add(rdi, 8).unwrap();
        a.dec(rdx).unwrap();
        a.jne(top).unwrap();
        a.ret().unwrap();
    });
    observed.call(f, [data, 0, count, 0, 0, 0]);
    let mut found = observed.take();
    let early = std::mem::take(&mut *engine.tool().sink().early.lock().unwrap());
    assert_eq!(early.0, 1);
    early.2.into_iter().for_each(|bytes| found.add_locked(bytes));
    assert_eq!(found.locked.len() as u64, count * 8);
}

/// Memory at this address.
fn map_at(address: u64, bytes: usize) -> std::ops::Range<u64> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: nothing is replaced.
    let found = unsafe { libc::mmap(address as *mut _, bytes, protection, flags, -1, 0) };
    assert_eq!(found as u64, address, "memory for the test");
    address..address + bytes as u64
}

/// Bytes that addresses are apart which share a place in the shadow.
const WINDOW: u64 = 64 << 30;

#[test]
fn memory_that_shares_a_place_in_the_shadow_hides_nothing() {
    let first = map_at(0x51_2340_0000, 1 << 20);
    let mut observed = new();
    let (write, read) = (writer(), reader());
    let tables = observed.engine.tool().tables();
    assert!(!tables.cover(&first));
    observed.call(write, [first.start, 1, 4, 8, 0, 0]);
    // Another mapping comes: the host ends the segment, as it is told to.
    let second = map_at(first.start + WINDOW, 1 << 20);
    assert!(tables.cover(&second));
    assert_eq!(observed.take().written, bytes(first.start..first.start + 32));
    for round in 0..3 {
        for memory in [&first, &second] {
            observed.call(read, [memory.start + 24, 0, 0, 0, 0, 0]);
            observed.call(write, [memory.start, 1, 2, 8, 0, 0]);
            observed.call(write, [memory.start + 60, 1, 1, 8, 0, 0]);
        }
        let mut found = Bytes::default();
        observed.segment(|segment| segment.take(|line| found.add_line(line)));
        let found = found.settled();
        let expected =
            [&first, &second].map(|m| bytes(m.start..m.start + 16).into_iter().chain(m.start + 60..m.start + 68));
        assert_eq!(found.written, expected.into_iter().flatten().collect(), "round {round}");
        let expected = [&first, &second].map(|m| m.start + 24..m.start + 32);
        assert_eq!(found.read, expected.into_iter().flatten().collect(), "round {round}");
    }
    // What the same window has elsewhere is not concerned.
    let third = map_at(first.start + WINDOW + (1 << 23), 1 << 20);
    assert!(!tables.cover(&third));
    observed.call(write, [third.start, 1, 1, 0, 0, 0]);
    assert_eq!(observed.take().written, bytes(third.start..third.start + 8));
}

#[test]
fn a_place_that_is_shared_is_found_out_when_a_segment_is_taken_if_nobody_said_so() {
    let first = map_at(0x95_2340_0000, 1 << 20);
    let second = map_at(first.start + WINDOW, 1 << 20);
    let mut observed = new();
    observed.call(writer(), [first.start, 1, 1, 0, 0, 0]);
    observed.take();
    observed.call(writer(), [second.start, 1, 1, 0, 0, 0]);
    observed.take();
    for memory in [&first, &second] {
        observed.call(writer(), [memory.start, 1, 1, 0, 0, 0]);
    }
    let expected = [first, second].into_iter().flat_map(|m| m.start..m.start + 8).collect();
    assert_eq!(observed.take().written, expected);
}

#[test]
fn an_access_at_the_end_of_the_window_is_noted_at_both_ends() {
    let memory = map_at(0x140_0000_0000 - 4096, 8192);
    let middle = memory.start + 4096;
    assert_eq!(middle % WINDOW, 0);
    let f = Code::new(|a, _| {
        a.vmovdqu(ymm0, ymmword_ptr(rdi)).unwrap();
        a.mov(qword_ptr(rdi + 10), rsi).unwrap();
        a.ret().unwrap();
    });
    let mut observed = new();
    for _ in 0..3 {
        for _ in 0..2 {
            observed.call(f, [middle - 13, 0, 0, 0, 0, 0]);
        }
        let found = observed.take();
        assert_eq!(found.written, bytes(middle - 3..middle + 5));
        assert_eq!(found.read.len(), 24);
        assert!(found.read.contains(&(middle - 13)) && found.read.contains(&(middle + 18)));
    }
}

#[test]
fn the_host_adds_what_it_knows() {
    let data = words(64).as_mut_ptr() as u64;
    let mut observed = new();
    observed.call(reader(), [data + 8, 0, 0, 0, 0, 0]);
    observed.segment(|segment| {
        segment.touch(&Context::default(), data + 12, 200, Kind::Write);
        segment.touch(&Context::default(), data, 3, Kind::Read);
        segment.touch(&Context::default(), data, 0, Kind::Write);
        segment.touch(&Context::default(), data + 300, 4, Kind::Locked);
    });
    let found = observed.take();
    assert_eq!(found.written, bytes(data + 12..data + 212));
    assert_eq!(found.read, bytes(data..data + 3).into_iter().chain(data + 8..data + 12).collect());
    assert_eq!(found.locked, bytes(data + 300..data + 304));
}

#[test]
fn code_that_is_not_observed_is_not() {
    let data = words(64).as_mut_ptr() as u64;
    let (write, read) = (writer(), reader());
    let sink = Keep { unseen: write.range(), ..Keep::default() };
    let mut observed = Observed::new(engine(Distance::Near, None, sink));
    observed.call(write, [data, 1, 8, 8, 0, 0]);
    observed.call(read, [data, 0, 0, 0, 0, 0]);
    let found = observed.take();
    assert_eq!((found.read, found.written.len()), (bytes(data..data + 8), 0));
}

#[test]
fn the_end_of_a_segment_costs_as_much_as_it_touched() {
    // By counting, not by time: no line that was not touched comes.
    let data = words(1 << 16).as_mut_ptr() as u64;
    let mut observed = new();
    observed.call(writer(), [data, 1, 1 << 13, 64, 0, 0]);
    let mut count = 0;
    observed.segment(|segment| segment.take(|_| count += 1));
    assert_eq!(count, 1 << 13);
    observed.call(writer(), [data, 1, 3, 0, 0, 0]);
    observed.segment(|segment| segment.take(|line| assert_eq!((line.number, line.written), (data / 64, 0xFF))));
}
