//! The heap against a naive oracle: blocks in use never overlap, keep what was
//! written, and lie at the same places whenever the same calls come in the same
//! order.

use crate::{
    ALIGN, Block, Cache, Central, Ground, Misuse, RANGE, Shared, allocate, allocate_aligned, allocate_at_hand, free,
    free_at_hand, reallocate, usable,
};
use proptest::prelude::*;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::boxed::Box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::vec::Vec;

/// Address space of a heap under test.
const SPAN: usize = 1 << 32;

struct System {
    start: usize,
    mapped: usize,
    limit: usize,
}

impl Ground for System {
    fn map(&mut self, address: usize, bytes: usize) -> bool {
        assert_eq!(address, self.start + self.mapped);
        if self.mapped + bytes > self.limit {
            return false;
        }
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
        // SAFETY: a range of the heap under test, which nothing else uses.
        let found = unsafe { mmap_anonymous(address as *mut _, bytes, ProtFlags::READ | ProtFlags::WRITE, flags) };
        assert_eq!(found.unwrap().addr(), address);
        self.mapped += bytes;
        true
    }

    fn discard(&mut self, address: usize, bytes: usize) {
        // SAFETY: as above.
        unsafe { madvise(address as *mut _, bytes, Advice::LinuxDontNeed).unwrap() };
    }

    fn relocate(&mut self, from: usize, to: usize, bytes: usize) {
        // SAFETY: as above; both ranges are mapped and belong to blocks in use.
        unsafe { core::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes) };
        self.discard(from, bytes);
    }
}

struct Heap {
    central: Box<Central>,
    system: System,
    caches: Vec<Cache>,
}

static NEXT: AtomicUsize = AtomicUsize::new(0);

impl Heap {
    fn new(threads: usize, limit: usize) -> Self {
        let start = RANGE.start + NEXT.fetch_add(1, Ordering::Relaxed) % 4096 * SPAN;
        let system = System { start, mapped: 0, limit };
        let caches = (0..threads).map(|_| Cache::new()).collect();
        Self { central: Box::new(Central::new(start..start + SPAN)), system, caches }
    }

    /// Runs `operation` as a thread; the last one has no cache.
    fn on<R>(&mut self, thread: usize, operation: impl FnOnce(Option<&mut Cache>, &mut Whole<'_>) -> R) -> R {
        let mut whole = Whole(&mut self.central, &mut self.system);
        operation(self.caches.get_mut(thread), &mut whole)
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        if self.system.mapped > 0 {
            // SAFETY: the blocks of this heap are forgotten with it.
            unsafe { munmap(self.system.start as *mut _, self.system.mapped).unwrap() };
        }
    }
}

struct Whole<'a>(&'a mut Central, &'a mut System);

impl Shared for Whole<'_> {
    fn with<R>(&mut self, operation: impl FnOnce(&mut Central, &mut dyn Ground) -> R) -> R {
        operation(self.0, self.1)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Take { thread: usize, size: usize, align: usize },
    Free { thread: usize, which: usize },
    Resize { thread: usize, which: usize, size: usize },
}

fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 0usize..300, 3 => 300usize..40_000, 2 => 40_000usize..5_000_000, 1 => 5_000_000usize..30_000_000]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let align = prop_oneof![4 => Just(ALIGN), 1 => (4u32..24).prop_map(|bits| 1usize << bits)];
    let step = prop_oneof![
        4 => (0usize..4, sizes(), align).prop_map(|(thread, size, align)| Step::Take { thread, size, align }),
        3 => (0usize..4, any::<usize>()).prop_map(|(thread, which)| Step::Free { thread, which }),
        1 => (0usize..4, any::<usize>(), sizes()).prop_map(|(thread, which, size)| Step::Resize { thread, which, size }),
    ];
    proptest::collection::vec(step, 1..250)
}

#[derive(Clone, Copy)]
struct Used {
    address: *mut u8,
    size: usize,
    mark: u8,
}

impl Used {
    /// The places of the block that are looked at: all of a small one, a part of each page of a large one.
    fn places(self) -> impl Iterator<Item = usize> {
        let step = if self.size < 2000 { 1 } else { 1021 };
        (0..self.size).step_by(step).chain(self.size.checked_sub(1))
    }

