//! Processes: fork and its kin, exec in all its spellings, spawn, system, popen.
//!
//! A child of any sort is recorded in a file of its own in the same folder. After
//! a fork it inherits the runtime; after an exec the new image must be told who
//! it is, so it gets three environment variables, also if the program passes an
//! environment without them (see [`environment`]).
//!
//! `vfork` is fork: its child would run on the parent's stack and thread-local
//! state, and could not be told apart from it.

mod arguments;
mod call;
mod environment;
pub(crate) mod popen;
mod system;
mod target;

use crate::real::{Object, errno, set_errno};
use crate::stdio::list;
use core::ffi::{c_char, c_int};
use core::sync::atomic::{AtomicBool, Ordering};
use environment::{Environment, Strings};
use relive_order::Kind;
use relive_rt::environment::alone::spawned_absent;
use relive_rt::environment::{child_made, in_turn_to_fork, unseen};
use relive_rt::link::Link;
use relive_rt::{Mode, chunk, environment as calls, mode, process, record, replay, report, runtime, thread};
use relive_sys::syscall::number::EXECVE;
use relive_sys::{aside, front};
use relive_trace::control::flag;
use relive_trace::layout::end;

pub(crate) use environment::remember;

const ENOMEM: c_int = 12;

fn forked(place: usize, effect: impl FnOnce() -> c_int) -> c_int {
    let (pid, error) = in_turn_to_fork(|| {
        process::before_fork(place);
        let pid = effect();
        let error = if pid < 0 { errno() } else { 0 };
        if LOCKS_STREAMS.swap(false, Ordering::Relaxed) {
            list::forked(pid == 0);
        }
        process::after_fork(error, place);
        (pid, error)
    });
    if error != 0 {
        set_errno(error);
    }
    pid
}

/// Whether the process is in a fork that holds the lock of the list of streams. Where that counts, forks come in turn.
static LOCKS_STREAMS: AtomicBool = AtomicBool::new(false);

/// A child comes after what the handlers of `pthread_atfork` do before it is made. Registered first, ours runs last of them,
/// right before libc takes its own locks; where the environment is recorded, the system call says when the child is made, but
/// other events stand before it.
pub(crate) fn arrange() {
    extern "C" fn prepare() {
        process::about_to_fork();
    }
    // A fork that found libc's function past ours has no end that we see, and must not take the lock.
    extern "C" fn prepare_streams() {
        let is_seen = thread::current_if_known().is_some_and(|thread| thread.forking.is_some());
        if is_seen && list::forking() {
            LOCKS_STREAMS.store(true, Ordering::Relaxed);
        }
    }
    let handler = match (mode(), calls::is_on()) {
        (Mode::Record, false) => prepare as *const (),
        (Mode::Record, true) => prepare_streams as *const (),
        (Mode::Replay, true) if runtime::has_flag(flag::FORKS) => prepare_streams as *const (),
        _ => return,
    };
    // SAFETY: a handler that keeps to what one may do, of a library that stays.
    unsafe { call::register_at_fork(handler as usize, 0, 0, 0) };
}

macro_rules! forks {
    ($($name:ident, $arity:tt, $front:ident, $real:ident($($arg:ident: $ty:ty),*);)*) => {$(
        front!(#[doc = concat!("`", stringify!($name), "`")] $name, $arity, $front);

        unsafe extern "C" fn $front($($arg: $ty,)* place: usize) -> c_int {
            // SAFETY: forwarded; the program keeps the function's contract.
            forked(place, || unsafe { call::$real($($arg),*) })
        }
    )*};
}

forks! {
    fork, 0, fork_front, fork();
    __fork, 0, fork_alias, fork();
    __libc_fork, 0, fork_second_alias, fork();
    vfork, 0, vfork_front, fork();
    __vfork, 0, vfork_alias, fork();
    _Fork, 0, bare_fork_front, bare_fork();
    daemon, 2, daemon_front, daemon(keep_directory: c_int, keep_streams: c_int);
    forkpty, 4, forkpty_front, forkpty(primary: *mut c_int, name: *mut c_char, settings: Object, size: Object);
}

/// How the file of an image is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// By path.
    Path,
    /// Searched for in `PATH`.
    Search,
}

unsafe extern "C" {
    static environ: Strings;
}

/// The program's environment as it is now.
fn own_environment() -> Strings {
    // SAFETY: libc's variable; reading it races with the program's own changes as any getenv does.
    unsafe { environ }
}

