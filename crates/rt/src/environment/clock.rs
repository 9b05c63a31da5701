//! The kernel's page of functions that answer without a call: clocks and the
//! processor's number. They are made to come here.

use super::call;
use relive_sys::front;
use relive_sys::syscall::number::{CLOCK_GETRES, CLOCK_GETTIME, GETCPU, GETTIMEOFDAY, TIME};
use relive_sys::vdso::Vdso;

const AT_SYSINFO_EHDR: usize = 33;

type Function = unsafe extern "C" fn();

macro_rules! answers {
    ($($function:ident = $number:ident;)*) => {
        $(
            mod $function {
                pub(super) unsafe extern "C" fn ask(a: usize, b: usize, c: usize) -> isize {
                    // SAFETY: the program's own arguments.
                    unsafe { super::call(super::$number, [a, b, c, 0, 0, 0]) }
                }
            }
            front!(private $function, $function::ask);
        )*
    };
}

answers! {
    gettimeofday = GETTIMEOFDAY;
    time = TIME;
    clock_gettime = CLOCK_GETTIME;
    clock_getres = CLOCK_GETRES;
    getcpu = GETCPU;
}

/// Its numbers depend on a state that the kernel changes when it likes; libc makes the call then.
unsafe extern "C" fn has_no_random() -> isize {
    const ENOSYS: isize = -38;
    ENOSYS
}
front!(private no_random, has_no_random);

/// # Safety
/// At start-up; `auxiliary` must be the process's auxiliary vector or null.
pub(super) unsafe fn start(auxiliary: *const [usize; 2]) {
    let mut at = auxiliary;
    // SAFETY: the caller's promise: it ends with an entry of type 0.
    let page = unsafe {
        loop {
            if at.is_null() || (*at)[0] == 0 {
                return;
            }
            if (*at)[0] == AT_SYSINFO_EHDR {
                break (*at)[1];
            }
            at = at.add(1);
        }
    };
    let replaced: [(&[u8], Function); 6] = [
        (b"__vdso_getrandom", no_random),
        (b"__vdso_gettimeofday", gettimeofday),
        (b"__vdso_time", time),
        (b"__vdso_clock_gettime", clock_gettime),
        (b"__vdso_clock_getres", clock_getres),
        (b"__vdso_getcpu", getcpu),
    ];
    // SAFETY: the kernel's image; no other thread runs yet.
    unsafe {
        let image = Vdso::at(page);
        let found = |(name, function): (&[u8], Function)| Some((image.find(name)?, function as usize));
        image.redirect(replaced.into_iter().filter_map(found));
    }
}
