//! What `relive races` has later recordings order: that a recording which did not replay
//! does then, at no more cost than it takes. And what a search says of programs that hand
//! over by such accesses, before they are ordered and after.
//!
//! Apart from the guests at the level of atomics, of which any lesson will do that makes
//! them replay.

#[path = "launching/desk.rs"]
mod desk;

use desk::{Desk, Run};

const APART: &str = include_str!("learning/apart.c");
const HANDED: &str = include_str!("learning/handed.c");
const LATE: &str = include_str!("learning/late.c");
const STOP: &str = include_str!("learning/stop.c");
const TEAM: &str = include_str!("learning/team.c");
/// Instructions of its that access the flag.
const AT_THE_FLAG: usize = 4;

fn record(desk: &Desk) -> String {
    let recorded = desk.relive(["record", "-q", "--level", "atomics", "--", "./late"]);
    assert_eq!((recorded.status, &*recorded.stderr), (Some(0), ""));
    recorded.stdout
}

/// How many accesses a search says that it has learnt.
fn learnt(run: &Run) -> Option<usize> {
    let line = run.stderr.lines().find(|line| line.contains(" more accesses are ordered in later recordings"))?;
    line.strip_prefix("relive: ")?.split(' ').next()?.parse().ok()
}

#[test]
fn of_a_thread_that_waits_in_vain_its_loop_is_learnt() {
    let desk = Desk::new();
    desk.build("late", LATE);
    record(&desk);
    // The replay diverges: the flag is not set for long.
    let lesson = desk.relive(["races"]);
    assert!(learnt(&lesson).is_some_and(|count| (1..=AT_THE_FLAG).contains(&count)), "{lesson:?}");
    let printed = record(&desk);
    for _ in 0..2 {
        assert_eq!(desk.relive(["replay"]).stdout, printed);
    }
    let search = desk.relive(["races"]);
    assert_eq!(search.status, Some(66), "what is ordered races still: {search:?}");
    assert_eq!(learnt(&search), None, "a recording that replays needs no more order");
}

#[test]
fn a_race_that_makes_the_replay_diverge_is_told_though_its_second_access_comes_later() {
    let desk = Desk::new();
    desk.build("stop", STOP);
    for _ in 0..3 {
        assert_eq!(desk.relive(["record", "-q", "--environment", "./stop"]).status, Some(0));
        let search = desk.relive(["races"]);
        let between =
            ["work() stop.c:26 reads stop, main() stop.c:50", "main() stop.c:50 writes stop, work() stop.c:26"];
        assert!(search.stdout.starts_with("1 data race\n"), "{search:?}");
        assert!(between.iter().any(|places| search.stdout.contains(places)), "{search:?}");
        assert!(search.stdout.contains("The replay left its recording"), "{search:?}");
        assert_eq!(search.status, Some(66));
    }
}

#[test]
fn a_flag_is_learnt_that_makes_the_replay_diverge_before_it_is_set() {
    let desk = Desk::new();
    desk.build("stop", STOP);
    let recorded = desk.relive(["record", "-q", "--environment", "--learn", "./stop"]);
    assert_eq!((recorded.status, &*recorded.stderr), (Some(0), ""));
    for _ in 0..3 {
        let replayed = desk.relive(["replay"]);
        assert_eq!((replayed.status, &*replayed.stderr), (Some(0), ""));
        assert!(recorded.stdout.ends_with(&replayed.stdout), "{replayed:?}");
    }
}

#[test]
fn what_is_handed_over_by_a_flag_is_not_learnt_besides() {
    let desk = Desk::new();
    desk.build("handed", HANDED);
    let recorded = desk.relive(["record", "-q", "--learn", "--learnt", "list", "./handed"]);
    assert_eq!((recorded.status, &*recorded.stderr), (Some(0), ""));
    for _ in 0..2 {
        let replayed = desk.relive(["replay"]);
        assert_eq!(replayed.status, Some(0), "{replayed:?}");
        assert!(recorded.stdout.ends_with(&replayed.stdout), "{replayed:?}");
    }
    let list = std::fs::read_to_string(desk.path("list")).unwrap();
    let kinds: Vec<_> = list.lines().filter(|line| line.contains("\"kind\"")).collect();
    assert!(kinds.len() > 3 && kinds.iter().all(|kind| kind.contains(" at flag+0x0")), "{list}");
}

