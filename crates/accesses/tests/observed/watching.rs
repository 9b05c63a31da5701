//! Watched lines: each access is told, before it happens, with the program's state.
//!
//! Apart from `segments`: these accesses come to no segment.

use crate::observe::{Keep, Observed, engine_of, tool};
use crate::process::{Code, Distance, words};
use crate::vectors::has_avx_512;
use iced_x86::code_asm::*;
use relive_accesses::{Bits, Kind, WatchedAccess};
use relive_dbi::Context;

fn watching(bits: Bits, line: u64) -> Observed {
    let tool = tool(Keep::default()).with(bits).exactly();
    assert_eq!(tool.watch(line), Ok(()));
    Observed::new(engine_of(Distance::Near, tool))
}

fn told(observed: &Observed) -> Vec<(Context, WatchedAccess)> {
    std::mem::take(&mut observed.engine.tool().sink().watched.lock().unwrap())
}

const ALL: [Bits; 3] = [Bits::Extract, Bits::Shift, Bits::Plain];

#[test]
fn each_access_to_a_watched_line_is_told_before_it_happens() {
    let data = words(64);
    let start = data.as_mut_ptr() as u64;
    let watched = start + 128;
    let mut offsets = Vec::new();
    let f = Code::new(|a, _| {
        let mut here = |a: &CodeAssembler| offsets.push(a.instructions().len());
        a.mov(rbx, rbx).unwrap();
        a.xor(eax, eax).unwrap();
        let mut top = a.create_label();
        a.set_label(&mut top).unwrap();
        here(a);
        a.mov(qword_ptr(rdi + 8), rsi).unwrap();
        a.mov(qword_ptr(rdi - 8), rsi).unwrap();
        here(a);
        a.add(rax, qword_ptr(rdi + 8)).unwrap();
        here(a);
        a.mov(dword_ptr(rdi - 2), edx).unwrap();
        a.inc(rsi).unwrap();
        a.dec(rcx).unwrap();
        a.jne(top).unwrap();
        a.ret().unwrap();
    });
    for bits in ALL {
        let mut observed = watching(bits, watched / 64);
        let result = observed.call(f, [watched, 100, 0, 5, 0, 0]);
        assert_eq!(result, 100 + 101 + 102 + 103 + 104);
        let told = told(&observed);
        assert_eq!(told.len(), 15, "{bits:?}");
        for (round, three) in told.chunks(3).enumerate() {
            let expected = [(8, 8, Kind::Write), (8, 8, Kind::Read), (-2, 4, Kind::Write)];
            for ((context, access), (offset, bytes, kind)) in three.iter().zip(expected) {
                let address = watched.wrapping_add_signed(offset);
                let stored = match offset {
                    8 if kind == Kind::Write => Some(100 + round as u64),
                    -2 => Some(0),
                    _ => None,
                };
                let WatchedAccess { address: at, bytes: count, kind: found, .. } = *access;
                assert_eq!((at, count, found, number(access)), (address, bytes, kind, stored));
                // rdi, rsi, rcx and the stack as they are then.
                assert_eq!((context.general[7], context.general[1]), (watched, 5 - round as u64));
                assert_eq!(context.general[6], 100 + round as u64);
                assert!(f.range().contains(&context.ip));
            }
            let [first, second, third] = [0, 1, 2].map(|n| three[n].0.ip - f.0 as u64);
            assert!(first < second && second < third, "{first} {second} {third}");
            assert_eq!(three[0].0.general[4], three[2].0.general[4]);
        }
        let found = observed.take().only(|byte| (start..start + 512).contains(&byte));
        // The neighbours are noted, and so is the part of an access that is theirs.
        assert_eq!(found.written, (watched - 8..watched).collect());
        assert!(found.read.is_empty());
    }
}

