//! Accesses that a thread makes again and again in one segment, at several instructions by turns.
//!
//! Of the accesses of one segment the last at the same bytes stands for the others in what
//! races with it later. With what came before it each instruction is compared once, as
//! long as nobody else does anything there: an interpreter looks at one flag at the end of
//! each of its dozens of instructions.
//!
//! Apart from the accesses that are kept because nothing is known here but that they were.

use crate::races::Access;
use alloc::collections::BTreeMap;
use relive_race::{Epoch, Touch};

/// When there are more, all are forgotten.
const KNOWN_MAX: usize = 1 << 12;

/// Of one thread: instruction, address and end of what it touched, and how; in which segment, and after how much of
/// others.
#[derive(Default)]
pub(super) struct Again(BTreeMap<(u64, u64, u64, Touch), (Epoch, u64)>);

impl Again {
    /// Whether the same access of the same segment was here before, and nobody else has done what counts since, by the
    /// number `others`. From here on it was.
    pub(super) fn comes(&mut self, access: &Access, segment: Epoch, others: u64) -> bool {
        if self.0.len() >= KNOWN_MAX {
            self.0.clear();
        }
        let key = (access.ip, access.range.start, access.range.end, access.touch);
        self.0.insert(key, (segment, others)) == Some((segment, others))
    }
}

#[cfg(test)]
mod tests {
    use super::{Again, KNOWN_MAX};
    use crate::races::{Access, Content};
    use relive_race::{Epoch, Touch};

    #[test]
    fn only_what_was_the_same_comes_again() {
        let mut again = Again::default();
        let access = |ip, start, touch| Access {
            touch,
            range: start..start + 4,
            general: [0; 16],
            ip,
            content: Content::Unknown,
        };
        let (first, second) = (Epoch::new(1, 1), Epoch::new(1, 2));
        let read = access(7, 64, Touch::Read);
        assert!(!again.comes(&read, first, 0) && again.comes(&read, first, 0));
        assert!(!again.comes(&read, first, 1) && again.comes(&read, first, 1), "others did something");
        assert!(!again.comes(&read, second, 1) && again.comes(&read, second, 1), "another segment");
        for other in [access(8, 64, Touch::Read), access(7, 68, Touch::Read), access(7, 64, Touch::Write)] {
            assert!(!again.comes(&other, second, 1));
        }
        assert!(again.comes(&read, second, 1), "in between there were others");
        for ip in 0..KNOWN_MAX as u64 {
            again.comes(&access(100 + ip, 64, Touch::Read), second, 1);
        }
        assert!(again.0.len() <= KNOWN_MAX);
    }
}
