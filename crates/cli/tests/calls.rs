//! Every system call of the table is made by some guest, recorded and replayed
//! with all that it gave gone.
//!
//! Apart from `environment.rs` because these guests are judged by single calls:
//! each prints every byte that the kernel may have written.

#[path = "environment/again.rs"]
mod again;
#[path = "trial/dice.rs"]
mod dice;
#[path = "environment/guest.rs"]
mod guest;
#[path = "trial/text.rs"]
mod text;
#[path = "trial/timed.rs"]
mod timed;

use again::{check, guest_with};
use relive_calls::{FIRST_NUMBERS, LATER_NUMBERS, find};
use std::collections::BTreeSet;
use std::path::Path;

/// The calls that no guest makes, and why.
const NOT_MADE: &[(&str, &str)] = &[
    ("rt_sigreturn", "only a handler's way back can make it, and every handler's does, as those of calls_signals.c"),
    ("vhangup", "it would hang up the terminal of whoever runs the test"),
];

/// What stands in a guest before the name of a call: it is made by its number, or its result is shown.
const MAKING: [&str; 2] = ["CALL(", "CAME("];

/// The names of the calls that the guest with this text makes.
fn made(text: &str) -> BTreeSet<String> {
    let name = |rest: &str| rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>();
    MAKING.iter().flat_map(|word| text.split(word).skip(1)).map(name).collect()
}

#[test]
fn every_call_is_made_by_a_guest_or_listed_with_the_reason() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guests/environment");
    let sources = std::fs::read_dir(folder).expect("the guests").map(|entry| entry.expect("a guest").path());
    let guests =
        sources.filter(|path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"calls_")));
    let made: BTreeSet<_> = guests.flat_map(|path| made(&std::fs::read_to_string(path).expect("a guest"))).collect();
    let table: BTreeSet<_> =
        FIRST_NUMBERS.chain(LATER_NUMBERS).filter_map(find).map(|call| call.name.to_owned()).collect();
    let listed: BTreeSet<_> = NOT_MADE.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(listed.len(), NOT_MADE.len(), "a call is listed twice");
    assert!(made.is_subset(&table), "not in the table: {:?}", made.difference(&table));
    assert!(listed.is_subset(&table), "not in the table: {:?}", listed.difference(&table));
    let both: Vec<_> = made.intersection(&listed).collect();
    assert!(both.is_empty(), "made by a guest and listed: {both:?}");
    let neither: Vec<_> = table.iter().filter(|name| !made.contains(*name) && !listed.contains(*name)).collect();
    assert!(neither.is_empty(), "no guest makes {neither:?}, and no reason is given");
}

/// A test for each guest; `varies` says whether recordings of it must differ.
macro_rules! guests {
    ($($test:ident: $guest:literal, varies $varies:literal;)*) => {
        $(
            #[test]
            fn $test() {
                let printed = check($varies, guest_with($guest, &[]));
                for name in made(include_str!(concat!("../../../guests/environment/", $guest, ".c"))) {
                    assert!(printed.contains(&format!("{name}: ")), "{}: {name} was not made", $guest);
                }
            }
        )*
    };
}

guests! {
    attributes_of_files_and_threads: "calls_attributes", varies false;
    what_is_asked_of_devices: "calls_devices", varies true;
    calls_that_fail: "calls_failing", varies false;
    files_and_descriptors: "calls_files", varies true;
    folders_and_what_is_known_of_files: "calls_folders", varies true;
    who_a_process_is_and_what_it_uses: "calls_identities", varies true;
    the_address_space: "calls_memory", varies false;
    pipes_counters_and_reports_of_changes: "calls_pipes", varies true;
    waiting_for_descriptors: "calls_polling", varies true;
    threads_and_processes: "calls_processes", varies true;
    queues_semaphores_and_keys: "calls_queues", varies true;
    signals: "calls_signals", varies true;
    segments: "calls_shared", varies true;
    sockets: "calls_sockets", varies true;
    clocks_sleeps_and_timers: "calls_times", varies true;
}
