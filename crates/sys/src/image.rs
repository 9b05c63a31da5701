//! What a file exports, by the tables of it that are mapped.
//!
//! Apart from [`crate::lookup`], which asks the loader: that one tells who defines a name
//! first, not what a certain library has under it.

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6FFF_FEF5;

/// A mapped library, or the image of functions that the kernel maps.
#[derive(Clone, Copy, Debug)]
pub struct Image {
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

impl Image {
    /// Reads the tables of the image at `start`.
    ///
    /// # Safety
    /// There must be the beginning of an image that the kernel or the loader has mapped, and that stays.
    pub unsafe fn at(start: usize) -> Self {
        let mut image = Self { bias: start, symbols: 0, strings: 0, count: 0 };
        let mut dynamic = None;
        // SAFETY: a well-formed ELF image; offsets are those of its 64-bit headers.
        unsafe {
            let (headers, size, count) =
                (start + read::<u64>(start + 32) as usize, read::<u16>(start + 54), read::<u16>(start + 56));
            for header in (0..usize::from(count)).map(|i| headers + i * usize::from(size)) {
                let (offset, address) = (read::<u64>(header + 8) as usize, read::<u64>(header + 16) as usize);
                match read::<u32>(header) {
                    // The first one begins with what the headers are in.
                    PT_LOAD if offset == 0 => image.bias = start.wrapping_sub(address),
                    PT_DYNAMIC => dynamic = Some(address),
                    _ => {}
                }
            }
            let mut entry = dynamic.map_or(0, |address| image.bias.wrapping_add(address));
            while entry != 0 && read::<u64>(entry) != 0 {
                let value = read::<u64>(entry + 8) as usize;
                // The loader writes addresses into the tables of what it loads, and none into the kernel's.
                let value = if value < image.bias { image.bias.wrapping_add(value) } else { value };
                match read::<u64>(entry) {
                    DT_SYMTAB => image.symbols = value,
                    DT_STRTAB => image.strings = value,
                    DT_HASH => image.count = read::<u32>(value + 4) as usize,
                    DT_GNU_HASH if image.count == 0 => image.count = gnu_count(value),
                    _ => {}
                }
                entry += 16;
            }
        }
        image
    }

    /// The address of what it defines by this name; of several versions, of one of them.
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
    use super::Image;
    use crate::lookup::next_symbol;

    #[test]
    fn a_library_has_what_the_loader_finds_in_it() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let libc = maps.lines().find(|line| line.contains("/libc.so")).and_then(|line| line.split('-').next());
        let start = usize::from_str_radix(libc.expect("libc is mapped"), 16).unwrap();
        // SAFETY: the loader has mapped it, and nobody unloads it.
        let image = unsafe { Image::at(start) };
        for name in [c"__libc_malloc", c"gnu_get_libc_version", c"posix_memalign"] {
            assert_eq!(image.find(name.to_bytes()), Some(next_symbol(name, None)), "{name:?}");
        }
        assert_eq!(image.find(b"__libc_mallo"), None);
        // What it takes from the loader has an entry, and no address.
        assert_eq!(image.find(b"_rtld_global"), None);
    }
}
