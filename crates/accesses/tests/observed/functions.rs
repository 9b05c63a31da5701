//! Functions that compilers made, libc's above all: exactly the oracle's bytes.
//!
//! Apart from `random`: the code is not ours and has everything at once. A frame puts
//! the function on a stack at a known place, so that all addresses are the same in each
//! run.

use crate::observe::{Bytes, Keep, Observed, engine};
use crate::oracle;
use crate::process::{Code, Distance, words};
use iced_x86::code_asm::*;
use std::ffi::{c_char, c_int, c_void};

const STACK_WORDS: usize = 1 << 15;

/// Memory for a function: its argument points here.
type Work = extern "C" fn(*mut u8);

/// Calls a function of one argument on a stack of its own, with these flags while it runs.
struct Frame {
    code: Code,
    /// The stack pointer of the caller, flags for the function, and clean ones.
    words: &'static mut [u64],
}

impl Frame {
    fn new(function: Work) -> Self {
        let (words, stack) = (words(8), words(STACK_WORDS));
        let (own, top) = (words.as_mut_ptr() as i64, stack.as_mut_ptr_range().end as u64);
        let code = Code::new(|a, _| {
            a.push(rbx).unwrap();
            a.mov(qword_ptr(own), rsp).unwrap();
            a.mov(rsp, top).unwrap();
            a.push(qword_ptr(own + 8)).unwrap();
            a.popfq().unwrap();
            a.nop().unwrap();
            a.mov(rax, function as *const () as u64).unwrap();
            a.call(rax).unwrap();
            a.push(qword_ptr(own + 16)).unwrap();
            a.popfq().unwrap();
            a.mov(rsp, qword_ptr(own)).unwrap();
            a.pop(rbx).unwrap();
            a.ret().unwrap();
        });
        Self { code, words }
    }

    fn own(&self) -> std::ops::Range<u64> {
        let range = self.words.as_ptr_range();
        range.start as u64..range.end as u64
    }
}

const FLAGS: u64 = 0x202;
const TRAP: u64 = 0x100;

/// The bytes that a function touches, natively and translated, and that `data` is the same in all runs.
fn compare(function: Work, data: &mut [u8]) -> Bytes {
    let frame = Frame::new(function);
    let before = data.to_vec();
    let argument = [data.as_mut_ptr() as u64, 0, 0, 0, 0, 0];
    // Once, so that whatever libc keeps is there.
    (frame.words[1], frame.words[2]) = (FLAGS, FLAGS);
    frame.code.call(argument);
    let after = data.to_vec();
    data.copy_from_slice(&before);
    frame.words[1] = FLAGS | TRAP;
    let code = frame.code;
    let (expected, count) = oracle::watch(|| {
        code.call(argument);
    });
    assert!(count > 50, "{count} instructions");
    let own = frame.own();
    let expected = expected.only(|byte| !own.contains(&byte));
    frame.words[1] = FLAGS;
    for distance in [Distance::Near, Distance::Far] {
        let mut observed = Observed::new(engine(distance, None, Keep::default()));
        for round in 0..2 {
            data.copy_from_slice(&before);
            observed.take();
            observed.call(frame.code, argument);
            assert!(data == after, "the same as natively");
            let found = observed.take().only(|byte| !own.contains(&byte));
            let found = if round == 0 { found } else { Bytes { locked: expected.locked.clone(), ..found } };
            assert_eq!(found.difference(&expected), "", "{distance:?}, round {round}");
        }
    }
    expected
}

extern "C" fn copy(data: *mut u8) {
    // SAFETY: the caller gives 20,000 bytes.
    unsafe {
        for size in [0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 64, 65, 127, 128, 129, 255, 256, 300, 513, 1000, 3000] {
            for shift in [0, 1, 13] {
                libc::memcpy(data.add(10_000 + shift).cast(), data.add(shift * 3).cast(), size);
                libc::memmove(data.add(5).cast(), data.add(shift).cast(), size);
                libc::memset(data.add(15_000 + shift).cast(), size as c_int, size);
            }
        }
    }
}

#[test]
fn memcpy_memmove_and_memset() {
    let found = compare(copy, &mut (0..20_000u32).map(|n| ((n * 7) >> 3) as u8).collect::<Vec<_>>());
    assert!(found.written.len() > 6000, "{}", found.written.len());
}

