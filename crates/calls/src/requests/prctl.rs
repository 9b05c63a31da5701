//! The options of `prctl` and `arch_prctl`.
//!
//! Apart because each list of requests is a file.

use super::{EINVAL, ENODEV, EPERM, Row, executed, plain, refused, writes};
use crate::Bytes::{Capped, Fixed};
use crate::Effect::ThreadState;
use crate::table::out;

/// Options that other architectures have are kept: the kernel answers, and writes nothing.
#[rustfmt::skip]
pub(super) const OPTIONS: &[Row] = &[
    plain("PR_SET_PDEATHSIG", 1),
    writes("PR_GET_PDEATHSIG", 2, &[out(1, Fixed(4))]),
    plain("PR_GET_DUMPABLE", 3),
    plain("PR_SET_DUMPABLE", 4),
    writes("PR_GET_UNALIGN", 5, &[out(1, Fixed(4))]),
    plain("PR_SET_UNALIGN", 6),
    plain("PR_GET_KEEPCAPS", 7),
    plain("PR_SET_KEEPCAPS", 8),
    writes("PR_GET_FPEMU", 9, &[out(1, Fixed(4))]),
    plain("PR_SET_FPEMU", 10),
    writes("PR_GET_FPEXC", 11, &[out(1, Fixed(4))]),
    plain("PR_SET_FPEXC", 12),
    plain("PR_GET_TIMING", 13),
    plain("PR_SET_TIMING", 14),
    plain("PR_SET_NAME", 15),
    writes("PR_GET_NAME", 16, &[out(1, Fixed(16))]),
    writes("PR_GET_ENDIAN", 19, &[out(1, Fixed(4))]),
    plain("PR_SET_ENDIAN", 20),
    plain("PR_GET_SECCOMP", 21),
    // A filter would be asked about the calls of the runtime.
    refused("PR_SET_SECCOMP", 22, EINVAL),
    plain("PR_CAPBSET_READ", 23),
    plain("PR_CAPBSET_DROP", 24),
    writes("PR_GET_TSC", 25, &[out(1, Fixed(4))]),
    // Without it the instruction that the program wants to fail would succeed.
    executed("PR_SET_TSC", 26, ThreadState),
    plain("PR_GET_SECUREBITS", 27),
    plain("PR_SET_SECUREBITS", 28),
    plain("PR_SET_TIMERSLACK", 29),
    plain("PR_GET_TIMERSLACK", 30),
    plain("PR_TASK_PERF_EVENTS_DISABLE", 31),
    plain("PR_TASK_PERF_EVENTS_ENABLE", 32),
    plain("PR_MCE_KILL", 33),
    plain("PR_MCE_KILL_GET", 34),
    refused("PR_SET_MM", 35, EPERM),
    plain("PR_SET_CHILD_SUBREAPER", 36),
    writes("PR_GET_CHILD_SUBREAPER", 37, &[out(1, Fixed(4))]),
    plain("PR_SET_NO_NEW_PRIVS", 38),
    plain("PR_GET_NO_NEW_PRIVS", 39),
    writes("PR_GET_TID_ADDRESS", 40, &[out(1, Fixed(8))]),
    plain("PR_SET_THP_DISABLE", 41),
    plain("PR_GET_THP_DISABLE", 42),
    plain("PR_MPX_ENABLE_MANAGEMENT", 43),
    plain("PR_MPX_DISABLE_MANAGEMENT", 44),
    plain("PR_SET_FP_MODE", 45),
    plain("PR_GET_FP_MODE", 46),
    plain("PR_CAP_AMBIENT", 47),
    plain("PR_SVE_SET_VL", 50),
    plain("PR_SVE_GET_VL", 51),
    plain("PR_GET_SPECULATION_CTRL", 52),
    plain("PR_SET_SPECULATION_CTRL", 53),
    plain("PR_PAC_RESET_KEYS", 54),
    plain("PR_SET_TAGGED_ADDR_CTRL", 55),
    plain("PR_GET_TAGGED_ADDR_CTRL", 56),
    plain("PR_SET_IO_FLUSHER", 57),
    plain("PR_GET_IO_FLUSHER", 58),
    // It would catch the calls of the runtime.
    refused("PR_SET_SYSCALL_USER_DISPATCH", 59, EINVAL),
    plain("PR_PAC_SET_ENABLED_KEYS", 60),
    plain("PR_PAC_GET_ENABLED_KEYS", 61),
    // Whatever is not PR_SCHED_CORE_GET fails unless the pointer is null.
    writes("PR_SCHED_CORE", 62, &[out(4, Fixed(8))]),
    plain("PR_SME_SET_VL", 63),
    plain("PR_SME_GET_VL", 64),
    // The runtime could make no code any more.
    refused("PR_SET_MDWE", 65, EINVAL),
    plain("PR_GET_MDWE", 66),
    plain("PR_SET_MEMORY_MERGE", 67),
    plain("PR_GET_MEMORY_MERGE", 68),
    plain("PR_RISCV_V_SET_CONTROL", 69),
    plain("PR_RISCV_V_GET_CONTROL", 70),
    plain("PR_RISCV_SET_ICACHE_FLUSH_CTX", 71),
    plain("PR_PPC_GET_DEXCR", 72),
    plain("PR_PPC_SET_DEXCR", 73),
    refused("PR_GET_SHADOW_STACK_STATUS", 74, EINVAL),
    refused("PR_SET_SHADOW_STACK_STATUS", 75, EINVAL),
    refused("PR_LOCK_SHADOW_STACK_STATUS", 76, EINVAL),
    // timer_create would read the number that it otherwise writes.
    refused("PR_TIMER_CREATE_RESTORE_IDS", 77, EINVAL),
    plain("PR_FUTEX_HASH", 78),
    refused("PR_RSEQ_SLICE_EXTENSION", 79, EINVAL),
    // Of other processors.
    refused("PR_GET_CFI", 80, EINVAL),
    refused("PR_SET_CFI", 81, EINVAL),
    writes("PR_GET_AUXV", 0x4155_5856, &[out(1, Capped { length: 2 })]),
    plain("PR_SET_VMA", 0x5356_4d41),
    plain("PR_SET_PTRACER", 0x5961_6d61),
];

