// Plugins opened by all threads, found next to the program through $ORIGIN. Their
// constructors lock a mutex of the program that other threads hold for a while, so
// the loader's own lock is held across recorded operations. With `deepbind`, the
// plugin asks for its own symbols first, which must not take it out of the recording.
#include "../transcript.h"
#include <dlfcn.h>
#include <link.h>

pthread_mutex_t dlopen_mutex = PTHREAD_MUTEX_INITIALIZER;
struct transcript dlopen_transcript;
_Thread_local int dlopen_self;

static int rounds;
static int flags = RTLD_NOW | RTLD_LOCAL;

static void lock_and_note(int what)
{
    must(pthread_mutex_lock(&dlopen_mutex));
    note(&dlopen_transcript, what);
    must(pthread_mutex_unlock(&dlopen_mutex));
}

static int on_object(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)info;
    (void)size;
    int *objects = (int *)argument;
    if ((*objects)++ == 0)
        lock_and_note(30 + dlopen_self);
    return 0;
}

static void *worker(void *argument)
{
    dlopen_self = (int)(intptr_t)argument;
    for (int round = 0; round < rounds; round++) {
        int objects = 0;
        void *plugin = dlopen("dlopen_plugin.so", flags);
        if (plugin == NULL) {
            fprintf(stderr, "%s\n", dlerror());
            _exit(99);
        }
        void (*visit)(int);
        *(void **)&visit = dlsym(plugin, "plugin_visit");
        must_be(visit != NULL);
        visit(dlopen_self);
        lock_and_note(dlopen_self);
        dl_iterate_phdr(on_object, &objects);
        must_be(dlclose(plugin) == 0);
        jitter();
    }
    return NULL;
}

// THREADS ROUNDS plain|deepbind
int main(int argc, char **argv)
{
    int threads = number(argc, argv, 1, 4);
    rounds = number(argc, argv, 2, 20);
    if (is(word(argc, argv, 3, "plain"), "deepbind"))
        flags |= RTLD_DEEPBIND;
    crew(threads, worker);
    show("order", &dlopen_transcript);
    return 0;
}
