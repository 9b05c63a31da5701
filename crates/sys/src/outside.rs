//! Instructions that tell a program something of its surroundings: which
//! processor it runs on, what time it is, random numbers.
//!
//! No processor lets all of them be caught. So they are made into `ud2`, the one
//! instruction that is never anything else: it has two bytes, as the shortest of
//! them, and needs no room. It raises `SIGILL`, whose handler does what the
//! instruction would have done, see [`Outside::pass`]. A virtual machine leaves for
//! it, ten microseconds; so where the instructions around one can be moved, it
//! becomes a jump, see [`jumps`]. (`int 0x80`, which Syscall User Dispatch hands over,
//! makes Linux read the interrupt controller, and costs as much.)
//!
//! [`find`] looks for them in code that a file shows: the bytes first, and where
//! they stand the function around them is decoded from its start. What stands in
//! no function that is known may be data, and stays.

mod fault;
pub mod forbidden;
pub mod jumps;
mod places;
mod searched;

use crate::decode::{Instruction, LONGEST};
use crate::frames::{Found, Known};
use crate::signal::Context;
use core::arch::asm;
pub use fault::{Decide, in_front, install, is_in_front};
pub use places::{Places, is_libc, is_loader, patch};
pub use searched::Searched;

/// A prefix without a meaning: it stands before those instructions that stay, our own.
const MARK: u8 = 0x2E;

/// `SIGILL`.
pub const SIGILL: u32 = 4;

/// The registers of a thread that is to go on behind such an instruction.
pub trait Machine {
    /// A general register by its number in instructions.
    fn operand(&mut self, number: usize) -> &mut u64;
    /// The flags.
    fn flags(&mut self) -> &mut u64;
}

impl Machine for Context {
    fn operand(&mut self, number: usize) -> &mut u64 {
        Self::operand(self, number)
    }

    fn flags(&mut self) -> &mut u64 {
        self.flags_register()
    }
}

/// What an instruction asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `cpuid`
    Processor,
    /// `xgetbv`
    State,
    /// `rdtsc`
    Time,
    /// `rdtscp`
    TimeAndPlace,
    /// `rdpid`
    Place,
    /// `rdrand`
    Random,
    /// `rdseed`
    Seed,
}

/// One such instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outside {
    /// What it asks for.
    pub kind: Kind,
    /// Its bytes.
    pub length: usize,
    /// The register that the answer goes to, where the instruction names one.
    register: usize,
    /// Bytes of that register.
    width: usize,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The time, the number, or the place.
    pub value: u64,
    /// The place beside the time; for random numbers whether there was one.
    pub more: u32,
}

impl Outside {
    /// The instruction at the start of `code`, if it is one of these.
    pub fn at(code: &[u8]) -> Option<Self> {
        /// The processor refuses all of them behind it.
        const LOCK: u8 = 0xF0;
        let found = Instruction::at(code).filter(|_| code[0] != MARK)?;
        Self::of(&found).filter(|_| !code[..found.opcode_at].contains(&LOCK))
    }

    fn of(found: &Instruction) -> Option<Self> {
        let operands = found.operands.unwrap_or(0);
        let kind = match (found.map, found.opcode, operands) {
            (1, 0xA2, _) => Kind::Processor,
            (1, 0x31, _) => Kind::Time,
            (1, 0x01, 0xD0) => Kind::State,
            (1, 0x01, 0xF9) => Kind::TimeAndPlace,
            (1, 0xC7, 0xF0..=0xF7) if found.repeat == 0 => Kind::Random,
            (1, 0xC7, 0xF8..=0xFF) if found.repeat == 0xF3 => Kind::Place,
            (1, 0xC7, 0xF8..=0xFF) if found.repeat == 0 => Kind::Seed,
            _ => return None,
        };
        let register = usize::from(operands & 7 | (found.rex & 1) << 3);
        let width = match (found.rex & 8 != 0, found.short) {
            (true, _) => 8,
            (false, true) => 2,
            (false, false) => 4,
        };
        Some(Self { kind, length: found.length, register, width })
    }

    /// Runs it here. Not for [`Kind::Processor`] and [`Kind::State`], which depend on registers.
    pub fn ask(&self) -> Answer {
        match self.kind {
            Kind::Time | Kind::TimeAndPlace => forbidden::while_allowed(|| self.ask_here()),
            _ => self.ask_here(),
        }
    }

