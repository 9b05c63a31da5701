//! Programs made from random steps, within a frame that loads all registers first and
//! stores all of them last.
//!
//! A program has its own memory, its stack included, so that native and translated
//! runs have the same addresses everywhere, and every word of it can be compared.

use crate::process::{Code, words};
use iced_x86::code_asm::*;
use proptest::prelude::*;

/// One step: what it is, and what with.
pub(crate) type Step = (u8, u8, u8, u8, i32);

/// Steps of a program.
pub(crate) fn steps(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec(any::<Step>(), count)
}

/// The kind of step, modulo 32, that looks at the flags register as a whole.
pub(crate) const FLAGS_STEP: u8 = 19;
const WORDS: usize = 1024;
/// In words, from the beginning of the memory.
const FLAGS: usize = 16;
const SAVED_STACK: usize = 17;
const CLEAN_FLAGS: usize = 18;
const OUT: usize = 32;
const DATA: usize = 128;
const STACK_TOP: usize = 1000;
/// All but rsp; the last three have a purpose of their own.
const REGISTERS: [AsmRegister64; 15] = [rax, rcx, rdx, rbx, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15];
const FREE: usize = 12;

/// The words that differ, with their indices.
pub(crate) fn differences(a: &[u64], b: &[u64]) -> Vec<(usize, u64, u64)> {
    let pairs = a.iter().zip(b).enumerate().map(|(index, (a, b))| (index, *a, *b));
    pairs.filter(|(_, a, b)| a != b).collect()
}

/// A program with its memory.
pub(crate) struct Program {
    pub(crate) code: Code,
    memory: &'static mut [u64],
}

impl Program {
    /// A program that does nothing.
    pub(crate) fn new() -> Self {
        Self { code: Code::of_bytes(&[0xC3]), memory: words(WORDS) }
    }

    /// The addresses of its data and its stack, which nothing but the steps touches.
    #[allow(dead_code)] // For tests of tools, which share this file.
    pub(crate) fn data(&self) -> std::ops::Range<u64> {
        let base = self.memory.as_ptr().addr() as u64;
        base + DATA as u64 * 8..base + WORDS as u64 * 8
    }

    /// Makes it one of these steps, in the same place.
    pub(crate) fn rewrite(&mut self, steps: &[Step]) {
        let base = self.memory.as_ptr().addr() as i64;
        self.code.again(|a, _| {
            let (pending, leaves, slots) = (Vec::new(), Vec::new(), Vec::new());
            Writer { a, base, pending, repeat: None, leaves, slots }.whole(steps).expect("random code");
        });
    }

    /// Runs the program by `call` with these flags; all of its memory then.
    pub(crate) fn run(&mut self, flags: u64, call: impl FnOnce(Code) -> u64) -> Vec<u64> {
        let mut x = 0x1234_5678_9ABC_DEF1u64;
        for word in self.memory.iter_mut() {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *word = x;
        }
        (self.memory[FLAGS], self.memory[CLEAN_FLAGS]) = (flags, 0x202);
        call(self.code);
        self.memory.to_vec()
    }
}

struct Writer<'a> {
    a: &'a mut CodeAssembler,
    base: i64,
    /// Labels that come after so many more steps.
    pending: Vec<(usize, CodeLabel)>,
    /// The beginning of a loop that ends after so many more steps.
    repeat: Option<(usize, CodeLabel)>,
    /// Functions to write at the end.
    leaves: Vec<(u8, CodeLabel)>,
    /// Words of the code's own.
    slots: Vec<(i32, CodeLabel)>,
}

type Written = Result<(), iced_x86::IcedError>;

