//! Instructions that read the outside: the time, random numbers, which processor
//! it is.
//!
//! They were made into traps (`relive_sys::outside`), and most of those into jumps
//! from the moment on when this library is there. What the processor says of itself
//! comes from the session's table. All else stands in the thread's stream like an
//! emulated call, and a replay takes it from there.
//!
//! Where it is not known what is an instruction, the time is forbidden besides, see
//! [`super::generated`].

use super::{atomics, copied, faults, generated, lapses, taking_part};
use crate::replay::{self, calls as replayed};
use crate::runtime::{self, Mode};
use crate::writer;
use core::ops::Range;
use core::sync::atomic::{AtomicPtr, Ordering};
use relive_sys::atomics::piece_of;
use relive_sys::frames::{File, Known};
use relive_sys::outside::forbidden::{self, SIGSEGV};
use relive_sys::outside::jumps::{self, binding};
use relive_sys::outside::{self, Answer, Kind, Outside, Places, SIGILL, Searched};
use relive_sys::processor::Leaf;
use relive_sys::saved::Saved;
use relive_sys::signal::{Context, Info};
use relive_sys::start::{CONTROL, Handover};
use relive_sys::{aside, maps, syscall};
use relive_trace::control::{Control, flag};
use relive_trace::record::instruction;

/// The process's changed instructions; null if they are left alone.
static PLACES: AtomicPtr<Places> = AtomicPtr::new(core::ptr::null_mut());

/// What processes of the session have found.
const SEARCHED: Searched<'static> = Searched {
    recall: &|key| runtime::session().instructions.recall(key),
    remember: &|key, words| runtime::session().instructions.remember(key, words.iter().copied()),
};

fn places() -> Option<&'static Places> {
    // SAFETY: null, or memory that stays.
    unsafe { PLACES.load(Ordering::Acquire).as_ref() }
}

/// Whether such instructions come here.
pub(super) fn is_on() -> bool {
    places().is_some()
}

/// Has the kernel send a signal here, with these flags of the program's action.
pub(super) fn install(signal: u32, flags: usize) {
    outside::install(signal, flags as u64, decide);
}

/// Takes over from the starter.
pub(super) fn start(handover: Option<&Handover>) {
    if handover.is_some() {
        // SAFETY: the starter's view of the session, which ends here; nobody has a reference into it any more.
        unsafe { syscall::munmap(CONTROL, size_of::<Control>()) };
    }
    let table = &runtime::session().cpuid;
    let leaves = table.leaves.get(..table.count as usize).unwrap_or(&[]);
    if leaves.is_empty() {
        return;
    }
    let Some(places) = Places::own() else { return };
    // SAFETY: the process has one thread.
    unsafe { places.set_leaves(leaves) };
    PLACES.store(core::ptr::from_ref(places).cast_mut(), Ordering::Release);
    install(SIGILL, 0);
    let patched = handover.is_some_and(|handover| handover.places.is_some());
    let is_writable = maps::each_file_of_code(|range, offset, path| {
        if outside::is_loader(path) {
            // SAFETY: the loader's code; the process has one thread, and it is here.
            unsafe { binding::wipe(&range) };
        }
        if patched && !atomics::are_ordered() && !places.has_wanted(&range) {
            return;
        }
        let fd = syscall::open(path, syscall::O_RDONLY);
        if fd >= 0 {
            let file = File::open(fd as u32);
            // SAFETY: code of that file; the process has one thread, and it is here.
            unsafe {
                if !patched {
                    outside::patch(places, &range, &file, offset, &SEARCHED);
                }
                make_jumps(places, &range, &file, offset);
                atomics::change(&range, &file, offset);
            }
            drop(file);
            syscall::close(fd as u32);
        }
    });
    if is_writable || places.unsure_of_time() > 0 {
        generated::begin();
    }
}

/// A debugger may put breakpoints into the bytes that a jump takes: it gets traps.
///
/// # Safety
/// As for [`jumps::make`].
unsafe fn make_jumps(places: &Places, range: &Range<usize>, file: &File, offset: usize) {
    if !runtime::has_flag(flag::DEBUGGER) {
        // SAFETY: the caller's promise.
        unsafe { jumps::make(places, range, file, offset, on_jump) };
    }
}

