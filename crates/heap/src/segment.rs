//! Segments: four megabytes, at a multiple of four megabytes, with a table of
//! their pages in front. The address of a block tells its segment, and the
//! segment what the block is.

/// Bytes of a segment, and what it is aligned to.
pub(crate) const SEGMENT: usize = 4 << 20;
/// Bytes of a page of the heap.
pub(crate) const PAGE: usize = 8 << 10;
/// Pages of a segment.
pub(crate) const PAGES: usize = SEGMENT / PAGE;
/// The first of them that is not taken by the table.
pub(crate) const FIRST_PAGE: usize = 2;
/// Pages that can be given out.
pub(crate) const USABLE: usize = PAGES - FIRST_PAGE;

/// What a page belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Use {
    /// Nothing of the heap's.
    None = 0,
    /// A free run.
    Free,
    /// A block that is a run of pages.
    Large,
    /// A run of small blocks.
    Small,
}

/// A page, in the table of its segment. Of a run only the first and the last entry tell its length, and only the first
/// the rest; of small blocks every entry has the class.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Page {
    pub(crate) used: Use,
    pub(crate) class: u8,
    /// All of the free run reads as zero.
    pub(crate) clean: bool,
    /// Pages of the run.
    pub(crate) length: u16,
    /// The free runs of its length.
    pub(crate) next: *mut Page,
    pub(crate) previous: *mut Page,
}

/// What a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Kind {
    /// Divided into pages.
    Pages = 0x5047_0001,
    /// One block, in this segment and those behind it.
    Whole = 0x5047_0002,
}

/// The start of a segment.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Segment {
    kind: u32,
    /// Of a whole block: segments.
    pub(crate) units: usize,
    /// Of a whole block: its address.
    pub(crate) block: usize,
    /// Of a whole block: bytes that it has.
    pub(crate) bytes: usize,
    pub(crate) pages: [Page; PAGES],
}

const _: () = assert!(size_of::<Segment>() <= FIRST_PAGE * PAGE);

impl Segment {
    /// The segment that tells what the block at `address` is. A block that begins with a segment is told by the one
    /// in front of it.
    pub(crate) fn of(address: usize) -> *mut Self {
        let start = address & !(SEGMENT - 1);
        (if start == address { start - SEGMENT } else { start }) as *mut Self
    }

    /// The kind, if it is a segment of the heap at all.
    #[inline]
    pub(crate) fn kind(&self) -> Option<Kind> {
        const DIVIDED: u32 = Kind::Pages as u32;
        const WHOLE: u32 = Kind::Whole as u32;
        match self.kind {
            DIVIDED => Some(Kind::Pages),
            WHOLE => Some(Kind::Whole),
            _ => None,
        }
    }

    pub(crate) fn set_kind(&mut self, kind: Kind) {
        self.kind = kind as u32;
    }
}

/// The index, in its segment, of the page that holds `address`.
pub(crate) fn page_index(address: usize) -> usize {
    address % SEGMENT / PAGE
}

/// The entry of the page that holds `address`, in a segment divided into pages.
///
/// # Safety
/// `address` must lie in such a segment, behind its table.
pub(crate) unsafe fn page(address: usize) -> *mut Page {
    let segment = (address & !(SEGMENT - 1)) as *mut Segment;
    // SAFETY: the caller's promise.
    unsafe { (&raw mut (*segment).pages).cast::<Page>().add(page_index(address)) }
}

/// Where the page of an entry lies.
pub(crate) fn address_of(page: *mut Page) -> usize {
    let segment = page.addr() & !(SEGMENT - 1);
    segment + (page.addr() - segment - core::mem::offset_of!(Segment, pages)) / size_of::<Page>() * PAGE
}
