//! Random programs: the order of effects at every object in a replay is the
//! order in the recording.
//!
//! Apart from the guests because nobody thought of these programs. Each comes
//! from a seed; `RELIVE_RANDOM_CASES` says how many are tried in all and
//! `RELIVE_RANDOM_FIRST` which seed is the first. A failure is made smaller and
//! then stands in `random/regressions.rs` for good, by the name of what it found.

#[path = "random/program.rs"]
mod program;
#[path = "random/regressions.rs"]
mod regressions;
#[path = "random/seeds.rs"]
mod seeds;
mod stage;
#[path = "random/text.rs"]
mod text;
#[path = "random/trial.rs"]
mod trial;

use proptest::strategy::ValueTree;

/// Cases unless the environment says otherwise.
const CASES: u64 = 500;
/// Of so many programs …
const SAMPLE: u64 = 40;
/// … at least so many show, within a few recordings, that they have more than one outcome.
const VARYING_MIN: usize = 20;
/// Recordings that may show it.
const RECORDINGS: usize = 4;

fn replays_keep_the_order(part: u64) {
    let interpreter = trial::interpreter();
    seeds::try_part(part, CASES, |seed| trial::check_seed(&interpreter, seed));
}

#[test]
fn replays_keep_the_order_first_part() {
    replays_keep_the_order(0);
}

#[test]
fn replays_keep_the_order_second_part() {
    replays_keep_the_order(1);
}

#[test]
fn replays_keep_the_order_third_part() {
    replays_keep_the_order(2);
}

#[test]
fn replays_keep_the_order_fourth_part() {
    replays_keep_the_order(3);
}

/// What always comes out the same would replay without any recording.
#[test]
fn many_programs_have_more_than_one_outcome() {
    let interpreter = trial::interpreter();
    let varies = |seed: &u64| {
        let text = text::text(&trial::drawn(*seed).current());
        let outcome = || trial::record(&interpreter, &text).map(|recording| recording.ended.stdout);
        let first = outcome().unwrap_or_else(|cause| panic!("seed {seed}, program {text}\n{cause}"));
        (1..RECORDINGS).any(|_| outcome().is_ok_and(|next| next != first))
    };
    let varying = (0..SAMPLE).filter(varies).count();
    assert!(varying >= VARYING_MIN, "{varying} of {SAMPLE} programs have more than one outcome");
}
