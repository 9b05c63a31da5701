//! Each kind of instruction by itself: which bytes of 1024 it touches.
//!
//! Apart from `vectors`, where masks and indices decide. Each case is written down by
//! hand, runs natively first, and must leave data and registers as it does there.

use crate::observe::{Bytes, Observed, engines};
use crate::process::{Code, words};
use crate::program::differences;
use iced_x86::IcedError;
use iced_x86::code_asm::*;
use std::ops::Range;

const DATA_BYTES: usize = 1024;
/// What the cases have in rdi: a line begins there.
pub(crate) const MIDDLE: u64 = 512;

/// Writes instructions.
type Write = dyn Fn(&mut CodeAssembler) -> Result<(), IcedError>;

/// A case: what is executed, and what that touches, from where rdi points to.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) write: Box<Write>,
    pub(crate) read: Vec<Range<i64>>,
    pub(crate) written: Vec<Range<i64>>,
    pub(crate) locked: Vec<Range<i64>>,
}

impl Case {
    pub(crate) fn new(
        name: &'static str,
        write: impl Fn(&mut CodeAssembler) -> Result<(), IcedError> + 'static,
    ) -> Self {
        Self { name, write: Box::new(write), read: Vec::new(), written: Vec::new(), locked: Vec::new() }
    }

    pub(crate) fn reads(mut self, range: Range<i64>) -> Self {
        self.read.push(range);
        self
    }

    pub(crate) fn writes(mut self, range: Range<i64>) -> Self {
        self.written.push(range);
        self
    }

    pub(crate) fn locks(mut self, range: Range<i64>) -> Self {
        self.locked.push(range);
        self
    }

    fn expected(&self, start: u64) -> Bytes {
        let all = |ranges: &[Range<i64>]| {
            let bytes = ranges.iter().cloned().flatten();
            bytes.map(|byte| (start + MIDDLE).wrapping_add_signed(byte)).collect()
        };
        let mut bytes = Bytes { read: all(&self.read), written: all(&self.written), locked: all(&self.locked) };
        bytes.read = bytes.read.difference(&bytes.written).copied().collect();
        bytes
    }
}

fn fill(data: &mut [u64]) {
    data.iter_mut().enumerate().for_each(|(n, word)| *word = 0x0102_0304_0506_0708 * (n as u64 % 7 + 1));
}

/// Runs each case with all engines; `before` sets registers up, after which `rdi`, `rsi` and the stack are the data's.
pub(crate) fn check(cases: Vec<Case>, before: impl Fn(&mut CodeAssembler) -> Result<(), IcedError>) {
    let data = words(DATA_BYTES / 8);
    let start = data.as_mut_ptr() as u64;
    let registers = words(32);
    let out = registers.as_mut_ptr() as i64;
    let engines = engines();
    for case in cases {
        let code = Code::new(|a, _| {
            a.push(rbx).unwrap();
            a.push(rbp).unwrap();
            a.vzeroall().unwrap();
            a.fninit().unwrap();
            // What `enter` lays down is the test's caller's otherwise.
            a.xor(ebp, ebp).unwrap();
            a.xor(r8d, r8d).unwrap();
            a.xor(r9d, r9d).unwrap();
            before(a).unwrap();
            a.mov(rdi, start + MIDDLE).unwrap();
            a.mov(rsi, start + MIDDLE + 128).unwrap();
            a.mov(rax, 0x1234_5678_9ABC_DEF0u64).unwrap();
            a.mov(rbx, 3u64).unwrap();
            a.mov(rdx, 5u64).unwrap();
            a.mov(ecx, 7).unwrap();
            (case.write)(a).expect(case.name);
            for (n, register) in [rax, rbx, rcx, rdx, rsi, rdi, r8].into_iter().enumerate() {
                a.mov(qword_ptr(out + 8 * n as i64), register).unwrap();
            }
            a.vmovdqu(ymmword_ptr(out + 128), ymm0).unwrap();
            a.cld().unwrap();
            a.pop(rbp).unwrap();
            a.pop(rbx).unwrap();
            a.ret().unwrap();
        });
        fill(data);
        code.call([0; 6]);
        let native = (data.to_vec(), registers.to_vec());
        for (which, engine) in engines.iter().enumerate() {
            let mut observed = Observed::new(engine);
            for round in 0..2 {
                fill(data);
                let found = observed.touched(code, [0; 6], &(start..start + DATA_BYTES as u64));
                assert_eq!(differences(data, &native.0), [], "{}: the same as natively", case.name);
                assert_eq!(differences(registers, &native.1), [], "{}: the same as natively", case.name);
                let mut expected = case.expected(start);
                if round == 1 {
                    expected.locked.clear();
                }
                assert_eq!(found.difference(&expected), "", "{}, engine {which}, round {round}", case.name);
            }
        }
    }
}

