// pthread_once: threads pass the same controls in different orders; initialisers
// lock, note and go on to other controls. A loser that finds it done must still be
// ordered behind the winner's events, or a replay deadlocks.
#include "../transcript.h"

#define CONTROLS 16

static pthread_once_t controls[CONTROLS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int made[CONTROLS];
static int rounds;
static struct transcript transcript;
static _Thread_local int self;
static _Thread_local int wanted;

static void lock_and_note(int what)
{
    must(pthread_mutex_lock(&mutex));
    note(&transcript, what);
    must(pthread_mutex_unlock(&mutex));
}

static void initialise(void)
{
    int control = wanted;
    for (int step = 0; step < 3; step++) {
        lock_and_note(self);
        jitter();
    }
    made[control] = 1 + self;
    // Initialising one thing needs another, always a later one.
    if (control + 1 < CONTROLS && control % 2 == 0) {
        wanted = control + 1;
        must(pthread_once(&controls[wanted], initialise));
    }
}

static void *worker(void *argument)
{
    self = (int)(intptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        int control = (self * 5 + round) % CONTROLS;
        wanted = control;
        must(pthread_once(&controls[control], initialise));
        must_be(made[control] > 0);
        lock_and_note(20 + made[control]);
    }
    return NULL;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, CONTROLS);
    crew(threads, worker);
    show("order", &transcript);
    for (int control = 0; control < CONTROLS; control++)
        printf("%d by %d\n", control, made[control]);
    return 0;
}
