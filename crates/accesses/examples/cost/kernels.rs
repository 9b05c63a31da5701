//! The kernels: what each reads and writes is as in its C original, without bounds
//! checks.
//!
//! Apart from what runs them.

/// What a kernel calls where it synchronises.
pub(crate) type Boundary = extern "C" fn(u64);

/// What a kernel works on.
pub(crate) struct Work {
    boundary: Boundary,
    numbers: Vec<f64>,
    keys: Vec<u32>,
    other: Vec<u32>,
    links: Vec<Node>,
    locks: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Node {
    next: usize,
    key: u64,
    value: u64,
}

pub(crate) struct Kernel {
    pub(crate) name: &'static str,
    pub(crate) prepare: fn(Boundary) -> Work,
    pub(crate) run: extern "C" fn(*const Work) -> u64,
}

pub(crate) const ALL: [Kernel; 8] = [
    Kernel { name: "blocked LU", prepare: for_lu, run: lu },
    Kernel { name: "radix sort", prepare: for_radix, run: radix },
    Kernel { name: "hash table", prepare: for_hash, run: hash },
    Kernel { name: "streaming sum", prepare: for_streaming, run: sum },
    Kernel { name: "streaming copy", prepare: for_streaming, run: copy },
    Kernel { name: "resident sum", prepare: for_streaming, run: resident },
    Kernel { name: "pointer chasing", prepare: for_chasing, run: chase },
    Kernel { name: "strings", prepare: for_streaming, run: strings },
];

fn work(boundary: Boundary) -> Work {
    Work { boundary, numbers: Vec::new(), keys: Vec::new(), other: Vec::new(), links: Vec::new(), locks: Vec::new() }
}

fn random(seed: &mut u64) -> u64 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    *seed
}

const LU: usize = 384;
const BLOCK: usize = 16;

fn for_lu(boundary: Boundary) -> Work {
    let mut work = work(boundary);
    let mut seed = 1;
    work.numbers = (0..2 * LU * LU).map(|_| f64::from((random(&mut seed) >> 40) as u32) + 1.0).collect();
    for i in 0..LU {
        work.numbers[LU * LU + i * LU + i] += 1e9;
    }
    work
}

/// `to[i] += by * from[i]` over a row of a block: one element at a time, as compilers write it at -O2.
#[inline(always)]
unsafe fn add_row(to: *mut f64, from: *const f64, by: f64) {
    for i in 0..BLOCK {
        // SAFETY: the caller gives rows of a block. Volatile keeps the compiler from using vectors.
        unsafe { to.add(i).write_volatile(to.add(i).read_volatile() - by * from.add(i).read_volatile()) };
    }
}

#[inline(never)]
unsafe fn inner(a: *mut f64, i: usize, j: usize, k: usize) {
    // SAFETY: the indices are those of blocks.
    unsafe {
        for row in 0..BLOCK {
            for column in 0..BLOCK {
                let by = *a.add((i * BLOCK + row) * LU + k * BLOCK + column);
                add_row(a.add((i * BLOCK + row) * LU + j * BLOCK), a.add((k * BLOCK + column) * LU + j * BLOCK), by);
            }
        }
    }
}

extern "C" fn lu(work: *const Work) -> u64 {
    // SAFETY: the work is the caller's; its matrix is written behind a pointer to it.
    unsafe {
        let boundary = (*work).boundary;
        let source = (*work).numbers.as_ptr();
        let a = source.cast_mut();
        std::ptr::copy_nonoverlapping(source.add(LU * LU), a, LU * LU);
        let blocks = LU / BLOCK;
        for k in 0..blocks {
            for d in 0..BLOCK {
                let at = k * BLOCK + d;
                let pivot = *a.add(at * LU + at);
                for row in at + 1..LU {
                    let by = *a.add(row * LU + at) / pivot;
                    *a.add(row * LU + at) = by;
                    for column in at + 1..(k + 1) * BLOCK {
                        *a.add(row * LU + column) -= by * *a.add(at * LU + column);
                    }
                }
            }
            boundary(0);
            for j in k + 1..blocks {
                for d in 0..BLOCK {
                    for row in d + 1..BLOCK {
                        let by = *a.add((k * BLOCK + row) * LU + k * BLOCK + d);
                        add_row(a.add((k * BLOCK + row) * LU + j * BLOCK), a.add((k * BLOCK + d) * LU + j * BLOCK), by);
                    }
                }
            }
            boundary(0);
            for i in k + 1..blocks {
                for j in k + 1..blocks {
                    inner(a, i, j, k);
                }
            }
            boundary(0);
        }
        (0..LU).map(|i| (*a.add(i * LU + i)).to_bits()).fold(0, u64::wrapping_add)
    }
}

const KEYS: usize = 2_000_000;

fn for_radix(boundary: Boundary) -> Work {
    let mut work = work(boundary);
    let mut seed = 2;
    work.keys = (0..KEYS).map(|_| random(&mut seed) as u32).collect();
    work.other = vec![0; KEYS];
    work
}

extern "C" fn radix(work: *const Work) -> u64 {
    // SAFETY: the work is the caller's; its keys are written behind pointers to them.
    unsafe {
        let (boundary, keys, other) =
            ((*work).boundary, (*work).keys.as_ptr().cast_mut(), (*work).other.as_ptr().cast_mut());
        let (mut from, mut to) = (keys, other);
        for pass in 0..4 {
            let mut counts = [0u32; 256];
            for i in 0..KEYS {
                counts[(*from.add(i) >> (8 * pass) & 255) as usize] += 1;
            }
            boundary(0);
            let mut sum = 0;
            for count in &mut counts {
                sum += std::mem::replace(count, sum);
            }
            boundary(0);
            for i in 0..KEYS {
                let key = *from.add(i);
                let place = &mut counts[(key >> (8 * pass) & 255) as usize];
                *to.add(*place as usize) = key;
                *place += 1;
            }
            boundary(0);
            std::mem::swap(&mut from, &mut to);
        }
        (0..KEYS).step_by(1000).fold(0, |sum, i| sum * 31 + u64::from(*from.add(i)))
    }
}

