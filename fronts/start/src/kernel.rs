//! What the kernel put somewhere: its image of functions is moved, its stack
//! unmapped; and what it is told about the program, so that `/proc` and debuggers
//! see that one and not the starter.

use crate::arguments::Passed;
use crate::leave;
use crate::load::Program;
use crate::stack::Stack;
use core::ffi::CStr;
use relive_sys::start::{self, IMAGE, SCRATCH};
use relive_sys::syscall::number::{MREMAP, PRCTL, RT_SIGPROCMASK};
use relive_sys::syscall::{self, syscall6};
use relive_sys::{dispatch, maps};

const AT_NULL: usize = 0;
const AT_IGNORE: usize = 1;
const AT_SYSINFO_EHDR: usize = 33;

/// Where the image waits until the stack is out of its way.
const PARKED: usize = SCRATCH + (1 << 40);
/// Image and data are a few mappings of a few pages.
const PARTS: usize = 8;

/// Makes room where the program's own things are to be.
///
/// # Safety
/// Nothing may lie on the kernel's stack any more.
pub(crate) unsafe fn take_down(passed: &mut Passed) {
    let mut parts = [(0, 0); PARTS];
    let (mut count, mut image, mut stack) = (0, 0, (0, 0));
    maps::each_special(|start, end, name| match name {
        b"[stack]" => stack = (start, end),
        _ if count < PARTS && (name.starts_with(b"[vdso") || name.starts_with(b"[vvar")) => {
            parts[count] = (start, end - start);
            count += 1;
            if name == b"[vdso]" {
                image = start;
            }
        }
        _ => {}
    });
    let parts = &parts[..count];
    let at = |place: usize, start: usize| place.wrapping_add(start).wrapping_sub(image);
    // SAFETY: the kernel's mappings, which nobody uses before the loader runs; the caller's promise.
    unsafe {
        let parked = image != 0 && parts.iter().all(|&(start, length)| shift(start, length, at(PARKED, start)));
        syscall::munmap(stack.0, stack.1 - stack.0);
        let moved = parked && parts.iter().all(|&(start, length)| shift(at(PARKED, start), length, at(IMAGE, start)));
        set_image(passed.auxiliary, moved);
    }
}

unsafe fn shift(from: usize, length: usize, to: usize) -> bool {
    const MAYMOVE_FIXED: usize = 3;
    // SAFETY: the caller's promise; nothing lies at the target.
    unsafe { syscall6(MREMAP, from, length, length, MAYMOVE_FIXED, to, 0) == to as isize }
}

/// An image that can't be moved is hidden: its functions are system calls, too.
unsafe fn set_image(auxiliary: *mut [usize; 2], moved: bool) {
    let mut entry = auxiliary;
    // SAFETY: the caller's promise.
    unsafe {
        while (*entry)[0] != AT_NULL {
            if (*entry)[0] == AT_SYSINFO_EHDR {
                *entry = if moved { [AT_SYSINFO_EHDR, IMAGE] } else { [AT_IGNORE, 0] };
            }
            entry = entry.add(1);
        }
    }
}

/// `struct prctl_mm_map`.
#[repr(C)]
struct Layout {
    code: [usize; 2],
    data: [usize; 2],
    end_of_data: [usize; 2],
    stack: usize,
    arguments: [usize; 2],
    environment: [usize; 2],
    auxiliary: usize,
    auxiliary_bytes: u32,
    file: i32,
}

/// Tells what is where. Kernels that don't want to know go on showing the starter.
pub(crate) fn tell(passed: &Passed, program: &Program, stack: &Stack) {
    const PR_SET_NAME: usize = 15;
    const PR_SET_MM: usize = 35;
    const PR_SET_MM_MAP: usize = 14;
    let layout = Layout {
        code: program.code,
        data: program.data,
        end_of_data: [program.end_of_data.start(); 2],
        stack: stack.pointer,
        arguments: stack.arguments,
        environment: stack.environment,
        auxiliary: stack.auxiliary,
        auxiliary_bytes: stack.auxiliary_bytes as u32,
        file: -1,
    };
    // What was executed by a descriptor has the name of the file that runs.
    let by_descriptor = passed.name.to_bytes().strip_prefix(b"/dev/fd/").is_some_and(|rest| !rest.contains(&b'/'));
    let name = base_name(if by_descriptor { leave::file() } else { passed.name });
    let layout = (&raw const layout).addr();
    // SAFETY: a string, and a structure of the size that stands with it.
    unsafe {
        syscall6(PRCTL, PR_SET_MM, PR_SET_MM_MAP, layout, size_of::<Layout>(), 0, 0);
        syscall6(PRCTL, PR_SET_NAME, name.addr(), 0, 0, 0, 0);
    }
}

fn base_name(path: &CStr) -> *const u8 {
    let bytes = path.to_bytes_with_nul();
    let start = bytes.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    bytes[start..].as_ptr()
}

/// A call that is handed over while its signal is blocked would be the end.
pub(crate) fn let_through() {
    const SIG_UNBLOCK: usize = 1;
    let mask = 1u64 << (dispatch::SIGSYS - 1);
    // SAFETY: a mask of eight bytes.
    unsafe { syscall6(RT_SIGPROCMASK, SIG_UNBLOCK, (&raw const mask).addr(), 0, 8, 0, 0) };
}

/// An entry of the program's auxiliary vector that stays what it was.
pub(crate) fn find(passed: &Passed, kind: usize) -> Option<usize> {
    // SAFETY: our copy of the kernel's vector.
    unsafe { start::find(passed.auxiliary, kind) }
}
