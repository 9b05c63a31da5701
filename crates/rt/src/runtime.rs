//! What the process is doing: recording, replaying or nothing, and the control
//! memory it shares with the launcher.
//!
//! Apart because every other file asks it, and because a fork child starts over
//! here.

use crate::handed;
use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};
use relive_sys::{barrier, syscall, tls, valgrind};
use relive_trace::control::{CONTROL_MAGIC, Control, IN_USE, ProcessSlot, TurnSlot, flag, mode};
use relive_trace::layout::FORMAT_VERSION;
use relive_trace::plan::{PLAN_MAGIC, PlanHeader, PlanProcess, PlanThread};

/// What this process is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// Neither: calls go straight through. Also the state before start-up.
    Off = 0,
    /// Recording.
    Record = 1,
    /// Replaying.
    Replay = 2,
}

static MODE: AtomicU8 = AtomicU8::new(Mode::Off as u8);
static CONTROL: AtomicPtr<Control> = AtomicPtr::new(core::ptr::null_mut());
static PROCESS: AtomicU32 = AtomicU32::new(0);
static SLOT: AtomicU32 = AtomicU32::new(0);
static PID: AtomicU32 = AtomicU32::new(0);

/// What this process is doing.
#[inline(always)]
pub fn mode() -> Mode {
    match MODE.load(Ordering::Relaxed) {
        1 => Mode::Record,
        // A replay is followed by threads that have a block, and by nobody else.
        2 if tls::get::<{ tls::THREAD }>() != 0 => Mode::Replay,
        2 => crate::stranger::met_in_replay(),
        _ => Mode::Off,
    }
}

/// What this process is doing, whether or not the calling thread takes part.
pub fn process_mode() -> Mode {
    match MODE.load(Ordering::Relaxed) {
        1 => Mode::Record,
        2 => Mode::Replay,
        _ => Mode::Off,
    }
}

/// Sets what this process is doing.
pub fn set_mode(mode: Mode) {
    MODE.store(mode as u8, Ordering::Release);
}

/// The control memory, if this process takes part in a session.
pub fn control() -> Option<&'static Control> {
    // SAFETY: the pointer is null or a mapping that is never undone, checked in `attach`.
    unsafe { CONTROL.load(Ordering::Acquire).as_ref() }
}

/// The control memory of a process that is known to take part in a session.
pub fn session() -> &'static Control {
    control().expect("the process takes part in a session")
}

/// Index of this process image in the recording.
pub fn process() -> u32 {
    PROCESS.load(Ordering::Relaxed)
}

/// Id that the process had when it attached or forked; differs from the kernel's in a vfork child.
pub fn pid() -> u32 {
    PID.load(Ordering::Relaxed)
}

/// Sets the image index: a replay knows it from the plan.
pub fn set_process(index: u32) {
    PROCESS.store(index, Ordering::Relaxed);
    process_slot().process.store(index, Ordering::Relaxed);
}

/// This image's slot in the control memory.
pub fn process_slot() -> &'static ProcessSlot {
    &session().processes[SLOT.load(Ordering::Relaxed) as usize]
}

/// The session's folder for what is found of races.
pub fn races_folder() -> &'static [u8] {
    let control = session();
    &control.races[..control.races_len as usize]
}

/// Whether the session's flags contain `bit` (see [`flag`]).
pub fn has_flag(bit: u32) -> bool {
    session().flags & bit != 0
}

/// Why a process can't take part in its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachError {
    /// The control memory can't be opened or mapped: the launcher is gone.
    Gone,
    /// The control memory is of another version.
    Version,
    /// More processes record at once than there are slots.
    Full,
    /// The recording has reached its limit.
    Enough,
    /// The session is one of the environment, and no processor runs this program.
    Emulated,
}

/// Maps the control memory at `path` and takes a slot. The mode stays [`Mode::Off`].
///
/// # Errors
/// [`AttachError`]; the process then runs unrecorded.
pub fn attach(path: &CStr) -> Result<mode_of_session::SessionMode, AttachError> {
    let fd = handed::open_control(path.to_bytes_with_nul());
    if fd < 0 {
        return Err(AttachError::Gone);
    }
    let head = syscall::mmap(size_of::<Control>(), syscall::MAP_SHARED, fd as i32, 0);
    let mapped = map_whole(head, fd as i32);
    syscall::close(fd as u32);
    let control = mapped?;
    CONTROL.store(control, Ordering::Release);
    barrier::register();
    let mode = mode_of_session::of(session())?;
    if has_flag(flag::ENVIRONMENT) && valgrind::is_emulating() {
        return Err(AttachError::Emulated);
    }
    enter_process(None)?;
    Ok(mode)
}