fn no_memory() -> c_int {
    set_errno(ENOMEM);
    -1
}

/// The event of starting an image, and who the image is. `None` if this process isn't part of a session.
fn starting(place: usize) -> Option<Link> {
    let thread = thread::current_if_known()?;
    let clock = match mode() {
        Mode::Off => return None,
        Mode::Record => record::alone(Kind::Spawn),
        Mode::Replay => {
            replay::enter(Kind::Spawn, place);
            process::announce_image();
            replay::leave(Kind::Spawn, &[], false);
            0
        }
    };
    let link = Link { parent: thread.index, child_number: thread.children, clock };
    thread.children += 1;
    Some(link)
}

/// Replaces this image. Returns only on failure.
fn replace(program: Strings, place: usize, effect: impl FnOnce(Strings) -> c_int) -> c_int {
    let Some(link) = starting(place) else { return effect(program) };
    if let Some(error) = recorded_failure() {
        set_errno(error);
        return -1;
    }
    // SAFETY: the program passed an environment.
    let built = unsafe { Environment::build(program, is_reachable().then_some(link)) };
    let Some(environment) = built else { return no_memory() };
    match mode() {
        Mode::Record => chunk::note_end(end::EXECUTED, 0, link.parent),
        // Whether it fails is known where the call itself is replayed.
        _ if calls::records_attempts() => {}
        Mode::Replay => process::leaves_image(),
        Mode::Off => {}
    }
    let result = effect(environment.strings());
    let error = errno();
    match mode() {
        Mode::Record => chunk::note_end(end::LIVE, 0, relive_trace::layout::NONE),
        Mode::Replay => process::stays_in_image(),
        Mode::Off => {}
    }
    failed(error, place);
    drop(environment);
    set_errno(error);
    result
}

/// Whether our library can be in the image that is about to be started; says so if not. Where a starter lays out
/// programs, that is known where the call itself is made.
fn is_reachable() -> bool {
    let Err(why) = (if calls::records_attempts() { Ok(()) } else { environment::can_preload() }) else { return true };
    if mode() == Mode::Record {
        let id = relive_sys::syscall::getpid();
        report::line(format_args!("process {id}: the program that it starts is not recorded: {why}"));
    }
    false
}

/// Whether the image that is about to be started could not be started in the recording. A replay does not try:
/// a failed exec must not wait for the other threads, and a file may be there now.
fn recorded_failure() -> Option<c_int> {
    if mode() == Mode::Replay { replay::failure(Kind::Spawn) } else { None }
}

/// An image could not be started.
fn failed(error: c_int, place: usize) {
    match mode() {
        Mode::Off => {}
        Mode::Record => record::failure(Kind::Spawn, error),
        // The attempt itself is in the recording, and failed again.
        Mode::Replay if calls::records_attempts() && replay::failure_of_last(Kind::Spawn) == Some(error) => {}
        Mode::Replay => replay::failed(Kind::Spawn, place, 0, error as i64),
    }
}

/// `execve` or `execveat` by the bare instruction: the new image must be told who it is all the same.
pub(crate) unsafe extern "C" fn bare_exec(number: usize, arguments: *const [usize; 6]) -> isize {
    // SAFETY: the program's own arguments, with another environment.
    unsafe {
        let (kept, mut given) = (errno(), *arguments);
        let index = if number == EXECVE { 2 } else { 3 };
        let mut result = 0;
        replace(given[index] as Strings, 0, |environment| {
            given[index] = environment.addr();
            result = calls::call(number, given);
            set_errno(-result as c_int);
            -1
        });
        if result == 0 {
            result = -(errno() as isize);
        }
        set_errno(kept);
        result
    }
}

pub(crate) fn execute(path: *const c_char, arguments: Strings, program: Strings, how: How, place: usize) -> c_int {
    replace(program, place, |environment| {
        // SAFETY: what the program passed, with another environment.
        unsafe {
            if how == How::Search {
                target::check_searched(path, own_environment());
                return call::execvpe(path, arguments, environment);
            }
            target::check(path);
            call::execve(path, arguments, environment)
        }
    })
}

