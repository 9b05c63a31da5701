//! `setuid` and its kin, which libc has each thread of the process do: see [`relive_rt::environment::identity`].

use crate::real::{self, errno, set_errno};
use core::ffi::c_int;
use relive_rt::environment::identity;
use relive_sys::front;
use relive_sys::syscall::number::{SETGID, SETGROUPS, SETREGID, SETRESGID, SETRESUID, SETREUID, SETUID};

/// An id that stays as it is.
const SAME: usize = u32::MAX as usize;

/// The change, with errno as libc leaves it.
fn change(number: usize, arguments: [usize; 3], function: impl FnOnce() -> c_int) -> c_int {
    let [first, second, third] = arguments;
    let result = identity::change(number, [first, second, third, 0, 0, 0], || match function() {
        0 => 0,
        _ => -(errno() as isize),
    });
    if result < 0 {
        set_errno(-result as c_int);
        return -1;
    }
    0
}

/// A function of libc's, the system call that it is, and what it gives that.
macro_rules! changes {
    ($($symbol:literal $name:ident($($argument:ident),*), $count:tt, $front:ident, $number:ident, $given:expr;)*) => {
        $(
            front!(
                #[doc = concat!("`", $symbol, "`")]
                $name, $count, $front
            );

            unsafe extern "C" fn $front($($argument: usize,)* _place: usize) -> c_int {
                // SAFETY: forwarded.
                change($number, $given, || unsafe { real::$name($($argument),*) })
            }
        )*
    };
}

changes! {
    "setuid" setuid(user), 1, set_user, SETUID, [user, 0, 0];
    "setgid" setgid(group), 1, set_group, SETGID, [group, 0, 0];
    "seteuid" seteuid(user), 1, set_effective_user, SETRESUID, [SAME, user, SAME];
    "setegid" setegid(group), 1, set_effective_group, SETRESGID, [SAME, group, SAME];
    "setreuid" setreuid(real, effective), 2, set_users, SETREUID, [real, effective, 0];
    "setregid" setregid(real, effective), 2, set_groups_of, SETREGID, [real, effective, 0];
    "setresuid" setresuid(real, effective, saved), 3, set_all_users, SETRESUID, [real, effective, saved];
    "setresgid" setresgid(real, effective, saved), 3, set_all_groups, SETRESGID, [real, effective, saved];
    "setgroups" setgroups(count, list), 2, set_further_groups, SETGROUPS, [count, list, 0];
}
