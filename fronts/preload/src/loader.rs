//! `dlopen` and kin: constructors and destructors of a library run under the
//! loader's lock, callbacks of `dl_iterate_phdr` under the lock of the list of
//! images. Both are entered and left in order. So are look-ups, for which libc takes the
//! loader's lock: a replay's thread that holds that in the midst of a `dlopen` may have to
//! wait there for the next event of one that looks something up.
//!
//! libc's `dlopen`, and its `dlsym`, look at their return address to learn which module asks: that
//! module's `RUNPATH` and `$ORIGIN` are searched, or what comes behind it. So it must see an address there.
//! The real function is given the address of a `ret` instruction inside the
//! caller's own module as its return address; that instruction returns to us.

use crate::libc_state::{OwnLock, taking_part};
use crate::real::{Real, in_front_of, look_up_all};
use crate::variadic::{Call, entry, steps};
use core::ffi::{CStr, c_char};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, Ordering};
use relive_order::Kind;
use relive_rt::object::{Internal, internal};
use relive_rt::runtime::has_flag;
use relive_rt::{Mode, mode, record, replay, report, thread};
use relive_sys::trampoline::Frame;
use relive_trace::control::flag;

/// Large enough for `struct dl_find_object`, whose content is of no interest here.
type Found = [usize; 16];

mod real {
    use super::Found;
    use core::ffi::c_int;

    crate::real::real! {
        find_object = c"_dl_find_object", fn(address: usize, found: *mut Found) -> c_int;
        auxiliary = c"getauxval", fn(kind: usize) -> usize;
    }
}

/// A recursive lock with a pair of events around it.
#[derive(Debug)]
pub(crate) struct Section {
    lock: OwnLock,
    holder: AtomicU32,
    depth: AtomicU32,
    object: Internal,
}

fn own_id() -> u32 {
    thread::current_if_known().map_or(0, |t| t.tid)
}

pub(crate) static LOADER: Section = Section::new(Internal::Loader);
static IMAGES: Section = Section::new(Internal::Images);

impl Section {
    pub(crate) const fn new(object: Internal) -> Self {
        Self { lock: OwnLock::new(), holder: AtomicU32::new(0), depth: AtomicU32::new(0), object }
    }

    pub(crate) fn enter(&self, place: usize) {
        if mode() == Mode::Replay {
            replay::enter(Kind::LibcEnter, place);
            return replay::leave(Kind::LibcEnter, &[internal(self.object)], false);
        }
        let tid = own_id();
        // Only the holder itself can find its own id here.
        if self.holder.load(Ordering::Relaxed) == tid {
            self.depth.fetch_add(1, Ordering::Relaxed);
        } else {
            self.lock.acquire();
            self.holder.store(tid, Ordering::Relaxed);
            self.depth.store(1, Ordering::Relaxed);
        }
        record::shared(&internal(self.object).clock, Kind::LibcEnter);
    }

    pub(crate) fn leave(&self, place: usize) {
        if mode() == Mode::Replay {
            replay::enter(Kind::LibcLeave, place);
            return replay::leave(Kind::LibcLeave, &[internal(self.object)], false);
        }
        record::shared(&internal(self.object).clock, Kind::LibcLeave);
        // A fork child that was inside has another id than the holder: it goes on without the lock.
        if self.holder.load(Ordering::Relaxed) == own_id() && self.depth.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.holder.store(0, Ordering::Relaxed);
            self.lock.release();
        }
    }
}

/// What an entry is about.
#[derive(Debug)]
struct Operation {
    real: Real,
    section: &'static Section,
    /// Since a later version than the others; see `relive_trace::layout::LOOK_UPS_SINCE`.
    looks_up: bool,
}

impl Operation {
    const fn new(name: &'static CStr, section: &'static Section) -> Self {
        Self { real: Real::new(name, None), section, looks_up: false }
    }

    const fn look_up(name: &'static CStr) -> Self {
        Self { looks_up: true, ..Self::new(name, &LOADER) }
    }

    fn is_ordered(&self) -> bool {
        match taking_part() {
            Mode::Off => false,
            Mode::Record => true,
            Mode::Replay => !self.looks_up || has_flag(flag::LOOK_UPS),
        }
    }
}

/// Slots of [`Call::own`]; the first is where [`steps!`] expects it.
const RETURN: usize = 0;
const INSIDE: usize = 1;

type Running = Call<Operation>;

steps!(section, step);
steps!(through_return opening, step_open);
steps!(through_return opening_namespace, step_namespace);
steps!(through_return looking_up, step_look_up);

unsafe extern "C" fn step(call: *mut Running) -> usize {
    // SAFETY: the assembly's frame.
    let call = unsafe { &mut *call };
    let section = call.subject.section;
    if call.state == 0 {
        call.state = 1;
        call.own[INSIDE] = usize::from(call.subject.is_ordered());
        if call.own[INSIDE] != 0 {
            section.enter(call.frame.place);
        }
        look_up_all();
        call.frame.watch(unwound);
        return call.subject.real.address();
    }
    call.frame.unwatch();
    if call.own[INSIDE] != 0 {
        section.leave(call.frame.place);
    }
    0
}