/// One instruction, and the accesses to the line at rdi that are told: offset, bytes, kind.
fn one(write: impl Fn(&mut CodeAssembler), expected: &[(i64, u64, Kind)]) {
    let data = words(128);
    let watched = data.as_mut_ptr() as u64 + 512;
    let f = Code::new(|a, _| {
        a.mov(r8, rdi).unwrap();
        a.mov(eax, 5).unwrap();
        if has_avx_512() {
            a.kmovd(k1, eax).unwrap();
        }
        a.cmp(rdi, rsi).unwrap();
        write(a);
        a.setb(al).unwrap();
        a.mov(byte_ptr(rdx), al).unwrap();
        a.ret().unwrap();
    });
    let other = words(1).as_mut_ptr() as u64;
    for bits in ALL {
        let mut observed = watching(bits, watched / 64);
        for _ in 0..2 {
            observed.call(f, [watched, watched + 256, other, 10, 0, 0]);
            let found = told(&observed).into_iter().map(|(context, access)| {
                assert_eq!(context.general[8], watched);
                assert_eq!(context.flags & 1, 1, "the flags are the program's");
                (access.address.wrapping_sub(watched) as i64, access.bytes, access.kind)
            });
            assert_eq!(found.collect::<Vec<_>>(), expected, "{bits:?}");
        }
        observed.take();
    }
}

#[test]
fn accesses_of_every_manner_are_told() {
    one(|a| a.vmovdqu(ymmword_ptr(rdi - 20), ymm1).unwrap(), &[(-20, 32, Kind::Write)]);
    one(|a| a.lock().not(qword_ptr(rdi + 8)).unwrap(), &[(8, 8, Kind::Locked)]);
    one(|a| a.xchg(word_ptr(rdi + 8), ax).unwrap(), &[(8, 2, Kind::Locked)]);
    one(|a| a.rep().movsb().unwrap(), &[(0, 10, Kind::Write)]);
    one(|a| a.fld(tbyte_ptr(rdi + 3)).and_then(|()| a.fstp(st0)).unwrap(), &[(3, 10, Kind::Read)]);
    one(|a| a.push(qword_ptr(rdi)).and_then(|()| a.pop(rax)).unwrap(), &[(0, 8, Kind::Read)]);
    let masked = |a: &mut CodeAssembler| {
        a.set_prefer_vex(false);
        a.vmovdqu32(xmmword_ptr(rdi - 8).k1(), xmm1).unwrap();
    };
    if has_avx_512() {
        one(|a| a.vmovdqu64(zmm1, zmmword_ptr(rdi - 1)).unwrap(), &[(-1, 32, Kind::Read), (31, 32, Kind::Read)]);
        // Of elements at -8 and 0 the second is in the line.
        one(masked, &[(0, 4, Kind::Write)]);
    }
    one(|a| a.mov(qword_ptr(rdi + 64), rax).unwrap(), &[]);
}

/// What is told to be stored, if that is known, as a number.
fn number(access: &WatchedAccess) -> Option<u64> {
    let mut word = [0; 8];
    access.stored.at(0, &mut word[..access.bytes as usize]).then(|| u64::from_le_bytes(word))
}

/// What an instruction stores at rdi, where 40 stands, with the carry set and rsi and xmm1 as given.
fn stored(write: impl Fn(&mut CodeAssembler)) -> Option<u64> {
    let data = words(128);
    let watched = data.as_mut_ptr() as u64 + 512;
    let f = Code::new(|a, _| {
        a.mov(r8d, 40).unwrap();
        a.mov(qword_ptr(rdi + 64), r8).unwrap();
        a.mov(rax, -1i64).unwrap();
        a.movq(xmm1, rsi).unwrap();
        a.punpcklqdq(xmm1, xmm1).unwrap();
        a.stc().unwrap();
        a.lea(r9, qword_ptr(rdi + 64)).unwrap();
        write(a);
        a.ret().unwrap();
    });
    let mut observed = watching(Bits::Extract, watched / 64 + 1);
    observed.call(f, [watched, 0x1234_5678_9ABC_DEF0, 0, 3, 0, 0]);
    let told = told(&observed);
    observed.take();
    // The first one lays 40 there.
    assert_eq!((number(&told[0].1), told.len()), (Some(40), 2));
    let (after, bytes) = (data[(512 + 64) / 8], told[1].1.bytes);
    let stored = number(&told[1].1);
    let mask = if bytes < 8 { (1 << (bytes * 8)) - 1 } else { u64::MAX };
    assert!(stored.is_none_or(|stored| stored == after & mask), "{stored:x?} is told and {after:x} is there");
    stored
}

