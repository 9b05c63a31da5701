//! The closed table: every system call by its number.
//!
//! The rows stand in files by hundreds, each an array whose length is part of
//! its type: a call that is not classified does not compile. Here are the
//! words that the rows are written with, the way from a number to its row, and
//! what calls that are executed write.

mod from_0;
mod from_100;
mod from_200;
mod from_300;
mod from_424;

use crate::Bytes::{Fixed, Room};
use crate::When::{Positive, Success, Unless};
use crate::{Bytes, Call, Output, Treatment, When};
use core::ops::Range;

/// The first block of numbers. What a kernel has right behind it (`uretprobe`, `uprobe`) only its own trampolines call.
pub const FIRST_NUMBERS: Range<usize> = 0..335;
/// The block of the numbers that all architectures share.
pub const LATER_NUMBERS: Range<usize> = 424..472;

/// The row of a number; `None` for numbers that no kernel known here gives to programs.
pub const fn find(number: usize) -> Option<&'static Call> {
    match number {
        0..=99 => Some(&from_0::CALLS[number]),
        100..=199 => Some(&from_100::CALLS[number - 100]),
        200..=299 => Some(&from_200::CALLS[number - 200]),
        300..=334 => Some(&from_300::CALLS[number - 300]),
        424..=471 => Some(&from_424::CALLS[number - 424]),
        _ => None,
    }
}

/// What a call writes that a replay executes: for a recording that wants to keep it, and for a replay that executes only
/// the effect and takes the rest from the trace.
pub const fn execute_outputs(number: usize) -> &'static [Output] {
    match number {
        // rt_sigaction and setitimer: what was set before
        13 | 38 => const { &[out(2, Fixed(32))] },
        // rt_sigprocmask
        14 => const { &[out(2, Fixed(8))] },
        // wait4: status and usage, if a child was found
        61 => const { &[on(1, Fixed(4), Positive), on(3, Fixed(144), Positive)] },
        // rt_sigpending
        127 => const { &[out(0, Room { length: 1 })] },
        // rt_sigtimedwait
        128 => const { &[on(1, Fixed(128), Positive)] },
        // sigaltstack
        131 => const { &[out(1, Fixed(24))] },
        // timer_create: the timer's number
        222 => const { &[out(2, Fixed(4))] },
        // timer_settime
        223 => const { &[out(3, Fixed(32))] },
        // waitid: it clears the fields also when it fails
        247 => const { &[on(2, Fixed(28), Unless(EFAULT)), out(4, Fixed(144))] },
        // get_robust_list
        274 => const { &[out(1, Fixed(8)), out(2, Fixed(8))] },
        // prlimit64
        302 => const { &[out(3, Fixed(16))] },
        _ => &[],
    }
}

const fn call(name: &'static str, treatment: Treatment) -> Call {
    Call { name, treatment }
}

/// Written when the call did not fail.
pub(crate) const fn out(argument: u8, bytes: Bytes) -> Output {
    on(argument, bytes, Success)
}

/// Written with these results.
pub(crate) const fn on(argument: u8, bytes: Bytes, when: When) -> Output {
    Output { argument, bytes, when }
}

/// The kernel writes nothing but the result.
const PLAIN: Treatment = Treatment::Emulate(&[]);

const EINTR: u16 = 4;
const E2BIG: u16 = 7;
const EFAULT: u16 = 14;
const EINVAL: u16 = 22;
const EOVERFLOW: u16 = 75;

/// The program is not allowed to: what it gets without the privilege.
const EPERM: Treatment = Treatment::Refuse(1);
/// What an older kernel answers, or one that was built without the call.
const ENOSYS: Treatment = Treatment::Refuse(38);

#[cfg(test)]
pub(crate) mod tests {
    use super::{FIRST_NUMBERS, LATER_NUMBERS, execute_outputs, find};
    use crate::{Before, Bytes, Call, Output, Treatment};
    use std::collections::BTreeSet;

    fn all() -> impl Iterator<Item = (usize, &'static Call)> {
        (0..1024).filter_map(|number| Some((number, find(number)?)))
    }

    /// Every index of an argument in a list is below six, and what measures an output stands in front of it.
    pub(crate) fn check_outputs(name: &str, outputs: &[Output]) {
        assert!(outputs.len() <= Before::WORDS, "{name}");
        for (index, output) in outputs.iter().enumerate() {
            let other = match output.bytes {
                Bytes::Flagged { argument, .. } => argument,
                Bytes::Capped { length }
                | Bytes::Fitting { length }
                | Bytes::Room { length }
                | Bytes::Value { length }
                | Bytes::Address { length }
                | Bytes::Elements { length, .. }
                | Bytes::Pages { length } => length,
                Bytes::Array { count, .. }
                | Bytes::Buffers { count }
                | Bytes::Messages { count }
                | Bytes::Descriptors { count } => count,
                Bytes::Counted { most, .. } | Bytes::Nodes { most } | Bytes::Sized { most } => most,
                Bytes::Capabilities { header } => header,
                _ => 0,
            };
            assert!(output.argument < 6 && other < 6, "{name}: {output:?}");
            let measured = match output.bytes {
                Bytes::Value { length } | Bytes::Elements { length, .. } => Some(length),
                Bytes::Capabilities { header } => Some(header),
                _ => None,
            };
            if let Some(word) = measured {
                let stands_before = outputs[..index].iter().any(|o| o.argument == word && o.bytes == Bytes::Fixed(4));
                assert!(stands_before, "{name}: the word that {output:?} depends on");
            }
            if matches!(output.bytes, Bytes::Messages { .. }) {
                assert!(index == 0 && outputs[1..].iter().all(|o| matches!(o.bytes, Bytes::Fixed(_))), "{name}");
            }
            assert!(!matches!(output.bytes, Bytes::Timeout) || output.when == crate::When::Always, "{name}");
        }
    }

    #[test]
    fn rows_stand_exactly_at_the_numbers_of_the_two_blocks() {
        let numbers: BTreeSet<_> = all().map(|(number, _)| number).collect();
        assert_eq!(numbers, FIRST_NUMBERS.chain(LATER_NUMBERS).collect());
        assert!(find(usize::MAX).is_none());
    }

    #[test]
    fn every_name_stands_once() {
        let mut seen = BTreeSet::new();
        for (_, call) in all() {
            assert!(seen.insert(call.name), "{} stands twice", call.name);
        }
    }

    #[test]
    fn outputs_are_well_formed() {
        for (number, call) in all() {
            check_outputs(call.name, execute_outputs(number));
            if let Treatment::Emulate(outputs) = call.treatment {
                check_outputs(call.name, outputs);
            }
        }
    }

    #[test]
    fn only_executed_calls_have_outputs_of_executed_calls() {
        for (number, call) in all() {
            if !execute_outputs(number).is_empty() {
                assert!(matches!(call.treatment, Treatment::Execute(_) | Treatment::ByRequest(_)), "{}", call.name);
            }
        }
    }

    #[test]
    fn refusals_are_errnos() {
        for (_, call) in all() {
            if let Treatment::Refuse(errno) = call.treatment {
                assert!((1..=133).contains(&errno), "{}", call.name);
            }
        }
    }
}
