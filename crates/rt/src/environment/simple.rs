//! Calls that only ask or read, in a recording: most of all calls are of these few
//! kinds, and what is special about the others need not be looked for.

use super::{Program, descriptors, generated, itself, output, signals, system_v};
use crate::replay::calls as replayed;
use crate::runtime::{self, Mode};
use crate::{held, thread, writer};
use relive_calls::{Output, Resolved, Treatment};
use relive_sys::dispatch;
use relive_sys::syscall::number::{CLOSE, DUP, FCNTL, GETPID};

/// What a call needs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Nothing but to be made and kept.
    Plain,
    /// It may name a file or a descriptor that is ours, or the starter's.
    Named,
    /// More than is done here.
    Other,
}

static CLASSES: [Class; COUNT] = {
    let mut classes = [Class::Other; COUNT];
    let mut number = 0;
    while number < COUNT {
        classes[number] = class_of(number);
        number += 1;
    }
    classes
};
const COUNT: usize = 472;

const fn class_of(number: usize) -> Class {
    if matches!(number, CLOSE | FCNTL | DUP) || itself::names_file(number) {
        return Class::Named;
    }
    // Whoever does more for a call says so: there is no second list of these.
    let special = number == GETPID
        || replayed::is_sleep(number)
        || descriptors::takes_sets(number)
        || itself::link_argument(number).is_some()
        || output::destination(number).is_some()
        || signals::mask_argument(number).is_some()
        || system_v::kept_by(number).is_some()
        || held::closes(number);
    match relive_calls::find(number) {
        Some(call) if !special => match call.treatment {
            Treatment::Emulate(outputs) if relive_calls::is_single(outputs) => Class::Plain,
            _ => Class::Other,
        },
        _ => Class::Other,
    }
}

/// The commands of `fcntl` that only return something, of those that programs give often: they are looked for in a list.
const fn is_plain_command(command: usize) -> bool {
    const F_SETFL: usize = 4;
    const F_DUPFD_CLOEXEC: usize = 1030;
    command <= F_SETFL || command == F_DUPFD_CLOEXEC
}

/// Makes and keeps the call, if it is such a one.
///
/// # Safety
/// As for the call itself.
#[inline]
pub(super) unsafe fn carry_out(number: usize, arguments: &[usize; 6]) -> Option<isize> {
    let class = *CLASSES.get(number).filter(|&&class| class != Class::Other)?;
    let thread = thread::current_if_known()?;
    if thread.forking.is_some() || thread.unseen || runtime::mode() != Mode::Record {
        return None;
    }
    let outputs: &[Output] = match number {
        FCNTL if is_plain_command(arguments[1]) => &[],
        _ => match relive_calls::resolve(number, arguments, &Program) {
            Ok(Resolved::Emulate(outputs)) => outputs,
            _ => return None,
        },
    };
    if !relive_calls::is_single(outputs) {
        return None;
    }
    // SAFETY: the caller's promise; after the call the kernel has written the piece.
    unsafe {
        let result = match class {
            Class::Named => held::passed_by(number, arguments, dispatch::program_call)
                .unwrap_or_else(|| itself::answer(number, arguments, dispatch::program_call(number, arguments))),
            _ => dispatch::program_call(number, arguments),
        };
        let check = output::check(number, arguments, result);
        let piece = check.piece().unwrap_or_else(|| relive_calls::single(outputs, arguments, result));
        writer::append_single(thread, number, result, piece);
        output::wrote(thread, number, arguments, result);
        if class == Class::Named {
            descriptors::follow(number, arguments, result);
        }
        if generated::is_owed(thread) {
            generated::pay(thread);
        }
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::{CLASSES, Class, FCNTL, Program, is_plain_command};
    use relive_calls::Resolved;
    use relive_sys::syscall::number::{
        CLOSE, EXIT_GROUP, FORK, GETPID, MMAP, MQ_TIMEDSEND, PPOLL, READ, RT_SIGACTION, SEMOP, SENDFILE, WAIT4,
    };

    #[test]
    fn what_has_an_effect_is_not_simple() {
        for number in [EXIT_GROUP, FORK, MMAP, RT_SIGACTION, WAIT4, GETPID, SEMOP, MQ_TIMEDSEND, PPOLL, SENDFILE] {
            assert!(CLASSES[number] == Class::Other, "{number}");
        }
        assert!(CLASSES[READ] == Class::Plain && CLASSES[CLOSE] == Class::Named && CLASSES[FCNTL] == Class::Named);
    }

    #[test]
    fn plain_commands_write_nothing() {
        for command in (0..2000).filter(|&command| is_plain_command(command)) {
            let resolved = relive_calls::resolve(FCNTL, &[0, command, 0, 0, 0, 0], &Program);
            assert!(matches!(resolved, Ok(Resolved::Emulate([]))), "{command}");
        }
    }
}
