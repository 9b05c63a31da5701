//! Files that a program maps to be written and shared: looking at them changes nothing.
//!
//! Apart from the guests because each case is what one library does: `SQLite` locks the
//! file that it maps, and makes it anew when all have closed it.

#[path = "launching/desk.rs"]
mod desk;

use desk::Desk;

const LOCKED: &str = r#"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 100, .l_len = 1 };
    int file = open("shared", O_RDWR | O_CREAT, 0600);
    ftruncate(file, 32768);
    pwrite(file, "there", 5, 5000);
    fcntl(file, F_SETLK, &lock);
    lseek(file, 77, SEEK_SET);
    char *map = mmap(0, 32768, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (fork() == 0) {
        int same = open("shared", O_RDWR);
        _exit(fcntl(same, F_SETLK, &lock) == 0 ? 1 : errno == EAGAIN ? 2 : 3);
    }
    int status;
    wait(&status);
    printf("%s, at %ld, %.5s\n", WEXITSTATUS(status) == 2 ? "locked" : "free", (long)lseek(file, 0, SEEK_CUR), map + 5000);
    return 0;
}
"#;

const ANEW: &str = r#"
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    for (int round = 0; round < 3; round++) {
        int file = open("shared", O_RDWR | O_CREAT, 0600);
        ftruncate(file, 4096);
        char *map = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        printf("%d ", map[0]);
        map[0] = 65 + round;
        munmap(map, 4096);
        close(file);
        unlink("shared");
    }
    puts("");
    return 0;
}
"#;

/// Databases read so what they write by calls: LMDB, and `SQLite` if it is told to.
const READ_BY_A_MAP: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
static char *map;
static void show(const char *what) {
    printf("%s:", what);
    for (int at = 0; at < 20; at++)
        putchar(map[at] ? map[at] : '_');
    printf("%c\n", map[5000] ? map[5000] : '_');
}
int main(void) {
    int file = open("shared", O_RDWR | O_CREAT | O_TRUNC, 0600), same = open("shared", O_WRONLY);
    ftruncate(file, 8192);
    map = mmap(0, 8192, PROT_READ, MAP_SHARED, file, 0);
    write(file, "written", 7);
    show("write");
    struct iovec parts[] = { { "in ", 3 }, { "parts", 5 } };
    writev(file, parts, 2);
    show("writev");
    pwrite(same, "there", 5, 4998);
    pwritev2(file, parts, 1, -1, 0);
    pwritev(file, parts, 1, 1);
    show("at places");
    FILE *stream = fdopen(dup(same), "w");
    fputs("stream", stream);
    fclose(stream);
    show("stream");
    if (fork() == 0) {
        pwrite(open("shared", O_WRONLY), "child", 5, 10);
        _exit(0);
    }
    wait(0);
    show("child");
    fallocate(same, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 2, 3);
    show("hole");
    ftruncate(same, 12);
    ftruncate(same, 8192);
    show("shorter");
    truncate("shared", 6);
    truncate("shared", 8192);
    show("by its name");
    int end = open("shared", O_WRONLY | O_APPEND);
    ftruncate(file, 3);
    pwrite(end, "at the end", 10, 0);
    write(end, "!", 1);
    ftruncate(file, 8192);
    show("appended");
    close(open("shared", O_WRONLY | O_TRUNC));
    ftruncate(file, 8192);
    show("emptied");
    return 0;
}
"#;

fn check(source: &str, expected: &str) {
    let desk = Desk::new();
    desk.build("maps", source);
    let recorded = desk.relive(["record", "-q", "--environment", "./maps"]);
    assert_eq!((recorded.status, recorded.stdout.as_str()), (Some(0), expected));
    for _ in 0..2 {
        let replayed = desk.relive(["replay"]);
        assert_eq!((replayed.status, replayed.stdout.as_str()), (Some(0), expected), "{}", replayed.stderr);
    }
}

#[test]
fn a_recording_leaves_locks_and_positions_alone() {
    check(LOCKED, "locked, at 77, there\n");
}

#[test]
fn a_file_that_is_made_anew_has_nothing_of_the_one_before() {
    check(ANEW, "0 0 0 \n");
}

#[test]
fn a_map_shows_what_calls_change() {
    let expected = "write:written______________\nwritev:writtenin parts______\nat places:win tenin partsin __e\n\
        stream:streamnin partsin __e\nchild:streamnin childin __e\nhole:st___mnin childin __e\n\
        shorter:st___mnin ch_________\nby its name:st___m_______________\nappended:st_at the end!_______\n\
        emptied:_____________________\n";
    check(READ_BY_A_MAP, expected);
}
