//! Where blocks end, and what is refused.
//!
//! Apart from the decoder for its length.

use super::{Block, Flow, Flow as F, INSTRUCTIONS, flow};
use crate::error::{Error, Refusal};
use crate::host::Host;
use proptest::prelude::*;

const START: u64 = 0x4000;

struct Bytes<'a>(&'a [u8]);

impl Host for Bytes<'_> {
    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        let from = self.0.get((address - START) as usize..).unwrap_or_default();
        let count = from.len().min(into.len());
        into[..count].copy_from_slice(&from[..count]);
        count
    }

    fn is_outside(&self, _address: u64) -> bool {
        false
    }
}

fn flows(bytes: &[u8]) -> Vec<Flow> {
    let block = Block::read(&Bytes(bytes), START).expect("a block");
    block.instructions().iter().map(|i| flow(i).expect("not refused")).collect()
}

#[test]
fn a_block_goes_on_past_conditional_branches_and_traps() {
    // nop; je +2; jrcxz +0; loop -2; syscall; ret 8; nop
    let bytes = [0x90, 0x74, 2, 0xE3, 0, 0xE2, 0xFE, 0x0F, 5, 0xC2, 8, 0, 0x90];
    let expected = [F::Next, F::Conditional(0x4005), F::Counted(0x4005), F::Counted(0x4005), F::Trap, F::Return(8)];
    assert_eq!(flows(&bytes), expected);
}

#[test]
fn each_last_instruction_ends_it() {
    let cases: [(&[u8], Flow); 8] = [
        (&[0xEB, 0], Flow::Jump(0x4002)),
        (&[0xE9, 0, 0, 0, 0], Flow::Jump(0x4005)),
        (&[0xE8, 1, 0, 0, 0], Flow::Call(0x4006)),
        (&[0x66, 0x66, 0x48, 0xE8, 1, 0, 0, 0], Flow::Call(0x4009)),
        (&[0xFF, 0xE0], Flow::IndirectJump),
        (&[0x3E, 0xFF, 0xE2], Flow::IndirectJump),
        (&[0xFF, 0x54, 0x24, 8], Flow::IndirectCall),
        (&[0xF3, 0xC3], Flow::Return(0)),
    ];
    for (bytes, expected) in cases {
        let followed = [bytes, &[0x90, 0x90]].concat();
        assert_eq!(flows(&followed), [expected], "{bytes:x?}");
    }
}

#[test]
fn what_cannot_run_in_a_cache_is_refused_by_what_it_does() {
    let cases: [(&[u8], Refusal); 14] = [
        (&[0x06], Refusal::Invalid),
        (&[0xCB], Refusal::Far),
        (&[0x48, 0xCF], Refusal::Far),
        (&[0xFF, 0x28], Refusal::Far),
        (&[0xFF, 0x18], Refusal::Far),
        (&[0x0F, 0x07], Refusal::Far),
        (&[0x66, 0xC3], Refusal::ShortOperand),
        (&[0x66, 0xE8, 0, 0, 0, 0], Refusal::ShortOperand),
        (&[0x65, 0x48, 0x8B, 0x00], Refusal::ThreadArea),
        (&[0xF3, 0x48, 0x0F, 0xAE, 0xD8], Refusal::ThreadArea),
        (&[0x8E, 0xE8], Refusal::ThreadArea),
        (&[0x65, 0xFF, 0x20], Refusal::ThreadArea),
        (&[0x67, 0x8B, 0x05, 0, 0, 0, 0], Refusal::ShortInstructionPointer),
        (&[0xC7, 0xF8, 0, 0, 0, 0], Refusal::Transaction),
    ];
    for (bytes, why) in cases {
        let padded = [bytes, &[0x90; 16]].concat();
        let refused = Block::read(&Bytes(&padded), START).err();
        assert_eq!(refused, Some(Error::Refused { ip: START, why }), "{bytes:x?}");
        let behind = [&[0x90], &padded[..]].concat();
        assert_eq!(flows(&behind), [Flow::Next], "a block ends before what it can't have: {bytes:x?}");
    }
}

#[test]
fn a_segment_prefix_that_means_nothing_is_let_pass() {
    // nop dword gs:[rax]; data16 cs nopw; lea rax, gs:[rax]; ret
    let bytes = [0x65, 0x0F, 0x1F, 0, 0x66, 0x2E, 0x0F, 0x1F, 0x84, 0, 0, 0, 0, 0, 0x65, 0x48, 0x8D, 0, 0xC3];
    assert_eq!(flows(&bytes).len(), 4);
}

#[test]
fn the_end_of_readable_memory_ends_a_block() {
    assert_eq!(Block::read(&Bytes(&[]), START).err(), Some(Error::Unreadable { ip: START }));
    // The second instruction is cut.
    let block = Block::read(&Bytes(&[0x90, 0xE8, 0]), START).expect("the first instruction");
    assert_eq!((block.instructions().len(), block.end()), (1, START + 1));
    assert_eq!(Block::read(&Bytes(&[0xE8, 0]), START).err(), Some(Error::Unreadable { ip: START }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn random_bytes_never_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        match Block::read(&Bytes(&bytes), START) {
            Ok(block) => {
                let count = block.instructions().len();
                prop_assert!((1..=INSTRUCTIONS).contains(&count));
                let mut ip = START;
                for instruction in block.instructions() {
                    prop_assert_eq!(instruction.ip(), ip);
                    let at = (ip - START) as usize;
                    prop_assert_eq!(block.bytes_of(instruction), &bytes[at..at + instruction.len()]);
                    ip = instruction.next_ip();
                }
                prop_assert_eq!(block.end(), ip);
            }
            Err(Error::Refused { ip, .. } | Error::Unreadable { ip }) => prop_assert_eq!(ip, START),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }
}