fn nothing(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.nop()
}

#[test]
fn moves_and_arithmetic() {
    check(
        vec![
            Case::new("mov 8", |a| a.mov(rax, qword_ptr(rdi + 8))).reads(8..16),
            Case::new("mov 1", |a| a.mov(byte_ptr(rdi + 63), al)).writes(63..64),
            Case::new("mov 2 across lines", |a| a.mov(word_ptr(rdi + 63), ax)).writes(63..65),
            Case::new("mov 4 across lines", |a| a.mov(eax, dword_ptr(rdi + 61))).reads(61..65),
            Case::new("mov 8 across lines", |a| a.mov(rax, qword_ptr(rdi - 1))).reads(-1..7),
            Case::new("an address of 32 bits", |a| a.mov(rax, qword_ptr(edi - 8))).reads(-8..0),
            Case::new("index and scale", |a| a.mov(eax, dword_ptr(rdi + rbx * 4 + 1))).reads(13..17),
            Case::new("read and written", |a| a.add(dword_ptr(rdi), 1)).writes(0..4),
            Case::new("compared", |a| a.cmp(byte_ptr(rdi + 1), 1)).reads(1..2),
            Case::new("conditional move that is not done", |a| {
                a.cmp(rbx, 4)?;
                a.cmove(rax, qword_ptr(rdi))
            })
            .reads(0..8),
            Case::new("setcc", |a| a.setb(byte_ptr(rdi + 5))).writes(5..6),
            Case::new("movnti", |a| a.movnti(qword_ptr(rdi + 16), rax)).writes(16..24),
            Case::new("movbe", |a| a.movbe(rax, qword_ptr(rdi + 16))).reads(16..24),
            Case::new("mov with an address of 64 bits", |a| a.mov(rax, 1u64)),
            Case::new("cmpxchg that does not succeed", |a| a.cmpxchg(qword_ptr(rdi), rbx)).writes(0..8),
            Case::new("cmpxchg16b without lock", |a| a.cmpxchg16b(xmmword_ptr(rdi + 16))).writes(16..32),
            Case::new("cmpxchg8b", |a| a.cmpxchg8b(qword_ptr(rdi + 16))).writes(16..24),
        ],
        nothing,
    );
}

#[test]
fn what_is_no_access() {
    check(
        vec![
            Case::new("lea", |a| a.lea(rax, qword_ptr(rdi))),
            Case::new("nop", |a| a.nop_1(dword_ptr(rdi))),
            Case::new("prefetch", |a| {
                a.prefetcht0(byte_ptr(rdi))?;
                a.prefetchnta(byte_ptr(rdi + 64))?;
                a.prefetchw(byte_ptr(rdi + 128))
            }),
            Case::new("clflush", |a| {
                a.clflush(byte_ptr(rdi))?;
                a.clflushopt(byte_ptr(rdi))?;
                a.clwb(byte_ptr(rdi))
            }),
        ],
        nothing,
    );
}

#[test]
fn locked_instructions_are_told_apart() {
    check(
        vec![
            Case::new("lock add", |a| a.lock().add(dword_ptr(rdi), 1)).locks(0..4),
            Case::new("lock xadd", |a| a.lock().xadd(byte_ptr(rdi + 9), al)).locks(9..10),
            Case::new("xchg", |a| a.xchg(qword_ptr(rdi + 8), rax)).locks(8..16),
            Case::new("lock cmpxchg", |a| a.lock().cmpxchg(word_ptr(rdi), dx)).locks(0..2),
            Case::new("lock cmpxchg16b", |a| a.lock().cmpxchg16b(xmmword_ptr(rdi))).locks(0..16),
            Case::new("lock bts", |a| a.lock().bts(qword_ptr(rdi), 3)).locks(0..8),
            Case::new("lock bts with a register", |a| a.lock().bts(qword_ptr(rdi + 8), rbx)).locks(8..16),
            Case::new("across lines", |a| a.lock().inc(dword_ptr(rdi + 62))).locks(62..66),
        ],
        nothing,
    );
}

