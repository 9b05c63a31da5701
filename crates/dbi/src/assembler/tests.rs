//! Each encoding, read back by iced's decoder.
//!
//! Apart from the assembler for its length.

use super::{Assembler, Condition, Operand};
use crate::register::Gpr;
use iced_x86::{Code, Code as C, Decoder, DecoderOptions, Instruction, Register};

const ADDRESS: u64 = 0x1_0000;

fn decoded(write: impl FnOnce(&mut Assembler<'_>)) -> Vec<Instruction> {
    let mut code = [0u8; 256];
    let mut assembler = Assembler::new(&mut code, ADDRESS);
    write(&mut assembler);
    assert!(!assembler.is_full());
    let length = assembler.offset();
    let all: Vec<_> = Decoder::with_ip(64, &code[..length], ADDRESS, DecoderOptions::NONE).into_iter().collect();
    assert!(all.iter().all(|i| !i.is_invalid()), "{all:?}");
    all
}

fn one(write: impl FnOnce(&mut Assembler<'_>)) -> Instruction {
    let all = decoded(write);
    assert_eq!(all.len(), 1, "{all:?}");
    all[0]
}

fn register(gpr: Gpr) -> Register {
    Register::RAX + u32::from(gpr.number())
}

#[test]
fn every_shape_of_operand_with_every_register() {
    for number in 0..16 {
        let (r, base) = (Gpr::numbered(15 - number), Gpr::numbered(number));
        for displacement in [0, 1, -128, 128, i32::MIN, 0x1234_5678] {
            let i = one(|a| a.load(r, Operand::at(base, displacement)));
            assert_eq!((i.code(), i.op0_register()), (Code::Mov_r64_rm64, register(r)));
            assert_eq!((i.memory_base(), i.memory_index()), (register(base), Register::None));
            assert_eq!(i.memory_displacement64() as i64, i64::from(displacement));
            let i = one(|a| a.store(Operand::area_at(base, displacement), r));
            assert_eq!(
                (i.code(), i.memory_segment(), i.memory_base()),
                (Code::Mov_rm64_r64, Register::GS, register(base))
            );
            for scale in [1, 2, 4, 8] {
                if base == Gpr::RSP {
                    continue;
                }
                let i = one(|a| a.lea(r, Operand::indexed(Some(r), base, scale, displacement)));
                assert_eq!(
                    (i.code(), i.memory_base(), i.memory_index()),
                    (Code::Lea_r64_m, register(r), register(base))
                );
                assert_eq!(i.memory_index_scale(), u32::from(scale));
                let i = one(|a| a.lea_short(r, Operand::indexed(None, base, scale, displacement)));
                assert_eq!(
                    (i.code(), i.memory_base(), i.memory_index()),
                    (Code::Lea_r32_m, Register::None, register(base))
                );
                assert_eq!(i.memory_displacement64() as i64, i64::from(displacement));
            }
        }
        let i = one(|a| a.load(r, Operand::area(0x140)));
        assert_eq!(
            (i.memory_segment(), i.memory_base(), i.memory_displacement64()),
            (Register::GS, Register::None, 0x140)
        );
    }
}

#[test]
fn constants_in_each_size() {
    for number in 0..16 {
        for value in [0, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 0x1_0000_0000, u64::MAX, 1 << 63] {
            let i = one(|a| a.constant(Gpr::numbered(number), value));
            let whole = Gpr::containing(i.op0_register());
            assert_eq!((whole, i.immediate(1)), (Some(Gpr::numbered(number)), value));
        }
    }
}

#[test]
fn the_rest_is_what_its_name_says() {
    let all = decoded(|a| {
        a.copy(Gpr::R9, Gpr::RSP);
        a.low_word(Gpr::RSI, Gpr::R8);
        a.not(Gpr::R12);
        a.shift_right(Gpr::RBP, 3);
        a.add_to(Operand::area(8), -1);
        a.test(Operand::area_at(Gpr::RDI, 0x40), 0x80);
        a.compare(Gpr::RAX, Operand::at(Gpr::R13, 0));
        a.store_immediate(Operand::area(32), 0xFFFF_FFFF);
        a.pop(Gpr::RCX);
        a.pop(Gpr::R10);
        a.jump_through(Operand::area(8));
        a.flags_to_rax();
        a.flags_from_rax();
    });
    let text: Vec<Code> = all.iter().map(Instruction::code).collect();
    assert_eq!(
        text,
        [
            C::Mov_r64_rm64,
            C::Movzx_r32_rm16,
            C::Not_rm64,
            C::Shr_rm64_imm8,
            C::Add_rm64_imm8,
            C::Test_rm8_imm8,
            C::Cmp_r64_rm64,
            C::Mov_rm32_imm32,
            C::Pop_r64,
            C::Pop_r64,
            C::Jmp_rm64,
            C::Lahf,
            C::Seto_rm8,
            C::Add_AL_imm8,
            C::Sahf
        ]
    );
    assert_eq!((all[0].op0_register(), all[0].op1_register()), (Register::R9, Register::RSP));
    assert_eq!((all[1].op0_register(), all[1].op1_register()), (Register::ESI, Register::R8W));
    assert_eq!((all[2].op0_register(), all[3].op0_register()), (Register::R12, Register::RBP));
    assert_eq!((all[8].op0_register(), all[9].op0_register()), (Register::RCX, Register::R10));
}

#[test]
fn bits_with_every_register() {
    for number in 0..16 {
        let (r, other) = (Gpr::numbered(number), Gpr::numbered(15 - number));
        let mask = Operand::area(0x148);
        let all = decoded(|a| {
            a.extract(r, other, mask);
            a.deposit(r, other, mask);
            a.shifted_right(r, Operand::area_at(other, 0x40), r);
            a.shifted_left(r, mask, other);
            a.shift_left_by(r, other);
        });
        let codes: Vec<_> = all.iter().map(Instruction::code).collect();
        let expected = [
            C::VEX_Pext_r64_r64_rm64,
            C::VEX_Pdep_r64_r64_rm64,
            C::VEX_Shrx_r64_rm64_r64,
            C::VEX_Shlx_r64_rm64_r64,
            C::VEX_Shlx_r64_rm64_r64,
        ];
        assert_eq!(codes, expected);
        assert!(all.iter().all(|i| i.op0_register() == register(r)));
        assert!(all[..4].iter().all(|i| i.memory_segment() == Register::GS));
        assert_eq!((all[0].op1_register(), all[1].op1_register()), (register(other), register(other)));
        assert_eq!((all[2].memory_base(), all[2].op2_register()), (register(other), register(r)));
        assert_eq!((all[3].op2_register(), all[3].memory_displacement64()), (register(other), 0x148));
        assert_eq!((all[4].op1_register(), all[4].op2_register()), (register(r), register(other)));
        if other != Gpr::RSP {
            let i = one(|a| a.shifted_right(r, Operand::area_indexed(other, 8, 0x1000), r));
            assert_eq!((i.memory_base(), i.memory_index()), (Register::None, register(other)));
            assert_eq!((i.memory_index_scale(), i.memory_displacement64()), (8, 0x1000));
        }
        let all = decoded(|a| {
            a.from_mask(r, 5, false);
            a.from_mask(r, 5, true);
            a.from_signs(r, number, 4);
            a.from_signs(r, number, 8);
        });
        let codes: Vec<_> = all.iter().map(Instruction::code).collect();
        let expected = [C::VEX_Kmovw_r32_kr, C::VEX_Kmovq_r64_kr, C::VEX_Vmovmskps_r32_ymm, C::VEX_Vmovmskpd_r32_ymm];
        assert_eq!(codes, expected);
        assert!(all.iter().all(|i| Gpr::containing(i.op0_register()) == Some(r)));
        assert_eq!((all[0].op1_register(), all[2].op1_register()), (Register::K5, Register::YMM0 + u32::from(number)));
    }
}

#[test]
fn arithmetic_on_bits() {
    let all = decoded(|a| {
        a.and_short(Gpr::R9, 7);
        a.and_short(Gpr::RDX, 0x3FFF_FFFF);
        a.and_with(Gpr::RAX, Gpr::R8);
        a.and(Gpr::RAX, Operand::area(8));
        a.exclusive_or(Gpr::RBP, Gpr::R12);
        a.negate(Gpr::RSI);
        a.or_to(Operand::area_at(Gpr::R11, 0), Gpr::RDI);
        a.multiply(Gpr::RSI, Operand::area(8));
        a.multiply_by(Gpr::R10, 255);
        a.set_bit(Gpr::R14, 34);
        a.shift_left(Gpr::R14, 8);
        a.test_with(Gpr::RSP, Gpr::RSP);
        a.test_register(Gpr::RSI, 3);
        a.test_register(Gpr::R8, 0xFFFF);
        a.compare_with_zero(Operand::area_at(Gpr::RBX, 16));
        a.test_bit(Operand::at(Gpr::RDI, 0), Gpr::R9);
        for bits in [8, 16, 32, 64] {
            a.compare_with_ones(Gpr::RDI, bits);
        }
    });
    let codes: Vec<_> = all.iter().map(Instruction::code).collect();
    let expected = [
        C::And_rm32_imm8,
        C::And_rm32_imm32,
        C::And_r64_rm64,
        C::And_r64_rm64,
        C::Xor_r64_rm64,
        C::Neg_rm64,
        C::Or_rm64_r64,
        C::Imul_r64_rm64,
        C::Imul_r64_rm64_imm32,
        C::Bts_rm64_imm8,
        C::Shl_rm64_imm8,
        C::Test_rm64_r64,
        C::Test_rm8_imm8,
        C::Test_rm32_imm32,
        C::Cmp_rm64_imm8,
        C::Bt_rm64_r64,
        C::Cmp_rm8_imm8,
        C::Cmp_rm16_imm8,
        C::Cmp_rm32_imm8,
        C::Cmp_rm64_imm8,
    ];
    assert_eq!(codes, expected);
    let registers: Vec<_> = all.iter().map(|i| Gpr::containing(i.op0_register())).collect();
    let of = |gpr| Some(gpr);
    assert_eq!(registers[..6], [Gpr::R9, Gpr::RDX, Gpr::RAX, Gpr::RAX, Gpr::RBP, Gpr::RSI].map(of));
    assert_eq!(registers[8..14], [Gpr::R10, Gpr::R14, Gpr::R14, Gpr::RSP, Gpr::RSI, Gpr::R8].map(of));
    assert!(registers[16..].iter().all(|r| *r == Some(Gpr::RDI)));
    assert_eq!((all[2].op1_register(), all[4].op1_register()), (Register::R8, Register::R12));
    assert_eq!((all[9].immediate(1), all[1].immediate(1), all[17].immediate(1) as i16), (34, 0x3FFF_FFFF, -1));
}

#[test]
fn branches_come_out_where_they_are_bound() {
    let all = decoded(|a| {
        let over = a.jump_if(Condition::NotEqual);
        let zero = a.jump_if_rcx_zero();
        let far = a.jump();
        let near = a.jump_short();
        a.align(4, 1);
        a.bind(over);
        a.bind(near);
        a.jump_to(ADDRESS);
        a.bind(zero);
        a.bind(far);
    });
    let jump = all.iter().position(|i| i.near_branch_target() == ADDRESS).expect("the jump back");
    let (inside, end) = (all[jump].ip(), all[jump].next_ip());
    assert!((inside + 1).is_multiple_of(4));
    let targets: Vec<u64> = all[..4].iter().map(Instruction::near_branch_target).collect();
    assert_eq!(targets, [inside, end, end, inside]);
}

#[test]
fn what_does_not_fit_is_said() {
    let mut code = [0u8; 6];
    let mut assembler = Assembler::new(&mut code, ADDRESS);
    assembler.copy(Gpr::RAX, Gpr::RCX);
    assembler.constant(Gpr::RAX, u64::MAX - (1 << 40));
    assert!(assembler.is_full());
    let mut code = [0u8; 512];
    let mut assembler = Assembler::new(&mut code, ADDRESS);
    let short = assembler.jump_short();
    assembler.bytes(&[0x90; 200]);
    assembler.bind(short);
    assert!(assembler.is_full(), "a short branch reaches 127 bytes");
}

#[test]
fn branches_that_do_not_fit_can_be_bound() {
    for room in 0..6 {
        let mut code = [0u8; 6];
        for kind in 0..4 {
            let mut assembler = Assembler::new(&mut code[..room], ADDRESS);
            let branch = match kind {
                0 => assembler.jump(),
                1 => assembler.jump_if(Condition::Equal),
                2 => assembler.jump_short(),
                _ => assembler.jump_if_rcx_zero(),
            };
            assembler.bytes(&[0x90; 6]);
            assembler.bind(branch);
            assert!(assembler.is_full(), "{room} bytes, branch {kind}");
        }
    }
}
