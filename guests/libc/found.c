// A library may look functions of libc's up in libc itself, by a handle, as foreign function interfaces do. What it
// is given is what everybody else calls: locks that it takes are ordered, streams and memory are those of the rest.
#include "../transcript.h"
#include <dlfcn.h>
#include <sys/wait.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct transcript transcript;
static int rounds, waiting;

static int (*lock)(pthread_mutex_t *), (*unlock)(pthread_mutex_t *);
static int (*wait_for)(pthread_cond_t *, pthread_mutex_t *), (*wake)(pthread_cond_t *);
static FILE *(*opens)(const char *, const char *);
static int (*closes)(FILE *);
static char *(*copies)(const char *);
static void (*frees)(void *);
static pid_t (*forks)(void);

#define FIND(function, name) must_be((*(void **)&(function) = dlsym(libc, name)) != NULL)

static void find(void)
{
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    must_be(libc != NULL);
    FIND(lock, "pthread_mutex_lock");
    FIND(unlock, "pthread_mutex_unlock");
    FIND(wait_for, "pthread_cond_wait");
    FIND(wake, "pthread_cond_broadcast");
    FIND(opens, "fopen");
    FIND(closes, "fclose");
    FIND(copies, "strdup");
    FIND(frees, "free");
    FIND(forks, "fork");
    must_be(dlsym(libc, "there_is_no_such_function") == NULL && dlerror() != NULL);
    must_be(dlsym(libc, "fclose") == (void *)closes && dlerror() == NULL);
}

static void *worker(void *argument)
{
    int who = (int)(intptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        // One half of it by the functions that were found, the other by those that it is linked to.
        must(who % 2 ? pthread_mutex_lock(&mutex) : lock(&mutex));
        note(&transcript, (uint64_t)who);
        must(who % 2 ? unlock(&mutex) : pthread_mutex_unlock(&mutex));
        FILE *stream = who % 2 ? opens("/dev/null", "r") : fopen("/dev/null", "r");
        must_be(stream != NULL);
        must(who % 2 ? fclose(stream) : closes(stream));
        frees(copies("a string"));
        jitter();
    }
    must(lock(&mutex));
    waiting++;
    must(wake(&changed));
    must(unlock(&mutex));
    return NULL;
}

// THREADS ROUNDS
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4), status;
    pthread_t crew[MOST_THREADS];
    rounds = number(argc, argv, 2, 200);
    find();
    for (intptr_t who = 0; who < threads; who++)
        must(pthread_create(&crew[who], NULL, worker, (void *)who));
    pid_t child = forks();
    if (child == 0)
        _exit(7);
    must_be(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
    must(lock(&mutex));
    while (waiting < threads)
        must(wait_for(&changed, &mutex));
    must(unlock(&mutex));
    for (int who = 0; who < threads; who++)
        must(pthread_join(crew[who], NULL));
    show("found", &transcript);
    return 0;
}
