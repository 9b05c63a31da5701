//! Asynchronous input and output (`aio_read` and kin) where the environment is
//! recorded: each request is a job of ours, and what the program asks of one is
//! answered under the jobs' lock.

use crate::callbacks::Event;
use crate::jobs::{self, EAGAIN, Job, Locked};
use crate::notify;
use crate::real::{answer, real as declare};
use crate::unannounced::{list_by_thread, refuse};
use core::ffi::c_int;
use relive_rt::environment::{call, carried};
use relive_rt::outside;
use relive_sys::front;
use relive_sys::syscall::number::{FCNTL, FDATASYNC, FSYNC, PREAD64, PWRITE64, READ, WRITE};

declare! {
    real_error = c"aio_error", fn(block: *const Block) -> c_int;
    real_return = c"aio_return", fn(block: *mut Block) -> isize;
    real_suspend = c"aio_suspend", fn(list: List, count: c_int, timeout: *const [i64; 2]) -> c_int;
    real_all = c"lio_listio", fn(mode: c_int, list: List, count: c_int, event: *const Event) -> c_int;
    real_cancel = c"aio_cancel", fn(fd: c_int, block: *mut Block) -> c_int;
}

/// glibc's `struct aiocb`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Block {
    fd: c_int,
    operation: c_int,
    priority: c_int,
    buffer: usize,
    bytes: usize,
    event: Event,
    inner: [u64; 2],
    error: c_int,
    result: isize,
    offset: i64,
    rest: [u64; 4],
}

const _: () = assert!(size_of::<Block>() == 168);

type List = *const *mut Block;

/// `aio_lio_opcode`, and of our own what `aio_fsync` wants.
pub(crate) const READS: c_int = 0;
pub(crate) const WRITES: c_int = 1;
const NOTHING: c_int = 2;
const SYNCS: c_int = 3;
const SYNCS_DATA: c_int = 4;
const EINPROGRESS: c_int = 115;
const EINVAL: c_int = 22;
const EIO: c_int = 5;
const EBADF: c_int = 9;

unsafe fn perform(block: usize, how: c_int) -> isize {
    const ESPIPE: isize = -29;
    // SAFETY: the program's block.
    let &Block { fd, buffer, bytes, offset, .. } = unsafe { &*(block as *const Block) };
    let words = [fd as usize, buffer, bytes, offset as usize, 0, 0];
    outside::may_wake();
    carried::give(0);
    // SAFETY: what the program asked for.
    let result = unsafe {
        let placed = |with_offset, without| match call(with_offset, words) {
            ESPIPE => call(without, words),
            result => result,
        };
        match how {
            READS => placed(PREAD64, READ),
            WRITES => placed(PWRITE64, WRITE),
            SYNCS => call(FSYNC, words),
            _ => call(FDATASYNC, words),
        }
    };
    outside::may_have_waited();
    carried::take(0);
    result
}

unsafe fn publish(block: usize, result: isize) {
    // SAFETY: the program's block.
    unsafe {
        let block = block as *mut Block;
        (*block).result = result.max(-1);
        (*block).error = -result.min(0) as c_int;
    }
}

/// Begins a request; the error, or 0.
unsafe fn request(locked: &Locked, block: *mut Block, how: c_int, list: Option<usize>) -> c_int {
    // SAFETY: the program's block.
    unsafe {
        let (fd, event) = ((*block).fd, Some((*block).event));
        ((*block).error, (*block).result) = (EINPROGRESS, 0);
        let job = Job { block: block.addr(), perform, how, publish, line: Some(fd), list, event };
        if locked.begin(job) {
            return 0;
        }
        ((*block).error, (*block).result) = (EAGAIN, -1);
        EAGAIN
    }
}

/// `aio_read` and `aio_write`, as `how` says.
///
/// # Safety
/// As for these.
pub(crate) unsafe fn transfer(block: *mut Block, how: c_int) -> c_int {
    // SAFETY: the caller's promise.
    answer(jobs::with(|locked| unsafe { request(locked, block, how, None) }))
}

/// `aio_fsync`.
///
/// # Safety
/// As for this.
pub(crate) unsafe fn sync(operation: c_int, block: *mut Block) -> c_int {
    const O_DSYNC: c_int = 0o10000;
    const O_SYNC: c_int = 0o4_010_000;
    const F_GETFL: usize = 3;
    let how = match operation {
        O_SYNC => SYNCS,
        O_DSYNC => SYNCS_DATA,
        _ => return answer(EINVAL),
    };
    // SAFETY: the caller's promise.
    unsafe {
        if call(FCNTL, [(*block).fd as usize, F_GETFL, 0, 0, 0, 0]) < 0 {
            return answer(EBADF);
        }
        transfer(block, how)
    }
}

