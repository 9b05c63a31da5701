//! Whether a thread of this process is gone, as `/proc` tells.
//!
//! Apart from the plain system calls because a main thread that called
//! `pthread_exit` stays behind as a zombie: signals still reach it.

use crate::syscall;

/// Whether thread `tid` of this process has ended.
pub fn is_gone(pid: u32, tid: u32) -> bool {
    if !syscall::thread_exists(pid, tid) {
        return true;
    }
    let mut path = *b"/proc/self/task/0000000000/stat\0";
    let mut rest = tid;
    for digit in path[16..26].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    // The kernel takes no leading zeros in a thread's folder.
    let zeros = path[16..25].iter().take_while(|&&b| b == b'0').count();
    path.copy_within(16 + zeros.., 16);
    let end = path.len() - zeros;
    let fd = syscall::open(&path[..end], 0);
    if fd < 0 {
        return true;
    }
    let mut text = [0u8; 256];
    let got = syscall::read(fd as u32, &mut text);
    syscall::close(fd as u32);
    let text = &text[..usize::try_from(got).unwrap_or(0)];
    // `tid (name) state …`; the name may hold brackets, the fields after it don't.
    let name_end = text.iter().rposition(|&b| b == b')');
    name_end.and_then(|at| text.get(at + 2)).is_none_or(|&state| state == b'Z' || state == b'X')
}

#[cfg(test)]
mod tests {
    use super::is_gone;
    use crate::syscall::{getpid, gettid};

    #[test]
    fn a_thread_is_gone_once_it_was_joined() {
        assert!(!is_gone(getpid(), gettid()));
        let ended = std::thread::spawn(gettid).join().unwrap();
        while !is_gone(getpid(), ended) {
            std::thread::yield_now();
        }
    }
}