fn map_whole(head: isize, fd: i32) -> Result<*mut Control, AttachError> {
    if head < 0 {
        return Err(AttachError::Gone);
    }
    let control = head as *mut Control;
    // SAFETY: mapped above with at least this size; the launcher filled it before it started any process.
    let (magic, version, total) = unsafe { ((*control).magic, (*control).version, (*control).total_bytes) };
    if magic != CONTROL_MAGIC || version != FORMAT_VERSION {
        return Err(AttachError::Version);
    }
    if total as usize <= size_of::<Control>() {
        return Ok(control);
    }
    let whole = syscall::mmap(total as usize, syscall::MAP_SHARED, fd, 0);
    // SAFETY: nothing was handed out that points into the first mapping.
    unsafe { syscall::munmap(head as usize, size_of::<Control>()) };
    if whole < 0 { Err(AttachError::Gone) } else { Ok(whole as *mut Control) }
}

/// What kind of session a process attached to.
pub mod mode_of_session {
    use super::{AttachError, Control, Ordering, mode};

    /// The kinds of session.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SessionMode {
        /// A recording.
        Record,
        /// A replay.
        Replay,
    }

    pub(super) fn of(control: &Control) -> Result<SessionMode, AttachError> {
        match control.mode.load(Ordering::Acquire) {
            mode::RECORD => Ok(SessionMode::Record),
            mode::REPLAY => Ok(SessionMode::Replay),
            mode::ENOUGH => Err(AttachError::Enough),
            _ => Err(AttachError::Gone),
        }
    }
}

/// Takes a process slot and, unless `index` is given, the next image index. Also for a fork child.
///
/// # Errors
/// [`AttachError::Full`].
pub fn enter_process(index: Option<u32>) -> Result<(), AttachError> {
    let control = session();
    let pid = remember_pid();
    let number = free_slot(&control.processes).ok_or(AttachError::Full)?;
    let index = index.unwrap_or_else(|| control.next_process.fetch_add(1, Ordering::Relaxed));
    PROCESS.store(index, Ordering::Relaxed);
    SLOT.store(number as u32, Ordering::Relaxed);
    let slot = &control.processes[number];
    slot.process.store(index, Ordering::Relaxed);
    slot.error.store(0, Ordering::Relaxed);
    slot.wanted.store(0, Ordering::Relaxed);
    let first = index == 0 && control.mode.load(Ordering::Relaxed) == mode::RECORD;
    slot.reserved.store(if first { relive_trace::layout::WINDOW_BYTES } else { 0 }, Ordering::Relaxed);
    slot.pid.store(pid, Ordering::SeqCst);
    // A replay that is over has ended whom it found.
    if is_over() {
        syscall::exit_group(125);
    }
    Ok(())
}

/// Whether this is a replay that is over: nobody waits for what is left of it.
pub fn is_over() -> bool {
    let control = session();
    control.thread_count > 0 && control.mode.load(Ordering::SeqCst) == mode::CLOSED
}