    fn ask_here(&self) -> Answer {
        let (low, high, more): (u64, u64, u32);
        // SAFETY: the program was about to run this instruction, so the processor has it; nothing but registers changes.
        unsafe {
            match self.kind {
                Kind::Time => {
                    asm!(".byte 0x2e", "rdtsc", out("rax") low, out("rdx") high, options(nomem, nostack));
                    Answer { value: high << 32 | low, more: 0 }
                }
                Kind::TimeAndPlace => {
                    asm!(".byte 0x2e", "rdtscp", out("rax") low, out("rdx") high, out("ecx") more, options(nomem, nostack));
                    Answer { value: high << 32 | low, more }
                }
                Kind::Place => {
                    asm!(".byte 0x2e", "rdpid rax", out("rax") low, options(nomem, nostack));
                    Answer { value: low, more: 0 }
                }
                Kind::Random => {
                    asm!(".byte 0x2e", "rdrand rax", "setc cl", "movzx ecx, cl", out("rax") low, out("ecx") more, options(nomem, nostack));
                    Answer { value: low, more }
                }
                Kind::Seed => {
                    asm!(".byte 0x2e", "rdseed rax", "setc cl", "movzx ecx, cl", out("rax") low, out("ecx") more, options(nomem, nostack));
                    Answer { value: low, more }
                }
                Kind::Processor | Kind::State => Answer::default(),
            }
        }
    }

    /// Lets the thread at the instruction go on behind it, see [`Outside::give`].
    pub fn pass(&self, context: &mut Context, answer: Answer, leaves: &[crate::processor::Leaf]) {
        self.give(context, answer, leaves);
        context.set_place(context.place() + self.length);
    }

    /// Registers become those that the instruction leaves, with this answer. `leaves` answer what is asked of the
    /// processor.
    pub fn give(&self, context: &mut impl Machine, answer: Answer, leaves: &[crate::processor::Leaf]) {
        const RAX: usize = 0;
        const RCX: usize = 1;
        const RDX: usize = 2;
        const RBX: usize = 3;
        /// All that arithmetic sets, and the one that says whether there was a number.
        const FLAGS: u64 = 0x8D5;
        const CARRY: u64 = 1;
        let halves = |value: u64| (value & u64::from(u32::MAX), value >> 32);
        match self.kind {
            Kind::Processor => {
                let asked = [RAX, RCX].map(|register| *context.operand(register) as u32);
                let told = crate::processor::answer(leaves, asked[0], asked[1]);
                for (register, value) in [RAX, RBX, RCX, RDX].into_iter().zip(told) {
                    *context.operand(register) = u64::from(value);
                }
            }
            Kind::State => {
                let told = crate::processor::state(leaves);
                (*context.operand(RAX), *context.operand(RDX)) = halves(told);
            }
            Kind::Time | Kind::TimeAndPlace => {
                let (low, high) = halves(answer.value);
                *context.operand(RAX) = low;
                *context.operand(RDX) = high;
                if self.kind == Kind::TimeAndPlace {
                    *context.operand(RCX) = u64::from(answer.more);
                }
            }
            Kind::Place => *context.operand(self.register) = answer.value,
            Kind::Random | Kind::Seed => {
                let target = context.operand(self.register);
                *target = match self.width {
                    8 => answer.value,
                    4 => answer.value & u64::from(u32::MAX),
                    _ => *target & !0xFFFF | answer.value & 0xFFFF,
                };
                let flags = context.flags();
                *flags = *flags & !FLAGS | if answer.more != 0 { CARRY } else { 0 };
            }
        }
    }
}

/// Lets a signal act on the calling thread as if nobody handled it: what raised it, raises it again.
pub fn as_if_unhandled(signal: u32) {
    use crate::syscall::number::RT_SIGACTION;
    let default = [0usize; 4];
    // SAFETY: the kernel reads an action of four words.
    unsafe { crate::syscall::syscall6(RT_SIGACTION, signal as usize, default.as_ptr().addr(), 0, 8, 0, 0) };
}

/// How the search in some code came out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Instructions found.
    pub found: u32,
    /// Places that look like one, of which nothing is known.
    pub unsure: u32,
    /// Those of them that would ask for the time.
    pub unsure_of_time: u32,
}

/// Calls `visit` with the offset in the file of each such instruction in `code`, which shows the file from `offset` on,
/// and its bytes.
pub fn find(code: &[u8], offset: usize, known: &mut Known<'_>, mut visit: impl FnMut(usize, Outside, &[u8])) -> Tally {
    let mut tally = Tally::default();
    each_suspect(code, |at| match known.with_opcode(offset + at) {
        Found::At(start) => {
            let bytes = &known.bytes()[start..];
            if let Some(outside) = Outside::at(bytes) {
                tally.found += 1;
                visit(start, outside, &bytes[..outside.length]);
            }
        }
        Found::Nothing => {}
        Found::Unsure => {
            tally.unsure += 1;
            tally.unsure_of_time += u32::from(forbidden::is_suspect(&code[at..]));
        }
    });
    tally
}