impl Writer<'_> {
    fn word(&self, index: usize) -> AsmMemoryOperand {
        qword_ptr(self.base + index as i64 * 8)
    }

    fn whole(&mut self, steps: &[Step]) -> Written {
        for register in [rbx, rbp, r12, r13, r14, r15] {
            self.a.push(register)?;
        }
        let (saved, flags, clean) = (self.word(SAVED_STACK), self.word(FLAGS), self.word(CLEAN_FLAGS));
        self.a.mov(saved, rsp)?;
        self.a.mov(rsp, self.base as u64 + STACK_TOP as u64 * 8)?;
        for (n, register) in REGISTERS.into_iter().enumerate() {
            let from = self.word(n);
            self.a.mov(register, from)?;
        }
        self.a.vzeroall()?;
        self.a.push(flags)?;
        self.a.popfq()?;
        // The first trap comes behind this, which is one instruction in the cache, too.
        self.a.nop()?;
        for step in steps {
            self.step(*step)?;
            self.count_down()?;
        }
        self.end_loop()?;
        for (n, register) in REGISTERS.into_iter().enumerate() {
            let to = self.word(OUT + n);
            self.a.mov(to, register)?;
        }
        let (out_stack, out_flags) = (self.word(OUT + 15), self.word(OUT + 16));
        self.a.mov(out_stack, rsp)?;
        self.a.pushfq()?;
        self.a.pop(out_flags)?;
        self.a.push(clean)?;
        self.a.popfq()?;
        self.a.mov(rsp, saved)?;
        self.a.mov(saved, 0)?;
        for register in [r15, r14, r13, r12, rbp, rbx] {
            self.a.pop(register)?;
        }
        self.a.ret()?;
        self.write_leaves()
    }

    fn write_leaves(&mut self) -> Written {
        for (kind, mut label) in std::mem::take(&mut self.leaves) {
            self.a.set_label(&mut label)?;
            match kind % 4 {
                0 => self.a.lea(rax, rax + rbx * 2 + 5)?,
                1 => self.a.adc(rdx, rsi)?,
                2 => {
                    self.a.mov(qword_ptr(rsp - 64), r9)?;
                    self.a.xor(r10, qword_ptr(rsp - 64))?;
                }
                _ => self.a.setb(cl)?,
            }
            if kind % 8 < 4 { self.a.ret()? } else { self.a.ret_1(8)? }
        }
        for (value, mut label) in std::mem::take(&mut self.slots) {
            self.a.set_label(&mut label)?;
            self.a.dq(&[value as u64])?;
        }
        Ok(())
    }

    fn count_down(&mut self) -> Written {
        for pending in &mut self.pending {
            pending.0 -= 1;
        }
        while let Some(at) = self.pending.iter().position(|p| p.0 == 0) {
            self.come_out(at)?;
        }
        match &mut self.repeat {
            Some((0, _)) => self.end_loop(),
            Some((left, _)) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn come_out(&mut self, at: usize) -> Written {
        let (_, mut label) = self.pending.swap_remove(at);
        self.a.set_label(&mut label)?;
        // iced wants an instruction between two labels.
        self.a.nop()
    }

    /// A branch into a loop or out of it would leave its count wrong.
    fn end_branches(&mut self) -> Written {
        while !self.pending.is_empty() {
            self.come_out(0)?;
        }
        Ok(())
    }

    fn end_loop(&mut self) -> Written {
        self.end_branches()?;
        if let Some((_, top)) = self.repeat.take() {
            self.a.dec(r15)?;
            self.a.jne(top)?;
        }
        Ok(())
    }

    /// Brings an offset into the data to r13.
    fn index(&mut self, from: AsmRegister64) -> Result<AsmMemoryOperand, iced_x86::IcedError> {
        self.a.mov(r13, from)?;
        self.a.and(r13, 0x1F8)?;
        Ok(qword_ptr(r13 + (self.base + DATA as i64 * 8)))
    }

    fn step(&mut self, (kind, first, second, c, imm): Step) -> Written {
        let register = |n: u8| REGISTERS[n as usize % FREE];
        let (x, y) = (register(first), register(second));
        match kind % 32 {
            0..=10 => self.compute(kind, x, y, c, imm),
            11..=20 => self.touch_memory(kind, x, y, c, imm),
            _ => self.go(kind, x, y, c, imm),
        }
    }

    fn compute(&mut self, kind: u8, x: AsmRegister64, y: AsmRegister64, c: u8, imm: i32) -> Written {
        let code = &mut *self.a;
        match kind % 32 {
            0 => code.mov(x, i64::from(imm) << (c % 32)),
            1 => match c % 8 {
                0 => code.add(x, y),
                1 => code.sub(x, y),
                2 => code.xor(x, y),
                3 => code.and(x, y),
                4 => code.or(x, y),
                5 => code.adc(x, y),
                6 => code.sbb(x, y),
                _ => code.imul_2(x, y),
            },
            2 if c.is_multiple_of(2) => code.cmp(x, y),
            2 => code.test(x, imm),
            3 => code.lea(x, x + y * [1, 2, 4, 8][c as usize % 4] + imm),
            4 => match c % 5 {
                0 => code.shl(x, u32::from(c >> 2)),
                1 => code.shr(x, u32::from(c >> 2)),
                2 => code.sar(x, u32::from(c >> 2)),
                3 => code.rol(x, u32::from(c >> 2)),
                _ => code.shld(x, y, u32::from(c >> 2)),
            },
            5 if c.is_multiple_of(2) => code.shl(x, cl),
            5 => code.rcr(x, cl),
            6 => match c % 4 {
                0 => code.cmovb(x, y),
                1 => code.cmovs(x, y),
                2 => code.cmovo(x, y),
                _ => code.cmovp(x, y),
            },
            7 => match c % 4 {
                0 => code.setb(al),
                1 => code.seto(ch),
                2 => code.setp(sil),
                _ => code.setg(r9b),
            },
            8 => match c % 5 {
                0 => code.inc(x),
                1 => code.dec(x),
                2 => code.neg(x),
                3 => code.not(x),
                _ => code.bswap(x),
            },
            9 => match c % 4 {
                0 => code.movzx(edx, al),
                1 => code.mov(bh, cl),
                2 => code.movsx(r8, cx),
                _ => code.mov(eax, r11d),
            },
            _ => {
                code.vmovq(xmm1, x)?;
                code.vpaddd(ymm2, ymm1, ymm2)?;
                code.vpxor(ymm2, ymm2, ymm1)?;
                code.vmovq(y, xmm2)
            }
        }
    }

    fn touch_memory(&mut self, kind: u8, x: AsmRegister64, y: AsmRegister64, c: u8, imm: i32) -> Written {
        match kind % 32 {
            11 => {
                let at = self.index(y)?;
                self.a.mov(x, at)
            }
            12 => {
                let at = self.index(y)?;
                self.a.mov(at, x)
            }
            13 => {
                let at = self.index(y)?;
                if c.is_multiple_of(2) { self.a.adc(at, x) } else { self.a.cmp(at, imm) }
            }
            14 => {
                let at = self.index(y)?;
                match c % 3 {
                    0 => self.a.lock().xadd(at, x),
                    1 => self.a.xchg(at, x),
                    _ => self.a.lock().cmpxchg(at, x),
                }
            }
            15 => {
                self.a.push(x)?;
                self.a.push(imm)?;
                self.a.pop(y)?;
                self.a.pop(x)
            }
            16 => {
                let at = -8 * (1 + i64::from(c % 16));
                self.a.mov(qword_ptr(rsp + at), x)?;
                self.a.add(y, qword_ptr(rsp + at))
            }
            17 | 18 => {
                let slot = self.a.create_label();
                self.slots.push((imm, slot));
                match c % 5 {
                    0 => self.a.mov(x, qword_ptr(slot)),
                    1 => self.a.sbb(x, qword_ptr(slot)),
                    2 => self.a.cmp(dword_ptr(slot), imm),
                    3 => self.a.lea(x, ptr(slot)),
                    _ => self.a.push(qword_ptr(slot)).and_then(|()| self.a.pop(y)),
                }
            }
            FLAGS_STEP => {
                self.a.pushfq()?;
                self.a.pop(x)
            }
            _ => {
                self.a.mov(rdi, self.base as u64 + DATA as u64 * 8)?;
                self.a.mov(ecx, u32::from(c % 40))?;
                if c & 64 == 0 { self.a.rep().stosb() } else { self.a.repne().scasb() }
            }
        }
    }

    fn go(&mut self, kind: u8, x: AsmRegister64, y: AsmRegister64, c: u8, imm: i32) -> Written {
        let label = self.a.create_label();
        let ahead = 1 + c as usize % 4;
        match kind % 32 {
            21..=24 => {
                self.pending.push((ahead, label));
                match imm.rem_euclid(8) {
                    0 => self.a.je(label),
                    1 => self.a.jne(label),
                    2 => self.a.jb(label),
                    3 => self.a.jle(label),
                    4 => self.a.jo(label),
                    5 => self.a.jp(label),
                    6 => self.a.jmp(label),
                    _ => self.a.js(label),
                }
            }
            25 => {
                self.pending.push((ahead, label));
                self.a.lea(x, ptr(label))?;
                self.a.jmp(x)
            }
            26 => {
                let mut over = self.a.create_label();
                self.a.mov(rcx, y)?;
                self.a.and(ecx, 3)?;
                self.a.jrcxz(over)?;
                self.a.inc(x)?;
                self.a.set_label(&mut over)?;
                self.a.nop()
            }
            27 | 28 if self.repeat.is_none() => {
                self.end_branches()?;
                self.a.mov(r15d, 1 + u32::from(c % 5))?;
                let mut top = label;
                self.a.set_label(&mut top)?;
                self.repeat = Some((ahead, top));
                self.a.nop()
            }
            27..=29 => {
                self.leaves.push((c, label));
                if c % 8 >= 4 {
                    self.a.push(x)?;
                }
                self.a.call(label)
            }
            _ => {
                self.leaves.push((c, label));
                if c % 8 >= 4 {
                    self.a.push(x)?;
                }
                self.a.lea(r14, ptr(label))?;
                if c & 16 == 0 {
                    return self.a.call(r14);
                }
                self.a.mov(qword_ptr(rsp - 40), r14)?;
                self.a.call(qword_ptr(rsp - 40))
            }
        }
    }
}
