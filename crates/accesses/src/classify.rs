//! Which memory an instruction accesses, and how one finds out which bytes.
//!
//! Apart from what is emitted for it: here the instruction set is, and nothing else.
//!
//! Not accesses: what calls, returns, pushes, pops, `enter` and `leave` do to the stack
//! by themselves (an operand of theirs in memory is one); prefetches, flushes of cache
//! lines, `lea` and no-operations; and the read of the stack protector's canary, which
//! nobody writes once a thread runs.

use crate::what::{Class, Kind, What};
use iced_x86::{Code, Instruction, Mnemonic as M, OpKind, Register};
use relive_dbi::{Access, AccessKind, Site};

/// One access of an instruction.
pub(crate) struct Piece<'a> {
    pub(crate) access: Access<'a>,
    pub(crate) what: What,
}

impl Piece<'_> {
    /// How many bytes, if the instruction alone says so and a check can do it.
    pub(crate) fn plain_bytes(&self) -> Option<u32> {
        (self.what.class == Class::Plain).then_some(u32::from(self.what.element))
    }
}

/// The accesses of an instruction.
pub(crate) fn pieces<'a>(site: &Site<'a>) -> impl Iterator<Item = Piece<'a>> {
    let instruction = site.instruction();
    let locked = site.is_locked();
    let whole = !accesses_nothing(instruction.mnemonic());
    site.accesses().filter(move |access| whole && !is_implicit(instruction, access)).map(move |access| {
        let kind = match access.kind {
            _ if locked => Kind::Locked,
            AccessKind::Read => Kind::Read,
            AccessKind::Write | AccessKind::ReadWrite => Kind::Write,
        };
        Piece { what: what(instruction, &access, kind), access }
    })
}

/// Whether an access of 16 bytes or more faults unless its address is a multiple of its size.
pub(crate) fn is_aligned(instruction: &Instruction) -> bool {
    let aligned = matches!(
        instruction.mnemonic(),
        M::Movaps
            | M::Movapd
            | M::Movdqa
            | M::Movntps
            | M::Movntpd
            | M::Movntdq
            | M::Movntdqa
            | M::Vmovaps
            | M::Vmovapd
            | M::Vmovdqa
            | M::Vmovdqa32
            | M::Vmovdqa64
            | M::Vmovntps
            | M::Vmovntpd
            | M::Vmovntdq
            | M::Vmovntdqa
    );
    aligned && instruction.memory_size().size() >= 16
}

fn accesses_nothing(mnemonic: M) -> bool {
    matches!(
        mnemonic,
        M::Lea
            | M::Nop
            | M::Reservednop
            | M::Prefetch
            | M::Prefetchw
            | M::Prefetchwt1
            | M::Prefetchnta
            | M::Prefetcht0
            | M::Prefetcht1
            | M::Prefetcht2
            | M::Prefetchit0
            | M::Prefetchit1
            | M::Clflush
            | M::Clflushopt
            | M::Clwb
            | M::Cldemote
            | M::Monitor
            | M::Monitorx
            | M::Umonitor
            | M::Enter
            | M::Leave
    )
}

/// Whether the access is the instruction's own use of the stack, or of the canary.
fn is_implicit(instruction: &Instruction, access: &Access<'_>) -> bool {
    let memory = access.memory();
    let constant = memory.base() == Register::None && memory.index() == Register::None;
    if constant && memory.segment() == Register::FS && memory.displacement() == 0x28 {
        return access.kind == AccessKind::Read;
    }
    let writes = match instruction.mnemonic() {
        M::Push | M::Pushf | M::Pushfq | M::Call => true,
        M::Pop | M::Popf | M::Popfq | M::Ret => false,
        _ => return false,
    };
    (access.kind == AccessKind::Write) == writes
}

