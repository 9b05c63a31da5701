//! The image of functions that the kernel maps into every process: finding one,
//! and making it go elsewhere.

use crate::syscall::number::MPROTECT;
use crate::syscall::syscall6;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6FFF_FEF5;
const PAGE: usize = 4096;
/// No image has had more than four.
const PAGES: usize = 16;
const PROT_READ_EXEC: usize = 5;
const PROT_ALL: usize = 7;

/// The image.
#[derive(Clone, Copy, Debug)]
pub struct Vdso {
    start: usize,
    /// What is added to its addresses.
    bias: usize,
    symbols: usize,
    strings: usize,
    count: usize,
}

unsafe fn read<T: Copy>(address: usize) -> T {
    // SAFETY: the caller's promise.
    unsafe { (address as *const T).read_unaligned() }
}

impl Vdso {
    /// Reads the tables of the image at `start`.
    ///
    /// # Safety
    /// `start` must be what the kernel gave as `AT_SYSINFO_EHDR`.
    pub unsafe fn at(start: usize) -> Self {
        let mut image = Self { start, bias: start, symbols: 0, strings: 0, count: 0 };
        // SAFETY: a well-formed ELF image of the kernel's; offsets are those of its 64-bit headers.
        unsafe {
            let (headers, size, count) =
                (start + read::<u64>(start + 32) as usize, read::<u16>(start + 54), read::<u16>(start + 56));
            let mut dynamic = 0;
            for header in (0..usize::from(count)).map(|i| headers + i * usize::from(size)) {
                let (offset, address) = (read::<u64>(header + 8) as usize, read::<u64>(header + 16) as usize);
                match read::<u32>(header) {
                    PT_LOAD => image.bias = start.wrapping_add(offset).wrapping_sub(address),
                    PT_DYNAMIC => dynamic = start + offset,
                    _ => {}
                }
            }
            while dynamic != 0 && read::<u64>(dynamic) != 0 {
                let value = image.bias.wrapping_add(read::<u64>(dynamic + 8) as usize);
                match read::<u64>(dynamic) {
                    DT_SYMTAB => image.symbols = value,
                    DT_STRTAB => image.strings = value,
                    DT_HASH => image.count = read::<u32>(value + 4) as usize,
                    DT_GNU_HASH if image.count == 0 => image.count = gnu_count(value),
                    _ => {}
                }
                dynamic += 16;
            }
        }
        image
    }

    /// The address of a function.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        const SYMBOL_BYTES: usize = 24;
        (0..self.count).map(|i| self.symbols + i * SYMBOL_BYTES).find_map(|symbol| {
            // SAFETY: an entry of the image's symbol table, whose names end in zero.
            unsafe {
                let text = self.strings + read::<u32>(symbol) as usize;
                let same = name.iter().enumerate().all(|(i, &b)| read::<u8>(text + i) == b)
                    && read::<u8>(text + name.len()) == 0;
                let address = read::<u64>(symbol + 8) as usize;
                (same && address != 0).then(|| self.bias.wrapping_add(address))
            }
        })
    }
}

impl Vdso {
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

/// The number of symbols by a GNU hash table: one more than the last of the longest chain.
unsafe fn gnu_count(table: usize) -> usize {
    // SAFETY: the caller's promise: the image's own table.
    unsafe {
        let (buckets, first, bloom) =
            (read::<u32>(table) as usize, read::<u32>(table + 4) as usize, read::<u32>(table + 8) as usize);
        let bucket = table + 16 + bloom * 8;
        let chain = bucket + buckets * 4;
        let Some(mut last) = (0..buckets).map(|i| read::<u32>(bucket + i * 4) as usize).max().filter(|&m| m >= first)
        else {
            return first;
        };
        while read::<u32>(chain + (last - first) * 4) & 1 == 0 {
            last += 1;
        }
        last + 1
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
