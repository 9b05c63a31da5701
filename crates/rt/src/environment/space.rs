//! Where new mappings of the program go in a recording.
//!
//! The kernel's choice depends on chance and on limits; this one on what the
//! program did before. Only the recording chooses: a replay has its addresses.
//! What is given back is used again, the smallest piece that is large enough
//! first; what lies there unexpectedly is stepped over.

use super::segments::Attached;
use core::ops::Range;
use relive_sys::start::{AREA, Break, Handover, LOW, WIDE};
use relive_sys::syscall::number::{BRK, MMAP, MREMAP, MUNMAP, SHMAT};
use relive_sys::syscall::{self, syscall6};

const EEXIST: isize = -17;
const ENOMEM: isize = -12;
const PAGE: usize = 4096;
const HUGE_PAGE: usize = 2 << 20;
const MAP_FIXED: usize = 0x10;
const MAP_ANONYMOUS: usize = 0x20;
const MAP_32BIT: usize = 0x40;
const MAP_HUGETLB: usize = 0x4_0000;
const MAP_FIXED_NOREPLACE: usize = 0x10_0000;
const MREMAP_MAYMOVE: usize = 1;
const MREMAP_FIXED: usize = 2;
const MREMAP_DONTUNMAP: usize = 4;
const SHM_REMAP: usize = 0o40000;
/// Pieces that are remembered; when there are more, the smallest is forgotten.
const PIECES: usize = 1024;

/// A range of addresses that is given out from the top down.
#[derive(Debug)]
struct Area {
    start: usize,
    /// Nothing below this was given out.
    lowest: usize,
    free: [Range<usize>; PIECES],
    count: usize,
}

impl Area {
    const fn new(range: Range<usize>) -> Self {
        Self { start: range.start, lowest: range.end, free: [const { 0..0 }; PIECES], count: 0 }
    }

    /// A range that is free as far as is known.
    fn take(&mut self, bytes: usize, align: usize) -> Option<usize> {
        let place = |piece: &Range<usize>| {
            let at = piece.end.checked_sub(bytes)? & !(align - 1);
            (at >= piece.start).then_some(at)
        };
        let pieces = self.free[..self.count].iter().enumerate();
        let best =
            pieces.filter_map(|(i, piece)| Some((piece.len(), usize::MAX - piece.start, i, place(piece)?))).min();
        if let Some((_, _, index, at)) = best {
            let piece = self.free[index].clone();
            self.count -= 1;
            self.free.swap(index, self.count);
            self.keep(piece.start..at);
            self.keep(at + bytes..piece.end);
            return Some(at);
        }
        let at = place(&(self.start..self.lowest))?;
        let above = at + bytes..self.lowest;
        self.lowest = at;
        self.keep(above);
        Some(at)
    }

    /// What was given out is free again.
    fn give(&mut self, range: Range<usize>) {
        let mut range = range.start.max(self.lowest)..range.end;
        let mut index = 0;
        while index < self.count {
            let piece = &self.free[index];
            if piece.start <= range.end && range.start <= piece.end {
                range = range.start.min(piece.start)..range.end.max(piece.end);
                self.count -= 1;
                self.free.swap(index, self.count);
            } else {
                index += 1;
            }
        }
        self.keep(range);
    }

    fn keep(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        if self.count < PIECES {
            self.free[self.count] = range;
            self.count += 1;
        } else if let Some(smallest) = self.free.iter_mut().min_by_key(|piece| piece.end - piece.start)
            && smallest.len() < range.len()
        {
            *smallest = range;
        }
    }
}

/// The address space of the program.
#[derive(Debug)]
pub(super) struct Space {
    /// Whether addresses are ours to choose.
    chosen: bool,
    high: Area,
    wide: Area,
    low: Area,
    end_of_data: Break,
    /// System V segments.
    pub(super) attached: Attached,
}

impl Space {
    pub(super) const fn new() -> Self {
        Self {
            chosen: false,
            high: Area::new(AREA),
            wide: Area::new(WIDE),
            low: Area::new(LOW),
            end_of_data: Break::FAR,
            attached: Attached::new(),
        }
    }

    /// Goes on where the starter was.
    pub(super) fn take_over(&mut self, handover: &Handover) {
        self.chosen = true;
        self.high.lowest = handover.lowest;
        self.end_of_data = handover.end_of_data;
    }

    /// `brk`, in a recording and in a replay.
    ///
    /// # Safety
    /// As for the call itself.
    pub(super) unsafe fn set_break(&mut self, arguments: &[usize; 6]) -> isize {
        // SAFETY: the caller's promise.
        unsafe { if self.chosen { self.end_of_data.set(arguments[0]) as isize } else { call(BRK, arguments) } }
    }

