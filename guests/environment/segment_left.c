// A segment that outlives the process that made it: another one finds what was left there.
//
// usage: segment_left make|read|remove

#include "../transcript.h"
#include <sys/ipc.h>
#include <sys/shm.h>

enum { BYTES = 300000 };

int main(int count, char **arguments)
{
    struct transcript transcript = {0};
    const char *what = word(count, arguments, 1, "read");
    key_t key = ftok(arguments[0], 'l');
    must_be(key != -1);
    int segment = shmget(key, is(what, "make") ? BYTES : 0, is(what, "make") ? IPC_CREAT | IPC_EXCL | 0600 : 0);
    must_be(segment >= 0);
    if (is(what, "remove")) {
        must_be(shmctl(segment, IPC_RMID, NULL) == 0);
        return 0;
    }
    unsigned *words = shmat(segment, NULL, 0), *also = shmat(segment, NULL, SHM_RDONLY);
    must_be(words != (void *)-1 && also != (void *)-1 && words != also);
    unsigned seed = (unsigned)getpid();
    for (unsigned at = 0; is(what, "make") && at < 50000; at++)
        words[at] = seed = seed * 1664525 + 1013904223;
    for (unsigned at = 0; at < BYTES / sizeof *words; at++)
        note(&transcript, also[at]);
    words[0]++;
    note(&transcript, also[0]);
    show("left", &transcript);
    return 0;
}