#[test]
fn the_order_of_threads_with_many_objects_each_is_learnt() {
    let desk = Desk::new();
    desk.build("apart", APART);
    assert_eq!(desk.relive(["record", "-q", "--level", "atomics", "./apart"]).status, Some(0));
    for _ in 0..2 {
        let replayed = desk.relive(["replay"]);
        assert_eq!((replayed.status, &*replayed.stdout, &*replayed.stderr), (Some(0), "counted\n", ""));
        assert!(desk.latest().join("derived.order").is_file());
    }
}

/// The search in a recording that does not diverge: what threads of OpenMP's did not do in one lesson the next may have.
fn search_team(flags: &[&str]) -> Run {
    const DIVERGED: Option<i32> = Some(125);
    const LESSONS_MAX: usize = 3;
    let desk = Desk::new();
    desk.build_with("team", TEAM, &[&["-fopenmp"], flags].concat());
    let mut lessons = (0..LESSONS_MAX).map(|_| {
        let recorded = desk.relive(["record", "-q", "--environment", "--learn", "./team"]);
        assert_eq!((recorded.status, &*recorded.stderr), (Some(0), ""));
        desk.relive(["races"])
    });
    lessons.find(|search| search.status != DIVERGED).expect("a recording that replays")
}

#[test]
fn what_openmp_orders_does_not_race_and_its_runtime_races_with_itself() {
    let search = search_team(&[]);
    assert_eq!(search.status, Some(0), "{search:?}");
    assert!(search.stdout.starts_with("no data races\n"), "{search:?}");
    // Two times an array that all threads write would be 160,000 bytes.
    assert!(search.stderr.contains("with what is handed over by atomics"), "{search:?}");
    let bytes = search.stderr.split("which accesses race for ").nth(1).and_then(|rest| rest.split(' ').next());
    assert!(bytes.is_some_and(|bytes| bytes.parse::<u64>().unwrap() < 1000), "{search:?}");
}

#[test]
fn what_openmp_does_not_order_is_a_certain_race() {
    let search = search_team(&["-DRACING"]);
    assert_eq!(search.status, Some(66), "{search:?}");
    // The compiler reads it before the loop, too.
    assert!(search.stdout.contains(" data race") && !search.stdout.contains("after the first"), "{search:?}");
    assert!(search.stdout.contains("certain: the recording has no race before it"), "{search:?}");
    assert!(search.stdout.contains("hits: 8 bytes"), "{search:?}");
}

/// Threads that tell each other of a wait by flags; what the collector finds on stacks decides what it keeps, and what calls
/// follow.
const RUBY: &str = "q = Queue.new
threads = (1..3).map { |i| Thread.new { 5.times { |k| q << [i, k]; sleep 0.001 * rand } } }
threads.each(&:join)
puts Array.new(q.size) { q.pop }.inspect";

#[test]
fn what_a_collector_finds_on_stacks_is_the_same_whatever_is_ordered_or_looked_for() {
    const LESSONS_MAX: usize = 4;
    let desk = Desk::new();
    let recorded = desk.relive(["record", "-q", "--environment", "--level", "atomics", "--", "ruby", "-e", "puts 1"]);
    assert_eq!((recorded.status, &*recorded.stderr), (Some(0), ""));
    let replayed = desk.relive(["replay"]);
    assert_eq!((replayed.status, &*replayed.stdout, &*replayed.stderr), (Some(0), "1\n", ""));
    // What its threads did not do while it was learnt the next lesson may have.
    let is_right = (0..LESSONS_MAX).any(|_| {
        let learnt = desk.relive(["record", "-q", "--environment", "--learn", "--", "ruby", "-e", RUBY]);
        assert_eq!((learnt.status, &*learnt.stderr), (Some(0), ""));
        let recorded = desk.relive(["record", "-q", "--environment", "--", "ruby", "-e", RUBY]);
        let replays = [desk.relive(["replay"]), desk.relive(["replay"])];
        replays.iter().all(|replay| (replay.status, &replay.stdout) == (Some(0), &recorded.stdout))
    });
    assert!(is_right, "nothing that was learnt was enough");
}
