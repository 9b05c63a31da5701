//! The full barrier between a store and a load that two threads need who must not miss
//! each other (Dekker), and which of them runs it.
//!
//! Where one side is hot, the other can run the barrier for both: `membarrier` makes every
//! running thread pass one. The hot side then only keeps the compiler from reordering.
//!
//! Apart from who waits for what: a wake-up (`wake.rs`) and a lock (`lock/favoured.rs`) are built on it.

use crate::primitive::{Ordering, compiler_fence, fence};
use core::sync::atomic::AtomicBool;

/// Who runs the full barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barrier {
    /// The hot and the cold side each their own.
    Symmetric,
    /// The cold side, for both, through `membarrier`.
    Asymmetric,
}

static REGISTERED: AtomicBool = AtomicBool::new(false);

/// Makes this process take part in barriers that another one runs for it. `false` if the kernel has none.
#[cfg(not(loom))]
pub fn register() -> bool {
    let registered = crate::syscall::membarrier_register();
    REGISTERED.store(registered, Ordering::Relaxed);
    registered
}

impl Barrier {
    /// For threads of this process among themselves: they have not begun when it is registered.
    #[inline(always)]
    pub fn of_process() -> Self {
        if REGISTERED.load(Ordering::Relaxed) { Self::Asymmetric } else { Self::Symmetric }
    }

    /// The hot side, between its store and its load.
    #[inline(always)]
    pub fn light(self) {
        match self {
            Self::Asymmetric => compiler_fence(Ordering::SeqCst),
            Self::Symmetric => fence(Ordering::SeqCst),
        }
    }

    /// The cold side, between its store and its load.
    pub fn heavy(self) {
        match self {
            #[cfg(not(loom))]
            Self::Asymmetric => {
                crate::syscall::membarrier();
            }
            _ => fence(Ordering::SeqCst),
        }
    }
}