extern "C" fn search(data: *mut u8) {
    // SAFETY: the caller gives 20,000 bytes, of which the last is zero.
    unsafe {
        let text = data.cast::<c_char>();
        let mut sum = 0usize;
        for start in [0, 1, 15, 31, 63, 100] {
            for length in [0, 1, 5, 31, 32, 33, 63, 64, 200, 700] {
                let end = data.add(start + length);
                let kept = end.replace(0);
                sum = sum.wrapping_add(libc::strlen(text.add(start)));
                sum = sum.wrapping_add(libc::strchr(text.add(start), 200).addr());
                sum = sum.wrapping_add(libc::memchr(data.add(start).cast(), 0, length + 1).addr());
                sum = sum
                    .wrapping_add(libc::memcmp(data.add(start).cast(), data.add(1024 + start).cast(), length) as usize);
                sum = sum.wrapping_add(libc::strcmp(text.add(start), text.add(1024 + start)) as usize);
                sum = sum.wrapping_add(libc::strncmp(text.add(start), text.add(start), length) as usize);
                libc::strcpy(text.add(15_000), text.add(start));
                *end = kept;
            }
        }
        data.add(16_000).cast::<usize>().write_unaligned(sum);
    }
}

#[test]
fn strlen_memchr_strcmp_and_their_kin() {
    let mut data: Vec<u8> = (0..20_000u32).map(|n| (n % 100) as u8 | 1).collect();
    data[19_999] = 0;
    compare(search, &mut data);
}

extern "C" fn by_number(a: *const c_void, b: *const c_void) -> c_int {
    // SAFETY: qsort gives pointers to elements.
    let (a, b) = unsafe { (*a.cast::<u32>(), *b.cast::<u32>()) };
    a.cmp(&b) as c_int
}

extern "C" fn sort(data: *mut u8) {
    // SAFETY: the caller gives 200 aligned numbers.
    unsafe { libc::qsort(data.cast(), 200, 4, Some(by_number)) };
}

#[test]
fn qsort() {
    let data = words(100);
    let mut x = 1u64;
    for word in data.iter_mut() {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
        *word = x ^ x >> 32;
    }
    // SAFETY: the words as their bytes.
    let bytes = unsafe { std::slice::from_raw_parts_mut(data.as_mut_ptr().cast::<u8>(), 800) };
    compare(sort, bytes);
    // SAFETY: the words as numbers of half their size.
    let sorted = unsafe { std::slice::from_raw_parts(data.as_mut_ptr().cast::<u32>(), 200) };
    assert!(sorted.is_sorted());
}

extern "C" fn print(data: *mut u8) {
    // SAFETY: the caller gives 20,000 bytes; the format fits what is given.
    unsafe {
        let mut at = data;
        for (number, float) in [(1i64, 0.1), (-2, -1e300), (i64::MIN, f64::NAN), (4, 3.0), (5, 5e-324)] {
            let format = c"%ld|%-20.12g|%+a|%08lx|%s;";
            let text = c"some text".as_ptr();
            let count = libc::snprintf(at.cast(), 256, format.as_ptr(), number, float, float, number, text);
            at = at.add(count as usize);
        }
        let mut end = std::ptr::null_mut();
        let number = libc::strtod(c"1.7976931348623157e308".as_ptr(), &raw mut end);
        at.add(8).cast::<f64>().write_unaligned(number);
    }
}

#[test]
fn snprintf_and_strtod() {
    let found = compare(print, &mut vec![0; 20_000]);
    assert!(found.written.len() > 300 && found.read.len() > 300);
}

extern "C" fn compute(data: *mut u8) {
    // SAFETY: the caller gives 20,000 aligned bytes.
    unsafe {
        let numbers = std::slice::from_raw_parts_mut(data.cast::<f64>(), 2000);
        for n in 0..1000 {
            numbers[1000 + n] = numbers[n].mul_add(2.0, numbers[999 - n]).sqrt() + numbers[(n * 7) % 1000].sin();
        }
        let bytes = std::slice::from_raw_parts_mut(data.add(16_000), 4000);
        bytes.reverse();
        for n in 1..4000 {
            bytes[n] ^= bytes[n - 1].rotate_left(3);
        }
    }
}

#[test]
fn loops_over_numbers_and_bytes() {
    let data = words(2500);
    data.iter_mut().enumerate().for_each(|(n, word)| *word = (f64::from(n as u32) + 0.5).to_bits());
    // SAFETY: the words as their bytes.
    let bytes = unsafe { std::slice::from_raw_parts_mut(data.as_mut_ptr().cast::<u8>(), 20_000) };
    let found = compare(compute, bytes);
    assert!(found.written.len() >= 12_000);
}