/// Takes a slot that nobody uses. If there is none, processes that died may still have theirs, and images that others
/// took the place of: until the launcher looks.
fn free_slot(slots: &[ProcessSlot]) -> Option<usize> {
    const PAUSE_MS: u32 = 20;
    const TRIES: u32 = 250;
    let take = |s: &ProcessSlot| s.state.compare_exchange(0, IN_USE, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    let never = AtomicU32::new(0);
    for _ in 0..TRIES {
        let free = slots.iter().position(take);
        if free.is_some() {
            return free;
        }
        syscall::futex_wait(&never, 0, Some(PAUSE_MS));
    }
    None
}

/// Makes the kernel's id of this process the one that [`pid`] knows.
pub(crate) fn remember_pid() -> u32 {
    let pid = syscall::getpid();
    PID.store(pid, Ordering::Relaxed);
    pid
}

/// Gives the slot back. Nothing may record afterwards. While the launcher may be about to answer, the slot stays as it
/// is, and is freed as that of a process that died: the answer would go to who takes it next.
pub fn leave_process() {
    if control().is_some() {
        let slot = process_slot();
        if slot.wanted.load(Ordering::Relaxed) > slot.reserved.load(Ordering::Acquire) {
            return;
        }
        slot.pid.store(0, Ordering::Relaxed);
        slot.state.store(0, Ordering::Release);
    }
}

/// Wakes the launcher.
pub fn ring() {
    let bell = &session().doorbell;
    bell.fetch_add(1, Ordering::AcqRel);
    syscall::futex_wake(bell, 1);
}

/// The turn slots of a replay, one for each recorded thread.
pub fn turns() -> &'static [TurnSlot] {
    let control = session();
    // SAFETY: the launcher laid `thread_count` slots at this offset of the memory mapped in `attach`.
    unsafe {
        let first = core::ptr::from_ref(control).cast::<u8>().add(control.turns_offset as usize);
        core::slice::from_raw_parts(first.cast(), control.thread_count as usize)
    }
}

/// The plan of a replay: access by checked offsets.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    bytes: &'static [u8],
    header: PlanHeader,
}

/// The plan of this replay.
///
/// # Panics
/// If the launcher laid something else there: a broken invariant, not bad input.
pub fn plan() -> Plan {
    let control = session();
    let (offset, total) = (control.plan_offset as usize, control.total_bytes as usize);
    assert!(offset + size_of::<PlanHeader>() <= total, "the control memory holds a plan");
    // SAFETY: inside the mapping, as just checked; the launcher doesn't write it while processes run.
    let bytes =
        unsafe { core::slice::from_raw_parts(core::ptr::from_ref(control).cast::<u8>().add(offset), total - offset) };
    // SAFETY: the plan starts at a multiple of 64 and is large enough.
    let header = unsafe { *bytes.as_ptr().cast::<PlanHeader>() };
    assert!(header.magic == PLAN_MAGIC, "the plan starts with its magic");
    Plan { bytes, header }
}

impl Plan {
    fn table<T>(&self, offset: u64, count: u64) -> &'static [T] {
        let bytes = &self.bytes[offset as usize..][..count as usize * size_of::<T>()];
        assert!(bytes.as_ptr().addr().is_multiple_of(align_of::<T>()), "a table of the plan is aligned");
        // SAFETY: in bounds and aligned as just checked; T is plain data of the plan's schema.
        unsafe { core::slice::from_raw_parts(bytes.as_ptr().cast(), count as usize) }
    }

    /// The recorded thread with this index.
    pub fn thread(&self, index: u32) -> &'static PlanThread {
        &self.table(self.header.threads_offset, self.header.thread_count as u64)[index as usize]
    }

    /// All process images, by index.
    pub fn processes(&self) -> &'static [PlanProcess] {
        self.table(self.header.processes_offset, self.header.process_count as u64)
    }

    /// The recorded process image with this index.
    pub fn process(&self, index: u32) -> &'static PlanProcess {
        &self.processes()[index as usize]
    }

    /// How many process images there are.
    pub fn process_count(&self) -> u32 {
        self.header.process_count
    }

    /// The stream of a thread.
    pub fn stream(&self, thread: &PlanThread) -> &'static [u8] {
        &self.bytes[thread.stream_offset as usize..][..thread.stream_len as usize]
    }

    /// The derived order of a thread; empty if none is known.
    pub fn derived(&self, thread: &PlanThread) -> &'static [u8] {
        &self.bytes[thread.derived_offset as usize..][..thread.derived_len as usize]
    }

    /// The index of a thread's child, if the recording has one with this number.
    pub fn child(&self, parent: u32, number: u32) -> Option<u32> {
        let parent = self.thread(parent);
        let children: &[u32] = self.table(parent.children_offset, parent.children_count);
        children.get(number as usize).copied().filter(|&c| c != relive_trace::layout::NONE)
    }
}

/// Whether publishers may leave out the fence because sleepers run one for them.
pub fn asymmetric() -> bool {
    has_flag(flag::MEMBARRIER)
}
