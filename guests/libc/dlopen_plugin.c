// The plugin of dlopen.c.
#include "../transcript.h"

extern pthread_mutex_t dlopen_mutex;
extern struct transcript dlopen_transcript;
extern _Thread_local int dlopen_self;

static void lock_and_note(int what)
{
    must(pthread_mutex_lock(&dlopen_mutex));
    note(&dlopen_transcript, what);
    must(pthread_mutex_unlock(&dlopen_mutex));
}

__attribute__((constructor)) static void loaded(void)
{
    lock_and_note(10 + dlopen_self);
    jitter();
}

__attribute__((destructor)) static void unloaded(void)
{
    lock_and_note(20 + dlopen_self);
}

void plugin_visit(int who);
void plugin_visit(int who)
{
    lock_and_note(who);
}