fn what(instruction: &Instruction, access: &Access<'_>, kind: Kind) -> What {
    let size = instruction.memory_size();
    let bytes = access.bytes;
    let plain = What::new(Class::Plain, kind, bytes as u8);
    let of_class = |class, element: usize| What::new(class, kind, element as u8);
    let mask = instruction.op_mask();
    if access.scattered {
        return scattered(instruction, access, kind);
    }
    if access.repeated {
        return What { operation: repeat(instruction), ..of_class(Class::String, string_element(instruction)) };
    }
    if let Some(operation) = state(instruction.mnemonic()) {
        return What { operation, lanes: bytes as u8, ..of_class(Class::State, 1) };
    }
    if mask != Register::None {
        let element = size.element_size().max(1);
        let (class, element, lanes) = match instruction.mnemonic() {
            mnemonic if size.is_broadcast() || is_broadcast(mnemonic) => {
                (Class::Broadcast, bytes, vector_bytes(instruction) / element)
            }
            mnemonic if is_packed(mnemonic) => (Class::Packed, element, bytes / element),
            mnemonic if ignores_mask(mnemonic) => return plain,
            // The mask has a bit for each element of the result, which need not be as large as that in memory.
            _ => (Class::Masked, element, bytes / element),
        };
        return What { lanes: lanes as u8, register: mask.number() as u8, ..of_class(class, element) };
    }
    match instruction.mnemonic() {
        M::Xlatb => of_class(Class::Translate, 1),
        M::Bt | M::Bts | M::Btr | M::Btc if instruction.op1_kind() == OpKind::Register => {
            What { register: instruction.op1_register().number() as u8, ..of_class(Class::Bit, bytes) }
        }
        M::Vmaskmovps | M::Vpmaskmovd => by_signs(instruction, kind, 4, bytes),
        M::Vmaskmovpd | M::Vpmaskmovq => by_signs(instruction, kind, 8, bytes),
        M::Maskmovq | M::Maskmovdqu | M::Vmaskmovdqu => of_class(Class::Span, 1),
        _ if (1..=64).contains(&bytes) => plain,
        mnemonic => {
            let [low, high] = (mnemonic as u16).to_le_bytes();
            What { lanes: high, ..of_class(Class::Unknown, usize::from(low)) }
        }
    }
}

fn by_signs(instruction: &Instruction, kind: Kind, element: u8, bytes: usize) -> What {
    // The mask is the second operand of a load and of a store.
    let register = instruction.op1_register().number() as u8;
    What { lanes: bytes as u8 / element, register, ..What::new(Class::MaskedBySigns, kind, element) }
}

/// Bytes of the largest vector register among the operands.
fn vector_bytes(instruction: &Instruction) -> usize {
    let registers = (0..instruction.op_count()).filter(|&n| instruction.op_kind(n) == OpKind::Register);
    let vectors = registers.map(|n| instruction.op_register(n)).filter(|r| r.is_vector_register());
    vectors.map(Register::size).max().unwrap_or(64)
}

fn scattered(instruction: &Instruction, access: &Access<'_>, kind: Kind) -> What {
    let memory = access.memory();
    let index = memory.index();
    let index_bytes = if memory.vsib_size() == 8 { 8 } else { 4 };
    let element = instruction.memory_size().element_size().max(1);
    // As many as there is room for on both sides.
    let (of_indices, of_data) = (index.size() / index_bytes, vector_bytes(instruction) / element);
    let masked = instruction.op_mask();
    let (register, operation) = if masked == Register::None {
        // AVX2: the third operand, by its signs.
        (instruction.op2_register().number(), 1)
    } else {
        (masked.number(), 0)
    };
    What {
        lanes: of_indices.min(of_data) as u8,
        register: register as u8,
        indices: index.number() as u8,
        scale: (index_bytes as u8) << 4 | memory.scale() as u8,
        operation,
        ..What::new(Class::Scattered, kind, element as u8)
    }
}

