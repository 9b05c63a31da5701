//! Accesses of which a mask or a vector of indices decides which bytes they touch.
//!
//! Apart from `instructions` for the registers that they need.

use crate::instructions::{Case, check};
use iced_x86::code_asm::*;
use iced_x86::{Code as I, IcedError, Instruction, MemoryOperand, Register as R};

/// Whether this processor has AVX-512. Where it has not, cases of it are left out, and the others find their indices in ymm4.
pub(crate) fn has_avx_512() -> bool {
    is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("avx512bw")
}

fn runs_here(case: &Case, masked: bool) -> bool {
    let mut a = CodeAssembler::new(64).expect("64 bits");
    a.set_prefer_vex(!masked);
    (case.write)(&mut a).expect(case.name);
    let needs = |code: I| code.cpuid_features().iter().any(|feature| format!("{feature:?}").starts_with("AVX512"));
    has_avx_512() || !a.instructions().iter().any(|instruction| needs(instruction.code()))
}

/// k1 and ymm1's signs have elements 0, 2 and 3 of four, k2 has none, and k3 has bits beyond what it is used for. zmm4 and
/// ymm5 have indices of four and eight bytes.
fn registers(a: &mut CodeAssembler) -> Result<(), IcedError> {
    if has_avx_512() {
        a.mov(eax, 0b1101)?;
        a.kmovd(k1, eax)?;
        a.kxorq(k2, k2, k2)?;
        a.mov(rax, 0xFFFF_FFFF_FFFF_0010u64)?;
        a.kmovq(k3, rax)?;
    }
    let mut over = a.create_label();
    let mut indices = a.create_label();
    let mut wide = a.create_label();
    let mut signs = a.create_label();
    let mut wide_signs = a.create_label();
    if has_avx_512() {
        a.vmovdqu32(zmm4, zmmword_ptr(indices))?;
    } else {
        a.vmovdqu(ymm4, ymmword_ptr(indices))?;
    }
    a.vmovdqu(ymm5, ymmword_ptr(wide))?;
    a.vmovdqu(xmm1, xmmword_ptr(signs))?;
    a.vmovdqu(ymm6, ymmword_ptr(wide_signs))?;
    a.vmovdqa(ymm7, ymm6)?;
    a.vmovdqa(xmm3, xmm1)?;
    a.mov(rax, 0x8000_0000_8080_0080u64)?;
    a.movq(mm1, rax)?;
    a.jmp(over)?;
    a.set_label(&mut indices)?;
    let offsets = [0i32, -16, 5, 40, 70, -1, 100, 3, 20, 21, 22, 23, -60, -61, 90, 91];
    a.dd(&offsets.map(|offset| offset as u32))?;
    a.set_label(&mut wide)?;
    a.dq(&[3, (-2i64) as u64, 0, 9])?;
    a.set_label(&mut signs)?;
    a.dd(&[0x8000_0000, 0x7FFF_FFFF, 0xFFFF_FFFF, 0x8000_0001])?;
    a.set_label(&mut wide_signs)?;
    a.dq(&[1 << 63, 0, u64::MAX, 1 << 62])?;
    a.set_label(&mut over)?;
    a.nop()
}

fn check_with_masks(cases: Vec<Case>) {
    check(cases.into_iter().filter(|case| runs_here(case, true)).collect(), with_masks);
}

fn all(cases: Vec<Case>) {
    check(cases.into_iter().filter(|case| runs_here(case, false)).collect(), registers);
}