    fn fill(self) {
        for at in self.places() {
            // SAFETY: a block in use.
            unsafe { self.address.add(at).write(self.mark ^ at as u8) };
        }
    }

    fn check(self, upto: usize) {
        for at in self.places().filter(|&at| at < upto) {
            // SAFETY: a block in use.
            assert_eq!(unsafe { self.address.add(at).read() }, self.mark ^ at as u8, "byte {at} of {}", self.size);
        }
    }
}

/// Takes a block out of what a cache has at hand.
fn at_hand(cache: Option<&mut Cache>, size: usize, align: usize) -> Option<Block> {
    let address = cache.filter(|_| align <= ALIGN).map(|cache| allocate_at_hand(cache, size))?;
    (!address.is_null()).then_some(Block { address, zero: false })
}

/// Runs the steps and returns where each block was, counted from the start of the range. `quick` ones use what is at hand
/// where they can.
fn run(steps: &[Step], quick: bool) -> Vec<usize> {
    let mut heap = Heap::new(3, SPAN);
    let start = heap.system.start;
    let (mut used, mut trail) = (Vec::<Used>::new(), Vec::new());
    for (number, step) in steps.iter().enumerate() {
        let mark = number as u8;
        match *step {
            Step::Take { thread, size, align } => {
                let found = heap.on(thread, |cache, _| at_hand(cache.filter(|_| quick), size, align));
                let asked = || heap.on(thread, |cache, shared| allocate_aligned(cache, shared, size, align));
                let block = found.or_else(asked).unwrap();
                let new = Used { address: block.address, size, mark };
                assert!(block.address.addr().is_multiple_of(align), "{size} at {align}");
                // SAFETY: the block that was just given out.
                unsafe {
                    assert!(!block.zero || new.places().all(|at| block.address.add(at).read() == 0));
                    assert!(usable(block.address).unwrap() >= size);
                }
                check_apart(&used, new);
                used.push(new);
            }
            Step::Free { which, thread } if !used.is_empty() => {
                let old = used.swap_remove(which % used.len());
                old.check(old.size);
                // SAFETY: a block in use, which is forgotten.
                unsafe {
                    let hand = heap.caches.get_mut(thread).filter(|_| quick);
                    if !hand.is_some_and(|cache| free_at_hand(cache, old.address)) {
                        heap.on(thread, |cache, shared| free(cache, shared, old.address)).unwrap();
                    }
                }
            }
            Step::Resize { which, size, thread } if !used.is_empty() => {
                let old = used.swap_remove(which % used.len());
                // SAFETY: a block in use, whose old address is forgotten.
                let moved = unsafe { heap.on(thread, |cache, shared| reallocate(cache, shared, old.address, size)) };
                let new = Used { address: moved.unwrap().unwrap(), size, mark };
                Used { address: new.address, ..old }.check(size.min(old.size));
                check_apart(&used, new);
                used.push(new);
            }
            _ => continue,
        }
        if let Some(last) = used.last().filter(|last| last.mark == mark) {
            last.fill();
            trail.push(last.address.addr() - start);
        }
    }
    for block in &used {
        block.check(block.size);
    }
    trail
}

