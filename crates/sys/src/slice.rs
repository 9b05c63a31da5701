//! For how long the kernel lets a thread compute while others want its processor.
//!
//! Apart because only a launcher asks for it. A thread with a short slice is let in soon
//! when it wakes, before others have used up theirs (Linux 6.12 and newer; older ones
//! take the request and do nothing).

use crate::syscall::{number, syscall6};

/// The shortest that the kernel grants, in nanoseconds.
const SHORT: u64 = 100_000;
const SCHED_OTHER: u32 = 0;

/// `struct sched_attr`, first version.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    slice: u64,
    deadline: u64,
    period: u64,
}

const SIZE: usize = size_of::<Attributes>();

/// While it lives the calling thread, and what it starts for good, has short time slices.
#[derive(Debug)]
pub struct Short {
    before: Option<Attributes>,
}

impl Short {
    /// Begins it, if the thread is scheduled in the ordinary way and the kernel lets it.
    #[must_use]
    pub fn begin() -> Self {
        let before = get().filter(|it| it.policy == SCHED_OTHER && set(Attributes { slice: SHORT, ..*it }));
        Self { before }
    }
}

impl Drop for Short {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            set(before);
        }
    }
}

fn get() -> Option<Attributes> {
    let mut attributes = Attributes::default();
    // SAFETY: the kernel writes so many bytes at most.
    let result = unsafe { syscall6(number::SCHED_GETATTR, 0, (&raw mut attributes).addr(), SIZE, 0, 0, 0) };
    (result == 0).then_some(attributes)
}

fn set(attributes: Attributes) -> bool {
    let attributes = Attributes { size: SIZE as u32, ..attributes };
    // SAFETY: the kernel reads as many bytes as the first word says.
    unsafe { syscall6(number::SCHED_SETATTR, 0, (&raw const attributes).addr(), 0, 0, 0, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::{SCHED_OTHER, SHORT, Short, get};

    #[test]
    fn a_thread_has_short_slices_for_a_while() {
        std::thread::spawn(|| {
            let before = get().expect("the kernel says it");
            let short = Short::begin();
            let within = get().expect("the kernel says it");
            let granted = within.slice == SHORT;
            assert!(granted || before.policy != SCHED_OTHER || within.slice == before.slice);
            drop(short);
            let after = get().expect("the kernel says it");
            assert_eq!((after.policy, after.nice, after.slice), (before.policy, before.nice, before.slice));
        })
        .join()
        .expect("no panic");
    }
}
