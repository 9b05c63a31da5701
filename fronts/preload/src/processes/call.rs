//! The real process functions, in a module of their own because the fronts bear
//! the same names.

use crate::processes::environment::Strings;
use crate::real::{Object, real};
use core::ffi::{c_char, c_int};

real! {
    fork = c"fork", fn() -> c_int;
    bare_fork = c"_Fork", fn() -> c_int;
    register_at_fork = c"__register_atfork", fn(prepare: usize, parent: usize, child: usize, module: usize) -> c_int;
    daemon = c"daemon", fn(keep_directory: c_int, keep_streams: c_int) -> c_int;
    forkpty = c"forkpty", fn(primary: *mut c_int, name: *mut c_char, settings: Object, size: Object) -> c_int;
    execve = c"execve", fn(path: *const c_char, arguments: Strings, environment: Strings) -> c_int;
    execvpe = c"execvpe", fn(file: *const c_char, arguments: Strings, environment: Strings) -> c_int;
    fexecve = c"fexecve", fn(fd: c_int, arguments: Strings, environment: Strings) -> c_int;
    execveat = c"execveat", fn(fd: c_int, path: *const c_char, arguments: Strings, environment: Strings, flags: c_int) -> c_int;
    posix_spawn = c"posix_spawn" @ c"GLIBC_2.15", fn(pid: *mut c_int, path: *const c_char, actions: Object, attributes: Object, arguments: Strings, environment: Strings) -> c_int;
    posix_spawnp = c"posix_spawnp" @ c"GLIBC_2.15", fn(pid: *mut c_int, file: *const c_char, actions: Object, attributes: Object, arguments: Strings, environment: Strings) -> c_int;
    pclose = c"pclose", fn(stream: Object) -> c_int;
    pipe2 = c"pipe2", fn(ends: *mut c_int, flags: c_int) -> c_int;
    fcntl = c"fcntl", fn(fd: c_int, command: c_int, argument: c_int) -> c_int;
    close = c"close", fn(fd: c_int) -> c_int;
    fdopen = c"fdopen", fn(fd: c_int, how: *const c_char) -> Object;
    fwide = c"fwide", fn(stream: Object, mode: c_int) -> c_int;
    fileno = c"fileno", fn(stream: Object) -> c_int;
    fclose = c"fclose", fn(stream: Object) -> c_int;
    actions_init = c"posix_spawn_file_actions_init", fn(actions: Object) -> c_int;
    actions_dup2 = c"posix_spawn_file_actions_adddup2", fn(actions: Object, from: c_int, to: c_int) -> c_int;
    actions_close = c"posix_spawn_file_actions_addclose", fn(actions: Object, fd: c_int) -> c_int;
    actions_destroy = c"posix_spawn_file_actions_destroy", fn(actions: Object) -> c_int;
    quick_exit = c"quick_exit", fn(code: c_int);
    waitpid = c"waitpid", fn(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    sigaction = c"sigaction", fn(signal: c_int, new: Object, old: Object) -> c_int;
    sigprocmask = c"pthread_sigmask", fn(how: c_int, new: Object, old: Object) -> c_int;
    attributes_init = c"posix_spawnattr_init", fn(attributes: Object) -> c_int;
    attributes_flags = c"posix_spawnattr_setflags", fn(attributes: Object, flags: i16) -> c_int;
    attributes_default = c"posix_spawnattr_setsigdefault", fn(attributes: Object, set: Object) -> c_int;
    attributes_mask = c"posix_spawnattr_setsigmask", fn(attributes: Object, set: Object) -> c_int;
}