/// Whether this is the piece of a string instruction by which it is visited: its source, if it has one.
pub(crate) fn is_source(site: &Site<'_>, piece: &Piece<'_>) -> bool {
    let of_source = |access: &Access<'_>| matches!(access.memory().base(), Register::RSI | Register::ESI);
    of_source(&piece.access) || !site.accesses().any(|access| of_source(&access))
}

/// String instructions by number.
pub(crate) mod string {
    pub(crate) const MOVE: u8 = 0;
    pub(crate) const STORE: u8 = 1;
    pub(crate) const LOAD: u8 = 2;
    pub(crate) const COMPARE: u8 = 3;
    pub(crate) const SCAN: u8 = 4;
    /// Of those: until elements are equal, not while they are.
    pub(crate) const UNTIL_EQUAL: u8 = 0x10;
    /// Addresses and count have 32 bits.
    pub(crate) const SHORT: u8 = 0x20;
}

fn repeat(instruction: &Instruction) -> u8 {
    let which = match instruction.mnemonic() {
        M::Movsb | M::Movsw | M::Movsd | M::Movsq => string::MOVE,
        M::Stosb | M::Stosw | M::Stosd | M::Stosq => string::STORE,
        M::Cmpsb | M::Cmpsw | M::Cmpsd | M::Cmpsq => string::COMPARE,
        M::Scasb | M::Scasw | M::Scasd | M::Scasq => string::SCAN,
        _ => string::LOAD,
    };
    let until = if instruction.has_repne_prefix() { string::UNTIL_EQUAL } else { 0 };
    let is_short = |kind| matches!(kind, OpKind::MemorySegESI | OpKind::MemorySegEDI | OpKind::MemoryESEDI);
    let short = (0..instruction.op_count()).any(|n| is_short(instruction.op_kind(n)));
    which | until | if short { string::SHORT } else { 0 }
}

fn string_element(instruction: &Instruction) -> usize {
    match instruction.code() {
        Code::Movsb_m8_m8 | Code::Stosb_m8_AL | Code::Lodsb_AL_m8 | Code::Cmpsb_m8_m8 | Code::Scasb_AL_m8 => 1,
        Code::Movsw_m16_m16 | Code::Stosw_m16_AX | Code::Lodsw_AX_m16 | Code::Cmpsw_m16_m16 | Code::Scasw_AX_m16 => 2,
        Code::Movsd_m32_m32 | Code::Stosd_m32_EAX | Code::Lodsd_EAX_m32 | Code::Cmpsd_m32_m32 | Code::Scasd_EAX_m32 => {
            4
        }
        _ => 8,
    }
}

/// Instructions that keep the processor's state, by number.
pub(crate) mod keep {
    pub(crate) const FXSAVE: u8 = 0;
    pub(crate) const FXRSTOR: u8 = 1;
    pub(crate) const XSAVE: u8 = 2;
    pub(crate) const XSAVEOPT: u8 = 3;
    pub(crate) const XSAVEC: u8 = 4;
    pub(crate) const XRSTOR: u8 = 5;
    pub(crate) const FNSAVE: u8 = 6;
    pub(crate) const FRSTOR: u8 = 7;
}

fn state(mnemonic: M) -> Option<u8> {
    Some(match mnemonic {
        M::Fxsave | M::Fxsave64 => keep::FXSAVE,
        M::Fxrstor | M::Fxrstor64 => keep::FXRSTOR,
        M::Xsave | M::Xsave64 => keep::XSAVE,
        M::Xsaveopt | M::Xsaveopt64 => keep::XSAVEOPT,
        M::Xsavec | M::Xsavec64 => keep::XSAVEC,
        M::Xrstor | M::Xrstor64 => keep::XRSTOR,
        M::Fnsave => keep::FNSAVE,
        M::Frstor => keep::FRSTOR,
        _ => return None,
    })
}

