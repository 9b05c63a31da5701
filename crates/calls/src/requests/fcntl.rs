//! The commands of `fcntl`.
//!
//! Apart because each list of requests is a file.

use super::{Row, plain, writes};
use crate::Bytes::Fixed;
use crate::table::out;

#[rustfmt::skip]
pub(super) const COMMANDS: &[Row] = &[
    plain("F_DUPFD", 0),
    plain("F_GETFD", 1),
    plain("F_SETFD", 2),
    plain("F_GETFL", 3),
    plain("F_SETFL", 4),
    writes("F_GETLK", 5, &[out(2, Fixed(32))]),
    plain("F_SETLK", 6),
    plain("F_SETLKW", 7),
    plain("F_SETOWN", 8),
    plain("F_GETOWN", 9),
    plain("F_SETSIG", 10),
    plain("F_GETSIG", 11),
    plain("F_SETOWN_EX", 15),
    writes("F_GETOWN_EX", 16, &[out(2, Fixed(8))]),
    writes("F_GETOWNER_UIDS", 17, &[out(2, Fixed(8))]),
    writes("F_OFD_GETLK", 36, &[out(2, Fixed(32))]),
    plain("F_OFD_SETLK", 37),
    plain("F_OFD_SETLKW", 38),
    plain("F_SETLEASE", 1024),
    plain("F_GETLEASE", 1025),
    plain("F_NOTIFY", 1026),
    plain("F_DUPFD_QUERY", 1027),
    plain("F_CREATED_QUERY", 1028),
    plain("F_CANCELLK", 1029),
    plain("F_DUPFD_CLOEXEC", 1030),
    plain("F_SETPIPE_SZ", 1031),
    plain("F_GETPIPE_SZ", 1032),
    plain("F_ADD_SEALS", 1033),
    plain("F_GET_SEALS", 1034),
    writes("F_GET_RW_HINT", 1035, &[out(2, Fixed(8))]),
    plain("F_SET_RW_HINT", 1036),
    writes("F_GET_FILE_RW_HINT", 1037, &[out(2, Fixed(8))]),
    plain("F_SET_FILE_RW_HINT", 1038),
];
