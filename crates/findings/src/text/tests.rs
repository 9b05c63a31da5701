//! Whole texts as they are read.

use super::Style;
use crate::made_up;
use crate::raw::{NO_THREAD, RawDivergence, RawSegments, RawStored};
use crate::report::Report;
use insta::assert_snapshot;

fn text(report: &Report, style: Style) -> String {
    let mut text = String::new();
    report.text(&mut text, style).expect("a string takes everything");
    text
}

fn plain(report: &Report) -> String {
    text(report, Style { sources: false, ..Style::default() })
}

/// What of the report with everything stands between the lines that begin so.
fn section(from: &str, to: &str) -> String {
    let text = plain(&made_up::report());
    let lines = text.lines().skip_while(|line| !line.starts_with(from)).take_while(|line| !line.starts_with(to));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_first_screen_tells_the_first_race() {
    assert_snapshot!(section("", "#2"), @r##"
    2 races: 1 certain, 1 after the first race; 1 possible (atomic?); 1 suppressed

       1 data race: add() race.c:7 writes total, reader() race.c:40 reads it, unordered
       2 after the first: race with free: worker() race.c:34 reads node.next in a heap block, clean()
         race.c:52 frees it, unordered
       3 possible: data race: add() race.c:99 writes total, reader() race.c:99 reads it, unordered

    #1 data race: add() race.c:7 writes total, reader() race.c:40 reads it, unordered
      certain: the recording has no race before it; seen 12 times
      total: 4 bytes at 0x555555558010, global of race, declared at race.c:4

      thread 0.1 "worker" writes 4 bytes, value 42
        #0  add()           /src/race.c:7:5 (inlined)
        #1  worker()        /src/race.c:31:5
        #2  start_thread()  libc.so.6+0x891f4
        holds lock_a, taken at worker() race.c:30
        thread created by thread 0 at main() race.c:65

      thread 0.2 reads 4 bytes, value 0
        #0  reader()        /src/race.c:40:5
        #1  start_thread()  libc.so.6+0x891f4
        holds no lock
        thread created by thread 0 at main() race.c:66

      Why unordered: they hold no lock in common, and no synchronisation leads from one to the other.
        thread 0.1 "worker": lock of lock_a (event 12), then it writes, then unlock of lock_a (event 13)
        thread 0.2: its start, then it reads, then semaphore post of 0x555555558080 (event 1)
      fingerprint cac9de5691894e6c; to suppress it: race_top:^add$
    "##);
}

#[test]
fn a_race_with_free_names_its_block() {
    assert_snapshot!(section("#2", "Possible"), @r##"
    #2 race with free: worker() race.c:34 reads node.next in a heap block, clean() race.c:52 frees it,
        unordered
      after the first race: it may be a consequence of that one
      node.next: 8 bytes at 0x300000001048, 8 bytes inside a heap block of 64 bytes
        allocated by thread 0 at make() race.c:45, called by main() race.c:62
        freed by thread 0 at clean() race.c:52

      thread 0.1 "worker" reads 32 bytes, those that race: 61 62 00 00 00 00 00 ff
        #0  memcpy()        libc.so.6+0x891f4
        #1  worker()        /src/race.c:34:5
        #2  start_thread()  libc.so.6+0x891f4
        holds no lock
        thread created by thread 0 at main() race.c:65

      thread 0 frees, while the process exits
        #0  free()   libc.so.6+0x891f4
        #1  clean()  /src/race.c:52:5
        #2  main()   /src/race.c:70:5
        holds no lock

      Why unordered: neither holds a lock, and no synchronisation leads from one to the other.
        thread 0.1 "worker": unlock of lock_a (event 14), then it reads
        thread 0: join of 0x555555558080 (event 9), then it frees
      fingerprint 06fa18969b436771; to suppress it: race:^worker$
    "##);
}

#[test]
fn possible_races_are_set_apart() {
    assert_snapshot!(section("Possible", "  thread"), @r##"
    Possible races: accesses like these may be meant as atomics.

    #3 data race: add() race.c:99 writes total, reader() race.c:99 reads it, unordered
      possible: atomic accesses are plain moves as well; seen 12 times
      total: 4 bytes at 0x555555558010, global of race, declared at race.c:4
    "##);
}

#[test]
fn what_is_not_about_one_race_is_last() {
    assert_snapshot!(section("Not observed", "never"), @r##"
    Not observed:
      instructions that can't be decoded in libodd.so (2 times)

    For better names:
      /opt/libodd.so has no debug information: install it

    Suppressions that hid nothing:
      race:nothing (my.supp:3)
    "##);
}

#[test]
fn a_single_race_begins_at_once_and_quotes_its_source() {
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("race.c");
    std::fs::write(&source, "\n".repeat(39) + "\treturn total; // not locked\n").expect("a source");
    let mut report = made_up::report();
    report.races.truncate(1);
    report.unobserved.clear();
    for frame in &mut report.races[0].accesses[1].stack {
        frame.file = frame.file.as_ref().map(|_| source.to_string_lossy().into_owned());
    }
    let text = text(&report, Style::default()).replace(&*folder.path().to_string_lossy(), "/src");
    let lines: Vec<&str> = text.lines().skip(14).take(5).collect();
    assert!(text.starts_with("1 data race\n\n#1 data race: add()"), "{text}");
    assert_snapshot!(lines.join("\n"), @r##"
        40 | return total; // not locked
        #0  reader()        /src/race.c:40:5
        #1  start_thread()  libc.so.6+0x891f4
        holds no lock
        thread created by thread 0 at main() race.c:66
    "##);
}

#[test]
fn segments_are_a_table_where_they_were_counted() {
    let exact = RawStored { created: 1200, stored_max: 7, bytes_max: 65536, compared: 123_456_789 };
    let snooped = RawStored { stored_max: 12, bytes_max: 98304, ..exact };
    let segments = Some(RawSegments { exact, snooped });
    assert_snapshot!(plain(&Report { complete: true, segments, ..Report::default() }), @"
    no data races

    Segments, as RecPlay counts them:
      freed                    created   most stored   their bytes      compared
      after last partner          1200             7         65536     123456789
      by snooped clocks           1200            12         98304     123456789
    ");
}

#[test]
fn no_race_is_one_line() {
    assert_eq!(plain(&Report { complete: true, ..Report::default() }), "no data races\n");
}

#[test]
fn an_end_before_the_end_is_said() {
    let died = plain(&Report::default());
    assert!(died.starts_with("no data races found in what was observed\n"), "{died}");
    assert!(died.contains("The replay ended before it had told everything"), "{died}");
    let diverged = Some(RawDivergence { thread: 1, event: 7, what: "unlock, recorded was lock".to_owned() });
    let text = plain(&Report { diverged, ..made_up::report() });
    let said =
        "The replay left its recording here: thread 0.1 \"worker\", after its event 7: unlock, recorded was lock.";
    assert!(text.replace("\n  ", " ").contains(said), "{text}");
    let diverged = Some(RawDivergence { thread: NO_THREAD, event: 0, what: "thread 0.1 spins".to_owned() });
    let text = plain(&Report { diverged: diverged.clone(), ..made_up::report() });
    assert!(text.contains("The replay left its recording here: thread 0.1 spins."), "{text}");
    let text = plain(&Report { diverged, complete: true, ..Report::default() });
    assert!(text.starts_with("no data races found before the replay left its recording\n"), "{text}");
}

#[test]
fn lines_keep_to_the_width_and_colour_is_asked_for() {
    let mut report = made_up::report();
    for race in &mut report.races {
        for frame in race.accesses.iter_mut().flat_map(|access| &mut access.stack) {
            frame.function = frame.function.as_ref().map(|name| format!("{}::{name}", "very_long_namespace".repeat(4)));
            frame.file = frame.file.as_ref().map(|file| format!("{}{file}", "/some/deep/folder".repeat(8)));
        }
    }
    for width in [80, 100, 140] {
        let text = text(&report, Style { width, ..Style::default() });
        assert!(!text.contains('\x1b'));
        // A single word that does not fit is not broken: a name can be searched for.
        let wide = text.lines().filter(|line| line.chars().count() > width);
        let breakable =
            wide.filter(|line| line.trim().split(' ').map(|word| word.chars().count()).max() < Some(width / 2));
        assert_eq!(breakable.collect::<Vec<_>>(), [""; 0], "{width}");
    }
    let coloured = text(&report, Style { colour: true, ..Style::default() });
    let starts = coloured.matches("\x1b[1;31m#").count();
    assert_eq!((starts, coloured.matches("\x1b[0m").count()), (3, coloured.matches("\x1b[").count() / 2));
}
