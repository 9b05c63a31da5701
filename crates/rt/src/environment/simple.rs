//! Calls that only ask or read, in a recording: most of all calls are of these few
//! kinds, and what is special about the others need not be looked for.

use super::shared::changed;
use super::{descriptors, generated, identity, itself, lapses, output, signals, system_v};
use crate::replay::calls as replayed;
use crate::runtime::{self, Mode};
use crate::{held, thread, writer};
use relive_calls::{Output, Treatment};
use relive_sys::aside;
use relive_sys::syscall::number::{CLOSE, DUP, FCNTL, GETPID};

/// What a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Nothing but to be made and kept.
    Plain,
    /// It may name a file that is the starter's.
    Named,
    /// It may make or close a descriptor that stands for the session's output, or name one of ours.
    Descriptor,
    /// More than is done here.
    Other,
}

/// A call by its number.
#[derive(Clone, Copy, Debug)]
struct Row {
    class: Class,
    /// The one piece that the kernel writes, if any.
    output: Option<Output>,
}

static ROWS: [Row; COUNT] = {
    let mut rows = [Row { class: Class::Other, output: None }; COUNT];
    let mut number = 0;
    while number < COUNT {
        rows[number] = row_of(number);
        number += 1;
    }
    rows
};
const COUNT: usize = 472;

const fn row_of(number: usize) -> Row {
    let output = match relive_calls::find(number) {
        Some(call) => match call.treatment {
            Treatment::Emulate([]) => None,
            Treatment::Emulate(outputs) if relive_calls::is_single(outputs) => Some(outputs[0]),
            // The commands that are made here write nothing.
            _ if number == FCNTL => None,
            _ => return Row { class: Class::Other, output: None },
        },
        None => return Row { class: Class::Other, output: None },
    };
    Row { class: class_of(number), output }
}

const fn class_of(number: usize) -> Class {
    if matches!(number, CLOSE | FCNTL | DUP) {
        return Class::Descriptor;
    }
    if itself::names_file(number) {
        return Class::Named;
    }
    // Whoever does more for a call says so: there is no second list of these.
    let special = number == GETPID
        || identity::is_changed_by(number)
        || replayed::is_sleep(number)
        || descriptors::takes_sets(number)
        || itself::link_argument(number).is_some()
        || output::destination(number).is_some()
        || signals::mask_argument(number).is_some()
        || system_v::kept_by(number).is_some()
        || held::closes(number);
    if special { Class::Other } else { Class::Plain }
}

/// The commands of `fcntl` that only return something, of those that programs give often: they are looked for in a list.
const fn is_plain_command(command: usize) -> bool {
    const F_SETFL: usize = 4;
    const F_DUPFD_CLOEXEC: usize = 1030;
    command <= F_SETFL || command == F_DUPFD_CLOEXEC
}

/// Whether the call is such a one, and the calling thread records: then it is to be made, and [`made`] told.
#[inline]
pub(super) fn is_simple(number: usize, arguments: &[usize; 6]) -> bool {
    let Some(row) = ROWS.get(number).filter(|row| row.class != Class::Other) else { return false };
    if row.class == Class::Descriptor {
        match number {
            FCNTL if !is_plain_command(arguments[1]) => return false,
            CLOSE if held::is_held(arguments[0]) => return false,
            _ => {}
        }
    } else if output::is_shown(number, arguments) || changed::is_possible(number, arguments) {
        // Before it is made others' writes are waited for; behind it a mapping shows what it wrote.
        return false;
    }
    let Some(thread) = thread::current_if_known() else { return false };
    thread.forking.is_none() && !thread.unseen && runtime::mode() == Mode::Record
}

/// Keeps such a call, which the kernel answered by `result`. Returns what the program is told.
///
/// # Safety
/// As for the call itself, which has just been made.
pub(super) unsafe extern "C" fn made(number: usize, arguments: *const [usize; 6], result: isize) -> isize {
    // SAFETY: forwarded.
    unsafe { aside::run(keep, number, arguments.addr(), result as usize, 0, 0) }
}

unsafe extern "C" fn keep(number: usize, arguments: usize, result: usize, _: usize, _: usize) -> isize {
    let (arguments, mut result) = (arguments as *const [usize; 6], result as isize);
    // SAFETY: the caller's promise; after the call the kernel has written the piece.
    unsafe {
        let (arguments, row) = (&*arguments, &ROWS[number]);
        let Some(thread) = thread::current_if_known() else { return result };
        if row.class == Class::Named {
            result = itself::answer(number, arguments, result);
        }
        let outputs = row.output.as_slice();
        let check = output::check(number, arguments, result);
        let piece = check.piece().unwrap_or_else(|| relive_calls::single(outputs, arguments, result));
        if result == 0 && lapses::is_one(number, arguments) {
            let told = lapses::end(thread);
            let pieces = [piece, told.piece()];
            writer::append_call(thread, number, result, &|visit| {
                for [address, length] in pieces.into_iter().filter(|piece| piece[1] > 0) {
                    visit(address, length);
                }
            });
        } else {
            writer::append_single(thread, number, result, piece);
            lapses::note_look(thread, number);
        }
        if row.class == Class::Descriptor {
            descriptors::follow(number, arguments, result);
        }
        output::opened(number, arguments, result);
        if generated::is_owed(thread) {
            generated::pay(thread);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::{COUNT, Class, FCNTL, ROWS, is_plain_command};
    use crate::environment::program::Program;
    use relive_calls::Resolved;
    use relive_sys::syscall::number::{
        CLOSE, EXIT_GROUP, FORK, GETPID, MMAP, MQ_TIMEDSEND, NEWFSTATAT, PPOLL, READ, RT_SIGACTION, SEMOP, SENDFILE,
        WAIT4,
    };

    #[test]
    fn what_has_an_effect_is_not_simple() {
        for number in [EXIT_GROUP, FORK, MMAP, RT_SIGACTION, WAIT4, GETPID, SEMOP, MQ_TIMEDSEND, PPOLL, SENDFILE] {
            assert_eq!(ROWS[number].class, Class::Other, "{number}");
        }
        let classes = [READ, NEWFSTATAT, CLOSE, FCNTL].map(|number| ROWS[number].class);
        assert_eq!(classes, [Class::Plain, Class::Named, Class::Descriptor, Class::Descriptor]);
    }

    #[test]
    fn rows_say_what_the_table_says() {
        for number in (0..COUNT).filter(|&number| number != FCNTL && ROWS[number].class != Class::Other) {
            let resolved = relive_calls::resolve(number, &[0; 6], &Program);
            let Ok(Resolved::Emulate(outputs)) = resolved else { panic!("{number}: {resolved:?}") };
            assert_eq!(outputs, ROWS[number].output.as_slice(), "{number}");
        }
    }

    #[test]
    fn plain_commands_write_nothing() {
        for command in (0..2000).filter(|&command| is_plain_command(command)) {
            let resolved = relive_calls::resolve(FCNTL, &[0, command, 0, 0, 0, 0], &Program);
            assert!(matches!(resolved, Ok(Resolved::Emulate([]))), "{command}");
        }
    }
}