/// Whether the elements in memory lie side by side, as many as the mask has bits.
fn is_packed(mnemonic: M) -> bool {
    matches!(
        mnemonic,
        M::Vcompressps
            | M::Vcompresspd
            | M::Vpcompressb
            | M::Vpcompressw
            | M::Vpcompressd
            | M::Vpcompressq
            | M::Vexpandps
            | M::Vexpandpd
            | M::Vpexpandb
            | M::Vpexpandw
            | M::Vpexpandd
            | M::Vpexpandq
    )
}

/// Whether the processor reads all of the memory whatever the mask is: the elements of the result are not those of the
/// memory, one for one (Intel SDM volume 2, exceptions of types E4NF and E9NF).
fn ignores_mask(mnemonic: M) -> bool {
    moves_elements(mnemonic) || combines_elements(mnemonic)
}

/// Of these: permutations.
fn moves_elements(mnemonic: M) -> bool {
    matches!(
        mnemonic,
        M::Vpermb
            | M::Vpermw
            | M::Vpermd
            | M::Vpermq
            | M::Vpermps
            | M::Vpermpd
            | M::Vpermi2b
            | M::Vpermi2w
            | M::Vpermi2d
            | M::Vpermi2q
            | M::Vpermi2ps
            | M::Vpermi2pd
            | M::Vpermt2b
            | M::Vpermt2w
            | M::Vpermt2d
            | M::Vpermt2q
            | M::Vpermt2ps
            | M::Vpermt2pd
            | M::Vpshufb
            | M::Vpshufd
            | M::Vpshufhw
            | M::Vpshuflw
            | M::Vshufps
            | M::Vshufpd
            | M::Vshuff32x4
            | M::Vshuff64x2
            | M::Vshufi32x4
            | M::Vshufi64x2
            | M::Vpalignr
            | M::Valignd
            | M::Valignq
            | M::Vdbpsadbw
            | M::Vpmultishiftqb
            | M::Vpshufbitqmb
            | M::Vpacksswb
            | M::Vpackssdw
            | M::Vpackuswb
            | M::Vpackusdw
            | M::Vpunpcklbw
            | M::Vpunpcklwd
            | M::Vpunpckldq
            | M::Vpunpcklqdq
            | M::Vpunpckhbw
            | M::Vpunpckhwd
            | M::Vpunpckhdq
            | M::Vpunpckhqdq
            | M::Vunpcklps
            | M::Vunpcklpd
            | M::Vunpckhps
            | M::Vunpckhpd
            | M::Vmovddup
            | M::Vmovshdup
            | M::Vmovsldup
            | M::Vpermilps
            | M::Vpermilpd
    )
}

/// As [`moves_elements`]: sums of neighbours, and shifts by one count for all.
fn combines_elements(mnemonic: M) -> bool {
    matches!(
        mnemonic,
        M::Vpmaddwd
            | M::Vpmaddubsw
            | M::Vpsllw
            | M::Vpslld
            | M::Vpsllq
            | M::Vpsrlw
            | M::Vpsrld
            | M::Vpsrlq
            | M::Vpsraw
            | M::Vpsrad
            | M::Vpsraq
            | M::Vgf2p8affineqb
            | M::Vgf2p8affineinvqb
    )
}

/// Whether one piece of memory becomes several elements of the result.
fn is_broadcast(mnemonic: M) -> bool {
    matches!(
        mnemonic,
        M::Vbroadcastss
            | M::Vbroadcastsd
            | M::Vpbroadcastb
            | M::Vpbroadcastw
            | M::Vpbroadcastd
            | M::Vpbroadcastq
            | M::Vbroadcastf32x2
            | M::Vbroadcastf32x4
            | M::Vbroadcastf32x8
            | M::Vbroadcastf64x2
            | M::Vbroadcastf64x4
            | M::Vbroadcasti32x2
            | M::Vbroadcasti32x4
            | M::Vbroadcasti32x8
            | M::Vbroadcasti64x2
            | M::Vbroadcasti64x4
    )
}
