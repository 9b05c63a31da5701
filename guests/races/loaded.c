// Code that is loaded while the program runs, and gone when it ends.
#include "twins.h"
#include <dlfcn.h>

static volatile int shared;

static void *beside(void *argument)
{
    shared = 1; // race beside_library
    return argument;
}

static void *idle_beside(void *argument)
{
    return argument;
}

// libFILE next to the program.
static void *library(const char *program)
{
    char path[4096];
    snprintf(path, sizeof path, "%.4000s", program);
    char *slash = strrchr(path, '/');
    must_be(slash != NULL);
    strcpy(slash + 1, "loaded_library.so");
    void *loaded = dlopen(path, RTLD_NOW);
    must_be(loaded != NULL);
    return loaded;
}

int main(int argc, char **argv)
{
    const char *name = word(argc, argv, 1, "");
    void *loaded = library(argv[0]);
    work write_it = (work)dlsym(loaded, "write_it");
    must_be(write_it != NULL);
    pthread_t first, second;
    must(pthread_create(&first, NULL, write_it, (void *)&shared));
    must(pthread_create(&second, NULL, is(name, "ordered") ? idle_beside : beside, NULL));
    must(pthread_join(first, NULL));
    must(pthread_join(second, NULL));
    if (!is(name, "open"))
        must(dlclose(loaded));
    return 0;
}
