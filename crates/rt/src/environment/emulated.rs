//! Calls whose results and memory a replay takes from the recording.
//!
//! Apart from telling how a call is treated because this is what nearly all come to that are not made again.

use super::program::Program;
use super::shared::changed::Change;
use super::{generated, itself, lapses, output, signals, told};
use crate::replay::{self, calls as replayed};
use crate::runtime::{self, Mode};
use crate::thread::Thread;
use crate::{held, races, writer};
use relive_calls::{Before, Output};
use relive_sys::dispatch;
use relive_sys::syscall::number::GETTID;

/// Makes a call, and keeps what it takes in.
///
/// # Safety
/// As for the call itself.
unsafe fn take_in(
    thread: &mut Thread,
    number: usize,
    arguments: &[usize; 6],
    outputs: &[Output],
    before: &Before,
) -> isize {
    let mut shape = *arguments;
    let told = told::argument(number, arguments);
    if let Some(index) = told {
        shape[index] = told::instead(number, arguments);
    }
    // SAFETY: the caller's promise; after the call the kernel has written the pieces.
    unsafe {
        let mut mask = signals::Mask::default();
        let given = mask.without_ours(number, arguments);
        let writing = output::begin(thread, number, arguments);
        let answered =
            itself::read_link(number, arguments).or_else(|| held::passed_by(number, &given, dispatch::program_call));
        let result =
            answered.unwrap_or_else(|| itself::answer(number, arguments, dispatch::program_call(number, &given)));
        generated::hide(number, arguments, result);
        let change = Change::of(number, arguments, result);
        let check = output::check(number, arguments, result);
        let lapse = (result == 0 && lapses::is_one(number, arguments)).then(|| lapses::end(thread));
        writer::append_call(thread, number, result, &|visit| {
            if let Some(index) = told {
                visit(shape[index..].as_ptr().addr(), size_of::<usize>());
            }
            relive_calls::written(outputs, &shape, before, result, &Program, visit);
            if let Some([address, length]) = change.as_ref().map(Change::piece) {
                visit(address, length);
            }
            check.visit(visit);
            if let Some([address, length]) = lapse.as_ref().map(lapses::Told::piece) {
                visit(address, length);
            }
        });
        lapses::note_look(thread, number);
        output::wrote(thread, number, arguments, result);
        drop(writing);
        output::follow(number, arguments, result);
        if result == 0 && replayed::is_sleep(number) {
            // A replay does not see it; what strikes before or after must be told apart.
            thread.count_call(false);
        }
        result
    }
}

/// # Safety
/// As for the call itself.
#[inline(never)]
pub(super) unsafe fn emulate(thread: &mut Thread, number: usize, arguments: &[usize; 6], outputs: &[Output]) -> isize {
    let before = relive_calls::before(outputs, arguments, &Program);
    // The arguments that say where the kernel wrote.
    let mut shape = *arguments;
    let told = told::argument(number, arguments);
    if runtime::mode() == Mode::Record {
        // SAFETY: the caller's promise.
        return unsafe { take_in(thread, number, arguments, outputs, &before) };
    }
    if replayed::is_sleep(number) && replayed::sleep(number) {
        thread.count_call(false);
        return 0;
    }
    let taken = replayed::take(number);
    let result = taken.result;
    let mut filler = taken.filler();
    if let Some(index) = told {
        // SAFETY: the local array.
        unsafe { filler.fill(shape[index..].as_mut_ptr().addr(), size_of::<usize>()) };
    }
    relive_calls::written(outputs, &shape, &before, result, &Program, &mut |address, length| {
        // SAFETY: memory that the kernel wrote in the recording, by the same arguments.
        unsafe { filler.fill(address, length) };
    });
    let change = Change::told(&mut filler, number, arguments);
    // SAFETY: what the program wrote is readable: the kernel read it in the recording.
    unsafe {
        output::compare(&mut filler, number, arguments, result);
        if let Some(change) = change {
            change.make_again(number, arguments, result);
        }
    }
    if result == 0 && lapses::is_one(number, arguments) {
        lapses::end_again(&mut filler);
    }
    filler.finish(number);
    // SAFETY: the program has the call's name still, as in the recording.
    unsafe { output::follow(number, arguments, result) };
    if number == GETTID {
        thread.recorded_tid = result as u32;
    }
    // SAFETY: what the program wrote is readable: the kernel read it in the recording.
    unsafe {
        if races::is_on() {
            output::each_piece(number, arguments, result, &mut races::given);
            races::called(number, arguments, result);
        }
        output::show(number, arguments, result);
    }
    // No timer of the program's runs: what struck while it computed on after the call strikes at its end.
    replay::deliver_computing();
    result
}
