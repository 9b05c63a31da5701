//! The commands of System V semaphores, shared memory and message queues.
//!
//! Apart because each list of requests is a file; these three share most of
//! their numbers. How many semaphores a set has stands in no argument: for
//! `GETALL` the second one, which the kernel does not look at, says it.

use super::{Row, plain, writes};
use crate::Bytes::{Array, Fixed};
use crate::table::out;

#[rustfmt::skip]
pub(super) const SEMAPHORES: &[Row] = &[
    plain("IPC_RMID", 0),
    plain("IPC_SET", 1),
    writes("IPC_STAT", 2, &[out(3, Fixed(104))]),
    writes("IPC_INFO", 3, &[out(3, Fixed(40))]),
    plain("GETPID", 11),
    plain("GETVAL", 12),
    writes("GETALL", 13, &[out(3, Array { count: 1, each: 2 })]),
    plain("GETNCNT", 14),
    plain("GETZCNT", 15),
    plain("SETVAL", 16),
    plain("SETALL", 17),
    writes("SEM_STAT", 18, &[out(3, Fixed(104))]),
    writes("SEM_INFO", 19, &[out(3, Fixed(40))]),
    writes("SEM_STAT_ANY", 20, &[out(3, Fixed(104))]),
];

#[rustfmt::skip]
pub(super) const SHARED_MEMORY: &[Row] = &[
    plain("IPC_RMID", 0),
    plain("IPC_SET", 1),
    writes("IPC_STAT", 2, &[out(2, Fixed(112))]),
    writes("IPC_INFO", 3, &[out(2, Fixed(72))]),
    plain("SHM_LOCK", 11),
    plain("SHM_UNLOCK", 12),
    writes("SHM_STAT", 13, &[out(2, Fixed(112))]),
    writes("SHM_INFO", 14, &[out(2, Fixed(48))]),
    writes("SHM_STAT_ANY", 15, &[out(2, Fixed(112))]),
];

#[rustfmt::skip]
pub(super) const MESSAGES: &[Row] = &[
    plain("IPC_RMID", 0),
    plain("IPC_SET", 1),
    writes("IPC_STAT", 2, &[out(2, Fixed(120))]),
    writes("IPC_INFO", 3, &[out(2, Fixed(32))]),
    writes("MSG_STAT", 11, &[out(2, Fixed(120))]),
    writes("MSG_INFO", 12, &[out(2, Fixed(32))]),
    writes("MSG_STAT_ANY", 13, &[out(2, Fixed(120))]),
];
