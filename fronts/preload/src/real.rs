//! The functions that the fronts stand in front of, looked up once.
//!
//! A function is looked up before its first call, and before the process makes its first
//! thread, or opens a library, all of them are. A look-up takes the loader's lock: a child
//! that is forked meanwhile has it for good, and waits at its own first look-up; and one
//! that waits until another thread's `dlopen` has ended may be what that waits for, in a
//! replay.

use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use relive_rt::runtime::has_flag;
use relive_rt::{Mode, environment, mode};
use relive_sys::lookup::{self, next_symbol};
use relive_trace::control::flag;

/// A function of the next library, by name and, where it has several, version.
#[derive(Debug)]
pub(crate) struct Real {
    address: AtomicUsize,
    name: &'static CStr,
    version: Option<&'static CStr>,
}

impl Real {
    pub(crate) const fn new(name: &'static CStr, version: Option<&'static CStr>) -> Self {
        Self { address: AtomicUsize::new(0), name, version }
    }

    pub(crate) const fn name(&self) -> &'static CStr {
        self.name
    }

    /// Its address; looked up now if it wasn't.
    #[inline(always)]
    pub(crate) fn address(&self) -> usize {
        let known = self.address.load(Ordering::Relaxed);
        if known == 0 { self.look_up() } else { known }
    }

    #[inline(always)]
    pub(crate) fn known(&self) -> usize {
        self.address.load(Ordering::Relaxed)
    }

    /// Looks it up, if the C library has it.
    pub(crate) fn look_up_if_present(&self) {
        self.address.store(next_symbol(self.name, self.version), Ordering::Relaxed);
    }

    /// It was looked up elsewhere.
    pub(crate) fn is_at(&self, address: usize) {
        self.address.store(address, Ordering::Relaxed);
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn look_up(&self) -> usize {
        let found = next_symbol(self.name, self.version);
        if found == 0 {
            let name = self.name.to_str().unwrap_or("?");
            panic!("the C library has no {name}");
        }
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

/// Has a function looked up with all others.
macro_rules! in_time {
    ($real:expr) => {
        const _: () = {
            #[used]
            #[unsafe(link_section = "relive_reals")]
            static REGISTERED: &$crate::real::Real = &$real;
        };
    };
}
pub(crate) use in_time;

/// Before the first thread, or within the section of the first `dlopen` or its kin: what `dlerror` has to say is lost by any look-up.
pub(crate) fn look_up_all() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.load(Ordering::Relaxed) {
        return;
    }
    // What is not there takes memory of the program's heap, which a replay has as it was.
    let is_known = mode() != Mode::Replay || !environment::is_on() || has_flag(flag::LOOK_UPS);
    if !is_known || DONE.swap(true, Ordering::Relaxed) {
        return;
    }
    all().iter().filter(|real| real.known() == 0).for_each(|real| real.look_up_if_present());
}

fn all() -> &'static [&'static Real] {
    let [first, end] =
        [&raw const __start_relive_reals, &raw const __stop_relive_reals].map(<*const u8>::cast::<&Real>);
    // SAFETY: the linker's names for where the section begins and ends, which holds nothing but such references.
    unsafe { core::slice::from_raw_parts(first, end.offset_from_unsigned(first)) }
}

/// The function that stands in front of the one at `found`, which somebody has looked up by its name; `None` if it is another one, or
/// not the next behind ours.
pub(crate) fn in_front_of(found: usize, name: &CStr) -> Option<usize> {
    // Only of these it is certain that there are some: a look-up in vain would be seen by `dlerror`.
    let is_one = all().iter().any(|real| real.known() != 0 && real.name == name);
    if is_one { lookup::in_front_of(found, name) } else { None }
}

unsafe extern "C" {
    static __start_relive_reals: u8;
    static __stop_relive_reals: u8;
}

