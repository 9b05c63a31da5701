//! The closed table as data, grouped by reason. Nothing else lives here.

use crate::Family::{Barrier, Condition, Libc, Mutex, Once, RwLock, Semaphore, SpinLock, Stream, Thread};
use crate::Treatment::{Counted, Ordered, PassThrough, Refused, Seen, Unordered};
use crate::{Family, Group, Treatment};

const fn group(treatment: Treatment, family: Family, why: &'static str, names: &'static [&'static str]) -> Group {
    Group { treatment, family, why, names }
}

/// The table: symbols that are treated alike for the same reason stand together.
#[rustfmt::skip]
pub const GROUPS: &[Group] = &[
    // Mutexes.
    group(Ordered, Mutex, "acquired: one event after it, results and failures kept", &[
        "pthread_mutex_lock", "__pthread_mutex_lock", "pthread_mutex_trylock", "__pthread_mutex_trylock",
        "pthread_mutex_timedlock", "pthread_mutex_clocklock", "mtx_lock", "mtx_trylock", "mtx_timedlock",
    ]),
    group(Ordered, Mutex, "released: one event before it", &[
        "pthread_mutex_unlock", "__pthread_mutex_unlock", "mtx_unlock",
    ]),
    group(PassThrough, Mutex, "starts or ends an object that no other thread may use meanwhile", &[
        "pthread_mutex_init", "__pthread_mutex_init", "pthread_mutex_destroy", "__pthread_mutex_destroy",
        "mtx_init", "mtx_destroy",
    ]),
    group(PassThrough, Mutex, "works on a mutex that the caller holds", &[
        "pthread_mutex_consistent", "pthread_mutex_consistent_np",
    ]),
    group(PassThrough, Mutex, "reads a field that only pthread_mutex_setprioceiling changes", &[
        "pthread_mutex_getprioceiling",
    ]),
    group(Refused, Mutex, "locks the mutex inside libc, where no order can be kept", &[
        "pthread_mutex_setprioceiling",
    ]),
    group(PassThrough, Mutex, "an attribute object is plain data of the caller", &[
        "pthread_mutexattr_init", "__pthread_mutexattr_init", "pthread_mutexattr_destroy",
        "__pthread_mutexattr_destroy", "pthread_mutexattr_getkind_np", "pthread_mutexattr_setkind_np",
        "pthread_mutexattr_gettype", "pthread_mutexattr_settype", "__pthread_mutexattr_settype",
        "pthread_mutexattr_getprotocol", "pthread_mutexattr_setprotocol", "pthread_mutexattr_getprioceiling",
        "pthread_mutexattr_setprioceiling", "pthread_mutexattr_getpshared", "pthread_mutexattr_setpshared",
        "pthread_mutexattr_getrobust", "pthread_mutexattr_setrobust", "pthread_mutexattr_getrobust_np",
        "pthread_mutexattr_setrobust_np",
    ]),

    // Condition variables.
    group(Ordered, Condition, "a wait: one event before its mutex is released, one when it is held again", &[
        "pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait", "cnd_wait", "cnd_timedwait",
    ]),
    group(Ordered, Condition, "a wake-up: one event on the condition before it", &[
        "pthread_cond_signal", "pthread_cond_broadcast", "cnd_signal", "cnd_broadcast",
    ]),
    group(PassThrough, Condition, "starts or ends an object that no other thread may begin to use meanwhile", &[
        "pthread_cond_init", "pthread_cond_destroy", "cnd_init", "cnd_destroy",
    ]),
    group(PassThrough, Condition, "an attribute object is plain data of the caller", &[
        "pthread_condattr_init", "pthread_condattr_destroy", "pthread_condattr_getclock",
        "pthread_condattr_setclock", "pthread_condattr_getpshared", "pthread_condattr_setpshared",
    ]),

    // Reader-writer locks.
    group(Ordered, RwLock, "acquired: one event after it, readers among themselves free", &[
        "pthread_rwlock_rdlock", "__pthread_rwlock_rdlock", "pthread_rwlock_tryrdlock",
        "__pthread_rwlock_tryrdlock", "pthread_rwlock_timedrdlock", "pthread_rwlock_clockrdlock",
        "pthread_rwlock_wrlock", "__pthread_rwlock_wrlock", "pthread_rwlock_trywrlock",
        "__pthread_rwlock_trywrlock", "pthread_rwlock_timedwrlock", "pthread_rwlock_clockwrlock",
    ]),
    group(Ordered, RwLock, "released: one event before it", &[
        "pthread_rwlock_unlock", "__pthread_rwlock_unlock",
    ]),
    group(PassThrough, RwLock, "starts or ends an object that no other thread may use meanwhile", &[
        "pthread_rwlock_init", "__pthread_rwlock_init", "pthread_rwlock_destroy", "__pthread_rwlock_destroy",
    ]),
    group(PassThrough, RwLock, "an attribute object is plain data of the caller", &[
        "pthread_rwlockattr_init", "pthread_rwlockattr_destroy", "pthread_rwlockattr_getkind_np",
        "pthread_rwlockattr_setkind_np", "pthread_rwlockattr_getpshared", "pthread_rwlockattr_setpshared",
    ]),

    // Semaphores.
    group(Ordered, Semaphore, "lowered: one event after it, results and failures kept", &[
        "sem_wait", "sem_trywait", "sem_timedwait", "sem_clockwait",
    ]),
    group(Ordered, Semaphore, "raised: one event before it", &["sem_post"]),
    group(Ordered, Semaphore, "the value seen is kept", &["sem_getvalue"]),
    group(Ordered, Libc, "the list of named semaphores is shared: one event", &[
        "sem_open", "sem_close", "sem_unlink",
    ]),
    group(PassThrough, Semaphore, "starts or ends an object that no other thread may use meanwhile", &[
        "sem_init", "sem_destroy",
    ]),

    // Barriers and spin locks.
    group(Ordered, Barrier, "arrival and departure, and who was told to be the serial thread", &[
        "pthread_barrier_wait",
    ]),
    group(PassThrough, Barrier, "starts or ends an object that no other thread may begin to use meanwhile", &[
        "pthread_barrier_init", "pthread_barrier_destroy",
    ]),
    group(PassThrough, Barrier, "an attribute object is plain data of the caller", &[
        "pthread_barrierattr_init", "pthread_barrierattr_destroy", "pthread_barrierattr_getpshared",
        "pthread_barrierattr_setpshared",
    ]),
    group(Ordered, SpinLock, "one event after it was acquired, one before it is released", &[
        "pthread_spin_lock", "pthread_spin_trylock", "pthread_spin_unlock",
    ]),
    group(PassThrough, SpinLock, "starts or ends an object that no other thread may use meanwhile", &[
        "pthread_spin_init", "pthread_spin_destroy",
    ]),

    // Once.
    group(Ordered, Once, "each attempt ends in one event; who finds it done joins its clock", &[
        "pthread_once", "__pthread_once", "call_once",
        "__cxa_guard_acquire", "__cxa_guard_release", "__cxa_guard_abort",
    ]),

    // Threads.
    group(Ordered, Thread, "the clocks of parent and child are tied, the child gets its name", &[
        "pthread_create", "thrd_create",
    ]),
    group(Ordered, Thread, "the clocks of the two threads are tied; results of tries are kept", &[
        "pthread_join", "pthread_tryjoin_np", "pthread_timedjoin_np", "pthread_clockjoin_np", "thrd_join",
    ]),
    group(Ordered, Thread, "decides who frees the thread: one event", &["pthread_detach", "thrd_detach"]),
    group(Ordered, Thread, "the thread's end is kept", &["pthread_exit", "thrd_exit"]),
    group(Ordered, Thread, "a cancellation is kept with the place where it was acted on", &[
        "pthread_cancel", "pthread_testcancel", "thrd_sleep",
    ]),
    group(Counted, Thread, "a cancellation point: kept is how many such calls came before one that struck", &[
        "read", "__read", "__read_chk", "readv", "pread", "pread64", "__pread64", "__pread_chk", "__pread64_chk",
        "preadv", "preadv64", "write", "__write", "writev", "pwrite", "pwrite64", "__pwrite64", "pwritev",
        "pwritev64", "open", "__open", "__open_2", "open64", "__open64", "__open64_2", "openat", "__openat_2",
        "openat64", "__openat64_2", "creat", "creat64", "close", "__close", "fsync", "fdatasync", "msync",
        "fallocate", "fallocate64", "sync_file_range", "copy_file_range", "splice", "tee", "vmsplice", "accept",
        "accept4", "connect", "__connect", "recv", "__recv_chk", "recvfrom", "__recvfrom_chk", "recvmsg",
        "recvmmsg", "send", "__send", "sendto", "sendmsg", "sendmmsg", "poll", "__poll", "__poll_chk", "ppoll",
        "__ppoll_chk", "select", "__select", "pselect", "epoll_wait", "epoll_pwait", "epoll_pwait2", "sleep",
        "usleep", "nanosleep", "__nanosleep", "clock_nanosleep", "wait", "wait3", "wait4", "waitid", "waitpid",
        "__waitpid", "tcdrain", "pause", "sigsuspend", "__sigsuspend", "sigwait", "sigwaitinfo", "sigtimedwait",
        "msgsnd", "msgrcv", "mq_send", "mq_timedsend", "mq_receive", "mq_timedreceive", "preadv2", "preadv64v2",
        "pwritev2", "pwritev64v2", "eventfd_read", "eventfd_write", "sendfile", "sendfile64", "dprintf", "vdprintf",
        "__dprintf_chk", "__vdprintf_chk", "flock", "lockf", "lockf64",
    ]),
    group(Counted, Thread, "one for a lock on a file is a cancellation point, all others go straight on", &[
        "fcntl", "fcntl64", "__fcntl",
    ]),
    group(Seen, Libc, "changes or looks at files, their names, descriptors or signals that others wait for: ordered where the environment is recorded", &[
        "ioctl", "stat", "stat64", "lstat", "lstat64", "fstat", "fstat64", "fstatat", "fstatat64", "statx", "access",
        "faccessat", "euidaccess", "eaccess", "readlink", "readlinkat", "opendir", "unlink", "unlinkat", "remove", "rmdir",
        "rename", "renameat", "renameat2", "mkdir", "mkdirat", "link", "linkat", "symlink", "symlinkat", "mkfifo",
        "mkfifoat", "mknod", "mknodat", "mkstemp", "mkstemp64", "mkostemp", "mkostemp64", "mkdtemp", "truncate",
        "truncate64", "ftruncate", "ftruncate64", "posix_fallocate", "posix_fallocate64", "shutdown", "listen", "bind",
        "dup2", "dup3", "close_range", "closefrom", "epoll_ctl", "timerfd_settime", "pidfd_send_signal", "sigpending",
    ]),
    group(Refused, Thread, "a cancellation that strikes between two instructions; to allow it, and the deferred type, passes", &[
        "pthread_setcanceltype",
    ]),
    group(PassThrough, Thread, "changes the calling thread only", &[
        "pthread_setcancelstate", "pthread_getspecific", "pthread_setspecific",
        "__pthread_getspecific", "__pthread_setspecific", "tss_get", "tss_set", "thrd_yield",
        "pthread_yield", "_pthread_cleanup_push", "_pthread_cleanup_pop", "_pthread_cleanup_push_defer",
        "_pthread_cleanup_pop_restore", "__pthread_register_cancel", "__pthread_unregister_cancel",
        "__pthread_register_cancel_defer", "__pthread_unregister_cancel_restore", "__pthread_unwind_next",
        "__pthread_cleanup_routine", "__cxa_thread_atexit", "__cxa_thread_atexit_impl",
    ]),
    group(PassThrough, Thread, "names a thread; the same threads have the same names in every run", &[
        "pthread_self", "pthread_equal", "thrd_current", "thrd_equal",
    ]),
    group(Seen, Thread, "libc has all threads do it, by a signal of its own: one call where the environment is recorded", &[
        "setuid", "setgid", "seteuid", "setegid", "setreuid", "setregid", "setresuid", "setresgid", "setgroups",
    ]),
    group(Seen, Thread, "with the environment recorded the guard of a stack is ours, and libc told about it here", &[
        "pthread_getattr_np",
    ]),
    group(Seen, Thread, "the race detector tells a thread by its name", &["pthread_setname_np"]),
    group(Seen, Libc, "our own frames are left out, which differ in a replay", &["backtrace", "_Unwind_Backtrace"]),
    group(PassThrough, Thread, "how the kernel schedules or lists a thread decides no order that is recorded", &[
        "pthread_getaffinity_np", "pthread_setaffinity_np", "pthread_getattr_default_np",
        "pthread_setattr_default_np", "pthread_getconcurrency", "pthread_setconcurrency", "pthread_getcpuclockid",
        "pthread_getname_np", "pthread_getschedparam", "pthread_setschedparam",
        "pthread_setschedprio",
    ]),
    group(PassThrough, Thread, "an attribute object is plain data of the caller", &[
        "pthread_attr_init", "pthread_attr_destroy", "pthread_attr_getaffinity_np", "pthread_attr_setaffinity_np",
        "pthread_attr_getdetachstate", "pthread_attr_setdetachstate", "pthread_attr_getguardsize",
        "pthread_attr_setguardsize", "pthread_attr_getinheritsched", "pthread_attr_setinheritsched",
        "pthread_attr_getschedparam", "pthread_attr_setschedparam", "pthread_attr_getschedpolicy",
        "pthread_attr_setschedpolicy", "pthread_attr_getscope", "pthread_attr_setscope",
        "pthread_attr_getsigmask_np", "pthread_attr_setsigmask_np", "pthread_attr_getstack",
        "pthread_attr_setstack", "pthread_attr_getstackaddr", "pthread_attr_setstackaddr",
        "pthread_attr_getstacksize", "pthread_attr_setstacksize",
    ]),
    group(PassThrough, Thread, "does nothing or is data that libc keeps for debuggers and other libraries", &[
        "pthread_kill_other_threads_np", "__pthread_get_minstack", "__pthread_keys",
    ]),

    // Signals.
    group(Ordered, Thread, "sent to another thread or process: one event before it", &[
        "pthread_kill", "pthread_sigqueue", "kill", "killpg", "tgkill", "sigqueue",
    ]),
    group(Ordered, Thread, "installs a handler: where it runs is kept", &[
        "sigaction", "__sigaction", "signal", "bsd_signal", "ssignal", "sysv_signal", "__sysv_signal", "sigset",
    ]),
    group(Seen, Thread, "leaves calls of ours, which are told", &[
        "longjmp", "_longjmp", "siglongjmp", "__longjmp_chk",
    ]),
    group(PassThrough, Thread, "strikes the calling thread at this very place in every run", &[
        "abort",
    ]),
    group(Seen, Thread, "strikes at this very place in every run; one that stops the process makes it wait for another", &[
        "raise", "gsignal",
    ]),
    group(Ordered, Thread, "opens or closes the thread for handlers: one event on no object", &[
        "sigprocmask", "pthread_sigmask", "sigblock", "sigsetmask", "sighold", "sigrelse",
    ]),
    group(PassThrough, Thread, "changes the calling thread's mask or installs no handler", &[
        "siggetmask", "sigignore", "siginterrupt", "sigaltstack",
    ]),
    group(Unordered, Thread, "waits for a signal: which one comes is part of the environment", &[
        "__sigtimedwait", "sigpause", "__sigpause", "__xpg_sigpause", "signalfd",
    ]),

    // Processes.
    group(Ordered, Thread, "the child is recorded too, its clock tied to its parent's", &[
        "fork", "__fork", "__libc_fork", "_Fork", "vfork", "__vfork", "posix_spawn", "posix_spawnp", "system",
        "__libc_system", "popen", "_IO_popen",
    ]),
    group(Ordered, Thread, "the new image goes on in the same recording, whatever its environment", &[
        "execve", "execv", "execvp", "execvpe", "execl", "execlp", "execle", "fexecve", "execveat",
    ]),
    group(Ordered, Thread, "the program's start: the end of main is seen like a call of exit", &["__libc_start_main"]),
    group(Ordered, Thread, "who ends the process, and when, is kept", &["exit", "_exit", "_Exit", "quick_exit"]),
    group(Refused, Thread, "makes a thread or process that libc tells nobody about", &[
        "clone", "__clone", "daemon", "forkpty",
    ]),
    group(Ordered, Thread, "with SIGEV_THREAD the callback's thread is announced: a child of who asked for it", &[
        "timer_create", "mq_notify", "aio_read", "aio_read64", "aio_write", "aio_write64", "aio_fsync", "aio_fsync64",
        "getaddrinfo_a",
    ]),
    group(Counted, Thread, "starts what a callback waits for: it goes on from the caller's clock", &["timer_settime"]),
    group(Ordered, Thread, "ends what a callback waits for: one event, where the environment is recorded", &["timer_delete"]),
    group(Ordered, Thread, "asks for a request of those above, whose state is under a lock of ours where the environment is recorded", &[
        "aio_error", "aio_error64", "aio_return", "aio_return64", "aio_suspend", "aio_suspend64", "aio_cancel", "aio_cancel64",
        "gai_error", "gai_suspend", "gai_cancel",
    ]),
    group(Refused, Thread, "refused with SIGEV_THREAD, which runs program code in threads nobody announced, unless the environment is recorded", &[
        "lio_listio", "lio_listio64",
    ]),
    group(Ordered, Libc, "the list of fork handlers is shared: one event", &["pthread_atfork", "__register_atfork"]),

    // Other libc state with an inner lock.
    group(Ordered, Libc, "which number a key gets depends on the order: one event", &[
        "pthread_key_create", "__pthread_key_create", "pthread_key_delete", "tss_create", "tss_delete",
    ]),
    group(Ordered, Libc, "the order of registration is the order of the handlers: one event; exit chooses each in order with these", &[
        "__cxa_atexit", "on_exit", "__cxa_at_quick_exit",
    ]),
    group(Ordered, Libc, "the numbers a thread gets depend on who asked before: one event", &[
        "rand", "srand", "random", "srandom", "initstate", "setstate", "drand48", "lrand48", "mrand48", "srand48",
        "seed48", "lcong48",
    ]),
    group(PassThrough, Libc, "the state of the generator is the caller's", &[
        "rand_r", "random_r", "srandom_r", "initstate_r", "setstate_r", "erand48", "nrand48", "jrand48",
        "drand48_r", "lrand48_r", "mrand48_r", "erand48_r", "nrand48_r", "jrand48_r", "srand48_r", "seed48_r",
        "lcong48_r",
    ]),
    group(Ordered, Libc, "the environment is shared: one event", &["setenv", "unsetenv", "putenv", "clearenv"]),
    group(PassThrough, Libc, "takes no lock; beside setenv it is a data race", &["getenv", "secure_getenv"]),
    group(Ordered, Libc, "runs program code under the loader's lock: entered and left in order", &[
        "dlopen", "dlclose", "dl_iterate_phdr",
    ]),
    group(Refused, Libc, "a new namespace has libraries of its own that are not seen", &["dlmopen"]),
    group(Ordered, Libc, "waits for another thread's dlopen to end: entered and left in order", &[
        "dlsym", "dladdr", "dladdr1", "dlinfo",
    ]),
    group(Unordered, Libc, "a look-up that waits for another thread's dlopen to end is not ordered after it", &["dlvsym"]),
    group(PassThrough, Libc, "the heap's locks order nothing but addresses", &[
        "malloc", "calloc", "realloc", "reallocarray", "free", "cfree", "aligned_alloc", "memalign",
        "posix_memalign", "valloc", "pvalloc", "malloc_trim", "malloc_usable_size",
    ]),
    group(Ordered, Libc, "the first reads the time zone for all: entered and left in order where the environment is recorded", &[
        "tzset", "localtime", "localtime_r", "gmtime", "gmtime_r", "ctime", "ctime_r", "mktime",
        "timelocal", "timegm", "strftime", "strftime_l", "__strftime_l", "wcsftime", "wcsftime_l", "__wcsftime_l",
        "strptime", "strptime_l",
    ]),
    group(Ordered, Libc, "the first reads a locale, its messages or a conversion for all: entered and left in order where the environment is recorded", &[
        "setlocale", "newlocale", "__newlocale", "duplocale", "__duplocale", "freelocale", "__freelocale",
        "iconv_open", "iconv_close", "bindtextdomain", "bind_textdomain_codeset", "textdomain", "gettext", "dgettext",
        "__dgettext", "dcgettext", "__dcgettext", "ngettext", "dngettext", "dcngettext", "strerror", "strerror_r",
        "__strerror_r", "__xpg_strerror_r", "strerror_l", "strsignal", "gai_strerror", "hstrerror",
    ]),
    group(Ordered, Libc, "the first reads who answers for a table: entered and left in order where the environment is recorded", &[
        "getpwnam", "getpwnam_r", "getpwuid", "getpwuid_r", "getpwent", "getpwent_r", "setpwent", "endpwent",
        "getgrnam", "getgrnam_r", "getgrgid", "getgrgid_r", "getgrent", "getgrent_r", "setgrent", "endgrent",
        "initgroups", "getgrouplist", "getspnam", "getspnam_r", "getspent", "getspent_r", "setspent", "endspent",
        "getlogin", "getlogin_r", "getservbyname", "getservbyname_r", "getservbyport", "getservbyport_r",
        "getservent", "getservent_r", "setservent", "endservent", "getprotobyname", "getprotobyname_r",
        "getprotobynumber", "getprotobynumber_r", "getprotoent", "getprotoent_r", "setprotoent", "endprotoent",
        "getrpcbyname", "getrpcbyname_r", "getrpcbynumber", "getrpcbynumber_r", "getrpcent", "getrpcent_r",
        "setrpcent", "endrpcent", "setnetgrent", "endnetgrent", "innetgr", "getnetgrent_r",
    ]),
    group(Ordered, Libc, "what is kept of interfaces and name servers goes from one look-up to the next: one after the other where the environment is recorded", &[
        "getaddrinfo", "getnameinfo", "gethostbyname", "gethostbyname2", "gethostbyname_r", "gethostbyname2_r",
        "gethostbyaddr", "gethostbyaddr_r", "gethostent", "gethostent_r", "sethostent", "endhostent", "getnetbyname",
        "getnetbyname_r", "getnetbyaddr", "getnetbyaddr_r", "__res_init", "res_query", "__res_query",
        "res_search", "__res_search", "res_querydomain", "__res_querydomain",
    ]),
    group(Ordered, Libc, "the connection to the system's log: entered and left in order where the environment is recorded", &[
        "syslog", "vsyslog", "__syslog_chk", "__vsyslog_chk", "openlog", "closelog",
    ]),

    // Streams.
    group(Ordered, Stream, "takes the lock that the program can take itself", &[
        "flockfile", "_IO_flockfile", "ftrylockfile", "_IO_ftrylockfile", "funlockfile", "_IO_funlockfile",
    ]),
    group(Ordered, Stream, "writes under the stream's lock", &[
        "fwrite", "_IO_fwrite", "fputs", "_IO_fputs", "fputc", "putc", "_IO_putc", "putw", "puts", "_IO_puts",
        "putchar", "fputwc", "putwc", "putwchar", "fputws", "printf", "_IO_printf", "fprintf", "_IO_fprintf",
        "vprintf", "vfprintf", "_IO_vfprintf", "__printf_chk", "__fprintf_chk", "__vprintf_chk", "__vfprintf_chk",
        "wprintf", "fwprintf", "vwprintf", "vfwprintf", "__wprintf_chk", "__fwprintf_chk", "__vwprintf_chk",
        "__vfwprintf_chk",
    ]),
    group(Ordered, Stream, "reads under the stream's lock", &[
        "fread", "_IO_fread", "__fread_chk", "fgets", "_IO_fgets", "__fgets_chk", "gets", "_IO_gets", "__gets_chk",
        "fgetc", "getc", "_IO_getc", "_IO_peekc_locked", "getw", "getchar", "ungetc", "_IO_ungetc", "getline",
        "getdelim", "__getdelim", "fgetwc", "getwc", "getwchar", "fgetws", "__fgetws_chk", "ungetwc", "scanf",
        "fscanf", "vscanf", "vfscanf", "_IO_vfscanf", "__vfscanf", "wscanf", "fwscanf", "vwscanf", "vfwscanf",
        "__isoc99_scanf", "__isoc99_fscanf", "__isoc99_vscanf", "__isoc99_vfscanf", "__isoc99_wscanf",
        "__isoc99_fwscanf", "__isoc99_vwscanf", "__isoc99_vfwscanf",
    ]),
    group(Ordered, Stream, "moves, flushes or asks the stream under its lock", &[
        "fseek", "fseeko", "fseeko64", "__fseeko64", "ftell", "_IO_ftell", "ftello", "ftello64", "__ftello64",
        "rewind", "fgetpos", "_IO_fgetpos", "fgetpos64", "_IO_fgetpos64", "fsetpos", "_IO_fsetpos", "fsetpos64",
        "_IO_fsetpos64", "fflush", "_IO_fflush", "feof", "_IO_feof", "ferror", "_IO_ferror", "clearerr", "fwide",
        "setvbuf", "_IO_setvbuf", "setbuf", "setbuffer", "_IO_setbuffer", "setlinebuf",
    ]),
    group(Ordered, Stream, "ends or replaces the stream under its lock", &[
        "fclose", "_IO_fclose", "freopen", "freopen64", "pclose",
    ]),
    group(Ordered, Stream, "goes through all streams", &[
        "fcloseall", "_flushlbf", "_IO_flush_all", "_IO_flush_all_linebuffered",
    ]),
    group(Ordered, Stream, "writes a message under the lock of stderr", &[
        "perror", "psignal", "psiginfo", "warn", "warnx", "vwarn", "vwarnx", "err", "errx", "verr", "verrx",
        "error", "error_at_line",
    ]),
    group(Ordered, Stream, "a new stream enters the list that all streams are flushed by", &[
        "fopen", "fopen64", "_IO_fopen", "fdopen", "_IO_fdopen", "fopencookie", "fmemopen", "tmpfile", "tmpfile64",
    ]),
    group(PassThrough, Stream, "a new stream in memory is its maker's until handed on", &[
        "open_memstream", "open_wmemstream",
    ]),
    group(Counted, Stream, "takes no lock: the program holds it or owns the stream; may wait in the kernel", &[
        "fwrite_unlocked", "fread_unlocked", "__fread_unlocked_chk", "fputs_unlocked", "fgets_unlocked",
        "__fgets_unlocked_chk", "fputc_unlocked", "putc_unlocked", "putchar_unlocked", "fgetc_unlocked",
        "getc_unlocked", "getchar_unlocked", "fputwc_unlocked", "putwc_unlocked", "putwchar_unlocked",
        "fgetwc_unlocked", "getwc_unlocked", "getwchar_unlocked", "fputws_unlocked", "fgetws_unlocked",
        "__fgetws_unlocked_chk", "fflush_unlocked", "__overflow", "__uflow", "__underflow", "__woverflow", "__wuflow",
        "__wunderflow",
    ]),
    group(PassThrough, Stream, "takes no lock: the program holds it or owns the stream", &[
        "feof_unlocked", "ferror_unlocked", "clearerr_unlocked", "fileno", "fileno_unlocked", "__fpurge", "__fpending",
        "__fbufsize", "__flbf", "__freadable", "__freading", "__fwritable", "__fwriting", "__fsetlocking",
    ]),

    // What this level does not see.
    group(Unordered, Libc, "a raw system call: a futex made by hand is not seen", &["syscall"]),
    group(Unordered, Libc, "std::future and std::promise wait on an atomic that is tested inline", &[
        "_ZNSt28__atomic_futex_unsigned_base19_M_futex_notify_allEPj",
        "_ZNSt28__atomic_futex_unsigned_base19_M_futex_wait_untilEPjjbNSt6chrono8durationIlSt5ratioILl1ELl1EEEENS2_IlS3_ILl1ELl1000000000EEEE",
        "_ZNSt28__atomic_futex_unsigned_base26_M_futex_wait_until_steadyEPjjbNSt6chrono8durationIlSt5ratioILl1ELl1EEEENS2_IlS3_ILl1ELl1000000000EEEE",
    ]),
    group(Unordered, Libc, "synchronises through a kernel object, which is part of the environment", &[
        "semop", "semtimedop",
    ]),
];
