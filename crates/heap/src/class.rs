//! Size classes: multiples of 16 up to 128, then four to each doubling, so that
//! a block is at most a fifth larger than what was asked for.

/// How many classes there are.
pub(crate) const CLASSES: usize = 40;
/// The largest small block.
pub(crate) const SMALL_MAX: usize = 32 * 1024;
const LINEAR: usize = 8;
const LINEAR_BITS: u32 = 7;

/// The class of blocks that hold `size` bytes.
#[inline]
pub(crate) const fn of(size: usize) -> usize {
    if size <= 1 << LINEAR_BITS {
        return if size == 0 { 0 } else { size.div_ceil(16) - 1 };
    }
    let last = size - 1;
    let bits = usize::BITS - 1 - last.leading_zeros();
    LINEAR + ((bits - LINEAR_BITS) as usize) * 4 + ((last >> (bits - 2)) & 3)
}

/// The size of its blocks.
#[inline]
pub(crate) const fn size(class: usize) -> usize {
    if class < LINEAR {
        return (class + 1) * 16;
    }
    let bits = (class - LINEAR) / 4 + LINEAR_BITS as usize;
    (1 << bits) + ((class - LINEAR) % 4 + 1) * (1 << (bits - 2))
}

/// The class of blocks that hold `size` bytes and, in runs that begin at a multiple of `align`, all lie at one.
pub(crate) fn aligned(size: usize, align: usize) -> Option<usize> {
    let first = of(size.max(align));
    (first..CLASSES).find(|&class| self::size(class).is_multiple_of(align))
}

/// How many blocks change hands at once.
#[inline]
pub(crate) fn batch(class: usize) -> u32 {
    BATCHES[class] as u32
}

/// Worked out beforehand: each block that is freed asks.
static BATCHES: [u8; CLASSES] = {
    let mut batches = [0; CLASSES];
    let mut class = 0;
    while class < CLASSES {
        batches[class] = blocks_at_once(class);
        class += 1;
    }
    batches
};

const fn blocks_at_once(class: usize) -> u8 {
    match 64 * 1024 / size(class) {
        0..=2 => 2,
        n if n > 64 => 64,
        n => n as u8,
    }
}

/// Bytes of the runs that blocks are carved out of: so many that a run serves long, touched only as it is used.
pub(crate) const fn run_bytes(class: usize) -> usize {
    let eight = size(class) * 8;
    if eight < 64 * 1024 { 64 * 1024 } else { eight }
}

#[cfg(test)]
mod tests {
    use super::{CLASSES, SMALL_MAX, aligned, of, size};

    #[test]
    fn every_size_has_the_smallest_class_that_holds_it() {
        for bytes in 0..=SMALL_MAX {
            let class = of(bytes);
            assert!(size(class) >= bytes && (class == 0 || size(class - 1) < bytes), "{bytes}");
            assert_eq!(size(class) % 16, 0);
        }
        assert_eq!(of(SMALL_MAX), CLASSES - 1);
    }

    #[test]
    fn aligned_classes_are_multiples_of_the_alignment() {
        for align in [16, 32, 64, 256, 4096, 8192] {
            for bytes in [0, 1, align, align + 1, 3000] {
                let found = size(aligned(bytes, align).unwrap());
                assert!(
                    found >= bytes && found.is_multiple_of(align) && found <= 2 * bytes.max(align),
                    "{align} {bytes} {found}"
                );
            }
        }
    }
}
