//! Robust mutexes and who holds them.
//!
//! An owner that ends with one lets it go: what it did happens before the lock of whoever
//! gets `EOWNERDEAD`. No event tells of that, so holders are kept in mind, of robust
//! mutexes alone.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// By the mutex's key: who holds it, and how often.
#[derive(Debug, Default)]
pub(super) struct Holders(BTreeMap<u64, (u32, u32)>);

impl Holders {
    pub(super) fn taken(&mut self, thread: u32, key: u64) {
        let depth = self.0.get(&key).filter(|held| held.0 == thread).map_or(0, |held| held.1);
        self.0.insert(key, (thread, depth + 1));
    }

    pub(super) fn left(&mut self, thread: u32, key: u64) {
        if let Some(held) = self.0.get_mut(&key).filter(|held| held.0 == thread) {
            held.1 -= 1;
            if held.1 == 0 {
                self.0.remove(&key);
            }
        }
    }

    /// What the thread, which ends, still holds.
    pub(super) fn take_those_of(&mut self, thread: u32) -> Vec<u64> {
        let of = |held: &(u32, u32)| held.0 == thread;
        let keys = self.0.iter().filter(|(_, held)| of(held)).map(|(&key, _)| key).collect();
        self.0.retain(|_, held| !of(held));
        keys
    }

    /// In a fork child, which holds none.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::Holders;

    #[test]
    fn what_was_left_as_often_as_it_was_taken_is_not_held() {
        let mut holders = Holders::default();
        for (thread, key) in [(1, 10), (1, 10), (1, 20), (2, 30), (1, 40)] {
            holders.taken(thread, key);
        }
        holders.left(1, 10);
        holders.left(1, 20);
        holders.left(2, 40);
        assert_eq!(holders.take_those_of(1), [10, 40]);
        assert!(holders.take_those_of(1).is_empty());
        assert_eq!(holders.take_those_of(2), [30]);
    }

    #[test]
    fn who_inherits_holds_it_once() {
        let mut holders = Holders::default();
        holders.taken(1, 10);
        holders.taken(1, 10);
        holders.taken(2, 10);
        holders.left(2, 10);
        assert!(holders.take_those_of(1).is_empty());
        assert!(holders.take_those_of(2).is_empty());
    }
}