#[test]
fn bits_beyond_the_operand() {
    check(
        vec![
            Case::new("bt", |a| a.bt(qword_ptr(rdi), rbx)).reads(0..8),
            Case::new("bt with an immediate", |a| a.bt(dword_ptr(rdi), 40)).reads(0..4),
            Case::new("bts forwards", |a| {
                a.mov(r8, 1000u64)?;
                a.bts(qword_ptr(rdi), r8)
            })
            .writes(120..128),
            Case::new("btr backwards", |a| {
                a.mov(r8, -1i64)?;
                a.btr(dword_ptr(rdi), r8d)
            })
            .writes(-4..0),
            Case::new("btc of 16 bits", |a| {
                a.mov(r8d, 0xFFEF)?;
                a.btc(word_ptr(rdi), r8w)
            })
            .writes(-4..-2),
        ],
        nothing,
    );
}

#[test]
fn the_stack() {
    check(
        vec![
            Case::new("push and pop of memory", |a| {
                a.push(qword_ptr(rdi + 8))?;
                a.pop(qword_ptr(rdi + 24))
            })
            .reads(8..16)
            .writes(24..32),
            Case::new("rsp as an operand", |a| {
                a.mov(r9, rsp)?;
                a.mov(rsp, rdi)?;
                a.mov(qword_ptr(rsp - 16), rax)?;
                a.mov(rbx, qword_ptr(rsp + 8))?;
                a.push(rax)?;
                a.pop(qword_ptr(rsp + 32))?;
                a.push(qword_ptr(rsp + 40))?;
                a.mov(rsp, r9)
            })
            .writes(-16..-8)
            .reads(8..16)
            .writes(32..40)
            .reads(40..48),
            Case::new("enter and leave", |a| {
                a.mov(r9, rsp)?;
                a.mov(rsp, rdi)?;
                a.enter(32, 0)?;
                a.mov(dword_ptr(rbp - 12), 1)?;
                a.leave()?;
                a.mov(rsp, r9)
            })
            .writes(-20..-16),
            Case::new("a call through memory", |a| {
                let mut function = a.create_label();
                let mut over = a.create_label();
                a.lea(r8, ptr(function))?;
                a.mov(qword_ptr(rdi + 8), r8)?;
                a.call(qword_ptr(rdi + 8))?;
                a.mov(qword_ptr(rdi + 8), 0)?;
                a.xor(r8d, r8d)?;
                a.jmp(over)?;
                a.set_label(&mut function)?;
                a.ret()?;
                a.set_label(&mut over)?;
                a.nop()
            })
            .writes(8..16),
        ],
        nothing,
    );
}

#[test]
fn strings_that_are_moved() {
    let backwards = |a: &mut CodeAssembler| a.std();
    check(
        vec![
            Case::new("movsb", CodeAssembler::movsb).writes(0..1).reads(128..129),
            Case::new("rep movsb", |a| a.rep().movsb()).writes(0..7).reads(128..135),
            Case::new("rep movsq", |a| a.rep().movsq()).writes(0..56).reads(128..184),
            Case::new("rep movsd backwards", move |a| {
                backwards(a)?;
                a.rep().movsd()
            })
            .writes(-24..4)
            .reads(104..132),
            Case::new("rep stosq of nothing", |a| {
                a.xor(ecx, ecx)?;
                a.rep().stosq()
            }),
            Case::new("rep stosw", |a| a.rep().stosw()).writes(0..14),
            Case::new("rep stosb across lines", |a| {
                a.mov(ecx, 200)?;
                a.rep().stosb()
            })
            .writes(0..200),
            Case::new("rep stosd backwards", move |a| {
                backwards(a)?;
                a.rep().stosd()
            })
            .writes(-24..4),
        ],
        nothing,
    );
}

