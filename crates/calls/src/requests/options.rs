//! Short lists: quotas, file systems, limits, options of sockets.
//!
//! Apart because none of them is worth a file of its own.

use super::{Row, executed, plain, refused, writes};
use crate::Bytes::{Elements, Fixed, Value};
use crate::When::SuccessOr;
use crate::table::{on, out};
use crate::{Effect, Output};

/// Those of the common quota formats; the numbers are the commands without the type of quota.
#[rustfmt::skip]
pub(super) const QUOTAS: &[Row] = &[
    plain("Q_SYNC", 0x80_0001),
    plain("Q_QUOTAON", 0x80_0002),
    plain("Q_QUOTAOFF", 0x80_0003),
    writes("Q_GETFMT", 0x80_0004, &[out(3, Fixed(4))]),
    writes("Q_GETINFO", 0x80_0005, &[out(3, Fixed(24))]),
    plain("Q_SETINFO", 0x80_0006),
    writes("Q_GETQUOTA", 0x80_0007, &[out(3, Fixed(72))]),
    plain("Q_SETQUOTA", 0x80_0008),
    writes("Q_GETNEXTQUOTA", 0x80_0009, &[out(3, Fixed(72))]),
];

/// The name that belongs to a number comes without its length; kernels may be built without this call.
#[rustfmt::skip]
pub(super) const FILE_SYSTEMS: &[Row] = &[
    plain("number of a name", 1),
    refused("name of a number", 2, 38),
    plain("how many", 3),
];

/// How far the stack may grow: a replay that kept the old limit would run out of it.
#[rustfmt::skip]
pub(super) const LIMITS: &[Row] = &[
    executed("RLIMIT_STACK, one's own to be set", 3, Effect::Memory),
];

/// What `prlimit64` writes.
pub(super) const OLD_LIMIT: &[Output] = &[out(3, Fixed(16))];

const ERANGE: u16 = 34;
const ENOPROTOOPT: u16 = 92;

/// The length that would have been enough comes also with the failure.
const OPTION_LENGTH: Output = on(4, Fixed(4), SuccessOr(ERANGE));

/// What `getsockopt` writes for any option without a row.
pub(super) const OPTION_VALUE: &[Output] = &[OPTION_LENGTH, out(3, Value { length: 4 })];

/// The options that are not just a value: the numbers are those of [`socket_option`].
#[rustfmt::skip]
pub(super) const SOCKET_OPTIONS: &[Row] = &[
    // Its length counts instructions.
    writes("SOL_SOCKET SO_GET_FILTER", SO_GET_FILTER, &[OPTION_LENGTH, out(3, Elements { length: 4, each: 8 })]),
    // It exchanges pages of the address space.
    refused("IPPROTO_TCP TCP_ZEROCOPY_RECEIVE", TCP_ZEROCOPY_RECEIVE, ENOPROTOOPT),
];

const SO_GET_FILTER: u32 = 0x0001_001a;
const TCP_ZEROCOPY_RECEIVE: u32 = 0x0006_0023;

/// Level and option in one number; `None` if they don't fit, so that no row can be theirs.
pub(super) const fn socket_option(level: u32, option: u32) -> Option<u32> {
    if level <= 0xffff && option <= 0xffff { Some(level << 16 | option) } else { None }
}
