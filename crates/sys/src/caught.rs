//! Signals that come while a program is started: its signal mask is that of the
//! thread which starts it, so that they can't be blocked then, and must not end us.
//!
//! Apart from `signal` because this runs in the launcher. A handler does: a started
//! program has the default action instead, and what was ignored stays so.

use crate::dispatch::{KernelAction, action_of};
use crate::signal::{Context, Info, queue};
use crate::syscall::number::RT_SIGACTION;
use crate::syscall::{self, syscall6};
use core::sync::atomic::{AtomicU64, Ordering};

const SIGNALS: usize = 65;
/// `si_code` of the last one of each number, with [`CAME`].
static CODES: [AtomicU64; SIGNALS] = [const { AtomicU64::new(0) }; SIGNALS];
const CAME: u64 = 1 << 32;

/// While it lives, these signals are noted where they would end the process.
#[derive(Debug)]
pub struct Caught<'a> {
    numbers: &'a [i32],
    before: [bool; SIGNALS],
}

impl<'a> Caught<'a> {
    /// Those with `numbers`.
    pub fn begin(numbers: &'a [i32]) -> Self {
        let mut before = [false; SIGNALS];
        for &number in numbers {
            before[number as usize] = is_default(number);
            if before[number as usize] {
                act(number, &action_of(note));
            }
        }
        Self { numbers, before }
    }
}

impl Drop for Caught<'_> {
    /// To be done when they are blocked again: each one that came comes again.
    fn drop(&mut self) {
        let (pid, tid) = (syscall::getpid(), syscall::gettid());
        for &number in self.numbers.iter().filter(|&&number| self.before[number as usize]) {
            act(number, &KernelAction::DEFAULT);
            let came = CODES[number as usize].swap(0, Ordering::AcqRel);
            if came & CAME != 0 {
                queue(pid, tid, &Info::new(number, came as u32 as i32));
            }
        }
    }
}

unsafe extern "C" fn note(number: i32, info: *mut Info, _context: *mut Context) {
    // SAFETY: the kernel gives the information of this very signal.
    let code = unsafe { (*info).code };
    CODES[number as usize].store(CAME | u64::from(code as u32), Ordering::Release);
}

fn is_default(number: i32) -> bool {
    let mut action = [0usize; 4];
    // SAFETY: without a new action only the old one, four words, is written.
    unsafe { syscall6(RT_SIGACTION, number as usize, 0, (&raw mut action).addr(), 8, 0, 0) == 0 && action[0] == 0 }
}

fn act(number: i32, action: &KernelAction) {
    // SAFETY: the kernel reads the action; its handler stores one word of ours.
    unsafe { syscall6(RT_SIGACTION, number as usize, core::ptr::from_ref(action).addr(), 0, 8, 0, 0) };
}
