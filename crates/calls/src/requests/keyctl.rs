//! The operations of `keyctl`.
//!
//! Apart because each list of requests is a file.

use super::{Row, plain, writes};
use crate::Bytes::{Capped, Fitting, Fixed, Result as Returned, Room};
use crate::table::out;

#[rustfmt::skip]
pub(super) const OPERATIONS: &[Row] = &[
    plain("KEYCTL_GET_KEYRING_ID", 0),
    plain("KEYCTL_JOIN_SESSION_KEYRING", 1),
    plain("KEYCTL_UPDATE", 2),
    plain("KEYCTL_REVOKE", 3),
    plain("KEYCTL_CHOWN", 4),
    plain("KEYCTL_SETPERM", 5),
    writes("KEYCTL_DESCRIBE", 6, &[out(2, Fitting { length: 3 })]),
    plain("KEYCTL_CLEAR", 7),
    plain("KEYCTL_LINK", 8),
    plain("KEYCTL_UNLINK", 9),
    plain("KEYCTL_SEARCH", 10),
    writes("KEYCTL_READ", 11, &[out(2, Fitting { length: 3 })]),
    plain("KEYCTL_INSTANTIATE", 12),
    plain("KEYCTL_NEGATE", 13),
    plain("KEYCTL_SET_REQKEY_KEYRING", 14),
    plain("KEYCTL_SET_TIMEOUT", 15),
    plain("KEYCTL_ASSUME_AUTHORITY", 16),
    // A label that does not fit is cut.
    writes("KEYCTL_GET_SECURITY", 17, &[out(2, Capped { length: 3 })]),
    plain("KEYCTL_SESSION_TO_PARENT", 18),
    plain("KEYCTL_REJECT", 19),
    plain("KEYCTL_INSTANTIATE_IOV", 20),
    plain("KEYCTL_INVALIDATE", 21),
    plain("KEYCTL_GET_PERSISTENT", 22),
    writes("KEYCTL_DH_COMPUTE", 23, &[out(2, Fitting { length: 3 })]),
    writes("KEYCTL_PKEY_QUERY", 24, &[out(4, Fixed(56))]),
    writes("KEYCTL_PKEY_ENCRYPT", 25, &[out(4, Returned)]),
    writes("KEYCTL_PKEY_DECRYPT", 26, &[out(4, Returned)]),
    writes("KEYCTL_PKEY_SIGN", 27, &[out(4, Returned)]),
    plain("KEYCTL_PKEY_VERIFY", 28),
    plain("KEYCTL_RESTRICT_KEYRING", 29),
    plain("KEYCTL_MOVE", 30),
    // What is left of the room is cleared.
    writes("KEYCTL_CAPABILITIES", 31, &[out(1, Room { length: 2 })]),
    plain("KEYCTL_WATCH_KEY", 32),
];
