//! Random programs with known races: `relive races` finds a race on each byte that
//! races by what the program itself logged, and names no pair of lines that does not.
//!
//! Apart from the programs of the table because nobody thought of these, and because
//! here an oracle says what is right: happened-before over the order in which locks
//! were really taken. `RELIVE_RANDOM_CASES` says how many programs are tried and
//! `RELIVE_RANDOM_FIRST` which seed is the first.

#[path = "races/oracle.rs"]
mod oracle;
#[path = "races/random_program.rs"]
mod random_program;
#[path = "races/random_trial.rs"]
mod random_trial;
#[path = "races/report.rs"]
mod report;
#[path = "random/seeds.rs"]
mod seeds;
mod stage;

/// Programs unless the environment says otherwise.
const CASES: u64 = 120;
/// Of so many programs …
const SAMPLE: u64 = 40;
/// … at least so many race, and at least so many do not.
const EACH_MIN: usize = 8;

fn races_are_those_of_the_oracle(part: u64) {
    let interpreter = random_trial::interpreter();
    seeds::try_part(part, CASES, |seed| random_trial::check_seed(&interpreter, seed));
}

#[test]
fn races_are_those_of_the_oracle_first_part() {
    races_are_those_of_the_oracle(0);
}

#[test]
fn races_are_those_of_the_oracle_second_part() {
    races_are_those_of_the_oracle(1);
}

#[test]
fn races_are_those_of_the_oracle_third_part() {
    races_are_those_of_the_oracle(2);
}

#[test]
fn races_are_those_of_the_oracle_fourth_part() {
    races_are_those_of_the_oracle(3);
}

/// Programs that all race, or never, would show little.
#[test]
fn many_programs_race_and_many_do_not() {
    let interpreter = random_trial::interpreter();
    let races = |seed| match random_trial::expected_natively(&interpreter, seed) {
        Ok(expected) => !expected.bytes.is_empty(),
        Err(cause) => panic!("seed {seed}: {cause}"),
    };
    let racing = (0..SAMPLE).filter(|&seed| races(seed)).count();
    let ordered = SAMPLE as usize - racing;
    assert!(racing >= EACH_MIN && ordered >= EACH_MIN, "{racing} programs race and {ordered} do not");
}