/// `lio_listio`.
///
/// # Safety
/// As for this.
unsafe fn transfer_all(mode: c_int, list: List, count: c_int, event: *const Event) -> c_int {
    const WAIT: c_int = 0;
    const NOWAIT: c_int = 1;
    if !matches!(mode, WAIT | NOWAIT) || count < 0 {
        return answer(EINVAL);
    }
    // SAFETY: the caller's promise.
    let blocks = || (0..count as usize).map(|index| unsafe { *list.add(index) }).filter(|block| !block.is_null());
    // SAFETY: as above.
    let (error, of_all) = jobs::with(|locked| unsafe {
        let Some(index) = locked.list(event.as_ref().copied().filter(|_| mode == NOWAIT)) else {
            return (EAGAIN, None);
        };
        let mut error = 0;
        for block in blocks().filter(|&block| (*block).operation != NOTHING) {
            if request(locked, block, (*block).operation, Some(index)) != 0 {
                error = EIO;
            }
        }
        let of_all = locked.one_less(index);
        if mode == WAIT {
            while blocks().any(|block| is_under_way(block)) {
                locked.wait(None);
            }
            if blocks().any(|block| (*block).operation != NOTHING && (*block).error != 0) {
                error = EIO;
            }
        }
        (error, of_all)
    });
    if let Some(event) = of_all {
        jobs::tell(&event);
    }
    answer(error)
}

unsafe fn is_under_way(block: *const Block) -> bool {
    // SAFETY: the program's block.
    unsafe { (*block).error == EINPROGRESS }
}

front!(
    /// `lio_listio`
    lio_listio, 4, all_front
);
front!(
    /// `lio_listio64`
    lio_listio64, 4, all_front
);

unsafe extern "C" fn all_front(mode: c_int, list: List, count: c_int, event: *const Event, place: usize) -> c_int {
    // SAFETY: forwarded; the program keeps the function's contract.
    unsafe {
        if notify::applies() {
            return transfer_all(mode, list, count, event);
        }
        if list_by_thread(list.addr(), count as usize, event.addr()) {
            refuse("lio_listio with SIGEV_THREAD", place);
        }
        real_all(mode, list, count, event)
    }
}

macro_rules! fronts {
    ($($name:ident, $also:ident, $arity:tt, $front:ident($($arg:ident: $ty:ty),*) -> $ret:ty = $real:ident, $own:expr;)*) => {$(
        front!(#[doc = concat!("`", stringify!($name), "`")] $name, $arity, $front);
        front!(#[doc = concat!("`", stringify!($also), "`")] $also, $arity, $front);

        unsafe extern "C" fn $front($($arg: $ty,)* _place: usize) -> $ret {
            // SAFETY: forwarded; the program keeps the function's contract.
            unsafe { if notify::applies() { $own } else { $real($($arg),*) } }
        }
    )*};
}

fronts! {
    aio_error, aio_error64, 1, error_front(block: *const Block) -> c_int = real_error,
        jobs::with(|_| (*block).error);
    aio_return, aio_return64, 1, return_front(block: *mut Block) -> isize = real_return,
        jobs::with(|_| (*block).result);
    aio_suspend, aio_suspend64, 3,
        suspend_front(list: List, count: c_int, timeout: *const [i64; 2]) -> c_int = real_suspend,
        suspend(list, count, timeout);
    aio_cancel, aio_cancel64, 2, cancel_front(fd: c_int, block: *mut Block) -> c_int = real_cancel,
        cancel(fd, block);
}

unsafe fn suspend(list: List, count: c_int, timeout: *const [i64; 2]) -> c_int {
    // SAFETY: the program's list and time.
    unsafe {
        let until = jobs::deadline(timeout);
        let blocks = || (0..count.max(0) as usize).map(|index| *list.add(index)).filter(|block| !block.is_null());
        answer(jobs::with(|locked| {
            while blocks().count() > 0 && blocks().all(|block| is_under_way(block)) {
                if !locked.wait(until) {
                    return EAGAIN;
                }
            }
            0
        }))
    }
}

/// Nothing is given up once it has begun, as libc's own does not for what it does at that moment.
unsafe fn cancel(fd: c_int, block: *mut Block) -> c_int {
    const F_GETFL: usize = 3;
    const NOT_CANCELED: c_int = 1;
    const ALL_DONE: c_int = 2;
    // SAFETY: no pointers.
    if unsafe { call(FCNTL, [fd as usize, F_GETFL, 0, 0, 0, 0]) } < 0 {
        return answer(EBADF);
    }
    let is_meant = |job: &Job| job.line == Some(fd) && (block.is_null() || job.block == block.addr());
    if jobs::with(|locked| locked.any(is_meant)) { NOT_CANCELED } else { ALL_DONE }
}