#[test]
fn whole_vectors() {
    all(vec![
        Case::new("16 bytes", |a| a.movups(xmm0, xmmword_ptr(rdi + 3))).reads(3..19),
        Case::new("16 bytes across lines", |a| a.movups(xmmword_ptr(rdi - 7), xmm2)).writes(-7..9),
        Case::new("32 bytes across lines", |a| a.vmovdqu(ymm0, ymmword_ptr(rdi + 45))).reads(45..77),
        Case::new("32 bytes that end with the line", |a| a.vmovdqu(ymmword_ptr(rdi + 32), ymm2)).writes(32..64),
        Case::new("64 bytes", |a| a.vmovdqu64(zmmword_ptr(rdi), zmm4)).writes(0..64),
        Case::new("64 bytes across lines", |a| a.vmovdqu64(zmm0, zmmword_ptr(rdi + 1))).reads(1..65),
        Case::new("an embedded broadcast", |a| a.vaddps(zmm0, zmm4, dword_bcst(rdi + 8))).reads(8..12),
        Case::new("vbroadcastsd", |a| a.vbroadcastsd(ymm0, qword_ptr(rdi + 8))).reads(8..16),
        Case::new("pmovzx", |a| a.vpmovzxbd(ymm0, qword_ptr(rdi + 2))).reads(2..10),
        Case::new("vpmovqb", |a| a.vpmovqb(dword_ptr(rdi + 2), ymm5)).writes(2..6),
        Case::new("an element", |a| a.pextrw(word_ptr(rdi + 6), xmm1, 2)).writes(6..8),
        Case::new("movss", |a| a.movss(xmm0, dword_ptr(rdi + 62))).reads(62..66),
        Case::new("movhps", |a| a.movhps(qword_ptr(rdi + 8), xmm1)).writes(8..16),
    ]);
}

/// Otherwise iced takes encodings without masks.
fn with_masks(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.set_prefer_vex(!has_avx_512());
    registers(a)
}

#[test]
fn masks_of_avx_512() {
    check_with_masks(vec![
        Case::new("vmovdqu8", |a| a.vmovdqu8(xmmword_ptr(rdi + 1).k1(), xmm4)).writes(1..2).writes(3..5),
        Case::new("vmovdqu8 of 64", |a| a.vmovdqu8(zmm0.k3().z(), zmmword_ptr(rdi + 60))).reads(64..65).reads(76..124),
        Case::new("vmovdqu16", |a| a.vmovdqu16(ymm0.k1().z(), ymmword_ptr(rdi))).reads(0..2).reads(4..8),
        Case::new("vmovups, merging", |a| a.vmovups(zmm0.k1(), zmmword_ptr(rdi + 56))).reads(56..60).reads(64..72),
        Case::new("vmovupd", |a| a.vmovupd(ymmword_ptr(rdi + 8).k1(), ymm5)).writes(8..16).writes(24..40),
        Case::new("none", |a| a.vmovups(zmmword_ptr(rdi).k2(), zmm4)),
        Case::new("bits beyond the elements", |a| a.vmovdqu32(xmmword_ptr(rdi).k3(), xmm4)),
        Case::new("one element", |a| a.vmovss(dword_ptr(rdi + 4).k1(), xmm4)).writes(4..8),
        Case::new("no element", |a| a.vmovss(xmm0.k2().z(), dword_ptr(rdi + 4))),
        Case::new("arithmetic", |a| a.vpaddd(ymm0.k1().z(), ymm4, ymmword_ptr(rdi + 1))).reads(1..5).reads(9..17),
        Case::new("a comparison", |a| a.vpcmpub(k4.k1(), xmm4, xmmword_ptr(rdi), 0)).reads(0..1).reads(2..4),
        Case::new("widening", |a| a.vpmovzxbd(zmm0.k1().z(), xmmword_ptr(rdi))).reads(0..1).reads(2..4),
        Case::new("narrowing", |a| a.vpmovqb(dword_ptr(rdi + 1).k1(), ymm5)).writes(1..2).writes(3..5),
        Case::new("a broadcast that is used", |a| a.vpaddd(ymm0.k1().z(), ymm4, dword_bcst(rdi + 4))).reads(4..8),
        Case::new("a broadcast that is not used", |a| a.vpaddd(ymm0.k2().z(), ymm4, dword_bcst(rdi + 4))),
        Case::new("a broadcast for others", |a| a.vpaddd(xmm0.k3().z(), xmm4, dword_bcst(rdi + 4))),
        Case::new("vpbroadcastd", |a| a.vpbroadcastd(zmm0.k1().z(), dword_ptr(rdi + 4))).reads(4..8),
        Case::new("a permutation reads all", |a| a.vpermd(ymm0.k1().z(), ymm4, ymmword_ptr(rdi))).reads(0..32),
        Case::new("compress", |a| a.vpcompressd(zmmword_ptr(rdi + 60).k1(), zmm4)).writes(60..72),
        Case::new("compress nothing", |a| a.vpcompressd(zmmword_ptr(rdi).k2(), zmm4)),
        Case::new("expand", |a| a.vexpandpd(zmm0.k1().z(), zmmword_ptr(rdi + 4))).reads(4..28),
    ]);
}

