//! A watch on one instruction of a running program: which of its many passages is
//! the one whose registers and memory are known?
//!
//! A breakpoint by a trap costs two microseconds a passage, and a loop passes
//! millions of times. So a jump stands in the instruction's place, and a stub of
//! ours, near enough for it, compares and goes on:
//!
//! ```text
//! place:  jmp  entry            entry:  instructions before the watched one that the jump took away as well
//!                                       save rcx, rdx below the red zone
//!                                       rcx = register - expected; jrcxz next; jmp miss   (for each check)
//!                                       syscall                    a passage to look at
//!                               miss:   restore
//!                               apart:  what the jump took away; jmp back
//! ```
//!
//! Loads, `lea` and `jrcxz` leave the flags alone. The call at the end is not one
//! of this library's code, so that [`crate::dispatch`] hands it over with all other
//! registers as the program had them. The stack pointer is compared first: no other
//! thread comes further than that.
//!
//! Where the jump does not fit, a trap of one byte stands in its place, and its
//! handler sends the thread to the stub.

pub mod site;

use crate::dispatch::{Handler, KernelAction, action_of};
use crate::signal::Context;
use crate::start::{PIECES, PROGRAM};
use crate::syscall::number::{MMAP, MPROTECT, RT_SIGACTION};
use crate::syscall::{self, syscall6};
use core::ops::Range;

/// What a check looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A general register, by its index in the kernel's context.
    Register(usize),
    /// The lowest eight bytes of a vector register.
    Vector(usize),
    /// 1, 2, 4 or 8 bytes of memory.
    Memory(usize, usize),
}

/// One thing that must be as expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check {
    /// What is looked at.
    pub what: What,
    /// What it must be.
    pub expected: u64,
}

/// Instructions watched in one process at the same time.
pub const STUBS: usize = 64;
/// Checks of a stub, at most.
pub const CHECKS: usize = 40;
/// Bytes of the jump.
pub const JUMP_BYTES: usize = 5;
const STUB_BYTES: usize = 4096;
const MISS: usize = 112;
const ENTRY: usize = 144;
const CHECK_BYTES: usize = 45;
/// Bytes of code that runs before the comparison, at most.
pub const LEAD_BYTES: usize = 64;
const _: () = assert!(ENTRY + LEAD_BYTES + 64 + CHECKS * CHECK_BYTES <= STUB_BYTES);
/// Where stubs lie: near a program that says where it wants to be, near one that does not, and near libraries; the
/// runtime gives these addresses to nobody.
const HOMES: [usize; 3] = [0x3FF0_0000, PROGRAM - 0x20_0000, PIECES.end];
const HOME_BYTES: usize = STUBS * STUB_BYTES;
/// A trap.
pub const TRAP: u8 = 0xCC;
/// `SIGTRAP`.
pub const SIGTRAP: u32 = 5;
/// Numbers of the registers of the kernel's context.
const NUMBERS: [u8; 16] = [8, 9, 10, 11, 12, 13, 14, 15, 7, 6, 5, 3, 2, 0, 1, 4];
const RDX: usize = 12;
const RCX: usize = 14;
const RSP: usize = 15;
const R11: usize = 3;
/// The stub's own part of the stack, beyond the red zone.
const FRAME: i32 = 160;

/// Where the stub number `index` for the instruction at `place` would be, with `mapped` saying which homes are there
/// already. `None` if no home is near, or can't be had.
pub fn stub_near(place: usize, index: usize, mapped: &mut [bool; HOMES.len()]) -> Option<usize> {
    const REACH: usize = 0x7F00_0000;
    const ALL: usize = 7;
    const FLAGS: usize = 2 | 0x20 | 0x10_0000;
    let home = HOMES.iter().position(|&home| home.abs_diff(place) < REACH)?;
    if !mapped[home] {
        // Writable and executable: other threads may be in one stub while another is written.
        // SAFETY: a new mapping at a free address, or none.
        let found = unsafe { syscall6(MMAP, HOMES[home], HOME_BYTES, ALL, FLAGS, usize::MAX, 0) };
        mapped[home] = found == HOMES[home] as isize;
    }
    mapped[home].then_some(HOMES[home] + index * STUB_BYTES)
}

/// Whether a trapped call is one of a stub.
pub fn is_stub(place: usize) -> bool {
    HOMES.iter().any(|&home| (home..home + HOME_BYTES).contains(&place))
}

