//! System calls by the bare instruction: they neither touch `errno` nor pass
//! through any function that the program, or we, could have interposed.
//!
//! Every wrapper returns the kernel's value: negative errno on failure.

mod limits;
mod stat;

pub use limits::{descriptor_limit, file_limit, set_file_limit};
pub use stat::{
    Stat, blocks, file_birth, file_identity, file_mode, file_size, file_stat, is_readable, is_writable, name_with,
};

use core::arch::asm;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Numbers from `asm/unistd_64.h` that the runtime itself uses or looks for.
pub mod number {
    #![allow(missing_docs)]
    pub const READ: usize = 0;
    pub const WRITE: usize = 1;
    pub const OPEN: usize = 2;
    pub const CLOSE: usize = 3;
    pub const STAT: usize = 4;
    pub const FSTAT: usize = 5;
    pub const LSTAT: usize = 6;
    pub const POLL: usize = 7;
    pub const MMAP: usize = 9;
    pub const MPROTECT: usize = 10;
    pub const PKEY_MPROTECT: usize = 329;
    pub const MUNMAP: usize = 11;
    pub const BRK: usize = 12;
    pub const RT_SIGACTION: usize = 13;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const RT_SIGRETURN: usize = 15;
    pub const IOCTL: usize = 16;
    pub const PREAD64: usize = 17;
    pub const PWRITE64: usize = 18;
    pub const WRITEV: usize = 20;
    pub const ACCESS: usize = 21;
    pub const SELECT: usize = 23;
    pub const SCHED_YIELD: usize = 24;
    pub const MREMAP: usize = 25;
    pub const MADVISE: usize = 28;
    pub const SHMAT: usize = 30;
    pub const SHMCTL: usize = 31;
    pub const DUP: usize = 32;
    pub const NANOSLEEP: usize = 35;
    pub const DUP2: usize = 33;
    pub const GETPID: usize = 39;
    pub const SENDFILE: usize = 40;
    pub const SOCKET: usize = 41;
    pub const CONNECT: usize = 42;
    pub const SENDTO: usize = 44;
    pub const SENDMSG: usize = 46;
    pub const RECVFROM: usize = 45;
    pub const RECVMSG: usize = 47;
    pub const GETSOCKOPT: usize = 55;
    pub const CLONE: usize = 56;
    pub const FORK: usize = 57;
    pub const VFORK: usize = 58;
    pub const EXECVE: usize = 59;
    pub const EXIT: usize = 60;
    pub const WAIT4: usize = 61;
    pub const KILL: usize = 62;
    pub const SEMOP: usize = 65;
    pub const SEMCTL: usize = 66;
    pub const SHMDT: usize = 67;
    pub const MSGSND: usize = 69;
    pub const MSGRCV: usize = 70;
    pub const MSGCTL: usize = 71;
    pub const FCNTL: usize = 72;
    pub const FSYNC: usize = 74;
    pub const FDATASYNC: usize = 75;
    pub const LSEEK: usize = 8;
    pub const TRUNCATE: usize = 76;
    pub const FTRUNCATE: usize = 77;
    pub const CREAT: usize = 85;
    pub const READLINK: usize = 89;
    pub const FCHMOD: usize = 91;
    pub const GETTIMEOFDAY: usize = 96;
    pub const GETRLIMIT: usize = 97;
    pub const GETPPID: usize = 110;
    pub const GETEUID: usize = 107;
    pub const GETEGID: usize = 108;
    pub const GETRESUID: usize = 118;
    pub const GETRESGID: usize = 120;
    pub const SETUID: usize = 105;
    pub const SETGID: usize = 106;
    pub const SETREUID: usize = 113;
    pub const SETREGID: usize = 114;
    pub const SETGROUPS: usize = 116;
    pub const SETRESUID: usize = 117;
    pub const SETRESGID: usize = 119;
    pub const RT_SIGTIMEDWAIT: usize = 128;
    pub const RT_SIGQUEUEINFO: usize = 129;
    pub const RT_SIGSUSPEND: usize = 130;
    pub const SIGALTSTACK: usize = 131;
    pub const PRCTL: usize = 157;
    pub const SETRLIMIT: usize = 160;
    pub const GETTID: usize = 186;
    pub const FGETXATTR: usize = 193;
    pub const TKILL: usize = 200;
    pub const TIME: usize = 201;
    pub const FUTEX: usize = 202;
    /// What the kernel makes of an interrupted call that it restarts with the time that is left.
    pub const RESTART_SYSCALL: usize = 219;
    pub const SEMTIMEDOP: usize = 220;
    pub const TIMER_CREATE: usize = 222;
    pub const TIMER_SETTIME: usize = 223;
    pub const TIMER_DELETE: usize = 226;
    pub const CLOCK_GETTIME: usize = 228;
    pub const CLOCK_GETRES: usize = 229;
    pub const CLOCK_NANOSLEEP: usize = 230;
    pub const EXIT_GROUP: usize = 231;
    pub const EPOLL_WAIT: usize = 232;
    pub const TGKILL: usize = 234;
    pub const MQ_TIMEDSEND: usize = 242;
    pub const MQ_TIMEDRECEIVE: usize = 243;
    pub const MQ_NOTIFY: usize = 244;
    pub const WAITID: usize = 247;
    pub const OPENAT: usize = 257;
    pub const NEWFSTATAT: usize = 262;
    pub const UNLINKAT: usize = 263;
    pub const RENAMEAT: usize = 264;
    pub const READLINKAT: usize = 267;
    pub const FACCESSAT: usize = 269;
    pub const PSELECT6: usize = 270;
    pub const PPOLL: usize = 271;
    pub const SPLICE: usize = 275;
    pub const EPOLL_PWAIT: usize = 281;
    pub const SIGNALFD: usize = 282;
    pub const SIGNALFD4: usize = 289;
    pub const DUP3: usize = 292;
    pub const PWRITEV: usize = 296;
    pub const RT_TGSIGQUEUEINFO: usize = 297;
    pub const PRLIMIT64: usize = 302;
    pub const GETCPU: usize = 309;
    pub const PROCESS_VM_READV: usize = 310;
    pub const PROCESS_VM_WRITEV: usize = 311;
    pub const SCHED_SETATTR: usize = 314;
    pub const SCHED_GETATTR: usize = 315;
    pub const MEMFD_CREATE: usize = 319;
    pub const EXECVEAT: usize = 322;
    pub const MEMBARRIER: usize = 324;
    pub const COPY_FILE_RANGE: usize = 326;
    pub const FALLOCATE: usize = 285;
    pub const PWRITEV2: usize = 328;
    pub const STATX: usize = 332;
    pub const RSEQ: usize = 334;
    pub const PIDFD_SEND_SIGNAL: usize = 424;
    pub const PIDFD_OPEN: usize = 434;
    pub const CLONE3: usize = 435;
    pub const CLOSE_RANGE: usize = 436;
    pub const OPENAT2: usize = 437;
    pub const FACCESSAT2: usize = 439;
    pub const EPOLL_PWAIT2: usize = 441;
}