/// Declares real functions: a static each, and a typed way to call it.
macro_rules! real {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal $(@ $version:literal)?, fn($($arg:ident: $ty:ty),*) $(-> $ret:ty)?;)*) => {
        #[allow(non_upper_case_globals)]
        pub(crate) mod at {
            use $crate::real::Real;
            $(
                $(#[$doc])* pub(crate) static $name: Real = Real::new($symbol, $crate::real::real!(@version $($version)?));
                $crate::real::in_time!($name);
            )*
        }
        /// The same calls without the question whether the symbol was looked up: [`Real::look_up`] has run.
        #[allow(dead_code)]
        pub(crate) mod known {
            use super::*;
            $(
                #[inline(always)]
                pub(crate) unsafe fn $name($($arg: $ty),*) $(-> $ret)? {
                    // SAFETY: as for the function of the same name outside.
                    unsafe {
                        let f: unsafe extern "C" fn($($ty),*) $(-> $ret)? = core::mem::transmute(at::$name.known());
                        f($($arg),*)
                    }
                }
            )*
        }
        $(
            // A front that is a trampoline uses the address only.
            #[allow(dead_code)]
            #[inline(always)]
            pub(crate) unsafe fn $name($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: the symbol has this C signature; the caller keeps the function's own contract.
                unsafe {
                    let f: unsafe extern "C" fn($($ty),*) $(-> $ret)? = core::mem::transmute(at::$name.address());
                    f($($arg),*)
                }
            }
        )*
    };
    (@version) => { None };
    (@version $version:literal) => { Some($version) };
}
pub(crate) use real;

/// Looks functions up before the first of them is called: that takes the loader's lock, and such a call may come from a
/// signal handler, or from a fork child that must not wait for it. One that this C library lacks is never called.
macro_rules! look_up_early {
    ($($real:expr),* $(,)?) => {
        #[used]
        #[unsafe(link_section = ".init_array")]
        static LOOK_UP: unsafe extern "C" fn() = {
            unsafe extern "C" fn look_up() {
                $($real.look_up_if_present();)*
            }
            look_up
        };
    };
}
pub(crate) use look_up_early;

/// Any object of the C library, by address.
pub(crate) type Object = *mut c_void;
/// `const struct timespec *`.
pub(crate) type Deadline = *const c_void;