/// Changes code that was just mapped from a file: the calls in it become jumps, too.
///
/// # Safety
/// Nobody may run it yet; calls come one after the other.
pub(super) unsafe fn mapped(range: &Range<usize>, fd: u32, offset: usize) {
    let Some(places) = places() else { return };
    unmapped(range);
    let file = File::open(fd);
    let range = &file.shown_in(range, offset);
    let mut known = Known::of(&file);
    let known = |_, at: usize| known.with_opcode(offset + at).from(offset);
    // SAFETY: the caller's promise.
    unsafe {
        if outside::patch(places, range, &file, offset, &SEARCHED).unsure_of_time > 0 {
            generated::begin();
        }
        super::code::redirect(range, Some(fd), offset, known);
        make_jumps(places, range, &file, offset);
        atomics::change(range, &file, offset);
    }
}

/// Other memory is there from now on, or none.
pub(super) fn unmapped(range: &Range<usize>) {
    if let Some(places) = places() {
        places.forget(range);
        jumps::forget(range);
        atomics::forget(range);
    }
}

/// What was there is elsewhere from now on.
pub(super) fn moved(range: &Range<usize>, to: usize) {
    if let Some(places) = places() {
        places.follow(range, to);
    }
}

/// What the kernel calls for signals that instructions raise.
pub(super) unsafe extern "C" fn decide(signal: i32, info: *mut Info, context: *mut Context) -> usize {
    // SAFETY: forwarded.
    aside::with(|| unsafe { decide_aside(signal as u32, info, context) })
}

unsafe fn decide_aside(signal: u32, info: *mut Info, context: *mut Context) -> usize {
    // SAFETY: the kernel's information and context.
    let (info, context) = unsafe { (&mut *info, &mut *context) };
    if signal == SIGILL
        && info.code > 0
        && let Some(piece) = piece_of(context.place())
    {
        context.set_place(piece);
        return 0;
    }
    let found = match signal {
        SIGILL => places().filter(|_| info.code > 0).and_then(|places| places.at(context.place())),
        // SAFETY: as above.
        SIGSEGV if forbidden::is_on() => unsafe { forbidden::met(info, context) }.map(|found| (found, true)),
        _ => None,
    };
    let Some((found, wanted)) = found else {
        copied::put_right(info, context);
        return faults::pass_on(signal, info, context);
    };
    let answer = if wanted { answer(&found) } else { found.ask() };
    found.pass(context, answer, leaves());
    0
}

fn leaves() -> &'static [Leaf] {
    places().map_or(&[], Places::leaves)
}

/// What the jumps lead to.
unsafe extern "C" fn on_jump(saved: *mut Saved) {
    aside::with(|| {
        // SAFETY: the routine's registers.
        let saved = unsafe { &mut *saved };
        let found = saved.outside();
        found.give(saved, answer(&found), leaves());
    });
}

/// What the program gets: what there is in a recording, and that in a replay.
fn answer(found: &Outside) -> Answer {
    let number = match found.kind {
        // Answered from the table.
        Kind::Processor | Kind::State => return Answer::default(),
        Kind::Time => instruction::TIME,
        Kind::TimeAndPlace => instruction::TIME_AND_PLACE,
        Kind::Place => instruction::PLACE,
        Kind::Random => instruction::RANDOM,
        Kind::Seed => instruction::SEED,
    };
    let number = usize::from(number);
    let Some(thread) = taking_part() else { return found.ask() };
    if runtime::mode() == Mode::Replay {
        let taken = replayed::take(number);
        let mut answer = Answer { value: taken.result as u64, more: 0 };
        let mut filler = taken.filler();
        // SAFETY: the local number.
        unsafe { filler.fill((&raw mut answer.more).addr(), size_of::<u32>()) };
        filler.finish(number);
        // What struck while the program computed on may be looked for from here on, as behind a call.
        replay::deliver_computing();
        replayed::say_if_done();
        return answer;
    }
    let answer = found.ask();
    let more = (&raw const answer.more).addr();
    // SAFETY: the local number.
    unsafe { writer::append_call(thread, number, answer.value as isize, &|visit| visit(more, size_of::<u32>())) };
    lapses::note_look(thread, number);
    answer
}
