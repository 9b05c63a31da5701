//! What threads of this process do, or whether they are gone, as `/proc` tells.
//!
//! Apart from the plain system calls because a main thread that called
//! `pthread_exit` stays behind as a zombie: signals still reach it.

use crate::syscall::{self, number};

/// Whether thread `tid` of this process has ended.
pub fn is_gone(pid: u32, tid: u32) -> bool {
    !syscall::thread_exists(pid, tid) || state(OWN, tid).is_none_or(is_over)
}

/// Whether thread `tid` of any process is known to have ended.
pub fn has_ended(tid: u32) -> bool {
    !syscall::process_exists(tid) || state(ALL, tid).is_some_and(is_over)
}

fn is_over(state: u8) -> bool {
    matches!(state, b'Z' | b'X')
}

/// Whether thread `tid` of this process computes, or would if it had a processor.
pub fn is_running(tid: u32) -> bool {
    state(OWN, tid) == Some(b'R')
}

/// Whether thread `tid` of this process waits for something that may take any time.
pub fn is_asleep(tid: u32) -> bool {
    state(OWN, tid) == Some(b'S')
}

/// Whether thread `tid` of any process waits for something that may take any time, or is stopped.
pub fn waits(tid: u32) -> bool {
    state(ALL, tid).is_some_and(|state| matches!(state, b'S' | b'T' | b't'))
}

/// Nanoseconds for which thread `tid` of this process has had a processor; 0 if it is gone.
pub fn computed(tid: u32) -> u64 {
    // The kernel's numbers for clocks of threads.
    const OF_THREAD: u32 = 4;
    const SCHEDULER: u32 = 2;
    let clock = (!tid << 3 | OF_THREAD | SCHEDULER) as i32;
    let mut time = [0u64; 2];
    let place = time.as_mut_ptr().addr();
    // SAFETY: the kernel writes two words.
    let result = unsafe { syscall::syscall6(number::CLOCK_GETTIME, clock as usize, place, 0, 0, 0, 0) };
    if result == 0 { time[0] * 1_000_000_000 + time[1] } else { 0 }
}

/// Where the threads of this process have their folders, and those of all have theirs.
const OWN: &[u8] = b"/proc/self/task/";
const ALL: &[u8] = b"/proc/";

/// The letter that the kernel has for what the thread does, which has its folder in this one.
fn state(folder: &[u8], tid: u32) -> Option<u8> {
    const DIGITS: usize = 10;
    let mut path = [0; OWN.len() + DIGITS + b"/stat\0".len()];
    let (digits, stat) = (folder.len(), folder.len() + DIGITS);
    path[..digits].copy_from_slice(folder);
    path[stat..stat + 6].copy_from_slice(b"/stat\0");
    let mut rest = tid;
    for digit in path[digits..stat].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    // The kernel takes no leading zeros in a thread's folder.
    let zeros = path[digits..stat - 1].iter().take_while(|&&b| b == b'0').count();
    path.copy_within(digits + zeros.., digits);
    let end = stat + 6 - zeros;
    let fd = syscall::open(&path[..end], 0);
    if fd < 0 {
        return None;
    }
    let mut text = [0u8; 256];
    let got = syscall::read(fd as u32, &mut text);
    syscall::close(fd as u32);
    let text = &text[..usize::try_from(got).unwrap_or(0)];
    // `tid (name) state …`; the name may hold brackets, the fields after it don't.
    let name_end = text.iter().rposition(|&b| b == b')');
    name_end.and_then(|at| text.get(at + 2)).copied()
}

#[cfg(test)]
mod tests {
    use super::{computed, has_ended, is_gone, is_running};
    use crate::syscall::{getpid, gettid};

    #[test]
    fn a_thread_that_looks_runs_and_one_that_waits_does_not() {
        assert!(is_running(gettid()));
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let waiting = std::thread::spawn(move || {
            tell.send(gettid()).unwrap();
            ended.recv()
        });
        let tid = told.recv().unwrap();
        while is_running(tid) {
            std::thread::yield_now();
        }
        drop(end);
        assert!(waiting.join().unwrap().is_err());
        assert!(!is_running(tid));
    }

    #[test]
    fn a_threads_time_is_what_it_computed() {
        let before = computed(gettid());
        while computed(gettid()) < before + 1_000_000 {
            std::hint::spin_loop();
        }
        let ended = std::thread::spawn(gettid).join().unwrap();
        while !is_gone(getpid(), ended) {
            std::thread::yield_now();
        }
        assert_eq!(computed(ended), 0);
    }

    #[test]
    fn a_process_has_ended_before_its_parent_asks() {
        assert!(!has_ended(getpid()));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        while !has_ended(child.id()) {
            std::thread::yield_now();
        }
        assert!(child.wait().unwrap().success());
        assert!(has_ended(child.id()));
    }

    #[test]
    fn a_thread_is_gone_once_it_was_joined() {
        assert!(!is_gone(getpid(), gettid()));
        let ended = std::thread::spawn(gettid).join().unwrap();
        while !is_gone(getpid(), ended) {
            std::thread::yield_now();
        }
    }
}
