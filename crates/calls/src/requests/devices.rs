//! The requests of `ioctl` to block devices, the console and a few others.
//!
//! Apart from `ioctl.rs` so that neither list is too long to read. The request
//! `TIOCLINUX` is here with what it is looked up by: a byte in memory.

use super::{Row, plain, writes};
use crate::Bytes::Fixed;
use crate::table::out;
use crate::{Memory, Resolved};

#[rustfmt::skip]
pub(super) const DEVICES: &[Row] = &[
    // Block devices. Some name a size_t in their numbers and write an int.
    writes("HDIO_GETGEO", 0x0301, &[out(2, Fixed(16))]),
    plain("BLKROSET", 0x125d),
    writes("BLKROGET", 0x125e, &[out(2, Fixed(4))]),
    plain("BLKRRPART", 0x125f),
    writes("BLKGETSIZE", 0x1260, &[out(2, Fixed(8))]),
    plain("BLKFLSBUF", 0x1261),
    plain("BLKRASET", 0x1262),
    writes("BLKRAGET", 0x1263, &[out(2, Fixed(8))]),
    plain("BLKFRASET", 0x1264),
    writes("BLKFRAGET", 0x1265, &[out(2, Fixed(8))]),
    writes("BLKSECTGET", 0x1267, &[out(2, Fixed(2))]),
    writes("BLKSSZGET", 0x1268, &[out(2, Fixed(4))]),
    writes("BLKBSZGET", 0x8008_1270, &[out(2, Fixed(4))]),
    plain("BLKBSZSET", 0x4008_1271),
    writes("BLKGETSIZE64", 0x8008_1272, &[out(2, Fixed(8))]),
    plain("BLKDISCARD", 0x1277),
    writes("BLKIOMIN", 0x1278, &[out(2, Fixed(4))]),
    writes("BLKIOOPT", 0x1279, &[out(2, Fixed(4))]),
    writes("BLKALIGNOFF", 0x127a, &[out(2, Fixed(4))]),
    writes("BLKPBSZGET", 0x127b, &[out(2, Fixed(4))]),
    writes("BLKDISCARDZEROES", 0x127c, &[out(2, Fixed(4))]),
    plain("BLKSECDISCARD", 0x127d),
    writes("BLKROTATIONAL", 0x127e, &[out(2, Fixed(2))]),
    plain("BLKZEROOUT", 0x127f),
    writes("BLKGETDISKSEQ", 0x8008_1280, &[out(2, Fixed(8))]),

    // Loop devices.
    plain("LOOP_SET_FD", 0x4c00),
    plain("LOOP_CLR_FD", 0x4c01),
    plain("LOOP_SET_STATUS64", 0x4c04),
    writes("LOOP_GET_STATUS64", 0x4c05, &[out(2, Fixed(232))]),
    plain("LOOP_CHANGE_FD", 0x4c06),
    plain("LOOP_SET_CAPACITY", 0x4c07),
    plain("LOOP_SET_DIRECT_IO", 0x4c08),
    plain("LOOP_SET_BLOCK_SIZE", 0x4c09),
    plain("LOOP_CONFIGURE", 0x4c0a),
    plain("LOOP_CTL_ADD", 0x4c80),
    plain("LOOP_CTL_REMOVE", 0x4c81),
    plain("LOOP_CTL_GET_FREE", 0x4c82),

    // The console.
    writes("KDGKBTYPE", 0x4b33, &[out(2, Fixed(1))]),
    plain("KDSETMODE", 0x4b3a),
    writes("KDGETMODE", 0x4b3b, &[out(2, Fixed(4))]),
    writes("KDGKBMODE", 0x4b44, &[out(2, Fixed(4))]),
    plain("KDSKBMODE", 0x4b45),
    writes("VT_OPENQRY", 0x5600, &[out(2, Fixed(4))]),
    writes("VT_GETMODE", 0x5601, &[out(2, Fixed(8))]),
    plain("VT_SETMODE", 0x5602),
    writes("VT_GETSTATE", 0x5603, &[out(2, Fixed(6))]),
    plain("VT_ACTIVATE", 0x5606),
    plain("VT_WAITACTIVE", 0x5607),

    // Random numbers.
    writes("RNDGETENTCNT", 0x8004_5200, &[out(2, Fixed(4))]),
    plain("RNDADDTOENTCNT", 0x4004_5201),
    plain("RNDADDENTROPY", 0x4008_5203),
    plain("RNDZAPENTCNT", 0x5204),
    plain("RNDCLEARPOOL", 0x5206),
    plain("RNDRESEEDCRNG", 0x5207),

    // Network tunnels. TUNSETIFF writes the name that the interface got, which its number does not tell.
    writes("TUNSETIFF", 0x4004_54ca, &[out(2, Fixed(40))]),
    plain("TUNSETPERSIST", 0x4004_54cb),
    plain("TUNSETOWNER", 0x4004_54cc),
    plain("TUNSETGROUP", 0x4004_54ce),
    writes("TUNGETFEATURES", 0x8004_54cf, &[out(2, Fixed(4))]),
    plain("TUNSETOFFLOAD", 0x4004_54d0),
    writes("TUNGETIFF", 0x8004_54d2, &[out(2, Fixed(40))]),
    writes("TUNGETVNETHDRSZ", 0x8004_54d7, &[out(2, Fixed(4))]),
    plain("TUNSETVNETHDRSZ", 0x4004_54d8),
];

/// Many requests in one: which, says the first byte at the pointer.
pub(crate) const TIOCLINUX: u32 = 0x541c;

/// What the request does whose number stands at `address`. Where not four bytes can be read, it stays unknown.
pub(super) fn console(address: usize, memory: &impl Memory) -> Option<Resolved> {
    if address == 0 {
        return None;
    }
    match memory.try_u32(address)? & 0xff {
        // What the shift keys and the mouse do stands in the place of the request.
        6 | 7 => Some(Resolved::Emulate(const { &[out(2, Fixed(1))] })),
        // Selecting, pasting, blanking, scrolling, and questions that the result answers.
        2..=5 | 10..=15 | 17 => Some(Resolved::Emulate(&[])),
        _ => None,
    }
}
