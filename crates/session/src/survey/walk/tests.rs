//! The walk over hand-made code.

use super::super::memory::Memory;
use super::super::{apart, entered};
use super::{Live, from};
use relive_findings::locate::Waiting;
use relive_trace::stand::{MAGIC, RBP, RIP, RSP, Stand, WINDOWS_AT};

const CODE: u64 = 0x10_0000;
const STACK: u64 = 0x7000_0000;
const RAX: usize = 13;
const RCX: usize = 14;
const RBX: usize = 11;

fn live(code: &[u8], stack: &[u64]) -> (Live, std::collections::BTreeSet<u64>) {
    let mut words = vec![0; WINDOWS_AT];
    words[0] = MAGIC;
    words[1 + RIP] = CODE;
    words[1 + RSP] = STACK;
    words[1 + RBP] = STACK + 0x100;
    words.extend_from_slice(&[STACK, stack.len() as u64]);
    words.extend_from_slice(stack);
    let stand = Stand::new(&words).unwrap();
    from(&stand, &Memory::of(CODE, code), &[])
}

#[test]
fn what_a_caller_counts_with_is_live_however_far_its_return_is() {
    let mut code = vec![0x90; 0x1000];
    // call rax; inc rbx; add rax, rcx; mov r12, [rsp]; inc r12; inc r13; ud2
    let caller = [
        0xFF, 0xD0, 0x48, 0xFF, 0xC3, 0x48, 0x01, 0xC8, 0x4C, 0x8B, 0x24, 0x24, 0x49, 0xFF, 0xC4, 0x49, 0xFF, 0xC5,
        0x0F, 0x0B,
    ];
    code.extend_from_slice(&caller);
    let mut words = vec![0; WINDOWS_AT];
    (words[0], words[1 + RIP], words[1 + RSP]) = (MAGIC, CODE, STACK);
    let kept = |slot| Some((7, slot));
    let registers = [kept(Some(STACK + 8)), kept(Some(STACK)), None, kept(None), None, None];
    let waiting = Waiting { address: CODE + 0x1000, stack: STACK + 0x20, registers };
    let (live, _) = from(&Stand::new(&words).unwrap(), &Memory::of(CODE, &code), &[waiting]);
    // rbx where it was kept, r13 where it still is; not rbp, which nobody uses, nor what stands in the frame.
    assert_eq!(live.memory.into_iter().collect::<Vec<_>>(), [(STACK + 8, 8)]);
    assert_eq!((live.general, live.vectors, live.flags), (1 << 13, 0, 0));
}

#[test]
fn a_long_way_on_one_side_of_a_callers_branch_leaves_time_for_the_other() {
    // test eax, eax; jne 1f; ud2, or ten thousand times nop; 1: inc rbx; ud2
    let code = |length: usize| {
        let mut code = vec![0x85, 0xC0, 0x0F, 0x85];
        code.extend_from_slice(&(length as u32).to_le_bytes());
        code.resize(code.len() + length, 0x90);
        code.extend_from_slice(&[0x48, 0xFF, 0xC3, 0x0F, 0x0B]);
        code
    };
    for length in [0, 100, 10_000] {
        let code = code(length);
        let mut words = vec![0; WINDOWS_AT];
        // The stand point is behind it, where nothing is.
        (words[0], words[1 + RIP], words[1 + RSP]) = (MAGIC, CODE + code.len() as u64, STACK);
        let registers = [Some((7, Some(STACK + 8))), None, None, None, None, None];
        let waiting = Waiting { address: CODE, stack: STACK + 0x20, registers };
        let (live, _) = from(&Stand::new(&words).unwrap(), &Memory::of(CODE, &code), &[waiting]);
        assert_eq!(live.memory.into_iter().collect::<Vec<_>>(), [(STACK + 8, 8)], "{length}");
    }
}

fn registers(code: &[u8]) -> Vec<usize> {
    let mut found: Vec<usize> = live(code, &[]).0.registers().collect();
    found.sort_unstable();
    found
}

