//! The segments that replayed processes counted, added up.
//!
//! Apart from the races, with which they only share the file.

use relive_findings::raw::RawSegments;
use relive_trace::races::word;

/// Adds what one record says. `false` if it is none of these.
pub(super) fn add(all: &mut Option<RawSegments>, what: u64, counts: [u64; 2]) -> bool {
    const EXACT_MORE: u64 = word::EXACT + word::MORE;
    const SNOOPED_MORE: u64 = word::SNOOPED + word::MORE;
    let mut sum = all.unwrap_or_default();
    let stored = match what {
        word::EXACT | EXACT_MORE => &mut sum.exact,
        word::SNOOPED | SNOOPED_MORE => &mut sum.snooped,
        _ => return false,
    };
    let columns = match what {
        word::EXACT | word::SNOOPED => [&mut stored.created, &mut stored.stored_max],
        _ => [&mut stored.bytes_max, &mut stored.compared],
    };
    for (column, count) in columns.into_iter().zip(counts) {
        *column = column.saturating_add(count);
    }
    *all = Some(sum);
    true
}

#[cfg(test)]
mod tests {
    use super::add;
    use relive_findings::raw::{RawSegments, RawStored};

    #[test]
    fn processes_are_added_up_and_other_records_are_left() {
        let mut all = None;
        assert!(!add(&mut all, 4, [1, 2]));
        assert_eq!(all, None);
        for [what, first, second] in [[5, 10, 2], [7, 64, 9], [6, 10, 3], [8, 80, 9], [5, 1, 1]] {
            assert!(add(&mut all, what, [first, second]));
        }
        let exact = RawStored { created: 11, stored_max: 3, bytes_max: 64, compared: 9 };
        let snooped = RawStored { created: 10, stored_max: 3, bytes_max: 80, compared: 9 };
        assert_eq!(all, Some(RawSegments { exact, snooped }));
    }
}