/// Calls `visit` with each offset at which the opcode of one of these might begin.
fn each_suspect(code: &[u8], mut visit: impl FnMut(usize)) {
    let mut suspect = |at: usize| {
        let second = code.get(at + 1).copied().unwrap_or(0);
        let third = code.get(at + 2).copied().unwrap_or(0);
        let one = match second {
            0xA2 | 0x31 => true,
            0x01 => matches!(third, 0xD0 | 0xF9),
            0xC7 => third >= 0xF0,
            _ => false,
        };
        if one {
            visit(at);
        }
    };
    crate::sweep::each_pair(code, 0x0F, [0xA2, 0x31, 0x01, 0xC7], &mut suspect);
}

const _: () = assert!(LONGEST >= 5);

#[cfg(test)]
mod tests {
    use super::{Kind, Outside, Tally, find};
    use crate::frames::Known;
    use iced_x86::{Decoder, DecoderOptions, Mnemonic};

    #[test]
    fn each_instruction_is_known_with_its_operand() {
        let known =
            |code: &[u8]| Outside::at(code).map(|found| (found.kind, found.length, found.register, found.width));
        assert_eq!(known(&[0x0F, 0xA2]).map(|found| found.0), Some(Kind::Processor));
        assert_eq!(known(&[0x0F, 0x31]).map(|found| found.0), Some(Kind::Time));
        assert_eq!(known(&[0x0F, 0x01, 0xF9]).map(|found| found.0), Some(Kind::TimeAndPlace));
        assert_eq!(known(&[0x0F, 0x01, 0xD0]).map(|found| found.0), Some(Kind::State));
        assert_eq!(known(&[0xF3, 0x41, 0x0F, 0xC7, 0xF9]), Some((Kind::Place, 5, 9, 4)));
        assert_eq!(known(&[0x49, 0x0F, 0xC7, 0xF2]), Some((Kind::Random, 4, 10, 8)));
        assert_eq!(known(&[0x66, 0x41, 0x0F, 0xC7, 0xF4]), Some((Kind::Random, 5, 12, 2)));
        assert_eq!(known(&[0x0F, 0xC7, 0xFE]), Some((Kind::Seed, 3, 6, 4)));
        assert_eq!(known(&[0x0F, 0xC7, 0x0F]), None, "cmpxchg8b");
        assert_eq!(known(&[0x2E, 0x0F, 0x31]), None, "our own");
        assert_eq!(known(&[0xF0, 0x0F, 0x31]), None, "data");
    }

    /// What another decoder finds in a library's code, from its start to its end.
    fn swept(code: &[u8]) -> u32 {
        const ALL: [Mnemonic; 7] = [
            Mnemonic::Cpuid,
            Mnemonic::Rdtsc,
            Mnemonic::Rdtscp,
            Mnemonic::Xgetbv,
            Mnemonic::Rdpid,
            Mnemonic::Rdrand,
            Mnemonic::Rdseed,
        ];
        Decoder::new(64, code, DecoderOptions::NONE).iter().filter(|found| ALL.contains(&found.mnemonic())).count()
            as u32
    }

    #[test]
    fn all_of_the_loader_are_found_and_nothing_else() {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.contains("r-xp") && line.contains("/ld-linux")).expect("a loader");
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (start, end) = fields[0].split_once('-').unwrap();
        let [start, end, offset] = [start, end, fields[2]].map(|text| usize::from_str_radix(text, 16).unwrap());
        let file = std::fs::read(fields[5]).unwrap();
        let code = &file[offset..(offset + end - start).min(file.len())];
        let mut places = Vec::new();
        let tally = find(code, offset, &mut Known::in_bytes(&file), |at, outside, bytes| {
            assert_eq!(Outside::at(bytes), Some(outside));
            places.push(at);
        });
        assert!(tally.found > 20 && tally.found == swept(code), "{tally:?}, {}", swept(code));
        assert_eq!((tally.unsure, places.len()), (0, tally.found as usize));
        // Without a word about functions nothing is sure.
        let tally = find(code, offset, &mut Known::in_bytes(&[]), |_, _, _| panic!("nothing is known"));
        assert!(tally.found == 0 && tally.unsure >= places.len() as u32);
        assert_eq!(find(&[0x90; 64], 0, &mut Known::in_bytes(&file), |_, _, _| {}), Tally::default());
    }
}