unsafe extern "C" fn unwound(frame: *mut Frame) {
    // SAFETY: a frame watched in `step` is the first member of its call.
    let call = unsafe { &mut *frame.cast::<Running>() };
    if call.own[INSIDE] != 0 {
        call.subject.section.leave(call.frame.place);
    }
}

/// A library that looks for its own symbols first would not find ours.
const RTLD_DEEPBIND: usize = 8;

unsafe extern "C" fn step_open(call: *mut Running) -> usize {
    // SAFETY: the assembly's frame.
    unsafe {
        prepare(call, 1);
        step(call)
    }
}

unsafe extern "C" fn step_look_up(call: *mut Running) -> usize {
    // SAFETY: the assembly's frame.
    unsafe {
        if (*call).state == 0 {
            (*call).own[RETURN] = return_in_module((*call).frame.place);
        } else {
            (*call).frame.result = found(&(*call).frame);
        }
        step(call)
    }
}

/// Whether the calling thread does what recordings have since `relive_trace::layout::FOUND_SINCE`.
pub(crate) fn is_since_found() -> bool {
    match taking_part() {
        Mode::Off => false,
        Mode::Record => true,
        Mode::Replay => has_flag(flag::FOUND),
    }
}

/// What `dlsym` gives for what libc's has found. Who looks a function up in libc itself, as Python's `ctypes` does, is to have the one that
/// is recorded, as everybody else has. Who asks for the next one stands in front of it as we do, and would get himself.
fn found(frame: &Frame) -> usize {
    const RTLD_DEFAULT: usize = 0;
    const RTLD_NEXT: usize = -1isize as usize;
    if !is_since_found() || frame.result == 0 || matches!(frame.args[0], RTLD_DEFAULT | RTLD_NEXT) {
        return frame.result;
    }
    // SAFETY: libc has found something by this name.
    let name = unsafe { CStr::from_ptr(frame.args[1] as *const c_char) };
    in_front_of(frame.result, name).unwrap_or(frame.result)
}

unsafe fn prepare(call: *mut Running, flags: usize) {
    // SAFETY: the assembly's frame.
    let call = unsafe { &mut *call };
    if call.state == 0 {
        call.own[RETURN] = return_in_module(call.frame.place);
        if taking_part() != Mode::Off {
            call.frame.args[flags] &= !RTLD_DEEPBIND;
        }
    }
}

unsafe extern "C" fn step_namespace(call: *mut Running) -> usize {
    const BASE: usize = 0;
    /// Not a file: the real function fails with a message of its own. For a bad namespace it would, too, and keep the
    /// loader's lock for good.
    const NO_FILE: &CStr = c"/dlmopen is refused by relive";
    // SAFETY: the assembly's frame.
    unsafe {
        if (*call).state == 0 && (*call).frame.args[0] != BASE && taking_part() != Mode::Off {
            report::line(format_args!(
                "dlmopen is refused: a new namespace has libraries of its own that can't be recorded"
            ));
            (*call).frame.args[0] = BASE;
            (*call).frame.args[1] = NO_FILE.as_ptr().addr();
        }
        prepare(call, 2);
        step(call)
    }
}

/// The address of a `ret` instruction in the module that holds `place`; of the program, if none does, as libc
/// then takes the program for the caller.
fn return_in_module(place: usize) -> usize {
    const AT_ENTRY: usize = 9;
    const RET: u8 = 0xC3;
    let mut found = MaybeUninit::<Found>::uninit();
    // SAFETY: code is readable, and that of a module ends in `.fini` or some other function that returns, so that
    // the search ends inside. A 0xC3 in the middle of an instruction does as well.
    unsafe {
        let known = real::find_object(place, found.as_mut_ptr()) == 0;
        let mut at = if known { place } else { real::auxiliary(AT_ENTRY) } as *const u8;
        while at.read() != RET {
            at = at.add(1);
        }
        at as usize
    }
}

entry!(dlclose, section, Operation = Operation::new(c"dlclose", &LOADER));
entry!(dl_iterate_phdr, section, Operation = Operation::new(c"dl_iterate_phdr", &IMAGES));
entry!(dlopen, opening, Operation = Operation::new(c"dlopen", &LOADER));
entry!(dlmopen, opening_namespace, Operation = Operation::new(c"dlmopen", &LOADER));
entry!(dlsym, looking_up, Operation = Operation::look_up(c"dlsym"));
entry!(dladdr, section, Operation = Operation::look_up(c"dladdr"));
entry!(dladdr1, section, Operation = Operation::look_up(c"dladdr1"));
entry!(dlinfo, section, Operation = Operation::look_up(c"dlinfo"));