/// `EINTR`, negated as the kernel returns it.
pub const EINTR: isize = -4;
/// `EAGAIN`, negated.
pub const EAGAIN: isize = -11;
/// `EFBIG`, negated.
pub const EFBIG: isize = -27;
/// `EBADF`, negated.
pub const EBADF: isize = -9;
/// `EPIPE`, negated.
pub const EPIPE: isize = -32;
/// `ESRCH`, negated.
pub const ESRCH: isize = -3;
/// `ETIMEDOUT`, negated.
pub const ETIMEDOUT: isize = -110;

/// One system call.
///
/// # Safety
/// As for the call itself: pointers among the arguments must be valid for what
/// the kernel does with them.
#[allow(clippy::many_single_char_names)] // The kernel's own names for its six arguments are no better.
#[inline(always)]
pub unsafe fn syscall6(n: usize, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> isize {
    let r: isize;
    // SAFETY: the kernel clobbers rcx, r11 and rax only; memory effects are the caller's promise.
    unsafe {
        asm!("syscall", inlateout("rax") n as isize => r, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    r
}

#[inline(always)]
unsafe fn syscall3(n: usize, a: usize, b: usize, c: usize) -> isize {
    // SAFETY: forwarded.
    unsafe { syscall6(n, a, b, c, 0, 0, 0) }
}

/// Kernel id of the calling thread.
pub fn gettid() -> u32 {
    // SAFETY: no pointers.
    unsafe { syscall3(number::GETTID, 0, 0, 0) as u32 }
}

/// Id of the calling process, never cached: right in a fork or vfork child.
pub fn getpid() -> u32 {
    // SAFETY: no pointers.
    unsafe { syscall3(number::GETPID, 0, 0, 0) as u32 }
}

/// Whether a process exists and may be signalled.
pub fn process_exists(pid: u32) -> bool {
    // SAFETY: no pointers; signal 0 delivers nothing.
    unsafe { syscall3(number::KILL, pid as usize, 0, 0) != ESRCH }
}

/// Whether a thread of process `pid` exists.
pub fn thread_exists(pid: u32, tid: u32) -> bool {
    // SAFETY: no pointers; signal 0 delivers nothing.
    unsafe { syscall3(number::TGKILL, pid as usize, tid as usize, 0) != ESRCH }
}

/// Writes to a descriptor; the number of bytes or a negative errno.
pub fn write(fd: u32, bytes: &[u8]) -> isize {
    // SAFETY: the slice is readable for its length.
    unsafe { syscall3(number::WRITE, fd as usize, bytes.as_ptr() as usize, bytes.len()) }
}

/// Reads from a descriptor; the number of bytes or a negative errno.
pub fn read(fd: u32, bytes: &mut [u8]) -> isize {
    // SAFETY: the slice is writable for its length.
    unsafe { syscall3(number::READ, fd as usize, bytes.as_mut_ptr() as usize, bytes.len()) }
}

/// Reads from a place in a file; the number of bytes or a negative errno.
pub fn read_at(fd: u32, bytes: &mut [u8], offset: u64) -> isize {
    // SAFETY: the slice is writable for its length.
    unsafe {
        let (address, length) = (bytes.as_mut_ptr() as usize, bytes.len());
        syscall6(number::PREAD64, fd as usize, address, length, offset as usize, 0, 0)
    }
}

/// Writes to a place in a file; the number of bytes or a negative errno.
///
/// # Safety
/// The bytes must be readable; what the program has there may change meanwhile.
pub unsafe fn write_at(fd: u32, address: usize, length: usize, offset: u64) -> isize {
    // SAFETY: the caller's promise.
    unsafe { syscall6(number::PWRITE64, fd as usize, address, length, offset as usize, 0, 0) }
}

/// Another descriptor of the same open file, close-on-exec, with this number or a higher one.
pub fn duplicate_above(fd: u32, least: u32) -> isize {
    const F_DUPFD_CLOEXEC: usize = 1030;
    // SAFETY: no pointers.
    unsafe { syscall3(number::FCNTL, fd as usize, F_DUPFD_CLOEXEC, least as usize) }
}

/// Closes a descriptor.
pub fn close(fd: u32) {
    // SAFETY: no pointers; the descriptor is the runtime's own.
    unsafe { syscall3(number::CLOSE, fd as usize, 0, 0) };
}

/// The path by which a file was opened, without a final zero; `None` if it has none, or a longer one than `into`.
pub fn path_of(fd: u32, into: &mut [u8]) -> Option<&[u8]> {
    let link = link_of(fd);
    // SAFETY: a terminated path, and as many writable bytes as stated.
    let length = unsafe { syscall3(number::READLINK, link.as_ptr().addr(), into.as_mut_ptr().addr(), into.len()) };
    let whole = length > 0 && (length as usize) < into.len() && into[0] == b'/';
    whole.then(|| &into[..length as usize])
}

/// Opens the file behind a descriptor once more, to read: it has a position of its own.
pub fn open_again(fd: u32) -> Option<u32> {
    u32::try_from(open(&link_of(fd), O_RDONLY)).ok()
}

/// What leads to the file behind a descriptor, with a final zero.
fn link_of(fd: u32) -> [u8; 25] {
    let mut link = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0";
    let mut digits = [0u8; 10];
    let (mut at, mut left) = (digits.len(), fd);
    while left > 0 || at == digits.len() {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
    }
    let text = &digits[at..];
    link[14..14 + text.len()].copy_from_slice(text);
    link
}

/// `O_RDONLY`.
pub const O_RDONLY: u32 = 0;
/// `O_RDWR`.
pub const O_RDWR: u32 = 2;
/// `O_WRONLY`.
pub const O_WRONLY: u32 = 1;
/// `O_WRONLY | O_CREAT`.
pub const O_WRITE_NEW: u32 = 1 | 0o100;
/// `O_CREAT | O_EXCL`.
pub const O_CREATE_NEW: u32 = 0o100 | 0o200;
const O_CLOEXEC: u32 = 0o2_000_000;
const AT_FDCWD: isize = -100;

/// Makes a file readable and writable for its owner, and for nobody else.
pub fn set_owners_mode(fd: u32) {
    // SAFETY: no memory is involved.
    unsafe { syscall6(number::FCHMOD, fd as usize, 0o600, 0, 0, 0, 0) };
}

/// Opens a path given as bytes with a final zero, close-on-exec, mode 0600.
///
/// # Panics
/// If the path doesn't end in a zero byte.
pub fn open(path: &[u8], flags: u32) -> isize {
    assert!(path.last() == Some(&0), "a path for the kernel ends in a zero byte");
    // SAFETY: the path is terminated, as just checked.
    unsafe {
        let flags = (flags | O_CLOEXEC) as usize;
        syscall6(number::OPENAT, AT_FDCWD as usize, path.as_ptr() as usize, flags, 0o600, 0, 0)
    }
}

/// `MAP_SHARED`.
pub const MAP_SHARED: u32 = 1;
/// `MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE`.
pub const MAP_PRIVATE_ANONYMOUS: u32 = 2 | 0x20 | 0x4000;

/// Where our own mappings lie: clear of what the kernel gives to programs, and of the ranges of sanitizers. A program
/// gets the same addresses whether it is recorded or replayed, though we map more in one of the two.
static NEXT: AtomicUsize = AtomicUsize::new(OURS.start);

/// See [`mmap`].
pub const OURS: core::ops::Range<usize> = 0x2000_0000_0000..0x4000_0000_0000;

/// Maps readable and writable memory among our own; the address or a negative errno.
pub fn mmap(len: usize, flags: u32, fd: i32, offset: u64) -> isize {
    const READ_WRITE: usize = 3;
    const MAP_FIXED_NOREPLACE: usize = 0x10_0000;
    const EEXIST: isize = -17;
    const PAGE: usize = 4096;
    loop {
        let at = NEXT.fetch_add(len.next_multiple_of(PAGE) + PAGE, Ordering::Relaxed);
        let flags = flags as usize | MAP_FIXED_NOREPLACE;
        // SAFETY: a new mapping, at a free address or not at all, aliases nothing.
        let found =
            unsafe { syscall6(number::MMAP, at, len, READ_WRITE, flags, fd as isize as usize, offset as usize) };
        if found != EEXIST {
            return found;
        }
    }
}

/// Unmaps memory.
///
/// # Safety
/// Nothing may use the range afterwards.
pub unsafe fn munmap(address: usize, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { syscall3(number::MUNMAP, address, len, 0) };
}

/// Drops this process's pages of a shared file mapping; the file keeps the data.
///
/// # Safety
/// The range must be a shared file mapping: on private memory this would zero it.
pub unsafe fn drop_pages(address: usize, len: usize) {
    const MADV_DONTNEED: usize = 4;
    // SAFETY: the caller's promise.
    unsafe { syscall3(number::MADVISE, address, len, MADV_DONTNEED) };
}

/// Touches the pages of a writable mapping; those of a kernel that can't do so are touched when they are used.
///
/// # Safety
/// The range must be a mapping of the caller's, of a file that is as long.
pub unsafe fn touch_pages(address: usize, len: usize) {
    const MADV_POPULATE_WRITE: usize = 23;
    // SAFETY: the caller's promise.
    unsafe { syscall3(number::MADVISE, address, len, MADV_POPULATE_WRITE) };
}

/// Of a file's mapping, each page is read when it is used, and no others with it.
///
/// # Safety
/// The range must be a mapping of the caller's.
pub unsafe fn read_singly(address: usize, len: usize) {
    const MADV_RANDOM: usize = 1;
    // SAFETY: the caller's promise.
    unsafe { syscall3(number::MADVISE, address, len, MADV_RANDOM) };
}

/// Gives up the processor once.
pub fn sched_yield() {
    // SAFETY: no pointers.
    unsafe { syscall3(number::SCHED_YIELD, 0, 0, 0) };
}

/// Ends the whole process.
pub fn exit_group(code: u32) -> ! {
    loop {
        // SAFETY: does not return.
        unsafe { syscall3(number::EXIT_GROUP, code as usize, 0, 0) };
    }
}

/// Sends a signal to a thread of a process.
pub fn tgkill(pid: u32, tid: u32, signal: u32) -> isize {
    // SAFETY: no pointers.
    unsafe { syscall3(number::TGKILL, pid as usize, tid as usize, signal as usize) }
}

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

const FUTEX_WAIT: usize = 0;
const FUTEX_WAKE: usize = 1;

/// Sleeps while `word` holds `expected`, at most `milliseconds` if given. Works across processes.
/// Returns 0, `-EAGAIN`, `-EINTR` or [`ETIMEDOUT`].
pub fn futex_wait(word: &AtomicU32, expected: u32, milliseconds: Option<u32>) -> isize {
    let limit =
        milliseconds.map(|ms| Timespec { seconds: (ms / 1000) as i64, nanoseconds: (ms % 1000) as i64 * 1_000_000 });
    let limit = limit.as_ref().map_or(0, |t| core::ptr::from_ref(t) as usize);
    // SAFETY: the word and the time limit outlive the call.
    unsafe { syscall6(number::FUTEX, word.as_ptr() as usize, FUTEX_WAIT, expected as usize, limit, 0, 0) }
}

/// Wakes up to `count` sleepers of `word`.
pub fn futex_wake(word: &AtomicU32, count: u32) {
    // SAFETY: the kernel only uses the address as a key.
    unsafe { syscall3(number::FUTEX, word.as_ptr() as usize, FUTEX_WAKE, count as usize) };
}

const MEMBARRIER_GLOBAL_EXPEDITED: usize = 2;
const MEMBARRIER_REGISTER_GLOBAL_EXPEDITED: usize = 4;

/// Makes this process take part in [`membarrier`].
pub fn membarrier_register() -> bool {
    // SAFETY: no pointers.
    unsafe { syscall3(number::MEMBARRIER, MEMBARRIER_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0 }
}

/// A full memory barrier on every running thread of every registered process.
pub fn membarrier() -> bool {
    // SAFETY: no pointers.
    unsafe { syscall3(number::MEMBARRIER, MEMBARRIER_GLOBAL_EXPEDITED, 0, 0) == 0 }
}

/// Blocks every signal of the calling thread and returns the mask it had. `SIGSYS`, `SIGILL` and `SIGTRAP` stay: blocked,
/// they would end the process at the next call, or instruction, that comes to us by them.
pub fn block_signals() -> u64 {
    let ours = [crate::dispatch::SIGSYS, crate::outside::SIGILL, crate::passage::SIGTRAP];
    set_signal_mask(!ours.iter().fold(0, |mask, number| mask | 1 << (number - 1)))
}

/// Sets the calling thread's signal mask and returns the one it had.
pub fn set_signal_mask(mask: u64) -> u64 {
    const SIG_SETMASK: usize = 2;
    let mut old = 0u64;
    // SAFETY: both masks are eight bytes, as the last argument says.
    unsafe {
        let (new, old) = (&raw const mask as usize, &raw mut old as usize);
        syscall6(number::RT_SIGPROCMASK, SIG_SETMASK, new, old, 8, 0, 0);
    }
    old
}
