//! Which instructions may run elsewhere, and what they are there.

use crate::decode::Instruction;

/// What becomes of an instruction that runs elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// Nothing.
    Same,
    /// Its operand lies at a distance from itself, which stands at this offset.
    Near(usize),
    /// It jumps, under this condition if there is one, by so much.
    Jump(Option<u8>, isize),
    /// It returns.
    Return,
}

impl Moved {
    /// Whether nothing behind the instruction is run after it for sure.
    pub(crate) fn leaves(self) -> bool {
        matches!(self, Self::Jump(None, _) | Self::Return)
    }

    /// Whether the thread may go elsewhere than behind it.
    pub(crate) fn jumps(self) -> bool {
        matches!(self, Self::Jump(..) | Self::Return)
    }

    /// `None` if the instruction at the start of `code` has to stay where it is: it pushes its own place, stops the thread,
    /// is a place that others come to, or is not known well enough.
    pub(crate) fn of(found: &Instruction, code: &[u8]) -> Option<Self> {
        let behind = found.opcode_at + 1;
        match (found.map, found.opcode) {
            (0, 0x70..=0x7F) => Some(Self::Jump(Some(found.opcode & 15), code[behind] as i8 as isize)),
            (0, 0xEB) => Some(Self::Jump(None, code[behind] as i8 as isize)),
            (0, 0xE9) if !found.short => Some(Self::Jump(None, distance(code, behind)?)),
            (0, 0xC3) if found.opcode_at == 0 => Some(Self::Return),
            (1, 0x80..=0x8F) if !found.short => Some(Self::Jump(Some(found.opcode & 15), distance(code, behind + 1)?)),
            _ if !is_plain(found) => None,
            _ if !found.relative => Some(Self::Same),
            // The distance stands behind the byte that names the operands.
            (0, _) => Some(Self::Near(behind + 1)),
            (1, _) => Some(Self::Near(behind + 2)),
            (2 | 3, _) => Some(Self::Near(behind + 3)),
            _ => None,
        }
    }
}

/// Whether an instruction only computes, with registers and memory.
fn is_plain(found: &Instruction) -> bool {
    let part = found.operands.map_or(0, |operands| operands >> 3 & 7);
    match found.map {
        0 => match found.opcode {
            0xC6 | 0xC7 | 0xFE => part <= 1,
            0xFF => matches!(part, 0 | 1 | 6),
            opcode => {
                matches!(opcode, 0x00..=0x3F | 0x50..=0x5F | 0x63 | 0x69 | 0x6B | 0x80 | 0x81 | 0x83..=0x8B | 0x8D
                | 0x90..=0x99 | 0xA8 | 0xA9 | 0xB0..=0xBF | 0xC0 | 0xC1 | 0xD0..=0xD3 | 0xF6 | 0xF7)
            }
        },
        1 => matches!(found.opcode, 0x10..=0x17 | 0x1F | 0x28..=0x2F | 0x40..=0x76 | 0x7E | 0x7F | 0x90..=0x9F
            | 0xA3..=0xA5 | 0xAB..=0xB1 | 0xB3 | 0xB6..=0xB8 | 0xBA..=0xC2 | 0xC6 | 0xC8..=0xCF | 0xD0..=0xFE),
        map => matches!(map, 2 | 3 | 0x11..=0x13),
    }
}

fn distance(code: &[u8], at: usize) -> Option<isize> {
    Some(i32::from_le_bytes(*code.get(at..)?.first_chunk()?) as isize)
}

const MOST: usize = 96;

/// Machine code that is put together for an address.
#[derive(Debug)]
pub(crate) struct Code {
    start: usize,
    bytes: [u8; MOST],
    length: usize,
    room: usize,
}

impl Code {
    pub(crate) fn at(start: usize, room: usize) -> Self {
        Self { start, bytes: [0xCC; MOST], length: 0, room: room.min(MOST) }
    }

    /// Where the next byte goes.
    pub(crate) fn address(&self) -> usize {
        self.start + self.length
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> Option<()> {
        self.bytes.get_mut(self.length..self.room)?.get_mut(..bytes.len())?.copy_from_slice(bytes);
        self.length += bytes.len();
        Some(())
    }

    pub(crate) fn distance_to(&mut self, target: usize) -> Option<()> {
        let distance = target as isize - (self.address() + size_of::<i32>()) as isize;
        self.put(&i32::try_from(distance).ok()?.to_le_bytes())
    }

    pub(crate) fn jump(&mut self, target: usize) -> Option<()> {
        self.put(&[0xE9])?;
        self.distance_to(target)
    }

    /// The one instruction of `code`, which stood at `from` and names nothing by its distance but memory, in its first
    /// operand.
    pub(crate) fn unchanged(&mut self, code: &[u8], from: usize) -> Option<()> {
        let found = Instruction::at(code)?;
        if found.relative {
            self.near(code, from, found.opcode_at + if found.map == 0 { 2 } else { 3 })
        } else {
            self.put(code)
        }
    }

    /// An instruction with an operand at a distance, which stands at this offset of it.
    fn near(&mut self, code: &[u8], from: usize, at: usize) -> Option<()> {
        let target = (from + code.len()).wrapping_add_signed(distance(code, at)?);
        let own = self.address() + code.len();
        self.put(&code[..at])?;
        self.put(&i32::try_from(target as isize - own as isize).ok()?.to_le_bytes())?;
        self.put(&code[at + size_of::<i32>()..])
    }

    /// The instructions in `code`, which stood at `from`.
    pub(crate) fn moved(&mut self, mut code: &[u8], mut from: usize) -> Option<()> {
        while !code.is_empty() {
            let found = Instruction::at(code)?;
            let behind = from + found.length;
            match Moved::of(&found, code)? {
                Moved::Same | Moved::Return => self.put(&code[..found.length])?,
                Moved::Near(at) => self.near(&code[..found.length], from, at)?,
                Moved::Jump(condition, by) => {
                    let target = behind.wrapping_add_signed(by);
                    match condition {
                        Some(condition) => self.put(&[0x0F, 0x80 | condition])?,
                        None => self.put(&[0xE9])?,
                    }
                    self.distance_to(target)?;
                }
            }
            (code, from) = (&code[found.length..], behind);
        }
        Some(())
    }

    /// # Safety
    /// There must be writable memory where it is to be.
    pub(crate) unsafe fn write(&self) {
        // SAFETY: the caller's promise.
        unsafe { core::ptr::copy_nonoverlapping(self.bytes.as_ptr(), self.start as *mut u8, self.length) };
    }
}
