//! Vector clocks (Fidge 1988, Mattern 1989): how much of each thread somebody knows.
//!
//! Apart from whoever stores them, and over plain slices, so that they work
//! without an allocator. Slices of different lengths may meet: what is missing
//! is zero, because a thread that did not exist yet is known up to nothing.

/// What a vector says of one thread.
#[inline]
pub fn component(vector: &[u64], thread: usize) -> u64 {
    vector.get(thread).copied().unwrap_or(0)
}

/// Whether `vector` knows all that `other` knows.
pub fn covers(vector: &[u64], other: &[u64]) -> bool {
    let (common, more) = other.split_at(other.len().min(vector.len()));
    common.iter().zip(vector).all(|(theirs, ours)| theirs <= ours) && more.iter().all(|&theirs| theirs == 0)
}

/// Adds what `other` knows; what does not fit into `vector` must be zero or is lost.
pub fn raise(vector: &mut [u64], other: &[u64]) {
    for (ours, &theirs) in vector.iter_mut().zip(other) {
        *ours = (*ours).max(theirs);
    }
}

#[cfg(test)]
mod tests {
    use super::{component, covers, raise};
    use proptest::prelude::*;

    #[test]
    fn a_missing_component_is_zero() {
        assert_eq!(component(&[3], 1), 0);
        assert!(covers(&[3], &[2, 0]));
        assert!(!covers(&[3], &[2, 1]));
        assert!(covers(&[], &[]));
    }

    proptest! {
        #[test]
        fn what_was_raised_covers_both_and_nothing_less_does(
            (a, b) in (1..6usize).prop_flat_map(|n| (prop::collection::vec(0..4u64, n), prop::collection::vec(0..4u64, n))),
        ) {
            let mut both = a.clone();
            raise(&mut both, &b);
            prop_assert!(covers(&both, &a) && covers(&both, &b));
            for i in 0..both.len() {
                prop_assert!(both[i] == a[i] || both[i] == b[i]);
            }
            prop_assert_eq!(covers(&a, &b), a == both);
        }
    }
}
