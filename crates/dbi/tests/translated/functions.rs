//! Functions that compilers made: this binary's own, libc's in whatever variant it
//! chooses for this processor, C++-like unwinding, `longjmp`.
//!
//! Apart from `branches`: here the code is not ours and has everything at once.

use crate::process::{Distance, Here, attach, engine_in, memory};
use relive_dbi::{Plain, Tool};
use std::ffi::{c_char, c_int, c_void};

/// A function of compiled code: what comes in, and what comes out, by one pointer.
type Work = extern "C" fn(*mut Job);

/// What a [`Work`] is given.
#[derive(Clone, Debug, Default, PartialEq)]
struct Job {
    seed: u64,
    bytes: Vec<u8>,
    numbers: Vec<i64>,
    floats: Vec<f64>,
    text: String,
}

fn translated(work: Work, job: &Job, tool: impl Tool + 'static) -> Job {
    let engine = engine_in(memory(16 << 20, Distance::Far), Here::default(), tool);
    let mut thread = attach(engine);
    let mut job = job.clone();
    // SAFETY: the function takes one pointer to a job.
    unsafe { thread.call(work as *const () as usize, [&raw mut job as u64, 0, 0, 0, 0, 0]) };
    assert_eq!(*engine.host().lost.lock().unwrap(), [], "something was not translated");
    job
}

fn same(work: Work, job: &Job) -> Job {
    let mut native = job.clone();
    work(&raw mut native);
    assert_eq!(translated(work, job, Plain), native);
    native
}

extern "C" fn compare(a: *const c_void, b: *const c_void) -> c_int {
    // SAFETY: qsort gives pointers to elements.
    let (a, b) = unsafe { (*a.cast::<i64>(), *b.cast::<i64>()) };
    a.cmp(&b) as c_int
}

extern "C" fn sort(job: *mut Job) {
    // SAFETY: the job is the caller's, alone.
    unsafe {
        let numbers = &mut (*job).numbers;
        libc::qsort(numbers.as_mut_ptr().cast(), numbers.len(), 8, Some(compare));
    }
}

#[test]
fn qsort_calls_back_and_forth() {
    let mut x = 88_172_645_463_325_252u64;
    let numbers: Vec<i64> = (0..20_000)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x as i64
        })
        .collect();
    let sorted = same(sort, &Job { numbers, ..Job::default() });
    assert!(sorted.numbers.is_sorted());
}

extern "C" fn print(job: *mut Job) {
    let mut line = [0u8; 256];
    // SAFETY: the job is the caller's; the format fits what is given, and the line is bounded.
    unsafe {
        let job = &mut *job;
        for (number, float) in job.numbers.iter().zip(&job.floats) {
            let format = c"%ld|%-20.12g|%+a|%08lx|%s;";
            let count = libc::snprintf(
                line.as_mut_ptr().cast(),
                256,
                format.as_ptr(),
                *number,
                *float,
                *float,
                *number,
                c"x".as_ptr(),
            );
            job.text.push_str(std::str::from_utf8(&line[..count as usize]).unwrap());
        }
    }
}

#[test]
fn snprintf_with_floating_point() {
    let floats = vec![0.1, -1e300, f64::NAN, 3.0, f64::INFINITY, 5e-324];
    let job = Job { numbers: vec![1, -2, i64::MIN, 4, 5, 6], floats, ..Job::default() };
    let mut native = job.clone();
    print(&raw mut native);
    assert_eq!(translated(print, &job, Plain).text, native.text);
    assert!(native.text.contains("0x1.999999999999ap-4"));
}

extern "C" fn read_floats(job: *mut Job) {
    // SAFETY: the job is the caller's; its text ends with a zero.
    unsafe {
        let job = &mut *job;
        let mut at = job.text.as_ptr().cast::<c_char>();
        loop {
            let mut end = std::ptr::null_mut();
            let value = libc::strtod(at, &raw mut end);
            if end.cast_const() == at {
                break;
            }
            job.floats.push(value);
            at = end;
        }
    }
}