real! {
    mutex_lock = c"pthread_mutex_lock", fn(m: Object) -> c_int;
    get_specific = c"pthread_getspecific", fn(key: c_uint) -> Object;
    set_specific = c"pthread_setspecific", fn(key: c_uint, value: Object) -> c_int;
    mutex_trylock = c"pthread_mutex_trylock", fn(m: Object) -> c_int;
    mutex_timedlock = c"pthread_mutex_timedlock", fn(m: Object, t: Deadline) -> c_int;
    mutex_clocklock = c"pthread_mutex_clocklock", fn(m: Object, clock: c_int, t: Deadline) -> c_int;
    mutex_unlock = c"pthread_mutex_unlock", fn(m: Object) -> c_int;
    cond_wait = c"pthread_cond_wait" @ c"GLIBC_2.3.2", fn(c: Object, m: Object) -> c_int;
    cond_timedwait = c"pthread_cond_timedwait" @ c"GLIBC_2.3.2", fn(c: Object, m: Object, t: Deadline) -> c_int;
    cond_clockwait = c"pthread_cond_clockwait", fn(c: Object, m: Object, clock: c_int, t: Deadline) -> c_int;
    cond_signal = c"pthread_cond_signal" @ c"GLIBC_2.3.2", fn(c: Object) -> c_int;
    cond_broadcast = c"pthread_cond_broadcast" @ c"GLIBC_2.3.2", fn(c: Object) -> c_int;
    rwlock_rdlock = c"pthread_rwlock_rdlock", fn(l: Object) -> c_int;
    rwlock_tryrdlock = c"pthread_rwlock_tryrdlock", fn(l: Object) -> c_int;
    rwlock_timedrdlock = c"pthread_rwlock_timedrdlock", fn(l: Object, t: Deadline) -> c_int;
    rwlock_clockrdlock = c"pthread_rwlock_clockrdlock", fn(l: Object, clock: c_int, t: Deadline) -> c_int;
    rwlock_wrlock = c"pthread_rwlock_wrlock", fn(l: Object) -> c_int;
    rwlock_trywrlock = c"pthread_rwlock_trywrlock", fn(l: Object) -> c_int;
    rwlock_timedwrlock = c"pthread_rwlock_timedwrlock", fn(l: Object, t: Deadline) -> c_int;
    rwlock_clockwrlock = c"pthread_rwlock_clockwrlock", fn(l: Object, clock: c_int, t: Deadline) -> c_int;
    rwlock_unlock = c"pthread_rwlock_unlock", fn(l: Object) -> c_int;
    sem_init = c"sem_init", fn(s: Object, shared: c_int, value: c_uint) -> c_int;
    sem_post = c"sem_post", fn(s: Object) -> c_int;
    sem_wait = c"sem_wait", fn(s: Object) -> c_int;
    sem_trywait = c"sem_trywait", fn(s: Object) -> c_int;
    sem_timedwait = c"sem_timedwait", fn(s: Object, t: Deadline) -> c_int;
    sem_clockwait = c"sem_clockwait", fn(s: Object, clock: c_int, t: Deadline) -> c_int;
    sem_getvalue = c"sem_getvalue", fn(s: Object, value: *mut c_int) -> c_int;
    barrier_init = c"pthread_barrier_init", fn(b: Object, attributes: Object, count: c_uint) -> c_int;
    barrier_wait = c"pthread_barrier_wait", fn(b: Object) -> c_int;
    spin_lock = c"pthread_spin_lock", fn(l: Object) -> c_int;
    spin_trylock = c"pthread_spin_trylock", fn(l: Object) -> c_int;
    spin_unlock = c"pthread_spin_unlock", fn(l: Object) -> c_int;
    create = c"pthread_create", fn(handle: *mut usize, attributes: Object, start: usize, argument: usize) -> c_int;
    join = c"pthread_join", fn(handle: usize, result: Object) -> c_int;
    tryjoin = c"pthread_tryjoin_np", fn(handle: usize, result: Object) -> c_int;
    timedjoin = c"pthread_timedjoin_np", fn(handle: usize, result: Object, t: Deadline) -> c_int;
    clockjoin = c"pthread_clockjoin_np", fn(handle: usize, result: Object, clock: c_int, t: Deadline) -> c_int;
    detach = c"pthread_detach", fn(handle: usize) -> c_int;
    thread_self = c"pthread_self", fn() -> usize;
    exit_thread = c"pthread_exit", fn(result: usize);
    thread_kill = c"pthread_kill", fn(handle: usize, number: c_int) -> c_int;
    thread_queue = c"pthread_sigqueue", fn(handle: usize, number: c_int, value: Object) -> c_int;
    kill = c"kill", fn(pid: c_int, number: c_int) -> c_int;
    killpg = c"killpg", fn(group: c_int, number: c_int) -> c_int;
    tgkill = c"tgkill", fn(pid: c_int, tid: c_int, number: c_int) -> c_int;
    sigqueue = c"sigqueue", fn(pid: c_int, number: c_int, value: Object) -> c_int;
    sigaction = c"sigaction", fn(number: c_int, new: Object, old: Object) -> c_int;
    sigblock = c"sigblock", fn(mask: c_int) -> c_int;
    sigsetmask = c"sigsetmask", fn(mask: c_int) -> c_int;
    sighold = c"sighold", fn(number: c_int) -> c_int;
    sigrelse = c"sigrelse", fn(number: c_int) -> c_int;
    sigprocmask = c"sigprocmask", fn(how: c_int, new: Object, old: Object) -> c_int;
    thread_mask = c"pthread_sigmask", fn(how: c_int, new: Object, old: Object) -> c_int;
    raise = c"raise", fn(number: c_int) -> c_int;
    setuid = c"setuid", fn(user: usize) -> c_int;
    setgid = c"setgid", fn(group: usize) -> c_int;
    seteuid = c"seteuid", fn(user: usize) -> c_int;
    setegid = c"setegid", fn(group: usize) -> c_int;
    setreuid = c"setreuid", fn(real: usize, effective: usize) -> c_int;
    setregid = c"setregid", fn(real: usize, effective: usize) -> c_int;
    setresuid = c"setresuid", fn(real: usize, effective: usize, saved: usize) -> c_int;
    setresgid = c"setresgid", fn(real: usize, effective: usize, saved: usize) -> c_int;
    setgroups = c"setgroups", fn(count: usize, list: usize) -> c_int;
    system_call = c"syscall", fn();
    control = c"fcntl", fn(fd: c_int, command: c_int, argument: usize) -> c_int;
    request = c"ioctl", fn(fd: c_int, request: usize, argument: usize) -> c_int;
    once = c"pthread_once", fn(control: Object, routine: usize) -> c_int;
    attributes_mask = c"pthread_attr_getsigmask_np", fn(attributes: Object, mask: Object) -> c_int;
    cancel = c"pthread_cancel", fn(handle: usize) -> c_int;
    testcancel = c"pthread_testcancel", fn();
    set_cancel_type = c"pthread_setcanceltype", fn(kind: c_int, old: *mut c_int) -> c_int;
    c11_create = c"thrd_create", fn(handle: *mut usize, start: usize, argument: usize) -> c_int;
    c11_join = c"thrd_join", fn(handle: usize, result: *mut c_int) -> c_int;
    c11_exit_thread = c"thrd_exit", fn(result: c_int);
    attributes_detached = c"pthread_attr_getdetachstate", fn(attributes: Object, state: *mut c_int) -> c_int;
    attributes_default = c"pthread_getattr_default_np", fn(attributes: Object) -> c_int;
    attributes_size = c"pthread_attr_getstacksize", fn(attributes: Object, size: *mut usize) -> c_int;
    attributes_guard = c"pthread_attr_getguardsize", fn(attributes: Object, size: *mut usize) -> c_int;
    attributes_address = c"pthread_attr_getstackaddr", fn(attributes: Object, address: *mut Object) -> c_int;
    attributes_of = c"pthread_getattr_np", fn(handle: usize, attributes: Object) -> c_int;
    set_name = c"pthread_setname_np", fn(handle: usize, name: *const c_char) -> c_int;
    attributes_set_guard = c"pthread_attr_setguardsize", fn(attributes: Object, size: usize) -> c_int;
    attributes_set_stack = c"pthread_attr_setstack", fn(attributes: Object, address: usize, size: usize) -> c_int;
    backtrace = c"backtrace", fn(places: *mut usize, count: c_int) -> c_int;
    abort = c"abort", fn();
    find_object = c"_dl_find_object", fn(address: usize, found: Object) -> c_int;
    errno_location = c"__errno_location", fn() -> *mut c_int;
    exit = c"exit", fn(code: c_int);
    exit_now = c"_exit", fn(code: c_int);
    libc_start_main = c"__libc_start_main", fn(main: usize, argc: c_int, argv: *mut *mut c_char, init: usize, fini: usize, rtld_fini: usize, stack_end: Object) -> c_int;
}

/// `errno` of the calling thread.
pub(crate) fn errno() -> c_int {
    // SAFETY: the location is valid for the calling thread.
    unsafe { *errno_location() }
}

/// What a function returns that gives 0 or sets `errno`.
pub(crate) fn answer(error: c_int) -> c_int {
    if error == 0 {
        return 0;
    }
    set_errno(error);
    -1
}

/// Sets `errno` of the calling thread.
pub(crate) fn set_errno(value: c_int) {
    // SAFETY: the location is valid for the calling thread.
    unsafe { *errno_location() = value };
}