type Write<'a> = &'a dyn Fn(&mut CodeAssembler);

#[test]
fn what_is_stored_is_told_where_the_operands_say_it() {
    const SOURCE: u64 = 0x1234_5678_9ABC_DEF0;
    let same = [
        stored(|a| a.mov(qword_ptr(r9), rsi).unwrap()),
        stored(|a| a.movnti(qword_ptr(r9), rsi).unwrap()),
        stored(|a| a.movq(qword_ptr(r9), xmm1).unwrap()),
        stored(|a| a.vmovsd(qword_ptr(r9), xmm1).unwrap()),
        stored(|a| a.movhps(qword_ptr(r9), xmm1).unwrap()),
        stored(|a| a.xchg(qword_ptr(r9), rsi).unwrap()),
    ];
    assert_eq!(same, [Some(SOURCE); 6]);
    let known: [(Write<'_>, u64); 20] = [
        (&|a| a.mov(dword_ptr(r9), esi).unwrap(), 0x9ABC_DEF0),
        (&|a| a.mov(byte_ptr(rdi + 64), ah).unwrap(), 0xFF),
        (&|a| a.mov(dword_ptr(r9), -1).unwrap(), 0xFFFF_FFFF),
        (&|a| a.movd(dword_ptr(r9), xmm1).unwrap(), 0x9ABC_DEF0),
        (&|a| a.movbe(word_ptr(r9), si).unwrap(), 0xF0DE),
        (&|a| a.add(qword_ptr(r9), 2).unwrap(), 42),
        (&|a| a.adc(qword_ptr(r9), 2).unwrap(), 43),
        (&|a| a.sub(word_ptr(r9), 41).unwrap(), 0xFFFF),
        (&|a| a.sbb(dword_ptr(r9), 0).unwrap(), 39),
        (&|a| a.and(dword_ptr(r9), 8).unwrap(), 8),
        (&|a| a.or(byte_ptr(r9), 3).unwrap(), 43),
        (&|a| a.xor(byte_ptr(r9), 0xF0u32).unwrap(), 0xD8),
        (&|a| a.inc(dword_ptr(r9)).unwrap(), 41),
        (&|a| a.dec(byte_ptr(r9)).unwrap(), 39),
        (&|a| a.not(byte_ptr(r9)).unwrap(), 0xD7),
        (&|a| a.neg(word_ptr(r9)).unwrap(), 0xFFD8),
        (&|a| a.shl(dword_ptr(r9), cl).unwrap(), 320),
        (&|a| a.shr(dword_ptr(r9), 1).unwrap(), 20),
        (&|a| a.lock().xadd(dword_ptr(r9), ecx).unwrap(), 43),
        (&|a| a.lock().cmpxchg(dword_ptr(r9), ecx).unwrap(), 40),
    ];
    for (number, (write, expected)) in known.into_iter().enumerate() {
        assert_eq!(stored(write), Some(expected), "{number}");
    }
    assert_eq!(stored(|a| a.fisttp(dword_ptr(r9)).unwrap()), None);
    assert_eq!(stored(|a| a.rol(dword_ptr(r9), 1).unwrap()), None);
}

#[test]
fn what_conditions_store_is_told() {
    let known: [(Write<'_>, u64); 8] = [
        (&|a| a.setb(byte_ptr(r9)).unwrap(), 1),
        (&|a| a.setae(byte_ptr(r9)).unwrap(), 0),
        (&|a| a.setbe(byte_ptr(r9)).unwrap(), 1),
        (&|a| compared(a, 3, |a| a.setl(byte_ptr(r9)).unwrap()), 1),
        (&|a| compared(a, 3, |a| a.setge(byte_ptr(r9)).unwrap()), 0),
        (&|a| compared(a, 2, |a| a.setle(byte_ptr(r9)).unwrap()), 1),
        (&|a| compared(a, 2, |a| a.setne(byte_ptr(r9)).unwrap()), 0),
        (&|a| compared(a, 1, |a| a.setg(byte_ptr(r9)).unwrap()), 1),
    ];
    for (number, (write, expected)) in known.into_iter().enumerate() {
        assert_eq!(stored(write), Some(expected), "{number}");
    }
}

/// Behind a comparison of 2 with a number.
fn compared(a: &mut CodeAssembler, with: i32, write: impl Fn(&mut CodeAssembler)) {
    a.mov(r8d, 2).unwrap();
    a.cmp(r8d, with).unwrap();
    write(a);
}

/// Whether each byte that an instruction stores in the line at rdi, and in the next, is known before, and found there
/// behind it. At rsi stand other bytes, and in xmm1 to xmm3 and zmm1.
fn is_known(write: impl Fn(&mut CodeAssembler)) -> bool {
    let data = words(128);
    data.iter_mut().enumerate().for_each(|(n, word)| *word = 0x8901_7F80_0102_FE03u64.rotate_left(n as u32));
    let watched = data.as_mut_ptr() as u64 + 512;
    let f = Code::new(|a, _| {
        a.movdqu(xmm2, xmmword_ptr(rsi)).unwrap();
        a.movdqu(xmm3, xmmword_ptr(rsi + 16)).unwrap();
        a.vmovdqu(ymm1, ymmword_ptr(rsi)).unwrap();
        write(a);
        a.vzeroupper().unwrap();
        a.ret().unwrap();
    });
    let mut observed = watching(Bits::Extract, watched / 64);
    let source = data.as_ptr() as u64 + 24;
    observed.call(f, [watched, source, 0, 5, 0, 0]);
    let told = told(&observed);
    observed.take();
    let writes: Vec<_> = told.iter().filter(|(_, access)| access.kind != Kind::Read).collect();
    assert!(!writes.is_empty());
    writes.iter().all(|(_, access)| {
        let mut bytes = vec![0; access.bytes as usize];
        let known = access.stored.at(0, &mut bytes);
        let at = (access.address - data.as_ptr() as u64) as usize;
        let there: Vec<u8> = data.iter().flat_map(|word| word.to_le_bytes()).skip(at).take(bytes.len()).collect();
        assert!(!known || bytes == there, "{bytes:x?} is told and {there:x?} is there");
        known
    })
}

/// A repeated string instruction, from rsi to `to` behind rdi.
fn repeated(a: &mut CodeAssembler, count: i32, to: i32, write: impl Fn(&mut CodeAssembler)) {
    a.mov(ecx, count).unwrap();
    a.lea(rdi, qword_ptr(rdi + to)).unwrap();
    a.mov(rax, 0x1122_3344_5566_7788u64).unwrap();
    write(a);
}

#[test]
fn what_vectors_and_strings_store_is_told() {
    let known: &[Write<'_>] = &[
        &|a| a.movups(xmmword_ptr(rdi + 4), xmm2).unwrap(),
        &|a| a.movntdq(xmmword_ptr(rdi + 16), xmm2).unwrap(),
        &|a| a.vmovdqu(ymmword_ptr(rdi - 8), ymm1).unwrap(),
        &|a| a.vextracti128(xmmword_ptr(rdi + 3), ymm1, 1).unwrap(),
        &|a| a.pextrw(word_ptr(rdi), xmm2, 5).unwrap(),
        &|a| a.maskmovdqu(xmm3, xmm2).unwrap(),
        &|a| repeated(a, 40, 1, |a| a.rep().stosb().unwrap()),
        &|a| repeated(a, 9, -3, |a| a.rep().stosd().unwrap()),
        &|a| repeated(a, 9, 5, |a| a.rep().movsq().unwrap()),
        &|a| repeated(a, 5, 0, |a| a.movsb().unwrap()),
        &|a| repeated(a, 5, 8, |a| a.stosw().unwrap()),
        &|a| {
            a.std().unwrap();
            repeated(a, 9, 60, |a| a.rep().movsb().unwrap());
            a.cld().unwrap();
        },
    ];
    for (number, write) in known.iter().enumerate() {
        assert!(is_known(write), "{number}");
    }
    // Forwards over its own source.
    assert!(!is_known(|a| {
        a.mov(rsi, rdi).unwrap();
        repeated(a, 20, 8, |a| a.rep().movsb().unwrap());
    }));
    if has_avx_512() {
        let masked: &[Write<'_>] = &[
            &|a| a.vmovdqu64(zmmword_ptr(rdi - 20), zmm1).unwrap(),
            &|a| a.vmovdqu8(xmmword_ptr(rdi - 5).k1(), xmm2).unwrap(),
            &|a| a.vpcompressd(xmmword_ptr(rdi + 8).k1(), xmm2).unwrap(),
        ];
        for (number, write) in masked.iter().enumerate() {
            let with_mask = |a: &mut CodeAssembler| {
                a.mov(eax, 0b1010_0110).unwrap();
                a.kmovd(k1, eax).unwrap();
                write(a);
            };
            assert!(is_known(with_mask), "masked {number}");
        }
    }
}

#[test]
fn a_line_that_is_watched_later_is_told_from_the_next_segment_on() {
    let data = words(64).as_mut_ptr() as u64;
    let f = Code::new(|a, _| {
        a.mov(qword_ptr(rdi), rsi).unwrap();
        a.ret().unwrap();
    });
    let mut observed = Observed::new(engine_of(Distance::Near, tool(Keep::default()).exactly()));
    observed.call(f, [data, 1, 0, 0, 0, 0]);
    assert_eq!(observed.engine.tool().watch(data / 64), Ok(()));
    observed.call(f, [data, 1, 0, 0, 0, 0]);
    assert_eq!(observed.take().written.len(), 8);
    for _ in 0..3 {
        observed.call(f, [data, 1, 0, 0, 0, 0]);
    }
    assert_eq!(told(&observed).len(), 3);
    assert!(observed.take().written.is_empty());
}

#[test]
fn what_was_told_may_pass_up_to_the_segments_end_and_its_neighbours_do_not() {
    let data = words(64).as_mut_ptr() as u64;
    let f = Code::new(|a, _| {
        let mut top = a.create_label();
        a.set_label(&mut top).unwrap();
        a.add(qword_ptr(rdi + 8), 1).unwrap();
        a.mov(dword_ptr(rdi + 16), esi).unwrap();
        a.mov(rdx, qword_ptr(rdi + 12)).unwrap();
        a.dec(rcx).unwrap();
        a.jne(top).unwrap();
        a.ret().unwrap();
    });
    for bits in ALL {
        let tool = tool(Keep { passing: 16, ..Keep::default() }).with(bits).exactly();
        assert_eq!(tool.watch(data / 64), Ok(()));
        let mut observed = Observed::new(engine_of(Distance::Near, tool));
        for _ in 0..2 {
            observed.call(f, [data, 1, 0, 5, 0, 0]);
            let mut counts = [0; 64];
            for (_, access) in told(&observed) {
                counts[(access.address - data) as usize] += 1;
            }
            // Of each access, and of the one across both, the first; of what may not pass, all. Without a check in
            // place none passes.
            let told = if bits == Bits::Plain { (5, 5, 5) } else { (1, 1, 5) };
            assert_eq!((counts[8], counts[12], counts[16]), told, "{bits:?}");
            let found = observed.take();
            assert_eq!((found.written.len(), found.read.len()), (8, 4), "{bits:?}: {found:?}");
        }
    }
}
