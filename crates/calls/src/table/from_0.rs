//! The calls from 0 to 99: files, memory, sockets, processes.
//!
//! Apart so that no file of the table is too long to read.

use super::{EINTR, PLAIN, call, on, out};
use crate::Bytes::{
    Address, Array, Buffers, Capped, Descriptors, Fixed, Message, Pages, Result as Returned, ResultAnd, Timeout, Value,
};
use crate::Call;
use crate::Effect::{Exec, Exit, Memory, Processes, Schedule, Signals, Wait};
use crate::Request::{Fcntl, Getsockopt, Ioctl, Msgctl, Semctl, Shmctl};
use crate::Treatment::{ByRequest, Emulate, Execute};
use crate::When::{Always, Error, SuccessOr};

#[rustfmt::skip]
pub(super) static CALLS: [Call; 100] = [
    /* 0 */
    call("read", Emulate(&[out(1, Returned)])),
    call("write", PLAIN),
    call("open", PLAIN),
    call("close", PLAIN),
    call("stat", Emulate(&[out(1, Fixed(144))])),
    call("fstat", Emulate(&[out(1, Fixed(144))])),
    call("lstat", Emulate(&[out(1, Fixed(144))])),
    // What happened is also stored when a signal ends the wait.
    call("poll", Emulate(&[on(0, Array { count: 1, each: 8 }, SuccessOr(EINTR))])),
    call("lseek", PLAIN),
    call("mmap", Execute(Memory)),
    /* 10 */
    call("mprotect", Execute(Memory)),
    call("munmap", Execute(Memory)),
    call("brk", Execute(Memory)),
    call("rt_sigaction", Execute(Signals)),
    call("rt_sigprocmask", Execute(Signals)),
    call("rt_sigreturn", Execute(Signals)),
    call("ioctl", ByRequest(Ioctl)),
    call("pread64", Emulate(&[out(1, Returned)])),
    call("pwrite64", PLAIN),
    call("readv", Emulate(&[out(1, Buffers { count: 2 })])),
    /* 20 */
    call("writev", PLAIN),
    call("access", PLAIN),
    call("pipe", Emulate(&[out(0, Fixed(8))])),
    call("select", Emulate(&[
        out(1, Descriptors { count: 0 }), out(2, Descriptors { count: 0 }), out(3, Descriptors { count: 0 }),
        on(4, Timeout, Always),
    ])),
    call("sched_yield", Execute(Schedule)),
    call("mremap", Execute(Memory)),
    call("msync", PLAIN),
    call("mincore", Emulate(&[out(2, Pages { length: 1 })])),
    call("madvise", Execute(Memory)),
    call("shmget", PLAIN),
    /* 30 */
    call("shmat", Execute(Memory)),
    call("shmctl", ByRequest(Shmctl)),
    call("dup", PLAIN),
    call("dup2", PLAIN),
    call("pause", Execute(Signals)),
    call("nanosleep", Emulate(&[on(1, Fixed(16), Error(EINTR))])),
    call("getitimer", Emulate(&[out(1, Fixed(32))])),
    call("alarm", Execute(Signals)),
    call("setitimer", Execute(Signals)),
    call("getpid", PLAIN),
    /* 40 */
    call("sendfile", Emulate(&[out(2, Fixed(8))])),
    call("socket", PLAIN),
    call("connect", PLAIN),
    call("accept", Emulate(&[out(1, Address { length: 2 })])),
    call("sendto", PLAIN),
    // With MSG_TRUNC the result is the length of the whole datagram.
    call("recvfrom", Emulate(&[out(1, Capped { length: 2 }), out(4, Address { length: 5 })])),
    call("sendmsg", PLAIN),
    call("recvmsg", Emulate(&[out(1, Message)])),
    call("shutdown", PLAIN),
    call("bind", PLAIN),
    /* 50 */
    call("listen", PLAIN),
    call("getsockname", Emulate(&[out(2, Fixed(4)), out(1, Value { length: 2 })])),
    call("getpeername", Emulate(&[out(2, Fixed(4)), out(1, Value { length: 2 })])),
    call("socketpair", Emulate(&[out(3, Fixed(8))])),
    call("setsockopt", PLAIN),
    call("getsockopt", ByRequest(Getsockopt)),
    call("clone", Execute(Processes)),
    call("fork", Execute(Processes)),
    call("vfork", Execute(Processes)),
    call("execve", Execute(Exec)),
    /* 60 */
    call("exit", Execute(Exit)),
    call("wait4", Execute(Wait)),
    call("kill", Execute(Signals)),
    call("uname", Emulate(&[out(0, Fixed(390))])),
    call("semget", PLAIN),
    call("semop", PLAIN),
    call("semctl", ByRequest(Semctl)),
    call("shmdt", Execute(Memory)),
    call("msgget", PLAIN),
    call("msgsnd", PLAIN),
    /* 70 */
    call("msgrcv", Emulate(&[out(1, ResultAnd(8))])),
    call("msgctl", ByRequest(Msgctl)),
    call("fcntl", ByRequest(Fcntl)),
    call("flock", PLAIN),
    call("fsync", PLAIN),
    call("fdatasync", PLAIN),
    call("truncate", PLAIN),
    call("ftruncate", PLAIN),
    call("getdents", Emulate(&[out(1, Returned)])),
    // The result counts the final zero.
    call("getcwd", Emulate(&[out(0, Returned)])),
    /* 80 */
    call("chdir", PLAIN),
    call("fchdir", PLAIN),
    call("rename", PLAIN),
    call("mkdir", PLAIN),
    call("rmdir", PLAIN),
    call("creat", PLAIN),
    call("link", PLAIN),
    call("unlink", PLAIN),
    call("symlink", PLAIN),
    call("readlink", Emulate(&[out(1, Returned)])),
    /* 90 */
    call("chmod", PLAIN),
    call("fchmod", PLAIN),
    call("chown", PLAIN),
    call("fchown", PLAIN),
    call("lchown", PLAIN),
    call("umask", PLAIN),
    call("gettimeofday", Emulate(&[out(0, Fixed(16)), out(1, Fixed(8))])),
    call("getrlimit", Emulate(&[out(1, Fixed(16))])),
    call("getrusage", Emulate(&[out(1, Fixed(144))])),
    call("sysinfo", Emulate(&[out(0, Fixed(112))])),
];