/// The options of the processor.
#[rustfmt::skip]
pub(super) const PROCESSOR: &[Row] = &[
    executed("ARCH_SET_GS", 0x1001, ThreadState),
    executed("ARCH_SET_FS", 0x1002, ThreadState),
    writes("ARCH_GET_FS", 0x1003, &[out(1, Fixed(8))]),
    writes("ARCH_GET_GS", 0x1004, &[out(1, Fixed(8))]),
    plain("ARCH_GET_CPUID", 0x1011),
    refused("ARCH_SET_CPUID", 0x1012, ENODEV),
    writes("ARCH_GET_XCOMP_SUPP", 0x1021, &[out(1, Fixed(8))]),
    writes("ARCH_GET_XCOMP_PERM", 0x1022, &[out(1, Fixed(8))]),
    // Until the kernel is asked, the instructions of the feature fail.
    executed("ARCH_REQ_XCOMP_PERM", 0x1023, ThreadState),
    writes("ARCH_GET_XCOMP_GUEST_PERM", 0x1024, &[out(1, Fixed(8))]),
    plain("ARCH_REQ_XCOMP_GUEST_PERM", 0x1025),
    refused("ARCH_MAP_VDSO_X32", 0x2001, EINVAL),
    refused("ARCH_MAP_VDSO_32", 0x2002, EINVAL),
    refused("ARCH_MAP_VDSO_64", 0x2003, EINVAL),
    // The numbers of shadow stacks before kernels had them: libraries of that time ask, and every kernel says no.
    refused("ARCH_CET_STATUS", 0x3001, EINVAL),
    refused("ARCH_CET_DISABLE", 0x3002, EINVAL),
    refused("ARCH_CET_LOCK", 0x3003, EINVAL),
    refused("ARCH_CET_EXEC", 0x3004, EINVAL),
    refused("ARCH_CET_ALLOC_SHSTK", 0x3005, EINVAL),
    writes("ARCH_GET_UNTAG_MASK", 0x4001, &[out(1, Fixed(8))]),
    refused("ARCH_ENABLE_TAGGED_ADDR", 0x4002, ENODEV),
    writes("ARCH_GET_MAX_TAG_BITS", 0x4003, &[out(1, Fixed(8))]),
    refused("ARCH_FORCE_TAGGED_SVA", 0x4004, EINVAL),
    refused("ARCH_SHSTK_ENABLE", 0x5001, EINVAL),
    refused("ARCH_SHSTK_DISABLE", 0x5002, EINVAL),
    refused("ARCH_SHSTK_LOCK", 0x5003, EINVAL),
    refused("ARCH_SHSTK_UNLOCK", 0x5004, EINVAL),
    refused("ARCH_SHSTK_STATUS", 0x5005, EINVAL),
];
