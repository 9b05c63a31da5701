//! The image of functions that the kernel maps into every process: making one of them
//! go elsewhere.

use crate::image::Image;
use crate::syscall::number::MPROTECT;
use crate::syscall::syscall6;

const PAGE: usize = 4096;
/// No image has had more than four.
const PAGES: usize = 16;
const PROT_READ_EXEC: usize = 5;
const PROT_ALL: usize = 7;

/// The image.
#[derive(Clone, Copy, Debug)]
pub struct Vdso {
    start: usize,
    image: Image,
}

impl Vdso {
    /// The image at `start`.
    ///
    /// # Safety
    /// `start` must be what the kernel gave as `AT_SYSINFO_EHDR`.
    pub unsafe fn at(start: usize) -> Self {
        // SAFETY: the caller's promise.
        Self { start, image: unsafe { Image::at(start) } }
    }

    /// The address of a function.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        self.image.find(name)
    }

    /// Makes each of `functions` start with a jump to its other one. `false` if the kernel doesn't let the image be written.
    ///
    /// # Safety
    /// The first of each pair must be what [`Vdso::find`] returned; nobody may run the functions at this moment.
    pub unsafe fn redirect(&self, functions: impl Iterator<Item = (usize, usize)>) -> bool {
        // The kernel protects the image as a whole only, and doesn't say how long it is.
        // SAFETY: the caller's promise; the image is writable while it is changed, and executable throughout.
        unsafe {
            let protect = |length, protection| syscall6(MPROTECT, self.start, length, protection, 0, 0, 0) == 0;
            let Some(length) = (1..=PAGES).map(|pages| pages * PAGE).find(|&length| protect(length, PROT_ALL)) else {
                return false;
            };
            for (address, target) in functions {
                // `movabs rax, target; jmp rax`
                let mut code = [0x48, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xE0];
                code[2..10].copy_from_slice(&target.to_le_bytes());
                core::ptr::copy_nonoverlapping(code.as_ptr(), address as *mut u8, code.len());
            }
            protect(length, PROT_READ_EXEC)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Vdso;
    use crate::dispatch::program_call;
    use crate::syscall::number::{FORK, WAIT4};

    const AT_SYSINFO_EHDR: usize = 33;

    fn image() -> Vdso {
        let bytes = std::fs::read("/proc/self/auxv").unwrap();
        let words: Vec<usize> = bytes.chunks_exact(8).map(|w| usize::from_le_bytes(w.try_into().unwrap())).collect();
        let entry = words.chunks_exact(2).find(|entry| entry[0] == AT_SYSINFO_EHDR).expect("the kernel maps an image");
        // SAFETY: what the kernel gave.
        unsafe { Vdso::at(entry[1]) }
    }

    unsafe extern "C" fn noon(_clock: usize, _into: usize) -> isize {
        12
    }

    #[test]
    fn a_function_of_the_kernels_image_goes_where_it_was_redirected() {
        let image = image();
        let address = image.find(b"__vdso_clock_gettime").expect("every kernel has it");
        assert!(image.find(b"__vdso_clock_gettim").is_none());
        // SAFETY: fork in a test; the child runs our own code only.
        let child = unsafe { program_call(FORK, &[0; 6]) };
        if child == 0 {
            // SAFETY: nobody else runs in the child; the function has this signature.
            let answer = unsafe {
                let redirected = image.redirect([(address, noon as *const () as usize)].into_iter());
                let clock: unsafe extern "C" fn(usize, usize) -> isize = core::mem::transmute(address);
                if redirected { clock(0, 0) } else { 0 }
            };
            crate::syscall::exit_group(answer as u32);
        }
        let mut status = 0i32;
        // SAFETY: wait4 writes the status.
        unsafe { program_call(WAIT4, &[child as usize, (&raw mut status).addr(), 0, 0, 0, 0]) };
        assert_eq!(status, 12 << 8, "the kernel lets the page be written");
    }
}