    /// `mmap` in a recording.
    ///
    /// # Safety
    /// As for the call itself.
    pub(super) unsafe fn map(&mut self, arguments: &[usize; 6]) -> isize {
        let [hint, length, _, flags, ..] = *arguments;
        // SAFETY: the caller's promise, for each call.
        unsafe {
            let bytes = length.checked_next_multiple_of(PAGE).filter(|&bytes| bytes > 0);
            let Some(bytes) = bytes.filter(|_| self.chosen && flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) == 0) else {
                return call(MMAP, arguments);
            };
            let at = |address: usize| call(MMAP, &with(arguments, [(0, address), (3, flags | MAP_FIXED_NOREPLACE)]));
            if is_free_for_all(hint & !(PAGE - 1), bytes, flags & MAP_32BIT != 0) {
                let found = at(hint & !(PAGE - 1));
                if found >= 0 {
                    return found;
                }
            }
            let align = alignment(flags, bytes);
            if flags & MAP_32BIT == 0 { self.place(bytes, align, at) } else { place(&mut self.low, bytes, align, at) }
        }
    }

    /// `munmap` in a recording.
    ///
    /// # Safety
    /// As for the call itself.
    pub(super) unsafe fn unmap(&mut self, arguments: &[usize; 6]) -> isize {
        // SAFETY: the caller's promise.
        let result = unsafe { call(MUNMAP, arguments) };
        if result == 0 {
            self.give(arguments[0], arguments[1]);
        }
        result
    }

    /// `mremap` in a recording.
    ///
    /// # Safety
    /// As for the call itself.
    pub(super) unsafe fn remap(&mut self, arguments: &[usize; 6]) -> isize {
        let [old, old_length, new_length, flags, ..] = *arguments;
        // SAFETY: the caller's promise, for each call.
        unsafe {
            let moves = flags & MREMAP_MAYMOVE != 0 && flags & MREMAP_FIXED == 0;
            let stays = flags & MREMAP_DONTUNMAP == 0 && old_length != 0;
            if !self.chosen || !moves {
                let result = call(MREMAP, arguments);
                if result == old as isize && new_length < old_length {
                    self.give(old + new_length.next_multiple_of(PAGE), old_length - new_length);
                }
                return result;
            }
            if stays {
                let result = call(MREMAP, &with(arguments, [(3, 0), (4, 0)]));
                if result != ENOMEM {
                    if result > 0 && new_length < old_length {
                        self.give(old + new_length.next_multiple_of(PAGE), old_length - new_length);
                    }
                    return result;
                }
            }
            let Some(bytes) = new_length.checked_next_multiple_of(PAGE) else { return call(MREMAP, arguments) };
            let reserve = [0, bytes, 0, 2 | MAP_ANONYMOUS | 0x4000, usize::MAX, 0];
            let align = alignment(MAP_ANONYMOUS, bytes);
            let to = self.place(bytes, align, |at| {
                call(MMAP, &with(&reserve, [(0, at), (3, reserve[3] | MAP_FIXED_NOREPLACE)]))
            });
            if to < 0 {
                return to;
            }
            let result = call(MREMAP, &with(arguments, [(3, flags | MREMAP_FIXED), (4, to as usize)]));
            if result < 0 {
                syscall::munmap(to as usize, bytes);
                self.give(to as usize, bytes);
            } else if stays {
                self.give(old, old_length);
            }
            result
        }
    }

    /// An attachment of a System V segment of so many bytes, in a recording.
    ///
    /// # Safety
    /// As for the call itself.
    pub(super) unsafe fn attach(&mut self, arguments: &[usize; 6], bytes: usize) -> isize {
        let [_, address, flags, ..] = *arguments;
        let bytes = bytes.next_multiple_of(PAGE);
        // SAFETY: the caller's promise, for each call.
        unsafe {
            if !self.chosen || address != 0 || flags & SHM_REMAP != 0 || bytes == 0 {
                return call(SHMAT, arguments);
            }
            let reserve = [0, bytes, 0, 2 | MAP_ANONYMOUS | 0x4000, usize::MAX, 0];
            let to = self.place(bytes, alignment(MAP_ANONYMOUS, bytes), |at| {
                call(MMAP, &with(&reserve, [(0, at), (3, reserve[3] | MAP_FIXED_NOREPLACE)]))
            });
            if to < 0 {
                return to;
            }
            let result = call(SHMAT, &with(arguments, [(1, to as usize), (2, flags | SHM_REMAP)]));
            if result < 0 {
                syscall::munmap(to as usize, bytes);
                self.give(to as usize, bytes);
            }
            result
        }
    }

    fn place(&mut self, bytes: usize, align: usize, map: impl Fn(usize) -> isize) -> isize {
        match place(&mut self.high, bytes, align, &map) {
            ENOMEM => place(&mut self.wide, bytes, align, &map),
            found => found,
        }
    }

    pub(super) fn give(&mut self, start: usize, length: usize) {
        let Some(end) = start.checked_add(length).and_then(|end| end.checked_next_multiple_of(PAGE)) else { return };
        for (area, range) in [(&mut self.high, AREA), (&mut self.wide, WIDE), (&mut self.low, LOW)] {
            area.give(start.max(range.start)..end.min(range.end));
        }
    }
}

