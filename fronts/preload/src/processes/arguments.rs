//! `execl` and kin: the arguments are the function's own, ended by a null.
//!
//! A naked entry lays the register arguments in a row; Rust copies them and the
//! ones on the stack into an array.

use super::environment::Strings;
use core::ffi::{c_char, c_int};
use relive_sys::syscall;

/// Register arguments 0 to 5, then the caller's return address, then the stack arguments.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Passed {
    registers: [usize; 6],
    padding: usize,
    pub(crate) place: usize,
    stack: [usize; 0],
}

impl Passed {
    fn get(&self, i: usize) -> usize {
        if i < 6 {
            self.registers[i]
        } else {
            // SAFETY: the caller passed so many arguments, as the null that ends them tells.
            unsafe { *self.stack.as_ptr().add(i - 6) }
        }
    }

    pub(crate) fn path(&self) -> *const c_char {
        self.registers[0] as *const c_char
    }

    /// The arguments after the path as an array, and the index of their null.
    pub(crate) fn list(&self) -> Option<(Strings, usize)> {
        let mut null = 1;
        while self.get(null) != 0 {
            null += 1;
        }
        let memory = syscall::mmap(null * size_of::<usize>(), syscall::MAP_PRIVATE_ANONYMOUS, -1, 0);
        if memory < 0 {
            return None;
        }
        for i in 1..=null {
            // SAFETY: the mapping has room for `null` words.
            unsafe { (memory as *mut usize).add(i - 1).write(self.get(i)) };
        }
        Some((memory as Strings, null))
    }

    /// The argument after the null: `execle`'s environment.
    pub(crate) fn after(&self, null: usize) -> Strings {
        self.get(null + 1) as Strings
    }
}

macro_rules! listed {
    ($($name:ident => $target:path;)*) => {$(
        #[doc = concat!("`", stringify!($name), "`")]
        ///
        /// # Safety
        /// As for the function that this one stands in front of.
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "sub rsp, 56",
                ".cfi_def_cfa_offset 64",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "mov [rsp + 16], rdx",
                "mov [rsp + 24], rcx",
                "mov [rsp + 32], r8",
                "mov [rsp + 40], r9",
                "mov rdi, rsp",
                "call {target}",
                "add rsp, 56",
                ".cfi_def_cfa_offset 8",
                "ret",
                ".cfi_endproc",
                target = sym $target,
            )
        }
    )*};
}

listed! {
    execl => execl_front;
    execlp => execlp_front;
    execle => execle_front;
}

unsafe extern "C" fn execl_front(passed: &Passed) -> c_int {
    let Some((list, _)) = passed.list() else { return super::no_memory() };
    super::execute(passed.path(), list, super::own_environment(), super::How::Path, passed.place)
}

unsafe extern "C" fn execlp_front(passed: &Passed) -> c_int {
    let Some((list, _)) = passed.list() else { return super::no_memory() };
    super::execute(passed.path(), list, super::own_environment(), super::How::Search, passed.place)
}

unsafe extern "C" fn execle_front(passed: &Passed) -> c_int {
    let Some((list, null)) = passed.list() else { return super::no_memory() };
    super::execute(passed.path(), list, passed.after(null), super::How::Path, passed.place)
}
