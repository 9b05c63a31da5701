// C11's threads, mutexes, conditions, once and thread-specific data.
#include "twins.h"
#include <threads.h>

static mtx_t mutex, another;
static cnd_t changed;
static once_flag flag = ONCE_FLAG_INIT;
static tss_t key;
static volatile int shared;
static int ready;

static void done(int status)
{
    must_be(status == thrd_success);
}

static int one(void *argument)
{
    (void)argument;
    done(mtx_lock(&mutex));
    shared = 1; // race one
    done(mtx_unlock(&mutex));
    return 0;
}

static int other(void *argument)
{
    (void)argument;
    while (mtx_trylock(&mutex) != thrd_success)
        thrd_yield();
    shared = 2;
    done(mtx_unlock(&mutex));
    return 0;
}

static int timed(void *argument)
{
    (void)argument;
    struct timespec until = in_microseconds(CLOCK_REALTIME, 60L * 1000000);
    done(mtx_timedlock(&mutex, &until));
    shared = 2;
    done(mtx_unlock(&mutex));
    return 0;
}

static int with_another(void *argument)
{
    (void)argument;
    done(mtx_lock(&another));
    shared = 2; // race with_another
    done(mtx_unlock(&another));
    return 0;
}

static int sender(void *argument)
{
    (void)argument;
    shared = 1;
    done(mtx_lock(&mutex));
    ready = 1;
    done(cnd_signal(&changed));
    done(mtx_unlock(&mutex));
    return 0;
}

static int hasty_sender(void *argument)
{
    (void)argument;
    done(mtx_lock(&mutex));
    ready = 1;
    done(cnd_broadcast(&changed));
    done(mtx_unlock(&mutex));
    shared = 1; // race after_signal
    return 0;
}

static int receiver(void *argument)
{
    (void)argument;
    done(mtx_lock(&mutex));
    while (!ready)
        done(cnd_wait(&changed, &mutex));
    done(mtx_unlock(&mutex));
    (void)shared; // race received
    return 0;
}

static void initialise(void)
{
    shared = 1; // race initialiser
}

static int asking(void *argument)
{
    (void)argument;
    call_once(&flag, initialise);
    (void)shared;
    return 0;
}

static int calling(void *argument)
{
    (void)argument;
    call_once(&flag, initialise);
    return 0;
}

static int not_asking(void *argument)
{
    (void)argument;
    (void)shared; // race not_asking
    return 0;
}

static void destroy(void *value)
{
    *(volatile int *)value = 3; // race destroyed
}

static int holder(void *argument)
{
    (void)argument;
    done(tss_set(key, (void *)&shared));
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        thrd_start_t one, other;
    } cases[] = {
        {"held", one, one},
        {"try", one, other},
        {"timed", one, timed},
        {"different", one, with_another},
        {"condition", sender, receiver},
        {"after_signal", hasty_sender, receiver},
        {"once", asking, asking},
        {"once_not_asked", calling, not_asking},
        {"specific", holder, not_asking},
    };
    done(mtx_init(&mutex, mtx_timed));
    done(mtx_init(&another, mtx_plain | mtx_recursive));
    done(cnd_init(&changed));
    done(tss_create(&key, destroy));
    const char *name = word(argc, argv, 1, "");
    thrd_t first, second;
    if (is(name, "joined")) {
        done(thrd_create(&first, holder, NULL));
        done(thrd_join(first, NULL));
        shared = 4;
        return 0;
    }
    for (size_t at = 0; at < sizeof cases / sizeof *cases; at++) {
        if (!is(cases[at].name, name))
            continue;
        done(thrd_create(&first, cases[at].one, NULL));
        done(thrd_create(&second, cases[at].other, NULL));
        done(thrd_join(first, NULL));
        done(thrd_join(second, NULL));
        return 0;
    }
    return 98;
}