#[test]
fn strtod_of_difficult_numbers() {
    let text = "1.7976931348623157e308 2.2250738585072011e-308 -0.1 0x1.8p3 9007199254740993 nan 1e-400 x\0".to_owned();
    let mut native = Job { text, ..Job::default() };
    let start = native.clone();
    read_floats(&raw mut native);
    let found = translated(read_floats, &start, Plain);
    let bits = |job: &Job| job.floats.iter().map(|f| f.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&found), bits(&native));
    assert_eq!(native.floats.len(), 7);
}

extern "C" fn move_bytes(job: *mut Job) {
    // SAFETY: the job is the caller's; all ranges are within its bytes.
    unsafe {
        let job = &mut *job;
        let start = job.bytes.as_mut_ptr();
        for size in (0..600).chain([1000, 4096, 9000, 40_000]) {
            for shift in [0, 1, 7, 33] {
                libc::memcpy(start.add(50_000 + shift).cast(), start.add(shift * 3).cast(), size);
                libc::memmove(start.add(5).cast(), start.add(shift).cast(), size);
                libc::memset(start.add(49_000 + shift).cast(), size as c_int, size.min(900));
                let order = libc::memcmp(start.cast(), start.add(50_000).cast(), size);
                job.numbers.push(i64::from(order.signum()));
                let end = libc::memchr(start.add(shift).cast(), 7, size);
                job.numbers.push(if end.is_null() { -1 } else { end as i64 - start as i64 });
            }
            *start.add(size) = 0;
            job.numbers.push(libc::strlen(start.add(size / 2).cast()) as i64);
            *start.add(size) = 7;
        }
    }
}

#[test]
fn memory_functions_of_this_processor() {
    let bytes = (0..120_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24 | 1) as u8).collect();
    let mut native = Job { bytes, ..Job::default() };
    let start = native.clone();
    move_bytes(&raw mut native);
    let found = translated(move_bytes, &start, Plain);
    assert_eq!(found.bytes, native.bytes);
    assert_eq!(found.numbers, native.numbers);
}

extern "C" fn allocate_and_format(job: *mut Job) {
    // SAFETY: the job is the caller's, alone.
    let job = unsafe { &mut *job };
    let mut map = std::collections::BTreeMap::new();
    let mut x = job.seed;
    for n in 0..3000u64 {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(n);
        map.insert(x >> 40, format!("{x:#x} {:.3}", (x >> 40) as u32 as f64 / 3.0));
        if n % 3 == 0 {
            map.pop_first();
        }
    }
    job.text = map.values().map(String::as_str).collect::<Vec<_>>().join(",");
}

#[test]
fn rust_code_with_allocation_and_formatting() {
    assert!(same(allocate_and_format, &Job { seed: 7, ..Job::default() }).text.len() > 20_000);
}

unsafe extern "C" {
    #[link_name = "_setjmp"]
    fn setjmp(buffer: *mut [u64; 32]) -> c_int;
    fn longjmp(buffer: *mut [u64; 32], value: c_int) -> !;
}

#[inline(never)]
fn go_down(job: &mut Job, buffer: *mut [u64; 32], depth: u64) {
    job.numbers.push(depth as i64);
    if depth == 0 {
        // SAFETY: the frame that called setjmp is still there, and none in between has anything to drop.
        unsafe { longjmp(buffer, 42) };
    }
    go_down(job, buffer, depth - 1);
    job.numbers.push(-1);
}

extern "C" fn jump_far(job: *mut Job) {
    let mut buffer = [0u64; 32];
    // SAFETY: the job is the caller's; nothing that changes between the two returns of setjmp is in registers but
    // behind the pointer.
    unsafe {
        let value = setjmp(&raw mut buffer);
        (*job).numbers.push(1000 + i64::from(value));
        if value == 0 {
            go_down(&mut *job, &raw mut buffer, 30);
        }
    }
}

#[test]
fn setjmp_and_longjmp() {
    let found = same(jump_far, &Job::default());
    assert_eq!((found.numbers[0], found.numbers.len(), *found.numbers.last().unwrap()), (1000, 33, 1042));
}