#[test]
fn masks_of_avx_and_sse() {
    all(vec![
        Case::new("vmaskmovps", |a| a.vmaskmovps(xmm0, xmm1, xmmword_ptr(rdi + 58))).reads(58..62).reads(66..74),
        Case::new("vmaskmovpd", |a| a.vmaskmovpd(ymmword_ptr(rdi), ymm6, ymm5)).writes(0..8).writes(16..24),
        Case::new("vpmaskmovd", |a| a.vpmaskmovd(ymmword_ptr(rdi), ymm1, ymm5)).writes(0..4).writes(8..16),
        Case::new("vpmaskmovq", |a| a.vpmaskmovq(xmm0, xmm6, xmmword_ptr(rdi))).reads(0..8),
        Case::new("maskmovdqu", |a| a.maskmovdqu(xmm4, xmm1)).writes(3..7).writes(8..12).writes(15..16),
        Case::new("maskmovq", |a| {
            a.maskmovq(mm2, mm1)?;
            a.emms()
        })
        .writes(0..1)
        .writes(2..4)
        .writes(7..8),
    ]);
}

/// A gather of AVX2 from rdi on: to a register, at indices, masked by signs.
fn gather(
    a: &mut CodeAssembler,
    code: I,
    [to, indices, mask]: [R; 3],
    scale: u32,
    displacement: i64,
) -> Result<(), IcedError> {
    let memory = MemoryOperand::with_base_index_scale_displ_size(R::RDI, indices, scale, displacement, 1);
    a.add_instruction(Instruction::with3(code, to, memory, mask)?)
}

#[test]
fn gathers_and_scatters() {
    check_with_masks(vec![
        Case::new("vpgatherdd of AVX2", |a| {
            gather(a, I::VEX_Vpgatherdd_xmm_vm32x_xmm, [R::XMM0, R::XMM4, R::XMM1], 2, 0)
        })
        .reads(0..4)
        .reads(10..14)
        .reads(80..84),
        Case::new("vgatherqpd of AVX2", |a| {
            gather(a, I::VEX_Vgatherqpd_ymm_vm64y_ymm, [R::YMM0, R::YMM5, R::YMM6], 8, 1)
        })
        .reads(25..33)
        .reads(1..9),
        Case::new("vgatherqps of AVX2", |a| {
            gather(a, I::VEX_Vgatherqps_xmm_vm64y_xmm, [R::XMM0, R::YMM5, R::XMM3], 1, 0)
        })
        .reads(3..7)
        .reads(0..4)
        .reads(9..13),
        Case::new("vpgatherdq of AVX2", |a| {
            gather(a, I::VEX_Vpgatherdq_ymm_vm32x_ymm, [R::YMM0, R::XMM4, R::YMM7], 1, 0)
        })
        .reads(0..8)
        .reads(5..13),
        Case::new("vpgatherdd", |a| a.vpgatherdd(zmm0.k1(), dword_ptr(rdi + zmm4)))
            .reads(0..4)
            .reads(5..9)
            .reads(40..44),
        Case::new("vpscatterdd", |a| a.vpscatterdd(dword_ptr(rdi + ymm4 * 4).k1(), ymm1))
            .writes(0..4)
            .writes(20..24)
            .writes(160..164),
        Case::new("vscatterqpd", |a| a.vscatterqpd(qword_ptr(rdi + ymm5 * 1 - 2).k1(), ymm1))
            .writes(1..9)
            .writes(-2..6)
            .writes(7..15),
        Case::new("nothing", |a| a.vpgatherdd(zmm0.k2(), dword_ptr(rdi + zmm4))),
        Case::new("everything", |a| {
            a.kxnorw(k4, k4, k4)?;
            a.vpgatherdd(zmm0.k4(), dword_ptr(rdi + zmm4 * 2))
        })
        .reads(0..4)
        .reads(-32..-28)
        .reads(10..14)
        .reads(80..84)
        .reads(140..144)
        .reads(-2..2)
        .reads(200..204)
        .reads(6..10)
        .reads(40..50)
        .reads(-122..-116)
        .reads(180..186),
    ]);
}
