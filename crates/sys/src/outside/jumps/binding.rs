//! What the loader leaves on the stack when a function is called for the first time.
//!
//! It saves the vector registers while it looks for the function. The processor leaves
//! out those that have their first value, and says in a header which these are; and
//! whether it knows that they have it depends on whether the kernel has turned to
//! another thread since. So what lies below the caller's frame then is another thing
//! each time. It is wiped when the registers are restored:
//!
//! ```text
//! 0f ae 6c 24 40  xrstor [rsp+64]    e9 …  jmp piece    piece:  xrstor [rsp+64]
//! 4c 8b 4c 24 30  mov r9, [rsp+48]                              zeros from rsp+64 up to rbx
//! …                                                             jmp back
//! 48 89 dc        mov rsp, rbx
//! ```
//!
//! Apart from the other jumps because the instruction tells nothing of the outside by
//! itself, and is one of two in one file.

use super::super::places::{ALL, READ_EXEC, protect};
use super::kept::{self, Lengths};
use crate::room::JUMP_BYTES;
use crate::room::moved::Code;
use crate::sites;
use core::ops::Range;

const PAGE: usize = 4096;
const PIECE_BYTES: usize = 64;
/// More than a loader has such places.
const PIECES: usize = 8;
/// `xrstor [rsp+64]`, as long as a jump.
const RESTORE: [u8; JUMP_BYTES] = [0x0F, 0xAE, 0x6C, 0x24, 0x40];
/// `mov r9, [rsp+48]`: the general registers are restored behind, so they are free until then.
const BEHIND: [u8; 5] = [0x4C, 0x8B, 0x4C, 0x24, 0x30];
/// `mov rsp, rbx`: all from there down is no more.
const LEAVE: [u8; 3] = [0x48, 0x89, 0xDC];
/// The last of them at most so far behind.
const NEAR: usize = 48;
/// `lea rdi, [rsp+64]; mov rcx, rbx; sub rcx, rdi; shr rcx, 3; xor eax, eax; rep stosq`
const WIPE: [u8; 20] = [
    0x48, 0x8D, 0x7C, 0x24, 0x40, 0x48, 0x89, 0xD9, 0x48, 0x29, 0xF9, 0x48, 0xC1, 0xE9, 0x03, 0x31, 0xC0, 0xF3, 0x48,
    0xAB,
];
const _: () = assert!(PIECES * PIECE_BYTES <= PAGE);
const _: () = assert!(RESTORE.len() + WIPE.len() + JUMP_BYTES <= PIECE_BYTES);

/// Has the loader, whose code is at `range`, wipe what it saved. Returns how many places do so now.
///
/// # Safety
/// As for [`super::make`].
pub unsafe fn wipe(range: &Range<usize>) -> usize {
    let mut found = Found::default();
    // SAFETY: mapped code, the caller's promise; it is changed behind this line only.
    each_place(unsafe { core::slice::from_raw_parts(range.start as *const u8, range.len()) }, |at| found.add(at));
    let found = found.as_slice();
    if found.is_empty() {
        return 0;
    }
    let Some(pieces) = sites::map_near(range.start, range.end, PAGE) else { return 0 };
    let mut made = 0;
    // SAFETY: the caller's promise; the code is writable while it is changed, and the pieces lie where they were mapped.
    unsafe {
        if protect(range, ALL) {
            for at in found {
                made += usize::from(change(range.start + at, pieces + made * PIECE_BYTES).is_some());
            }
            protect(range, READ_EXEC);
        }
        sites::protect(pieces, pieces + PAGE, false);
    }
    made
}

/// Places that were found.
#[derive(Default)]
struct Found {
    places: [usize; PIECES],
    count: usize,
}

impl Found {
    fn add(&mut self, place: usize) {
        if let Some(free) = self.places.get_mut(self.count) {
            *free = place;
            self.count += 1;
        }
    }

    fn as_slice(&self) -> &[usize] {
        &self.places[..self.count]
    }
}

/// Calls `visit` with each offset where the registers are restored.
fn each_place(code: &[u8], mut visit: impl FnMut(usize)) {
    crate::sweep::each_pair(code, RESTORE[0], [RESTORE[1]; 4], |at| {
        let behind = code[at..].strip_prefix(&RESTORE).filter(|behind| behind.starts_with(&BEHIND));
        let leaves = |behind: &[u8]| behind.windows(LEAVE.len()).take(NEAR).any(|code| code == LEAVE);
        if behind.is_some_and(leaves) {
            visit(at);
        }
    });
}

/// Writes a piece and the jump to it. `None`, with nothing changed, if something is too far away.
///
/// # Safety
/// The writable code at `place` and the piece must be the caller's to change, and nobody may jump between the two.
unsafe fn change(place: usize, piece: usize) -> Option<()> {
    const OWN: Lengths = [RESTORE.len() as u8, BEHIND.len() as u8, 0, 0, 0, 0, 0, 0];
    const COPIES: Lengths = [RESTORE.len() as u8, (WIPE.len() + JUMP_BYTES) as u8, 0, 0, 0, 0, 0, 0];
    let mut written = Code::at(piece, PIECE_BYTES);
    written.put(&RESTORE)?;
    written.put(&WIPE)?;
    written.jump(place + RESTORE.len())?;
    let mut jump = Code::at(place, JUMP_BYTES);
    jump.jump(piece)?;
    // Who is found wiping goes on behind: the registers have been restored, and can't be once more.
    if !kept::keep(place, piece, OWN, COPIES) {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe {
        written.write();
        jump.write();
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::{Found, each_place};

    #[test]
    fn the_loader_restores_in_two_places() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.contains("r-xp") && line.contains("/ld-linux")).expect("a loader");
        let file = std::fs::read(line.split_whitespace().last().unwrap()).unwrap();
        // One for processors that save all, one for those that save what is in use.
        let mut found = Found::default();
        each_place(&file, |at| found.add(at));
        assert_eq!(found.as_slice().len(), 2);
        each_place(&super::RESTORE, |_| panic!("nothing stands behind it"));
    }
}