extern "C" fn look_back(job: *mut Job) {
    let mut frames = [std::ptr::null_mut(); 60];
    // SAFETY: the job is the caller's; the array has sixty elements.
    unsafe {
        let count = libc::backtrace(frames.as_mut_ptr(), 60);
        (*job).numbers = frames[..count as usize].iter().map(|&frame| frame as i64).collect();
    }
}

#[test]
fn a_backtrace_sees_the_programs_addresses() {
    let mut native = Job::default();
    look_back(&raw mut native);
    let found = translated(look_back, &Job::default(), Plain);
    // The innermost frame is in the function itself, at the same address; behind it come those of the translator's call,
    // and at last the same of the test again.
    assert_eq!(found.numbers[0], native.numbers[0]);
    assert!(native.numbers.len() > 4);
    assert_eq!(found.numbers.last_chunk::<3>(), native.numbers.last_chunk::<3>());
}

extern "C" fn catch(job: *mut Job) {
    // SAFETY: the job is the caller's, alone.
    let job = unsafe { &mut *job };
    for n in 0..50 {
        let caught = std::panic::catch_unwind(|| {
            let held = Vec::from([n; 10]);
            // No message: the hook is for real failures.
            std::panic::resume_unwind(Box::new(held.len() as i64 + n));
        });
        job.numbers.push(*caught.unwrap_err().downcast::<i64>().unwrap());
    }
}

#[test]
fn unwinding_through_translated_frames() {
    let found = same(catch, &Job::default());
    assert_eq!(found.numbers, (10..60).collect::<Vec<_>>());
}

fn now() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is a local variable.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) }, 0);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

extern "C" fn read_clock(job: *mut Job) {
    // SAFETY: the job is the caller's, alone.
    unsafe { (*job).numbers.extend([now(), now()]) };
}

#[test]
fn the_kernels_clock_functions() {
    let before = now();
    let found = translated(read_clock, &Job::default(), Plain);
    let times = [before, found.numbers[0], found.numbers[1], now()];
    assert!(times.is_sorted(), "{times:?}");
}

extern "C" fn threads(job: *mut Job) {
    // SAFETY: the job is the caller's, alone.
    let job = unsafe { &mut *job };
    let seed = job.seed;
    let handles: Vec<_> = (0..4).map(|n| std::thread::spawn(move || seed.wrapping_mul(n + 1).rotate_left(7))).collect();
    job.numbers = handles.into_iter().map(|handle| handle.join().unwrap() as i64).collect();
}

/// Hands over the calls that make threads: those begin where the cache is, with another stack and this thread's area.
struct NewThreads;

impl Tool for NewThreads {
    fn treatment(&self, site: &relive_dbi::Site<'_>) -> relive_dbi::Treatment {
        if site.is_system_call() { relive_dbi::Treatment::Event } else { relive_dbi::Treatment::Copy }
    }
}

#[test]
fn threads_that_a_translated_function_makes_run_natively_if_the_host_says_so() {
    // The host makes the call itself: it is a native instruction then, and so is what the new thread goes on with.
    fn make(context: &mut relive_dbi::Context) -> relive_dbi::After {
        let creates = matches!(context.general[0] as i64, libc::SYS_clone | libc::SYS_clone3);
        if creates { relive_dbi::After::Leave } else { relive_dbi::After::Execute }
    }
    let host = Here { after: Some(make), ..Here::default() };
    let engine = engine_in(memory(16 << 20, Distance::Far), host, NewThreads);
    let mut thread = attach(engine);
    let mut native = Job { seed: 12345, ..Job::default() };
    let mut job = native.clone();
    threads(&raw mut native);
    // SAFETY: the function takes one pointer to a job.
    unsafe { thread.call(threads as *const () as usize, [&raw mut job as u64, 0, 0, 0, 0, 0]) };
    assert_eq!(job, native);
    assert!(engine.usage().blocks > 100);
}