/// Whether `place` is in this stub, which may be none yet.
pub fn in_stub(stub: usize, place: usize) -> bool {
    stub != 0 && (stub..stub + STUB_BYTES).contains(&place)
}

/// Where a stub begins to compare.
pub fn entry_of(stub: usize) -> usize {
    stub + ENTRY
}

/// Machine code that is being written.
struct Writer(usize);

impl Writer {
    /// # Safety
    /// There must be writable memory of a stub where it stands.
    unsafe fn put(&mut self, bytes: &[u8]) {
        // SAFETY: the caller's promise.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0 as *mut u8, bytes.len()) };
        self.0 += bytes.len();
    }

    unsafe fn jump(&mut self, to: usize) {
        let distance = (to as isize - (self.0 + JUMP_BYTES) as isize) as i32;
        // SAFETY: the caller's promise, here and below.
        unsafe {
            self.put(&[0xE9]);
            self.put(&distance.to_le_bytes());
        }
    }

    /// rcx becomes what is looked at.
    unsafe fn load(&mut self, what: What) {
        let high = |number: u8| if number >= 8 { 4 } else { 0 };
        // SAFETY: the caller's promise.
        unsafe {
            match what {
                What::Register(RCX) => self.put(&[0x48, 0x8B, 0x0C, 0x24]),
                What::Register(RDX) => self.put(&[0x48, 0x8B, 0x4C, 0x24, 0x08]),
                What::Register(RSP) => {
                    self.put(&[0x48, 0x8D, 0x8C, 0x24]);
                    self.put(&FRAME.to_le_bytes());
                }
                What::Register(index) => {
                    let number = NUMBERS[index];
                    self.put(&[0x48 | high(number), 0x89, 0xC1 | (number & 7) << 3]);
                }
                What::Vector(index) => {
                    let number = index as u8;
                    self.put(&[0x66, 0x48 | high(number), 0x0F, 0x7E, 0xC1 | (number & 7) << 3]);
                }
                What::Memory(address, length) => {
                    self.put(&[0x48, 0xB9]);
                    self.put(&address.to_le_bytes());
                    self.put(match length {
                        8 => &[0x48, 0x8B, 0x09],
                        4 => &[0x8B, 0x09],
                        2 => &[0x0F, 0xB7, 0x09],
                        _ => &[0x0F, 0xB6, 0x09],
                    });
                }
            }
        }
    }
}

/// Writes a stub. Its owner may be in it, at its end; other threads only before the second check.
///
/// # Panics
/// If something does not fit in.
///
/// # Safety
/// `at` must come from [`stub_near`], `apart` fit in before the part that compares.
pub unsafe fn write_stub(at: usize, [lead, apart]: [&[u8]; 2], back: usize, checks: &[Check]) {
    assert!(apart.len() + JUMP_BYTES <= MISS && lead.len() <= LEAD_BYTES && checks.len() <= CHECKS, "a stub has room");
    // SAFETY: the caller's promise: memory of a stub, in which so much has room.
    unsafe {
        let mut writer = Writer(at);
        writer.put(apart);
        writer.jump(back);
        let mut writer = Writer(at + MISS);
        writer.put(&[0x48, 0x8B, 0x0C, 0x24, 0x48, 0x8B, 0x54, 0x24, 0x08, 0x48, 0x8D, 0xA4, 0x24]);
        writer.put(&FRAME.to_le_bytes());
        writer.jump(at);
        let mut writer = Writer(at + ENTRY);
        writer.put(lead);
        writer.put(&[0x48, 0x8D, 0xA4, 0x24]);
        writer.put(&(-FRAME).to_le_bytes());
        writer.put(&[0x48, 0x89, 0x0C, 0x24, 0x48, 0x89, 0x54, 0x24, 0x08]);
        for check in checks {
            writer.load(check.what);
            writer.put(&[0x48, 0xBA]);
            writer.put(&check.expected.wrapping_neg().to_le_bytes());
            writer.put(&[0x48, 0x8D, 0x0C, 0x11, 0xE3, JUMP_BYTES as u8]);
            writer.jump(at + MISS);
        }
        // mov [rsp + 16], r11; syscall; ud2
        writer.put(&[0x4C, 0x89, 0x5C, 0x24, 0x10, 0x0F, 0x05, 0x0F, 0x0B]);
    }
}