const BUCKETS: usize = 1 << 14;
const OPERATIONS: usize = 400_000;

fn for_hash(boundary: Boundary) -> Work {
    let mut work = work(boundary);
    work.locks = vec![0; 256 * 16];
    work.links = vec![Node { next: usize::MAX, key: 0, value: 0 }; BUCKETS * 8];
    work
}

extern "C" fn hash(work: *const Work) -> u64 {
    // SAFETY: the work is the caller's; its nodes are written behind a pointer to them.
    unsafe {
        let (boundary, nodes) = ((*work).boundary, (*work).links.as_ptr().cast_mut());
        let locks = (*work).locks.as_ptr().cast_mut();
        let (mut seed, mut sum, mut used) = (3, 0u64, BUCKETS);
        for i in 0..BUCKETS {
            (*nodes.add(i)).next = usize::MAX;
        }
        for _ in 0..OPERATIONS {
            let key = random(&mut seed) % 100_000;
            let bucket = key as usize * 40503 % BUCKETS;
            boundary(bucket as u64 % 256);
            *locks.add(bucket % 256 * 16) += 1;
            let mut at = bucket;
            loop {
                let node = &mut *nodes.add(at);
                if node.key == key {
                    node.value += 1;
                    sum = sum.wrapping_add(node.value);
                    break;
                }
                if node.next == usize::MAX {
                    if used < BUCKETS * 8 {
                        *nodes.add(used) = Node { next: usize::MAX, key, value: 1 };
                        node.next = used;
                        used += 1;
                    }
                    break;
                }
                at = node.next;
            }
            boundary(bucket as u64 % 256);
        }
        for i in 0..used {
            *nodes.add(i) = Node { next: usize::MAX, key: 0, value: 0 };
        }
        sum
    }
}

const STREAM: usize = 4_000_000;

fn for_streaming(boundary: Boundary) -> Work {
    let mut work = work(boundary);
    work.numbers = (0..STREAM).map(|n| f64::from(n as u32)).collect();
    work
}

extern "C" fn sum(work: *const Work) -> u64 {
    // SAFETY: the work is the caller's.
    let (boundary, numbers) = unsafe { ((*work).boundary, &(*work).numbers) };
    let mut sum = 0.0;
    for part in numbers.chunks_exact(STREAM / 16) {
        for number in part {
            sum += number;
        }
        boundary(0);
    }
    sum.to_bits()
}

extern "C" fn copy(work: *const Work) -> u64 {
    // SAFETY: the work is the caller's; the halves are apart.
    unsafe {
        let (boundary, numbers) = ((*work).boundary, (*work).numbers.as_ptr().cast_mut());
        let half = STREAM / 2;
        for part in 0..8 {
            for i in part * half / 8..(part + 1) * half / 8 {
                numbers.add(half + i).write_volatile(numbers.add(i).read_volatile());
            }
            boundary(0);
        }
        (*numbers.add(STREAM - 1)).to_bits()
    }
}

extern "C" fn resident(work: *const Work) -> u64 {
    // SAFETY: the work is the caller's.
    let numbers = unsafe { &(&(*work).numbers)[..2048] };
    let mut sum = 0.0;
    for _ in 0..2000 {
        for number in numbers {
            sum += number;
        }
    }
    sum.to_bits()
}

const CHAIN: usize = 1 << 18;

fn for_chasing(boundary: Boundary) -> Work {
    let mut work = work(boundary);
    let mut order: Vec<usize> = (0..CHAIN).collect();
    let mut seed = 4;
    for i in (1..CHAIN).rev() {
        order.swap(i, random(&mut seed) as usize % (i + 1));
    }
    work.links = vec![Node { next: 0, key: 1, value: 2 }; CHAIN];
    for pair in order.windows(2) {
        work.links[pair[0]].next = pair[1];
    }
    work.links[order[CHAIN - 1]].next = order[0];
    work
}

extern "C" fn chase(work: *const Work) -> u64 {
    // SAFETY: the work is the caller's; the links stay within it.
    unsafe {
        let (boundary, nodes) = ((*work).boundary, (*work).links.as_ptr());
        let (mut at, mut sum) = (0, 0u64);
        for part in 0..8 {
            for _ in 0..CHAIN / 4 {
                let node = &*nodes.add(at);
                sum += node.key;
                at = node.next;
            }
            boundary(part);
        }
        sum
    }
}

extern "C" fn strings(work: *const Work) -> u64 {
    // SAFETY: the work is the caller's; all ranges are within its numbers.
    unsafe {
        let boundary = (*work).boundary;
        let bytes = (*work).numbers.as_ptr().cast_mut().cast::<u8>();
        let mut sum = 0;
        for round in 0..40_000usize {
            let text = bytes.add(round % 64 * 4096);
            libc::memset(text.cast(), 1 + (round % 100) as i32, 300);
            *text.add(300) = 0;
            libc::memcpy(text.add(1001).cast(), text.cast(), 301);
            sum += libc::strlen(text.add(1001).cast()) as u64;
            sum += u64::from(libc::memcmp(text.cast(), text.add(1001).cast(), 300) == 0);
            if round % 100 == 0 {
                boundary(0);
            }
        }
        sum
    }
}