fn check_apart(used: &[Used], new: Used) {
    let (start, end) = (new.address.addr(), new.address.addr() + new.size.max(1));
    for other in used {
        let (from, to) = (other.address.addr(), other.address.addr() + other.size.max(1));
        assert!(end <= from || to <= start, "{start:#x}..{end:#x} and {from:#x}..{to:#x}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn blocks_keep_apart_and_lie_where_they_lay_before(steps in steps()) {
        let asked = run(&steps, false);
        prop_assert_eq!(&asked, &run(&steps, false));
        prop_assert_eq!(&asked, &run(&steps, true));
    }
}

#[test]
fn what_one_thread_allocates_and_another_frees_comes_round() {
    let mut heap = Heap::new(2, SPAN);
    for _ in 0..2000 {
        let blocks: Vec<_> =
            (0..100).map(|i| heap.on(0, |cache, shared| allocate(cache, shared, 16 + i % 3 * 200)).unwrap()).collect();
        for block in blocks {
            // SAFETY: blocks in use, which are forgotten.
            unsafe { heap.on(1, |cache, shared| free(cache, shared, block.address)).unwrap() };
        }
    }
    assert!(heap.system.mapped <= 32 << 20, "{} bytes for a hundred blocks in use", heap.system.mapped);
}

#[test]
fn freed_memory_is_used_again_at_any_size() {
    let mut heap = Heap::new(1, SPAN);
    for round in 0..200usize {
        for size in [40_000, 700_000 + round * 4096, 9_000_000 + round * 10_000] {
            let block = heap.on(0, |cache, shared| allocate(cache, shared, size)).unwrap();
            // SAFETY: a block in use, which is forgotten.
            unsafe { heap.on(0, |cache, shared| free(cache, shared, block.address)).unwrap() };
        }
    }
    assert!(heap.system.mapped <= 32 << 20, "{}", heap.system.mapped);
}

#[test]
fn the_cache_of_a_thread_that_ended_serves_the_next() {
    let mut heap = Heap::new(0, SPAN);
    let cache = Box::leak(Box::new(Cache::new()));
    let mut whole = Whole(&mut heap.central, &mut heap.system);
    let first = allocate(Some(cache), &mut whole, 100).unwrap().address;
    // SAFETY: a block in use, which is forgotten.
    unsafe { free(Some(cache), &mut whole, first).unwrap() };
    whole.with(|central, _| central.leave_cache(cache));
    let next = whole.with(|central, _| central.take_cache()).unwrap();
    assert_eq!(allocate(Some(next), &mut whole, 100).unwrap().address, first);
    assert!(whole.with(|central, _| central.take_cache()).is_none());
}

#[test]
fn what_is_freed_later_is_free_after_the_next_free() {
    let mut heap = Heap::new(1, SPAN);
    let take = |heap: &mut Heap, size| heap.on(0, |cache, shared| allocate(cache, shared, size)).unwrap().address;
    let (small, large, other) = (take(&mut heap, 100), take(&mut heap, 100_000), take(&mut heap, 16));
    // SAFETY: blocks in use, which are forgotten.
    unsafe {
        heap.caches[0].free_later(small);
        heap.caches[0].free_later(large);
        assert_ne!(take(&mut heap, 100), small);
        heap.on(0, |cache, shared| free(cache, shared, other)).unwrap();
    }
    assert_eq!((take(&mut heap, 100), take(&mut heap, 100_000)), (small, large));
}

#[test]
fn exhausted_memory_is_an_answer_and_what_was_given_out_stays() {
    let mut heap = Heap::new(1, 64 << 20);
    let mut blocks = Vec::new();
    while let Some(block) = heap.on(0, |cache, shared| allocate(cache, shared, 100_000)) {
        blocks.push(Used { address: block.address, size: 100_000, mark: blocks.len() as u8 });
        blocks.last().unwrap().fill();
    }
    assert!(blocks.len() > 500);
    for size in [50_000_000, usize::MAX, isize::MAX as usize] {
        assert_eq!(heap.on(0, |cache, shared| allocate(cache, shared, size)), None);
        // SAFETY: a block in use that stays.
        let moved = unsafe { heap.on(0, |cache, shared| reallocate(cache, shared, blocks[0].address, size)) };
        assert_eq!(moved, Ok(None));
    }
    for block in &blocks {
        block.check(100_000);
    }
}

#[test]
fn what_is_no_block_is_refused() {
    let mut heap = Heap::new(1, SPAN);
    let take = |heap: &mut Heap, size| heap.on(0, |cache, shared| allocate(cache, shared, size)).unwrap().address;
    let (small, large, whole) = (take(&mut heap, 100), take(&mut heap, 100_000), take(&mut heap, 10_000_000));
    for pointer in [small.wrapping_add(8), large.wrapping_add(16), whole.wrapping_add(4096), whole.wrapping_add(16)] {
        // SAFETY: addresses within the heap's mapped range.
        assert_eq!(unsafe { heap.on(0, |cache, shared| free(cache, shared, pointer)) }, Err(Misuse));
    }
    for pointer in [small, large, whole] {
        // SAFETY: blocks in use; the second time the heap says so.
        unsafe {
            assert_eq!(heap.on(0, |cache, shared| free(cache, shared, pointer)), Ok(()));
            assert!(!free_at_hand(&mut heap.caches[0], pointer));
            assert_eq!(heap.on(0, |cache, shared| free(cache, shared, pointer)), Err(Misuse));
        }
    }
}
