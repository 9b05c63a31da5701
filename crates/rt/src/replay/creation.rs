//! Creations that can't have their turn.
//!
//! A creation is on no object, so what others still have to run before it by their
//! timestamps can't tell the difference. It waits nevertheless, for a while: what
//! nobody orders, as accesses that race, is nearest to the recording so. But one of the
//! others may be waiting, at a variable that nobody records, for the very thread that is
//! to be made; then its event never comes. Threads that meet at a barrier of their own
//! before they work do so.
//!
//! Apart from the gate because it is on no object that would say that it may go (`entering.rs`).

use super::{Replay, turn};
use relive_order::Kind;
use relive_trace::record::Record;

impl Replay {
    /// Whether the next event is a creation that has waited for its turn in vain. Whoever has met that once does not wait
    /// again. One that joined a clock without being on an object (a used stack's) has to have its turn.
    #[inline]
    pub(super) fn goes_before_its_turn(&mut self, kind: Kind, index: u32) -> bool {
        kind == Kind::Create && self.goes_before(index)
    }

    #[inline(never)]
    fn goes_before(&mut self, index: u32) -> bool {
        if matches!(self.order.at(self.events), Some(Record::Pair { .. })) {
            return false;
        }
        self.hurries = self.hurries || !turn::comes_soon(index, self.next_time);
        self.hurries
    }
}