#[test]
fn strings_that_are_looked_at() {
    let backwards = |a: &mut CodeAssembler| a.std();
    check(
        vec![
            Case::new("rep lodsb", |a| a.rep().lodsb()).reads(128..135),
            Case::new("lodsq", CodeAssembler::lodsq).reads(128..136),
            Case::new("scasb", CodeAssembler::scasb).reads(0..1),
            Case::new("repne scasb that finds", |a| {
                a.mov(byte_ptr(rdi + 3), 0xF0u32 as i32 as i8 as i32)?;
                a.repne().scasb()
            })
            .reads(0..3)
            .writes(3..4),
            Case::new("repne scasd that does not find", |a| a.repne().scasd()).reads(0..28),
            Case::new("repe scasb", |a| a.repe().scasb()).reads(0..1),
            Case::new("repe cmpsb that stops", |a| {
                a.mov(qword_ptr(rdi), rax)?;
                a.mov(qword_ptr(rsi), rax)?;
                a.mov(byte_ptr(rsi + 4), 0)?;
                a.repe().cmpsb()
            })
            .writes(0..8)
            .writes(128..136),
            Case::new("repe cmpsb to its end", |a| {
                a.mov(rsi, rdi)?;
                a.repe().cmpsb()
            })
            .reads(0..7),
            Case::new("repe cmpsq backwards", move |a| {
                backwards(a)?;
                a.lea(rsi, rdi - 56)?;
                a.repe().cmpsq()
            })
            .reads(-48..8)
            .reads(-104..-48),
            Case::new("repne cmpsw", |a| a.repne().cmpsw()).reads(0..14).reads(128..142),
            Case::new("repe cmpsb, a long way", |a| {
                a.lea(rsi, rdi - 504)?;
                a.mov(ecx, 700)?;
                a.repe().cmpsb()
            })
            .reads(-504..8)
            .reads(0..512),
            Case::new("repe cmpsb with short addresses", |a| a.db(&[0x67, 0xF3, 0xA6])).reads(0..1).reads(128..129),
            Case::new("xlat", |a| {
                a.mov(rbx, rdi)?;
                a.xlatb()?;
                a.xor(ebx, ebx)
            })
            .reads(0xF0..0xF1),
        ],
        nothing,
    );
}

#[test]
fn x87_and_whole_states() {
    check(
        vec![
            Case::new("fld and fstp of ten bytes", |a| {
                a.fld1()?;
                a.fstp(tbyte_ptr(rdi + 8))?;
                a.fld(tbyte_ptr(rdi + 60))?;
                a.fstp(dword_ptr(rdi + 80))
            })
            .writes(8..18)
            .reads(60..70)
            .writes(80..84),
            Case::new("fild and fistp", |a| {
                a.fild(qword_ptr(rdi))?;
                a.fistp(word_ptr(rdi + 16))
            })
            .reads(0..8)
            .writes(16..18),
            Case::new("fbstp", |a| {
                a.fldz()?;
                a.fbstp(tbyte_ptr(rdi))
            })
            .writes(0..10),
            Case::new("control words", |a| {
                a.fnstcw(word_ptr(rdi))?;
                a.fldcw(word_ptr(rdi))?;
                a.stmxcsr(dword_ptr(rdi + 4))?;
                a.ldmxcsr(dword_ptr(rdi + 4))
            })
            .writes(0..2)
            .writes(4..8),
            Case::new("environment", |a| {
                a.fninit()?;
                a.fnstenv(ptr(rdi + 50))?;
                a.fldenv(ptr(rdi + 50))
            })
            .writes(50..78),
            Case::new("fnsave and frstor", |a| {
                a.fninit()?;
                a.fnsave(ptr(rdi))?;
                a.frstor(ptr(rdi))
            })
            .writes(0..108),
        ],
        nothing,
    );
}

#[test]
fn what_fxsave_writes_is_what_is_counted() {
    let case = |restores: bool| {
        let name = if restores { "fxsave and fxrstor" } else { "fxsave" };
        Case::new(name, move |a| {
            a.fninit()?;
            a.fxsave(ptr(rdi))?;
            if restores { a.fxrstor(ptr(rdi)) } else { a.nop() }
        })
        .writes(0..416)
    };
    check(vec![case(false), case(true)], nothing);
    // Nothing beyond that is changed by this processor.
    let area = &mut words(66)[..64];
    area.fill(0xAAAA_AAAA_AAAA_AAAA);
    let code = Code::new(|a, _| {
        a.fxsave(ptr(rdi)).unwrap();
        a.ret().unwrap();
    });
    code.call([area.as_mut_ptr() as u64, 0, 0, 0, 0, 0]);
    assert!(area[416 / 8..].iter().all(|word| *word == 0xAAAA_AAAA_AAAA_AAAA), "{area:x?}");
}