/// The registers of a thread at a stub's call become those that the program had at the instruction.
///
/// # Safety
/// The context must be of a call for which [`is_stub`] holds.
pub unsafe fn leave_stub(context: &mut Context) {
    let frame = context.register(RSP);
    // SAFETY: the stub has laid three words there.
    let [rcx, rdx, r11] = unsafe { *(frame as *const [u64; 3]) };
    context.set_register(RCX, rcx);
    context.set_register(RDX, rdx);
    context.set_register(R11, r11);
    context.set_register(RSP, frame + FRAME as u64);
}

/// Bytes that a change of code takes, at most.
pub type Taken = [u8; 8];

/// Lets the instruction at `place` go to the stub `at`, or raise a trap, if `room` is less than a jump takes. `None` if
/// its code can't be changed.
///
/// # Safety
/// Nothing may jump into the bytes behind the first, and no other thread be there, unless they are of one instruction.
pub unsafe fn watch(place: usize, at: usize, room: usize) -> Option<Taken> {
    let mut before = Taken::default();
    // SAFETY: code that the caller's thread is about to run.
    unsafe { core::ptr::copy_nonoverlapping(place as *const u8, before.as_mut_ptr(), room.min(JUMP_BYTES)) };
    if room < JUMP_BYTES {
        return write_code(place, &[TRAP]).then_some(before);
    }
    let distance = (at + ENTRY) as isize - (place + JUMP_BYTES) as isize;
    let mut jump = [0xE9, 0, 0, 0, 0];
    jump[1..].copy_from_slice(&(distance as i32).to_le_bytes());
    replace(place, &jump).then_some(before)
}

/// Ends [`watch`].
///
/// # Safety
/// `before` must be what it returned.
pub unsafe fn unwatch(place: usize, room: usize, before: &Taken) {
    if room < JUMP_BYTES {
        write_code(place, &before[..1]);
    } else {
        replace(place, &before[..JUMP_BYTES]);
    }
}

/// Whoever comes here while the rest is written turns on the spot.
fn replace(place: usize, bytes: &[u8]) -> bool {
    const ITSELF: [u8; 2] = [0xEB, 0xFE];
    write_code(place, &ITSELF) && write_code(place + 2, &bytes[2..]) && write_code(place, &bytes[..2])
}

/// By the kernel, because the code is not writable.
fn write_code(place: usize, bytes: &[u8]) -> bool {
    let fd = syscall::open(b"/proc/self/mem\0", syscall::O_RDWR);
    if fd < 0 {
        return false;
    }
    // SAFETY: the bytes are a slice; what is written over is the caller's business.
    let written = unsafe { syscall::write_at(fd as u32, bytes.as_ptr().addr(), bytes.len(), place as u64) };
    syscall::close(fd as u32);
    tell_translator(place..place + bytes.len());
    written == bytes.len() as isize
}

/// Where the process is translated, code that nobody can write to counts as unchanged: a change by the kernel must be said.
/// It is, by a call that the translator sees before the kernel refuses it: the pages from here on to beyond the last one.
fn tell_translator(changed: Range<usize>) {
    const PAGE: usize = 4096;
    const READ_EXECUTE: usize = 5;
    let (first, last) = (changed.start & !(PAGE - 1), (changed.end - 1) & !(PAGE - 1));
    for page in [first, last].into_iter().take(if first == last { 1 } else { 2 }) {
        // SAFETY: the end is not behind the start, so that the kernel changes nothing.
        unsafe { syscall6(MPROTECT, page, page.wrapping_neg(), READ_EXECUTE, 0, 0, 0) };
    }
}

/// What the kernel did about traps before.
#[derive(Debug)]
pub struct Before(KernelAction);

/// `handler` receives traps.
pub fn take_traps(handler: Handler) -> Before {
    let mut before = Before(KernelAction::DEFAULT);
    let (action, old) = (action_of(handler), (&raw mut before.0).addr());
    // SAFETY: the kernel reads one action and writes another; the handler keeps to what a signal handler may do.
    unsafe { syscall6(RT_SIGACTION, SIGTRAP as usize, (&raw const action).addr(), old, 8, 0, 0) };
    before
}

impl Before {
    /// As before.
    pub fn put_back(&self) {
        // SAFETY: the kernel reads an action that it gave out.
        unsafe { syscall6(RT_SIGACTION, SIGTRAP as usize, (&raw const self.0).addr(), 0, 8, 0, 0) };
    }
}
