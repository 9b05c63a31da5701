// Threads that come and go change who the process is, to who it is, as all may do: libc has every thread make the call, by
// a signal of its own. Others are at their locks, or sleep, meanwhile.
#include "../transcript.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;
static int rounds, done;

static void *changer(void *argument)
{
    switch ((intptr_t)argument % 4) {
    case 0: must(setuid(getuid())); break;
    case 1: must(setegid(getegid())); break;
    case 2: must(setresuid(-1, geteuid(), -1)); break;
    default: must_be(setresgid(getgid(), (gid_t)-1, (gid_t)-1) == 0);
    }
    must(pthread_mutex_lock(&mutex));
    note(&transcript, (intptr_t)argument);
    must(pthread_mutex_unlock(&mutex));
    return NULL;
}

static void *worker(void *argument)
{
    for (int over = 0; !over;) {
        must(pthread_mutex_lock(&mutex));
        note(&transcript, 100);
        over = done;
        must(pthread_mutex_unlock(&mutex));
        if (argument)
            usleep(100);
    }
    return NULL;
}

// ROUNDS
int main(int argc, char **argv)
{
    rounds = number(argc, argv, 1, 50);
    pthread_t others[2], threads[4];
    for (intptr_t i = 0; i < 2; i++)
        must(pthread_create(&others[i], NULL, worker, (void *)i));
    for (int round = 0; round < rounds; round++) {
        for (intptr_t i = 0; i < 4; i++)
            must(pthread_create(&threads[i], NULL, changer, (void *)i));
        for (int i = 0; i < 4; i++)
            must(pthread_join(threads[i], NULL));
    }
    must(pthread_mutex_lock(&mutex));
    done = 1;
    must(pthread_mutex_unlock(&mutex));
    for (int i = 0; i < 2; i++)
        must(pthread_join(others[i], NULL));
    show("order", &transcript);
    return 0;
}
