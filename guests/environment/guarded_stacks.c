// Detached threads that guard the lower end of their own stacks, as virtual machines do, and end so. More of them than
// are kept apart until they are surely gone: the later ones get stacks of the earlier ones.
//
// usage: guarded_stacks THREADS

#include "../transcript.h"
#include <sys/mman.h>

#define GUARD_BYTES (4 * 4096)

static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static struct transcript transcript;
static int ended;

static void *worker(void *unused)
{
    pthread_attr_t attributes;
    void *lowest;
    size_t size;
    must(pthread_getattr_np(pthread_self(), &attributes));
    must(pthread_attr_getstack(&attributes, &lowest, &size));
    must(pthread_attr_destroy(&attributes));
    must_be(mprotect(lowest, GUARD_BYTES, PROT_NONE) == 0);
    must(pthread_mutex_lock(&guard));
    note(&transcript, (uintptr_t)lowest);
    ended++;
    must(pthread_cond_signal(&came));
    must(pthread_mutex_unlock(&guard));
    return unused;
}

int main(int count, char **arguments)
{
    int wanted = number(count, arguments, 1, 40);
    for (int started = 1; started <= wanted; started++) {
        pthread_t thread;
        must(pthread_create(&thread, NULL, worker, NULL));
        must(pthread_detach(thread));
        must(pthread_mutex_lock(&guard));
        while (ended < started)
            must(pthread_cond_wait(&came, &guard));
        must(pthread_mutex_unlock(&guard));
    }
    show("guarded_stacks", &transcript);
    return 0;
}
