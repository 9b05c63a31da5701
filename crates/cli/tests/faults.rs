//! What happens when things go wrong: kills, full disks, low limits, lost
//! folders, crowds of threads, damaged traces.
//!
//! Apart from the guests because here the program is right and its surroundings
//! are not. The rule in every case: the recorded program goes on, the trace
//! stays a correct prefix, and whoever reads it gets that prefix or one line
//! that says what is wrong; never a panic, a hang or a wrong replay.

#[path = "faults/crowds.rs"]
mod crowds;
#[path = "faults/damage.rs"]
mod damage;
#[path = "trial/dice.rs"]
mod dice;
#[path = "faults/disk.rs"]
mod disk;
#[path = "faults/every_byte.rs"]
mod every_byte;
#[path = "faults/kills.rs"]
mod kills;
#[path = "trial/timed.rs"]
mod timed;

use std::time::Duration;

/// Nothing here takes long unless it hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// Whether `part` is the beginning of `whole`.
fn is_prefix(part: &[u8], whole: &[u8]) -> bool {
    whole.starts_with(part)
}