#[test]
fn a_register_is_live_if_it_is_read_before_it_is_written() {
    // add rax, rcx; ud2
    assert_eq!(registers(&[0x48, 0x01, 0xC8, 0x0F, 0x0B]), [RAX, RCX]);
    // xor eax, eax; add rax, rcx; ud2
    assert_eq!(registers(&[0x31, 0xC0, 0x48, 0x01, 0xC8, 0x0F, 0x0B]), [RCX]);
    // je 1f; xor eax, eax; inc rax; ud2; 1: inc rax; ud2
    let code = [0x74, 0x07, 0x31, 0xC0, 0x48, 0xFF, 0xC0, 0x0F, 0x0B, 0x48, 0xFF, 0xC0, 0x0F, 0x0B];
    assert_eq!(registers(&code), [RAX]);
}

#[test]
fn what_wipes_the_upper_halves_of_vectors_uses_none() {
    // vzeroupper; addpd xmm1, xmm0; ud2
    let (live, _) = live(&[0xC5, 0xF8, 0x77, 0x66, 0x0F, 0x58, 0xC8, 0x0F, 0x0B], &[]);
    assert_eq!(live.vectors, 0b11);
}

#[test]
fn saving_and_restoring_is_no_use() {
    // push rbx; pop rbx; ud2
    assert!(registers(&[0x53, 0x5B, 0x0F, 0x0B]).is_empty());
    // push rbx; pop rax; inc rax; ud2
    assert_eq!(registers(&[0x53, 0x58, 0x48, 0xFF, 0xC0, 0x0F, 0x0B]), [RBX]);
}

#[test]
fn memory_is_live_where_its_value_is_used() {
    // pop rbx; pop rcx; ret, and where that goes: inc rbx; ud2
    let code = [0x5B, 0x59, 0xC3, 0x48, 0xFF, 0xC3, 0x0F, 0x0B];
    let (live, _) = live(&code, &[1, 2, CODE + 3]);
    assert_eq!(live.memory.into_iter().collect::<Vec<_>>(), [(STACK, 8), (STACK + 16, 8)]);
}

#[test]
fn flags_are_live_until_they_are_written() {
    assert_eq!(live(&[0x74, 0x00, 0x0F, 0x0B], &[]).0.flags, 0x40);
    // test eax, eax; je
    assert_eq!(live(&[0x85, 0xC0, 0x74, 0x00, 0x0F, 0x0B], &[]).0.flags, 0);
}

#[test]
fn bytes_that_are_no_code_end() {
    assert_eq!(live(&[], &[]).0, Live::default());
    assert_eq!(live(&[0x06; 64], &[]).0, Live::default());
}

#[test]
fn a_jump_takes_whole_instructions_into_which_nothing_jumps() {
    const AT: [u64; 2] = [CODE + 0x1000, CODE + 0x1100];
    let find_for = |code: &[u8], place: u64, at: [u64; 2], crowded: bool| {
        let mut words = code.to_vec();
        words.resize(256, 0x90);
        let (memory, seen) = (Memory::of(CODE, &words), live(&words[place as usize..], &[]).1);
        let seen = seen.into_iter().map(|ip| ip + place).collect();
        apart::find(&memory, CODE + place, at, &entered::Known::new(&memory, seen, Vec::new(), CODE + place), crowded)
    };
    let find = |code: &[u8], place: u64| find_for(code, place, AT, false);
    // 0: add rax, 1; cmp rax, rdx; jne 0b
    let code = [0x48, 0x83, 0xC0, 0x01, 0x48, 0x39, 0xD0, 0x75, 0xF7, 0x0F, 0x0B];
    assert_eq!((find(&code, 0).room, find(&code, 4).room), (7, 5));
    // Among other threads a jump takes five bytes, whatever begins in them; at the fifth only where a trap may stand there.
    let crowd = |place, fifth| find_for(&code, place, [u64::from(fifth), 0], true).room;
    assert_eq!([crowd(0, true), crowd(4, true), crowd(0, false), crowd(4, false)], [5, 5, 1, 5]);
    // A jump to the second instruction.
    let code = [0x48, 0x83, 0xC0, 0x01, 0x48, 0x39, 0xD0, 0x75, 0xFB, 0x0F, 0x0B];
    assert_eq!(find(&code, 0).room, 4);
    // call rax, and call rsp, which would go by the address that the call itself pushes.
    assert_eq!(find(&[0xFF, 0xD0, 0x0F, 0x0B], 0).room, 2);
    assert_eq!(find(&[0xFF, 0xD4, 0x0F, 0x0B], 0).room, 0);
}
