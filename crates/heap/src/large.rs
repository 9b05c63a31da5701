//! Blocks beyond the small classes: runs of pages, or of whole segments.

use crate::central::Central;
use crate::runs::Runs;
use crate::segment::{FIRST_PAGE, Kind, PAGE, SEGMENT, Segment, USABLE, Use, page};
use crate::{Block, Ground, Misuse, RANGE};

/// Where the block of a whole segment begins, if nothing else was asked for.
const OFFSET: usize = FIRST_PAGE * PAGE;

/// What a pointer leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A small block of this class.
    Small(usize),
    /// A run of so many pages.
    Pages(usize),
    /// The block of these segments.
    Whole(*mut Segment),
}

/// What the block at `pointer` is.
///
/// # Safety
/// The pointer must be the heap's, see [`crate::owns`].
#[inline]
pub(crate) unsafe fn find(pointer: *const u8) -> Result<Found, Misuse> {
    let address = pointer.addr();
    if !address.is_multiple_of(16) || address < RANGE.start + OFFSET {
        return Err(Misuse);
    }
    let segment = Segment::of(address);
    // SAFETY: the caller's promise: what it was given out from is mapped, and begins with a table.
    unsafe {
        match (*segment).kind() {
            Some(Kind::Whole) if (*segment).block == address => Ok(Found::Whole(segment)),
            Some(Kind::Pages) if segment.addr() + OFFSET <= address && address < segment.addr() + SEGMENT => {
                let entry = page(address);
                match (*entry).used {
                    Use::Small => Ok(Found::Small((*entry).class as usize)),
                    Use::Large if address.is_multiple_of(PAGE) => Ok(Found::Pages((*entry).length as usize)),
                    _ => Err(Misuse),
                }
            }
            _ => Err(Misuse),
        }
    }
}

impl Central {
    /// A block of `size` bytes, more than fit into a small one or with a larger alignment, a power of two.
    pub(crate) fn take_large(&mut self, size: usize, align: usize, ground: &mut dyn Ground) -> Option<Block> {
        let pages = size.checked_next_multiple_of(PAGE)? / PAGE;
        let align_pages = align.div_ceil(PAGE).max(1);
        if pages.checked_add(align_pages - 1)? > USABLE {
            return self.take_whole(size, align, ground);
        }
        let run = self.runs.take(pages.max(1), align_pages, &mut self.units, ground)?;
        // SAFETY: the run that was just taken.
        unsafe { Runs::mark(run.address, pages.max(1), Use::Large, 0) };
        Some(Block { address: run.address as *mut u8, zero: run.clean })
    }

    fn take_whole(&mut self, size: usize, align: usize, ground: &mut dyn Ground) -> Option<Block> {
        let offset = align.max(OFFSET);
        // A block that begins with a segment has its table in the one in front.
        let (front, align_units) = if align < SEGMENT { (offset, 1) } else { (SEGMENT, align / SEGMENT) };
        let units = front.checked_add(size)?.checked_next_multiple_of(SEGMENT)? / SEGMENT;
        let start = self.units.take_aligned(units, usize::from(front == SEGMENT), align_units, ground)?;
        let segment = start as *mut Segment;
        // SAFETY: segments of our own.
        unsafe {
            (*segment).set_kind(Kind::Whole);
            (*segment).units = units;
            (*segment).block = start + front;
            (*segment).bytes = units * SEGMENT - front;
        }
        Some(Block { address: (start + front) as *mut u8, zero: true })
    }

    /// Takes back what [`Self::take_large`] gave out.
    ///
    /// # Safety
    /// Nobody may use it any more.
    pub(crate) unsafe fn put_large(&mut self, pointer: *mut u8, found: Found, ground: &mut dyn Ground) {
        // SAFETY: the caller's promise.
        unsafe {
            match found {
                Found::Small(_) => {}
                Found::Pages(count) => self.runs.put(pointer.addr(), count, &mut self.units, ground),
                Found::Whole(segment) => {
                    let units = (*segment).units;
                    ground.discard(segment.addr(), units * SEGMENT);
                    self.units.put(segment.addr(), units);
                }
            }
        }
    }

    /// Makes a large block longer where it stands, if what lies behind it is free.
    ///
    /// # Safety
    /// It must be in use.
    pub(crate) unsafe fn extend(&mut self, pointer: *mut u8, found: Found, size: usize) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            match found {
                Found::Small(_) => false,
                Found::Pages(count) => {
                    let wanted = size.div_ceil(PAGE);
                    let extended = self.runs.extend(pointer.addr(), count, wanted);
                    if extended {
                        Runs::mark(pointer.addr(), wanted, Use::Large, 0);
                    }
                    extended
                }
                Found::Whole(segment) => {
                    let more = (size - (*segment).bytes).div_ceil(SEGMENT);
                    let end = segment.addr() + (*segment).units * SEGMENT;
                    let extended = self.units.extend(end, more);
                    if extended {
                        (*segment).units += more;
                        (*segment).bytes += more * SEGMENT;
                    }
                    extended
                }
            }
        }
    }
}
