// Forks in a threaded program, from the main thread or from every thread at once.
// The child runs threads of its own; its result comes back through its exit status
// and a pipe that only its parent thread reads.
#include "../transcript.h"
#include <sys/wait.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;
static uint64_t results[MOST_THREADS];
static int rounds;
static int depth;
static int from_all;

static void *child_worker(void *argument)
{
    for (int round = 0; round < rounds; round++) {
        must(pthread_mutex_lock(&mutex));
        note(&transcript, (intptr_t)argument);
        must(pthread_mutex_unlock(&mutex));
        jitter();
    }
    return NULL;
}

static uint64_t spawn_child(int level);

static void in_child(int end, int level)
{
    // Another thread may have held the mutex at the fork, in the middle of a note:
    // the child starts afresh.
    must(pthread_mutex_init(&mutex, NULL));
    memset(&transcript, 0, sizeof transcript);
    crew(3, child_worker);
    uint64_t hash = transcript.hash;
    if (level > 1)
        hash = fold(hash, spawn_child(level - 1));
    must_be(write(end, &hash, sizeof hash) == sizeof hash);
    _exit(level);
}

static uint64_t spawn_child(int level)
{
    int ends[2];
    int status;
    uint64_t hash = 0;
    must_be(pipe(ends) == 0);
    pid_t child = fork();
    must_be(child >= 0);
    if (child == 0)
        in_child(ends[1], level);
    must_be(read(ends[0], &hash, sizeof hash) == sizeof hash);
    must_be(waitpid(child, &status, 0) == child);
    must_be(WIFEXITED(status) && WEXITSTATUS(status) == level);
    close(ends[0]);
    close(ends[1]);
    return hash;
}

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        must(pthread_mutex_lock(&mutex));
        note(&transcript, who);
        must(pthread_mutex_unlock(&mutex));
        jitter();
        if (from_all && round == rounds / 2)
            results[who] = spawn_child(depth);
    }
    return NULL;
}

// THREADS ROUNDS main|all [DEPTH]
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    pthread_t ids[MOST_THREADS];
    rounds = number(argc, argv, 2, 20);
    from_all = is(word(argc, argv, 3, "main"), "all");
    depth = number(argc, argv, 4, 1);
    for (int who = 0; who < threads; who++)
        must(pthread_create(&ids[who], NULL, worker, (void *)(intptr_t)who));
    if (!from_all)
        for (int child = 0; child < 3; child++)
            results[child] = spawn_child(depth);
    for (int who = 0; who < threads; who++)
        must(pthread_join(ids[who], NULL));
    show("order", &transcript);
    for (int child = 0; child < (from_all ? threads : 3); child++)
        printf("child %d %016llx\n", child, (unsigned long long)results[child]);
    return 0;
}
