//! The time in code that nobody has looked through: the kernel can make `rdtsc` and
//! `rdtscp` fault wherever they stand.
//!
//! Apart from [`super::places`] because nothing is changed here, and because it costs:
//! each time when a processor turns to such a thread from one of another kind, or
//! idle, a control register is written, for which some virtual machines leave (2.5
//! µs). So it is for processes that make code themselves.

use super::{Kind, Outside};
use crate::decode::{Instruction, LONGEST};
use crate::signal::{Context, Info};
use crate::syscall::number::PRCTL;
use crate::syscall::syscall6;
use core::sync::atomic::{AtomicBool, Ordering};

/// `SIGSEGV`.
pub const SIGSEGV: u32 = 11;

const PR_GET_TSC: usize = 25;
const PR_SET_TSC: usize = 26;
const PR_TSC_ENABLE: usize = 1;
const PR_TSC_SIGSEGV: usize = 2;

/// Whether some thread of the process may not ask by itself.
static ON: AtomicBool = AtomicBool::new(false);

fn set(right: usize) -> bool {
    // SAFETY: no pointers.
    unsafe { syscall6(PRCTL, PR_SET_TSC, right, 0, 0, 0, 0) == 0 }
}

fn right() -> usize {
    let mut now = 0u32;
    // SAFETY: the kernel writes a number of four bytes.
    unsafe { syscall6(PRCTL, PR_GET_TSC, (&raw mut now).addr(), 0, 0, 0, 0) };
    now as usize
}

/// From here on the calling thread, and whichever it makes, can't ask for the time by itself.
pub fn forbid() -> bool {
    let done = set(PR_TSC_SIGSEGV);
    ON.fetch_or(done, Ordering::Release);
    done
}

/// Ends that for the calling thread: the kernel hands it on to another image.
pub fn allow() {
    set(PR_TSC_ENABLE);
}

/// Whether [`forbid`] was called in this process, or in the one that it is a fork of.
pub fn is_on() -> bool {
    ON.load(Ordering::Acquire)
}

/// Runs what asks for the time itself.
pub(super) fn while_allowed<R>(ask: impl FnOnce() -> R) -> R {
    if !is_on() || right() != PR_TSC_SIGSEGV {
        return ask();
    }
    allow();
    let answer = ask();
    set(PR_TSC_SIGSEGV);
    answer
}

/// The instruction whose fault this is, if it asks for the time.
///
/// # Safety
/// Both must be what the kernel tells a handler of `SIGSEGV`.
pub unsafe fn met(info: &Info, context: &Context) -> Option<Outside> {
    /// What the kernel says of faults that have no address.
    const SI_KERNEL: i32 = 0x80;
    const PAGE: usize = 4096;
    /// Bytes of these instructions, and of a prefix that nobody writes.
    const SHORT: usize = 4;
    if info.code != SI_KERNEL {
        return None;
    }
    let (place, mut code) = (context.place(), [0; LONGEST]);
    let mut length = code.len().min(PAGE - place % PAGE);
    // SAFETY: the processor has read the instruction here. What is cut off at the end of its page it has read, too.
    unsafe {
        core::ptr::copy_nonoverlapping(place as *const u8, code.as_mut_ptr(), length);
        while length < SHORT && Instruction::at(&code[..length]).is_none() {
            code[length] = ((place + length) as *const u8).read();
            length += 1;
        }
    }
    Outside::at(&code[..length]).filter(|found| matches!(found.kind, Kind::Time | Kind::TimeAndPlace))
}

/// Whether some of this code might ask for the time.
pub fn may_be_in(code: &[u8]) -> bool {
    let mut found = false;
    super::each_suspect(code, |at| found |= is_suspect(&code[at..]));
    found
}

/// Whether an opcode that begins here might ask for the time.
pub(super) fn is_suspect(code: &[u8]) -> bool {
    matches!(code, [0x0F, 0x31, ..] | [0x0F, 0x01, 0xF9, ..])
}

#[cfg(test)]
mod tests {
    use super::{allow, forbid, is_on, may_be_in};
    use crate::outside::{Kind, Outside};

    #[test]
    fn bytes_that_might_ask_are_seen_wherever_they_stand() {
        assert!(may_be_in(&[0x90, 0xB8, 0x0F, 0x31]) && may_be_in(&[0x0F, 0x01, 0xF9]));
        assert!(!may_be_in(&[0x0F, 0xA2, 0x0F, 0x01, 0xD0, 0x0F]));
    }

    #[test]
    fn who_may_not_ask_is_answered_by_us() {
        std::thread::spawn(|| {
            assert!(forbid() && is_on());
            let time = Outside::at(&[0x0F, 0x31]).filter(|found| found.kind == Kind::Time).expect("rdtsc");
            let (first, second) = (time.ask().value, time.ask().value);
            // The runtime of tests asks libc for the time.
            allow();
            assert!(first > 0 && second > first);
        })
        .join()
        .unwrap();
    }
}