macro_rules! executes {
    ($($name:ident, $arity:tt, $front:ident($($arg:ident: $ty:ty),*) = $body:expr;)*) => {$(
        front!(#[doc = concat!("`", stringify!($name), "`")] $name, $arity, $front);

        unsafe extern "C" fn $front($($arg: $ty,)* place: usize) -> c_int {
            let body: fn($($ty,)* usize) -> c_int = $body;
            body($($arg,)* place)
        }
    )*};
}

executes! {
    execve, 3, execve_front(path: *const c_char, arguments: Strings, program: Strings) =
        |path, arguments, program, place| execute(path, arguments, program, How::Path, place);
    execv, 2, execv_front(path: *const c_char, arguments: Strings) =
        |path, arguments, place| execute(path, arguments, own_environment(), How::Path, place);
    execvp, 2, execvp_front(file: *const c_char, arguments: Strings) =
        |file, arguments, place| execute(file, arguments, own_environment(), How::Search, place);
    execvpe, 3, execvpe_front(file: *const c_char, arguments: Strings, program: Strings) =
        |file, arguments, program, place| execute(file, arguments, program, How::Search, place);
    fexecve, 3, fexecve_front(fd: c_int, arguments: Strings, program: Strings) =
        |fd, arguments, program, place| replace(program, place, |environment| {
            // SAFETY: what the program passed, with another environment.
            unsafe { call::fexecve(fd, arguments, environment) }
        });
    execveat, 5, execveat_front(fd: c_int, path: *const c_char, arguments: Strings, program: Strings, flags: c_int) =
        |fd, path, arguments, program, flags, place| replace(program, place, |environment| {
            // SAFETY: what the program passed, with another environment.
            unsafe { call::execveat(fd, path, arguments, environment, flags) }
        });
}

/// Starts a new process. The result is an error number, as `posix_spawn`'s.
pub(crate) fn spawn(
    pid: *mut c_int,
    file: *const c_char,
    [actions, attributes]: [Object; 2],
    arguments: Strings,
    program: Strings,
    how: How,
    place: usize,
) -> c_int {
    let link = starting(place);
    if let Some(error) = recorded_failure() {
        return error;
    }
    if let Some(seen) = link.and_then(spawned_absent) {
        if !pid.is_null() {
            // SAFETY: the program's place for it.
            unsafe { pid.write(seen as c_int) };
        }
        return 0;
    }
    // SAFETY: the program passed an environment.
    let child = link.and_then(|link| unsafe { Environment::build(program, is_reachable().then_some(link)) });
    let strings = child.as_ref().map_or(program, Environment::strings);
    let mut made = 0;
    // SAFETY: what the program passed, with another environment.
    let error = unseen(|| unsafe {
        if how == How::Search {
            if link.is_some() {
                target::check_searched(file, own_environment());
            }
            call::posix_spawnp(&raw mut made, file, actions, attributes, arguments, strings)
        } else {
            if link.is_some() {
                target::check(file);
            }
            call::posix_spawn(&raw mut made, file, actions, attributes, arguments, strings)
        }
    });
    if error == 0 {
        let seen = child_made(made as u32);
        if !pid.is_null() {
            // SAFETY: the program's place for it.
            unsafe { pid.write(seen as c_int) };
        }
    } else {
        failed(error, place);
    }
    error
}

macro_rules! spawns {
    ($($name:ident, $front:ident, $how:ident;)*) => {$(
        #[doc = concat!("`", stringify!($name), "`")]
        ///
        /// # Safety
        /// As for the function that this one stands in front of.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            pid: *mut c_int,
            file: *const c_char,
            actions: Object,
            attributes: Object,
            arguments: Strings,
            program: Strings,
        ) -> c_int {
            aside::with(|| spawn(pid, file, [actions, attributes], arguments, program, How::$how, 0))
        }
    )*};
}

spawns! {
    posix_spawn, posix_spawn_front, Path;
    posix_spawnp, posix_spawnp_front, Search;
}

front!(
    /// `quick_exit`
    here quick_exit, 1, quick_exit_front
);

unsafe extern "C" fn quick_exit_front(code: c_int, place: usize) {
    process::exiting(code as u32, place);
    match mode() {
        Mode::Record => chunk::note_end(end::EXITED, code as u32, thread::current_if_known().map_or(0, |t| t.index)),
        // Libraries' destructors, behind which `exit` waits for the other threads, don't run.
        Mode::Replay => process::ended(),
        Mode::Off => {}
    }
    // SAFETY: forwarded; does not return.
    unsafe { call::quick_exit(code) }
}