/// Where the program may name an address: not where we, or what we hand out ourselves high up, may be one day, nor
/// above the lowest two gigabytes if it asks for memory there.
fn is_free_for_all(address: usize, bytes: usize, is_low: bool) -> bool {
    const OURS: Range<usize> = 0x1FF0_0000_0000..0x5000_0000_0000;
    let end = address.saturating_add(bytes);
    address != 0 && (end <= OURS.start || address >= OURS.end) && (!is_low || end <= LOW.end)
}

fn alignment(flags: usize, bytes: usize) -> usize {
    const HUGE_SHIFT: usize = 26;
    match flags >> HUGE_SHIFT & 63 {
        shift @ 12.. if flags & MAP_HUGETLB != 0 => 1 << shift,
        _ if flags & MAP_HUGETLB != 0 => HUGE_PAGE,
        // As newer kernels do: such memory can be had in large pages.
        _ if flags & MAP_ANONYMOUS != 0 && bytes.is_multiple_of(HUGE_PAGE) => HUGE_PAGE,
        _ => PAGE,
    }
}

/// Tries places until one is free.
fn place(area: &mut Area, bytes: usize, align: usize, map: impl Fn(usize) -> isize) -> isize {
    let mut step = bytes;
    loop {
        let Some(at) = area.take(bytes, align) else { return ENOMEM };
        let found = map(at);
        if found == EEXIST {
            // Something that we know nothing of: further on with longer and longer steps.
            area.lowest = area.lowest.min(at.saturating_sub(step)).max(area.start);
            step = step.saturating_mul(2);
            continue;
        }
        if found < 0 {
            area.give(at..at + bytes);
        }
        return found;
    }
}

fn with(arguments: &[usize; 6], changed: [(usize, usize); 2]) -> [usize; 6] {
    let mut given = *arguments;
    for (index, value) in changed {
        given[index] = value;
    }
    given
}

unsafe fn call(number: usize, arguments: &[usize; 6]) -> isize {
    let a = arguments;
    // SAFETY: the caller's promise.
    unsafe { syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]) }
}

#[cfg(test)]
mod tests {
    use super::{AREA, Area, MMAP, Space, alignment};

    #[test]
    fn what_was_given_back_is_used_again_and_grows_together() {
        let mut area = Area::new(0x10_0000..0x20_0000);
        let [a, b, c] = [(); 3].map(|()| area.take(0x1000, 0x1000).unwrap());
        assert_eq!([a, b, c], [0x1F_F000, 0x1F_E000, 0x1F_D000]);
        area.give(a..a + 0x1000);
        area.give(c..c + 0x1000);
        assert_eq!(area.take(0x1000, 0x1000), Some(a), "of two that fit the higher one");
        area.give(a..a + 0x1000);
        area.give(b..b + 0x1000);
        assert_eq!((area.count, area.free[0].clone()), (1, c..a + 0x1000));
        assert_eq!(area.take(0x3000, 0x1000), Some(c));
        assert_eq!(area.take(0x1000, 0x1_0000), Some(0x1F_0000), "aligned");
        assert_eq!(area.take(0x1000, 0x1000), Some(0x1F_C000), "what the alignment left over");
        assert_eq!(area.take(0x1_0000_0000, 0x1000), None);
    }

    #[test]
    fn mappings_follow_one_another_and_step_over_what_is_there() {
        const PRIVATE_ANONYMOUS: usize = 2 | 0x20;
        let mut space = Space::new();
        space.chosen = true;
        let top = AREA.end - (1 << 36);
        space.high.lowest = top;
        let arguments = [0, 5000, 3, PRIVATE_ANONYMOUS, usize::MAX, 0];
        // SAFETY: new mappings where nothing of this process lies, all given back.
        unsafe {
            let first = space.map(&arguments);
            assert_eq!(first as usize, top - 8192);
            let between = super::call(MMAP, &[top - 16384, 4096, 3, PRIVATE_ANONYMOUS | 0x10_0000, usize::MAX, 0]);
            assert_eq!(between as usize, top - 16384);
            let second = space.map(&arguments);
            assert!(second > 0 && (second as usize) < top - 16384, "{second:x}");
            let moved = space.remap(&[second as usize, 8192, 1 << 20, 1, 0, 0]);
            assert!(moved > 0);
            assert_eq!(space.unmap(&[first as usize, 8192, 0, 0, 0, 0]), 0);
            assert_eq!(space.map(&arguments), first, "given back and used again");
            for (start, length) in [(first, 8192), (between, 4096), (moved, 1 << 20)] {
                assert_eq!(space.unmap(&[start as usize, length, 0, 0, 0, 0]), 0);
            }
        }
    }

    #[test]
    fn large_memory_is_aligned_for_large_pages() {
        assert_eq!(alignment(0x20, 4 << 20), 2 << 20);
        assert_eq!(alignment(0x20, 5000), 4096);
        assert_eq!(alignment(0x20 | 0x4_0000 | 30 << 26, 4096), 1 << 30);
    }
}
