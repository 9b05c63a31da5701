// A tree of threads: each creates its children, notes, and joins them; what a
// thread is called must not depend on who created first.
#include "../transcript.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct transcript transcript;
static int width;

struct branch {
    int depth;
    int name;
};

static void *worker(void *argument)
{
    struct branch own = *(struct branch *)argument;
    struct branch children[8];
    pthread_t ids[8];
    int born = own.depth > 0 ? width : 0;
    for (int child = 0; child < born; child++) {
        children[child] = (struct branch){own.depth - 1, own.name * width + child + 1};
        must(pthread_create(&ids[child], NULL, worker, &children[child]));
        jitter();
        must(pthread_mutex_lock(&mutex));
        note(&transcript, own.name);
        must(pthread_mutex_unlock(&mutex));
    }
    must(pthread_mutex_lock(&mutex));
    note(&transcript, own.name);
    must(pthread_mutex_unlock(&mutex));
    for (int child = 0; child < born; child++)
        must(pthread_join(ids[child], NULL));
    return NULL;
}

// WIDTH DEPTH
int main(int argc, char **argv)
{
    width = number(argc, argv, 1, 3);
    struct branch root = {number(argc, argv, 2, 3), 0};
    worker(&root);
    show("order", &transcript);
    return 0;
}
