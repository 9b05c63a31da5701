//! Routines that pieces of code call in the middle of the program's: with all
//! registers laid down where a function can read and change them.
//!
//! Apart because more than one kind of changed instruction leads to such a routine.

use crate::outside::Machine;

/// A thread's registers at a changed instruction.
#[derive(Debug)]
#[repr(C)]
pub struct Saved {
    general: [u64; 16],
    flags: u64,
    /// Within the piece.
    back: usize,
}

/// Bytes below the stack pointer that a function may use without a word, which pieces leave alone.
pub(crate) const RED_ZONE: usize = 128;
const RSP: usize = 4;

impl Saved {
    /// Where the piece goes on.
    pub(crate) fn back(&self) -> usize {
        self.back
    }

    /// A general register as the program has it, by its number in instructions.
    pub(crate) fn general(&self, number: usize) -> u64 {
        match number & 15 {
            RSP => (core::ptr::from_ref(self).addr() + size_of::<Self>() + RED_ZONE) as u64,
            other => self.general[other],
        }
    }
}

impl Machine for Saved {
    fn operand(&mut self, number: usize) -> &mut u64 {
        &mut self.general[number & 15]
    }

    fn flags(&mut self) -> &mut u64 {
        &mut self.flags
    }
}

/// What such a routine calls.
pub type Handler = unsafe extern "C" fn(saved: *mut Saved);

/// The beginning of a function in assembly that the library has for itself.
macro_rules! begins {
    ($name:literal) => {
        concat!(".globl ", $name, "\n.hidden ", $name, "\n.type ", $name, ",@function\n", $name, ":\n.cfi_startproc\n")
    };
}

/// A routine of this name, which calls what `handler` holds.
macro_rules! routine {
    ($name:literal) => {
        concat!(
            $crate::saved::begins!($name),
            "pushfq\n.cfi_adjust_cfa_offset 8\n",
            "push r15\n.cfi_adjust_cfa_offset 8\n",
            "push r14\n.cfi_adjust_cfa_offset 8\n",
            "push r13\n.cfi_adjust_cfa_offset 8\n",
            "push r12\n.cfi_adjust_cfa_offset 8\n",
            "push r11\n.cfi_adjust_cfa_offset 8\n",
            "push r10\n.cfi_adjust_cfa_offset 8\n",
            "push r9\n.cfi_adjust_cfa_offset 8\n",
            "push r8\n.cfi_adjust_cfa_offset 8\n",
            "push rdi\n.cfi_adjust_cfa_offset 8\n",
            "push rsi\n.cfi_adjust_cfa_offset 8\n",
            "push rbp\n.cfi_adjust_cfa_offset 8\n",
            "push rsp\n.cfi_adjust_cfa_offset 8\n",
            "push rbx\n.cfi_adjust_cfa_offset 8\n",
            ".cfi_rel_offset rbx, 0\n",
            "push rdx\n.cfi_adjust_cfa_offset 8\n",
            "push rcx\n.cfi_adjust_cfa_offset 8\n",
            "push rax\n.cfi_adjust_cfa_offset 8\n",
            "mov rbx, rsp\n",
            ".cfi_def_cfa_register rbx\n",
            "and rsp, -16\n",
            "sub rsp, 256\n",
            $crate::vectors::keep_vectors!(),
            "mov rdi, rbx\n",
            "cld\n",
            "call qword ptr [rip + {handler}]\n",
            $crate::vectors::give_vectors_back!(),
            "mov rsp, rbx\n",
            ".cfi_def_cfa_register rsp\n",
            "pop rax\n.cfi_adjust_cfa_offset -8\n",
            "pop rcx\n.cfi_adjust_cfa_offset -8\n",
            "pop rdx\n.cfi_adjust_cfa_offset -8\n",
            "pop rbx\n.cfi_adjust_cfa_offset -8\n.cfi_restore rbx\n",
            // The stack pointer is where it is.
            "lea rsp, [rsp + 8]\n.cfi_adjust_cfa_offset -8\n",
            "pop rbp\n.cfi_adjust_cfa_offset -8\n",
            "pop rsi\n.cfi_adjust_cfa_offset -8\n",
            "pop rdi\n.cfi_adjust_cfa_offset -8\n",
            "pop r8\n.cfi_adjust_cfa_offset -8\n",
            "pop r9\n.cfi_adjust_cfa_offset -8\n",
            "pop r10\n.cfi_adjust_cfa_offset -8\n",
            "pop r11\n.cfi_adjust_cfa_offset -8\n",
            "pop r12\n.cfi_adjust_cfa_offset -8\n",
            "pop r13\n.cfi_adjust_cfa_offset -8\n",
            "pop r14\n.cfi_adjust_cfa_offset -8\n",
            "pop r15\n.cfi_adjust_cfa_offset -8\n",
            "popfq\n.cfi_adjust_cfa_offset -8\n",
            "ret\n",
            ".cfi_endproc\n",
            ".size ",
            $name,
            ", . - ",
            $name,
            "\n",
        )
    };
}

pub(crate) use {begins, routine};
